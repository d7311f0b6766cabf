"""zstd frames, whose content is never larger than what was expected of it."""

from __future__ import annotations

__all__ = ["decompress", "decompress_at_most", "decompress_into"]

_LARGEST_RATIO = 1 << 16
"""Bytes of content that a byte of a frame can make: a block of 4 bytes makes at most 128 KiB."""

_FIRST_GUESS = 1 << 16


def decompress(data: bytes, size: int) -> bytearray:
    """Return content of exactly `size` bytes. Raises ValueError if it is not a frame, or has another size."""
    if size > _LARGEST_RATIO * (len(data) + 1):
        raise ValueError(f"the zstd frame of {len(data)} bytes should have {size} bytes of content")
    out = bytearray(size)
    decompress_into(data, out)
    return out


def decompress_into(data: bytes | memoryview, out: bytearray | memoryview) -> None:
    """Fill `out` with the content. Raises ValueError if it is not a frame, or has another size."""
    import cramjam

    size = len(out)
    try:
        found = cramjam.zstd.decompress_into(data, out)
    except cramjam.DecompressionError as error:
        raise ValueError(f"this is not a zstd frame with {size} bytes of content: {error}") from error
    if found != size:
        raise ValueError(f"the zstd frame has {found} bytes of content; expected {size}")


def decompress_at_most(data: bytes, most: int) -> bytes:
    """Return content of unknown size. Raises ValueError if it is not a frame, or longer than `most` bytes."""
    import cramjam

    room = min(most, max(_FIRST_GUESS, 8 * len(data)))
    while True:
        out = bytearray(room)
        try:
            return bytes(memoryview(out)[: cramjam.zstd.decompress_into(data, out)])
        except cramjam.DecompressionError as error:
            # The library says the same of too little room as of other failures, so more room is tried.
            if room >= most:
                raise ValueError(
                    f"this is not a zstd frame with at most {most} bytes of content: {error}"
                ) from error
        room = min(most, 16 * room)
