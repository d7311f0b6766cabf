"""What pytest does for the mutants, in a copy of the checkout: note what tests come to, or run those that do.

With CKPT_MUTANTS_SEEN every test is run, and for each it is noted to which points it comes; with
CKPT_MUTANTS_ONLY those that a file names are run, and the one that fails is noted.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_tests: dict[str, list[Any]] = {}
"""Of each test that passes its seconds, and the points that it comes to."""
_shared: dict[str, set[int]] = {}
"""Of each file of tests the points that its fixtures come to, which may be set up once for many."""
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


MEMORY = 12 << 30
"""Bytes of address space that a mutant may take, which may have lost a limit of its own."""

if os.environ.get("CKPT_MUTANTS_LIMIT"):
    _seconds = int(os.environ["CKPT_MUTANTS_LIMIT"])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_seconds, _seconds + 5))

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
    def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            _tests[item.nodeid] = [time.perf_counter() - begun, sorted(_take(_PATH))]

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            _failed.add(report.nodeid)

    def pytest_sessionfinish() -> None:
        tests = {name: found for name, found in _tests.items() if name not in _failed}
        shared = {name: sorted(points) for name, points in _shared.items()}
        with open(_PATH + ".json", "w", encoding="utf-8") as file:
            json.dump({"tests": tests, "shared": shared, "failed": sorted(_failed)}, file)


if os.environ.get("CKPT_MUTANTS_ONLY"):

    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        with open(os.environ["CKPT_MUTANTS_ONLY"], encoding="utf-8") as file:
            wanted = set(json.load(file))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]

    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        if report.failed:
            with open(os.environ["CKPT_MUTANTS_FAILED"], "w", encoding="utf-8") as file:
                file.write(report.nodeid)
