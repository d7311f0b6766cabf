"""Checksums of neighbours, made into that of both together.

The first is multiplied by x**(8n), n being the number of bytes of the second, and the second is added.
Checksums are polynomials over GF(2) modulo that of their kind, with the highest power in the lowest bit. So
several threads can each read a range of the same data. (zlib's `crc32_combine` does the same.)
"""

from __future__ import annotations

from functools import lru_cache

CRC32C, CRC32 = 0x82F63B78, 0xEDB88320
"""The polynomials, without their highest power: Castagnoli's, and that of zip and zlib."""

_ONE = 1 << 31


def joined(kind: int, first: int, second: int, size: int) -> int:
    """Return the checksum of two consecutive ranges from the checksum of each; `size` is the second's in
    bytes.

    `kind` is the polynomial.
    """
    return _times(kind, _power(kind, size), first) ^ second if first else second


def _times(kind: int, one: int, other: int) -> int:
    product = 0
    while one:
        if one & _ONE:
            product ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (kind if other & 1 else 0)
    return product


@lru_cache(64)
def _power(kind: int, size: int) -> int:
    """Return x**(8 * size); nearly all ranges have one size."""
    power, square = _ONE, _ONE >> 8
    while size:
        if size & 1:
            power = _times(kind, power, square)
        square = _times(kind, square, square)
        size >>= 1
    return power
