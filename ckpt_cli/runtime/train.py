"""tf.train."""

from __future__ import annotations

from .checkpoint import Checkpoint, CheckpointOptions
from .manager import CheckpointManager, get_checkpoint_state, latest_checkpoint
from .reader import CheckpointReader, checkpoint_exists, list_variables, load_checkpoint, load_variable

__all__ = [
    "Checkpoint", "CheckpointManager", "CheckpointOptions", "CheckpointReader", "checkpoint_exists",
    "get_checkpoint_state", "latest_checkpoint", "list_variables", "load_checkpoint", "load_variable",
]  # fmt: skip
