"""Every write of everything `ckpt` writes fails, or is the last thing a process does.

The steps of an operation are the calls that change the file system (`tests.faults.steps`). Each of them is
made to fail in each of four ways: once and, as on a full disk, together with all later calls that need space.
The process is also killed before and after each step. `make fuzz` tries all of them, and `make test` some of
each operation. Output that the HDF5 library and zip files write below Python is cut off by a limit on the
size of files.
"""

from __future__ import annotations

import errno
import os
import signal
import zlib
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.cli.signals import EndedBySignal, ending_by_signals
from formats.errors import CheckpointError
from tests.counts import count
from tests.faults.operations import OPERATIONS, check, cli, debris, look, prepare
from tests.faults.steps import TAKING_ROOM, die, exit_after, exit_before, failing, steps
from tests.sampling import seeds
from tests.writing import files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path


ERRNOS = (errno.ENOSPC, errno.EIO, errno.EINTR, errno.EACCES)
STAYING = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
TIDYING = ("unlink", "rmdir")
"""Steps of tidying up; where they fail, something is left, under a name that says so."""

DELETING = ("state: fewer",)
"""Operations that delete, in steps that cannot be taken back, after they have replaced the state file."""

SOME = 30
"""`make test` tries every so manieth step, from another one on for another commit."""


class Trial:
    """An operation, what readers see before and after it, and its steps."""

    def __init__(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self._root = tmp_path
        self._number = 0
        self._monkeypatch = monkeypatch
        self.fresh()
        self.before = look("run")
        with steps(0, die) as made:
            OPERATIONS[name]()
        self.steps = list(made)
        self.after = look("run")
        assert self.after != self.before, "the operation does nothing"
        assert debris("run") == []

    def fresh(self) -> None:
        """Go to a new copy of the directory."""
        self._number += 1
        directory = self._root / str(self._number)
        prepare(str(directory))
        self._monkeypatch.chdir(directory)

    def some(self) -> Iterator[int]:
        """Yield some numbers of steps, others for each operation, always the last."""
        tried = {(zlib.crc32(self.name.encode()) + seed) % SOME for seed in seeds(1, SOME)}
        yield from (at for at in range(1, len(self.steps)) if at % SOME in tried)
        yield len(self.steps)


@pytest.fixture
def trial(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: object
) -> Trial:
    return Trial(request.param, tmp_path, monkeypatch)


def fail_at(trial: Trial, at: int, number: int, staying: Collection[str] = ()) -> None:
    trial.fresh()
    before = files("run")
    with steps(at, failing(number), forever=staying) as made:
        try:
            OPERATIONS[trial.name]()
        except (CheckpointError, OSError, RuntimeError):
            failed = True
        else:
            failed = False
    now = look("run")
    check(now, trial.before, trial.after)
    assert failed or now == trial.after
    if made[at - 1] not in TIDYING:
        assert debris("run") == []
        if now == trial.before and trial.name not in DELETING:
            assert files("run") == before
    count("points at which a write failed")


def kill_at(trial: Trial, at: int, act: Callable[[Callable[[], object]], None]) -> None:
    trial.fresh()
    child = os.fork()
    if child == 0:
        with steps(at, act):
            OPERATIONS[trial.name]()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL & 0xFF
    now = look("run")
    check(now, trial.before, trial.after)
    cli("state", "--fix", "run")()
    assert debris("run") == []
    tidy = look("run")
    assert tidy.checkpoints == now.checkpoints
    assert tidy.latest == now.latest
    count("points at which a process was killed")


def end_at(trial: Trial, at: int, number: int) -> None:
    """Send a signal after a step, and expect what an exception of that moment would leave: nothing."""
    trial.fresh()
    before = files("run")

    def send(call: Callable[[], object]) -> object:
        try:
            return call()
        finally:
            os.kill(os.getpid(), number)

    child = os.fork()
    if child == 0:
        with ending_by_signals(), steps(at, send):
            try:
                OPERATIONS[trial.name]()
            except (EndedBySignal, RuntimeError):
                os._exit(128 + number)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + number
    now = look("run")
    check(now, trial.before, trial.after)
    if trial.steps[at - 1] not in TIDYING:
        assert debris("run") == []
        if now == trial.before and trial.name not in DELETING:
            assert files("run") == before
    count("points at which a signal asked a process to end")


every_operation = pytest.mark.parametrize("trial", OPERATIONS, indirect=True)


@every_operation
def test_some_writes_fail(trial: Trial) -> None:
    for number, at in enumerate(trial.some()):
        fail_at(trial, at, ERRNOS[number % len(ERRNOS)])


@every_operation
def test_from_some_writes_on_a_disk_stays_full_or_sick(trial: Trial) -> None:
    for number, at in enumerate(trial.some()):
        fail_at(trial, at, STAYING[number % len(STAYING)], TAKING_ROOM)


@every_operation
def test_after_some_writes_it_is_to_end(trial: Trial) -> None:
    for number, at in enumerate(trial.some()):
        end_at(trial, at, (signal.SIGTERM, signal.SIGHUP)[number % 2])


@every_operation
def test_some_writes_are_the_last_thing(trial: Trial) -> None:
    for number, at in enumerate(trial.some()):
        kill_at(trial, at, (exit_before, exit_after)[number % 2])


@pytest.mark.fuzz
@every_operation
@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
def test_every_write_fails(trial: Trial, number: int) -> None:
    for at in range(1, len(trial.steps) + 1):
        fail_at(trial, at, number)


@pytest.mark.fuzz
@every_operation
@pytest.mark.parametrize("number", STAYING, ids=errno.errorcode.get)
def test_from_every_write_on_a_disk_stays_full_or_sick(trial: Trial, number: int) -> None:
    for at in range(1, len(trial.steps) + 1):
        fail_at(trial, at, number, TAKING_ROOM)


@pytest.mark.fuzz
@every_operation
@pytest.mark.parametrize("act", [exit_before, exit_after])
def test_every_write_is_the_last_thing(trial: Trial, act: Callable[[Callable[[], object]], None]) -> None:
    for at in range(1, len(trial.steps) + 1):
        kill_at(trial, at, act)
