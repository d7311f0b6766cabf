"""The bytes of one tensor in a data shard: values, and the checksum over them.

    numbers:   elements in C order, nothing between them
    strings:   length: varint*, masked crc of the lengths: fixed32, bytes*
    variants:  (length: varint, VariantTensorDataProto, masked crc so far: fixed32)*

The checksum of numbers covers the stored bytes. The checksum of strings covers the lengths as 4-byte integers
(8 if they need it), then the stored checksum of the lengths, then the strings. The checksum of variants
covers the lengths as 8-byte integers, and each stored checksum in its place. Neither covers the varints
themselves. A big-endian bundle swaps numbers, and in strings the lengths and their checksum; TensorFlow has
no big-endian variants. tensorflow/core/util/tensor_bundle/tensor_bundle.cc: ReadStringTensor,
ReadVariantTensor
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...core.chunks import PIECE
from ...core.dtypes import STRING, VARIANT, DType
from ...wire.coding import decode_varint, encode_varint
from ...wire.crc32c import extend, mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np


Read: TypeAlias = "Callable[[int, int], bytes]"
"""Returns `size` bytes at `offset` of a tensor, neither more nor less."""


class Element(NamedTuple):
    """The place of one string or variant, counted from the start of its tensor."""

    offset: int
    size: int


class _Cursor:
    """Reads a tensor's bytes in order, a piece at a time, and never past its end."""

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size
        self._piece = b""
        self._at = 0
        self.offset = 0

    def _fill(self) -> None:
        if self.offset >= self._size:
            raise ValueError(f"the tensor has only {self._size} bytes, too few for its elements")
        self._piece = self._read(self.offset, min(PIECE, self._size - self.offset))
        self._at = 0

    def byte(self) -> int:
        if self._at == len(self._piece):
            self._fill()
        value = self._piece[self._at]
        self._at += 1
        self.offset += 1
        return value

    def varint(self) -> int:
        raw = bytearray()
        while True:
            raw.append(self.byte())
            if raw[-1] < 0x80 or len(raw) > 10:
                return decode_varint(bytes(raw), 0)[0]

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes, in pieces."""
        if size > self._size - self.offset:
            raise ValueError(f"an element needs {size} bytes, but only {self._size - self.offset} are left")
        while size:
            if self._at == len(self._piece):
                self._fill()
            piece = self._piece[self._at : self._at + size]
            self._at += len(piece)
            self.offset += len(piece)
            size -= len(piece)
            yield piece

    def take(self, size: int) -> bytes:
        return b"".join(self.pieces(size))

    def skip(self, size: int) -> None:
        for _ in self.pieces(size):
            pass


def checksum(read: Read, dtype: DType, count: int, size: int, *, big_endian: bool = False) -> int:
    """Return the unmasked checksum of a tensor's `size` bytes, `count` elements, in pieces.

    `read(offset, size)` returns exactly `size` bytes of the tensor.  Raises ValueError
    where strings or variants contradict themselves.
    """
    if dtype is STRING:
        return _string_checksum(_Cursor(read, size), count, size, big_endian)
    if dtype is VARIANT:
        return _variant_checksum(_Cursor(read, size), count, size)
    crc = 0
    for offset in range(0, size, PIECE):
        crc = extend(crc, read(offset, min(PIECE, size - offset)))
    return crc


def length_bytes(length: int, byte_order: str) -> bytes:
    return struct.pack(byte_order + ("I" if length <= 0xFFFFFFFF else "Q"), length)


def _string_lengths(cursor: _Cursor, count: int, size: int, byte_order: str) -> tuple[list[int], int]:
    """Return the lengths of strings and the checksum up to their bytes, its stored part compared."""
    if count > size:
        raise ValueError(f"{size} bytes are too few for {count} strings")
    lengths = []
    crc, pending = 0, bytearray()
    for _ in range(count):
        lengths.append(cursor.varint())
        pending += length_bytes(lengths[-1], byte_order)
        if len(pending) >= PIECE:
            crc = extend(crc, bytes(pending))
            pending.clear()
    crc = extend(crc, bytes(pending))
    if size == 0 and count == 0:  # TensorFlow's reader takes an empty tensor without the checksum, too.
        return lengths, crc
    stored = cursor.take(4)
    (expected,) = struct.unpack(byte_order + "I", stored)
    if mask(crc) != expected:
        raise ValueError(
            f"the string lengths have checksum {mask(crc):#010x}, but the stored one is {expected:#010x}"
        )
    return lengths, extend(crc, stored)


def _string_checksum(cursor: _Cursor, count: int, size: int, big_endian: bool) -> int:
    lengths, crc = _string_lengths(cursor, count, size, ">" if big_endian else "<")
    total = sum(lengths)
    if cursor.offset + total != size:
        raise ValueError(f"the strings need {total} bytes, but {size - cursor.offset} are stored")
    for piece in cursor.pieces(total):
        crc = extend(crc, piece)
    return crc


def _variant_checksum(cursor: _Cursor, count: int, size: int) -> int:
    crc = 0
    for _, crc in _variants(cursor, count, size):  # noqa: B007  the last one counts
        pass
    if cursor.offset != size:
        raise ValueError(f"the variants need {cursor.offset} bytes, but {size} are stored")
    return crc


def _variants(cursor: _Cursor, count: int, size: int) -> Iterator[tuple[Element, int]]:
    if count > size:
        raise ValueError(f"{size} bytes are too few for {count} variants")
    crc = 0
    for _ in range(count):
        length = cursor.varint()
        crc = extend(crc, struct.pack("<Q", length))
        element = Element(cursor.offset, length)
        for piece in cursor.pieces(length):
            crc = extend(crc, piece)
        stored = cursor.take(4)
        (expected,) = struct.unpack("<I", stored)
        if mask(crc) != expected:
            raise ValueError(
                f"a variant has checksum {mask(crc):#010x}, but the stored one is {expected:#010x}"
            )
        crc = extend(crc, stored)
        yield element, crc


def elements(read: Read, dtype: DType, count: int, size: int, *, big_endian: bool = False) -> list[Element]:
    """Return the place of each string or variant of a tensor. Raises ValueError, as `checksum` does."""
    cursor = _Cursor(read, size)
    if dtype is VARIANT:
        return [element for element, _ in _variants(cursor, count, size)]
    lengths, _ = _string_lengths(cursor, count, size, ">" if big_endian else "<")
    out, offset = [], cursor.offset
    for length in lengths:
        out.append(Element(offset, length))
        offset += length
    if offset > size:
        raise ValueError(f"the strings need {offset} bytes, but {size} are stored")
    return out


class ElementStream:
    """The strings or variants of a tensor, one after the other; ValueError as `checksum`.

    `crc` is the unmasked checksum of what has passed, of the whole tensor at the end.
    """

    def __init__(self, read: Read, dtype: DType, count: int, size: int, *, big_endian: bool = False) -> None:
        self._cursor = _Cursor(read, size)
        self._dtype = dtype
        self._count = count
        self._size = size
        self._byte_order = ">" if big_endian else "<"
        self.crc = 0

    def __iter__(self) -> Iterator[bytes]:
        yield from self._variants() if self._dtype is VARIANT else self._strings()
        if self._cursor.offset != self._size:
            raise ValueError(f"the elements need {self._cursor.offset} bytes, but {self._size} are stored")

    def _strings(self) -> Iterator[bytes]:
        lengths, self.crc = _string_lengths(self._cursor, self._count, self._size, self._byte_order)
        for length in lengths:
            element = self._cursor.take(length)
            self.crc = extend(self.crc, element)
            yield element

    def _variants(self) -> Iterator[bytes]:
        for _ in range(self._count):
            length = self._cursor.varint()
            element = self._cursor.take(length)
            self.crc = extend(extend(self.crc, struct.pack("<Q", length)), element)
            stored = self._cursor.take(4)
            (expected,) = struct.unpack("<I", stored)
            if mask(self.crc) != expected:
                raise ValueError(
                    f"a variant has checksum {mask(self.crc):#010x}, but the stored one is {expected:#010x}"
                )
            self.crc = extend(self.crc, stored)
            yield element


def decode_numbers(data: np.ndarray[Any, Any], *, big_endian: bool) -> np.ndarray[Any, Any]:
    """Return numbers in native byte order, swapping those of a big-endian bundle in place."""
    if not big_endian or data.dtype.itemsize == 1:
        return data
    # Each half of a complex number is swapped by itself; byteswap does that, and knows ml_dtypes not.
    if data.dtype.kind == "V" or data.dtype.num >= 256:
        data.view(f"u{data.dtype.itemsize}").byteswap(inplace=True)
    else:
        data.byteswap(inplace=True)
    return data


def chunks_checksum(dtype: DType, chunks: Iterable[Any]) -> tuple[int, int]:
    """Return size and unmasked checksum that a tensor's chunks (`formats.core.chunks`) have in a bundle."""
    if dtype.itemsize is None:
        encode = encode_variants if dtype is VARIANT else encode_strings
        data, crc = encode(bytes(chunk) for chunk in chunks)
        return len(data), crc
    size = crc = 0
    for chunk in chunks:
        crc = extend(crc, bytes(chunk))
        size += len(chunk)
    return size, crc


def encode_strings(values: Iterable[bytes]) -> tuple[bytes, int]:
    """Return a string tensor's bytes and its unmasked checksum."""
    values = list(values)
    crc = 0
    for value in values:
        crc = extend(crc, length_bytes(len(value), "<"))
    stored = struct.pack("<I", mask(crc))
    body = b"".join(values)
    crc = extend(extend(crc, stored), body)
    return b"".join(encode_varint(len(value)) for value in values) + stored + body, crc


def encode_variants(values: Iterable[bytes]) -> tuple[bytes, int]:
    """Return a variant tensor's bytes, of serialized VariantTensorDataProtos, and its unmasked checksum."""
    crc, out = 0, []
    for value in values:
        crc = extend(extend(crc, struct.pack("<Q", len(value))), value)
        stored = struct.pack("<I", mask(crc))
        crc = extend(crc, stored)
        out += [encode_varint(len(value)), value, stored]
    return b"".join(out), crc
