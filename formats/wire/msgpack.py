"""msgpack, read by its headers: what is large stays in the file, and is known by where it is.

    00..7f          positive integer          c0 c2 c3        nil, false, true
    80..8f          map of 0..15              c4 c5 c6        bytes, length of 1, 2, 4 bytes
    90..9f          list of 0..15             c7 c8 c9        extension: length, type, bytes
    a0..bf          text of 0..31 bytes       ca cb           float of 4, 8 bytes
    e0..ff          negative integer          cc..cf, d0..d3  unsigned and signed integers
                                              d4..d8          extension of 1, 2, 4, 8, 16 bytes
                                              d9 da db        text, length of 1, 2, 4 bytes
                                              dc dd, de df    list and map, count of 2, 4 bytes

Numbers are big-endian.  A count or length is compared with the bytes that are left before it is used.
https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from .limits import KeySizes

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_DEPTH = 100
"""Maps and lists within one another."""

MOST_VALUES = 2_000_000
"""Values of a file: each is an object in memory, and takes one byte in the file at least."""

LONGEST_TEXT = 1 << 20
_MOST_TEXT = 64 << 20
_WINDOW = 8 << 10

_NUMBERS = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {
    0xC4: 1,
    0xC5: 2,
    0xC6: 4,
    0xC7: 1,
    0xC8: 2,
    0xC9: 4,
    0xD9: 1,
    0xDA: 2,
    0xDB: 4,
    0xDC: 2,
    0xDD: 4,
    0xDE: 2,
    0xDF: 4,
}
"""By first byte, how many bytes the length or count behind it has."""


class MalformedError(ValueError):
    """The bytes are not msgpack, or exceed a limit; `offset` is the position in the file."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class ByteRange(NamedTuple):
    """Bytes that stay in the file: an extension's, or plain ones where `code` is None."""

    code: int | None
    offset: int
    size: int


class Unpacker:
    """Reads values from a range of a file, from its beginning on.

    `read(offset, size)` returns exactly `size` bytes, or raises.  Raises MalformedError.
    """

    def __init__(self, read: Callable[[int, int], bytes], begin: int, end: int) -> None:
        self._read = read
        self.at = begin
        self._end = end
        self._window = b""
        self._window_at = begin
        self._values = 0
        self._texts = 0
        self._keys = KeySizes()

    def value(self, depth: int = 0) -> Any:
        """Return the next value: maps as dictionaries, lists, numbers, texts, None, and ByteRanges."""
        start = self.at
        self._count(1, start)
        first = self._take(1)[0]
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            number = _NUMBERS[first]
            return number.unpack(self._take(number.size))[0]
        return self._sized(first, start, depth)

    def _sized(self, first: int, start: int, depth: int) -> Any:
        """Return a value that begins with its length or count."""
        if first < 0x90:
            return self._map(first & 15, start, depth)
        if first < 0xA0:
            return self._list(first & 15, start, depth)
        if first < 0xC0:
            return self._text(first & 31, start)
        if 0xD4 <= first <= 0xD8:
            return self._extent(1 << (first - 0xD4), start, has_code=True)
        if first not in _LENGTHS:
            raise MalformedError(f"byte {first:#04x} does not start a value", start)
        length = int.from_bytes(self._take(_LENGTHS[first]), "big")
        if first <= 0xC9:
            return self._extent(length, start, has_code=first >= 0xC7)
        if first <= 0xDB:
            return self._text(length, start)
        return self._list(length, start, depth) if first <= 0xDD else self._map(length, start, depth)

    def _count(self, number: int, start: int) -> None:
        self._values += number
        if self._values > MOST_VALUES:
            raise MalformedError(f"the tree has more than {MOST_VALUES} values", start)

    def _enter(self, count: int, size: int, start: int, depth: int) -> None:
        """Check a container before anything is made for it; an entry takes `size` bytes at least."""
        if depth >= MOST_DEPTH:
            raise MalformedError(f"the tree is nested more than {MOST_DEPTH} levels deep", start)
        if count * size > self._end - self.at:
            raise MalformedError(
                f"a map or list declares {count} entries, but only {self._end - self.at} bytes are left",
                start,
            )

    def _map(self, count: int, start: int, depth: int) -> dict[str, Any]:
        self._enter(count, 2, start, depth)
        out: dict[str, Any] = {}
        for _ in range(count):
            at = self.at
            key = self.value(depth + 1)
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise MalformedError("a key is neither text nor an integer", at)
            name = str(key)
            if name in out:
                raise MalformedError(f"key {name!r:.200} occurs twice", at)
            try:
                self._keys.add((name,))
            except ValueError as error:
                raise MalformedError(str(error), at) from error
            out[name] = self.value(depth + 1)
        return out

    def _list(self, count: int, start: int, depth: int) -> list[Any]:
        self._enter(count, 1, start, depth)
        return [self.value(depth + 1) for _ in range(count)]

    def _text(self, size: int, start: int) -> str:
        self._texts += size
        if size > LONGEST_TEXT or self._texts > _MOST_TEXT:
            raise MalformedError(f"the texts have {self._texts} bytes, which is over the limit", start)
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedError("a text is not UTF-8", start) from error

    def _extent(self, size: int, start: int, *, has_code: bool) -> ByteRange:
        code = int.from_bytes(self._take(1), "big", signed=True) if has_code else None
        if size > self._end - self.at:
            raise MalformedError(
                f"expected {size} more bytes, but only {self._end - self.at} are left", start
            )
        found = ByteRange(code, self.at, size)
        self.at += size
        return found

    def _take(self, size: int) -> bytes:
        """Return the next bytes; the bytes after them are read along."""
        at = self.at
        if size > self._end - at:
            raise MalformedError(
                f"the file is truncated: expected {size} more bytes, but only {self._end - at} are left", at
            )
        inside = at - self._window_at
        if not 0 <= inside <= len(self._window) - size:
            self._window = self._read(at, min(max(size, _WINDOW), self._end - at))
            self._window_at, inside = at, 0
        self.at = at + size
        return self._window[inside : inside + size]
