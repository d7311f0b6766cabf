"""The TF2 program that takes over from the iris Estimators: the same layers, as a Keras model."""

from __future__ import annotations

from typing import Any

import ckpt_cli.runtime as tf

__all__ = ["NAMES", "Program", "logits"]

NAMES = {
    f"dnn/{layer}/{weight}": f"{name}/{weight}"
    for layer, name in (("hiddenlayer_0", "first"), ("hiddenlayer_1", "second"), ("logits", "logits"))
    for weight in ("kernel", "bias")
}
"""The Estimator's names, and the full names that this program gives the same variables."""

FEATURES = ("SepalLength", "SepalWidth", "PetalLength", "PetalWidth")


class Program:
    """A model and an optimizer, built and stepped once, so that all their variables are there."""

    def __init__(self, optimizer: Any) -> None:
        dense = tf.keras.layers.Dense
        hidden = [dense(10, activation="relu", name=name) for name in ("first", "second")]
        self.model = tf.keras.Sequential([*hidden, dense(3, name="logits")])
        self.optimizer = optimizer(0.05)
        self.global_step = tf.Variable(0, dtype=tf.int64)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.model(tf.ones([1, 4])))
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.checkpoint = tf.train.Checkpoint(
            model=self.model, optimizer=self.optimizer, global_step=self.global_step
        )


def logits(program: Program, features: dict[str, list[float]]) -> Any:
    """Return what the model says of the iris data, the features in the Estimator's order: by name."""
    columns = [features[name] for name in sorted(features)]
    return program.model(tf.constant([list(row) for row in zip(*columns, strict=True)])).numpy()
