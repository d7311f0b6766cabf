"""The training step that a checkpoint holds, which its name need not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import CheckpointError

if TYPE_CHECKING:
    from formats.model.reader import FormatReader


_PATHS = ("global_step", "step", "optimizer/iter", "optimizer/_iterations")
_COUNTS = ("iter", "_iterations", "iteration", "iterations")
_FIRST_OF_KERAS = "optimizer/vars/0"


def stored_step(reader: FormatReader) -> int | None:
    """Return the training step that a checkpoint holds: its global step, or its optimizer's iterations."""
    scalars = {
        reader.object_paths.get(key, key): key
        for key, spec in reader.specs.items()
        if spec.shape == () and spec.dtype.family in ("int", "uint")
    }
    paths = [path for path in _PATHS if path in scalars]
    paths += [path for path in scalars if path.rpartition("/")[2] in _COUNTS]
    if reader.kinds.get(scalars.get(_FIRST_OF_KERAS, "")) == "optimizer":
        paths.append(_FIRST_OF_KERAS)
    try:
        return int(reader[scalars[paths[0]]].read()) if paths else None
    except CheckpointError:
        return None
