"""`make bench-cores`: the same work by 1, 2, 4, ... threads, with the machine's own limits.

A full run writes its table into docs/performance.md, and a picture of it to docs/cores.svg.

Every command is a whole process, over 1 GB.  The numbers of threads take turns, and the least time of several
rounds counts: of five, or of as many as fit into the row's share of five minutes, and at least of two.
It fails where more threads take longer than fewer by more than 5 %.  The ceilings are measured in the same
run, by as many threads of this process: copying memory, CRC-32C, and reading and writing a file in pieces of
8 MB.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formats.store.work.workers import processors
from formats.wire.crc32c import extend
from tests.benchmarks.__main__ import machine
from tests.benchmarks.data import large_bundle
from tests.benchmarks.harness import CKPT, ROOT, run, supply_memory
from tests.benchmarks.picture import PAGE, STYLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SLOWER = 1.05
PIECE = 8 << 20
MEGABYTES, ROUNDS, MINUTES = 1024, 5, 5.0
_FEWEST = 2
PICTURE = os.path.join(ROOT, "docs", "cores.svg")
_BLOCK = re.compile(r"(<!-- cores -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTH, _LEFT, _BAR, _LINE = 640, 250, 320, 14


class CoresRow(NamedTuple):
    """Seconds by number of threads, for so many bytes."""

    name: str
    nbytes: int
    seconds: dict[int, float]
    is_ceiling: bool = False

    @property
    def slower(self) -> list[str]:
        """Say which numbers of threads took longer than fewer did."""
        if self.is_ceiling:
            return []
        found, least = [], None
        for jobs, seconds in sorted(self.seconds.items()):
            if least is not None and seconds > SLOWER * self.seconds[least]:
                found.append(
                    f"{self.name}: {jobs} threads took {seconds:.3f} s, {least} {self.seconds[least]:.3f} s"
                )
            if least is None or seconds < self.seconds[least]:
                least = jobs
        return found

    @property
    def speeds(self) -> dict[int, float]:
        """GB/s by number of threads."""
        return {jobs: self.nbytes / seconds / 1e9 for jobs, seconds in sorted(self.seconds.items())}

    def __str__(self) -> str:
        return f"| {self.name} | {' | '.join(f'{speed:.1f}' for speed in self.speeds.values())} |"


def counts(most: int) -> list[int]:
    """Return 1, 2, 4, ... up to the machine's processors, and at least to 8."""
    return [1 << power for power in range(max(most, 8).bit_length()) if 1 << power <= max(most, 8)]


def together(work: Callable[[int], object], jobs: int) -> float:
    """Return the seconds that threads take, each for its part."""
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda _: None, range(jobs)))
        began = time.perf_counter()
        list(pool.map(work, range(jobs)))
        return time.perf_counter() - began


def _copy_memory(size: int, jobs: int) -> float:
    parts = [(np.ones(size // jobs, np.uint8), np.ones(size // jobs, np.uint8)) for _ in range(jobs)]
    return together(lambda number: np.copyto(*parts[number]), jobs)


def _checksum(size: int, jobs: int) -> float:
    piece = np.ones(PIECE, np.uint8)
    return together(lambda _: [extend(0, piece) for _ in range(size // jobs // PIECE)], jobs)


def _copy_file(source: str, target: str, size: int, jobs: int) -> float:
    """Copy a file's bytes in pieces; each thread copies one range."""
    one, other = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    share = size // jobs

    def copy(number: int) -> None:
        room = bytearray(PIECE)
        for at in range(number * share, (number + 1) * share, PIECE):
            count = os.preadv(one, [room], at)
            os.pwrite(other, memoryview(room)[:count], at)

    try:
        return together(copy, jobs)
    finally:
        os.close(one)
        os.close(other)
        os.unlink(target)


def _command(words: Sequence[str], target: str | None, size: int, jobs: int) -> float:
    if target is not None:
        for name in os.listdir(os.path.dirname(target)):
            os.unlink(os.path.join(os.path.dirname(target), name))
        supply_memory(size)
    return run([*CKPT, *words, "-j", str(jobs)], watch=False, fails=words[0] == "diff").seconds


def measures(directory: str, size: int) -> list[tuple[str, bool, Callable[[int], float]]]:
    """Return each measurement: its name, whether it is a ceiling, and seconds by number of threads."""
    one = large_bundle(os.path.join(directory, "one-1"), 16, size)
    two = large_bundle(os.path.join(directory, "two-1"), 16, size, seed=1)
    torch = os.path.join(directory, "one.pt")
    run([*CKPT, "convert", one, torch], watch=False)
    data = f"{one}.data-00000-of-00001"
    out = os.path.join(directory, "out")
    os.mkdir(out)
    command = partial(partial, _command)
    bundle, tensors = os.path.join(out, "target-1"), os.path.join(out, "target.safetensors")
    return [
        ("ceiling: copying memory", True, partial(_copy_memory, size)),
        ("ceiling: CRC-32C", True, partial(_checksum, size)),
        ("ceiling: pread and pwrite", True, partial(_copy_file, data, os.path.join(directory, "copy"), size)),
        ("verify", False, command(["verify", one], None, size)),
        ("verify .pt", False, command(["verify", torch], None, size)),
        ("stats", False, command(["stats", one], None, size)),
        ("diff, other values", False, command(["diff", one, two], None, size)),
        ("diff --exact, equal values", False, _equal(one, size)),
        ("average of 2", False, command(["average", one, two, "-o", bundle], bundle, size)),
        ("convert, not verified", False, command(["convert", one, bundle, "--no-verify"], bundle, size)),
        ("convert", False, command(["convert", one, bundle], bundle, size)),
        ("convert .pt to .safetensors", False, command(["convert", torch, tensors], tensors, size)),
    ]


def _equal(path: str, size: int) -> Callable[[int], float]:
    def seconds(jobs: int) -> float:
        return run([*CKPT, "diff", "--exact", path, path, "-j", str(jobs)], watch=False).seconds

    return seconds


def rounds_of(
    measure: Callable[[int], float], jobs: Sequence[int], most: int, share: float
) -> dict[int, float]:
    """Return the least seconds by number of threads, of `most` rounds or as many as take `share` seconds."""
    began, least = time.monotonic(), dict.fromkeys(jobs, float("inf"))
    for number in range(1, most + 1):
        for count in jobs:
            least[count] = min(least[count], measure(count))
        if number >= _FEWEST and (time.monotonic() - began) * (number + 1) / number > share:
            break
    return least


def heading(jobs: Sequence[int]) -> str:
    """Return the first two lines of the table."""
    return f"| work | {' | '.join(map(str, jobs))} |\n| --- |{' ---: |' * len(jobs)}"


def section(said: str, rows: Sequence[CoresRow]) -> str:
    """Return the section of docs/performance.md; `said` describes the machine."""
    return (
        "\n## By number of threads\n\n"
        f"GB/s with `-j 1` and more, the best of {_FEWEST} to {ROUNDS} runs over {MEGABYTES} MiB each. "
        "The first rows are what the machine itself can do.\n"
        f"Measured by `make bench-cores` on a virtual machine: {said}.\n\n"
        "![Speed by number of threads, as bars](cores.svg)\n\n"
        + "\n".join([heading(sorted(rows[0].seconds)), *map(str, rows)])
        + "\n\n"
    )


def drawn(rows: Sequence[CoresRow]) -> str:
    """Return a picture: for each row a bar per number of threads, all of one scale within the row."""
    parts, top = [], 0
    for row in rows:
        kind, longest = "rival" if row.is_ceiling else "ckpt", max(row.speeds.values())
        parts.append(f'<text class="work" x="0" y="{top + _LINE}">{escape(row.name)}</text>')
        for jobs, speed in row.speeds.items():
            width, y = max(2, speed / longest * _BAR), top + 3
            parts += [
                f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end">{jobs}</text>',
                f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_LINE - 2}" rx="2"/>',
                f'<text x="{_LEFT + width + 6:.1f}" y="{y + 11}">{speed:.1f} GB/s</text>',
            ]
            top += _LINE
        top += _LINE
    size = f'width="{_WIDTH}" height="{top}" viewBox="0 0 {_WIDTH} {top}"'
    title = "<title>GB/s by number of threads; longer is better</title>"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            title,
            f"<style>{STYLE.replace('13px', '12px')}</style>",
            *parts,
            "</svg>\n",
        ]
    )


def publish(said: str, rows: Sequence[CoresRow]) -> None:
    """Write the table into the page, and the picture next to it."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    text = section(said, rows)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(_BLOCK.sub(lambda match: match[1] + text + match[2], page))
    with open(PICTURE, "w", encoding="utf-8") as file:
        file.write(drawn(rows))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cores", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, metavar="N", help="of tensors (1024)")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help="of which the least counts (5)"
    )
    parser.add_argument("--row", default="", metavar="TEXT", help="only rows with this in their name")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, metavar="N", help="for all rows, if two rounds fit (5)"
    )
    options = parser.parse_args(arguments)
    size, jobs = options.megabytes << 20, counts(processors())
    print(f"{machine()}; {options.megabytes} MiB; GB/s by number of threads\n")
    print(heading(jobs))
    found: list[CoresRow] = []
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=os.environ.get("CKPT_BENCH_DIR")) as directory:
        chosen = [row for row in measures(directory, size) if options.row in row[0]]
        for name, is_ceiling, measure in chosen:
            share = options.minutes * 60 / len(chosen)
            row = CoresRow(name, size, rounds_of(measure, jobs, options.rounds, share), is_ceiling)
            print(row, flush=True)
            found.append(row)
    if (options.megabytes, options.rounds, options.minutes, options.row) == (MEGABYTES, ROUNDS, MINUTES, ""):
        publish(machine(), found)
    slower = [text for row in found for text in row.slower]
    print("\n" + ("\n".join(slower) or "no row is slower with more threads"))
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
