"""The leftovers of interrupted saves and conversions in a directory, and which of them are provably debris.

    FILE.tempstate<number>        a file being written (TensorFlow, and `formats.store.local.staging`)
    checkpoint.tmp<32 hex>        a state file being replaced (TensorFlow)
    P_temp/part-S-of-N.*          a save before its parts are merged (TensorFlow 2)
    P_temp_<32 hex>/              the same of TensorFlow 1, and what `formats.store.local.staging` stages
    P_temp_<32 hex>/aside/        an old set moved out of the way: it is put back, not removed
    P_temp_<32 hex>/ckpt.journal  what an interrupted conversion has finished, and can be gone on with
    P.data-S-of-N, no P.index     the index is written last and deleted first
    P.data-S-of-M, P.index of N   second names of an exchange (`formats.tf.bundle.commit`)
    STEP.orbax-checkpoint-tmp*/   a step that Orbax has not finished; after an hour without a change
    P-S-of-M.safetensors          the same of a sharded safetensors checkpoint

In a bucket it is what an interrupted conversion has sent, and its journal
(`formats.store.remote.upload_journal`);
what an index in its place names is the checkpoint's by then.

A directory's name alone proves nothing: one called `my_temp` may belong to anyone, so its content must be
parts, too. A data shard without an index may be all that is left of a checkpoint whose index was lost. It is
debris only if the state file does not list it and the directory also has a complete checkpoint.

The files of a living process are not leftovers. `formats.store.local.staging` locks its staging directory.
TensorFlow locks nothing, but keeps its files open, which Linux shows.
tensorflow/core/util/tensor_bundle/tensor_bundle.cc, python/lib/io/file_io.py
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CheckpointError
from ...location import Location
from ...model.checkpoint_files import INDEX_SUFFIX, ORBAX_TEMPORARY
from ...model.weight_map import files_of_map
from ...store.journal import describe_finished
from ...store.local.locks import is_locked
from ...store.local.refusals import refusing
from ...store.local.staging import old_set_in, remove_staged
from ...store.local.staging_journal import describe_leftover
from ...store.remote.objects import ObjectStore
from ...store.remote.upload_journal import HalfSent, half_sent
from ...store.siblings import SAFETENSORS_SHARD, SHARD
from ..bundle.index import BundleIndex, data_shard
from .state_file import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ...location import Location


_FILE = re.compile(rf".+\.tempstate\d+|{FILE_NAME}\.tmp[0-9a-f]{{32}}", re.DOTALL)
_STAGING = re.compile(r".+_temp_[0-9a-f]{32}", re.DOTALL)
_PART = re.compile(r"part-\d{5,}-of-\d{5,}(\.index|\.data-\d{5,}-of-\d{5,})?(\.tempstate\d+)?")

_RECENT = 3600
"""Seconds within which a directory that no lock protects may be one that is being written."""


class Freed:
    """Counts what files free that go one after the other: one with several names, when the last goes."""

    def __init__(self) -> None:
        self._names: Counter[tuple[int, int]] = Counter()

    def by(self, paths: Iterable[str]) -> int:
        """Return the bytes that removing some more files frees."""
        freed = 0
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # It has gone meanwhile, by itself.
                status = os.lstat(path)
                file = status.st_dev, status.st_ino
                self._names[file] += 1
                if self._names[file] == status.st_nlink:
                    freed += status.st_size
        return freed


class Leftover(NamedTuple):
    """Something an interrupted save left; `in_the_way` says why it may not be removed."""

    path: Location
    what: str
    in_the_way: str | None = None
    aside: tuple[Location, ...] = ()
    """The files of an old set in it, by the paths to which they are put back."""

    @property
    def modified(self) -> float:
        """When anything of it was last changed, in seconds since 1970."""
        return max((status.st_mtime for _, status in _statuses(self.path)), default=0.0)

    @property
    def files(self) -> list[str]:
        """The files that are removed with it, without directories."""
        return [path for path, status in _statuses(self.path) if not stat.S_ISDIR(status.st_mode)]

    def frees(self, freed: Freed) -> int:
        """Return the bytes that removing it frees, after what was counted before."""
        return freed.by(self.files)

    def clear(self) -> None:
        """Put back the old set in it, if there is one, and remove the rest."""
        with refusing(self.path), contextlib.suppress(FileNotFoundError):  # It may have gone by itself.
            if os.path.isdir(self.path) and not os.path.islink(self.path):
                remove_staged(self.path)
            else:
                os.unlink(self.path)


def unfinished_orbax(path: Location) -> Leftover:
    """Return a step that Orbax has not finished; a program may be writing it, and holds no lock."""
    found = Leftover(path, "an unfinished step of Orbax")
    is_recent = time.time() - found.modified < _RECENT
    return found._replace(in_the_way="the step changed within the last hour") if is_recent else found


def interrupted(path: Location) -> Leftover | None:
    """Return what an interrupted conversion or save left in a directory that is called so, or None."""
    if ORBAX_TEMPORARY.fullmatch(path):
        return unfinished_orbax(path)
    what = describe_leftover(path) if _STAGING.fullmatch(path) else None
    return (
        None if what is None else Leftover(path, what, "a program is writing it" if is_locked(path) else None)
    )


def half_sent_in(folder: Location) -> list[HalfSent]:
    """Return the objects of interrupted conversions in a folder, sorted.

    A store that takes no objects has none.
    """
    if not isinstance(folder.store, ObjectStore):
        return []
    staged = [name for name, is_folder in folder.names() if is_folder and _STAGING.fullmatch(name)]
    found = (half_sent(folder / name) for name in staged)
    return sorted(_without_named(each) for each in found if each is not None)


def _without_named(found: HalfSent) -> HalfSent:
    """Return it without the objects that the checkpoint in its place uses."""
    if found.target is None:
        return found
    try:
        left = tuple(each for each in found.objects if not _is_named(each[0], found.target))
    except CheckpointError:
        return found._replace(in_the_way=f"the checkpoint at {found.target} may use its objects")
    if len(left) == len(found.objects):
        return found
    return found._replace(what=describe_finished(found.target.name), objects=left)


def _is_named(path: str, target: Location) -> bool:
    """Whether the index of a bundle, or of a sharded folder, at a target names a file as its shard."""
    shard = SHARD.fullmatch(path)
    if shard is not None and (target + ".index").is_file():
        return BundleIndex(target).header.num_shards == int(shard["count"])
    if SAFETENSORS_SHARD.fullmatch(path) and target.is_file():
        named = files_of_map(target)
        if not named:
            raise CheckpointError("it names no shards", path=target)
        return path in named
    return False


def _statuses(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a file, or a directory and all below it, with what the system knows of each that is there."""
    below = [os.path.join(parent, name) for parent, names, files in os.walk(path) for name in names + files]
    for each in (path, *below):
        with contextlib.suppress(FileNotFoundError):
            yield each, os.lstat(each)


def find_leftovers(directory: Location, listed: Collection[str], *, has_checkpoints: bool) -> list[Leftover]:
    """Return the leftovers in a directory, sorted.

    `listed` are the prefixes that the state file names, as paths; `has_checkpoints`
    says whether there is any whole checkpoint.
    """
    found = []
    shards: dict[Location, list[Location]] = {}
    sharded: dict[Location, list[Location]] = {}
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = directory / entry.name
            if entry.is_dir(follow_symlinks=False):
                found += _staged(path)
            elif _FILE.fullmatch(entry.name):
                found.append(Leftover(path, "an unfinished file"))
            elif match := SHARD.fullmatch(path):
                shards.setdefault(path.of(match["prefix"]), []).append(path)
            elif match := SAFETENSORS_SHARD.fullmatch(path):
                sharded.setdefault(path.of(match["prefix"] + INDEX_SUFFIX), []).append(path)
    in_exchange = any(leftover.in_the_way for leftover in found)
    known = {os.path.abspath(prefix) for prefix in listed}
    for prefix, paths in shards.items():
        if not os.path.lexists(prefix + ".index"):
            lost = os.path.abspath(prefix) in known or not has_checkpoints
            found += _without_index(paths, lost=lost, in_exchange=in_exchange)
        else:
            found += _surplus(prefix, paths, in_exchange=in_exchange)
    for index, paths in sharded.items():
        found += _unnamed(index, paths, in_exchange=in_exchange)
    opened = _opened() if found else set()
    return sorted(_unless_open(leftover, opened) for leftover in found)


def _staged(path: Location) -> list[Leftover]:
    """Return a directory of parts or of staged files as a leftover; nothing if it is none."""
    if ORBAX_TEMPORARY.fullmatch(path):
        return [unfinished_orbax(path)]
    ours = bool(_STAGING.fullmatch(path))
    if not ours and not path.endswith("_temp"):
        return []
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return []
    except PermissionError:
        return (
            [Leftover(path, "files of a checkpoint", "this staging directory belongs to another user")]
            if ours
            else []
        )
    parts = all(_PART.fullmatch(name) for name in names)
    if not ours and not parts:
        return []
    if is_locked(path):
        return [Leftover(path, "files of a checkpoint", "a program is writing it")]
    aside = tuple(sorted(old_set_in(path)))
    if aside:
        return [Leftover(path, "an old checkpoint, moved aside during its replacement", aside=aside)]
    interrupted = describe_leftover(path)
    if interrupted is not None:
        return [Leftover(path, interrupted)]
    if not names or not parts:
        return [Leftover(path, "staged files of a checkpoint")]
    whole = next((name.removesuffix(".index") for name in sorted(names) if name.endswith(".index")), None)
    readable = f"; {whole} may still be readable" if whole else ""
    return [Leftover(path, "an unfinished save (its parts were never merged)" + readable)]


_EXCHANGE = "a program is writing a checkpoint here"

LOST_INDEX = "its index may be lost; to rebuild an index, use ckpt rescue"
"""Why a data shard of a listed checkpoint is kept: it goes together with its entry in the state file."""


def _without_index(paths: list[Location], *, lost: bool, in_exchange: bool) -> list[Leftover]:
    why = LOST_INDEX if lost else _EXCHANGE if in_exchange else None
    return [Leftover(path, "a data shard without an index", why) for path in paths]


def _surplus(prefix: Location, paths: list[Location], *, in_exchange: bool) -> list[Leftover]:
    """Return the shards whose count is not the index's; none where those it needs are not all there."""
    counts = {path: int(match["count"]) for path in paths if (match := SHARD.fullmatch(path))}
    if len(set(counts.values())) == 1:
        return []
    try:
        index = BundleIndex(prefix)
    except CheckpointError:
        return []
    counted = index.header.num_shards
    entries = [index.entry_or_none(position) for position in range(len(index.values))]
    used = {entry.shard for entry in entries if entry is not None and not entry.slices}
    needed = {data_shard(prefix, shard, counted) for shard in used}
    if index.findings or None in entries or not needed <= counts.keys():
        return []
    why = _EXCHANGE if in_exchange else None
    what = f"a data shard that the index does not use (the index counts {counted})"
    return [Leftover(path, what, why) for path, count in counts.items() if count != counted]


def _unnamed(index: Location, paths: list[Location], *, in_exchange: bool) -> list[Leftover]:
    """Return the shards of a count that the index does not speak of, where those it names are all there."""
    named = files_of_map(index)
    if not named or not all(map(os.path.isfile, named)):
        return []
    used = {_count(path) for path in named}
    why = _EXCHANGE if in_exchange else None
    what = "a shard that the index does not name"
    return [Leftover(path, what, why) for path in paths if _count(path) not in used]


def _count(path: str) -> str | None:
    match = SAFETENSORS_SHARD.fullmatch(path)
    return match["count"] if match else None


def _opened() -> set[str]:
    """Return the files that processes have open, as far as the system shows them, and all folders above
    them.
    """
    found: set[str] = set()
    for path in _open_files():
        above = path
        while above not in found and above not in ("", os.sep):
            found.add(above)
            above = os.path.dirname(above)
    return found


def _open_files() -> set[str]:
    """Return the files that processes have open, as far as the system shows them."""
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return set()
    found = set()
    for process in processes:
        try:
            descriptors = os.listdir(f"/proc/{process}/fd")
        except OSError:  # the process has ended, or belongs to another user
            continue
        for descriptor in descriptors:
            try:
                found.add(os.readlink(f"/proc/{process}/fd/{descriptor}"))
            except OSError:
                continue
    return found


def _unless_open(leftover: Leftover, opened: set[str]) -> Leftover:
    if leftover.in_the_way is None and os.path.realpath(leftover.path) in opened:
        return leftover._replace(in_the_way="a process has it open")
    return leftover
