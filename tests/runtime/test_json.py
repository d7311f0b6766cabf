"""Models as JSON texts: the runtime writes what Keras writes, and reads it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from tests.interop import described
from tests.support import data_path

K, L = tf.keras, tf.keras.layers


def recorded() -> dict[str, dict[str, Any]]:
    """Return what TensorFlow 2.15 wrote of each model, and what the model put out."""
    with open(data_path("keras_json", "models.jsonl"), encoding="utf-8") as file:
        return {row.pop("model"): row for row in map(json.loads, file)}


def assert_outputs(found: list[Any], expected: list[Any]) -> None:
    assert [np.shape(one) for one in found] == [np.shape(one) for one in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", recorded())
def test_texts_are_those_of_keras(name: str) -> None:
    row, found = recorded()[name], described.written(tf, name)
    assert json.loads(found["text"]) == json.loads(row["text"])
    assert_outputs(found["outputs"], row["outputs"])


@pytest.mark.parametrize("name", recorded())
def test_models_come_from_the_texts_of_keras(name: str) -> None:
    row = recorded()[name]
    found = described.read(tf, name, row["text"])
    assert json.loads(found["text"]) == json.loads(row["text"])
    assert_outputs(found["outputs"], row["outputs"])


def test_every_model_is_recorded() -> None:
    assert list(described.models(tf)) == list(recorded())


def test_classes_of_a_program_are_given() -> None:
    class Twice(L.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2

    text = K.Sequential([Twice(name="twice", input_shape=(2,))]).to_json()
    assert json.loads(text)["config"]["layers"][1]["registered_name"] == "Twice"
    model = K.models.model_from_json(text, {"Twice": Twice})
    np.testing.assert_array_equal(model(np.ones((1, 2), "f4")), [[2, 2]])
    with pytest.raises(ValueError, match="Unknown layer: 'Twice'"):
        K.models.model_from_json(text)


def test_a_model_that_does_not_know_its_input() -> None:
    model = K.Sequential([L.Dense(2)])
    again = K.models.model_from_json(model.to_json())
    assert (again.name, again.built) == (model.name, False)


class Own(K.Model):
    def call(self, inputs: Any) -> Any:
        return inputs


def compiled_within() -> Any:
    inner = K.Sequential([L.Dense(1, input_shape=(2,))])
    inner.compile("sgd", "mse")
    return K.Sequential([inner])


def sliced() -> Any:
    x = L.Input([3])
    return K.Model(x, x[:, :2])


UNKNOWN = json.dumps(
    {
        "class_name": "Sequential",
        "config": {
            "name": "s",
            "layers": [{"class_name": "LSTM", "config": {"name": "l", "units": 2, "sparse": True}}],
        },
    }
)
REFUSED = {
    "a model of a program's own": Own,
    "a function": lambda: K.Sequential([L.Dense(1, activation=lambda x: x, input_shape=(2,))]),
    "an initializer of a program's own": lambda: K.Sequential(
        [L.Dense(1, kernel_initializer=lambda shape, dtype=None: tf.zeros(shape), input_shape=(2,))]
    ),
    "a constraint": lambda: K.Sequential([L.Dense(1, kernel_constraint=abs, input_shape=(2,))]),
    "a Lambda": lambda: K.Sequential([L.Lambda(abs, input_shape=(2,))]),
    "a compiled model within": compiled_within,
    "a slice": sliced,
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_text_is_rejected(what: str) -> None:
    with pytest.raises(NotImplementedError, match=r"not (known|supported)|has no JSON"):
        REFUSED[what]().to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "found a JSON list; expected an object"),
        ("{", "JSON|Expecting"),
        ('{"class_name": "Tower", "config": {}}', "class 'Tower'"),
        (UNKNOWN, "sparse=True"),
        ('{"class_name": "Sequential", "config": {"name": "s", "layers": [3]}}', "int"),
    ],
)
def test_texts_that_are_not_a_model(text: str, message: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=message):
        K.models.model_from_json(text)
