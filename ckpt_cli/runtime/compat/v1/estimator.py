"""tf.compat.v1.estimator: the classes of TensorFlow 1, by its names in checkpoints."""

from __future__ import annotations

from ...estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    ModeKeys,
    RunConfig,
    TrainSpec,
    WarmStartSettings,
    train_and_evaluate,
)
from ...estimator.canned import CANNED_V1
from ...unknown import absent

__all__ = [
    "DNNClassifier", "DNNRegressor", "Estimator", "EstimatorSpec", "EvalSpec", "LinearClassifier",
    "LinearRegressor", "ModeKeys", "RunConfig", "TrainSpec", "WarmStartSettings", "train_and_evaluate",
]  # fmt: skip
DNNClassifier, DNNRegressor, LinearClassifier, LinearRegressor = CANNED_V1


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
