"""Layers of a configuration in PyTorch; `tests/interop/test_layouts.py` computes what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.keras.in_pytorch import rows_of
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
