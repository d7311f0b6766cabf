"""How hypothesis runs: without deadlines on shared machines, and the same each time where CI is set.

And what is printed at the end: how much damage was tried (`tests.counts`).
"""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING, Any

import numpy as np  # noqa: F401  hypothesis looks whether it is there
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import integers

from tests import counts

if TYPE_CHECKING:
    from collections.abc import Generator

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "database": None}

settings.register_profile("default", max_examples=60, **_COMMON)
settings.register_profile("ci", max_examples=60, derandomize=True, **_COMMON)
settings.register_profile("thorough", max_examples=2000, **_COMMON)
settings.load_profile("ci" if os.environ.get("CI") else os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Started in the background of a shell, or with `nohup`, a process has signals ignored, and so would the
# ones it starts; tests of what a signal does need them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tens of thousands of tests without a look for garbage among them, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        _try_one_example()
        gc.freeze()
        gc.enable()


@given(integers())
def _try_one_example(_: int) -> None:
    """Have hypothesis take numpy's generator of random numbers under its control before anything is frozen.

    It asks the collector for references, which does not know frozen objects, and warns.
    """


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what was counted along, where this is one of several processes (`pytest -n`)."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counted"] = counts.counted()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in what one of several processes counted."""
    counts.merge(*getattr(node, "workeroutput", {}).get("counted", ({}, {})))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = counts.lines()
    if found:
        terminalreporter.section("damage tried")
        for line in found:
            terminalreporter.write_line(line)
