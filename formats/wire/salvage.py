"""The blocks of a table whose footer or index block is damaged, found by walking the file.

Blocks stand one behind the other from the first byte, and each ends in a trailer with its
checksum; what is missing is only where each one ends.

    plain block    ends where its last bytes count restart points that are there, the first
                   of which is 0, and the checksum behind fits
    snappy block   says how long it is uncompressed; its elements, walked, say where it ends

Behind the data blocks stands the metaindex block, which TensorFlow leaves empty, and
then the index block, whose entries are no tensors: the walk ends at the empty one.  It
ends, too, at a block that is damaged, since nobody knows where the next one begins.

Of a damaged block the entries up to where they stop making sense are returned apart:
any of them may be wrong, and what else is known has to say which are right.
"""

from __future__ import annotations

from typing import NamedTuple

from . import compression
from .coding import decode_varint
from .crc32c import crc32c, extend, mask
from .sstable import PLAIN, SNAPPY, TRAILER_SIZE, BlockHandle, Entry, decode_block

__all__ = ["FoundBlock", "find_blocks", "readable_entries"]

_COUNT_TAIL = (b"\0\0" + bytes((PLAIN,)), 3)
"""A count of restart points below 65,536 ends in two zero bytes, and the block's type follows."""

_SHORTEST_BLOCK = 8  # one restart point and their count
_MOST_SUMMED = 64 << 20
"""Bytes summed in search of one block's end, or it is given up: a hostile file has ends everywhere."""


class FoundBlock(NamedTuple):
    """A block by its place, and its entries; of a damaged one, those that can be read."""

    handle: BlockHandle
    entries: list[Entry]
    is_sound: bool


def find_blocks(data: bytes) -> list[FoundBlock]:
    """Return the data blocks of a table; the last is damaged, or empty, where more are missing."""
    found: list[FoundBlock] = []
    at = 0
    while at < len(data):
        size = _plain_size(data, at)
        kind = PLAIN
        if size is None:
            size, kind = _snappy_size(data, at), SNAPPY
        if size is None:
            break
        block = data[at : at + size]
        try:
            entries = decode_block(compression.decompress(block) if kind == SNAPPY else block)
        except ValueError:
            found.append(FoundBlock(BlockHandle(at, size), readable_entries(block), is_sound=False))
            at += size + TRAILER_SIZE
            continue
        if not entries:
            return found  # the metaindex block: no data block is empty
        found.append(FoundBlock(BlockHandle(at, size), entries, is_sound=True))
        at += size + TRAILER_SIZE
    rest = data[at:]
    found.append(FoundBlock(BlockHandle(at, len(rest)), readable_entries(rest), is_sound=False))
    return found


def _has_trailer(data: bytes, at: int, size: int, kind: int) -> bool:
    """Whether a block of this size has its type and its checksum behind it."""
    end = at + size
    if end + TRAILER_SIZE > len(data) or data[end] != kind:
        return False
    crc = mask(extend(crc32c(data[at:end]), data[end : end + 1]))
    return crc == int.from_bytes(data[end + 1 : end + TRAILER_SIZE], "little")


def _plain_size(data: bytes, at: int) -> int | None:
    """Return the size of a sound plain block that begins at `at`; None where there is none."""
    tail, length = _COUNT_TAIL
    position, summed = data.find(tail, at), 0
    while position >= 0 and summed < _MOST_SUMMED:
        size = position + length - 1 - at
        restarts = int.from_bytes(data[at + size - 4 : at + size], "little") if size >= 4 else 0
        array = size - 4 * (restarts + 1)
        if size >= _SHORTEST_BLOCK and restarts and array >= 0 and not any(data[at + array : at + array + 4]):
            if _has_trailer(data, at, size, PLAIN):
                return size
            summed += size
        position = data.find(tail, position + 1)
    return None


def _snappy_size(data: bytes, at: int) -> int | None:
    """Return the size of a sound snappy block that begins at `at`; None where there is none.

    literal:  length - 1 in the six upper bits, or in the 1 to 4 bytes that follow; its bytes
    copies:   a tag and 1, 2 or 4 bytes of offset; length in the tag
    """
    try:
        left, position = decode_varint(data, at)
    except ValueError:
        return None
    while left > 0 and position < len(data):
        tag = data[position]
        position += 1
        kind, length = tag & 3, tag >> 2
        if kind == 0:
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[position : position + extra], "little")
                position += extra
            position += length + 1
            left -= length + 1
        else:
            left -= (length & 7) + 4 if kind == 1 else length + 1
            position += (1, 2, 4)[kind - 1]
    size = position - at
    return size if left == 0 and _has_trailer(data, at, size, SNAPPY) else None


def readable_entries(block: bytes) -> list[Entry]:
    """Return the entries at the beginning of a damaged plain block, up to where they make no sense."""
    entries: list[Entry] = []
    key, position = b"", 0
    while position < len(block):
        try:
            shared, position = decode_varint(block, position)
            unshared, position = decode_varint(block, position)
            value_size, position = decode_varint(block, position)
        except ValueError:
            break
        end = position + unshared + value_size
        # Behind the last entry stand the restart points, the first of which is 0: an entry without a key.
        if shared > len(key) or end > len(block) or (entries and not shared + unshared):
            break
        key = key[:shared] + block[position : position + unshared]
        entries.append((key, block[position + unshared : end]))
        position = end
    return entries
