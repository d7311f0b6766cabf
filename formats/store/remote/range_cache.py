"""What is in memory of a file on a server, and how many requests reading it takes.

A request takes as long as some hundred kilobytes do.  So a first look takes 64 KiB, and who reads in a row
is read ahead for: as much as was read so far, so that never more than twice of what is wanted is
fetched.  Who says beforehand what will be read (`expect`) is read ahead for at once, up to its end.
What is ahead is fetched while what was fetched is worked on.  Threads fetch that alone: whoever waits for
a server can be interrupted, or cancelled, and leaves them to themselves.

    run    bytes that one request fetches; it lies there for all threads that want some of it
    row    where somebody reads on, and how much was read there in a row
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
"""Bytes at most ahead of who reads on, which go over the network while the others are worked on."""

AT_ONCE = 64 << 20
"""Bytes of the largest request, where somebody wants them all together."""

_LOOKS_AT_ONCE, _MOST_LOOKS = 8, 512
_WORTH_A_THREAD = 1 << 20
_MOST_ROWS = 16
_MOST_HELD = 64 << 20
"""Bytes held of all files together; what is under way counts, and stays, what was read up goes first."""


class _Fetch:
    """What one request fetches, or has fetched."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end
        self.data: bytes | memoryview | None = None
        self.is_used = False
        self.error: BaseException | None = None
        self.done = threading.Event()

    @property
    def came(self) -> bytes | memoryview:
        """What came of it, when it is done."""
        if self.data is None:
            assert self.error is not None
            raise self.error
        return self.data


_lock = threading.Lock()
_held: dict[_Fetch, list[_Fetch]] = {}
"""All runs, those used last at the end, and the runs of the same file."""


def _forget_unfinished() -> None:
    """In a forked process, let go of what threads of its parent fetch."""
    global _lock  # noqa: PLW0603  another thread may have held it
    _lock = threading.Lock()
    for run in [run for run in _held if not run.done.is_set()]:
        _held.pop(run).remove(run)


os.register_at_fork(after_in_child=_forget_unfinished)


class _ReaderPosition:
    """Where somebody reads on; `until` is the end of what will be read, where that was said.

    Who went on from one such stretch to the next may go on to another.
    """

    def __init__(self, end: int, until: int = 0) -> None:
        self.end = end
        self.length = 0
        self.fetched = 0
        self.until = until
        self.stretches = 1

    def fetchable(self, at: int) -> int:
        """Return how many bytes from here on may be fetched, asked for or not."""
        expected = max(0, self.until - at)
        is_alone = self.until > 0 and self.stretches == 1
        return expected if is_alone else max(expected, 2 * self.length - self.fetched)

    def continues(self, offset: int) -> bool:
        """Whether a read goes on with this row, over a gap that is no larger than what was read before it."""
        return self.end <= offset <= max(self.until - 1, self.end + self.length)


class Pieces:
    """The bytes of one file, of which `fetch(begin, end)` gets some by one request, and all of them."""

    def __init__(self, fetch: Callable[[int, int], bytes | memoryview], size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._runs: list[_Fetch] = []
        self._rows: list[_ReaderPosition] = []

    def expect(self, begin: int, end: int) -> None:
        """Take note that all from `begin` to `end` will be read, in a row."""
        with _lock:
            if any(begin <= row.end < end == row.until for row in self._rows):
                return  # Who has come to its end, and expects it once more, begins again.
            if any(row.end <= begin and end <= row.until for row in self._rows):
                return
            row = next((row for row in reversed(self._rows) if row.continues(begin)), None)
            if row is None:
                self._keep(_ReaderPosition(begin, end))
            else:
                row.until = end
                row.stretches += 1

    def expect_each(self, offsets: Iterable[int], size: int) -> None:
        """Begin to fetch so many bytes at each of these places, a few at a time, neighbours at once."""
        stretches: list[list[int]] = []
        for begin in sorted(offsets):
            end = min(begin + size, self._size)
            if stretches and begin - stretches[-1][1] <= LOOK and end - stretches[-1][0] <= REQUEST:
                stretches[-1][1] = max(end, stretches[-1][1])
            elif 0 <= begin < end:
                stretches.append([begin, end])
        with _lock:
            runs = [
                self._begin(begin, end, _ReaderPosition(begin))
                for begin, end in stretches[:_MOST_LOOKS]
                if self._holding(begin) is None
            ]
        start_threads((partial(self._fill, run) for run in runs), min(len(runs), _LOOKS_AT_ONCE))

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end`, which lie within the file."""
        if end - begin > REQUEST and self._holding(begin) is None:
            return b"".join(self._alone(at, min(at + AT_ONCE, end)) for at in range(begin, end, AT_ONCE))
        with _lock:
            row = self._row_of(begin)
            new = max(0, end - max(begin, row.end))
            row.end = max(row.end, end)
        found = []
        at = begin
        while at < end:
            run = self._held(at, end, row)
            found.append(self._taken(run, at, end))
            at = run.end
        goes_on = row.length > 0 or row.until > end
        row.length += new
        if goes_on:
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

    def _held(self, at: int, end: int, row: _ReaderPosition) -> _Fetch:
        """Return the run that has a byte, when it has come; it is asked for where nobody has yet."""
        with _lock:
            run = self._holding(at)
            if run is not None:
                _held[run] = _held.pop(run, self._runs)
                mine = None
            else:
                stop = max(end, at + min(REQUEST, row.fetchable(end) + end - at))
                begin = self._looked_at(at) if stop - at < LOOK else at
                run = mine = self._begin(begin, max(stop, begin + LOOK), row)
        if mine is not None:
            start_threads([partial(self._fill, mine)], 1)
        wait_for(run.done)
        return run

    def _alone(self, begin: int, end: int) -> bytes | memoryview:
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
        # Who reads on reads over headers that were looked at: a look fetched twice costs less than a request.
        least = LOOK if end - begin > LOOK else 0
        ahead = (run.begin for run in self._runs if run.begin > begin and run.end - run.begin > least)
        following = min(ahead, default=self._size)
        run = _Fetch(begin, min(end, following, self._size))
        row.fetched += run.end - run.begin
        self._runs.append(run)
        _held[run] = self._runs
        surplus = sum(each.end - each.begin for each in _held) - _MOST_HELD
        for each in sorted((each for each in _held if each.done.is_set()), key=lambda each: not each.is_used):
            if surplus <= 0:
                break
            _held.pop(each).remove(each)
            surplus -= each.end - each.begin
        return run

    def _fill(self, run: _Fetch) -> None:
        try:
            run.data = self._fetch(run.begin, run.end)
        except BaseException as error:
            run.error = error
            with _lock:
                if _held.pop(run, None) is not None:
                    self._runs.remove(run)
        finally:
            run.done.set()

    def _taken(self, run: _Fetch, at: int, end: int) -> bytes:
        data = run.came
        run.is_used = run.is_used or end >= run.end
        return bytes(data[at - run.begin : min(end, run.end) - run.begin])

    def _read_ahead(self, row: _ReaderPosition) -> None:
        """Begin to fetch what comes next, where that is much, and more than is there already."""
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
