"""Exceptions that Python drops in a deletion are raised after it."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from formats.core.unraisable import RaisedAgain

if TYPE_CHECKING:
    from collections.abc import Iterator


class Deleted:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def delete(*kinds: type[Deleted]) -> None:
    """Delete objects with the same exception, and wait."""
    for kind in kinds:
        kind(SystemExit(7))
    time.sleep(60)


@contextlib.contextmanager
def raised_again() -> Iterator[list[BaseException | None]]:
    """Have SystemExit raised again; yield a list of the exceptions that the hook of the caller gets."""
    others: list[BaseException | None] = []
    handler, before = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    sys.unraisablehook = lambda dropped: others.append(dropped.exc_value)
    sys.unraisablehook = hook = RaisedAgain(lambda error: isinstance(error, SystemExit))
    try:
        yield others
    finally:
        hook.stop()
        sys.unraisablehook = before
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_it_is_raised_soon() -> None:
    began = time.monotonic()
    with raised_again() as others, pytest.raises(SystemExit, match="7"):
        delete(Deleted)
    assert time.monotonic() - began < 30
    assert others == []


def test_a_hook_that_takes_long_drops_it_no_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the timer rang in the hook: the command waited for ever."""
    set_timer = signal.setitimer

    def slow(which: int, seconds: float, interval: float = 0.0) -> None:
        set_timer(which, seconds, interval)
        time.sleep(0.1 if seconds else 0)

    monkeypatch.setattr(signal, "setitimer", slow)
    with raised_again() as others, pytest.raises(SystemExit, match="7"):
        delete(Deleted)
    assert others == []


def test_one_that_is_dropped_twice_is_raised() -> None:
    class Slow(Deleted):
        def __del__(self) -> None:
            time.sleep(60)

    with raised_again(), pytest.raises(SystemExit, match="7"):
        delete(Deleted, Slow)


def test_others_go_to_the_hook_before() -> None:
    with raised_again() as others:
        Deleted(ValueError("no"))
        assert [str(error) for error in others] == ["no"]
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_it_is_raised_no_more_after_the_end() -> None:
    with raised_again():
        Deleted(SystemExit(7))
    time.sleep(0.1)
