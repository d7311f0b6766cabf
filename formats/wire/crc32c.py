"""CRC-32C, and the masked form in which files store it.

A checksum of data that holds checksums of itself is weak, so what is stored is
the checksum rotated right by 15 bits plus a constant (LevelDB `util/crc32c.h`).
"""

from __future__ import annotations

from google_crc32c import extend, value

__all__ = ["MASKED_EMPTY", "crc32c", "extend", "mask", "masked_crc32c", "spelled", "unmask"]

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
