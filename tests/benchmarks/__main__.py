"""`make bench`: every bar as a row, judged."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from typing import TYPE_CHECKING

from tests.benchmarks import (
    comparing,
    exports,
    large,
    listing,
    orbax,
    pytorch,
    reading,
    remote,
    sharing,
    training,
    writing,
)
from tests.benchmarks.harness import HEADER, Missing, Row, Scale

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITES = (listing, reading, writing, pytorch, orbax, exports, comparing, training, large, remote, sharing)


def rows(scale: Scale, only: list[str], text: str) -> Iterator[Row]:
    """Yield the rows of some suites, or all.  A row whose rival is missing says so."""
    for suite in SUITES:
        if only and suite.__name__.rpartition(".")[2] not in only:
            continue
        with tempfile.TemporaryDirectory(
            prefix="ckpt-bench-", dir=os.environ.get("CKPT_BENCH_DIR")
        ) as folder:
            for name, measure in suite.rows(folder, scale):
                if text not in name:
                    continue
                try:
                    yield measure()
                except Missing as missing:
                    yield Row(name, missing=str(missing))


def machine() -> str:
    with open("/proc/meminfo", encoding="ascii") as file:
        kilobytes = int(file.readline().split()[1])
    return (
        f"{platform.machine()}, {os.cpu_count()} processors, {kilobytes / 1e6:.0f} GB of memory, "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the data, and no verdict")
    names = [suite.__name__.rpartition(".")[2] for suite in SUITES]
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"only these of {', '.join(names)}")
    parser.add_argument("--row", default="", metavar="TEXT", help="only rows with this in their name")
    options = parser.parse_args(arguments)
    if unknown := set(options.suites) - set(names):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    quick, scale = options.quick, Scale(1 / 16, 1) if options.quick else Scale()
    print(machine())
    print(HEADER)
    found: list[Row] = []
    for row in rows(scale, options.suites, options.row):
        shown = row._replace(name=row.name, bar="", holds=None) if quick else row
        found.append(shown)
        print(shown, flush=True)
    with open("bench-results.json", "w", encoding="utf-8") as file:
        document = {"machine": machine(), "quick": quick, "rows": [row._asdict() for row in found]}
        json.dump(document, file, indent=1)
    judged = [row for row in found if row.holds is not None]
    if quick:
        print(f"{len(found)} rows; bars are for `make bench`")
        return 0
    print(f"{sum(bool(row.holds) for row in judged)} of {len(judged)} limits are met")
    return int(not all(row.holds for row in judged))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
