"""Run mutated inputs through the parsers, as fast as one process can, and print figures.

    python -m tests.hostile.drive [--executions N | --seconds S] [--first SEED] [--keep DIR] [TARGET...]

Each execution is a seed: the target's seeds and mutations are drawn from `random.Random`
of the target's name and that number, so a finding is replayed by its number,
`--first N --executions 1 TARGET`.  Inputs that end badly are kept in DIR.  Targets that
lean on the HDF5 library run in child processes, some hundred executions each, so that a
crash of it is a finding and not the end.

Printed is a line a target: executions, how they ended, findings, executions per second.
Exit code 1 where there are findings.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.hostile.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS = 10
"""One input of some kilobytes that takes the processor longer than this is a finding."""

_LONGEST_WAIT = 600
"""Seconds after which an input is a finding that does nothing, or waits; the machine may be busy."""

MEMORY = 4 << 30
BATCH = 250
"""Executions of one child process."""


class SlowError(Exception):
    """An input took longer than `MOST_SECONDS`."""


def _alarm(*_: Any) -> None:
    raise SlowError(f"more than {MOST_SECONDS} s")


def case_of(target: Target, seed: int) -> bytes:
    """Return the input that a seed is for."""
    return target.case(random.Random(f"{target.name} {seed}"))


def execute(target: Target, seed: int, workspace: str) -> tuple[str, bytes]:
    """Run one input; return how it ended, a traceback where that is a finding, and the input."""
    data = case_of(target, seed)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST_WAIT)
    try:
        return target.run(data, workspace), data
    except Exception:  # any exception is a finding
        return traceback.format_exc(limit=-12), data
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _report(target: Target, seeds: range, workspace: str, descriptor: int) -> None:
    """Run a batch and write, of each, its seed before and its ending after it."""
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out:
        for seed in seeds:
            print(seed, file=out, flush=True)
            ending, _ = execute(target, seed, workspace)
            print(repr(ending), file=out, flush=True)


def _in_child(target: Target, seeds: range, workspace: str) -> Iterator[tuple[int, str]]:
    """Yield (seed, ending) of a batch run in a child process; a crash ends the batch."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            _report(target, seeds, workspace, writing)
        finally:
            os._exit(0)
    os.close(writing)
    last: int | None = None
    try:
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                if last is None:
                    last = int(line)
                else:
                    yield last, ast.literal_eval(line)
                    last = None
    except GeneratorExit:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    _, status = os.waitpid(child, 0)
    if last is not None:
        yield last, f"crashed: signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status}"


def endings(target: Target, first: int, count: int, workspace: str) -> Iterator[tuple[int, str]]:
    """Yield (seed, ending) of `count` executions."""
    if not target.library:
        for seed in range(first, first + count):
            yield seed, execute(target, seed, workspace)[0]
        return
    at, end = first, first + count
    while at < end:
        for seed, ending in _in_child(target, range(at, min(at + BATCH, end)), workspace):
            yield seed, ending
            at = seed + 1


def drive(
    target: Target, first: int, count: int, *, seconds: float | None = None, keep: str | None = None
) -> tuple[Counter[str], list[str]]:
    """Run a target; return how often it ended which way, and the findings."""
    started = time.monotonic()
    ended: Counter[str] = Counter()
    findings: list[str] = []
    with contextlib.ExitStack() as after, tempfile.TemporaryDirectory(prefix="ckpt-fuzz-") as workspace:
        for alarm in (signal.SIGALRM, signal.SIGPROF):
            after.callback(signal.signal, alarm, signal.signal(alarm, _alarm))
        for seed, ending in endings(target, first, count, workspace):
            known = ending in ("read", "damaged", "refused")
            ended[ending if known else "finding"] += 1
            if not known:
                findings.append(f"{target.name} {seed}: {ending}")
                if keep is not None:
                    os.makedirs(keep, exist_ok=True)
                    with open(os.path.join(keep, f"{target.name}-{seed}"), "wb") as file:
                        file.write(case_of(target, seed))
            if seconds is not None and time.monotonic() - started > seconds:
                break
    return ended, findings


def one_of_each(findings: list[str]) -> list[str]:
    """Return the first of the findings that end alike: the same place, the same exception."""
    found: dict[str, str] = {}
    for finding in findings:
        place = "".join(line for line in finding.splitlines() if line.startswith('  File "'))
        found.setdefault(place or finding.split(": ", 1)[1], finding)
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.drive")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all where none is named")
    parser.add_argument("--executions", type=int, default=1 << 60, metavar="N", help="of each target")
    parser.add_argument("--seconds", type=float, metavar="S", help="for each target")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--keep", metavar="DIR", help="where inputs go that end badly")
    arguments = parser.parse_args()
    chosen = [target for target in TARGETS if not arguments.targets or target.name in arguments.targets]
    seconds = arguments.seconds
    if seconds is None and arguments.executions == 1 << 60:
        seconds = 10.0
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("error")
    total, found = 0, []
    for target in chosen:
        started = time.monotonic()
        ended, findings = drive(
            target, arguments.first, arguments.executions, seconds=seconds, keep=arguments.keep
        )
        count = sum(ended.values())
        rate = count / (time.monotonic() - started)
        how = ", ".join(f"{ended[name]:,} {name}" for name in ("read", "damaged", "refused"))
        figures = f"{count:>12,} executions  {how:<48}{len(findings):>4} findings  {rate:>9,.0f}/s"
        print(f"{target.name:<14}{figures}", flush=True)
        for finding in one_of_each(findings):
            print(finding, file=sys.stderr, flush=True)
        total += count
        found += findings
    print(f"{'together':<14}{total:>12,} executions, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
