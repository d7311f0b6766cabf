"""Making a checkpoint the latest of its directory, in the state file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from formats.model.checkpoint_files import bundle_prefix
from formats.store.local.staging import holding, replace_file
from formats.tf.run.state_file import FILE_NAME, StateFile

if TYPE_CHECKING:
    from formats.location import Location


def state_beside(path: Location) -> StateFile | None:
    """Return the state file next to a checkpoint. Raises CorruptCheckpointError if it cannot be read."""
    state_path = path.beside(FILE_NAME)
    return StateFile.read(state_path) if state_path.is_file() else None


def make_latest(path: Location) -> None:
    """Make a checkpoint the latest in the state file next to it; a bundle is recorded by its prefix."""
    directory, name = bundle_prefix(path).split_name()
    with holding(directory):
        state = state_beside(path) or StateFile(name)
        replace_file(directory / FILE_NAME, state.with_latest(name, time.time()).text())
