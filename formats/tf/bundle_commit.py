"""Putting a staged bundle in the place of another, which may have files of the same names.

Both are `PREFIX.index` and `PREFIX.data-SSSSS-of-NNNNN`, and only the index can be
replaced at one stroke.  So the old data shards are first given second names:

    1. link  PREFIX.data-S-of-N  as  PREFIX.data-S-of-M, M a count that is not in use
    2. replace PREFIX.index by the old entries under a header that counts M shards
    3. move the new data shards in, over the old names
    4. replace PREFIX.index by the new index
    5. remove the second names

After each step the index names complete data: until 4 the old, from then on the new
(readers pass over shards that no entry speaks of).  Where the old bundle uses none of
the new names, 1, 2 and 5 are not needed.  Where there are no hard links, or the old
index cannot be read, the new bundle takes the count M itself, with empty shards at its
end, and then no name is shared either.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..atomic import refusing, sync_directory
from ..errors import CheckpointError
from ..paths import SHARD, data_shards
from ..wire.sstable import TableBuilder
from .bundle import BundleIndex, data_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..atomic import Staging

__all__ = ["BundleExchange"]

_BEFORE = "before.index"
_SPARE = "spare.index"


class BundleExchange:
    """Moves a staged bundle in.  `restage` stages it anew under another count of shards."""

    def __init__(
        self, staging: Staging, prefix: str, num_shards: int, restage: Callable[[int], None]
    ) -> None:
        self._staging = staging
        self._prefix = prefix
        self._index = prefix + ".index"
        self._num_shards = num_shards
        self._restage = restage
        self._second_names: dict[str, str] = {}
        self._index_moves = False

    def run(self) -> None:
        """Move the bundle in; whatever happens, the old or the new one is complete in its place."""
        with refusing(self._prefix):
            try:
                if self._shares_names() and not self._keep_old_apart():
                    self._num_shards = self._free_count(self._num_shards)
                    self._restage(self._num_shards)
                for shard in self._shards():
                    self._staging.move(os.path.basename(shard))
                self._sync()
                self._index_moves = True
                self._staging.move(os.path.basename(self._index))
                self._sync()
            except BaseException:
                if self._is_done():
                    self._remove_surplus()
                else:
                    self._undo()
                raise
            self._remove_surplus()

    def _shards(self) -> list[str]:
        return [data_shard(self._prefix, shard, self._num_shards) for shard in range(self._num_shards)]

    def _sync(self) -> None:
        sync_directory(self._staging.directory)

    def _shares_names(self) -> bool:
        return os.path.lexists(self._index) and any(map(os.path.lexists, self._shards()))

    def _free_count(self, above: int) -> int:
        """Return the lowest count of shards above one that no file here has in its name."""
        counts = {
            int(match["count"]) for path in data_shards(self._prefix) if (match := SHARD.fullmatch(path))
        }
        count = above + 1
        while count in counts:
            count += 1
        return count

    def _keep_old_apart(self) -> bool:
        """Take steps 1 and 2; False where that cannot be done, and nothing has changed then."""
        try:
            old = BundleIndex(self._prefix)
        except CheckpointError:
            return False
        if old.findings:
            return False
        old_count = old.header.num_shards
        if old_count != self._num_shards:
            return True  # It is other files that have the new names, and no index speaks of them.
        spare_count = self._free_count(old_count)
        for path in data_shards(self._prefix):
            match = SHARD.fullmatch(path)
            if match and int(match["count"]) == old_count:
                self._second_names[path] = data_shard(self._prefix, int(match["shard"]), spare_count)
        try:
            for path, second in self._second_names.items():
                os.link(path, second, follow_symlinks=False)
            os.link(self._index, self._staging.path(_BEFORE), follow_symlinks=False)
        except OSError:
            self._remove_second_names()
            return False
        old.header.num_shards = spare_count
        file = self._staging.create(_SPARE)
        table = TableBuilder(file.write)
        for key, value in [(b"", old.header.encode()), *zip(old.keys, old.values, strict=True)]:
            table.add(key, value)
        table.finish()
        self._staging.sync()
        self._sync()
        self._staging.move(_SPARE, self._index)
        self._sync()
        return True

    def _is_done(self) -> bool:
        """Whether the new index is in place; the directory tells, since an interrupt may come anywhere."""
        return self._index_moves and not os.path.lexists(self._staging.path(os.path.basename(self._index)))

    def _undo(self) -> None:
        """Take all steps back, in an order in which each again leaves a complete bundle."""
        for number, (path, second) in enumerate(self._second_names.items()):
            if os.path.lexists(second):
                back = self._staging.path(f"back-{number}")
                os.link(second, back, follow_symlinks=False)
                os.replace(back, path)
        for shard in self._shards():
            staged = self._staging.path(os.path.basename(shard))
            if shard not in self._second_names and not os.path.lexists(staged) and os.path.lexists(shard):
                os.unlink(shard)
        self._sync()
        if os.path.lexists(self._staging.path(_BEFORE)):
            self._staging.move(_BEFORE, self._index)
            self._sync()
        self._remove_second_names()

    def _remove_second_names(self) -> None:
        for second in self._second_names.values():
            if os.path.lexists(second):
                os.unlink(second)
        self._second_names.clear()

    def _remove_surplus(self) -> None:
        """Remove the shards that the new index does not count: the old, and what earlier kills left."""
        for path in set(data_shards(self._prefix)) - set(self._shards()):
            os.unlink(path)
        self._sync()
