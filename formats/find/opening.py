"""Opening a checkpoint by any path that names one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CheckpointError, as_ours, forget_locals
from ..location import Location, parse_location
from ..model.orbax_files import orbax_location
from ..model.probe import Probe
from ..store.content_cache import LARGEST_KEPT, whole
from .registry import detect
from .resolve import is_prefix_at_once, resolve, saved_model_prefix, sharded_folder

if TYPE_CHECKING:
    import os

    from ..model.checkpoint_files import CheckpointLocation
    from ..model.public import CheckpointReader
    from ..model.reader import FormatReader


def is_directory(path: Location) -> bool:
    """Whether a path names a directory of checkpoints, rather than one checkpoint."""
    if is_prefix_at_once(path):
        return False
    return path.is_folder() and not _is_one(path) and not (path + ".index").is_file()


def _is_one(directory: Location) -> bool:
    """Whether a directory is one checkpoint: a SavedModel, a sharded model, or one of Orbax'."""
    is_one = saved_model_prefix(directory) is not None or sharded_folder(directory) is not None
    return is_one or orbax_location(directory) is not None


def locate(path: Location) -> CheckpointLocation:
    """Return the one checkpoint that `path` names: of a directory and of a state file, the latest.

    Raises CheckpointNotFoundError, with what to do, where there is none.
    """
    if is_directory(path):
        from .directory import Directory  # not needed for the prefix of a checkpoint

        return Directory(path).require_latest()
    location = resolve(path)
    if location.head == path and _is_state_file(path):
        from .directory import Directory

        return Directory(path.parent or path.of("."), path).require_latest()
    return location


def _is_state_file(path: Location) -> bool:
    try:
        with path.open() as file:
            # A small index is read whole, for that is what comes next.
            is_read_on = path.endswith(".index") and file.size <= LARGEST_KEPT
            from ..tf.run.state_file import looks_like_state_file

            return looks_like_state_file(whole(file) if is_read_on else file.read(0, 4096))
    except CheckpointError:
        return False


def open_location(
    location: CheckpointLocation, *, lenient: bool = False, loaded: bool = True
) -> FormatReader:
    """Return a reader of a location, as `open_reader` does.

    If not `loaded`, the reader may read its index later, and find damage only then.
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
    """Return a reader of the checkpoint at `path`, in any format; it is a context manager.

    Reads only the index.  With `lenient`, damage that hides some of the keys is in
    the reader's `findings` instead of being raised.  Raises CheckpointNotFoundError,
    UnknownFormatError, CorruptCheckpointError, UnsupportedFeatureError.
    """
    return open_reader(path, lenient=lenient)


def open_reader(path: str | os.PathLike[str], *, lenient: bool = False) -> FormatReader:
    """Return what `open_checkpoint` does, with all that the commands know of a format."""
    where = parse_location(path)
    where.store.forget_listings()
    return open_location(locate(where), lenient=lenient)
