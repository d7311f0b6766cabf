"""What a conversion has finished: a journal in its staging directory, by which others go on with it.

    TARGET_temp_<32 hex>/             named by the digest of what is done, so that who does the same finds it
    TARGET_temp_<32 hex>/JOURNAL      lines, each: CRC-32C of its text: 8 hex digits, a space, text: JSON
        {"journal": 1, ...}                             the first: what is done, of which sources, how
        ["filled", FILE, OFFSET, [[SIZE, CRC, ...]]]    ranges of a staged file, one behind the other: bytes,
                                                        checksum, and those of what was read for it
        ["renamed", OLD, NEW]                           a staged file, just before it has another name
        ["moved", FILE, PLACE, [INODE, SIZE, TIME]]     a staged file, just before it is moved to its place

Finished ranges are collected, and written and synced once a second by a thread of its own.  A
journal may be cut off, damaged, or anybody's invention: what stands behind the first line that is not whole
is forgotten, and a range is believed to be there when its bytes were read again and have the checksum.
What lies in the directory and is not spoken of is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import threading
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CheckpointError
from ..wire.crc32c import crc32c
from .locks import holder, is_locked, lock
from .staging import (
    ALIVE,
    LONGEST_STEM,
    make_directories,
    put_back,
    refusing,
    remove_empty,
    sync_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


JOURNAL = "ckpt.journal"
"""Its name in the staging directory, which ends like no checkpoint's."""

VERSION = 1

_EVERY = 1.0
"""Seconds between two writes: what is lost to a kill is worth no more."""

_MOST_BYTES, _LONGEST_LINE = 256 << 20, 16 << 20
"""Bytes of a journal and of its header; 100 TB make 20 MB of it, a million small tensors 15 MB."""

_MOST_TOGETHER = 4096
"""Ranges in one line."""

_LARGEST = 1 << 63


class Claim(NamedTuple):
    """What a journal says of a range of a staged file: bytes, their checksum, those of what was read."""

    size: int
    made: int
    read: tuple[int, ...] = ()


class Moved(NamedTuple):
    """A staged file that was about to be moved: its name, that of its place, by what it is known."""

    name: str
    place: str
    identity: tuple[int, int, int]


class Found(NamedTuple):
    """What a journal on disk says; `header` is None where it cannot be read, `is_whole` tells of its end."""

    header: dict[str, Any] | None
    lines: list[bytes]
    changes: list[Moved | tuple[str, str]]
    is_whole: bool


def digest(header: Mapping[str, Any]) -> str:
    """Return the 32 hex digits that stand in a staging directory's name for what is done there."""
    return hashlib.sha256(_encoded(header).encode()).hexdigest()[:32]


def _encoded(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _line(value: object) -> bytes:
    text = _encoded(value).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def staging_of(target: str, name: str) -> str:
    """Return the staging directory of a target that has these 32 hex digits in its name."""
    return os.path.join(os.path.dirname(target), f"{os.path.basename(target)[:LONGEST_STEM]}_temp_{name}")


def journaled(target: str) -> list[str]:
    """Return the staging directories with a journal beside a target, of targets whose names begin alike."""
    folder = os.path.dirname(target)
    pattern = re.compile(re.escape(os.path.basename(target)[:LONGEST_STEM]) + r"_temp_[0-9a-f]{32}")
    try:
        names = sorted(filter(pattern.fullmatch, os.listdir(folder or ".")))
    except OSError:  # There is no such directory yet, or nobody may look, which writing will say.
        return []
    return [path for name in names if has_journal(path := os.path.join(folder, name))]


def has_journal(directory: str) -> bool:
    return os.path.lexists(os.path.join(directory, JOURNAL))


# Reading --------------------------------------------------------------------------


def read_journal(directory: str) -> Found:
    """Return what the journal of a staging directory says.

    Raises CheckpointError where it may not be read, or is somebody else's.
    """
    with refusing(directory):
        _refuse_strangers(directory)
        try:
            fd = os.open(os.path.join(directory, JOURNAL), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return Found(None, [], [], is_whole=True)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                return Found(None, [], [], is_whole=False)
            return _decoded(iter(lambda: file.readline(_LONGEST_LINE), b""))


def _refuse_strangers(directory: str) -> None:
    """Refuse to believe, or to write over, what another user has put there."""
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        message = "is where the conversion would be gone on with, and somebody else's"
        raise CheckpointError(message, path=directory, hints=("remove it, or leave out --resume",))


def _decoded(lines: Iterator[bytes]) -> Found:
    header = _header(next(lines, b""))
    if header is None:
        return Found(None, [], [], is_whole=False)
    claims: list[bytes] = []
    changes: list[Moved | tuple[str, str]] = []
    for line in lines:
        value = _value(line)
        if _is_filled(value):
            claims.append(line)
        elif _is_renamed(value):
            changes.append((value[1], value[2]))
        elif _is_moved(value):
            changes.append(Moved(value[1], value[2], tuple(value[3])))
        else:
            return Found(header, claims, changes, is_whole=False)
    return Found(header, claims, changes, is_whole=True)


def _value(line: bytes) -> Any:
    """Return what a line says; None where it is not whole."""
    text = line[9:-1]
    if line[-1:] != b"\n" or line[:9] != b"%08x " % crc32c(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _header(line: bytes) -> dict[str, Any] | None:
    value = _value(line)
    return value if isinstance(value, dict) and value.get("journal") == VERSION else None


def _is_filled(value: Any) -> bool:
    return (
        _is_of(value, "filled", 4)
        and _is_name(value[1])
        and _is_number(value[2])
        and isinstance(value[3], list)
        and all(map(_is_range, value[3]))
    )


def _is_range(value: Any) -> bool:
    """Whether it is a size, and one checksum or more."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    return all(map(_is_number, value)) and all(checksum < 1 << 32 for checksum in value[1:])


def _is_renamed(value: Any) -> bool:
    return _is_of(value, "renamed", 3) and _is_name(value[1]) and _is_name(value[2])


def _is_moved(value: Any) -> bool:
    if not (_is_of(value, "moved", 4) and _is_name(value[1]) and _is_name(value[2])):
        return False
    identity = value[3]
    return isinstance(identity, list) and len(identity) == 3 and all(map(_is_number, identity))


def _is_of(value: Any, kind: str, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and value[0] == kind


def _is_name(value: Any) -> bool:
    """Whether it is the name of a file in a directory, and of none above or below."""
    return isinstance(value, str) and value not in ("", ".", "..", JOURNAL) and not set(value) & set("/\0")


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


class _Claims:
    """The claims of a journal by staged file; a line is taken apart when one of its ranges is asked for."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._begins: dict[str, list[int]] = {}
        self._lines: dict[str, list[bytes]] = {}
        placed: dict[str, list[tuple[int, int, bytes]]] = {}
        for line in lines:
            _, name, begin, ranges = json.loads(line[9:])
            end = begin + sum(size for size, *_ in ranges)
            placed.setdefault(name, []).append((begin, end, line))
        for name, found in placed.items():
            ordered = sorted(found, key=lambda each: each[:2])
            if any(before[1] > after[0] for before, after in pairwise(ordered)):
                ordered = _one_by_one(name, [line for *_, line in found])
            self._begins[name] = [begin for begin, *_ in ordered]
            self._lines[name] = [line for *_, line in ordered]
        self._taken: tuple[bytes, dict[int, Claim]] = b"", {}

    @property
    def names(self) -> set[str]:
        return set(self._lines)

    def lines(self) -> Iterator[bytes]:
        for lines in self._lines.values():
            yield from lines

    def at(self, name: str, offset: int, size: int) -> Claim | None:
        """Return what is claimed of this very range."""
        position = bisect_right(self._begins.get(name, ()), offset) - 1
        if position < 0:
            return None
        line = self._lines[name][position]
        if self._taken[0] is not line:
            self._taken = line, _ranges(line)
        claim = self._taken[1].get(offset)
        return claim if claim is not None and claim.size == size else None


def _one_by_one(name: str, lines: Sequence[bytes]) -> list[tuple[int, int, bytes]]:
    """Return lines of one range each, where some are told twice: the later counts."""
    claims: dict[int, Claim] = {}
    for line in lines:
        claims.update(_ranges(line))
    return [
        (
            offset,
            offset + claim.size,
            _line(["filled", name, offset, [[claim.size, claim.made, *claim.read]]]),
        )
        for offset, claim in sorted(claims.items())
    ]


def _ranges(line: bytes) -> dict[int, Claim]:
    _, _, offset, ranges = json.loads(line[9:])
    found = {}
    for size, made, *read in ranges:
        found[offset] = Claim(size, made, tuple(read))
        offset += size
    return found


# Writing --------------------------------------------------------------------------


class Journal:
    """The journal of a target, and the staging directory that it is in, locked from `begin` on.

    `header` says what is done: plain data.  Of one that `is_over`, for all is in its place, that
    alone is remembered until `forget`; one that `is_void` is removed.
    """

    def __init__(self, target: str, header: Mapping[str, Any]) -> None:
        self.target = target
        self.header = {"journal": VERSION, **header}
        self.directory = staging_of(target, digest(self.header))
        self.made: list[str] = []
        self.lock: int | None = None
        self.is_damaged = False
        self.is_over = False
        self.is_void = False
        self._is_done = False
        self._claims = _Claims(())
        self._fd = -1
        self._pending: list[tuple[str, int, Claim]] = []
        self._error: OSError | None = None
        self._guard = threading.Condition()
        self._thread: threading.Thread | None = None

    def others(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield other staging directories of this target, and their headers.

        Raises CheckpointError where somebody works in one, or in the own.
        """
        for path in journaled(self.target):
            with refusing(path):
                held = is_locked(path)
            if held:
                raise _held(path)
            header = read_journal(path).header if path != self.directory else None
            if header is not None and header.get("target") == self.header.get("target"):
                yield path, header

    @property
    def is_done(self) -> bool:
        """Whether all was moved to its place, and lies there still."""
        if self.lock is None and has_journal(self.directory):
            return any(map(self._is_head_in_place, read_journal(self.directory).changes))
        return self._is_done

    @property
    def has_moved(self) -> bool:
        """Whether some of it has been moved to its place, where it is nobody else's."""
        if not has_journal(self.directory):
            return False
        changes = read_journal(self.directory).changes
        return any(isinstance(change, Moved) and self._is_ours(change) for change in changes)

    def begin(self) -> None:
        """Make the staging directory, or go on in it: lock it, and have nothing there but what is claimed."""
        ALIVE.add(self)
        with refusing(self.target):
            make_directories(os.path.dirname(self.target), self.made)
            self._lock()
        found = read_journal(self.directory)
        if found.header is not None and found.header != self.header:
            found = Found(None, [], [], is_whole=False)  # It calls itself what it is not.
        self.is_damaged = not found.is_whole and found.header is None
        self._is_done = any(map(self._is_head_in_place, found.changes))
        self._claims = _Claims(found.lines)
        with refusing(self.target):
            if not self._is_done:
                self._undo(found.changes)
                self._tidy()
                self._write_anew()
            sync_directory(self.directory)

    def _lock(self) -> None:
        while True:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.directory, 0o700)
            _refuse_strangers(self.directory)
            try:
                self.lock = lock(self.directory)
            except BlockingIOError as error:
                raise _held(self.directory) from error
            except FileNotFoundError:
                continue
            # Whoever held it before may have removed it since it was opened.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self.lock), os.lstat(self.directory)):
                    return
            os.close(self.lock)
            self.lock = None

    def _undo(self, changes: Sequence[Moved | tuple[str, str]]) -> None:
        """Have files back under the names that they were filled under."""
        put_back(self.directory)
        for change in reversed(changes):
            if isinstance(change, Moved):
                # Where an index was moved, the old data shards may have second names that it tells.
                if change.name == change.place and change.place not in self._heads and self._is_ours(change):
                    os.replace(self._final(change.place), self.path(change.name))
            elif os.path.lexists(self.path(change[1])) and not os.path.lexists(self.path(change[0])):
                os.rename(self.path(change[1]), self.path(change[0]))

    def _tidy(self) -> None:
        """Remove what is not claimed, and what has another name elsewhere: it is somebody's file."""
        import shutil

        with os.scandir(self.directory) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                elif not self._may_stay(entry):
                    os.unlink(entry.path)

    def _may_stay(self, entry: os.DirEntry[str]) -> bool:
        status = entry.stat(follow_symlinks=False)
        is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        return is_plain and (entry.name in self._claims.names or entry.name == JOURNAL)

    def _write_anew(self) -> None:
        """Write what counts, and nothing else, in place of the journal that is there."""
        new = self.path(JOURNAL + ".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
        try:
            _write(fd, _line(self.header))
            for line in self._claims.lines():
                _write(fd, line)
            os.fsync(fd)
            os.replace(new, self.path(JOURNAL))
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    # Places -----------------------------------------------------------------------

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _final(self, name: str) -> str:
        return os.path.join(os.path.dirname(self.target), name)

    @property
    def _heads(self) -> tuple[str, str]:
        """The names of what goes last: the one file, or an index."""
        name = os.path.basename(self.target)
        return name, name + ".index"

    def _is_ours(self, moved: Moved) -> bool:
        """Whether what lies in a place is the file that was moved there, and a place of the target's."""
        stem = os.path.basename(self.target).partition(".")[0]
        if not moved.place.startswith(stem):
            return False
        try:
            return _identity(self._final(moved.place)) == moved.identity
        except OSError:
            return False

    def _is_head_in_place(self, change: Moved | tuple[str, str]) -> bool:
        if not isinstance(change, Moved) or change.place not in self._heads:
            return False
        return change.name == change.place and self._is_ours(change)

    # What is claimed --------------------------------------------------------------

    def is_claimed(self, name: str) -> bool:
        """Whether anything is claimed of a staged file, which is there then."""
        return name in self._claims.names and os.path.lexists(self.path(name))

    def claim(self, name: str, offset: int, size: int) -> Claim | None:
        """Return what is claimed of a range of a staged file; None where nothing is."""
        return self._claims.at(name, offset, size) if size else None

    def filled(self, name: str, offset: int, claim: Claim) -> None:
        """Note that a range of a staged file is written.  Raises CheckpointError where that cannot be."""
        with self._guard:
            self._raise_error()
            self._pending.append((name, offset, claim))
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_now_and_then, daemon=True)
                self._thread.start()

    def renamed(self, old: str, new: str) -> None:
        """Note that a staged file is about to have another name."""
        self._note(["renamed", old, new])

    def moved(self, name: str, place: str) -> None:
        """Note that a staged file is about to be moved to its place, a path beside the target."""
        self._note(["moved", name, os.path.basename(place), _identity(self.path(name))])

    def _note(self, value: Sequence[object]) -> None:
        with refusing(self.target), self._guard:
            self._raise_error()
            _write(self._fd, _line(value))
            os.fsync(self._fd)

    def _raise_error(self) -> None:
        if self._error is not None:
            with refusing(self.target):
                raise self._error

    def _write_now_and_then(self) -> None:
        while True:
            with self._guard:
                if self._fd < 0:
                    return
                self._guard.wait(_EVERY)
            self._write_pending()

    def _write_pending(self) -> None:
        """Write what was filled since the last time; what is refused is raised by who notes the next."""
        with self._guard:
            pending, self._pending = self._pending, []
            if not pending or self._fd < 0 or self._error is not None:
                return
            try:
                for line in _lines(pending):
                    _write(self._fd, line)
            except OSError as error:
                self._error = error
                return
            fd = os.dup(self._fd)
        # Nobody waits for the disk meanwhile, and a kill loses nothing that is written.
        try:
            os.fsync(fd)
        except OSError as error:
            self._error = error
        finally:
            os.close(fd)

    # The end ----------------------------------------------------------------------

    def close(self) -> None:
        """Write what is left, and let another process go on."""
        with contextlib.suppress(CheckpointError):
            self._write_pending()
        with self._guard:
            fd, self._fd = self._fd, -1
            self._guard.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if fd >= 0:
            os.close(fd)
        held, self.lock = self.lock, None
        if held is not None:
            os.close(held)
        ALIVE.discard(self)

    def keeps(self) -> bool:
        """Whether its directory stays: there is something to go on with, or to be remembered."""
        import shutil

        if self.lock is None:
            return True  # Nobody may touch it who has not locked it, or has let it go.
        if self.is_over:
            for name in os.listdir(self.directory):
                if name != JOURNAL:
                    path = self.path(name)
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            return True
        self._write_pending()
        return not self.is_void and os.path.getsize(self.path(JOURNAL)) > len(_line(self.header))

    def remove(self) -> None:
        """Let it go, where nothing was staged by this process; what there is to go on with stays."""
        import shutil

        with refusing(self.target):
            if not self.keeps():
                shutil.rmtree(self.directory)
                remove_empty(self.made)
        self.close()

    def forget(self) -> None:
        """Remove what is remembered of what is done."""
        import shutil

        if self.is_over:
            with refusing(self.target):
                shutil.rmtree(self.directory, ignore_errors=True)
                remove_empty(self.made)

    def __del__(self) -> None:
        for fd in (self._fd, self.lock):
            if fd is not None and fd >= 0:
                os.close(fd)


def _held(path: str) -> CheckpointError:
    hints = ("wait for it, or end it: what it has finished is kept",)
    return CheckpointError(f"{holder(path)} is at this conversion", path=path, hints=hints)


def _identity(path: str) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _lines(filled: list[tuple[str, int, Claim]]) -> Iterator[bytes]:
    """Yield lines of what was filled, neighbours in one."""
    ranges: list[list[int]] = []
    name, begin, end = "", 0, 0
    for file, offset, claim in sorted(filled, key=lambda each: each[:2]):
        if ranges and (file != name or offset != end or len(ranges) == _MOST_TOGETHER):
            yield _line(["filled", name, begin, ranges])
            ranges = []
        if not ranges:
            name, begin = file, offset
        ranges.append([claim.size, claim.made, *claim.read])
        end = offset + claim.size
    if ranges:
        yield _line(["filled", name, begin, ranges])
