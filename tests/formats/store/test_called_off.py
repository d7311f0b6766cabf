"""What waits for a server is called off: by who handed it out, or by a signal."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from formats import CheckpointError
from formats.errors import InaccessibleError
from formats.store.remote import transport
from formats.store.remote.transport import Again, together, trying
from formats.store.work import cancellation
from formats.store.work.cancellation import OverdueError, aside, end_soon, go_on, rest, until, working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEVER = threading.Event()


@pytest.fixture
def ending() -> Iterator[None]:
    """Be a program to which a signal has come."""
    end_soon()
    yield
    go_on()


def hang() -> None:
    NEVER.wait(30)


def test_what_is_asked_aside_is_returned_or_raised() -> None:
    assert aside(lambda: 7) == 7
    with pytest.raises(KeyError, match="k"):
        aside(lambda: {}["k"])
    with pytest.raises(OverdueError):
        aside(hang, 0.05)


def _again() -> None:
    raise Again("busy")


WAITS: dict[str, Callable[[], object]] = {
    "a request": lambda: aside(hang),
    "several": lambda: together(lambda _: hang(), [1, 2], 2),
    "a pause": lambda: rest(30),
    "attempts": lambda: trying("mem://b/x", _again),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_thread_whose_work_is_called_off_waits_no_longer(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 30.0)
    over = threading.Event()
    threading.Timer(0.1, over.set).start()
    began = time.monotonic()
    with pytest.raises(CheckpointError, match="called off"):
        until(over, lambda _: WAITS[name](), [None])
    assert time.monotonic() - began < 5
    with working(threading.Event()):  # as what takes back what was begun
        rest(0.01)


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("name", WAITS)
def test_after_a_signal_nothing_waits_for_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 30.0)
    began = time.monotonic()
    with pytest.raises(InaccessibleError, match="did not answer before this command had to end"):
        WAITS[name]()
    assert time.monotonic() - began < cancellation.TAKEN_BACK_WITHIN + 2
