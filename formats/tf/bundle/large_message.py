"""A file that is one protocol buffer message, read field by field: what is large stays in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...errors import CorruptCheckpointError, UnsupportedFeatureError
from ...store.readahead import ReadAhead
from ...wire.coding import decode_varint
from ...wire.protobuf import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...store.base import File


M = TypeVar("M", bound=Message)

_MOST_OF_A_TAG = 20
"""Bytes of a tag and a length, ten each at most."""
_LARGEST_MESSAGE = 1 << 28
"""Bytes of a message that is decoded; a collection of a million variables fits."""


class LargeMessage:
    """A message in a file."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._ahead = ReadAhead(file)

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (number, start, size) of the messages, strings and bytes between two offsets."""
        position = start
        while position < end:
            head = self._ahead.read(position, min(_MOST_OF_A_TAG, end - position))
            try:
                tag, at = decode_varint(head, 0)
                number, wire_type = tag >> 3, tag & 7
                size = 0
                if wire_type == 2:
                    size, at = decode_varint(head, at)
                elif wire_type == 0:
                    _, at = decode_varint(head, at)
                elif wire_type in (1, 5):
                    at += 8 if wire_type == 1 else 4
                else:
                    raise ValueError(f"field {number} has the unknown wire type {wire_type}")
            except ValueError as error:
                raise self.corrupt(str(error), position) from error
            if number == 0 or size > end - position - at:
                message = (
                    f"field {number} needs {size} bytes, but only {max(0, end - position - at)} are left"
                )
                raise self.corrupt(message, position)
            if wire_type == 2:
                yield number, position + at, size
            position += at + size

    def read(self, start: int, size: int) -> bytes:
        """Return bytes that are likely to follow those that were read before."""
        return self._ahead.read(start, size)

    def decode(self, message: type[M], start: int, size: int, most: int | None = None) -> M:
        if size > (_LARGEST_MESSAGE if most is None else most):
            what = f"a {message.__name__.strip('_')} has {size} bytes, which is over the limit"
            raise UnsupportedFeatureError(what, path=self.file.path, offset=start)
        try:
            return message.decode(self.file.read_exactly(start, size))
        except ValueError as error:
            raise self.corrupt(str(error), start) from error

    def corrupt(self, message: str, offset: int) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self.file.path, offset=offset, code="meta-graph")
