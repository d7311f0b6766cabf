"""A bundle beside its target: data shards that are new, or files of others, and the index over them.

    shard-0, shard-1, ...           while it is not known how many there will be
    PREFIX.data-SSSSS-of-NNNNN      afterwards; PREFIX.index is staged then

Whoever writes a bundle fills shards and notes entries; how many shards there are, what they
are called, and how all of it takes the place of an old bundle (`commit`) is known here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...store.paths import open_file
from ...wire.messages import BundleHeaderProto
from ...wire.sstable import Table, TableBuilder
from .commit import BundleExchange
from .index import data_shard
from .links import Mirror
from .shards import bring

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...store.staging import StagedFile, Staging


class StagedBundle:
    """The files of a bundle that is being written to a staging's target, which was `named` so.

    `entries` are those of the index by their keys, as they are stored; `header` is its
    own but for the count of shards.
    """

    def __init__(self, staging: Staging, named: str, header: BundleHeaderProto) -> None:
        self.entries: dict[bytes, bytes] = {}
        self._staging = staging
        self._named = named
        self._header = header
        self._shards: list[StagedFile | None] = []

    @property
    def num_shards(self) -> int:
        return len(self._shards)

    @property
    def last_shard(self) -> StagedFile | None:
        """The shard that was added last; None where it is a file of others, to which nothing is added."""
        return self._shards[-1] if self._shards else None

    def number_of(self, shard: StagedFile) -> int:
        return self._shards.index(shard)

    def add_shard(self) -> StagedFile:
        """Return a new, empty shard."""
        shard = self._staging.create(f"shard-{self.num_shards}")
        self._shards.append(shard)
        return shard

    def share(
        self, path: str, ways: Sequence[str], advance: Callable[[int], None] = lambda _: None
    ) -> str | None:
        """Take a whole file for the next shard; return the way in which it came, None where none works.

        The first of `ways` that works is taken (see `shards`); `advance` is told of bytes that are copied.
        """
        way = bring(self._staging, path, f"shard-{self.num_shards}", ways, advance)
        if way is not None:
            self._shards.append(None)
        return way

    def shard_name(self, shard: int, num_shards: int | None = None) -> str:
        """Return the name of a shard, of as many as there are."""
        return data_shard(os.path.basename(self._staging.target), shard, num_shards or self.num_shards)

    def finish(self) -> None:
        """Name the shards, and stage the index."""
        for number in range(self.num_shards):
            self._staging.rename(f"shard-{number}", self.shard_name(number))
        self.stage_index(self.num_shards)

    def stage_index(self, num_shards: int) -> None:
        """Stage the index alone, over shards that lie at the target or will be named for so many."""
        file = self._staging.create(os.path.basename(self._staging.target) + ".index")
        header = BundleHeaderProto.decode(self._header.encode())
        header.num_shards = num_shards
        table = TableBuilder(file.write)
        table.add(b"", header.encode())
        for key in sorted(self.entries):
            table.add(key, self.entries[key])
        table.finish()

    def index_flaw(self, num_shards: int) -> str | None:
        """Return how what is staged of the index differs from what it is to say; None where it does not."""
        count, last = 0, b""
        with open_file(self._staging.path(os.path.basename(self._staging.target) + ".index")) as file:
            entries = iter(Table(file.read, file.size, file.path))
            header = BundleHeaderProto.decode(next(entries, (b"", b""))[1])
            for key, value in entries:
                if key <= last or self.entries.get(key) != value:
                    return "the entries of the index differ"
                count, last = count + 1, key
        whole = (header.num_shards, count) == (num_shards, len(self.entries))
        return None if whole else "the index is not whole"

    def _restage(self, num_shards: int) -> None:
        """Stage the same bundle with more, empty, shards at its end."""
        os.unlink(self._staging.path(os.path.basename(self._staging.target) + ".index"))
        for number in range(num_shards):
            name = self.shard_name(number, num_shards)
            if number < self.num_shards:
                self._staging.rename(self.shard_name(number), name)
            else:
                self._staging.create(name)
        self.stage_index(num_shards)
        self._staging.sync()

    def move_in(self) -> None:
        """Move all of it to its place; the target is the old or the new bundle at every instant."""
        prefix = self._staging.target
        mirror = Mirror(self._named, prefix)
        BundleExchange(self._staging, prefix, self.num_shards, self._restage, mirror).run()
