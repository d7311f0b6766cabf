"""Putting a staged bundle in the place of another (`formats.store.local.replacing`).

Both consist of `PREFIX.index` and `PREFIX.data-SSSSS-of-NNNNN`. The second names of old data shards have a
count M that is not in use, and the interim index has the old entries under a header that counts M shards.
Readers ignore shards without entries. Without hard links, or if the old index cannot be read, the new bundle
itself takes the count M, with empty shards at its end, so that no name is shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import CheckpointError
from ...model.checkpoint_files import data_shards
from ...store.local.replacing import Exchange
from ...store.siblings import SHARD
from ...wire.sstable import TableBuilder
from .index import BundleIndex, data_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...location import Location
    from ...store.local.staged_file import StagedFile
    from ...store.local.staging import Staging
    from .links import Mirror


class BundleExchange(Exchange):
    """Moves a staged bundle in. `restage` stages it again under another count of shards.

    Links at `mirror` go along: before an index counts a shard, there is one to it.
    """

    def __init__(
        self,
        staging: Staging,
        prefix: Location,
        num_shards: int,
        restage: Callable[[int], None],
        mirror: Mirror,
    ) -> None:
        super().__init__(staging, prefix, prefix + ".index")
        self._mirror = mirror
        self._prefix = prefix
        self._num_shards = num_shards
        self._restage = restage

    def _shards(self) -> Sequence[Location]:
        return [data_shard(self._prefix, shard, self._num_shards) for shard in range(self._num_shards)]

    def _keep_old(self) -> None:
        if self._shares_names() and not self._rename_old():
            self._num_shards = self._free_count(self._num_shards)
            self._restage(self._num_shards)

    def _surplus(self) -> list[str]:
        return sorted(set(data_shards(self._prefix)) - set(self._shards()))

    def _announce(self, shard: str) -> None:
        self._mirror.add(shard)

    def _sync(self) -> None:
        super()._sync()
        self._mirror.sync()

    def _tidy(self) -> None:
        self._mirror.tidy()

    def _shares_names(self) -> bool:
        return self._index.exists() and any(shard.exists() for shard in self._shards())

    def _free_count(self, above: int) -> int:
        """Return the lowest count of shards above one that no file here has in its name."""
        counts = {
            int(match["count"]) for path in data_shards(self._prefix) if (match := SHARD.fullmatch(path))
        }
        count = above + 1
        while count in counts:
            count += 1
        return count

    def _rename_old(self) -> bool:
        """Give the old bundle second names. Return False, with nothing changed, if that is impossible."""
        try:
            old = BundleIndex(self._prefix)
        except CheckpointError:
            return False
        if old.findings:
            return False
        old_count = old.header.num_shards
        if old_count != self._num_shards:
            return True  # No index names the files with the new names.
        spare_count = self._free_count(old_count)
        second_names = {}
        for path in data_shards(self._prefix):
            match = SHARD.fullmatch(path)
            if match and int(match["count"]) == old_count:
                second_names[path] = data_shard(self._prefix, int(match["shard"]), spare_count)

        try:
            self._give_second_names(second_names)
        except OSError:
            return False

        def write(file: StagedFile) -> None:
            old.header.num_shards = spare_count
            table = TableBuilder(file.write)
            for key, value in [(b"", old.header.encode()), *zip(old.keys, old.values, strict=True)]:
                table.add(key, value)
            table.finish()

        self._stand_in(write)
        return True
