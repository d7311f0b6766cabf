"""Integers as LevelDB and protocol buffers write them.

    varint:   7 bits a byte, least significant first, high bit set on all but the last
    fixed32:  4 bytes, little-endian

A varint holds 64 bits at most, so ten bytes; anything longer, and anything that
runs past the end of its buffer, is a ValueError.  Callers know the file and the
offset and turn it into their own error.
https://protobuf.dev/programming-guides/encoding/#varints
"""

from __future__ import annotations

import struct

__all__ = [
    "MAX_VARINT64_BYTES",
    "UINT64_MASK",
    "decode_fixed32",
    "decode_varint",
    "encode_fixed32",
    "encode_varint",
    "signed64",
]

MAX_VARINT64_BYTES = 10
UINT64_MASK = (1 << 64) - 1
_FIXED32 = struct.Struct("<I")


def decode_varint(data: bytes | memoryview, position: int, end: int | None = None) -> tuple[int, int]:
    """Return the unsigned 64-bit varint at `position` and the position behind it.

    Raises ValueError if it is longer than ten bytes or runs past `end`.
    """
    if end is None:
        end = len(data)
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & UINT64_MASK, position
        shift += 7
        if shift == 7 * MAX_VARINT64_BYTES:
            raise ValueError("a varint is longer than 10 bytes")
    raise ValueError("a varint runs past the end")


def encode_varint(value: int) -> bytes:
    """Return `value` as a varint; negative numbers as 64-bit two's complement (ten bytes)."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= UINT64_MASK
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed64(value: int) -> int:
    """Read an unsigned 64-bit number as two's complement."""
    return value - (1 << 64) if value >> 63 else value


def decode_fixed32(data: bytes | memoryview, position: int) -> int:
    if not 0 <= position <= len(data) - 4:
        raise ValueError("a fixed32 runs past the end")
    return int(_FIXED32.unpack_from(data, position)[0])


def encode_fixed32(value: int) -> bytes:
    return _FIXED32.pack(value)
