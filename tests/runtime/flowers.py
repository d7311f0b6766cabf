"""The fixture's 120 flowers, and Estimators of them."""

from __future__ import annotations

import pathlib

import numpy as np

import ckpt_cli.runtime as tf
from ckpt_cli.runtime.compat import v1

DATA = pathlib.Path(__file__).parents[1] / "data"
NAMES = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth"]
KINDS = {"v1": v1.estimator.DNNClassifier, "v2": tf.estimator.DNNClassifier}


def arrays():
    folder = DATA / "estimator_replay"
    return np.load(folder / "features.npy"), np.load(folder / "labels.npy")


def flowers(batch=120, *, repeats=True, shuffles=False, classes=3, skip=0):
    """Return an input_fn."""
    features, labels = arrays()

    def input_fn():
        columns = {name: features[:, index] for index, name in enumerate(NAMES)}
        found = tf.data.Dataset.from_tensor_slices((columns, np.minimum(labels, classes - 1)))
        if shuffles:
            found = found.shuffle(1000)
        return (found.repeat() if repeats else found).skip(skip).batch(batch)

    return input_fn


def columns():
    return [tf.feature_column.numeric_column(name) for name in NAMES]


def classifier(directory, kind="v2", hidden=(10, 10), config=None, **options):
    """Return a DNNClassifier of three classes."""
    options.setdefault("n_classes", 3)
    if config is None:
        config = tf.estimator.RunConfig(tf_random_seed=1)
    return KINDS[kind](
        hidden_units=list(hidden),
        feature_columns=columns(),
        model_dir=None if directory is None else str(directory),
        config=config,
        **options,
    )


class Losses(v1.train.SessionRunHook):
    """Keeps the loss of every step."""

    def begin(self):
        self.losses = []
        self.tensor = v1.get_collection(v1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))
