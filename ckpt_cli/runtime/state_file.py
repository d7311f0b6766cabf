"""The state file `checkpoint` of a directory, as TensorFlow's functions read and write it.

tensorflow/python/checkpoint/checkpoint_management.py
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from formats.errors import CheckpointError
from formats.location import Location, parse_location
from formats.store.local.staging import replace_file
from formats.tf.run.state_file import FILE_NAME, NoLatestError, StateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "CheckpointState", "checkpoints_iterator", "get_checkpoint_state", "latest_checkpoint",
    "update_state_file",
]  # fmt: skip

logger = logging.getLogger("ckpt_cli.runtime")


class CheckpointState:
    """A directory's state file, its paths made usable from here."""

    def __init__(self, state: StateFile, directory: Location) -> None:
        self.model_checkpoint_path = str(directory / state.latest)
        self.all_model_checkpoint_paths = [str(directory / path) for path in state.paths]
        self.all_model_checkpoint_timestamps = list(state.timestamps)
        self.last_preserved_timestamp = state.last_preserved or 0.0


def get_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> CheckpointState | None:
    """Return what a directory's state file says; None where there is none, or none that can be read.

    Raises ValueError for one that names no latest checkpoint.
    """
    directory = parse_location(checkpoint_dir)
    path = directory / (latest_filename or FILE_NAME)
    if not path.is_file():
        return None
    try:
        return CheckpointState(StateFile.read(path), directory)
    except NoLatestError as error:
        raise ValueError(f"Invalid checkpoint state loaded from {directory}") from error
    except CheckpointError as error:
        logger.warning("%s: Checkpoint ignored", error)
        return None


def _is_checkpoint(text: str) -> bool:
    path = parse_location(text)
    return (path + ".index").is_file() or path.is_file()


def latest_checkpoint(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """Return the prefix of the latest checkpoint as the state file names it, or None if it does not exist.

    A path from before the directory was moved is looked up next to the state file.
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    path = state.model_checkpoint_path
    if _is_checkpoint(path):
        return path
    beside = str(parse_location(checkpoint_dir) / path.rpartition("/")[2])
    if _is_checkpoint(beside):
        logger.warning("%s does not exist; using %s, next to the state file", path, beside)
        return beside
    logger.error("Couldn't match files for checkpoint %s", path)
    return None


_PAUSE = 1.0
"""Seconds between two looks at a state file."""


def checkpoints_iterator(
    checkpoint_dir: str | os.PathLike[str], min_interval_secs: float = 0, timeout: float | None = None,
    timeout_fn: Callable[[], Any] | None = None,
) -> Iterator[str]:  # fmt: skip
    """Yield the latest checkpoint whenever there is a new one; end where none comes within `timeout` seconds.

    `timeout_fn` is called then: if it returns False, the wait continues.
    """
    last = None
    while True:
        found = _next_checkpoint(checkpoint_dir, last, timeout)
        if found is None:
            if timeout_fn is None or timeout_fn():
                logger.info("Timed-out waiting for a checkpoint.")
                return
            continue
        begun, last = time.time(), found
        yield found
        time.sleep(max(begun + min_interval_secs - time.time(), 0))


def _next_checkpoint(
    directory: str | os.PathLike[str], last: str | None, timeout: float | None
) -> str | None:
    end = None if timeout is None else time.time() + timeout
    while (found := latest_checkpoint(directory)) in (None, last):
        if end is not None and time.time() + _PAUSE > end:
            return None
        time.sleep(_PAUSE)
    return found


def update_state_file(
    directory: str,
    latest: str,
    paths: Sequence[str],
    timestamps: Sequence[float] = (),
    last_preserved: float | None = None,
    name: str = FILE_NAME,
) -> None:
    """Write a directory's state file, with paths relative to it; it is replaced in one piece."""

    def relative(path: str) -> str:
        return os.path.relpath(path, directory or ".")

    state = StateFile(relative(latest), tuple(map(relative, paths)), tuple(timestamps), last_preserved)
    replace_file(parse_location(os.path.join(directory, name)), state.text())
