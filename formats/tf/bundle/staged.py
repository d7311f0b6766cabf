"""A bundle on its way to its target: data shards that are new, or files of others, and the index over them.

    shard-0, shard-1, ...           while it is not known how many there will be
    PREFIX.data-SSSSS-of-NNNNN      afterwards; PREFIX.index is staged then

A bundle's writer fills shards and notes entries. This module knows the number and names of shards, and how
the result replaces an old bundle (`commit`).

In a store of objects shards have their final names from the start. Their count is known beforehand, and no
existing shard has it in its name, so the old bundle stays until the new index is there. Counted shards that
are not filled are empty.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from ...model.checkpoint_files import data_shards
from ...store.siblings import SHARD
from ...wire.messages import BundleHeaderProto
from ...wire.sstable import Table, TableBuilder
from .commit import BundleExchange
from .index import shard_name
from .links import Mirror, prefixes_to
from .shards import ShardTransfer, stage_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...location import Location
    from ...store.local.staged_file import StagedFile
    from ...store.local.staging import Staging
    from ...store.remote.bucket_staging import Uploading
    from ...store.remote.upload import Upload
    from ...store.remote.upload_journal import UploadJournal


class _Bundle:
    """The shards of a bundle that is being written, and the entries of its index.

    `entries` are those of the index by their keys, as they are stored; `header` is its own, except for the
    count of shards.
    """

    def __init__(self, target: str, header: BundleHeaderProto) -> None:
        self.entries: dict[bytes, bytes] = {}
        self._name = os.path.basename(target)
        self._header = header

    def shard_name(self, shard: int, num_shards: int) -> str:
        """Return the name of a shard, of as many as there are."""
        return shard_name(self._name, shard, num_shards)


def write_index(
    file: StagedFile | Upload, header: BundleHeaderProto, entries: Mapping[bytes, bytes], num_shards: int
) -> None:
    """Write the index of a bundle that has so many shards."""
    header = BundleHeaderProto.decode(header.encode())
    header.num_shards = num_shards
    table = TableBuilder(file.write)
    table.add(b"", header.encode())
    for key in sorted(entries):
        table.add(key, entries[key])
    table.finish()


def index_flaw(path: Location, wanted: Mapping[bytes, bytes], num_shards: int) -> str | None:
    """Return how an index differs from what it is to say; None if it does not."""
    count, last = 0, b""
    with path.open() as file:
        entries = iter(Table(file.read, file.size, file.path))
        header = BundleHeaderProto.decode(next(entries, (b"", b""))[1])
        for key, value in entries:
            if key <= last or wanted.get(key) != value:
                return "the entries of the index differ"
            count, last = count + 1, key
    whole = (header.num_shards, count) == (num_shards, len(wanted))
    return None if whole else "the index is incomplete"


class StagedBundle(_Bundle):
    """The files of a bundle that is being written to a staging's target, which was `named` so."""

    has_room = True
    """Whether there may be more shards."""

    def __init__(self, staging: Staging, named: Location, header: BundleHeaderProto) -> None:
        super().__init__(staging.target, header)
        self._staging = staging
        self._named = named
        self._shards: list[StagedFile | None] = []

    @property
    def num_shards(self) -> int:
        return len(self._shards)

    @property
    def last_shard(self) -> StagedFile | None:
        """The shard that was added last; None if it is a file of others, to which nothing is added."""
        return self._shards[-1] if self._shards else None

    def number_of(self, shard: StagedFile) -> int:
        return self._shards.index(shard)

    def add_shard(self) -> StagedFile:
        """Return a new, empty shard."""
        shard = self._staging.create(f"shard-{self.num_shards}")
        self._shards.append(shard)
        return shard

    def share(
        self, path: Location, ways: Sequence[str], advance: Callable[[int], None] = lambda _: None
    ) -> ShardTransfer:
        """Take a whole file for the next shard; return how it came, if any way works.

        The first of `ways` that works is taken (see `shards`); `advance` receives the number of bytes copied.
        """
        transfers = stage_shard(self._staging, path, f"shard-{self.num_shards}", ways, advance)
        if transfers.way is not None:
            self._shards.append(None)
        return transfers

    def finish(self) -> None:
        """Name the shards, and stage the index."""
        for number in range(self.num_shards):
            self._staging.rename(f"shard-{number}", self.shard_name(number, self.num_shards))
        self.stage_index(self.num_shards)

    def stage_index(self, num_shards: int) -> None:
        """Stage the index alone, over shards that are at the target or will be named for so many."""
        file = self._staging.create(self._name + ".index")
        write_index(file, self._header, self.entries, num_shards)

    def index_flaw(self, num_shards: int) -> str | None:
        """Return how what is staged of the index differs from what it is to say; None if it does not."""
        return index_flaw(self._staging.path(self._name + ".index"), self.entries, num_shards)

    def _restage(self, num_shards: int) -> None:
        """Stage the same bundle with more, empty, shards at its end."""
        os.unlink(self._staging.path(self._name + ".index"))
        for number in range(num_shards):
            name = self.shard_name(number, num_shards)
            if number < self.num_shards:
                self._staging.rename(self.shard_name(number, self.num_shards), name)
            else:
                self._staging.create(name)
        self.stage_index(num_shards)
        self._staging.sync()

    def move_in(self) -> None:
        """Move all of it to its place; the target is the old or the new bundle at every instant."""
        prefix = self._staging.target
        mirror = Mirror(sorted({self._named, *prefixes_to(prefix)} - {prefix}), prefix)
        BundleExchange(self._staging, prefix, self.num_shards, self._restage, mirror).run()


class SentBundle(_Bundle):
    """The objects of a bundle that is being sent, of no more data shards than are `planned`."""

    def __init__(
        self,
        uploading: Uploading,
        header: BundleHeaderProto,
        planned: int,
        journal: UploadJournal | None = None,
    ) -> None:
        super().__init__(uploading.target, header)
        self._uploading = uploading
        self._planned = planned
        self._count = journal.count if journal is not None and journal.count else self._unused_count()
        if journal is not None:
            journal.counted(self._count)
        self._shards: list[Upload] = []

    def add_row(self, place: tuple[int, int, int], crc32c: int) -> None:
        """Take note of a tensor at a place: its shard, offset and bytes."""
        shard, offset, size = place
        self._shards[shard].add_row((offset, size, crc32c))

    def _unused_count(self) -> int:
        """Return the lowest count, not below that of planned shards, that no object has in its name."""
        matches = map(SHARD.fullmatch, data_shards(self._uploading.target))
        used = {int(match["count"]) for match in matches if match}
        return next(count for count in itertools.count(self._planned) if count not in used)

    @property
    def num_shards(self) -> int:
        return len(self._shards)

    @property
    def has_room(self) -> bool:
        return self.num_shards < self._planned

    @property
    def last_shard(self) -> Upload | None:
        return self._shards[-1] if self._shards else None

    def add_shard(self) -> Upload:
        shard = self._uploading.create(self.shard_name(self.num_shards, self._count))
        self._shards.append(shard)
        return shard

    def finish(self) -> None:
        """Complete the shards, and make the index."""
        while self.num_shards < self._count:
            self.add_shard()
        index = self._uploading.create(self._name + ".index")
        write_index(index, self._header, self.entries, self._count)

    def move_in(self) -> None:
        """Put the index, and delete the shards that the old one named."""
        self._uploading.move_in(data_shards(self._uploading.target))
