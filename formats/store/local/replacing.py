"""Putting a staged set of files in the place of another, which may have files of the same names.

A set is an index, or head, and the shards that it names. Only the index can be replaced atomically. If old
and new shards share names, the old shards first get second names:

    1. link each such old shard under a name that is not in use
    2. replace the index by one that names the old shards so
    3. move the new shards in, over the old names
    4. replace the index by the new index
    5. remove what the new index does not name

After each step the index names complete data: until 4 the old, from then on the new. If no name is shared, 1
and 2 are not needed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .directories import sync_directory
from .refusals import FULL, refusing
from .removing import Attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...location import Location
    from .staged_file import StagedFile
    from .staging import Staging


_BEFORE = "before.index"
_SPARE = "spare.index"


def _back(number: int) -> str:
    """Return under which name an old shard is staged that may have to go back to its place."""
    return f"back-{number}"


class Exchange(ABC):
    """Moves a staged set in.  `target` is what errors name, `index` the file that goes last."""

    def __init__(self, staging: Staging, target: Location, index: Location) -> None:
        self._staging = staging
        self._target = target
        self._index = index
        self._second_names: dict[Location, Location] = {}
        self._index_moves = False

    @abstractmethod
    def _shards(self) -> Sequence[Location]:
        """Return the paths of the new shards."""

    @abstractmethod
    def _keep_old(self) -> None:
        """Take steps 1 and 2 by `_give_second_names` and `_stand_in`, where they are needed."""

    @abstractmethod
    def _surplus(self) -> list[str]:
        """Return the files that the new index does not name, in the order in which they are removed."""

    def _announce(self, shard: str) -> None:  # noqa: B027  most sets have no other files
        """Prepare for a shard, new or under a second name, before an index names it."""

    def _tidy(self) -> None:  # noqa: B027  most sets have no other files
        """Remove what `_announce` has made for shards that are gone."""

    def _retire(self) -> None:  # noqa: B027  most sets have no such file
        """Remove what readers would still prefer to the new index."""

    def _second_name(self, path: str, second: str) -> None:
        os.link(path, second, follow_symlinks=False)

    def run(self) -> None:
        """Move the set in. At every instant the old or the new one is complete in its place."""
        with refusing(self._target):
            try:
                self._keep_old()
                for shard in self._shards():
                    self._announce(shard)
                    self._staging.move(os.path.basename(shard))
                self._sync()
                self._index_moves = True
                self._staging.move(os.path.basename(self._index))
                self._retire()
                self._sync()
            except BaseException:
                with contextlib.suppress(OSError):  # the first error is the one that the user sees
                    if self._is_done():
                        self._remove_surplus()
                    else:
                        self._undo()
                raise
            self._remove_surplus()

    def _sync(self) -> None:
        sync_directory(self._staging.directory)

    def _sync_if_possible(self) -> None:
        """Sync where steps are taken back: what cannot be synced is taken back all the same."""
        with contextlib.suppress(OSError):
            self._sync()

    def _give_second_names(self, names: Mapping[Location, Location]) -> None:
        """Give old shards second names; OSError if one cannot have any, and nothing has changed then.

        A third one each, among the staged files, is for `_undo`: on a full disk it could not be made then.
        """
        self._second_names = dict(names)
        try:
            for number, (path, second) in enumerate(self._second_names.items()):
                self._second_name(path, second)
                self._announce(second)
                self._link_back(number, second)
            self._second_name(self._index, self._staging.path(_BEFORE))
        except OSError:
            with contextlib.suppress(OSError):
                self._remove_second_names()
            raise

    def _link_back(self, number: int, second: str) -> None:
        try:
            self._staging.link(second, _back(number))
        except OSError as error:
            if error.errno in (errno.EIO, *FULL):
                raise
            # There are no links here: it is copied if it has to go back.

    def _stand_in(self, write: Callable[[StagedFile], None]) -> None:
        """Let the old index have another text, which speaks of the second names."""
        write(self._staging.create(_SPARE))
        self._staging.sync()
        self._sync()
        self._staging.move(_SPARE, self._index)
        self._sync()

    def _is_done(self) -> bool:
        """Whether the new index is in place.

        The directory decides, because an interrupt may come at any point.
        """
        return self._index_moves and not os.path.lexists(self._staging.path(os.path.basename(self._index)))

    def _undo(self) -> None:
        """Take all steps back, in an order in which each again leaves a complete set."""
        for number, (path, second) in enumerate(self._second_names.items()):
            has_moved = not os.path.lexists(self._staging.path(os.path.basename(path)))
            if has_moved and os.path.lexists(second):
                back = self._staging.path(_back(number))
                if not os.path.lexists(back):
                    self._second_name(second, back)
                os.replace(back, path)
        for shard in self._shards():
            staged = self._staging.path(os.path.basename(shard))
            if shard not in self._second_names and not os.path.lexists(staged) and os.path.lexists(shard):
                with contextlib.suppress(OSError):  # No index speaks of it.
                    os.unlink(shard)
        self._sync_if_possible()
        if os.path.lexists(before := self._staging.path(_BEFORE)):
            os.replace(before, self._index)
            self._sync_if_possible()
        self._remove_second_names()

    def _remove_second_names(self) -> None:
        attempts = Attempts()
        for second in self._second_names.values():
            with attempts.deferring_errors():
                if os.path.lexists(second):
                    os.unlink(second)
        self._second_names.clear()
        with attempts.deferring_errors():
            self._tidy()
        attempts.raise_first()

    def _remove_surplus(self) -> None:
        """Remove what the new index does not name: the old set, and what earlier kills left."""
        attempts = Attempts()
        for path in self._surplus():
            with attempts.deferring_errors():
                os.unlink(path)
        with attempts.deferring_errors():
            self._sync()
        with attempts.deferring_errors():
            self._tidy()
        attempts.raise_first()
