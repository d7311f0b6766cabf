"""The runtime computes TensorFlow's values and gradients of losses, layers and expressions.

`make interop` compares the recorded values with TensorFlow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.runtime.keras.from_config import model_from_config
from tests.interop import expressions, losses
from tests.interop.known_answers import read_expressions, read_layers, read_losses


def assert_close(row: Any, found: Any, expected: Any) -> None:
    """Compare nested lists of numbers."""
    for one, other in zip(found, expected, strict=True):
        assert np.shape(one) == np.shape(other), row
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=str(row))


def assert_evaluated(found: Any, expected: Any) -> None:
    """Hold an expression's dtype, shape, values and gradients against each other."""
    (dtype, shape, values), gradients = found
    (expected_dtype, expected_shape, wanted), expected_gradients = expected
    assert (dtype, list(shape)) == (expected_dtype, list(expected_shape))
    tolerance = 1e-6 if dtype == "float32" else 1e-7  # gelu's constants are float32 in TensorFlow
    np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=tolerance)
    for mine, other in zip(gradients, expected_gradients, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", read_losses())
def test_losses_are_tensorflows(name: str) -> None:
    """With each option: labels smoothed or not, logits or probabilities, reductions, weights of rows."""
    assert_close(name, losses.answers(tf, name)[name], read_losses()[name])


def test_every_loss_is_recorded() -> None:
    assert list(losses.rows(tf)) == list(read_losses())


@pytest.mark.parametrize("text", expressions.TEXTS)
def test_values_and_gradients_are_tensorflows(text: str) -> None:
    assert_evaluated(expressions.evaluate(tf, text), read_expressions()[text])


@pytest.mark.parametrize("keras", ["keras2", "keras3"])
def test_layers_of_a_configuration_compute_what_keras_computes(keras: str) -> None:
    """The output, and the gradients by the input and by each weight."""
    for row, config, expected in read_layers(keras):
        model = model_from_config(config, 100_000, keras3=keras == "keras3")
        # Variances among them: none may be negative.
        model.set_weights([_waves(weight.shape, at) + 1.5 for at, weight in enumerate(model.weights)])
        inputs = tf.constant(_waves((2, *row[2]), 9))
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            found = model(inputs, training=False)
            total = tf.reduce_sum(found * _waves(found.shape, 7))
        gradients = tape.gradient(total, [inputs, *model.trainable_weights])
        assert_close(row, [one.numpy() for one in (found, *gradients)], expected)


def _waves(shape: Any, phase: int) -> Any:
    return np.sin(np.arange(np.prod(shape)) * 1.7 + phase).reshape(shape).astype("f4")
