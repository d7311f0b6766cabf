"""Making a checkpoint the latest of its directory, in the state file."""

from __future__ import annotations

import os
import time

from formats.atomic import replace_file
from formats.tf.state_file import FILE_NAME, StateFile

__all__ = ["make_latest"]


def make_latest(path: str) -> None:
    """Make a checkpoint, a bundle by its prefix, the latest in the state file beside it."""
    directory, name = os.path.split(path)
    state_path = os.path.join(directory, FILE_NAME)
    state = StateFile.read(state_path) if os.path.isfile(state_path) else StateFile(name)
    replace_file(state_path, state.with_latest(name, time.time()).text())
