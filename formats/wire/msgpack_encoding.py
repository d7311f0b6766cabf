"""Encoding msgpack (see `formats.wire.msgpack`): the shortest form of each header, as its libraries do."""

from __future__ import annotations

import struct


def encode_map(count: int) -> bytes:
    """Return the header of a map; its keys and values follow."""
    return _header(count, 0x80, 16, (0xDE, 0xDF))


def encode_list(count: int) -> bytes:
    """Return the header of a list; its values follow."""
    return _header(count, 0x90, 16, (0xDC, 0xDD))


def _header(count: int, short: int, most: int, codes: tuple[int, int]) -> bytes:
    if count < most:
        return bytes([short | count])
    is_small = count < 1 << 16
    return bytes([codes[not is_small]]) + count.to_bytes(2 if is_small else 4, "big")


def encode_text(text: str) -> bytes:
    data = text.encode()
    if len(data) < 32:
        return bytes([0xA0 | len(data)]) + data
    return _length(len(data), (0xD9, 0xDA, 0xDB)) + data


def encode_bytes_header(size: int) -> bytes:
    """Return the header of bytes, which follow."""
    return _length(size, (0xC4, 0xC5, 0xC6))


def encode_extension_header(code: int, size: int) -> bytes:
    """Return the header of an extension, whose bytes follow."""
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(size)
    head = bytes([fixed]) if fixed is not None else _length(size, (0xC7, 0xC8, 0xC9))
    return head + bytes([code])


def _length(size: int, codes: tuple[int, int, int]) -> bytes:
    """Return a length of 1, 2 or 4 bytes behind the code for it."""
    which = (size >= 1 << 8) + (size >= 1 << 16)
    return bytes([codes[which]]) + size.to_bytes((1, 2, 4)[which], "big")


def encode_integer(value: int) -> bytes:
    """Return a number of 0 or more."""
    if value < 0x80:
        return bytes([value])
    for code, form, most in ((0xCC, ">B", 1 << 8), (0xCD, ">H", 1 << 16), (0xCE, ">I", 1 << 32)):
        if value < most:
            return bytes([code]) + struct.pack(form, value)
    return b"\xcf" + struct.pack(">Q", value)


NONE = b"\xc0"
