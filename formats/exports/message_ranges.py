"""Protocol buffer messages in a file, read field by field: large strings stay in the file.

`formats.wire.protobuf` decodes messages in memory.  A model of 2 GB is one message whose strings are its
weights, so here a string is a range of the file.  Nothing recurses: the caller reads a nested message from
its range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .cursor import BrokenFileError, FileCursor, FileWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_LONGEST_TEXT = 1 << 16
_PIECE = 1 << 20
_GOING_ON = bytes(range(0x80, 0x100))
"""Bytes of a varint that is longer."""


class MessageRange(NamedTuple):
    """A range of the file: a message, a string, or the numbers of a packed field."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


class WireField(NamedTuple):
    """One field: its number, its unsigned value if it is a varint, and the range of its content."""

    number: int
    varint: int | None
    span: MessageRange


class MessageFile:
    """A file whose content is a message."""

    def __init__(self, window: FileWindow) -> None:
        self._window = window

    @property
    def all(self) -> MessageRange:
        """The outermost message."""
        return MessageRange(0, self._window.size)

    def fields(self, message: MessageRange) -> Iterator[WireField]:
        """Yield the fields of a message; BrokenFileError if it is not valid."""
        cursor = FileCursor(self._window, *message)
        while cursor.left:
            tag = self._varint(cursor)
            number, kind = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise cursor.fail(f"invalid field number {number}")
            begin, value = cursor.position, None
            if kind == _VARINT:
                value = self._varint(cursor)
            elif kind == _LENGTH:
                size = self._varint(cursor)
                begin = cursor.position
                cursor.skip(size)
            elif kind in (_FIXED32, _FIXED64):
                cursor.skip(4 if kind == _FIXED32 else 8)
            else:
                raise cursor.fail(f"field {number} has unsupported wire type {kind}")
            yield WireField(number, value, MessageRange(begin, cursor.position))

    def _varint(self, cursor: FileCursor) -> int:
        data = self._window.read(cursor.position, min(_LONGEST_VARINT, cursor.left))
        value = 0
        for at, byte in enumerate(data):
            value |= (byte & 0x7F) << 7 * at
            if byte < 0x80:
                cursor.position += at + 1
                return value & (1 << 64) - 1
        raise cursor.fail("a varint does not end")

    def read(self, span: MessageRange) -> bytes:
        """Return the bytes of a range that is small."""
        return self._window.read(span.begin, span.size)

    def text(self, span: MessageRange) -> str:
        """Return a name; bytes that are not UTF-8 become lone surrogates."""
        if span.size > _LONGEST_TEXT:
            raise BrokenFileError(
                f"a name has {span.size} bytes, over the limit of {_LONGEST_TEXT}", span.begin
            )
        return self.read(span).decode("utf-8", "surrogateescape")

    def numbers(self, field: WireField, most: int) -> list[int]:
        """Return the signed numbers of a repeated field, packed or not, at most so many."""
        if field.varint is not None:
            return [signed(field.varint)]
        cursor = FileCursor(self._window, *field.span)
        found: list[int] = []
        while cursor.left:
            if len(found) == most:
                raise cursor.fail(f"a list has more than {most} numbers")
            found.append(signed(self._varint(cursor)))
        return found

    def count_varints(self, span: MessageRange) -> int:
        """Return how many packed varints a range has: each has one byte below 128, its last."""
        found = 0
        for at in range(span.begin, span.end, _PIECE):
            piece = self._window.file.read_exactly(at, min(_PIECE, span.end - at))
            found += len(piece.translate(None, _GOING_ON))
        return found

    def entry(self, message: MessageRange) -> dict[int, WireField]:
        """Return the last field of each number, of a message that is small."""
        return {field.number: field for field in self.fields(message)}


def signed(value: int) -> int:
    """Return an unsigned 64-bit number as two's complement."""
    return value - (1 << 64) if value >> 63 else value
