"""Tasks return in order from any worker, and none runs on after the caller stops."""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.core.chunks import PIECE
from formats.location import parse_location
from formats.store import work
from formats.store.ranges import FileRange, Sum, buffers, cut
from formats.store.work.executors import lent_by
from formats.store.work.workers import TASK_BYTES, workers
from formats.wire.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator


def square(number: int) -> int:
    return number * number


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("size", [1, TASK_BYTES], ids=["small ones", "large ones"])
@pytest.mark.parametrize("count", [0, 1, 2, 3000])
def test_results_come_in_the_order_of_their_items(jobs: int, size: int, count: int) -> None:
    with workers(jobs) as pool:
        assert list(pool.map(square, range(count), lambda _: size)) == [n * n for n in range(count)]


def test_any_executor_can_do_the_work() -> None:
    with ProcessPoolExecutor(2) as executor:
        assert list(lent_by(executor, 2).map(square, range(50))) == [n * n for n in range(50)]
        assert executor.submit(square, 3).result() == 9, "it is its owner's still"


def test_items_are_taken_only_a_little_ahead() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    with workers(2) as pool, closing(pool.map(square, items())) as results:
        next(results)
        assert taken < 10


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process is forked")
@pytest.mark.parametrize("count", [1, 3, 4, 100])
def test_much_arithmetic_over_local_files_is_done_by_forked_processes(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work.workers, "processors", lambda: 3)
    monkeypatch.setattr(work.workers, "can_fork", lambda: True)
    seen: list[int] = []
    for jobs in (1, 2, 8):
        with workers(jobs) as pool:
            items = range(count)
            found = list(
                pool.map(
                    lambda item: (item, os.getpid()), items, report=lambda n, _: seen.append(n), forks=True
                )
            )
        assert [item for item, _ in found] == list(items)
        processes = {process for _, process in found}
        is_forked = jobs > 1 and count >= 4
        assert (os.getpid() in processes) != is_forked
        assert len(processes) <= min(jobs, 3)
    assert seen == [*range(count)] * 3


def test_too_many_items_to_hold_are_not_for_forked_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work.workers, "_MOST_FORKED", 10)
    with workers(2) as pool:
        found = list(pool.map(lambda item: (item, os.getpid()), iter(range(100)), forks=True))
    assert found == [(item, os.getpid()) for item in range(100)]


@pytest.mark.parametrize(("local", "most"), [(True, 2), (False, 8)])
def test_no_more_threads_than_processors_are_at_work_on_local_files(
    local: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work.workers, "processors", lambda: 2)
    running, seen, lock = 0, 0, threading.Lock()
    together = threading.Barrier(most)

    def task(_: int) -> None:
        nonlocal running, seen
        with lock:
            running += 1
            seen = max(seen, running)
        together.wait(60)
        with lock:
            running -= 1
        together.wait(60)

    with workers(8) as pool:
        list(pool.map(task, range(8), local=local))
    assert seen == most


@pytest.mark.parametrize("how", ["a task fails", "the consumer fails"])
def test_when_it_is_over_nothing_runs(how: str) -> None:
    running = 0
    lock = threading.Lock()

    def slow(number: int) -> int:
        nonlocal running
        with lock:
            running += 1
        time.sleep(0.02)
        with lock:
            running -= 1
        if how == "a task fails" and number == 3:
            raise KeyError(number)
        return number

    def consume() -> None:
        with closing(pool.map(slow, range(100))) as results:
            for number in results:
                if number == 4:
                    raise KeyError(number)

    with workers(5) as pool:
        with pytest.raises(KeyError):
            consume()
        assert running == 0


def test_finished_tasks_are_reported_while_others_run() -> None:
    """So it can be noted as done: one that takes long would have it lost with the command."""
    others = threading.Event()
    found: list[tuple[int, int]] = []

    def wait_for_others(number: int) -> int:
        return number * (number > 0 or others.wait(10))

    def told(number: int, result: int) -> None:
        found.append((number, result))
        if len(found) == 2:
            others.set()

    with workers(2) as pool:
        assert list(pool.map(wait_for_others, range(3), report=told)) == [0, 1, 2]
    assert found == [(1, 1), (2, 2), (0, 0)]


def test_the_first_failure_in_order_is_the_one_that_is_raised() -> None:
    def fail(number: int) -> int:
        time.sleep(0.01 * (3 - number))  # the last one fails first
        raise KeyError(number)

    with workers(3) as pool, pytest.raises(KeyError, match="0"):
        list(pool.map(fail, range(3)))


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_checksums_of_neighbours_make_that_of_the_whole(stretches: list[bytes]) -> None:
    whole, all_of_it = Sum(), b"".join(stretches)
    for stretch in stretches:
        whole.add(Sum(crc32c(stretch), len(stretch), zlib.crc32(stretch)))
    assert (whole.crc, whole.size) == (crc32c(all_of_it), len(all_of_it))
    assert whole.crc32 == (zlib.crc32(all_of_it) if stretches else None)


def test_a_range_that_lacks_the_kind_that_is_stored_never_fits() -> None:
    """Like one for which a journal has too little."""
    there = FileRange(parse_location(__file__).open(), 0, 8, "w", crc32=zlib.crc32(b"ab"))
    whole = Sum(crc32c(b"a"), 1, zlib.crc32(b"a"))
    whole.add(Sum(crc32c(b"b"), 1))
    assert not there.fits(whole)
    assert not there.fits(Sum(crc32c(b"ab"), 2))
    assert there.fits(Sum(0, 2, zlib.crc32(b"ab")))
    there.file.close()


def test_ranges_cover_everything_once() -> None:
    assert list(cut(0)) == [(0, 0)]
    assert list(cut(TASK_BYTES)) == [(0, TASK_BYTES)]
    assert list(cut(TASK_BYTES + 5)) == [(0, TASK_BYTES), (TASK_BYTES, TASK_BYTES + 5)]


def test_every_thread_has_room_of_its_own_at_the_beginning_of_pages() -> None:
    found = [*buffers()]
    thread = threading.Thread(target=lambda: found.extend(buffers()))
    thread.start()
    thread.join()
    places = sorted(array.ctypes.data for array in found)
    assert all(place % mmap.PAGESIZE == 0 for place in places)
    assert all(after - before >= PIECE for before, after in pairwise(places))
