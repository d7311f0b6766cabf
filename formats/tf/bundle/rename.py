"""A bundle under other keys: a new index, the same data shards.

    PREFIX.index                    all entries as they were, byte for byte, under their new keys;
                                    those of slices under slice keys made of the new ones
    PREFIX.data-0000S-of-0000N      the shards that hold tensors, linked, cloned or copied
    PREFIX.data-0000L-of-0000N      object-based: the object graph alone, L = N - 1

Only the count of shards in their names ties shards to an index.  A shard that holds but
the old object graph is not taken along, so that renaming again and again adds nothing.
In place, a name-based checkpoint changes by one rename of its index; an object-based one
has its shards linked under the new count first (see `bundle_commit`).
"""

from __future__ import annotations

import os
import struct
from math import prod
from typing import TYPE_CHECKING

from ...core.dtypes import STRING
from ...core.spec import key_bytes, key_text
from ...core.words import command_line
from ...errors import (
    CheckpointExistsError,
    CheckpointNotFoundError,
    ConversionError,
    CorruptCheckpointError,
    DuplicateKeyError,
    UnsupportedFeatureError,
)
from ...model.object_keys import GRAPH_KEY
from ...store.local.directories import sync_directory
from ...store.local.refusals import refusing
from ...store.local.staging import Staging
from ...store.remote.bucket_staging import Uploading
from ...store.work.workers import SERIAL, Workers
from ...wire.coding import encode_varint
from ...wire.crc32c import extend, mask
from .index import OBJECT_GRAPH_KEY, BundleEntry, data_shard, decode_entry, encode_entry, shard_name
from .links import followed_index, followed_prefix
from .payload import checksum, elements, length_bytes
from .shards import CLONE, COPY, HARD_LINKS, LINK, ShardTransfer, why_not_shared
from .slices import slice_key
from .staged import StagedBundle, index_flaw, write_index
from .verify import verify_values
from .writer import BundleWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...location import Location
    from ...model.object_graph import ObjectGraph
    from ...model.verification import Finding
    from ...store.local.staged_file import StagedFile
    from .reader import BundleReader


_MOST_GAPS = 1024
"""The most missing shards that a header may count: more come from a damaged file."""


class BundleRename:
    """Writes the bundle of a reader to `prefix`, under other keys.

    `keys` gives every tensor its new key, `graph` is the object graph that goes with
    them.  `link` shares shards where it can; in place they always are.  After `run`,
    `shares` says whether any are.
    """

    def __init__(
        self,
        reader: BundleReader,
        prefix: Location,
        keys: Mapping[str, str],
        graph: ObjectGraph | None,
        *,
        link: bool = False,
    ) -> None:
        self._reader = reader
        self._named = prefix
        self._keys = keys
        self._there = set(reader.files())
        self.in_place = _place(prefix) == _place(reader.index.prefix)
        self._ways = (LINK, CLONE, COPY) if self.in_place else (CLONE, LINK, COPY) if link else (COPY,)
        differs = graph is not None and _differs(graph, reader)
        self._prefix = followed_index(prefix) if self.in_place and not differs else followed_prefix(prefix)
        self._graph = self._encoded(graph) if graph is not None and differs else None
        if self._graph is not None and prefix.is_object():
            message = "renaming in a bucket is not supported for object graphs: a data shard would change"
            hints = ("to write a new checkpoint, pass the same rules to convert",)
            raise UnsupportedFeatureError(message, path=prefix, hints=hints)
        self._used: dict[int, int] = {}
        """The shards that hold tensors, and the end of the last tensor in each."""
        self._has_odd_sizes = False
        self._entries = self._rekeyed()
        self._refuse_missing()
        self._graph_shard = max(self._used, default=-1) + 1
        old = reader.index.header
        self._num_shards = old.num_shards if self._graph is None else self._graph_shard + 1
        self.shares = False
        if self._num_shards - len(self._used) > _MOST_GAPS:
            message = (
                f"the header declares {self._num_shards} shards, but only {len(self._used)} contain tensors"
            )
            raise UnsupportedFeatureError(message, path=reader.index.path, code="header")

    @property
    def nbytes(self) -> int:
        """Bytes of the shards to be brought."""
        return sum(found.size for path in self._sources().values() if (found := path.entry()) is not None)

    def _encoded(self, graph: ObjectGraph) -> bytes:
        """Return the new object graph as it is written, once every tensor that had an object has one."""
        old = self._reader.object_graph
        before = len(old.tensors(self._reader.specs)) if old is not None else 0
        if len(graph.tensors(dict.fromkeys(self._keys.values()))) != before:
            raise self._broken("some objects lost their tensors")
        return graph.encode()

    def _rekeyed(self) -> dict[bytes, bytes]:
        """Return the entries by their new keys, except that of an object graph that changes."""
        index = self._reader.index
        entries: dict[bytes, bytes] = {}
        for key, position in index.tensors.items():
            if self._graph is not None and key == GRAPH_KEY:
                continue
            new = key_bytes(self._keys[key])
            entry = self._reader.entry(key, position)
            for name, at, placed in ((new, position, entry), *self._pieces(key, new, entry)):
                if not name or name in entries:
                    raise DuplicateKeyError("two entries of the index have this key", key=key_text(name))
                entries[name] = index.values[at]
                self._note_place(placed)
        return entries

    def _pieces(self, key: str, new: bytes, entry: BundleEntry) -> Iterator[tuple[bytes, int, BundleEntry]]:
        """Yield the slices of a tensor: each one's new key, and its entry's position, and that entry."""
        for extents in entry.slices:
            piece = self._reader.index.slice_entries.get(slice_key(key_bytes(key), extents))
            if piece is None:
                raise self._reader.corrupt(
                    key, entry, "the index has no entry for one of its slices", "slice"
                )
            yield slice_key(new, extents), piece, self._reader.entry(key, piece)

    def _note_place(self, entry: BundleEntry) -> None:
        """Take note of the shard that an entry speaks of, and of where in it the tensor ends."""
        index = self._reader.index
        if entry.slices:
            return
        if entry.shard >= index.header.num_shards:
            message = "an entry names a shard number above the count in the header"
            hints = (f"to see which, run: {command_line('verify', index.prefix)}",)
            raise CorruptCheckpointError(message, path=index.path, hints=hints)
        self._used[entry.shard] = max(self._used.get(entry.shard, 0), entry.offset + entry.size)
        itemsize = entry.dtype.itemsize
        if itemsize is not None and entry.size != prod(entry.shape) * itemsize:
            self._has_odd_sizes = True

    def _refuse_missing(self) -> None:
        missing = self._reader.missing_files()
        if missing:
            message = "this shard is missing, but the index places tensors in it"
            raise CheckpointNotFoundError(message, path=missing[0], code="shard-missing")

    def _sources(self) -> dict[int, Location]:
        """Return the shards to bring by number; none if the index alone is replaced."""
        if self._is_index_alone:
            return {}
        old = self._reader.index
        count = self._num_shards if self._graph is None else self._graph_shard
        paths = {number: data_shard(old.prefix, number, old.header.num_shards) for number in range(count)}
        return {number: path for number, path in paths.items() if path in self._there}

    def run(
        self,
        *,
        overwrite: bool = False,
        verify: bool = True,
        workers: Workers = SERIAL,
        advance: Callable[[int], None] = lambda _: None,
    ) -> list[str]:
        """Write it and move it to its place; return notes for the person.

        Raises CorruptCheckpointError for a damaged tensor in a shard that is copied: its values are compared
        with its checksum along with the copy. Shared shards are not read; only their sizes are compared.
        """
        if self._prefix.is_object():
            self._put_index(verify=verify)
            return self._notes({})
        staging = Staging(self._prefix, BundleWriter.existing(self._prefix))
        bundle = StagedBundle(staging, self._named, self._reader.index.header)
        bundle.entries = self._entries
        try:
            transfers = self._stage(bundle, advance)
            staging.sync()
            if verify:
                self._verify_index(staging, bundle)
                self._verify_copies(staging, transfers, workers, advance)
            self._reader.check_unchanged()
            with staging.alone():
                if not (overwrite or self.in_place) and (found := BundleWriter.existing(self._prefix)):
                    raise CheckpointExistsError("another program created it in the meantime", path=found[0])
                self._move_in(staging, bundle)
        finally:
            staging.remove()
        return self._notes(transfers)

    def rehearse(self) -> list[str]:
        """Return the notes of a run, as far as they are known without it."""
        refusals = {number: why_not_shared(path, self._prefix) for number, path in self._sources().items()}
        return self._notes({number: ShardTransfer(COPY, refusal) for number, refusal in refusals.items()})

    @property
    def _index_name(self) -> str:
        return os.path.basename(self._prefix) + ".index"

    def _put_index(self, *, verify: bool) -> None:
        """Put the new index in the place of the old one, in a store; shards stay as they are."""
        self.shares = True
        uploading = Uploading(self._prefix, self._prefix + ".index", overwrite=True, prove=verify)
        try:
            index = uploading.create(self._index_name)
            write_index(index, self._reader.index.header, self._entries, self._num_shards)
            if verify:
                with uploading.opening():
                    flaw = index_flaw(index.path, self._entries, self._num_shards)
                if flaw is not None:
                    raise self._broken(flaw)
            self._reader.check_unchanged()
            uploading.move_in()
        finally:
            uploading.remove()

    @property
    def _is_index_alone(self) -> bool:
        return self.in_place and self._graph is None

    def _stage(self, bundle: StagedBundle, advance: Callable[[int], None]) -> dict[int, ShardTransfer]:
        """Stage all files, and return how each shard came."""
        transfers: dict[int, ShardTransfer] = {}
        self.shares = self.in_place
        if self._is_index_alone:
            bundle.stage_index(self._num_shards)
            return transfers
        sources = self._sources()
        for number in range(self._num_shards):
            if number in sources:
                transfers[number] = bundle.share(sources[number], self._ways, advance)
            elif number == self._graph_shard and self._graph is not None:
                self._entries[OBJECT_GRAPH_KEY] = self._write_graph(self._graph, bundle.add_shard())
            else:  # a shard without entries, whose count is kept
                bundle.add_shard()
        self.shares = self.in_place or any(shard.way != COPY for shard in transfers.values())
        bundle.finish()
        return transfers

    def _write_graph(self, graph: bytes, shard: StagedFile) -> bytes:
        """Write the object graph as a string in the bundle's byte order, and return its entry."""
        order = ">" if self._reader.index.big_endian else "<"
        crc = extend(0, length_bytes(len(graph), order))
        stored = struct.pack(order + "I", mask(crc))
        crc = extend(extend(crc, stored), graph)
        shard.write(encode_varint(len(graph)) + stored + graph)
        return encode_entry(BundleEntry(STRING, (), self._graph_shard, 0, shard.size, mask(crc)))

    def _name(self, shard: int) -> str:
        return shard_name(self._prefix.name, shard, self._num_shards)

    def _verify_index(self, staging: Staging, bundle: StagedBundle) -> None:
        """Compare the staged index with the plan, entry by entry, and the graph."""
        flaw = bundle.index_flaw(self._num_shards)
        if flaw is not None:
            raise self._broken(flaw)
        if self._graph is not None and self._graph_in(staging) != self._graph:
            raise self._broken("the object graph differs")

    def _graph_in(self, staging: Staging) -> bytes:
        """Return the object graph of what is staged, as its entry says where it is."""
        entry = decode_entry(self._entries[OBJECT_GRAPH_KEY])
        with staging.path(self._name(entry.shard)).open() as file:

            def read(offset: int, size: int) -> bytes:
                return file.read_exactly(entry.offset + offset, size)

            big_endian = self._reader.index.big_endian
            if mask(checksum(read, STRING, 1, entry.size, big_endian=big_endian)) != entry.crc32c:
                raise self._broken("the object graph has the wrong checksum")
            (place,) = elements(read, STRING, 1, entry.size, big_endian=big_endian)
            return read(*place)

    def _verify_copies(
        self,
        staging: Staging,
        transfers: Mapping[int, ShardTransfer],
        workers: Workers,
        advance: Callable[[int], None],
    ) -> None:
        """Read the tensors of each shard that was copied from it and from the copy, checksums and all.

        For shared shards only the placements are checked.
        """
        copied = (number for number, shard in transfers.items() if shard.way == COPY)
        copies = {number: staging.path(self._name(number)) for number in copied}
        if not copies and (self.in_place or self._all_fits()):
            return
        with self._reader.compared_with(copies):
            for step in verify_values(self._reader, copies, workers):
                for finding in step.findings:
                    if finding.severity == "error":
                        raise self._damaged(finding)
                advance(step.nbytes)

    def _all_fits(self) -> bool:
        """Whether tensors have the sizes of their shapes and end in their shards."""
        prefix, count = self._reader.index.prefix, self._reader.index.header.num_shards
        found = ((data_shard(prefix, number, count).entry(), end) for number, end in self._used.items())
        return not self._has_odd_sizes and all(shard and end <= shard.size for shard, end in found)

    def _damaged(self, finding: Finding) -> CorruptCheckpointError:
        verify = f"to list all damage, run: {command_line('verify', self._reader.index.prefix)}"
        return CorruptCheckpointError(
            finding.message,
            path=finding.file,
            key=finding.key,
            offset=finding.offset,
            code=finding.code,
            hints=(verify, "to copy it with the damage, pass --no-verify"),
        )

    def _broken(self, message: str) -> ConversionError:
        return ConversionError(f"verification failed: {message}", path=self._prefix)

    def _move_in(self, staging: Staging, bundle: StagedBundle) -> None:
        if not self._is_index_alone:
            bundle.move_in()
            return
        with refusing(self._prefix):
            staging.move(self._index_name)
            sync_directory(staging.directory)

    def _notes(self, transfers: Mapping[int, ShardTransfer]) -> list[str]:
        notes = []
        refused = next((shard for shard in transfers.values() if shard.way == COPY and shard.refusal), None)
        if refused is not None and self._ways != (COPY,):
            notes.append(f"the data shards are copied because they cannot be shared: {refused.refusal}")
        if any(shard.way == LINK for shard in transfers.values()) and not self.in_place:
            notes.append(HARD_LINKS)
        if (self._reader.index.prefix + ".meta").is_file():
            notes.append(f"{self._reader.index.prefix}.meta is unchanged: this graph still has the old names")
        return notes


def _place(prefix: Location) -> tuple[Location, str]:
    directory, name = prefix.split_name()
    return directory.real(), name


def _differs(graph: ObjectGraph, reader: BundleReader) -> bool:
    before = reader.object_graph
    return before is None or before.proto != graph.proto
