"""Making a checkpoint that was written the latest of its directory."""

from __future__ import annotations

import os
import time

from formats.atomic import replace_file
from formats.tf.state_file import FILE_NAME, StateFile

__all__ = ["make_latest"]


def make_latest(target: str) -> None:
    """Name a checkpoint as the latest in its directory's `checkpoint` file, which is made if need be."""
    directory, name = os.path.split(target.removesuffix(".index"))
    path = os.path.join(directory, FILE_NAME)
    state = StateFile.read(path) if os.path.isfile(path) else StateFile(name)
    replace_file(path, state.with_latest(name, time.time()).text())
