"""The header of a GGUF file: its metadata and where its tensors are.

    `GGUF`, version: uint32 (2 or 3)
    tensors: uint64, keys: uint64
    keys:    name: string, type: uint32, value                    string: uint64 length, bytes
             value: a number | a string | type: uint32, count: uint64, values
    tensors: name: string, dimensions: uint32, each uint64 (fastest first), type: uint32, offset: uint64
    data:    from the next multiple of `general.alignment` (32 if absent); offsets count from here

Numbers are little-endian.  In a big-endian file all of them are big-endian, and so are the values.
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.spec import key_text
from ..wire.limits import KeySizes
from .gguf_types import REMOVED, TYPES, TensorType

if TYPE_CHECKING:
    from .cursor import FileCursor

MAGIC = b"GGUF"
ALIGNMENT = "general.alignment"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_BOOL, _STRING, _ARRAY = 7, 8, 9
_SMALLEST_KEY, _SMALLEST_TENSOR = 13, 24
"""Bytes that a key and a tensor take in the header at least."""

_MOST_DIMENSIONS = 4
_MOST_KEPT_OF_ARRAY = 16
_LONGEST_TEXT = 1 << 16
"""Bytes of a text that is kept whole, such as a chat template."""

_MOST_TEXT = 16 << 20
"""Bytes of metadata that are kept."""

_LARGEST_ALIGNMENT = 1 << 20
_CONVERT_AGAIN = "convert the model again with a current version of llama.cpp"


class TensorInfo(NamedTuple):
    """One tensor of the header; `offset` counts from the beginning of the data."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    nbytes: int


class GgufHeader(NamedTuple):
    """What a header says."""

    version: int
    is_big_endian: bool
    metadata: dict[str, Any]
    tensors: list[TensorInfo]
    alignment: int
    data_offset: int
    size: int


class _HeaderParser:
    """Reads a header once, from the beginning on."""

    def __init__(self, cursor: FileCursor) -> None:
        self._cursor = cursor
        self._order = "<"
        self._kept = 0

    def _number(self, code: str) -> Any:
        form = self._order + code
        return struct.unpack(form, self._cursor.take(struct.calcsize(form)))[0]

    def parse(self) -> GgufHeader:
        cursor = self._cursor
        cursor.skip(len(MAGIC))
        version = int.from_bytes(cursor.take(4), "little")
        if not version & 0xFFFF:
            self._order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in (2, 3):
            raise cursor.refuse(f"the GGUF version is {version}; expected 2 or 3", _CONVERT_AGAIN)
        tensors, keys = self._number("Q"), self._number("Q")
        if tensors * _SMALLEST_TENSOR + keys * _SMALLEST_KEY > cursor.left:
            raise cursor.fail(
                f"the header declares {tensors} tensors and {keys} keys,"
                f" but only {cursor.left} bytes are left"
            )
        metadata = self._metadata(keys)
        alignment = metadata.get(ALIGNMENT, 32)
        if type(alignment) is not int or not 0 < alignment <= _LARGEST_ALIGNMENT or alignment & alignment - 1:
            raise cursor.fail(f"{ALIGNMENT} is {alignment!r:.40}; expected a power of two")
        infos = self._tensors(tensors)
        data_offset = -(-cursor.position // alignment) * alignment
        return GgufHeader(
            version, self._order == ">", metadata, infos, alignment, data_offset, cursor.position
        )

    # Metadata ----------------------------------------------------------------------

    def _metadata(self, count: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        sizes = KeySizes()
        for _ in range(count):
            key = key_text(self._bytes())
            sizes.add((key,))
            if key in metadata:
                raise self._cursor.fail(f"key {key!r:.80} occurs twice")
            metadata[key] = self._value(self._number("I"))
        return metadata

    def _bytes(self) -> bytes:
        return self._cursor.take(self._number("Q"))

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array()
        if kind not in _NUMBERS:
            raise self._cursor.fail(f"a value has type {kind}; expected 0 to 12")
        value = self._number(_NUMBERS[kind])
        return bool(value) if kind == _BOOL else value

    def _text(self) -> str:
        """Return a text; of a long one how long it is."""
        size = self._number("Q")
        if size > _LONGEST_TEXT or self._kept + size > _MOST_TEXT:
            self._cursor.skip(size)
            return f"{size} bytes"
        self._kept += size
        return key_text(self._cursor.take(size))

    def _array(self) -> Any:
        """Return a short array; of a long one what it holds, for a tokenizer has 100,000 words."""
        kind, count = self._number("I"), self._number("Q")
        if kind == _ARRAY:
            raise self._cursor.refuse("an array of arrays is not supported")
        if kind != _STRING and kind not in _NUMBERS:
            raise self._cursor.fail(f"an array has type {kind}; expected 0 to 12")
        size = 8 if kind == _STRING else struct.calcsize("<" + _NUMBERS[kind])
        if count * size > self._cursor.left:
            raise self._cursor.fail(
                f"an array declares {count} values, but only {self._cursor.left} bytes are left"
            )
        if count <= _MOST_KEPT_OF_ARRAY:
            return [self._value(kind) for _ in range(count)]
        if kind == _STRING:
            self._skip_strings(count)
            return f"{count} strings"
        self._cursor.skip(count * size)
        return f"{count} numbers"

    def _skip_strings(self, count: int) -> None:
        """Go past strings, as many as are in memory at a time."""
        cursor, length = self._cursor, struct.Struct(self._order + "Q").unpack_from
        while count:
            if cursor.left < 8:
                raise cursor.fail(f"expected {count} more strings, but only {cursor.left} bytes are left")
            data = cursor.window.hold(cursor.position, 8)
            at, last = 0, min(len(data), cursor.left) - 8
            while count and at <= last:
                at += 8 + length(data, at)[0]
                count -= 1
            cursor.skip(at)

    # Tensors ------------------------------------------------------------------------

    def _tensors(self, count: int) -> list[TensorInfo]:
        infos: list[TensorInfo] = []
        names: set[str] = set()
        sizes = KeySizes()
        for _ in range(count):
            info = self._tensor()
            sizes.add((info.name,))
            if info.name in names:
                raise self._cursor.fail(f"tensor {info.name!r:.80} occurs twice")
            names.add(info.name)
            infos.append(info)
        return infos

    def _tensor(self) -> TensorInfo:
        name = key_text(self._bytes())
        rank = self._number("I")
        if rank > _MOST_DIMENSIONS:
            raise self._cursor.fail(
                f"tensor {name!r:.80} has {rank} dimensions, over the limit of {_MOST_DIMENSIONS}"
            )
        dimensions = [self._number("Q") for _ in range(rank)]
        number, offset = self._number("I"), self._number("Q")
        kind = TYPES.get(number)
        if kind is None:
            removed = f", {REMOVED[number]}, which llama.cpp has removed" if number in REMOVED else ""
            raise self._cursor.refuse(f"tensor {name!r:.80}: type {number}{removed} is not supported")
        size = 1
        for dimension in dimensions:
            size *= dimension
        if size and dimensions and dimensions[0] % kind.block:
            message = f"its rows have {dimensions[0]} elements; {kind.name} needs a multiple of {kind.block}"
            raise self._cursor.fail(f"tensor {name!r:.80}: {message}")
        if size % kind.block:  # a scalar of a block type
            raise self._cursor.fail(
                f"tensor {name!r:.80}: it has {size} elements, but {kind.name} has blocks of {kind.block}"
            )
        return TensorInfo(name, tuple(reversed(dimensions)), kind, offset, size // kind.block * kind.nbytes)


def parse_header(cursor: FileCursor) -> GgufHeader:
    """Return the header of a file; BrokenFileError or ValueError if it is not valid."""
    return _HeaderParser(cursor).parse()
