"""Waiting for a server is cancelled, by the code that started the work, or by a signal."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from formats import CheckpointError
from formats.errors import InaccessibleError
from formats.store.remote import transport
from formats.store.remote.transport import RetryError, trying
from formats.store.work import cancellation
from formats.store.work.cancellation import (
    OverdueError,
    cancelled_by,
    end_soon,
    resume_waiting,
    run_detached,
    run_each,
    sleep,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEVER = threading.Event()


@pytest.fixture
def ending() -> Iterator[None]:
    """Be a program to which a signal has come."""
    end_soon()
    yield
    resume_waiting()


def hang() -> None:
    NEVER.wait(30)


def test_a_detached_call_returns_raises_or_is_overdue() -> None:
    assert run_detached(lambda: 7) == 7
    with pytest.raises(KeyError, match="k"):
        run_detached(lambda: {}["k"])
    with pytest.raises(OverdueError):
        run_detached(hang, 0.05)


def test_an_error_of_one_call_waits_for_no_other() -> None:
    """Threads of a pool are waited for at the end of a process, and of its block: Ctrl-C took minutes."""
    ended = threading.Event()
    daemons: list[bool] = []
    begun: list[int] = []

    def ask(number: int) -> int:
        begun.append(number)
        daemons.append(threading.current_thread().daemon)
        if number == 1:
            raise InaccessibleError("no")
        return number if ended.wait(30) else -1

    try:
        with pytest.raises(InaccessibleError, match="no"):
            run_each(ask, range(9), 2)
        assert not ended.is_set()
    finally:
        ended.set()
    assert set(daemons) == {True}
    assert sorted(begun) == [0, 1], "nobody waits for the others, so they are not begun"
    assert run_each(lambda number: -number, range(20), 3) == [-number for number in range(20)]
    assert run_each(ask, [], 3) == []


def test_threads_that_share_calls_are_cancelled_with_the_thread_that_started_them() -> None:
    """A thread without a waiting caller continued to retry its request."""
    cancel = threading.Event()
    ended: list[str] = []
    done = threading.Event()

    def ask(_: int) -> None:
        try:
            sleep(30)
        except CheckpointError as error:
            ended.append(error.message)
            done.set()
            raise

    threading.Timer(0.1, cancel.set).start()
    with cancelled_by(cancel), pytest.raises(CheckpointError, match="cancelled"):
        run_each(ask, [1, 2], 2)
    assert done.wait(25)
    assert set(ended) == {"cancelled"}


def _again() -> None:
    raise RetryError("busy")


WAITS: dict[str, Callable[[], object]] = {
    "a request": lambda: run_detached(hang),
    "several": lambda: run_each(lambda _: hang(), [1, 2], 2),
    "a pause": lambda: sleep(30),
    "attempts": lambda: trying("mem://b/x", _again),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_thread_whose_work_is_cancelled_waits_no_longer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 30.0)
    cancel = threading.Event()
    threading.Timer(0.1, cancel.set).start()
    began = time.monotonic()
    with cancelled_by(cancel):
        with pytest.raises(CheckpointError, match="cancelled"):
            WAITS[name]()
        assert time.monotonic() - began < 20
        with cancelled_by(threading.Event()):  # as what takes back what was begun
            sleep(0.01)


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("name", WAITS)
def test_after_a_signal_nothing_waits_for_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 30.0)
    began = time.monotonic()
    with pytest.raises(InaccessibleError, match="did not answer before this command had to stop"):
        WAITS[name]()
    assert time.monotonic() - began < cancellation.TAKE_BACK_WITHIN + 20
