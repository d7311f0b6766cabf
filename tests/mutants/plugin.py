"""The pytest plugin for mutants, in a copy of the checkout: note the points that tests reach, or run tests.

With CKPT_MUTANTS_SEEN every test is run, and the points that it reaches and its CPU seconds are noted.
With CKPT_MUTANTS_ONLY the tests that a file names are run, and the last one that begins is noted.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_tests: dict[str, list[Any]] = {}
"""Of each test that passes its CPU seconds, and the points that it comes to."""
_shared: dict[str, set[int]] = {}
"""Of each file of tests the points that its fixtures come to, which may be set up once for many."""
_called: dict[str, set[int]] = {}
"""The points that the running test comes to."""
_failed: set[str] = set()


def _seen() -> set[int]:
    seen: set[int] = sys.__dict__.setdefault("_mutants_seen", set())
    return seen


def _take(path: str) -> set[int]:
    """Return the points that were come to since this was last asked, here and in other processes."""
    found = set(_seen())
    _seen().clear()
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            found |= {int(line) for line in file.read().split()}
        os.remove(path)
    return found


def _spent() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


_RECORDED = os.environ.get("CKPT_MUTANTS_SEEN", "")
if _RECORDED:
    _PATH = _RECORDED.partition(":")[2]
    os.environ["CKPT_MUTANTS_SEEN"] = f"{os.getpid()}:{_PATH}"

    def pytest_collection_finish() -> None:
        _shared[""] = _take(_PATH)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
        _take(_PATH)
        yield
        _shared.setdefault(item.nodeid.partition("::")[0], set()).update(_take(_PATH))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
        before = _spent()
        try:
            return (yield)
        finally:
            _tests[item.nodeid] = [_spent() - before, sorted(_called.pop(item.nodeid, ()))]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        finally:
            _called[item.nodeid] = _take(_PATH)

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            _failed.add(report.nodeid)

    def pytest_sessionfinish() -> None:
        tests = {name: found for name, found in _tests.items() if name not in _failed}
        shared = {name: sorted(points) for name, points in _shared.items()}
        with open(_PATH + ".json", "w", encoding="utf-8") as file:
            json.dump({"tests": tests, "shared": shared, "failed": sorted(_failed)}, file)


MEMORY = 12 << 30
"""Bytes of address space that a mutant may take, which may have lost a limit of its own."""

STARTING = 600
"""Seconds, of the CPU and of the clock, that pytest may take before the first test."""


if os.environ.get("CKPT_MUTANTS_ONLY"):
    with open(os.environ["CKPT_MUTANTS_ONLY"], encoding="utf-8") as _file:
        _wanted: dict[str, tuple[int, int]] = json.load(_file)
    """The seconds that each of them may take, of the CPU and of the clock."""

    def _limit(processor: int, clock: int) -> None:
        """Have the kernel end this process after so many more seconds of either kind."""
        total = math.ceil(time.process_time()) + processor
        resource.setrlimit(resource.RLIMIT_CPU, (total, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        signal.alarm(clock)

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    _limit(STARTING, STARTING)

    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in _wanted])
        items[:] = [item for item in items if item.nodeid in _wanted]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(nodeid: str) -> None:
        with open(os.environ["CKPT_MUTANTS_LAST"], "w", encoding="utf-8") as file:
            file.write(nodeid)
        _limit(*_wanted[nodeid])

    def pytest_sessionfinish() -> None:
        _limit(STARTING, STARTING)
