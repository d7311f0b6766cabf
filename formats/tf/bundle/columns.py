"""The columns that a listing shows of a large index, block by block.

A listing shows keys, dtypes and shapes, and the latter two repeat across a million tensors. A block is
decoded when its lines are needed: the first lines of an index of 500 MB appear at once, and only one block is
in memory. The checks of a whole index run along. If single blocks do not show which entry is a tensor, and
which comes next, the caller must read the whole index.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np

from ...core.dtypes import INVALID
from ...core.spec import SpecColumns, TensorSpec, key_text
from ...model.verification import Finding
from ...wire.limits import are_keys_too_long
from ...wire.messages import BundleHeaderProto
from ...wire.spans import find_spans
from ...wire.sstable import is_found
from .index import SLICE_KEY_BYTE, EntryError, decode_entry, header_flaws, shape_or_scalar
from .small import CHECKSUM_TAG, PLACE_TAGS, Column, Cursors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...wire.sstable import BlockHandle, Table


_COMMON_HEADS = 4
"""Heads of a block that are looked for in all of its entries at once."""


class NoChecksumsError(Exception):
    """A block does not tell its tensors without the others."""


class IndexColumns:
    """The columns of a table that is an index; what is wrong with an entry goes to `findings`."""

    def __init__(self, table: Table, findings: list[Finding]) -> None:
        self._table = table
        self._findings = findings
        self.specs: list[TensorSpec] = []
        self._numbers: dict[TensorSpec, int] = {}
        self._heads: dict[bytes, int] = {}

    def blocks(self) -> Iterator[SpecColumns]:
        """Yield the columns of each block, in the order of keys.

        Raises NotTellingError before a block where keys do not ascend, or a search passes it, the
        header is not one that is read, or keys may be of slices, and CorruptCheckpointError where
        it is damaged.
        """
        last, size, count = b"", 0, 0
        before: bytes | None = None
        for number, (bound, handle) in enumerate(self._table.index):
            block = _Block(self._table, handle)
            if number == 0:
                self._take_header(block)
            keys = block.keys
            joined = b"\n".join(keys)
            size, count = size + len(joined), count + len(keys)
            ascend = all(map(operator.lt, [last, *keys], keys)) and is_found(keys, before, bound)
            if not ascend or are_keys_too_long(size, count) or joined.startswith(SLICE_KEY_BYTE):
                raise NoChecksumsError
            before = bound
            last = keys[-1] if keys else last
            one_each = joined.count(b"\n") == len(keys) - 1
            texts = key_text(joined).split("\n") if one_each else [*map(key_text, keys)]
            checksums = None if self.header.endianness else block.checksums
            yield SpecColumns(texts, self._numbered(texts, block), self.specs, checksums)

    def _take_header(self, block: _Block) -> None:
        """Take the header out of the first block."""
        value = block.take_first()
        try:
            self.header = BundleHeaderProto.decode(value or b"")
        except ValueError as error:
            raise NoChecksumsError from error
        flaws = [*header_flaws(self.header, self._table.path)]
        if value is None or flaws:
            raise NoChecksumsError

    def _numbered(self, keys: list[str], block: _Block) -> list[int]:
        """Return the numbers of the specs of a block's entries."""
        heads = self._heads
        numbers = np.full(len(keys), -1)
        left = np.flatnonzero(block.head_sizes)
        for _ in range(_COMMON_HEADS):
            if not len(left):
                break
            head = block.head(left[0])
            if head not in heads:
                self._decode(block, left[0])
            same = block.has_head(left, head)
            numbers[left[same]] = heads.get(head, -1)
            left = left[~same]
        for at in np.flatnonzero(numbers < 0).tolist():
            known = heads.get(block.head(at))
            numbers[at] = self._number(keys[at], block, at) if known is None else known
        found: list[int] = numbers.tolist()
        return found

    def _number(self, key: str, block: _Block, at: int) -> int:
        """Return the number of the spec of an entry, which is decoded; what is wrong with it is found."""
        spec = self._decode(block, at)
        if isinstance(spec, EntryError):
            place = self._table.path, block.offset
            self._findings.append(Finding("error", spec.code, str(spec), key, *place))
            spec = TensorSpec("", INVALID, shape_or_scalar(block.value(at)))
        return self._number_of(spec)

    def _decode(self, block: _Block, at: int) -> TensorSpec | EntryError:
        """Return what an entry says, and take note of what its head says of others."""
        try:
            entry = decode_entry(block.value(at))
        except EntryError as flaw:
            return flaw
        head = block.head(at)
        if entry.dtype.itemsize is None:
            return TensorSpec("", entry.dtype, entry.shape, entry.size)
        spec = TensorSpec("", entry.dtype, entry.shape)
        if head:
            self._heads[head] = self._number_of(spec)
        return spec

    def _number_of(self, spec: TensorSpec) -> int:
        number = self._numbers.setdefault(spec, len(self.specs))
        if number == len(self.specs):
            self.specs.append(spec)
        return number


class _Block:
    """A decoded block: its keys, and the positions of its entries and of their heads.

    A head holds dtype and shape, if the rest of the entry is only a placement, as TensorFlow writes it. For
    any other entry it is empty.
    """

    def __init__(self, table: Table, handle: BlockHandle) -> None:
        self.offset = handle.offset
        self._data = table.read_block(handle)
        spans = find_spans(self._data)
        if spans is None:
            self.keys, values = table.columns(handle)
            self._data = b"".join(values)
            self._ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
            self._begins = np.append(0, self._ends)[:-1]
        else:
            self.keys, self._begins, self._ends = spans.keys(self._data), spans.value, spans.end
        cursors = Cursors(self._data, self._begins, self._ends)
        sizes = cursors.at - self._begins
        shard, _, _ = map(cursors.varint, PLACE_TAGS)
        checksums = cursors.fixed32(CHECKSUM_TAG)
        plain = cursors.ended & (shard < 1 << 31)
        self.head_sizes = np.where(plain, sizes, 0)
        self._checksums = np.where(plain, checksums, -1)

    @property
    def checksums(self) -> list[int]:
        found: list[int] = self._checksums.tolist()
        return found

    def value(self, at: int) -> bytes:
        return self._data[self._begins[at] : self._ends[at]]

    def head(self, at: int) -> bytes:
        return self.value(at)[: self.head_sizes[at]]

    def has_head(self, entries: Column, head: bytes) -> Column:
        """Return which of some entries have this head."""
        same: Column = self.head_sizes[entries] == len(head)
        data = np.frombuffer(self._data, np.uint8)
        for step, byte in enumerate(head):
            same &= data[np.minimum(self._begins[entries] + step, len(data) - 1)] == byte
        return same

    def take_first(self) -> bytes | None:
        """Take the first entry out of the columns, and return its value; None if its key is not empty."""
        if self.keys[:1] != [b""]:
            return None
        value = self.value(0)
        del self.keys[0]
        self._begins, self._ends = self._begins[1:], self._ends[1:]
        self.head_sizes, self._checksums = self.head_sizes[1:], self._checksums[1:]
        return value
