"""tf.train."""

from __future__ import annotations

from types import SimpleNamespace

from .checkpoint import Checkpoint, CheckpointOptions
from .custom_state import PythonState
from .manager import CheckpointManager
from .reader import CheckpointReader, checkpoint_exists, list_variables, load_checkpoint, load_variable
from .state_file import get_checkpoint_state, latest_checkpoint
from .unknown import absent

__all__ = [
    "Checkpoint", "CheckpointManager", "CheckpointOptions", "CheckpointReader", "checkpoint_exists",
    "experimental", "get_checkpoint_state", "latest_checkpoint",
    "list_variables", "load_checkpoint", "load_variable",
]  # fmt: skip

experimental = SimpleNamespace(PythonState=PythonState)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
