"""tf.estimator: models that live in a directory.

spec run_config        the arguments and results of a model_fn, and the options of a run
estimator              train, evaluate, predict
inputs recording       batches, and the model_fn that is run for each
session hooks saving   the loop, what is called around a step, what is left on disk
saver scaffold restoring   checkpoints by name or by object, and the most recent one
canned heads optimizers    DNNClassifier and the like, of TensorFlow 2 and 1
warm_start             the values that a run begins with
training               train_and_evaluate
"""

from __future__ import annotations

from ..unknown import absent
from .canned import CANNED
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
from .warm_start import WarmStartSettings

__all__ = [
    "CheckpointSaverHook", "CheckpointSaverListener", "DNNClassifier", "DNNRegressor", "Estimator",
    "EstimatorSpec", "EvalSpec", "LinearClassifier", "LinearRegressor", "LoggingTensorHook", "ModeKeys",
    "NanLossDuringTrainingError", "NanTensorHook", "RunConfig", "SessionRunArgs", "SessionRunContext",
    "SessionRunHook", "SessionRunValues", "StepCounterHook", "StopAtStepHook", "TrainSpec",
    "WarmStartSettings", "train_and_evaluate",
]  # fmt: skip


DNNClassifier, DNNRegressor, LinearClassifier, LinearRegressor = CANNED
Estimator.__name__ = Estimator.__qualname__ = "EstimatorV2"  # TensorFlow shows the class under this name.


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
