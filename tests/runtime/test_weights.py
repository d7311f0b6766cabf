"""Live models presented as units: they have the places that their configurations tell."""

from __future__ import annotations

import pytest

import formats
from ckpt_cli.runtime.graph_view import GraphView
from ckpt_cli.runtime.keras.weights import in_layers, in_objects
from ckpt_cli.runtime.outputs import built_model
from ckpt_cli.runtime.saving import serialize
from formats.keras.facts import keras_facts
from formats.keras.match import fill
from formats.keras.model import from_config, legacy_order
from formats.keras.variable_layout import Placed, graph_of, weights_layout
from tests.support import data_path

MODELS = [
    "keras_mlp/mlp.full.h5",
    "keras_conv/conv.full.h5",
    "keras_rnn/rnn.full.h5",
    "keras_attention/attn.full.h5",
    "keras_nested/nest.full.h5",
    "keras3_mlp/mlp.keras",
    "keras3_conv/conv.keras",
    "keras3_rnn/rnn.keras",
]


@pytest.mark.parametrize("path", MODELS)
def test_a_live_model_has_the_places_that_its_configuration_shows(path: str) -> None:
    with formats.open_checkpoint(data_path(path)) as reader:
        unit = from_config(keras_facts(reader.facts).config or "")
        fill(unit, reader)
        model = built_model(reader)
    tensors, _ = serialize(GraphView(model).graph())
    assert {tensor.key for tensor in tensors} == {key for _, key in graph_of(unit)[1]}
    assert _keys(weights_layout(in_objects(model, keras3=True))) == _keys(weights_layout(unit))
    in_order = [legacy_order(layer) for layer in in_layers(model).layers]
    assert [len(held) for held in in_order if held] == [
        len(legacy_order(layer)) for layer in unit.layers if layer.has_weights()
    ]


def _keys(layout: tuple[list[Placed], dict[str, str]]) -> set[str]:
    return {key for _, key in layout[0]}
