"""What a conversion has finished: a journal in its staging directory, by which others go on with it.

    TARGET_temp_<32 hex>/             named by the digest of what is done, so that who does the same finds it
    TARGET_temp_<32 hex>/JOURNAL      lines, each: CRC-32C of its text: 8 hex digits, a space, text: JSON
        {"journal": 1, ...}                             the first: what is done, of which sources, how
        ["changed", {PATH: TIME}]                       when sources were last changed (ctime, in nanoseconds)
        ["filled", FILE, OFFSET, [[SIZE, CRC, ...]]]    ranges of a staged file, one behind the other: bytes,
                                                        checksum, and those of what was read for it
        ["renamed", OLD, NEW]                           a staged file, just before it has another name
        ["moved", FILE, PLACE, [INODE, SIZE, TIME]]     a staged file, just before it is moved to its place

A journal may be cut off, damaged, or anybody's invention: what stands behind the first line that is not whole
is forgotten, and a range is believed to be there when its bytes were read again and have the checksum.
What lies in the directory and is not spoken of is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import CheckpointError
from ...wire.crc32c import crc32c
from ..siblings import LONGEST_STEM, staging_pattern
from .staging import refusing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...location import Location


JOURNAL = "ckpt.journal"
"""Its name in the staging directory, which ends like no checkpoint's."""

JOURNAL_VERSION = 1

LONGEST, _LONGEST_LINE = 256 << 20, 16 << 20
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


class JournalContent(NamedTuple):
    """What a journal on disk says; `header` is None where it cannot be read, `is_whole` tells of its end."""

    header: dict[str, Any] | None
    lines: list[bytes]
    changes: list[Moved | tuple[str, str]]
    is_whole: bool
    changed: Mapping[str, int] = {}


def digest(header: Mapping[str, Any]) -> str:
    """Return the 32 hex digits that stand in a staging directory's name for what is done there."""
    return hashlib.sha256(_encoded(header).encode()).hexdigest()[:32]


def _encoded(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def line_of(value: object) -> bytes:
    text = _encoded(value).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def staging_of(target: Location, name: str) -> Location:
    """Return the staging directory of a target that has these 32 hex digits in its name."""
    return target.beside(f"{target.name[:LONGEST_STEM]}_temp_{name}")


def journaled(target: Location) -> list[Location]:
    """Return the staging directories with a journal beside a target, of targets whose names begin alike."""
    folder = target.parent
    _, pattern = staging_pattern(target.name)
    try:
        names = sorted(filter(pattern.fullmatch, os.listdir(folder or os.curdir)))
    except OSError:  # There is no such directory yet, or nobody may look, which writing will say.
        return []
    return [path for name in names if has_journal(path := folder / name)]


def has_journal(directory: str) -> bool:
    return os.path.lexists(os.path.join(directory, JOURNAL))


# Reading --------------------------------------------------------------------------


def read_journal(directory: Location) -> JournalContent:
    """Return what the journal of a staging directory says.

    Raises CheckpointError where it may not be read, or is somebody else's.
    """
    with refusing(directory):
        refuse_strangers(directory)
        try:
            fd = os.open(os.path.join(directory, JOURNAL), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return JournalContent(None, [], [], is_whole=True)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LONGEST:
                return JournalContent(None, [], [], is_whole=False)
            return _decoded(iter(lambda: file.readline(_LONGEST_LINE), b""))


def refuse_strangers(directory: str) -> None:
    """Refuse to believe, or to write over, what another user has put there."""
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        message = "is where the conversion would be gone on with, and somebody else's"
        raise CheckpointError(message, path=directory, hints=("remove it, or leave out --resume",))


def _decoded(lines: Iterator[bytes]) -> JournalContent:
    header = header_of(next(lines, b""))
    if header is None:
        return JournalContent(None, [], [], is_whole=False)
    claims: list[bytes] = []
    changes: list[Moved | tuple[str, str]] = []
    changed: dict[str, int] = {}
    for line in lines:
        value = value_of(line)
        if _is_filled(value):
            claims.append(line)
        elif is_times(value):
            changed = value[1]
        elif _is_renamed(value):
            changes.append((value[1], value[2]))
        elif _is_moved(value):
            changes.append(Moved(value[1], value[2], tuple(value[3])))
        else:
            return JournalContent(header, claims, changes, is_whole=False, changed=changed)
    return JournalContent(header, claims, changes, is_whole=True, changed=changed)


def value_of(line: bytes) -> Any:
    """Return what a line says; None where it is not whole."""
    text = line[9:-1]
    if line[-1:] != b"\n" or line[:9] != b"%08x " % crc32c(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def header_of(line: bytes) -> dict[str, Any] | None:
    """Return the first line of a journal; None where it is not whole, or of another version."""
    value = value_of(line)
    if not isinstance(value, dict) or value.get("journal") != JOURNAL_VERSION:
        return None
    is_ours = isinstance(value.get("target"), str) and is_number(value.get("nbytes"))
    return value if is_ours else None


def _is_filled(value: Any) -> bool:
    return (
        is_of(value, "filled", 4)
        and is_name(value[1])
        and is_number(value[2])
        and isinstance(value[3], list)
        and all(map(_is_range, value[3]))
    )


def _is_range(value: Any) -> bool:
    """Whether it is a size, and one checksum or more."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    return all(map(is_number, value)) and all(checksum < 1 << 32 for checksum in value[1:])


def _is_renamed(value: Any) -> bool:
    return is_of(value, "renamed", 3) and is_name(value[1]) and is_name(value[2])


def _is_moved(value: Any) -> bool:
    if not (is_of(value, "moved", 4) and is_name(value[1]) and is_name(value[2])):
        return False
    identity = value[3]
    return isinstance(identity, list) and len(identity) == 3 and all(map(is_number, identity))


def is_times(value: Any) -> bool:
    """Whether a line says when sources were last changed."""
    return (
        is_of(value, "changed", 2) and isinstance(value[1], dict) and all(map(is_number, value[1].values()))
    )


def is_of(value: Any, kind: str, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and value[0] == kind


def is_name(value: Any) -> bool:
    """Whether it is the name of a file in a directory, and of none above or below."""
    return isinstance(value, str) and value not in ("", ".", "..", JOURNAL) and not set(value) & set("/\0")


def is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


class Claims:
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


def identity_of(path: str) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def told(directory: Location) -> str | None:
    """Return what lies in a staging directory that others can go on with; None where it is none."""
    if not has_journal(directory):
        return None
    try:
        found = read_journal(directory)
    except CheckpointError:
        return "an interrupted conversion of somebody else's"
    if found.header is None:
        return "an interrupted conversion whose journal is damaged"
    name, nbytes = found.header.get("target"), found.header.get("nbytes")
    if any(isinstance(change, Moved) and change.name == change.place for change in found.changes):
        return f"a conversion to {name} that was interrupted when it was all but done"
    done = sum(size for line in found.lines for size, *_ in json.loads(line[9:])[3])
    return f"an interrupted conversion to {name}, {done:,} of {nbytes:,} bytes done; --resume goes on with it"
