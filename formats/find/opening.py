"""Opening a checkpoint by any path that names one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import CheckpointError, as_ours, forget_locals
from ..model.probe import Probe
from ..store.paths import is_file, is_folder, named, open_file, parent, store_of
from ..store.whole import LARGEST_KEPT, whole
from ..tf.run.state_file import looks_like_state_file
from .directory import Directory
from .location import is_prefix_at_once, resolve, saved_model_prefix, sharded_folder
from .registry import detect

if TYPE_CHECKING:
    from ..model.location import Location
    from ..model.reader import CheckpointReader


def is_directory(path: str) -> bool:
    """Whether a path names a directory of checkpoints, rather than one checkpoint."""
    if is_prefix_at_once(path):
        return False
    return is_folder(path) and not _is_one(path) and not is_file(path + ".index")


def _is_one(directory: str) -> bool:
    """Whether a directory is one checkpoint: a SavedModel, or a sharded model."""
    return saved_model_prefix(directory) is not None or sharded_folder(directory) is not None


def locate(path: str) -> Location:
    """Return the one checkpoint that `path` names: of a directory and of a state file, the latest.

    Raises CheckpointNotFoundError, with what to do, where there is none.
    """
    if is_directory(path):
        return Directory(path).require_latest()
    location = resolve(path)
    if location.head == path and _is_state_file(path):
        return Directory(parent(path) or ".", path).require_latest()
    return location


def _is_state_file(path: str) -> bool:
    try:
        with open_file(path) as file:
            # A small index is read whole, for that is what comes next.
            is_read_on = path.endswith(".index") and file.size <= LARGEST_KEPT
            return looks_like_state_file(whole(file) if is_read_on else file.read(0, 4096))
    except CheckpointError:
        return False


def open_location(location: Location, *, lenient: bool = False, loaded: bool = True) -> CheckpointReader:
    """Return a reader of what lies at a location, as `open_checkpoint` does.

    Not `loaded`, it may have put off reading an index, of which the damage is found when it is asked for.
    """
    fingerprint = location.fingerprint()
    probe = Probe(location)
    try:
        reader = detect(probe).reader(probe, lenient)
        if loaded:
            reader.load()
    except Exception as raised:
        probe.close()
        error = as_ours(raised, location.path)
        forget_locals(error)
        if error is raised:
            raise
        raise error from raised
    reader.fingerprint = fingerprint
    return reader


def open_checkpoint(path: str | os.PathLike[str], *, lenient: bool = False) -> CheckpointReader:
    """Return a reader of the checkpoint that `path` names, whatever its format; it is a context manager.

    Reads the index alone.  With `lenient`, damage that hides some of the keys is in
    the reader's `findings` instead of being raised.  Raises CheckpointNotFoundError,
    UnknownFormatError, CorruptCheckpointError, UnsupportedFeatureError.
    """
    path = named(os.fspath(path))
    store_of(path).forget_listings()
    return open_location(locate(path), lenient=lenient)
