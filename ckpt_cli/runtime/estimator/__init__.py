"""tf.estimator: models that live in a directory.

spec run_config        what a model_fn and a run are told and tell
estimator              train, evaluate, predict
inputs recording       batches, and the model_fn that is run for each
session hooks saving   the loop, what is called around a step, what is left on disk
saver scaffold restoring   checkpoints by name or by object, and the most recent one
dnn heads optimizers   DNNClassifier, of TensorFlow 2 and 1
training               train_and_evaluate
"""

from __future__ import annotations

from ..unknown import absent
from .dnn import DNNClassifier
from .estimator import Estimator
from .hooks import (
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StopAtStepHook,
)
from .run_config import RunConfig
from .saving import CheckpointSaverHook, CheckpointSaverListener, StepCounterHook
from .spec import EstimatorSpec, ModeKeys
from .training import EvalSpec, TrainSpec, train_and_evaluate

__all__ = [
    "CheckpointSaverHook", "CheckpointSaverListener", "DNNClassifier", "Estimator", "EstimatorSpec",
    "EvalSpec", "LoggingTensorHook", "ModeKeys", "NanLossDuringTrainingError", "NanTensorHook", "RunConfig",
    "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues", "StepCounterHook",
    "StopAtStepHook", "TrainSpec", "train_and_evaluate",
]  # fmt: skip


# TensorFlow shows these classes under these names.
for _class in (Estimator, DNNClassifier):
    _class.__name__ = _class.__qualname__ = f"{_class.__name__}V2"


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
