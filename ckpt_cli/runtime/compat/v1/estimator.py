"""tf.compat.v1.estimator: the classes of TensorFlow 1, by its names in checkpoints."""

from __future__ import annotations

from ...estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    ModeKeys,
    RunConfig,
    TrainSpec,
    train_and_evaluate,
)
from ...estimator.dnn import DNNClassifierV1 as DNNClassifier

__all__ = [
    "DNNClassifier", "Estimator", "EstimatorSpec", "EvalSpec", "ModeKeys", "RunConfig", "TrainSpec",
    "train_and_evaluate",
]  # fmt: skip
