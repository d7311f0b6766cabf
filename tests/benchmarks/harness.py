"""Running commands in turn and comparing them.

A machine's speed drifts, so a figure alone says little: each of ours is measured
between two of its rival's, and the median of the ratios is what counts.  Every
command is a whole process.  Its peak memory is the most anonymous memory seen in looks
2 ms apart: what the system keeps of a finished process counts files and its parent, too.

A row with a bar of None is only informative.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CKPT = [os.path.join(os.path.dirname(sys.executable), "ckpt")]
TENSORFLOW = {
    "2.15": os.environ.get("CKPT_TF215", os.path.join(ROOT, ".venv-tf215")),
    "2.21": os.environ.get("CKPT_TF221", os.path.join(ROOT, ".venv-tf221")),
}
TORCH = os.environ.get("CKPT_TORCH", os.path.join(ROOT, ".venv-torch"))

# Compiled modules are what an installed program has, and TensorFlow's greetings are not part of its work.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
}


_FREE_PAGE_REPORTING = "/sys/module/page_reporting"


class Run(NamedTuple):
    """A finished process: wall seconds, peak anonymous bytes on request, and its output."""

    seconds: float
    peak: int
    out: str


class _Watch(threading.Thread):
    """Looks at a process's anonymous memory until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.path = f"/proc/{pid}/status"
        self.peak = 0

    def run(self) -> None:
        while True:
            try:
                with open(self.path, encoding="ascii", errors="replace") as file:
                    found = next((line for line in file if line.startswith("RssAnon:")), None)
            except (FileNotFoundError, ProcessLookupError):
                return
            if found is None:  # a process that has ended, and was not waited for yet
                return
            self.peak = max(self.peak, int(found.split()[1]) * 1024)
            time.sleep(0.002)


_peak = 0


def take_peak() -> int:
    """Return the peak of our own commands since the last call."""
    global _peak
    peak, _peak = _peak, 0
    return peak


def run(command: Sequence[str], *, keep: bool = False, watch: bool = True, fails: bool = False) -> Run:
    """Run a command to its end, its output in a pipe; RuntimeError where it exits otherwise than expected."""
    global _peak  # noqa: PLW0603
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=ENVIRONMENT
    )
    watcher = _Watch(process.pid) if watch else None
    if watcher is not None:
        watcher.start()
    assert process.stdout is not None
    assert process.stderr is not None
    out = b""
    while piece := process.stdout.read(1 << 20):
        if keep:
            out += piece
    err = process.stderr.read()
    process.wait()
    seconds = time.perf_counter() - started
    if process.returncode != int(fails):
        raise RuntimeError(f"{command} exited {process.returncode}: {err.decode()[-500:]}")
    peak = watcher.peak if watcher else 0
    if command[0] == CKPT[0]:
        _peak = max(_peak, peak)
    return Run(seconds, peak, out.decode())


def python(code: str, *, interpreter: str = sys.executable) -> list[str]:
    return [interpreter, "-c", code]


def printed(command: Sequence[str]) -> float:
    """Return the seconds that a program has measured itself and printed."""
    return float(run(command, keep=True, watch=False).out)


def tensorflow(code: str, release: str = "2.21") -> list[str]:
    interpreter = os.path.join(TENSORFLOW[release], "bin", "python")
    if not os.path.exists(interpreter):
        target = f".venv-tf{release.replace('.', '')}/installed"
        raise Missing(f"TensorFlow {release} is not installed: make {target}")
    return python(code, interpreter=interpreter)


def torch(code: str) -> list[str]:
    interpreter = os.path.join(TORCH, "bin", "python")
    if not os.path.exists(interpreter):
        raise Missing("PyTorch is not installed: make .venv-torch/installed")
    return python(code, interpreter=interpreter)


@contextmanager
def busy() -> Iterator[None]:
    """Have another process compete for each processor of the machine."""
    spinning = python("import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass")
    others = [subprocess.Popen(spinning) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


class Missing(Exception):
    """A rival is not installed; the text says how it would be."""


class Scale(NamedTuple):
    """How much is measured: the bars are for 1, and a sixteenth is for a look."""

    part: float = 1.0
    rounds: int = 5

    def of(self, amount: int) -> int:
        return int(amount * self.part)

    @property
    def quick(self) -> bool:
        """Whether this is a look of a minute, in which few rows can wait for TensorFlow's import."""
        return self.part < 1

    @property
    def heavy_rounds(self) -> int:
        """Rounds of what takes seconds."""
        return min(self.rounds, 3)


class Row(NamedTuple):
    """One line of the table: what is compared, its figure, its bar, and the most memory ours took."""

    name: str
    ours: str = ""
    rival: str = ""
    figure: float | None = None
    bar: str = ""
    holds: bool | None = None
    peak: int | None = None
    missing: str | None = None

    def __str__(self) -> str:
        if self.missing is not None:
            return f"{self.name:<62} not measured: {self.missing}"
        figure = f"{self.figure:.2f}" if self.figure is not None else ""
        peak = f"{self.peak / 1e6:.0f} MB" if self.peak else ""
        verdict = {True: "yes", False: "NO", None: ""}[self.holds]
        cells = f"{self.ours:>10} {self.rival:>10} {figure:>8} {self.bar:>10} {peak:>8}"
        return f"{self.name:<62} {cells} {verdict}".rstrip()


_TITLES = Row("", "ckpt", "rival", None, "limit", None, None)
HEADER = f"{_TITLES!s:<106}    peak"


def ratios(ours: Callable[[], float], rival: Callable[[], float], rounds: int) -> tuple[float, float, float]:
    """Return the median of ours, of the rival's, and of the ratio pair by pair, after one warm-up each."""
    if rounds > 1:
        ours()
        rival()
    pairs = [(ours(), rival()) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def at_most(
    name: str, ours: Callable[[], float], rival: Callable[[], float], bar: float | None, rounds: int
) -> Row:
    """Return a row that holds where ours takes at most `bar` times the rival's seconds."""
    mine, theirs, ratio = ratios(ours, rival, rounds)
    text, holds = ("", None) if bar is None else (f"<= {bar:g}", ratio <= bar)
    return Row(name, f"{mine:.3f} s", f"{theirs:.3f} s", ratio, text, holds, take_peak())


def faster(
    name: str, ours: Callable[[], float], rival: Callable[[], float], bar: float | None, rounds: int
) -> Row:
    """Return a row that holds where ours is at least `bar` times as fast as the rival."""
    mine, theirs, ratio = ratios(ours, rival, rounds)
    text, holds = ("", None) if bar is None else (f">= {bar:g}", 1 / ratio >= bar)
    return Row(name, f"{mine:.3f} s", f"{theirs:.3f} s", 1 / ratio, text, holds, take_peak())


def seconds_at_most(
    name: str, measure: Callable[[], float], bar: float | None, rounds: int, *, before: str = ""
) -> Row:
    """Return a row that holds where the median of what is measured is at most `bar` seconds.

    `before` is the time of an earlier version, which takes the place of a rival's.
    """
    median = statistics.median(measure() for _ in range(rounds))
    text, holds = ("", None) if bar is None else (f"<= {bar:g} s", median <= bar)
    return Row(name, f"{median:.3f} s", before, median, text, holds, take_peak())


def memory(name: str, ours: Sequence[str], base: Sequence[str], megabytes: float) -> Row:
    """Return a row that holds where ours peaks at most so many megabytes above another command."""
    mine, theirs = run(ours).peak / 1e6, run(base).peak / 1e6
    take_peak()
    more = mine - theirs
    return Row(name, f"{mine:.1f} MB", f"{theirs:.1f} MB", more, f"<= {megabytes:g} MB", more <= megabytes)


def supply_memory(nbytes: int) -> None:
    """Make sure that this much free memory really exists, for the next writer of files.

    A virtual machine may give free memory back to its host, in passes 2 s apart.  A page
    that is used again then costs 4 to 11 microseconds, 3 s in a GiB, and chance decides who
    pays for it: `cp` of 2 GB takes 1.1 or 4.1 s.  So the memory is held while a pass comes by.
    """
    if os.path.exists(_FREE_PAGE_REPORTING):
        import numpy as np

        held = np.ones(nbytes, np.uint8)
        time.sleep(1)
        del held


def installed(program: str, package: str) -> str:
    """Return a program's path; Missing where it is not installed."""
    path = shutil.which(program)
    if path is None:
        raise Missing(f"{program} is not installed; it is in {package}")
    return path
