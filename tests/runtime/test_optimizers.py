"""Steps of every Keras optimizer, compared with those that TensorFlow took."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from tests.interop import programs
from tests.support import data_path


def recorded() -> list[dict[str, Any]]:
    """Return what TensorFlow 2.15 made of each optimizer: settings, its variables' names, the weights."""
    with open(data_path("optimizer_steps", "steps.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def named(row: dict[str, Any]) -> str:
    settings = "-".join(f"{name}={value}" for name, value in row["settings"].items())
    return f"{'legacy-' * row['legacy']}{row['optimizer']}-{settings}"


@pytest.mark.parametrize("row", recorded(), ids=named)
def test_steps_are_tensorflows(row: dict[str, Any]) -> None:
    """Dense gradients and those of gathered rows, clipped, decayed: equal except for the last digits."""
    tf.keras.backend.clear_session()
    what = {name: row[name] for name in ("optimizer", "legacy", "settings")}
    found = programs.optimizer_steps(tf, tf.keras, **what)
    assert found["variables"] == row["variables"]
    np.testing.assert_allclose(found["values"], row["values"], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("where", ["function", "fit"])
def test_nadam_is_rejected_where_keras_compiles_it(where: str) -> None:
    variable, optimizer = tf.Variable([1.0]), tf.keras.optimizers.Nadam(0.1)

    def step() -> None:
        optimizer.apply_gradients([(tf.constant([1.0]), variable)])

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Nadam(), "mse")
    run = tf.function(step) if where == "function" else lambda: model.fit(np.ones((2, 1)), np.ones((2, 1)))
    with pytest.raises(NotImplementedError, match=r"Nadam within tf\.function or fit"):
        run()
    step()
    model.compile(tf.keras.optimizers.Nadam(), "mse", run_eagerly=True)
    assert len(model.fit(np.ones((2, 1)), np.ones((2, 1))).history["loss"]) == 1


def adam_steps(variables, count):
    """Take steps of Adam with gradients of the variables' own size and place; return values and slots."""
    optimizer = tf.keras.optimizers.Adam(0.1, amsgrad=True)
    for step in range(count):
        optimizer.apply_gradients([(tf.sin(variable * (step + 1.0)), variable) for variable in variables])
    kinds = optimizer._momentums, optimizer._velocities, optimizer._velocity_hats
    return [np.concatenate([slot.numpy() for slot in slots]) for slots in kinds]


def test_a_large_variable_changes_as_its_parts_would():
    initial = np.linspace(-2, 2, 100_000, dtype=np.float32).reshape(1000, 100)
    whole, parts = tf.Variable(initial), [tf.Variable(rows) for rows in np.split(initial, 10)]
    for one, other in zip(adam_steps([whole], 3), adam_steps(parts, 3), strict=True):
        assert one.shape == (1000, 100)
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(whole.numpy(), np.concatenate([part.numpy() for part in parts]))


def test_a_value_that_was_read_stays_though_a_large_variable_changes_in_place():
    variable = tf.Variable(np.ones((1000, 100), np.float32))
    optimizer = tf.keras.optimizers.Adam(0.1)
    gradient = tf.ones([1000, 100])
    optimizer.apply_gradients([(gradient, variable)])
    slot = optimizer._momentums[0]
    array = slot._value
    place = array.__array_interface__["data"][0]
    del array
    read, row, moment = variable.value(), variable._value[3], slot.value()
    before = [one.numpy() for one in (read, moment)]
    optimizer.apply_gradients([(gradient, variable)])
    for one, value in zip((read, moment), before, strict=True):
        np.testing.assert_array_equal(one.numpy(), value)
    np.testing.assert_array_equal(row, before[0][3])
    assert variable.numpy()[0, 0] < before[0][0, 0]
    assert slot._value.__array_interface__["data"][0] != place
    place = slot._value.__array_interface__["data"][0]
    del read, row, moment, one
    optimizer.apply_gradients([(gradient, variable)])
    assert slot._value.__array_interface__["data"][0] == place
