"""The journal of an interrupted conversion: what is finished, so that another process can resume.

    TARGET_temp_<32 hex>/               named by a digest of the conversion, so that the same command finds it
    TARGET_temp_<32 hex>/ckpt.journal   lines, each: CRC-32C of its text in 8 hex digits, a space, the text
        {"journal": 1, ...}                             the first: the conversion, its sources and options
        ["changed", {PATH: TIME}]                       when sources last changed (ctime in nanoseconds)

    of a target on a disk (`formats.store.local.staging_journal`):
        ["filled", FILE, OFFSET, [[SIZE, CRC, ...]]]    consecutive ranges of a staged file: size, checksum,
                                                        and the checksums of their sources
        ["renamed", OLD, NEW]                           a staged file, just before it is renamed
        ["moved", FILE, PLACE, [INODE, SIZE, TIME]]     a staged file, just before it is moved to its place

    of a target in a bucket (`formats.store.remote.upload_journal`):
        ["count", N]                                            the count of shards in their names
        ["sent", NAME, IDENTITY, SIZE, [[OFFSET, SIZE, CRC]]]   an object, and its tensors
        ["head", SIZE, MD5]                                     the index, just before it is put

A journal may be cut off, damaged, or forged: everything after the first incomplete line is ignored. A range
counts after its bytes were read again and match the checksum. An object counts if the store still has the one
with this e_tag.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CheckpointError
from ..wire.crc32c import crc32c
from .siblings import LONGEST_STEM, staging_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..location import Location
    from .base import Identity


JOURNAL = "ckpt.journal"
"""Its name in the staging directory, which ends like no checkpoint's."""

_VERSION = 1

LONGEST = 256 << 20
"""Bytes of a journal; 100 TB make 20 MB of it, a million small tensors 15 MB."""

_MOST_TOGETHER = 4096
"""Ranges in one line."""

_LARGEST = 1 << 63


class Claim(NamedTuple):
    """A journal's entry for a range of a staged file: its size in bytes, its checksum, and the checksums of
    its sources.
    """

    size: int
    made: int
    read: tuple[int, ...] = ()


class Moved(NamedTuple):
    """A staged file that was about to be moved: its name, that of its place, by what it is known."""

    name: str
    place: str
    identity: tuple[int, int, int]


Row = tuple[int, int, int]
"""The position of a tensor in an object: offset, size in bytes, masked checksum."""


class Sent(NamedTuple):
    """An object that is finished."""

    identity: Identity
    size: int
    rows: tuple[Row, ...]


# Lines ----------------------------------------------------------------------------


class JournalContent:
    """The content of a journal.

    `header` is None if it cannot be read; `is_whole` says whether the journal was cut off.
    """

    def __init__(self, header: dict[str, Any] | None = None, *, is_whole: bool = True) -> None:
        self.header = header
        self.is_whole = is_whole
        self.changed: Mapping[str, int] = {}
        self.claims: list[bytes] = []
        self.changes: list[Moved | tuple[str, str]] = []
        self.count: int | None = None
        self.sent: dict[str, Sent] = {}
        self.head: tuple[int, str] | None = None

    def add(self, line: bytes) -> bool:
        """Take note of a line; return whether it is one."""
        match value_of(line):
            case ["filled", name, begin, list(ranges)] if (
                is_name(name) and is_number(begin) and all(map(_is_range, ranges))
            ):
                self.claims.append(line)  # decoded when one of its ranges is looked up
            case ["changed", dict(changed)] if all(map(is_number, changed.values())):
                self.changed = changed
            case ["renamed", old, new] if is_name(old) and is_name(new):
                self.changes.append((old, new))
            case ["moved", name, place, [_, _, _] as identity] if (
                is_name(name) and is_name(place) and all(map(is_number, identity))
            ):
                self.changes.append(Moved(name, place, tuple(identity)))
            case ["count", count] if is_number(count):
                self.count = count
            case ["sent", name, list(identity), size, list(rows)] if (
                is_name(name) and all(map(_is_part, identity)) and is_number(size) and all(map(_is_row, rows))
            ):
                self.sent[name] = Sent(tuple(identity), size, tuple(map(tuple, rows)))
            case ["head", size, str(md5)] if is_number(size):
                self.head = size, md5
            case _:
                return False
        return True

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of what counts when it is resumed; files that were moved are moved back then."""
        yield line_of(self.header)
        yield line_of(["changed", self.changed])
        yield from self.claims
        if self.count is not None:
            yield line_of(["count", self.count])
        for name, sent in self.sent.items():
            yield line_of(["sent", name, sent.identity, sent.size, sent.rows])
        if self.head is not None:
            yield line_of(["head", *self.head])


def parse_journal(lines: Iterator[bytes]) -> JournalContent:
    """Return what a journal says, up to the first line that is not whole."""
    found = JournalContent(header_of(next(lines, b"")))
    found.is_whole = found.header is not None and all(map(found.add, lines))
    return found


def digest(header: Mapping[str, Any]) -> str:
    """Return the 32 hex digits that a staging directory's name has for this conversion."""
    return hashlib.sha256(_encoded(header).encode()).hexdigest()[:32]


def _encoded(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def line_of(value: object) -> bytes:
    text = _encoded(value).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def value_of(line: bytes) -> Any:
    """Return what a line says; None if it is not whole."""
    text = line[9:-1]
    if line[-1:] != b"\n" or line[:9] != b"%08x " % crc32c(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def header_of(line: bytes) -> dict[str, Any] | None:
    """Return the first line of a journal; None if it is not whole, or of another version."""
    value = value_of(line)
    if not isinstance(value, dict) or value.get("journal") != _VERSION:
        return None
    is_ours = isinstance(value.get("target"), str) and is_number(value.get("nbytes"))
    return value if is_ours else None


def _is_range(value: Any) -> bool:
    """Whether it is a size, and one checksum or more."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    return all(map(is_number, value)) and all(checksum < 1 << 32 for checksum in value[1:])


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(is_number, value))


def _is_part(value: Any) -> bool:
    """Whether it is a part of an identity."""
    return isinstance(value, str) or is_number(value)


def is_name(value: Any) -> bool:
    """Whether it is the name of a file in a directory, and of none above or below."""
    return isinstance(value, str) and value not in ("", ".", "..", JOURNAL) and not set(value) & set("/\0")


def is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


class Claims:
    """The claims of a journal by staged file; a line is decoded when one of its ranges is looked up."""

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
    """Split lines into lines of one range each; the later of two lines for the same range counts."""
    claims: dict[int, Claim] = {}
    for line in lines:
        claims.update(_ranges(line))
    return [
        (
            offset,
            offset + claim.size,
            line_of(["filled", name, offset, [[claim.size, claim.made, *claim.read]]]),
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


def lines_of(filled: list[tuple[str, int, Claim]]) -> Iterator[bytes]:
    """Yield lines of what was filled, neighbours in one."""
    ranges: list[list[int]] = []
    name, begin, end = "", 0, 0
    for file, offset, claim in sorted(filled, key=lambda each: each[:2]):
        if ranges and (file != name or offset != end or len(ranges) == _MOST_TOGETHER):
            yield line_of(["filled", name, begin, ranges])
            ranges = []
        if not ranges:
            name, begin = file, offset
        ranges.append([claim.size, claim.made, *claim.read])
        end = offset + claim.size
    if ranges:
        yield line_of(["filled", name, begin, ranges])


# Resuming -------------------------------------------------------------------------


class Journal(ABC):
    """The journal of a target, in its staging directory, from `begin` on.

    `header` describes the conversion as plain data. `changed` is the newest ctime of the sources. A link or a
    chmod changes it too, so the description omits it. If the conversion `is_over`, because everything
    is in place, the journal keeps only that fact until `forget`. A journal that `is_void` is removed.
    """

    def __init__(self, target: Location, header: Mapping[str, Any], changed: Mapping[str, int]) -> None:
        self.target = target
        self.header = {"journal": _VERSION, **header}
        stem = target.name[:LONGEST_STEM]
        self.directory = target.beside(f"{stem}_temp_{digest(self.header)}")
        self.is_damaged = False
        self.is_over = False
        self.is_void = False
        self._changed = changed
        self._known: JournalContent | None = None

    # What another process has left ------------------------------------------------

    @abstractmethod
    def _read(self, directory: Location) -> JournalContent:
        """Return what the journal in a staging directory says.  Raises CheckpointError."""

    def _staged(self) -> Iterator[Location]:
        """Yield the staging directories next to the target, including those of targets whose names begin
        alike.
        """
        folder, name = self.target.split_name()
        pattern = staging_pattern(name)[1]
        names: list[tuple[str, bool]] = []
        # the writer reports a folder that cannot be listed, unless it is missing
        with suppress(CheckpointError):
            names = folder.names()
        for name, is_folder in names:
            if is_folder and pattern.fullmatch(name):
                yield folder / name

    def others(self) -> Iterator[tuple[Location, dict[str, Any]]]:
        """Yield other staging directories of this target, and their headers.

        Raises CheckpointError if another process works in one, or in the own.
        """
        for path in self._staged():
            header = self._read(path).header if path != self.directory else None
            if header is not None and header.get("target") == self.header.get("target"):
                yield path, header

    def _begun(self) -> JournalContent:
        """Return what the own journal says; nothing of one that calls itself what it is not."""
        found = self._read(self.directory)
        return found if found.header in (None, self.header) else JournalContent(is_whole=False)

    @property
    def _content(self) -> JournalContent:
        """The content of the journal when it was first read, or since `begin`."""
        if self._known is None:
            self._known = self._begun()
        return self._known

    @property
    @abstractmethod
    def is_there(self) -> bool:
        """Whether a process has begun, and left something."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether everything was moved into place, and is still there."""

    @property
    def is_doubtful(self) -> bool:
        """Whether a source was changed, if only its links or mode, since the first process began.

        A range filled at that time may come from another file, so it counts only after its source was read
        again.
        """
        return self._content.header is not None and self._content.changed != self._changed

    @property
    @abstractmethod
    def has_moved(self) -> bool:
        """Whether some of it is in its place already, and belongs to nothing else."""

    # What this process does -------------------------------------------------------

    def begin(self) -> None:
        """Take the staging directory, and rewrite the journal with the entries that count."""
        self._acquire()
        self._known = found = self._begun()
        self.is_damaged = found.header is None and not found.is_whole
        if found.header is None:
            found.header, found.changed = self.header, self._changed
        self._resume(found)

    @abstractmethod
    def _acquire(self) -> None:
        """Take the lock.  Raises CheckpointError if another process has it."""

    @abstractmethod
    def _resume(self, found: JournalContent) -> None:
        """Remove everything that does not count, and rewrite the journal."""

    def claim(self, name: str, offset: int, size: int) -> Claim | None:  # noqa: ARG002  where ranges count
        """Return what is claimed of a range of a staged file; None if nothing is."""
        return None

    def filled(self, name: str, offset: int, claim: Claim) -> None:  # noqa: B027  where ranges count
        """Note that a range of a staged file is written.  Raises CheckpointError if that cannot be."""

    @abstractmethod
    def keeps(self) -> bool:
        """Whether it stays: there is something to resume, or to be remembered, or it is another's by now."""

    @property
    @abstractmethod
    def is_kept(self) -> bool:
        """Whether it is there for others to resume."""

    @abstractmethod
    def remove(self) -> None:
        """Let it go, where nothing was staged by this process; what there is to resume stays."""

    @abstractmethod
    def forget(self) -> None:
        """Remove what is remembered of what is done."""

    def sweep(self) -> None:  # noqa: B027  a bucket has no directories
        """Remove the directory where a kill has left nothing in it."""


# Messages -------------------------------------------------------------------------

DAMAGED = "an interrupted conversion whose journal is damaged"


def describe_unfinished(name: str, done: str) -> str:
    """Return in words what an interrupted conversion has left."""
    return f"an interrupted conversion to {name}, {done}; to continue it, pass --resume"


def describe_finished(name: str) -> str:
    """Describe a finished conversion by its target's name."""
    return f"a conversion to {name} that was interrupted just before it finished"
