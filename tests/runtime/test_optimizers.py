"""Steps of every Keras optimizer, held against those that TensorFlow took."""

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
    """Dense gradients and those of gathered rows, clipped, decayed: equal but for the last digits."""
    tf.keras.backend.clear_session()
    what = {name: row[name] for name in ("optimizer", "legacy", "settings")}
    found = programs.optimizer_steps(tf, tf.keras, **what)
    assert found["variables"] == row["variables"]
    np.testing.assert_allclose(found["values"], row["values"], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("where", ["function", "fit"])
def test_nadam_is_refused_where_keras_compiles_it(where: str) -> None:
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
