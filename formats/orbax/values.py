"""The values of a tree: in an OCDBT database, or in one file each.

manifest.ocdbt                  the database: see `formats.orbax.ocdbt`
manifest.<16 hex digits>        its versions, where the manifest says so; the last is the newest
d/<32 hex digits>               nodes and values
ocdbt.process_N/d/...           the same, of what process N saved
NAME/.zarray, NAME/0.1          files without a database
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import CheckpointError, ChecksumError, CorruptCheckpointError
from ..store.ranges import BlockMemory
from .ocdbt import LARGEST_NODE, FrameChecksumError, ManifestFrame, StoredRange, decode_manifest, decode_node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .files import TreeFiles
    from .ocdbt import NodePosition

DATABASE = "manifest.ocdbt"
_NUMBERED = re.compile(r"manifest\.[0-9a-f]{16}")
_MOST_KEYS, _MOST_NODES = 1_500_000, 100_000
_MOST_KEY_BYTES, _MOST_INLINE = 256 << 20, 256 << 20
_LARGEST_MANIFEST = 16 << 20
_FRAME = 64
"""Bytes that a frame has around its body, at most."""

Value = bytes | StoredRange


class TreeValues:
    """The values of a tree by key; of a database all are known, others are looked for."""

    def __init__(self, files: TreeFiles) -> None:
        self.files = files
        self.has_database = files.size(DATABASE) is not None
        self.memory = BlockMemory()
        self._values: dict[bytes, Value] = {}
        if self.has_database:
            self._values = _DatabaseWalk(files).values

    def find(self, key: str) -> Value | None:
        """Return a value, or where it is; None where there is none."""
        found = self._values.get(key.encode("utf-8", "surrogateescape"))
        if found is not None:
            return found
        size = self.files.size(key)
        return None if size is None else StoredRange(key, 0, size)

    def read(self, value: Value, begin: int = 0, end: int | None = None) -> bytes:
        """Return a value, or a part of it that is known to be there."""
        if isinstance(value, bytes):
            return value[begin:end]
        return self.files.read(value.file, value.offset + begin, (value.size if end is None else end) - begin)

    def read_into(self, value: Value, begin: int, out: memoryview) -> None:
        """Fill `out` with a part of a value that is known to be there."""
        if isinstance(value, bytes):
            out[:] = value[begin : begin + len(out)]
        else:
            self.files.read_into(value.file, value.offset + begin, out)

    def expect(self, values: Iterable[Value | None]) -> None:
        """Prepare to read these values: nearby ranges of one file become one."""
        spans: dict[str, tuple[int, int, int]] = {}
        for value in values:
            if isinstance(value, StoredRange):
                low, high, total = spans.get(value.file, (value.offset, 0, 0))
                spans[value.file] = (
                    min(low, value.offset),
                    max(high, value.offset + value.size),
                    total + value.size,
                )
        for name, (low, high, total) in spans.items():
            if high - low <= 4 * total:
                self.files.expect(name, low, high - low)

    @property
    def count(self) -> int:
        """How many values a database has."""
        return len(self._values)

    @property
    def nbytes(self) -> int:
        """The bytes of all values in a database."""
        return sum(
            value.size if isinstance(value, StoredRange) else len(value) for value in self._values.values()
        )


class _DatabaseWalk:
    """Goes once through all nodes of a database."""

    def __init__(self, files: TreeFiles) -> None:
        self._files = files
        self.values: dict[bytes, Value] = {}
        self._key_bytes = self._inline = 0
        self._last = b""
        self._seen: set[tuple[bytes, int]] = set()
        manifest = self._manifest()
        if manifest.root is not None:
            self._walk(manifest.root, manifest.largest_node)

    def _manifest(self) -> ManifestFrame:
        found = self._decoded_manifest(DATABASE)
        if not found.is_elsewhere:
            return found
        names = [name for name, _ in self._files.folder.listing() if _NUMBERED.fullmatch(name)]
        if not names:
            raise self._corrupt(DATABASE, 0, "its versions are in other manifests, which are missing")
        found = self._decoded_manifest(max(names))
        if found.is_elsewhere:
            raise self._corrupt(max(names), 0, "this numbered manifest contains no versions")
        return found

    def _decoded_manifest(self, name: str) -> ManifestFrame:
        size = self._files.size(name) or 0
        if size > _LARGEST_MANIFEST:
            raise self._corrupt(
                name, 0, f"the manifest has {size} bytes, but at most {_LARGEST_MANIFEST} are supported"
            )
        data = self._files.read(name, 0, size)
        try:
            return decode_manifest(data)
        except ValueError as error:
            raise self._damaged(name, 0, error) from error

    def _walk(self, root: NodePosition, most: int) -> None:
        left = [(b"", root)]
        while left:
            prefix, position = left.pop()
            name = position.file.decode("utf-8", "surrogateescape")
            where = position.file, position.offset
            if where in self._seen:
                raise self._corrupt(name, position.offset, "a node occurs twice in the tree")
            self._seen.add(where)
            if len(self._seen) > _MOST_NODES:
                raise self._corrupt(name, position.offset, f"the tree has more than {_MOST_NODES} nodes")
            if position.length > min(most, LARGEST_NODE) + _FRAME:
                message = f"a node has {position.length} bytes; expected at most {most}"
                raise self._corrupt(name, position.offset, message)
            data = self._files.read(name, position.offset, position.length)
            try:
                node = decode_node(data, position, prefix, most)
                self._take(node.values)
            except ValueError as error:
                raise self._damaged(name, position.offset, error) from error
            left.extend(reversed(node.children))

    def _take(self, values: list[tuple[bytes, Value]]) -> None:
        for key, value in values:
            if key <= self._last and self.values:
                raise ValueError("the keys do not ascend from node to node")
            self._last = key
            self._key_bytes += len(key)
            self._inline += len(value) if isinstance(value, bytes) else 0
            self.values[key] = value
        if (
            len(self.values) > _MOST_KEYS
            or max(self._key_bytes - _MOST_KEY_BYTES, self._inline - _MOST_INLINE) > 0
        ):
            raise ValueError(f"{len(self.values)} keys have {self._key_bytes} bytes, which is over the limit")

    def _damaged(self, name: str, offset: int, error: ValueError) -> CheckpointError:
        if isinstance(error, FrameChecksumError):
            path = self._files.location(name)
            return ChecksumError(str(error), path=path, offset=offset, code="block-checksum")
        return self._corrupt(name, offset, str(error))

    def _corrupt(self, name: str, offset: int, message: str) -> CorruptCheckpointError:
        path = self._files.location(name)
        return CorruptCheckpointError(f"OCDBT: {message}", path=path, offset=offset, code="header")
