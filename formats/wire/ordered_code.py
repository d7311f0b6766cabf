"""OrderedCode: encodings whose byte order is the order of what they encode.

    num (unsigned):  one byte n, then the value big-endian in n bytes, no leading zero
    str:             the bytes, 0x00 as 00 ff and 0xff as ff 00, terminated by 00 01
    snum (signed):   L bytes, two's complement big-endian, its leading bits xored
                     with L one-bits; L is the smallest with -2^(7L-1) <= v < 2^(7L-1)

TensorFlow keys the pieces of a partitioned tensor by them, see `formats.tf.bundle.slices`
(tensorflow/core/lib/strings/ordered_code.cc).
"""

from __future__ import annotations

__all__ = [
    "decode_num",
    "decode_snum",
    "decode_str",
    "encode_num",
    "encode_snum",
    "encode_str",
]

_LONGEST_SNUM = 10


def encode_num(value: int) -> bytes:
    """Return an unsigned number below 2**64."""
    body = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes((len(body),)) + body


def decode_num(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position` and the position behind it."""
    if position >= len(data):
        raise ValueError("a number runs past the end")
    length = data[position]
    end = position + 1 + length
    if length > 8 or end > len(data):
        raise ValueError(f"a number of {length} bytes is invalid")
    body = data[position + 1 : end]
    if body[:1] == b"\0":
        raise ValueError("a number has a leading zero")
    return int.from_bytes(body, "big"), end


def encode_str(value: bytes) -> bytes:
    """Return a byte string, escaped and terminated."""
    # One pass: escaping 0x00 first would make the 0xff of its escape subject to the second rule.
    return b"\xff\0".join(part.replace(b"\0", b"\0\xff") for part in value.split(b"\xff")) + b"\0\1"


def decode_str(data: bytes, position: int) -> tuple[bytes, int]:
    """Return the byte string at `position` and the position behind its terminator."""
    out = bytearray()
    while position + 1 < len(data):
        byte, following = data[position], data[position + 1]
        if byte == 0 and following == 1:
            return bytes(out), position + 2
        if byte in (0, 0xFF):
            if following != 0xFF - byte:
                raise ValueError(f"the escape {byte:#04x} {following:#04x} is invalid")
            position += 1
        out.append(byte)
        position += 1
    raise ValueError("a string has no terminator")


def encode_snum(value: int) -> bytes:
    """Return a signed 64-bit number."""
    length = 1
    while not -(1 << (7 * length - 1)) <= value < 1 << (7 * length - 1):
        length += 1
    bits = 8 * length
    # The header: `length` one-bits at the top, which flips to zero-bits for negative numbers.
    header = ((1 << length) - 1) << (bits - length)
    return ((value & ((1 << bits) - 1)) ^ header).to_bytes(length, "big")


def decode_snum(data: bytes, position: int) -> tuple[int, int]:
    """Return the signed number at `position` and the position behind it."""
    if position >= len(data):
        raise ValueError("a number runs past the end")
    head = int.from_bytes(data[position : position + 2].ljust(2, b"\0"), "big")
    negative = not head >> 15
    ones = head ^ 0xFFFF if negative else head
    length = 0
    while length < 16 and ones >> (15 - length) & 1:
        length += 1
    if not 1 <= length <= _LONGEST_SNUM or position + length > len(data):
        raise ValueError(f"a number of {length} bytes is invalid")
    bits = 8 * length
    header = ((1 << length) - 1) << (bits - length)
    value = int.from_bytes(data[position : position + length], "big") ^ header
    value = value - (1 << bits) if negative else value
    if not -(1 << 63) <= value < 1 << 63 or encode_snum(value) != data[position : position + length]:
        raise ValueError("a number is not in its shortest form")
    return value, position + length
