"""Running commands in turn and comparing them.

A machine's speed drifts, so a figure alone says little: each of ours is measured
between two of its rival's, and the median of the ratios is what counts.  Every
command is a whole process.  Its peak memory is the most anonymous memory seen in looks
2 ms apart: what the system keeps of a finished process counts files and its parent, too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CKPT = [os.path.join(os.path.dirname(sys.executable), "ckpt")]
TENSORFLOW = os.environ.get("CKPT_TF221", os.path.join(ROOT, ".venv-tf221"))

# Compiled modules are what an installed program has, and TensorFlow's greetings are not part of its work.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
}


class Run(NamedTuple):
    """One finished process: wall seconds, peak anonymous bytes where asked for, and what it printed."""

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


def run(command: Sequence[str], *, keep: bool = False, watch: bool = False) -> Run:
    """Run a command to its end, its output in a pipe; RuntimeError where it fails."""
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
    if process.returncode != 0:
        raise RuntimeError(f"{command} exited {process.returncode}: {err.decode()[-500:]}")
    return Run(seconds, watcher.peak if watcher else 0, out.decode())


def python(code: str, *, interpreter: str = sys.executable) -> list[str]:
    return [interpreter, "-c", code]


def tensorflow(code: str) -> list[str]:
    return python(code, interpreter=os.path.join(TENSORFLOW, "bin", "python"))


class Row(NamedTuple):
    """One line of the table: what is compared, its figure, and the bar it is held against."""

    name: str
    ours: str
    rival: str
    figure: float
    bar: str
    holds: bool

    def __str__(self) -> str:
        cells = f"{self.ours:>12} {self.rival:>12} {self.figure:>8.2f} {self.bar:>9}"
        return f"{self.name:<60} {cells} {'yes' if self.holds else 'NO'}"


def ratios(
    ours: Callable[[], float], rival: Callable[[], float], rounds: int = 5
) -> tuple[float, float, float]:
    """Return the median of ours, of the rival's, and of the ratio pair by pair, after one warm-up each."""
    ours()
    rival()
    pairs = [(ours(), rival()) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def at_most(
    name: str, ours: Callable[[], float], rival: Callable[[], float], bar: float, rounds: int = 5
) -> Row:
    """Return a row that holds where ours takes at most `bar` times the rival's seconds."""
    mine, theirs, ratio = ratios(ours, rival, rounds)
    return Row(name, f"{mine:.3f} s", f"{theirs:.3f} s", ratio, f"<= {bar:g}", ratio <= bar)


def faster(
    name: str, ours: Callable[[], float], rival: Callable[[], float], bar: float, rounds: int = 5
) -> Row:
    """Return a row that holds where ours is at least `bar` times as fast as the rival."""
    mine, theirs, ratio = ratios(ours, rival, rounds)
    return Row(name, f"{mine:.3f} s", f"{theirs:.3f} s", 1 / ratio, f">= {bar:g}", 1 / ratio >= bar)


def memory(name: str, ours: Sequence[str], base: Sequence[str], megabytes: float) -> Row:
    """Return a row that holds where ours peaks at most so many megabytes above another command."""
    mine, theirs = run(ours, watch=True).peak / 1e6, run(base, watch=True).peak / 1e6
    more = mine - theirs
    return Row(name, f"{mine:.1f} MB", f"{theirs:.1f} MB", more, f"<= {megabytes:g} MB", more <= megabytes)
