"""tf.train."""

from __future__ import annotations

from .checkpoint import Checkpoint, CheckpointOptions
from .manager import CheckpointManager
from .reader import CheckpointReader, checkpoint_exists, list_variables, load_checkpoint, load_variable
from .state_file import get_checkpoint_state, latest_checkpoint

__all__ = [
    "Checkpoint", "CheckpointManager", "CheckpointOptions", "CheckpointReader", "checkpoint_exists",
    "get_checkpoint_state", "latest_checkpoint", "list_variables", "load_checkpoint", "load_variable",
]  # fmt: skip
