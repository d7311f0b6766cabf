"""The commands that a worker does tasks for."""

from __future__ import annotations

from formats.store.work.executors import _Runs


def test_a_command_is_busy_until_its_last_task_ends() -> None:
    runs = _Runs()
    assert runs.begin("a")
    assert runs.begin("a")
    assert runs.begin("b")
    first = runs.cancel_event("a")
    runs.end("a")
    assert (runs.is_busy("a"), runs.is_busy("b")) == (True, True)
    runs.end("a")
    assert (runs.is_busy("a"), runs.is_busy("b")) == (False, True)
    assert runs.cancel_event("a") is not first, "an event of a command without tasks was kept"


def test_a_cancelled_command_begins_no_more_tasks() -> None:
    runs = _Runs()
    assert not runs.cancel_all()
    assert runs.begin("a")
    event = runs.cancel_event("a")
    runs.cancel("a")
    assert event.is_set()
    assert not runs.begin("a")
    assert runs.begin("b")
    assert runs.cancel_all()
    runs.end("b")
    runs.end("a")
    assert not runs.begin("a"), "it stays cancelled"
    assert not runs.cancel_all()
