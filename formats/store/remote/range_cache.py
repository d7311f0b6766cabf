"""The parts of a remote file that are in memory, and how many requests reads take.

A request takes as long as some hundred kilobytes do. So a first look takes 64 KiB. A reader that continues is
read ahead for: as much as it has read so far, so that at most twice the wanted bytes are fetched. After
`expect`, reading ahead extends at once to the end of the range. Fetching ahead overlaps with the caller's
work. Only threads of the cache fetch, so a caller that waits can be interrupted or cancelled, and abandons
the thread.

    run    bytes that one request fetches, for all threads that need them
    row    where a reader continues, and how much it has read in order
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING

from ..work.cancellation import start_threads, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOOK = 64 << 10
"""Bytes that a look takes: most headers, and ends of archives, are smaller."""

REQUEST = 8 << 20
"""Bytes of a request that reads ahead."""

AHEAD = 2 * REQUEST
"""The most bytes ahead of a reader, which are transferred while it works on the rest."""

AT_ONCE = 64 << 20
"""The size of the largest request, for a reader that wants everything at once."""

_LOOKS_AT_ONCE, _MOST_LOOKS = 8, 512
_WORTH_A_THREAD = 1 << 20
_MOST_ROWS = 16
_MOST_HELD = 64 << 20
"""Bytes held of all files together; what is under way counts, and stays, what was read up goes first."""


class _Fetch:
    """A request that is under way or complete."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end
        self.data: bytes | memoryview | None = None
        self.is_used = False
        self.error: BaseException | None = None
        self.done = threading.Event()

    @property
    def came(self) -> bytes | memoryview:
        """Its bytes once it is complete. Raises the error of the request."""
        if self.data is None:
            assert self.error is not None
            raise self.error
        return self.data


_lock = threading.Lock()
_cached: dict[_Fetch, list[_Fetch]] = {}
"""All runs, those used last at the end, and the runs of the same file."""


def _forget_unfinished() -> None:
    """In a forked process, let go of what threads of its parent fetch."""
    global _lock  # noqa: PLW0603  another thread may have held it
    _lock = threading.Lock()
    for run in [run for run in _cached if not run.done.is_set()]:
        _cached.pop(run).remove(run)


os.register_at_fork(after_in_child=_forget_unfinished)


class _ReaderPosition:
    """The offset at which a reader continues; `until` is the end of the range that `expect` announced, or 0.

    A reader that continued from one such range to the next may continue to another.
    """

    def __init__(self, end: int, until: int = 0) -> None:
        self.end = end
        self.length = 0
        self.fetched = 0
        self.until = until
        self.ranges = 1

    def fetchable(self, at: int) -> int:
        """Return how many bytes from here may be fetched, requested or not."""
        expected = max(0, self.until - at)
        is_alone = self.until > 0 and self.ranges == 1
        return expected if is_alone else max(expected, 2 * self.length - self.fetched)

    def continues(self, offset: int) -> bool:
        """Whether a read continues from this position, over a gap no larger than the bytes read before it."""
        return self.end <= offset <= max(self.until - 1, self.end + self.length)


class Pieces:
    """The cached parts of one file; `fetch(begin, end)` requests a range."""

    def __init__(self, fetch: Callable[[int, int], bytes | memoryview], size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._runs: list[_Fetch] = []
        self._rows: list[_ReaderPosition] = []

    def expect(self, begin: int, end: int) -> None:
        """Take note that all from `begin` to `end` will be read, in a row."""
        with _lock:
            if any(begin <= row.end < end == row.until for row in self._rows):
                return  # A reader at its end that expects the same range starts over.
            if any(row.end <= begin and end <= row.until for row in self._rows):
                return
            row = next((row for row in reversed(self._rows) if row.continues(begin)), None)
            if row is None:
                self._keep(_ReaderPosition(begin, end))
            else:
                row.until = end
                row.ranges += 1

    def expect_each(self, offsets: Iterable[int], size: int) -> None:
        """Begin to fetch so many bytes at each of these places, a few at a time, neighbours at once."""
        ranges: list[list[int]] = []
        for begin in sorted(offsets):
            end = min(begin + size, self._size)
            if ranges and begin - ranges[-1][1] <= LOOK and end - ranges[-1][0] <= REQUEST:
                ranges[-1][1] = max(end, ranges[-1][1])
            elif 0 <= begin < end:
                ranges.append([begin, end])
        with _lock:
            runs = [
                self._begin(begin, end, _ReaderPosition(begin))
                for begin, end in ranges[:_MOST_LOOKS]
                if self._holding(begin) is None
            ]
        start_threads((partial(self._fill, run) for run in runs), min(len(runs), _LOOKS_AT_ONCE))

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`, which must be within the file."""
        if end - begin > REQUEST and self._holding(begin) is None:
            return b"".join(self._uncached(at, min(at + AT_ONCE, end)) for at in range(begin, end, AT_ONCE))
        with _lock:
            row = self._row_of(begin)
            new = max(0, end - max(begin, row.end))
            row.end = max(row.end, end)
        found = []
        at = begin
        while at < end:
            run = self._complete_fetch(at, end, row)
            found.append(self._taken(run, at, end))
            at = run.end
        is_sequential = row.length > 0 or row.until > end
        row.length += new
        if is_sequential:
            self._read_ahead(row)
        return found[0] if len(found) == 1 else b"".join(found)

    def _row_of(self, begin: int) -> _ReaderPosition:
        row = next((row for row in reversed(self._rows) if row.continues(begin)), None) or _ReaderPosition(
            begin
        )
        self._keep(row)
        return row

    def _keep(self, row: _ReaderPosition) -> None:
        self._rows = [*(each for each in self._rows if each is not row), row][-_MOST_ROWS:]

    def _holding(self, at: int) -> _Fetch | None:
        return next((run for run in self._runs if run.begin <= at < run.end), None)

    def _complete_fetch(self, at: int, end: int, row: _ReaderPosition) -> _Fetch:
        """Return the complete fetch that has a byte. Start one if there is none."""
        with _lock:
            run = self._holding(at)
            if run is not None:
                _cached[run] = _cached.pop(run, self._runs)
                mine = None
            else:
                stop = max(end, at + min(REQUEST, row.fetchable(end) + end - at))
                begin = self._looked_at(at) if stop - at < LOOK else at
                run = mine = self._begin(begin, max(stop, begin + LOOK), row)
        if mine is not None:
            start_threads([partial(self._fill, mine)], 1)
        wait_for(run.done)
        return run

    def _uncached(self, begin: int, end: int) -> bytes | memoryview:
        """Return what is too large to be held."""
        run = _Fetch(begin, end)
        start_threads([partial(self._fill, run)], 1)
        wait_for(run.done)
        return run.came

    def _looked_at(self, at: int) -> int:
        """Return where a look begins: who looks at a file's end looks before it next."""
        if self._size - at > LOOK:
            return at
        return max([self._size - LOOK, 0, *(run.end for run in self._runs if run.end <= at)])

    def _begin(self, begin: int, end: int, row: _ReaderPosition) -> _Fetch:
        """Return a new run, up to the next large one or the file's end; who calls has the lock."""
        # A sequential reader also reads over headers that were looked at: fetching a look twice costs less
        # than a request.
        least = LOOK if end - begin > LOOK else 0
        ahead = (run.begin for run in self._runs if run.begin > begin and run.end - run.begin > least)
        following = min(ahead, default=self._size)
        run = _Fetch(begin, min(end, following, self._size))
        row.fetched += run.end - run.begin
        self._runs.append(run)
        _cached[run] = self._runs
        surplus = sum(each.end - each.begin for each in _cached) - _MOST_HELD
        for each in sorted(
            (each for each in _cached if each.done.is_set()), key=lambda each: not each.is_used
        ):
            if surplus <= 0:
                break
            _cached.pop(each).remove(each)
            surplus -= each.end - each.begin
        return run

    def _fill(self, run: _Fetch) -> None:
        try:
            run.data = self._fetch(run.begin, run.end)
        except BaseException as error:
            run.error = error
            with _lock:
                if _cached.pop(run, None) is not None:
                    self._runs.remove(run)
        finally:
            run.done.set()

    def _taken(self, run: _Fetch, at: int, end: int) -> bytes:
        data = run.came
        run.is_used = run.is_used or end >= run.end
        return bytes(data[at - run.begin : min(end, run.end) - run.begin])

    def _read_ahead(self, row: _ReaderPosition) -> None:
        """Start to fetch the next bytes if there are enough of them, and more than are already held."""
        begun = []
        with _lock:
            at = row.end
            while (run := self._holding(at)) is not None:
                at = run.end
            end = min(at + row.fetchable(at), self._size)
            if end - at < max(_WORTH_A_THREAD, min(REQUEST, at - row.end)):
                return
            while at < end and at + REQUEST <= row.end + AHEAD and self._holding(at) is None:
                begun.append(self._begin(at, min(at + REQUEST, end), row))
                at = begun[-1].end
        start_threads((partial(self._fill, run) for run in begun), len(begun))
