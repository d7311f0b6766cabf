"""tf.train."""

from __future__ import annotations

from types import SimpleNamespace

from .averages import ExponentialMovingAverage
from .checkpoint import Checkpoint, CheckpointOptions
from .custom_state import PythonState
from .manager import CheckpointManager
from .reader import CheckpointReader, checkpoint_exists, list_variables, load_checkpoint, load_variable
from .state_file import checkpoints_iterator, get_checkpoint_state, latest_checkpoint
from .unknown import absent
from .views import CheckpointView, TrackableView

__all__ = [
    "Checkpoint", "CheckpointManager", "CheckpointOptions", "CheckpointReader", "CheckpointView",
    "ExponentialMovingAverage", "TrackableView", "checkpoint_exists", "checkpoints_iterator", "experimental",
    "get_checkpoint_state", "latest_checkpoint", "list_variables", "load_checkpoint", "load_variable",
]  # fmt: skip

experimental = SimpleNamespace(PythonState=PythonState)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
