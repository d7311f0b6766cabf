"""Models as units: of configurations, and of names; Keras itself judges the table in tests/interop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.keras.config import training_in_h5
from formats.keras.model import ModelError, from_config, from_names, legacy_order, trained_order
from formats.keras.variable_layout import graph_of, objects_in


def test_wrappers_nested_without_end() -> None:
    config: dict[str, Any] = {"class_name": "Dense", "config": {"name": "d", "units": 1}}
    for _ in range(200):
        config = {"class_name": "TimeDistributed", "config": {"name": "t", "layer": config}}
    text = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [config]}})
    with pytest.raises(ModelError, match="deep"):
        from_config(text)


def nested(trainable: bool) -> str:
    def layer(class_name: str, **config: Any) -> dict[str, Any]:
        return {"class_name": class_name, "config": config}

    norm = layer("BatchNormalization", name="bn", axis=-1, trainable=trainable)
    inner = layer("Sequential", name="inner", layers=[norm, layer("Dense", name="d", units=1)])
    return json.dumps({"class_name": "Functional", "config": {"name": "m", "layers": [inner]}})


@pytest.mark.parametrize(
    ("trainable", "expected"),
    [
        (True, ["gamma", "beta", "kernel", "bias", "moving_mean", "moving_variance"]),
        (False, ["kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance"]),
    ],
)
def test_in_h5_files_what_is_not_trained_comes_last(trainable: bool, expected: list[str]) -> None:
    (inner,) = from_config(nested(trainable)).layers
    assert [variable.name for variable in legacy_order(inner)] == expected


@pytest.mark.parametrize(
    "weights",
    [
        [("d", [("k", "d")])],
        [("d", [("k", "scale")])],
        [("d", [("a", "d/x"), ("b", "d/x")])],
        [("d", [("a", "d/odd/x")])],
        [("d", [("a", "d/cell"), ("b", "d/cell/kernel")])],
        [("d", [("a", "d/kernel"), ("b", "d/kernel/cell/x")])],
    ],
)
def test_names_that_tell_no_layer(weights: Any) -> None:
    with pytest.raises(ModelError):
        from_names(weights)


@pytest.mark.parametrize(
    ("module", "settings", "major", "name"),
    [
        ("keras.optimizers", {}, "2", "Custom>AdamW"),
        ("keras.optimizers", {"is_legacy_optimizer": True}, "2", "AdamW"),
        ("keras.optimizers.legacy", {}, "2", "AdamW"),
        ("mine", {}, "2", "AdamW"),
        ("keras.optimizers", {}, "3", "AdamW"),
        ("keras.optimizers", None, "2", "Custom>AdamW"),
    ],
)
def test_keras_2_finds_its_newer_optimizers_as_it_registers_them(
    module: str, settings: Any, major: str, name: str
) -> None:
    """Keras 2.15 loads no .h5 of an optimizer without a legacy one, AdamW for one, under another name."""
    optimizer = {"module": module, "class_name": "AdamW", "config": settings, "registered_name": None}
    told = training_in_h5(json.dumps({"compile_config": {"optimizer": optimizer}}), major)
    assert json.loads(told or "{}")["optimizer_config"]["class_name"] == name


def test_cells_of_a_list_are_numbered_and_keep_their_order() -> None:
    cells = [{"class_name": name, "config": {"name": name, "units": 2}} for name in ("GRUCell", "LSTMCell")]
    stacked = {"class_name": "StackedRNNCells", "config": {"name": "s", "cells": cells}}
    rnn = {"class_name": "RNN", "config": {"name": "r", "cell": stacked}}
    text = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [rnn]}})
    model = from_config(text)
    for variable in model.all_variables():
        variable.key = variable.name
    _, placed = graph_of(model)
    assert [key.rpartition("/.A")[0] for _, key in placed][:2] == [
        "layer_with_weights-0/cell/cells/0/kernel",
        "layer_with_weights-0/cell/cells/0/recurrent_kernel",
    ]
    groups = [group for group, unit in objects_in(model) if unit.variables()]
    assert groups == [f"layers/rnn/cell/cells/{name}/vars" for name in ("gru_cell", "lstm_cell")]
    assert not model.is_known


def test_a_list_of_cells_holds_layers_alone() -> None:
    stacked = {"class_name": "StackedRNNCells", "config": {"name": "s", "cells": [1]}}
    text = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [stacked]}})
    with pytest.raises(ModelError, match="not a layer"):
        from_config(text)


@pytest.mark.parametrize(("depth", "is_supported"), [(16, True), (17, False)])
def test_layers_are_wrapped_up_to_sixteen_deep(depth: int, is_supported: bool) -> None:
    config: dict[str, Any] = {"class_name": "Dense", "config": {"name": "d", "units": 1}}
    for _ in range(depth):
        config = {"class_name": "TimeDistributed", "config": {"name": "t", "layer": config}}
    text = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [config]}})
    if is_supported:
        assert [variable.name for variable in from_config(text).all_variables()] == ["kernel", "bias"]
    else:
        with pytest.raises(ModelError, match="more than 16 deep"):
            from_config(text)


@pytest.mark.parametrize(("told", "trained"), [({}, 3), ({"trainable": True}, 3), ({"trainable": False}, 0)])
def test_the_cell_of_a_layer_is_trained_as_the_layer_is(told: dict[str, bool], trained: int) -> None:
    layer = {"class_name": "LSTM", "config": {"name": "l", "units": 2, **told}}
    (unit,) = from_config(
        json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}})
    ).layers
    assert len(list(unit.all_variables())) == 3
    assert len(trained_order(unit)) == trained
