"""The rest of a V1 file: the blocks that its damaged footer or index block no longer names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import CheckpointError
from ...model.verification import Finding
from ...store.readahead import ReadAhead
from ...wire.salvage import find_blocks
from ...wire.sstable import Table

if TYPE_CHECKING:
    from ...location import Location
    from ...store.base import File


_META_TAG = 0x0A
"""SavedTensorSlices.meta, the first field in the value of the first entry."""


def begins_as_v1(path: Location) -> bool:
    """Whether a file's first block is sound, and its first entry V1 metadata."""
    with path.open() as file:
        block = next(find_blocks(ReadAhead(file).read, file.size), None)
        if block is None or not block.is_sound:
            return False
        try:
            entries = Table.of_blocks(file.read, file.size, path, []).entries(block.handle)
        except CheckpointError:
            return False
    return bool(entries) and entries[0][0] == b"" and entries[0][1][:1] == bytes((_META_TAG,))


def walked_table(file: File, findings: list[Finding]) -> Table:
    """Return a table of the sound blocks from a file's beginning; what is wrong with one is a finding."""
    table = Table.of_blocks(file.read, file.size, file.path, [])
    for block in find_blocks(ReadAhead(file).read, file.size):
        if not block.is_sound:
            break
        try:
            last_key, _ = table.entries(block.handle)[-1]
        except CheckpointError as error:
            findings.append(Finding("error", error.code, error.message, None, file.path, error.offset))
        else:
            table.index.append((last_key, block.handle))
    return table
