"""Losses with each of their options, and their gradients; run by TensorFlow and by the runtime."""

import itertools

import numpy as np

REDUCTIONS = ("auto", "none", "sum", "sum_over_batch_size")


def waves(shape, phase=0):
    return np.sin(np.arange(np.prod(shape)) * 1.7 + phase).reshape(shape).astype("f4")


LOGITS = 3 * waves((4, 3))
SHARES = np.array([[0, 0.25, 0.75], [1, 0.5, 0.125], [0.2, 0.3, 0.5], [1e-9, 1, 0.4]], "f4")
"""Predictions as probabilities, those among them that are clipped, and a row whose sum is not 1."""
FLAGS = (waves((4, 3), 2) > 0).astype("f4")
ONE_HOT = np.eye(3, dtype="f4")[[2, 0, 1, 1]]
WEIGHTS = np.array([0.5, 2, 0, 1], "f4")


def rows(tf):
    """Return the loss, labels and predictions of each row by its name."""
    losses, found = tf.keras.losses, {}
    for (name, labels), from_logits, smoothing in itertools.product(
        (("BinaryCrossentropy", FLAGS), ("CategoricalCrossentropy", ONE_HOT)), (False, True), (0.0, 0.1, 1.0)
    ):
        how = {"from_logits": from_logits, "label_smoothing": smoothing}
        given = LOGITS if from_logits else SHARES
        found[f"{name} {how}"] = getattr(losses, name)(**how), labels, given
    for from_logits, shape in itertools.product((False, True), ((4,), (4, 1))):
        made = losses.SparseCategoricalCrossentropy(from_logits=from_logits)
        labels = np.array([2, 0, 1, 1]).reshape(shape)
        found[f"Sparse {from_logits} {shape}"] = made, labels, LOGITS if from_logits else SHARES
    for delta in (0.3, 1.0, 2.5):
        found[f"Huber {delta}"] = losses.Huber(delta), FLAGS, LOGITS
    for name in ("MeanSquaredError", "MeanAbsoluteError"):
        for reduction in REDUCTIONS:
            found[f"{name} {reduction}"] = getattr(losses, name)(reduction=reduction), FLAGS, LOGITS
    for name in (
        "mean_squared_error",
        "mean_absolute_error",
        "binary_crossentropy",
        "categorical_crossentropy",
    ):
        found[name] = getattr(losses, name), ONE_HOT, SHARES
    return found


def answers(tf, only=None):
    """Return of each row the loss and its gradient by the predictions, without weights of rows and with."""
    return {
        name: [*_answer(tf, *row, None), *_answer(tf, *row, WEIGHTS)]
        for name, row in rows(tf).items()
        if only in (None, name)
    }


def _answer(tf, loss, labels, given, weights):
    predictions = tf.constant(given)
    with tf.GradientTape() as tape:
        tape.watch(predictions)
        value = (
            loss(labels, predictions, weights) if hasattr(loss, "reduction") else loss(labels, predictions)
        )
        total = tf.reduce_sum(value * waves(value.shape, 5) if value.shape.rank else value)
    gradient = tape.gradient(total, predictions)
    return [np.round(np.asarray(one, "f8"), 6).tolist() for one in (value, gradient)]
