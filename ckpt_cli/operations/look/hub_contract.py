"""Comparing local files with a repository of the Hub, by sizes and checksums, without downloads.

The Hub lists the SHA-256 of files that it keeps in LFS, and the git blob id of small ones.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from formats.core import notices
from formats.core.words import counted, first_of
from formats.errors import SHARD_MISSING
from formats.find.resolve import saved_model_prefix
from formats.model.verification import Finding
from formats.store.remote.hub import HubStore, place_of
from formats.store.remote.hub_sums import FileSum
from formats.store.work.workers import SERIAL, Workers

from .contract import Contract

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.store.base import Entry, File


def is_repository(path: Location) -> bool:
    """Whether a path is a repository of the Hub, and not a file in one."""
    return path.store.scheme == "hf" and not place_of(path).inside


class HubContract(Contract):
    """The files of a repository, to compare with local ones: those of a checkpoint, and all that both have.

    Raises CheckpointError if the Hub does not list the repository.
    """

    of_files = True

    def __init__(self, path: Location) -> None:
        super().__init__(path, {}, {})
        path.listing()
        self._compared = 0

    @property
    def remark(self) -> str:
        files = counted(self._compared, "file is", "files are")
        return f"{files} the same as in {self.path}"

    def findings(
        self,
        location: CheckpointLocation,
        workers: Workers = SERIAL,  # noqa: ARG002  a file has one checksum, from its beginning to its end
        advance: Callable[[int], None] = lambda _: None,
        *,
        damage: Collection[Finding] = (),
    ) -> list[Finding]:
        """Return in what files are others than those of the repository, in the order of their names."""
        folder = _root(location)
        missing = (finding.file for finding in damage if finding.file and finding.code == SHARD_MISSING)
        own = {path.relative_to(folder) for path in (*location.files(), *map(folder.of, missing))}
        listed = dict(_files(self.path, folder))
        both = {name for name in listed if (folder / name).is_file()}
        self._compared = len(own | both)
        self._note_unmatched_files(folder, own, listed)
        found = []
        for name in sorted(own | both):
            message = self._flaw(folder / name, listed.get(name), advance)
            if message:
                found.append(Finding("error", "contract", message, None, folder / name))
        return found

    def _flaw(self, path: Location, listed: Entry | None, advance: Callable[[int], None]) -> str:
        """Return how a file differs from the repository's; nothing if it is the same."""
        here = path.entry()
        if here is None:
            return (
                f"this file is missing, but {self.path} has it"
                if listed
                else f"this file is missing, and {self.path} does not have it either"
            )
        if listed is None:
            return f"{self.path} does not have this file"
        if here.size != listed.size:
            return f"the file has {here.size:,} bytes, but {self.path} has {listed.size:,}"
        with path.open() as file:
            flaw = FileSum(path, listed.identity).flaw(file, advance)
        return f"{flaw}, but {self.path} has {listed.identity[0]}" if flaw else ""

    def _note_unmatched_files(self, folder: Location, own: set[str], listed: dict[str, Entry]) -> None:
        """Note which files only one side has: they are not compared."""
        there = sorted(name for name in listed if name not in own and not (folder / name).is_file())
        names = [name for name, is_folder in folder.names() if not is_folder and not name.startswith(".")]
        here = [name for name in names if name not in own and name not in listed]
        parts = [f"{first_of(there)} (only in {self.path})"] * bool(there)
        parts += [f"{first_of(here)} (only in {folder})"] * bool(here)
        if parts:
            notices.status(f"these files were not compared: {'; '.join(parts)}")


def _root(location: CheckpointLocation) -> Location:
    """Return the folder that a repository would have: a SavedModel's own, not the one of its variables."""
    folder = location.head.parent
    above = folder.parent
    is_saved_model = saved_model_prefix(above) == location.path
    return above if is_saved_model else folder


def _files(repository: Location, folder: Location, inside: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield the files of a repository with their sizes and checksums, by their paths in it.

    Folders that do not exist in `folder` are not listed.
    """
    for name, is_folder in (repository / inside if inside else repository).names():
        path = f"{inside}/{name}" if inside else name
        if is_folder:
            if (folder / path).is_folder():
                yield from _files(repository, folder, path)
            continue
        entry = (repository / path).entry()
        if entry is not None:
            yield path, entry


class HubSums:
    """The sums of a checkpoint's own files on the Hub, which are taken while it is verified."""

    def __init__(self, files: Sequence[File], sums: Sequence[FileSum]) -> None:
        self._files, self._sums = files, sums

    def findings(self, location: CheckpointLocation) -> list[Finding]:
        """Return the files whose content has another sum than the Hub lists."""
        found = []
        for file, each in zip(self._files, self._sums, strict=True):
            flaw = each.flaw(file)
            if flaw:
                message = f"{flaw}, but the Hub lists {each.listed}"
                found.append(Finding("error", "contract", message, None, location.head.of(file.path)))
        return found

    @property
    def remark(self) -> str:
        """The files that have the listed sums, by kind."""
        kinds: dict[str, list[str]] = {}
        for each in self._sums:
            kinds.setdefault(each.kind, []).append(each.path.rpartition("/")[2])
        groups = "; ".join(f"{kind} of {first_of(names)}" for kind, names in kinds.items())
        return (
            f"{counted(len(self._sums), 'file has', 'files have')} the checksums that the Hub lists: {groups}"
        )


@contextmanager
def summing(location: CheckpointLocation) -> Iterator[HubSums]:
    """Take the sums of the files of a checkpoint on the Hub while it is read."""
    store = location.store
    assert isinstance(store, HubStore)
    with ExitStack() as stack:
        files = [stack.enter_context(path.open()) for path in location.files() if path.is_file()]
        yield HubSums(files, stack.enter_context(store.summing(files)))
