"""Layers that follow each other, by Keras' configurations and by names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ckpt_cli.operations.origin.connections import Connections, folded_by_names
from ckpt_cli.operations.origin.source import SourceLayer


def keras_2(name: str, *before: str, kind: str = "Dense") -> dict[str, Any]:
    inbound = [[[one, 0, 0, {}] for one in before]] if before else []
    return {"class_name": kind, "config": {"name": name}, "name": name, "inbound_nodes": inbound}


def keras_3(name: str, *before: str, kind: str = "Dense") -> dict[str, Any]:
    tensors = [{"class_name": "__keras_tensor__", "config": {"keras_history": [one, 0, 0]}} for one in before]
    calls = [{"args": tensors, "kwargs": {}}] if before else []
    return {"class_name": kind, "config": {"name": name}, "name": name, "inbound_nodes": calls}


def model(layers: list[dict[str, Any]], name: str = "model") -> dict[str, Any]:
    ends = {"input_layers": [[layers[0]["name"], 0, 0]], "output_layers": [[layers[-1]["name"], 0, 0]]}
    return {"class_name": "Functional", "config": {"name": name, "layers": layers, **ends}, "name": name}


@pytest.mark.parametrize("layer", [keras_2, keras_3])
def test_layers_are_connected_past_those_that_change_nothing(layer: Any) -> None:
    found = Connections(
        json.dumps(
            model(
                [
                    layer("in", kind="InputLayer"),
                    layer("a", "in"),
                    layer("drop", "a", kind="Dropout"),
                    layer("b", "drop"),
                    layer("c", "drop", "b"),
                ]
            )
        )
    )
    assert found.behind("a") == {"b", "c"}
    assert found.behind("b") == {"c"}
    assert found.behind("c") == found.behind("unknown") == set()


@pytest.mark.parametrize("layer", [keras_2, keras_3])
def test_a_model_in_a_model_is_its_first_and_its_last_layers(layer: Any) -> None:
    inner = model([layer("x", kind="InputLayer"), layer("first", "x"), layer("last", "first")], "inner")
    called = {**inner, "inbound_nodes": layer("inner", "a")["inbound_nodes"]}
    whole = model([layer("in", kind="InputLayer"), layer("a", "in"), called, layer("b", "inner")])
    found = Connections(json.dumps(whole))
    assert found.behind("a") == {"first"}
    assert found.behind("last") == {"b"}


def test_the_layers_of_a_sequential_model_follow_each_other() -> None:
    layers = [{"class_name": "Dense", "config": {"name": name}} for name in "abc"]
    for config in ({"name": "model", "layers": layers}, layers):
        found = Connections(json.dumps({"class_name": "Sequential", "config": config}))
        assert (found.behind("a"), found.behind("c")) == ({"b"}, set())


@pytest.mark.parametrize("config", [None, [], 7, {"layers": [3, {"config": None}, {}]}, {"layers": "abc"}])
def test_configurations_that_are_none_connect_nothing(config: Any) -> None:
    assert Connections(json.dumps({"class_name": "Functional", "config": config})).behind("a") == set()


def test_a_ring_of_layers_ends() -> None:
    ring = [keras_2("a", "c", kind="Dropout"), keras_2("b", "a", kind="Dropout"), keras_2("c", "b")]
    assert Connections(json.dumps(model(ring))).behind("a") == {"c"}


def layers_of(*names: str) -> list[SourceLayer]:
    roles = (
        {"running_mean": "", "running_var": ""} if "bn" in name or "norm" in name else {"weight": name}
        for name in names
    )
    return [
        SourceLayer(number, tuple(name.split(".")), role)
        for number, (name, role) in enumerate(zip(names, roles, strict=True))
    ]


@pytest.mark.parametrize(
    ("names", "layer", "expected"),
    [
        (("conv1", "conv2", "bn1", "bn2"), "conv2", "bn2"),
        (("stem", "a", "bn", "bn_a"), "a", "bn_a"),
        (("stem", "a", "bn", "bn_a"), "stem", "bn"),
        (("l.0.conv1", "l.1.conv1", "l.0.bn1", "l.1.bn1"), "l.1.conv1", "l.1.bn1"),
        (("a", "b", "bn_x", "bn_y"), "a", "bn_x bn_y"),
        (("conv1", "x", "bn1", "bn_y"), "x", "bn_y"),
        (("block1_conv2", "block1_conv2_bn", "block2_conv1_bn"), "block1_conv2", "block1_conv2_bn"),
    ],
)
def test_names_tell_which_normalization_is_behind_a_layer(
    names: tuple[str, ...], layer: str, expected: str
) -> None:
    found = {one.name.replace("/", "."): one for one in layers_of(*names)}
    norms = [one for one in found.values() if one.is_batch_normalization]
    told = folded_by_names(found[layer], norms, [*found.values()])
    assert [one.name.replace("/", ".") for one in told] == expected.split()
