"""Tables: sorted keys and values in one file, as LevelDB lays them out.

    table:    data block*, metaindex block, index block, footer
    block:    entry*, restart: fixed32[count], count: fixed32
    entry:    shared: varint, unshared: varint, value size: varint, key suffix, value
    stored:   block, type: byte (0 plain, 1 snappy), masked crc32c of both: fixed32
    footer:   metaindex handle, index handle, zeros up to 40 bytes, magic: fixed64
    handle:   offset: varint, size: varint (without the 5 bytes of the block's trailer)

A key is stored as what differs from the key before; a restart point stores its key
whole, so that a search can start there.  The index block has one entry a data
block: a key not below the block's last and below the next block's first, and the
block's handle.  TensorFlow's tables differ from LevelDB's in their block size,
262,144 bytes, and are written without compression, but read with it.

Every number is checked against the file before it is used.  Damage is a
CorruptCheckpointError that carries the code `ckpt verify` reports.
https://github.com/google/leveldb/blob/main/doc/table_format.md
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ChecksumError, CorruptCheckpointError
from . import compression
from .coding import decode_varint, encode_fixed32, encode_varint
from .crc32c import crc32c, extend, mask
from .limits import LONGEST_KEY, are_keys_too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "FOOTER_SIZE",
    "LARGEST_KEY_GROWTH",
    "MAGIC",
    "BlockHandle",
    "Table",
    "TableBuilder",
    "decode_block",
    "decode_columns",
    "encode_block",
    "is_found",
    "most_entries",
]

MAGIC = bytes.fromhex("57fb808b247547db")
FOOTER_SIZE = 48
TRAILER_SIZE = 5
PLAIN, SNAPPY = 0, 1
BLOCK_SIZE = 262_144
RESTART_INTERVAL = 16
LARGEST_KEY_GROWTH = 32
_SHOWN_OF_KEY = 40
_LEAST_ENTRY = 12
"""Bytes that an entry takes at least: three lengths, some of a key, and a dtype, size and checksum.

An entry in memory is a hundred times the smallest that can be spelled, so a block of many is held to it.
"""

_LEAST_ENTRY_STORED = 3
"""Bytes of an entry that has neither key nor value: its lengths."""

_FEW_ENTRIES = 4096
_FEW_BLOCKS, _LEAST_BLOCK = 4096, 512
"""A handle takes more memory than a small block has bytes: LevelDB's blocks have 4 KiB, TensorFlow's 256."""

_LARGE_BLOCK = 1 << 20
LARGEST_CONTENT = 64 << 20
"""Bytes that a compressed block may hold: TensorFlow compresses none, LevelDB's default is 4 KiB."""

Entry = tuple[bytes, bytes]


class BlockHandle(NamedTuple):
    """The position of a block; `size` excludes the trailer."""

    offset: int
    size: int

    @classmethod
    def decode(cls, data: bytes, position: int = 0) -> tuple[BlockHandle, int]:
        offset, position = decode_varint(data, position)
        size, position = decode_varint(data, position)
        return cls(offset, size), position

    def encode(self) -> bytes:
        return encode_varint(self.offset) + encode_varint(self.size)


def most_entries(size: int) -> int:
    """Return how many entries are read of a block of this size."""
    return max(_FEW_ENTRIES, size // _LEAST_ENTRY)


def decode_block(block: bytes, left_out: list[str] | None = None, most: int | None = None) -> list[Entry]:
    """Return the entries of a block; ValueError if it is malformed, or has more than `most`.

    If `left_out` is given, keys that are too long are appended to it, and their entries skipped; otherwise
    they are an error.
    """
    return list(zip(*decode_columns(block, left_out, most), strict=True))


def _too_long(size: int, begins: bytes) -> str:
    shown = begins.decode("utf-8", "backslashreplace")
    return f"a key of {size} bytes, but at most {LONGEST_KEY} are supported: {shown!r}..."


def _end_of_entries(block: bytes) -> int:
    """Return where a block's restart points begin."""
    if len(block) < 4:
        raise ValueError(f"the block has only {len(block)} bytes")
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    if restarts == 0 or end < 0:
        raise ValueError(f"the block of {len(block)} bytes declares {restarts} restart points")
    return end


def decode_columns(
    block: bytes, left_out: list[str] | None = None, most: int | None = None
) -> tuple[list[bytes], list[bytes]]:
    """Return the keys and the values of a block, as `decode_block` returns its entries."""
    end = _end_of_entries(block)
    keys: list[bytes] = []
    values: list[bytes] = []
    add_key, add_value = keys.append, values.append
    key = b""
    position = 0
    # Keys that share long prefixes could fill the memory from a small file.  With a restart
    # point every 16 entries they cannot grow beyond 16 times what is stored.
    budget = LARGEST_KEY_GROWTH * len(block) + (1 << 20)
    long = 0
    most = most_entries(len(block)) if most is None else most
    may_be_too_many = end > _LEAST_ENTRY_STORED * most
    while position < end:
        # Three lengths below 128 are three bytes: all but a few entries of real files.
        lengths = block[position : position + 3]
        if lengths.isascii():
            shared, unshared, value_size = lengths
            position += 3
        else:
            shared, position = decode_varint(block, position, end)
            unshared, position = decode_varint(block, position, end)
            value_size, position = decode_varint(block, position, end)
            long += shared + unshared
        value_at = position + unshared
        if shared > len(key) or value_at + value_size > end:
            has_lengths = f"lengths {shared}, {unshared}, {value_size}"
            raise ValueError(f"entry {len(keys)} runs past the end of its block: {has_lengths}")
        if long:
            if shared + unshared > LONGEST_KEY:
                begins = key[: min(shared, _SHOWN_OF_KEY)] + block[position : position + _SHOWN_OF_KEY]
                flaw = _too_long(shared + unshared, begins[:_SHOWN_OF_KEY])
                if left_out is None:
                    raise ValueError(f"entry {len(keys)} has {flaw}")
                left_out.append(flaw)
                # A table builder ends a block after an entry of this size, so nothing shares its key.
                key, long, position = b"", long - shared - unshared, value_at + value_size
                continue
            if are_keys_too_long(long, len(keys)):
                raise ValueError(
                    f"the block of {len(block)} bytes has keys of {long} bytes, which is over the limit"
                )
        key = key[:shared] + block[position:value_at]
        budget -= shared
        if budget < 0:
            raise ValueError(
                f"the keys in the block of {len(block)} bytes have "
                f"more than {LARGEST_KEY_GROWTH} times that size"
            )
        position = value_at + value_size
        add_key(key)
        add_value(block[value_at:position])
        if may_be_too_many and len(keys) > most:
            raise ValueError(f"the block of {len(block)} bytes has more than {most} entries")
    return keys, values


def encode_block(entries: list[Entry], restart_interval: int = RESTART_INTERVAL) -> bytes:
    """Return a block of entries, in the order given."""
    builder = _BlockBuilder(restart_interval)
    for key, value in entries:
        builder.add(key, value)
    return builder.finish()


def is_found(keys: Sequence[bytes], before: bytes | None, last: bytes) -> bool:
    """Whether a search comes to every one of a block's keys, which ascend.

    The index block says `last` of it, and `before` of the block in front, None if there is none.
    A search goes to the first block whose own is not below the key, and where that has ended
    to the first key behind it.
    """
    above = before is None or (before <= last and (len(keys) < 2 or before < keys[1]))
    return above and (not keys or keys[-1] <= last)


class Table:
    """An open table.  Opening reads the footer and the index block, nothing else.

    `read(offset, size)` returns bytes of the file, fewer where it ends; `size` is the file's.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, path: str) -> None:
        self.path = path
        self.size = size
        self._read = read
        self.index = self._read_index()

    @classmethod
    def of_blocks(
        cls, read: Callable[[int, int], bytes], size: int, path: str, index: list[tuple[bytes, BlockHandle]]
    ) -> Table:
        """Return a table whose blocks have been found in another way: each with its last key."""
        table = cls.__new__(cls)
        table.path, table.size, table._read, table.index = path, size, read, index
        return table

    def _corrupt(self, message: str, offset: int, code: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self.path, offset=offset, code=code)

    def _read_index(self) -> list[tuple[bytes, BlockHandle]]:
        if self.size < FOOTER_SIZE:
            raise self._corrupt(
                f"the file has {self.size} bytes, but a table has at least {FOOTER_SIZE}", 0, "footer"
            )
        at = self.size - FOOTER_SIZE
        footer = self._read(at, FOOTER_SIZE)
        if footer[-len(MAGIC) :] != MAGIC:
            found = footer[-len(MAGIC) :].hex(" ")
            raise self._corrupt(f"the file ends in {found}; expected {MAGIC.hex(' ')}", at + 40, "footer")
        try:
            _, position = BlockHandle.decode(footer)
            handle, position = BlockHandle.decode(footer, position)
            entries = decode_block(self.read_block(handle), most=max(_FEW_BLOCKS, self.size // _LEAST_BLOCK))
            index = [(key, BlockHandle.decode(value)[0]) for key, value in entries]
        except ValueError as error:
            raise self._corrupt(f"index block: {error}", at, "footer") from error
        except CorruptCheckpointError as error:
            error.code = "footer"
            raise
        # An index entry is a few bytes and a block many: named over and over, one would fill the memory.
        ends = (handle.offset + handle.size + TRAILER_SIZE for _, handle in index)
        sizes = (handle.size + TRAILER_SIZE for _, handle in index)
        if sum(size for size, end in zip(sizes, ends, strict=True) if end <= self.size) > self.size:
            raise self._corrupt("the index block lists some blocks more than once", handle.offset, "footer")
        return index

    def read_block(self, handle: BlockHandle) -> bytes:
        """Return a block's content, checked against its checksum and decompressed."""
        offset, size = handle
        if offset + size + TRAILER_SIZE > self.size:
            message = f"the block of {size} bytes runs past the end of the file ({self.size} bytes)"
            raise self._corrupt(message, offset, "block-checksum")
        block, trailer = self._read_stored(offset, size)
        if len(trailer) != TRAILER_SIZE:
            message = (
                f"the block needs {size + TRAILER_SIZE} bytes, but only {len(block) + len(trailer)} are left"
            )
            raise self._corrupt(message, offset, "block-checksum")
        kind = trailer[0]
        found = mask(extend(crc32c(block), trailer[:1]))
        expected = int.from_bytes(trailer[1:], "little")
        if found != expected:
            message = f"the block has checksum {found:#010x}, but the stored one is {expected:#010x}"
            raise ChecksumError(message, path=self.path, offset=offset, code="block-checksum")
        if kind == SNAPPY:
            try:
                return compression.decompress(block, LARGEST_CONTENT)
            except ValueError as error:
                raise self._corrupt(str(error), offset, "block-checksum") from error
        if kind != PLAIN:
            raise self._corrupt(f"the block has type {kind}; expected 0 or 1", offset, "block-checksum")
        return block

    def _read_stored(self, offset: int, size: int) -> tuple[bytes, bytes]:
        """Return a block and its trailer, in one read unless taking that apart would need as much again."""
        if size > _LARGE_BLOCK:
            return self._read(offset, size), self._read(offset + size, TRAILER_SIZE)
        stored = self._read(offset, size + TRAILER_SIZE)
        return stored[:size], stored[size:]

    def entries(self, handle: BlockHandle) -> list[Entry]:
        """Return the entries of one data block."""
        return list(zip(*self.columns(handle), strict=True))

    def columns(self, handle: BlockHandle) -> tuple[list[bytes], list[bytes]]:
        """Return the keys and the values of one data block."""
        block = self.read_block(handle)
        try:
            return decode_columns(block)
        except ValueError as error:
            raise self._corrupt(str(error), handle.offset, "block-checksum") from error

    def __iter__(self) -> Iterator[Entry]:
        for _, handle in self.index:
            yield from self.entries(handle)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, reading the one block that may hold it."""
        for last, handle in self.index:
            if key <= last:
                return next((value for found, value in self.entries(handle) if found == key), None)
        return None


class _BlockBuilder:
    def __init__(self, restart_interval: int) -> None:
        self.restart_interval = restart_interval
        self.reset()

    def reset(self) -> None:
        self.body = bytearray()
        self.restarts = [0]
        self.count = 0
        self.last_key = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self.count == self.restart_interval:
            self.restarts.append(len(self.body))
            self.count = 0
        elif self.count:
            shared = _shared_prefix(self.last_key, key)
        lengths = shared, len(key) - shared, len(value)
        # Three lengths below 128 are three bytes: all but a few entries of real files.
        self.body += bytes(lengths) if max(lengths) < 0x80 else b"".join(map(encode_varint, lengths))
        self.body += key[shared:]
        self.body += value
        self.last_key = key
        self.count += 1

    @property
    def size(self) -> int:
        return len(self.body) + 4 * len(self.restarts) + 4

    def finish(self) -> bytes:
        tail = struct.pack(f"<{len(self.restarts) + 1}I", *self.restarts, len(self.restarts))
        return bytes(self.body) + tail


class TableBuilder:
    """Writes a table through `write`, byte for byte as TensorFlow's TableBuilder does.

    Keys are added in ascending order.  `block_size` and `compress` are there for
    readers to be tried on; TensorFlow writes neither any other way.
    """

    def __init__(
        self, write: Callable[[bytes], object], block_size: int = BLOCK_SIZE, *, compress: bool = False
    ) -> None:
        self._write = write
        self._block_size = block_size
        self._compress = compress
        self._offset = 0
        self._data = _BlockBuilder(RESTART_INTERVAL)
        self._index = _BlockBuilder(1)
        self._pending: BlockHandle | None = None
        self._last_key: bytes | None = None

    def add(self, key: bytes, value: bytes) -> None:
        """Add an entry; ValueError if its key is not above the last."""
        if self._last_key is not None:
            if key <= self._last_key:
                raise ValueError(f"key {key!r} does not sort after {self._last_key!r}")
            if len(key) + len(value) >= 2 * self._block_size:
                self._flush()  # A huge value sits alone in its block.
        self._index_pending(key)
        self._data.add(key, value)
        self._last_key = key
        if self._data.size >= self._block_size:
            self._flush()

    def finish(self) -> int:
        """Write what is left and return the size of the whole table."""
        self._flush()
        metaindex = self._put(encode_block([]))
        self._index_pending(None)
        index = self._put(self._index.finish())
        handles = metaindex.encode() + index.encode()
        self._write(handles.ljust(FOOTER_SIZE - len(MAGIC), b"\0") + MAGIC)
        return self._offset + FOOTER_SIZE

    def _flush(self) -> None:
        if self._data.body:
            self._pending = self._put(self._data.finish())
            self._data.reset()

    def _index_pending(self, next_key: bytes | None) -> None:
        """Add the index entry of a closed block, once the key behind it is known."""
        if self._pending is not None:
            assert self._last_key is not None
            separator = (
                _successor(self._last_key) if next_key is None else _separator(self._last_key, next_key)
            )
            self._index.add(separator, self._pending.encode())
            self._pending = None

    def _put(self, block: bytes) -> BlockHandle:
        kind = PLAIN
        if self._compress:
            packed = compression.compress(block)
            if len(packed) < len(block) - len(block) // 8:
                block, kind = packed, SNAPPY
        handle = BlockHandle(self._offset, len(block))
        trailer = bytes((kind,))
        self._write(block + trailer + encode_fixed32(mask(extend(crc32c(block), trailer))))
        self._offset += len(block) + TRAILER_SIZE
        return handle


def _shared_prefix(left: bytes, right: bytes) -> int:
    """Return how many bytes two keys begin with alike."""
    size = min(len(left), len(right))
    differing = int.from_bytes(left[:size]) ^ int.from_bytes(right[:size])
    return size - (differing.bit_length() + 7) // 8


def _separator(last: bytes, following: bytes) -> bytes:
    """Return a short key that is not below `last` and below `following`."""
    at = _shared_prefix(last, following)
    if at < min(len(last), len(following)) and last[at] + 1 < following[at]:
        return last[:at] + bytes((last[at] + 1,))
    return last


def _successor(last: bytes) -> bytes:
    """Return a short key that is not below `last`."""
    for at, byte in enumerate(last):
        if byte != 0xFF:
            return last[:at] + bytes((byte + 1,))
    return last
