"""Making a checkpoint the latest of its directory, in the state file."""

from __future__ import annotations

import os
import time

from formats.model.location import bundle_prefix
from formats.store.paths import is_file
from formats.store.staging import holding, replace_file
from formats.tf.run.state_file import FILE_NAME, StateFile


def state_beside(path: str) -> StateFile | None:
    """Return what the state file beside a checkpoint says; CorruptCheckpointError where it cannot be read."""
    state_path = os.path.join(os.path.dirname(path), FILE_NAME)
    return StateFile.read(state_path) if is_file(state_path) else None


def make_latest(path: str) -> None:
    """Make a checkpoint the latest in the state file beside it, a bundle by its prefix whatever named it."""
    directory, name = os.path.split(bundle_prefix(path))
    with holding(directory or "."):
        state = state_beside(path) or StateFile(name)
        replace_file(os.path.join(directory, FILE_NAME), state.with_latest(name, time.time()).text())
