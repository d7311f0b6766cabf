"""The rest of a damaged index: entries of intact blocks, and of damaged ones.

The index block of the table lists the blocks. If it is damaged, or lists a damaged block, a walk through the
file finds them (`formats.wire.salvage`). One block is in memory at a time. Entries of intact blocks are
right, because their checksum matches. A damaged block is read until it becomes undecodable, and its entries
are doubtful.

No program writes keys of more than 1 MiB, and no command here would read them back: such
an entry is left out, with a finding that says how the key begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...core.spec import key_text
from ...errors import CheckpointError, CheckpointNotFoundError
from ...model.checkpoint_files import data_shards
from ...model.verification import Finding
from ...store.readahead import ReadAhead
from ...store.siblings import SHARD
from ...wire.limits import are_keys_too_long
from ...wire.messages import BundleHeaderProto
from ...wire.salvage import LARGEST_READABLE, find_blocks, readable_entries
from ...wire.sstable import Table, decode_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...location import Location
    from ...store.base import File
    from ...wire.sstable import BlockHandle, Entry


_SHOWN_OF_KEY = 100


class Remains(NamedTuple):
    """The rest of an index: stored entries by key, of intact and of damaged blocks."""

    header: BundleHeaderProto
    sound: dict[bytes, bytes]
    doubtful: dict[bytes, bytes]
    findings: tuple[Finding, ...]


def read_remains(prefix: Location) -> Remains:
    """Return what is left of the index of a prefix, which may be nothing."""
    path = prefix + ".index"
    try:
        with path.open() as file:
            blocks = _Blocks(file)
            blocks.read()
        sound, doubtful, findings = blocks.sound, blocks.doubtful, blocks.findings
    except CheckpointNotFoundError:
        sound, doubtful = {}, {}
        findings = [Finding("error", "shard-missing", "the index is missing", None, path)]
    header = _header(prefix, sound, doubtful, findings)
    sound.pop(b"", None)
    doubtful.pop(b"", None)
    return Remains(header, sound, doubtful, tuple(findings))


class _Blocks:
    """The blocks of an index, decoded one by one."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._keys_size = 0
        self.sound: dict[bytes, bytes] = {}
        self.doubtful: dict[bytes, bytes] = {}
        self.findings: list[Finding] = []

    def read(self) -> None:
        file = self._file
        if not file.size:
            self._note("footer", "the file is empty", 0)
            return
        try:
            table = Table(file.read, file.size, file.path)
        except CheckpointError as error:
            self._note(error.code, error.message, error.offset)
            self._walk(Table.of_blocks(file.read, file.size, file.path, []), set())
            return
        last, damaged = b"", False
        for key, handle in table.index:
            after = f"after {_shown(last)}, " if last else ""
            span = f"; this block holds the keys {after}up to {_shown(key)}"
            damaged |= not self._take(table, handle, span)
            last = key
        if damaged:  # a handle may be wrong, and its block sound
            self._walk(table, {handle for _, handle in table.index})

    def _walk(self, table: Table, known: set[BlockHandle]) -> None:
        """Take the blocks that the file has one behind the other, but those that are known."""
        for block in find_blocks(ReadAhead(self._file).read, self._file.size):
            if block.is_sound:
                if block.handle not in known:
                    self._take(table, block.handle)
            elif not known:
                message = "a block is truncated or damaged; everything after it is lost"
                self._note("block-checksum", message, block.handle.offset)
                self._doubt(block.handle)

    def _take(self, table: Table, handle: BlockHandle, span: str = "") -> bool:
        """Take a block's entries; return whether it is sound."""
        left_out: list[str] = []
        try:
            entries = decode_block(table.read_block(handle), left_out)
        except CheckpointError as error:
            self._note(error.code, error.message + span, handle.offset)
        except ValueError as error:
            self._note("block-checksum", f"{error}{span}", handle.offset)
        else:
            for message in left_out:
                self._note("entry", message, handle.offset)
            self._put(self.sound, entries, handle)
            return True
        self._doubt(handle)
        return False

    def _doubt(self, handle: BlockHandle) -> None:
        found = self._file.read(handle.offset, min(handle.size, LARGEST_READABLE))
        self._put(self.doubtful, readable_entries(found), handle)

    def _put(self, into: dict[bytes, bytes], entries: Iterable[Entry], handle: BlockHandle) -> None:
        for key, value in entries:
            if key in into:
                continue
            self._keys_size += len(key)
            if are_keys_too_long(self._keys_size, len(self.sound) + len(self.doubtful)):
                self._keys_size -= len(key)
                message = (
                    f"reading stopped after {self._keys_size} bytes "
                    "of keys (the limit); other entries are left out"
                )
                self._note("block-checksum", message, handle.offset)
                return
            into[key] = value

    def _note(self, code: str, message: str, offset: int | None) -> None:
        self.findings.append(Finding("error", code, message, None, self._file.path, offset))


def _shown(key: bytes) -> str:
    """Return how a key begins, for a message."""
    text = repr(key_text(key[:_SHOWN_OF_KEY]))
    return text if len(key) <= _SHOWN_OF_KEY else f"{text}..."


def _header(
    prefix: Location, sound: Mapping[bytes, bytes], doubtful: Mapping[bytes, bytes], findings: list[Finding]
) -> BundleHeaderProto:
    """Return the header; the count of shards is that of the files where it names none of them."""
    header = None
    for entries in (sound, doubtful):
        if header is None and b"" in entries:
            try:
                header = BundleHeaderProto.decode(entries[b""])
            except ValueError:
                continue
    counts = {int(match["count"]) for path in data_shards(prefix) if (match := SHARD.fullmatch(path))}
    if header is None:
        header = BundleHeaderProto(num_shards=max(counts, default=0))
    elif counts and header.num_shards not in counts and len(counts) == 1:
        (count,) = counts
        message = (
            f"the header declares {header.num_shards} shards, but the file names say {count}; using {count}"
        )
        findings.append(Finding("warning", "header", message, None, prefix + ".index", 0))
        header.num_shards = count
    if header.endianness not in (0, 1):
        header.endianness = 0
    return header
