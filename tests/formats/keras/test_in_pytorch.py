"""Layers of a configuration in PyTorch; `tests/interop/test_layouts.py` computes what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.keras.in_pytorch import remarks_on, rows_of
from formats.keras.model import Edge, ModelError, Unit, Variable, from_config


def model(class_name: str, beside: dict[str, Any], **config: Any) -> Unit:
    """Return a model of one layer; what is said `beside` its configuration tells whose class it is."""
    layer = {"class_name": class_name, "config": {"name": "d", **config}, **beside}
    return from_config(json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}}))


@pytest.mark.parametrize(
    ("beside", "class_name"),
    [
        ({"module": None, "registered_name": "Dense"}, "Custom>Dense"),
        ({"module": "mine.layers", "registered_name": "Dense"}, "mine.layers>Dense"),
        ({"module": None, "registered_name": "mine>Dense"}, "mine>Dense"),
    ],
)
def test_a_programs_own_class_is_not_kerass_of_that_name(beside: dict[str, Any], class_name: str) -> None:
    """Its kernel may be (out, in) already, which no shape tells of a square one."""
    (layer,) = model("Dense", beside, units=4, use_bias=True).layers
    assert layer.class_name == class_name


@pytest.mark.parametrize(
    "beside",
    [
        {},
        {"module": "keras.layers", "registered_name": None},
        {"module": "keras.layers.core.dense", "registered_name": "Dense"},
        {"module": "tf_keras.layers", "registered_name": None},
    ],
)
def test_kerass_own_class_is_known(beside: dict[str, Any]) -> None:
    rows, _ = rows_of(model("Dense", beside, units=4, use_bias=True))
    assert [(row.new, str(row.steps)) for row in rows] == [("d.weight", "T"), ("d.bias", "")]


@pytest.mark.parametrize(
    ("class_name", "config", "words"),
    [
        ("Dense", {"units": 4}, "'d/kernel': its configuration has no use_bias"),
        ("LayerNormalization", {"rms_scaling": True}, "no LayerNormalization with rms_scaling=True"),
        ("BatchNormalization", {"renorm": True}, "no BatchNormalization with renorm=True"),
    ],
)
def test_what_pytorch_computes_otherwise_is_refused(
    class_name: str, config: dict[str, Any], words: str
) -> None:
    found = model(class_name, {}, **config)
    (layer,) = found.layers
    layer.edges = layer.edges or [Edge("gamma", Variable("gamma"))]  # which a file has, if the table has none
    with pytest.raises(ModelError, match=words):
        rows_of(found)


@pytest.mark.parametrize(
    ("class_name", "config", "words"),
    [
        ("Conv1D", {"padding": "causal", "kernel_size": [3]}, "all at the beginning"),
        ("Conv2D", {"padding": "same", "kernel_size": [3, 3], "strides": [2, 2]}, "pad so before the layer"),
        ("Conv2DTranspose", {"padding": "same", "kernel_size": [3, 3], "strides": [2, 2]}, "cuts more off"),
        ("MaxPooling2D", {"padding": "same", "pool_size": [2, 2]}, "pad so by -inf"),
        ("AveragePooling2D", {"padding": "same", "pool_size": [3, 3], "strides": [1, 1]}, "not counted"),
        ("AveragePooling2D", {"padding": "same", "pool_size": [2, 2]}, "ones padded so"),
        ("Embedding", {"mask_zero": True}, "masks steps"),
        ("LayerNormalization", {"axis": [-2], "epsilon": 1e-5}, "normalizes axis [-2]"),
    ],
)
def test_what_weights_do_not_say_is_told(class_name: str, config: dict[str, Any], words: str) -> None:
    (remark,) = remarks_on(model(class_name, {}, **config))
    assert words in remark


def test_axes_are_the_last_ones_of_the_input_they_are_built_for() -> None:
    built = {"build_config": {"input_shape": [None, 6, 6]}}
    (remark,) = remarks_on(model("LayerNormalization", built, axis=[1], epsilon=1e-5))
    assert "normalizes axis [1]" in remark
    assert remarks_on(model("LayerNormalization", built, axis=[1, 2], epsilon=1e-5)) == []
    assert remarks_on(model("LayerNormalization", {}, axis=[1], epsilon=1e-5)) == []  # not known
    assert remarks_on(model("Conv2D", {}, padding="same", kernel_size=[3, 3], strides=[1, 1])) == []
