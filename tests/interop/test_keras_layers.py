"""The table of Keras' layers, row by row, against what Keras 2 and Keras 3 build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from formats.keras.config import LayerWeights, check_in_order, expected_weights
from formats.keras.layers import LAYERS, edge_spellings
from formats.keras.model import Unit, from_config, legacy_order
from tests.interop.known_answers import arrays_of_layers, read_layers
from tests.runtime.test_known_answers import assert_close

if TYPE_CHECKING:
    from conftest import TensorFlow


def _recurrent(class_name: str, **options: Any) -> tuple[str, dict[str, Any], list[int]]:
    return class_name, {"units": 3, **options}, [5, 2]


_CELLS = [{"class": name, "options": {"units": units}} for name, units in (("LSTMCell", 3), ("GRUCell", 4))]

LAYERS_BUILT: list[tuple[str, dict[str, Any], list[int]]] = [
    ("AdditiveAttention", {}, [5, 4]),
    ("AdditiveAttention", {"use_scale": False}, [5, 4]),
    ("Attention", {"use_scale": True}, [5, 4]),
    ("Attention", {"score_mode": "concat"}, [5, 4]),
    ("Attention", {}, [5, 4]),
    ("BatchNormalization", {}, [4, 5]),
    ("BatchNormalization", {"scale": False, "axis": 1}, [4, 5]),
    ("Bidirectional", {"layer": {"class": "LSTM", "options": {"units": 3}}}, [5, 2]),
    ("Conv1D", {"filters": 3, "kernel_size": 2}, [6, 4]),
    ("Conv1DTranspose", {"filters": 3, "kernel_size": 2}, [6, 4]),
    ("Conv2D", {"filters": 6, "kernel_size": [2, 3], "groups": 2}, [6, 6, 4]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": 2, "use_bias": False}, [6, 6, 4]),
    ("Conv3D", {"filters": 3, "kernel_size": 2}, [4, 4, 4, 2]),
    ("Conv3DTranspose", {"filters": 3, "kernel_size": 2}, [4, 4, 4, 2]),
    ("ConvLSTM1D", {"filters": 3, "kernel_size": 2}, [2, 5, 4]),
    ("ConvLSTM2D", {"filters": 3, "kernel_size": [2, 3], "use_bias": False}, [2, 5, 5, 4]),
    ("ConvLSTM3D", {"filters": 3, "kernel_size": 2}, [2, 4, 4, 4, 2]),
    ("Dense", {"units": 3}, [4]),
    ("Dense", {"units": 3, "use_bias": False}, [4]),
    ("DepthwiseConv1D", {"kernel_size": 3, "depth_multiplier": 2}, [6, 4]),
    ("DepthwiseConv2D", {"kernel_size": 3, "depth_multiplier": 2}, [6, 6, 4]),
    ("EinsumDense", {"equation": "abc,cd->abd", "output_shape": [None, 3], "bias_axes": "d"}, [5, 4]),
    ("EinsumDense", {"equation": "abc,cd->abd", "output_shape": [None, 3]}, [5, 4]),
    ("Embedding", {"input_dim": 7, "output_dim": 3}, [4]),
    _recurrent("GRU"),
    _recurrent("GRU", reset_after=False),
    _recurrent("GRU", use_bias=False),
    _recurrent("LSTM"),
    _recurrent("SimpleRNN"),
    ("GroupNormalization", {"groups": 2}, [4, 6]),
    ("GroupNormalization", {"groups": 2, "axis": 1, "center": False}, [4, 5]),
    ("LayerNormalization", {"axis": [1, 2]}, [4, 5]),
    ("LayerNormalization", {"center": False}, [4, 5]),
    ("MultiHeadAttention", {"num_heads": 2, "key_dim": 3}, [4, 5]),
    ("MultiHeadAttention", {"num_heads": 2, "key_dim": 3, "use_bias": False}, [4, 5]),
    ("Normalization", {}, [3]),
    ("Normalization", {"axis": [1, 2]}, [4, 3]),
    ("Normalization", {"axis": None}, [4, 3]),
    ("PReLU", {}, [4]),
    ("RNN", {"cell": _CELLS[0]}, [5, 2]),
    ("RNN", {"cell": {"class": "StackedRNNCells", "options": {"cells": _CELLS}}}, [5, 2]),
    ("SeparableConv1D", {"filters": 3, "kernel_size": 2, "depth_multiplier": 2}, [6, 4]),
    ("SeparableConv2D", {"filters": 3, "kernel_size": 2, "depth_multiplier": 2}, [6, 6, 4]),
    ("TimeDistributed", {"layer": {"class": "Dense", "options": {"units": 3}}}, [5, 4]),
]

IN_KERAS_3: list[tuple[str, dict[str, Any], list[int]]] = [
    ("GroupQueryAttention", {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2}, [5, 4]),
    (
        "GroupQueryAttention",
        {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2, "use_bias": False},
        [5, 4],
    ),
    ("RMSNormalization", {}, [5, 4]),
]
"""Layers that Keras 2.15 does not have."""


def test_every_row_with_weights_is_built() -> None:
    """Cells are built within their layers."""
    with_weights = {name for name, row in LAYERS.items() if row.weights or row.cell or row.parts or row.wraps}
    cells = {"StackedRNNCells", *(row.cell for row in LAYERS.values())}
    assert with_weights - cells == {name for name, _, _ in (*LAYERS_BUILT, *IN_KERAS_3)}


def test_rows_tell_the_weights_that_keras_makes(tensorflow: TensorFlow) -> None:
    """Names, order, which of them are trained, and shapes; and a shape that is another is noticed."""
    rows = LAYERS_BUILT if tensorflow.is_old else [*LAYERS_BUILT, *IN_KERAS_3]
    answers = tensorflow.ask("keras", "layer_weights", layers=rows)
    for (class_name, _, _), (config, weights, _) in zip(rows, answers, strict=True):
        unit = from_config(config).layers[-1]
        assert (unit.class_name, unit.known) == (class_name, True)
        told = legacy_order(unit)
        assert len(told) == len(weights), class_name
        for variable, (name, _, is_trained) in zip(told, weights, strict=True):
            assert name in edge_spellings(variable.name), class_name
            assert variable.trainable == is_trained, (class_name, name)
        _check_shapes(unit, [tuple(shape) for _, shape, _ in weights])


def _check_shapes(unit: Unit, shapes: list[tuple[int, ...]]) -> None:
    if LAYERS[unit.class_name].parts or LAYERS[unit.class_name].wraps:
        return  # The inner layers have rows of their own.
    layer = unit.layer or next(child.layer for child in unit.children())
    assert layer is not None
    expected = expected_weights(layer) or []
    assert check_in_order(layer, _stored(shapes), "") == []
    for at, (_, pattern) in enumerate(expected):
        wrong = [*shapes]
        wrong[at] = (*shapes[at], 1)
        assert bool(check_in_order(layer, _stored(wrong), "")) == (pattern is not None)


def _stored(shapes: list[tuple[int, ...]]) -> list[LayerWeights]:
    return [LayerWeights(str(at), str(at), shape) for at, shape in enumerate(shapes)]


def test_rows_tell_the_edges_of_the_object_graph(old_tensorflow: TensorFlow) -> None:
    answers = old_tensorflow.ask("keras", "layer_weights", layers=LAYERS_BUILT, edges=True)
    for (class_name, options, _), (config, _, edges) in zip(LAYERS_BUILT, answers, strict=True):
        unit = from_config(config).layers[-1]
        assert [edge.name for edge in unit.edges] == edges, (class_name, options)


def test_recorded_layers_are_what_keras_computes(tensorflow: TensorFlow) -> None:
    """The recorded configurations, outputs and gradients are those of Keras 2 and 3."""
    recorded = read_layers("keras2" if tensorflow.is_old else "keras3")
    answers = tensorflow.ask("keras", "layer_values", layers=[row for row, _, _ in recorded])
    for (row, config, arrays), found, (written, *_) in zip(
        recorded, arrays_of_layers(answers), answers, strict=True
    ):
        assert json.loads(written) == json.loads(config)
        assert_close(row, found, arrays)
