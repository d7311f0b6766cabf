"""FlatBuffers, read within bounds: tables, vectors and strings by their offsets.

    file:    uint32 offset of the root table, 4 bytes of identifier
    table:   int32 back to its vtable, then fields
    vtable:  uint16 its own bytes, uint16 bytes of the table, uint16 for each field (0: absent, the default)
    vector:  uint32 count, elements        offset of a table, vector or string: uint32 from its own position

Every offset is compared with the size before it is used.  Tables may share a vtable, and anything else; who
goes through many of them counts what it makes.
https://flatbuffers.dev/internals/
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SIZES = {code: struct.calcsize("<" + code) for code in "bBhHiIqQf"}


class FlatBuffer:
    """The flatbuffer of a file; `read(offset, size)` returns bytes that are known to exist."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self.size = size

    def number(self, code: str, at: int) -> Any:
        """Return a number; ValueError if it is not in the file."""
        count = _SIZES[code]
        if not 0 <= at <= self.size - count:
            raise ValueError(f"byte {at} is past the end of the file ({self.size} bytes)")
        return struct.unpack("<" + code, self._read(at, count))[0]

    def root(self) -> int:
        return self.target(0)

    def target(self, at: int) -> int:
        """Return where the offset at a place leads."""
        found = at + int(self.number("I", at))
        if found == at or found >= self.size:
            fault = "which is itself" if found == at else f"past the end of the file ({self.size} bytes)"
            raise ValueError(f"the offset at byte {at} points to byte {found}, {fault}")
        return found

    def field(self, table: int, number: int) -> int | None:
        """Return where a field of a table is; None if it is absent."""
        vtable = table - int(self.number("i", table))
        size = int(self.number("H", vtable))
        place = 4 + 2 * number
        if place + 2 > size:
            return None
        offset = int(self.number("H", vtable + place))
        return table + offset if offset else None

    def scalar(self, table: int, number: int, code: str, default: Any = 0) -> Any:
        """Return a number in a table."""
        at = self.field(table, number)
        return default if at is None else self.number(code, at)

    def table(self, table: int, number: int) -> int | None:
        """Return where the table in a field is; None if it is absent."""
        at = self.field(table, number)
        return None if at is None else self.target(at)

    def vector(self, table: int, number: int, itemsize: int) -> tuple[int, int] | None:
        """Return where a vector's elements begin, and how many there are; None if it is absent."""
        at = self.field(table, number)
        if at is None:
            return None
        begin = self.target(at)
        count = int(self.number("I", begin))
        if count * itemsize > self.size - begin - 4:
            left = self.size - begin - 4
            raise ValueError(
                f"a vector of {count} elements begins at {begin}, but only {left} bytes are left"
            )
        return begin + 4, count

    def numbers(self, table: int, number: int, code: str) -> tuple[Any, ...]:
        """Return the numbers of a vector; none if it is absent."""
        found = self.vector(table, number, _SIZES[code])
        if found is None or not found[1]:
            return ()
        begin, count = found
        return struct.unpack(f"<{count}{code}", self._read(begin, count * _SIZES[code]))

    def tables(self, table: int, number: int) -> list[int]:
        """Return where the tables of a vector are."""
        found = self.vector(table, number, 4)
        if found is None or not found[1]:
            return []
        begin, count = found
        offsets = struct.unpack(f"<{count}I", self._read(begin, 4 * count))
        places = [begin + 4 * at + offset for at, offset in enumerate(offsets)]
        if max(places) >= self.size:
            raise ValueError(
                f"the vector at byte {begin} points past the end of the file ({self.size} bytes)"
            )
        return places

    def text(self, table: int, number: int, longest: int) -> str:
        """Return a string, bytes that are not UTF-8 as lone surrogates; empty if it is absent."""
        found = self.vector(table, number, 1)
        if found is None:
            return ""
        begin, size = found
        if size > longest:
            raise ValueError(f"a string has {size} bytes, over the limit of {longest}")
        return self._read(begin, size).decode("utf-8", "surrogateescape")
