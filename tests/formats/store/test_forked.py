"""Processes that are forked for many small files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from formats.errors import CorruptCheckpointError
from formats.store.local.files import LOCAL
from formats.store.work import counters
from formats.store.work.forked import Forked
from tests.hub import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HERE = os.getpid()


def children_of_this_process() -> list[str]:
    with open(f"/proc/{HERE}/task/{HERE}/children") as file:
        return file.read().split()


@pytest.fixture
def children() -> Callable[[], list[str]]:
    """Return what returns the children that a test has left; those that were there before are others'."""
    before = set(children_of_this_process())
    return lambda: [child for child in children_of_this_process() if child not in before]


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 1000])
def test_results_come_in_the_order_of_their_items(jobs: int, count: int, children: Callable) -> None:
    found = list(Forked(lambda item: (item * item, os.getpid()), range(count), jobs))
    assert [square for square, _ in found] == [item * item for item in range(count)]
    assert HERE not in {process for _, process in found}
    assert not children()


def test_an_error_is_raised_in_its_turn(children: Callable) -> None:
    def work(item: int) -> int:
        if item % 100 == 57:
            raise CorruptCheckpointError(f"item {item}", path="here", hints=("a hint",))
        return item

    results, found = iter(Forked(work, range(500), 3)), []
    with pytest.raises(CorruptCheckpointError, match="item 57") as raised:
        found.extend(iter(lambda: next(results), None))
    assert found == list(range(57))
    assert raised.value.hints == ("a hint",)
    assert not children()


def test_what_a_lost_process_had_is_done_here() -> None:
    def work(item: int) -> tuple[int, bool]:
        is_here = os.getpid() == HERE
        if item in (3, 400) and not is_here:
            os.kill(os.getpid(), signal.SIGKILL)
        return item, is_here

    found = list(Forked(work, range(500), 2))
    assert [item for item, _ in found] == list(range(500))
    assert found[3][1]
    assert found[400][1]


def test_without_processes_everything_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", fail)
    assert list(Forked(lambda _: os.getpid(), range(100), 4)) == [HERE] * 100


def test_no_process_outlives_an_iterator_that_is_closed() -> None:
    def work(item: int) -> int:
        if item:
            time.sleep(600)
        return os.getpid()

    shared = Forked(work, range(10), 2)
    results = iter(shared)
    process = next(results)
    before = time.monotonic()
    results.close()
    assert time.monotonic() - before < 30
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_what_processes_read_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_tallies", None)
    counters.count_reads()
    (tmp_path / "file").write_bytes(bytes(1000))

    def work(item: int) -> bytes:
        with LOCAL.open(str(tmp_path / "file")) as file:
            return file.read(item, 10)

    assert list(Forked(work, range(100), 2)) == [bytes(10)] * 100
    tally = counters.tally_of(str(tmp_path / "file"))
    assert tally is not None
    assert (tally.nbytes, tally.reads) == (1000, 100)


FRESH = """
import os, threading
from formats.store.local.files import LOCAL
from formats.store.work.forked import can_fork, each_of_many

def processes(count):
    return set(each_of_many(lambda _: os.getpid(), range(count), 4, LOCAL))

here = os.getpid()
assert can_fork()
assert processes(10) == {here}
assert here not in processes(100)
over = threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
try:
    assert not can_fork()
    assert processes(100) == {here}
finally:
    over.set()
    thread.join()
"""


def test_few_items_and_a_process_with_threads_fork_nothing() -> None:
    """In a process of its own, because other tests may leave threads behind."""
    done = subprocess.run(
        [sys.executable, "-c", FRESH], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_signal_that_comes_into_a_deletion_ends_a_process(capfd: pytest.CaptureFixture[str]) -> None:
    """Python prints and drops an exception in `__del__`: the process wrote on stderr and did not end."""

    class Deleted:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(1000):  # where Python calls the handler
                pass

    def work(item: int) -> int:
        if item == 3 and os.getpid() != HERE:
            Deleted()
            time.sleep(60)
        return item

    begin = time.monotonic()
    assert list(Forked(work, range(500), 2)) == [*range(500)]
    assert time.monotonic() - begin < 30
    assert capfd.readouterr() == ("", "")
