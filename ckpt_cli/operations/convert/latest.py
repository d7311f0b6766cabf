"""Making a checkpoint the latest of its directory, in the state file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from formats.errors import ConversionError
from formats.find.registry import format_named
from formats.model.checkpoint_files import bundle_prefix
from formats.model.reader import Family
from formats.store.local.staging import holding, replace_file
from formats.tf.run.state_file import FILE_NAME, StateFile

if TYPE_CHECKING:
    from formats.location import Location


def refuse_unlisted(path: Location, format_name: str) -> None:
    """Raise ConversionError for a format that no state file lists: TensorFlow restores its own alone."""
    if format_named(format_name).family is not Family.TENSORFLOW:
        message = (
            f"a state file lists only TensorFlow checkpoints, and the format of this target is {format_name}"
        )
        raise ConversionError(message, path=path, hints=("remove --update-state",))


def state_file_of(path: Location) -> StateFile | None:
    """Return the state file next to a checkpoint. Raises CorruptCheckpointError if it cannot be read."""
    state_path = path.beside(FILE_NAME)
    return StateFile.read(state_path) if state_path.is_file() else None


def make_latest(path: Location) -> None:
    """Make a checkpoint the latest in the state file next to it; a bundle is recorded by its prefix."""
    directory, name = bundle_prefix(path).split_name()
    with holding(directory):
        state = state_file_of(path) or StateFile(name)
        replace_file(directory / FILE_NAME, state.with_latest(name, time.time()).text())
