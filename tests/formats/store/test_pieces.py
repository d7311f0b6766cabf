"""The number of requests that reads take, and the correctness of their bytes."""

from __future__ import annotations

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from formats.store.remote import range_cache
from formats.store.remote.range_cache import LOOK, REQUEST, Pieces
from formats.store.work.workers import workers

MIB = 1 << 20


class Asked:
    """A file that notes what is fetched of it; `data` is made of its offsets."""

    def __init__(self, size: int) -> None:
        self.data = random.Random(size).randbytes(size)
        self.fetched: list[tuple[int, int]] = []
        self.pieces = Pieces(self.fetch, size)

    def fetch(self, begin: int, end: int) -> bytes:
        assert 0 <= begin < end <= len(self.data)
        self.fetched.append((begin, end))
        return self.data[begin:end]

    def read(self, begin: int, end: int) -> None:
        assert self.pieces.read(begin, end) == self.data[begin:end]

    @property
    def nbytes(self) -> int:
        self.settle()
        return sum(end - begin for begin, end in self.fetched)

    def settle(self) -> None:
        """Wait for what is read ahead."""
        for run in list(range_cache._cached):
            run.done.wait()


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    range_cache._cached.clear()


def test_a_look_takes_64_kib_and_the_next_ones_nothing() -> None:
    file = Asked(MIB)
    for at in (0, 8, 100, 60_000):
        file.read(at, at + 4096)
    assert file.fetched == [(0, LOOK)]
    file.read(500_000, 500_001)
    assert file.fetched[1:] == [(500_000, 500_000 + LOOK)]


def test_a_look_at_the_end_takes_what_is_before_it() -> None:
    file = Asked(MIB)
    file.read(0, 4)
    file.read(MIB - 64, MIB)
    file.read(MIB - 40_000, MIB - 30_000)
    assert file.fetched == [(0, LOOK), (MIB - LOOK, MIB)]
    file = Asked(LOOK + 100)
    file.read(0, 4)
    file.read(LOOK + 50, LOOK + 60)
    assert file.fetched == [(0, LOOK), (LOOK, LOOK + 100)]


def test_one_range_is_one_request_of_what_was_requested() -> None:
    file = Asked(4 * MIB)
    file.read(MIB + 5, 3 * MIB)
    assert file.fetched == [(MIB + 5, 3 * MIB)]


def test_reading_in_order_reads_ahead_at_most_twice_as_much() -> None:
    file = Asked(96 * MIB)
    for at in range(0, 96 * MIB, MIB):
        file.read(at, at + MIB)
        assert file.nbytes <= 2 * (at + MIB)
    assert len(file.fetched) <= 24
    assert max(end - begin for begin, end in file.fetched) <= REQUEST
    assert file.nbytes == 96 * MIB


def test_neighbours_are_joined_and_what_is_far_apart_is_not() -> None:
    file = Asked(64 * MIB)
    wanted = 0
    for at in range(0, 32 * MIB, 100_000):
        file.read(at, at + 80_000)
        wanted += 80_000
        assert file.nbytes <= 2 * wanted + LOOK
    assert len(file.fetched) < 24
    file = Asked(64 * MIB)
    for at in range(0, 60 * MIB, 10 * MIB):
        file.read(at, at + 80_000)
    assert len(file.fetched) == 6
    assert file.nbytes == 6 * 80_000


@pytest.mark.parametrize("size", [1, REQUEST + 1])
def test_who_waits_for_a_server_is_cancelled(size: int) -> None:
    """Ctrl-C waited until each thread's request had been given up: five times CKPT_TIMEOUT."""
    ended = threading.Event()
    came: list[int] = []

    def fetch(begin: int, end: int) -> bytes:
        if begin:
            ended.wait(60)
        came.append(begin)
        return bytes(end - begin)

    file = Pieces(fetch, 64 * MIB)
    with workers(2) as two:
        results = two.map(lambda at: file.read(at, at + size), [0, 20 * MIB, 40 * MIB], alone=True)
        assert len(next(results)) == size
        results.close()
    assert came == [0]
    ended.set()


def test_what_is_expected_is_fetched_to_its_end() -> None:
    file = Asked(64 * MIB)
    file.pieces.expect(MIB, 33 * MIB)
    for at in range(MIB, 33 * MIB, MIB):
        file.read(at, at + MIB)
    assert file.nbytes == 32 * MIB
    assert sorted(file.fetched) == [(at, at + REQUEST) for at in range(MIB, 33 * MIB, REQUEST)]
    file.read(33 * MIB, 34 * MIB)
    assert file.fetched[4:] == [(33 * MIB, 34 * MIB)]


def test_what_is_read_once_more_is_fetched_to_its_end_and_no_further() -> None:
    """A tensor's statistics, then its values: the second time the tensors behind it were fetched, too."""
    file = Asked(64 * MIB)
    for _ in range(2):
        file.pieces.expect(8 * MIB, 16 * MIB)
        for at in range(8 * MIB, 16 * MIB, MIB):
            file.read(at, at + MIB)
    assert file.nbytes == 8 * MIB
    range_cache._cached.clear()
    file.pieces._runs.clear()
    file.pieces.expect(8 * MIB, 16 * MIB)
    file.read(8 * MIB, 9 * MIB)
    assert file.fetched == [(8 * MIB, 16 * MIB)] * 2


def test_expected_neighbours_are_joined() -> None:
    file = Asked(64 * MIB)
    for at in range(0, 48 * MIB, 200_000):
        file.pieces.expect(at, at + 200_000)
        file.read(at, at + 100_000)
        file.read(at + 100_000, at + 200_000)
        assert file.nbytes <= 2 * (at + 200_000) + LOOK
    assert len(file.fetched) < 24


def test_what_is_wanted_together_is_one_request() -> None:
    file = Asked(80 * MIB)
    file.read(0, 60 * MIB)
    assert file.fetched == [(0, 60 * MIB)]
    file = Asked(80 * MIB)
    file.read(0, 80 * MIB)
    assert file.fetched == [(0, 64 * MIB), (64 * MIB, 80 * MIB)]


def test_headers_are_fetched_a_few_at_a_time_and_near_ones_together() -> None:
    file = Asked(20 * MIB)
    together = threading.Barrier(4)
    fetch = file.fetch

    def meet(begin: int, end: int) -> bytes:
        together.wait(60)
        return fetch(begin, end)

    file.pieces._fetch = meet
    file.pieces.expect_each([at * MIB for at in range(1, 9)], 1000)
    for at in range(1, 9):
        file.read(at * MIB, at * MIB + 1000)
    assert sorted(file.fetched) == [(at * MIB, at * MIB + 1000) for at in range(1, 9)]
    file.pieces._fetch = fetch
    file.pieces.expect_each([15 * MIB, 15 * MIB + 5000, 15 * MIB + 100_000, 30 * MIB, -5], 1000)
    file.settle()
    assert sorted(file.fetched[8:]) == [(15 * MIB, 15 * MIB + 6000), (15 * MIB + 100_000, 15 * MIB + 101_000)]


def test_headers_between_do_not_stop_reading_ahead() -> None:
    """As in an archive: each member's header is looked at, then all members are read in turn."""
    file = Asked(40 * MIB)
    places = range(0, 40 * MIB, 200_000)
    file.pieces.expect_each(places, 1000)
    for at in places:
        file.read(at, at + 1000)
    looks = len(file.fetched)
    assert looks == len(places)
    for at in places:
        file.read(at + 1000, min(at + 200_000, 40 * MIB))
    assert len(file.fetched) - looks < 24
    assert file.nbytes <= 41 * MIB


def test_memory_is_bounded() -> None:
    files = [Asked(40 * MIB) for _ in range(4)]
    for file in files:
        for at in range(0, 40 * MIB, MIB):
            file.read(at, at + MIB)
            file.settle()
    held = sum(run.end - run.begin for run in range_cache._cached)
    assert held <= range_cache._MOST_HELD
    assert sum(len(file.pieces._runs) for file in files) == len(range_cache._cached)


@pytest.mark.parametrize("seed", range(6))
def test_every_requested_range_is_returned(seed: int) -> None:
    pick = random.Random(seed)
    file = Asked(pick.choice([1, 100, LOOK, 3 * MIB, 20 * MIB]))
    size = len(file.data)

    def read(_: int) -> None:
        begin = pick.randrange(size)
        file.read(begin, min(size, begin + pick.choice([1, 1000, 100_000, MIB])))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(200)))


def test_threads_share_one_request() -> None:
    file = Asked(MIB)
    begun, go = threading.Event(), threading.Event()
    fetch = file.fetch

    def slow(begin: int, end: int) -> bytes:
        begun.set()
        go.wait(30)
        return fetch(begin, end)

    file.pieces._fetch = slow
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(file.read, 0, 100)
        assert begun.wait(30)
        others = [pool.submit(file.read, at, at + 100) for at in (0, 50, 1000)]
        go.set()
        for each in (first, *others):
            each.result()
    assert file.fetched == [(0, LOOK)]


def test_what_failed_is_fetched_again() -> None:
    file = Asked(MIB)
    fetch, file.pieces._fetch = file.pieces._fetch, lambda *_: (_ for _ in ()).throw(OSError("cut"))
    with pytest.raises(OSError, match="cut"):
        file.read(0, 10)
    file.pieces._fetch = fetch
    file.read(0, 10)


def test_a_forked_process_waits_for_no_threads() -> None:
    file = Asked(MIB)
    go = threading.Event()
    fetch = file.fetch

    def slow(begin: int, end: int) -> bytes:
        go.wait(30)
        return fetch(begin, end)

    file.pieces._fetch = slow
    thread = threading.Thread(target=file.read, args=(0, 10))
    thread.start()
    while not range_cache._cached:
        pass
    child = os.fork()
    if not child:
        file.pieces._fetch = fetch
        os._exit(0 if file.pieces.read(0, 10) == file.data[:10] else 1)
    assert os.waitpid(child, 0)[1] == 0
    go.set()
    thread.join()


def test_as_much_as_may_be_held_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_cache, "_MOST_HELD", 2 * LOOK)
    first, second, third = (Asked(LOOK) for _ in range(3))
    for file in (first, second, first, second):
        file.read(0, 8)
    assert (len(first.fetched), len(second.fetched)) == (1, 1)
    third.read(0, 8)  # the one that was used before the other is let go
    second.read(0, 8)
    first.read(0, 8)
    assert (len(first.fetched), len(second.fetched)) == (2, 1)
