"""The one compression tables use: raw snappy blocks.

A snappy block begins with its uncompressed length, a varint under a hostile file's control. So the length is
compared with the most that snappy can produce, before memory is allocated.
https://github.com/google/snappy/blob/main/format_description.txt
"""

from __future__ import annotations

from .coding import decode_varint

__all__ = ["compress", "decompress"]

# A copy element of 3 bytes yields 64 bytes at the most; 22 is the next whole ratio above 64 / 3.
_LARGEST_RATIO = 22


def decompress(data: bytes, most: int | None = None) -> bytes:
    """Return the content of a raw snappy block; ValueError if it is none, or longer than `most`."""
    import cramjam

    length, _ = decode_varint(data, 0)
    if length > _LARGEST_RATIO * len(data):
        raise ValueError(f"the snappy block of {len(data)} bytes declares {length} bytes of content")
    if most is not None and length > most:
        raise ValueError(f"the snappy block has {length} bytes of content, but at most {most} are supported")
    try:
        content = bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise ValueError(f"this is not a snappy block: {error}") from error
    if len(content) != length:
        raise ValueError(f"the snappy block has {len(content)} bytes of content, but declares {length}")
    return content


def compress(data: bytes) -> bytes:
    """Return a raw snappy block of `data`."""
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data))
