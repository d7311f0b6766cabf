"""OCDBT, tensorstore's key-value store: how manifests and nodes are encoded.

    frame       magic: uint32, big-endian; length of the frame: uint64; version 0 and compression: varints;
                body, a zstd frame where compression is 1; CRC-32C of all before it: uint32
    manifest    uuid: 16 bytes; kind: 0 has the versions, 1 has them in other files; largest inline value,
                largest node, arity: byte, compression of nodes; then data files, versions, version nodes
    versions    columns: generation, height: byte, file, offset, length, keys, bytes, bytes; time: uint64
    data files  columns: shared with the path before, rest, base; then the rests
    node        height: byte; data files; entries in columns: shared with the key before, rest;
                interior: prefix of the children's keys; rests; file, offset, length, and three counts
                leaf: rests; lengths, kinds (0 inline, 1 in a file); file, offset of kind 1; inline values

Numbers are varints, or little-endian.  Columns have all first fields, then all second ones.
tensorstore/kvstore/ocdbt/index.rst
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..wire.coding import decode_fixed32
from ..wire.crc32c import crc32c
from ..wire.zstd import decompress_at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

MANIFEST, NODE = 0x0CDB3A2A, 0x0CDB20DE
"""What frames begin with."""

LARGEST_NODE = 100_000_000
TALLEST = 64
LONGEST_KEY = 1 << 16
NOWHERE = (1 << 64) - 1
"""The offset and length of an empty tree."""

_SMALLEST_FRAME = 18


class FrameChecksumError(ValueError):
    """The bytes of a frame contradict its checksum."""


class NodePosition(NamedTuple):
    """The position of a node: the data file, the base of files below it, a range, and its height."""

    file: bytes
    base: bytes
    offset: int
    length: int
    height: int


class StoredRange(NamedTuple):
    """A value in a file."""

    file: str
    offset: int
    size: int


class ManifestFrame(NamedTuple):
    """A manifest: `root` is the newest tree's, None of an empty one; or others have it (`is_elsewhere`)."""

    is_elsewhere: bool
    largest_node: int
    root: NodePosition | None


_VARINT = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]")
_LONGEST_VARINT = 10


def _varint(word: bytes) -> int:
    value = 0
    for byte in reversed(word):
        value = value << 7 | byte & 0x7F
    return value


class _Fields:
    """Reads fields one after the other; ValueError where they run past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise ValueError(f"expected {size} more bytes, but only {self.left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        return self.numbers(1)[0]

    def numbers(self, count: int) -> list[int]:
        """Return consecutive varints, each of at least one byte."""
        if count > self.left:
            raise ValueError(f"expected {count} numbers, but only {self.left} bytes are left")
        found = self._data[self._at : self._at + count]
        if found.isascii():  # each is one byte
            self._at += count
            return list(found)
        # Node columns have thousands of numbers, few of them different: each of these is decoded once.
        words = _VARINT.findall(self._data, self._at, self._at + _LONGEST_VARINT * count)[:count]
        joined = b"".join(words)
        if len(words) < count or not self._data.startswith(joined, self._at):
            raise ValueError("a number runs past the end")
        self._at += len(joined)
        values = {word: _varint(word) for word in set(words)}
        return [values[word] for word in words]

    def count(self) -> int:
        """Return how many entries follow."""
        found = self.number()
        if found > self.left:
            raise ValueError(f"{found} entries are expected, but only {self.left} bytes are left")
        return found

    def end(self) -> None:
        if self.left:
            raise ValueError(f"{self.left} bytes follow the last field")


def frame_body(data: bytes, magic: int, most: int) -> bytes:
    """Return the body of a frame, of at most so many bytes; ValueError where the frame is damaged."""
    if len(data) < _SMALLEST_FRAME:
        raise ValueError(f"a frame has {len(data)} bytes; expected at least {_SMALLEST_FRAME}")
    if int.from_bytes(data[:4], "big") != magic:
        raise ValueError(f"it begins with {data[:4].hex()}; expected {magic:08x}")
    length = int.from_bytes(data[4:12], "little")
    if length != len(data):
        raise ValueError(f"a frame should have {length} bytes, but {len(data)} were found")
    stored, found = decode_fixed32(data, len(data) - 4), crc32c(data[:-4])
    if stored != found:
        raise FrameChecksumError(f"the data has checksum {found:#010x}, but the stored one is {stored:#010x}")
    fields = _Fields(data[12:-4])
    version, compression = fields.numbers(2)
    if version != 0 or compression > 1:
        raise ValueError(f"version {version} with compression {compression} is not supported")
    body = fields.take(fields.left)
    if compression:
        return decompress_at_most(body, most)
    if len(body) > most:
        raise ValueError(f"a body has {len(body)} bytes; expected at most {most}")
    return body


def _files(fields: _Fields, base: bytes) -> list[tuple[bytes, bytes]]:
    """Return the path and the base of each data file."""
    count = fields.count()
    shared = [0, *fields.numbers(max(0, count - 1))]
    rests, bases = fields.numbers(count), fields.numbers(count)
    found, last = [], b""
    for begin, rest, end in zip(shared, rests, bases, strict=False):
        last = _joined(last, begin, fields.take(rest))
        if end > len(last):
            raise ValueError("a base is longer than its path")
        found.append((base + last, base + last[:end]))
    return found


def _joined(last: bytes, shared: int, rest: bytes) -> bytes:
    if shared > len(last) or shared + len(rest) > LONGEST_KEY:
        raise ValueError(f"a name shares {shared} bytes with one of {len(last)}, and adds {len(rest)}")
    return last[:shared] + rest


def decode_manifest(data: bytes) -> ManifestFrame:
    """Return what a manifest says; ValueError where it is none."""
    fields = _Fields(frame_body(data, MANIFEST, LARGEST_NODE))
    fields.take(16)
    kind, _, largest = fields.numbers(3)
    fields.byte()
    method = fields.number()
    if kind > 1 or method > 1:
        raise ValueError(f"kind {kind} with compression {method} is not supported")
    if method == 1:
        fields.take(4)
    root = None
    if kind == 0:
        root = _newest(fields)
        _skip_version_nodes(fields)
    fields.end()
    return ManifestFrame(kind == 1, min(largest, LARGEST_NODE), root)


def _newest(fields: _Fields) -> NodePosition | None:
    files = _files(fields, b"")
    count = fields.count()
    if not count:
        raise ValueError("no version")
    fields.numbers(count)
    height = fields.take(count)[-1]
    file, offset, length, *_ = [fields.numbers(count)[-1] for _ in range(6)]
    fields.take(8 * count)
    if offset == length == NOWHERE:
        return None
    return _position(files, file, offset, length, height)


def _skip_version_nodes(fields: _Fields) -> None:
    """Pass over what leads to older versions."""
    count = fields.count()
    for _ in range(5):
        fields.numbers(count)
    fields.take(9 * count)


def _position(
    files: Sequence[tuple[bytes, bytes]], file: int, offset: int, length: int, height: int
) -> NodePosition:
    if file >= len(files):
        raise ValueError(f"a value is in data file {file}, but there are {len(files)}")
    if height > TALLEST:
        raise ValueError(f"the tree has height {height}, but at most {TALLEST} is supported")
    return NodePosition(*files[file], offset, length, height)


class DecodedNode(NamedTuple):
    """A node: a leaf has `values`, an interior node `children` and the beginning of the keys of each."""

    values: list[tuple[bytes, bytes | StoredRange]]
    children: list[tuple[bytes, NodePosition]]


def decode_node(data: bytes, position: NodePosition, prefix: bytes, most: int) -> DecodedNode:
    """Return what a node holds; its keys begin with `prefix`.  ValueError where it is damaged."""
    fields = _Fields(frame_body(data, NODE, most))
    height = fields.byte()
    if height != position.height:
        raise ValueError(f"a node has height {height}; expected {position.height}")
    files = _files(fields, position.base)
    count = fields.count()
    if not count:
        raise ValueError("a node has no entries")
    shared = [0, *fields.numbers(count - 1)]
    rests = fields.numbers(count)
    common = fields.numbers(count) if height else []
    keys = _keys(shared, rests, fields.take(sum(rests)))
    if height:
        begun = list(zip(keys, common, strict=True))
        children = _children(fields, files, begun, height - 1)
        found = DecodedNode([], [(prefix + begin, position) for begin, position in children])
    else:
        found = DecodedNode(_values(fields, files, keys, prefix), [])
    fields.end()
    return found


def _keys(shared: Sequence[int], rests: Sequence[int], data: bytes) -> list[bytes]:
    """Return the keys of a node, each a prefix of the one before, and a rest in `data`."""
    keys: list[bytes] = []
    at, last = 0, b""
    for begin, rest in zip(shared, rests, strict=True):
        name = _joined(last, begin, data[at : at + rest])
        if keys and name <= last:
            raise ValueError("the keys do not ascend")
        keys.append(name)
        at, last = at + rest, name
    return keys


def _children(
    fields: _Fields, files: Sequence[tuple[bytes, bytes]], begun: Sequence[tuple[bytes, int]], height: int
) -> list[tuple[bytes, NodePosition]]:
    """Return with what the keys of each child begin, and where it is; of its first key so much is `begun`."""
    columns = [fields.numbers(len(begun)) for _ in range(6)]
    found = []
    for (key, shared), file, offset, length in zip(begun, *columns[:3], strict=True):
        if shared > len(key):
            raise ValueError("children's keys begin with more than their own key has")
        found.append((key[:shared], _position(files, file, offset, length, height)))
    return found


def _values(
    fields: _Fields, files: Sequence[tuple[bytes, bytes]], keys: Sequence[bytes], prefix: bytes
) -> list[tuple[bytes, bytes | StoredRange]]:
    lengths, kinds = fields.numbers(len(keys)), fields.numbers(len(keys))
    if max(kinds) > 1:
        raise ValueError(f"a value has the unknown kind {max(kinds)}")
    outside = kinds.count(1)
    places = zip(fields.numbers(outside), fields.numbers(outside), strict=True)
    names = [path.decode("utf-8", "surrogateescape") for path, _ in files]
    inline = fields.take(sum(length for length, kind in zip(lengths, kinds, strict=True) if not kind))
    at = 0
    found: list[tuple[bytes, bytes | StoredRange]] = []
    for key, length, kind in zip(keys, lengths, kinds, strict=True):
        if kind:
            file, offset = next(places)
            if file >= len(names):
                raise ValueError(f"a node is in data file {file}, but there are {len(names)}")
            found.append((prefix + key, StoredRange(names[file], offset, length)))
        else:
            found.append((prefix + key, inline[at : at + length]))
            at += length
    return found
