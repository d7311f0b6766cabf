"""The blocks of a table whose footer or index block is damaged, found by walking the file.

Blocks follow one another from the first byte, and each ends in a trailer with its checksum. Only the end of
each block is unknown.

    plain block    begins with a zero, since its first key shares nothing; its entries say how long
                   they are, and end where one would have neither key nor value: that is the first
                   restart point.  Restart points rise, until one is their count
    snappy block   says how long it is uncompressed; its elements, walked, say where it ends

An end is confirmed by the checksum after it. After the data blocks comes the metaindex block, which
TensorFlow leaves empty, and then the index block, whose entries are not tensors: the walk ends at the empty
one. It also ends at a damaged block, because the start of the next one is unknown. The walk reads in pieces,
and keeps no block.

Of a damaged block the entries up to where they stop making sense are returned apart:
any of them may be wrong, and what else is known has to say which are right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .coding import MAX_VARINT64_BYTES, decode_varint
from .crc32c import extend, mask
from .limits import LONGEST_KEY, are_keys_too_long
from .sstable import LARGEST_CONTENT, PLAIN, SNAPPY, TRAILER_SIZE, BlockHandle, most_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .sstable import Entry

    Read = Callable[[int, int], bytes]

__all__ = ["LARGEST_READABLE", "FoundBlock", "find_blocks", "readable_entries"]

_PIECE = 1 << 20
LARGEST_READABLE = 16 << 20
"""Bytes of a damaged block that entries are looked for in: TensorFlow's have 256 KiB and an entry at most."""

_MOST_READABLE = 1 << 16
"""Entries looked for in a damaged block, three times what TensorFlow's blocks hold of the smallest."""


class FoundBlock(NamedTuple):
    """A block by its place; one that is not sound is all that is left of the file."""

    handle: BlockHandle
    is_sound: bool


def find_blocks(read: Read, size: int) -> Iterator[FoundBlock]:
    """Yield the data blocks of a table; the last is damaged, or empty, where more are missing.

    `read(offset, size)` returns bytes of the file, and is called for each entry; `size` is the file's.
    """
    at = 0
    while at < size:
        kind = SNAPPY if read(at, 1) != b"\0" else PLAIN
        entries_end, end = _snappy_end(read, at) if kind == SNAPPY else _plain_end(read, at)
        if end is None or not _has_trailer(read, at, end, kind):
            break
        if entries_end == at:
            return  # the metaindex block: no data block is empty
        yield FoundBlock(BlockHandle(at, end - at), is_sound=True)
        at = end + TRAILER_SIZE
    yield FoundBlock(BlockHandle(at, size - at), is_sound=False)


def _has_trailer(read: Read, at: int, end: int, kind: int) -> bool:
    """Whether a block that ends here has its type and its checksum behind it."""
    trailer = read(end, TRAILER_SIZE)
    if len(trailer) != TRAILER_SIZE or trailer[0] != kind:
        return False
    crc = 0
    for begin in range(at, end, _PIECE):
        crc = extend(crc, read(begin, min(_PIECE, end - begin)))
    return mask(extend(crc, trailer[:1])) == int.from_bytes(trailer[1:], "little")


def _plain_end(read: Read, at: int) -> tuple[int, int | None]:
    """Return where the entries of a plain block end, and where its restart points do, None if nowhere."""
    position, before, count = at, 0, 0
    while count <= most_entries(position - at):
        head = read(position, 3 * MAX_VARINT64_BYTES)
        if head[:3] == b"\0\0\0":
            return position, _restarts_end(read, position, position - at)
        try:
            shared, used = decode_varint(head, 0)
            unshared, used = decode_varint(head, used)
            value_size, used = decode_varint(head, used)
        except ValueError:
            return position, None
        if shared > before:
            return position, None
        before, count = shared + unshared, count + 1
        position += used + unshared + value_size
    return position, None


def _restarts_end(read: Read, at: int, entries_size: int) -> int | None:
    """Return where restart points that begin at `at` end, with their count; None if nowhere.

    An entry takes three bytes at least, so the restart point of this number is above it.
    """
    count, last = 0, -1
    while True:
        raw = read(at + 4 * count, 4)
        value = int.from_bytes(raw, "little")
        if len(raw) < 4:
            return None
        if count and value == count:
            return at + 4 * count + 4
        if value <= last or value > entries_size:
            return None
        count, last = count + 1, value


def _snappy_end(read: Read, at: int) -> tuple[int | None, int | None]:
    """Return where a snappy block that begins at `at` ends, None if there is none; its entries, too.

    literal:  length - 1 in the six upper bits, or in the 1 to 4 bytes that follow; its bytes
    copies:   a tag and 1, 2 or 4 bytes of offset; length in the tag
    """
    try:
        left, used = decode_varint(read(at, MAX_VARINT64_BYTES), 0)
    except ValueError:
        return None, None
    if left > LARGEST_CONTENT:
        return None, None
    position = at + used
    while left > 0:
        element = read(position, 5)
        if not element:
            return None, None
        tag = element[0]
        kind, length = tag & 3, tag >> 2
        position += 1
        if kind == 0:
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(element[1 : 1 + extra], "little")
                position += extra
            position += length + 1
            left -= length + 1
        else:
            left -= (length & 7) + 4 if kind == 1 else length + 1
            position += (1, 2, 4)[kind - 1]
    return (position, position) if left == 0 else (None, None)


def readable_entries(block: bytes) -> Iterator[Entry]:
    """Yield the entries at the beginning of a damaged plain block, up to where they make no sense."""
    key, position, keys_size = b"", 0, 0
    for number in range(_MOST_READABLE):
        try:
            shared, position = decode_varint(block, position)
            unshared, position = decode_varint(block, position)
            value_size, position = decode_varint(block, position)
        except ValueError:
            return
        end = position + unshared + value_size
        # The last entry is followed by the restart points. The first one is 0: an entry without a key.
        if shared > len(key) or end > len(block) or (number and not shared + unshared):
            return
        keys_size += shared + unshared
        if shared + unshared > LONGEST_KEY or are_keys_too_long(keys_size, number):
            return
        key = key[:shared] + block[position : position + unshared]
        yield key, block[position + unshared : end]
        position = end
