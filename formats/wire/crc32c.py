"""CRC-32C, and the masked form in which files store it.

A checksum of data that holds checksums of itself is weak, so what is stored is
the checksum rotated right by 15 bits plus a constant (LevelDB `util/crc32c.h`).

Two neighbours' checksums make that of both together: the first is multiplied by
x**(8n), n being the bytes of the second, and the second is added.  Checksums are
polynomials over GF(2) modulo CRC-32C's, the highest power in the lowest bit.
(zlib's `crc32_combine` does the same modulo its own polynomial.)
"""

from __future__ import annotations

from functools import lru_cache

from google_crc32c import extend, value

__all__ = ["MASKED_EMPTY", "combine", "crc32c", "extend", "mask", "masked_crc32c", "spelled", "unmask"]

MASK_DELTA = 0xA282EAD8
MASKED_EMPTY = MASK_DELTA  # mask(crc32c(b"")): what an empty tensor must store

crc32c = value


def mask(crc: int) -> int:
    """Return the stored form of a checksum."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def unmask(masked: int) -> int:
    """Return the checksum behind its stored form."""
    rotated = (masked - MASK_DELTA) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    return mask(value(data))


def spelled(word: str, crc: int) -> str:
    """Return a checksum as digests are spelled, with the word that says of what it is."""
    return f"{word}:{crc:08x}"


# Joining ----------------------------------------------------------------------------

_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31


def combine(first: int, second: int, size: int) -> int:
    """Return the checksum of two stretches of bytes from that of each; `size` is the second's."""
    return _times(_power(size), first) ^ second if first else second


def _times(one: int, other: int) -> int:
    product = 0
    while one:
        if one & _ONE:
            product ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


@lru_cache(64)
def _power(size: int) -> int:
    """Return x**(8 * size); nearly all ranges have one size."""
    power, square = _ONE, _ONE >> 8
    while size:
        if size & 1:
            power = _times(power, square)
        square = _times(square, square)
        size >>= 1
    return power
