"""The table of Keras' layers, row by row, against what Keras 2 and Keras 3 build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import ckpt_cli.runtime as tf
from ckpt_cli.runtime.keras.from_config import model_from_config
from formats.keras.config import LayerWeights, check_in_order, expected_weights
from formats.keras.layers import LAYERS, edge_spellings
from formats.keras.model import Unit, from_config, legacy_order

if TYPE_CHECKING:
    from conftest import TensorFlow


def _recurrent(class_name: str, **options: Any) -> tuple[str, dict[str, Any], list[int]]:
    return class_name, {"units": 3, **options}, [5, 2]


LAYERS_BUILT: list[tuple[str, dict[str, Any], list[int]]] = [
    ("BatchNormalization", {}, [4, 5]),
    ("BatchNormalization", {"scale": False, "axis": 1}, [4, 5]),
    ("Bidirectional", {"layer": {"class": "LSTM", "options": {"units": 3}}}, [5, 2]),
    ("Conv1D", {"filters": 3, "kernel_size": 2}, [6, 4]),
    ("Conv1DTranspose", {"filters": 3, "kernel_size": 2}, [6, 4]),
    ("Conv2D", {"filters": 6, "kernel_size": [2, 3], "groups": 2}, [6, 6, 4]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": 2, "use_bias": False}, [6, 6, 4]),
    ("Conv3D", {"filters": 3, "kernel_size": 2}, [4, 4, 4, 2]),
    ("Conv3DTranspose", {"filters": 3, "kernel_size": 2}, [4, 4, 4, 2]),
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
    ("SeparableConv1D", {"filters": 3, "kernel_size": 2, "depth_multiplier": 2}, [6, 4]),
    ("SeparableConv2D", {"filters": 3, "kernel_size": 2, "depth_multiplier": 2}, [6, 6, 4]),
    ("TimeDistributed", {"layer": {"class": "Dense", "options": {"units": 3}}}, [5, 4]),
]


def test_every_row_with_weights_is_built() -> None:
    """Cells are built within their layers."""
    with_weights = {name for name, row in LAYERS.items() if row.weights or row.cell or row.parts or row.wraps}
    assert with_weights - {row.cell for row in LAYERS.values()} == {name for name, _, _ in LAYERS_BUILT}


def test_rows_tell_the_weights_that_keras_makes(tensorflow: TensorFlow) -> None:
    """Names, order, which of them are trained, and shapes; and a shape that is another is noticed."""
    answers = tensorflow.ask("keras", "layer_weights", layers=LAYERS_BUILT)
    for (class_name, _, _), (config, weights, _) in zip(LAYERS_BUILT, answers, strict=True):
        unit = from_config(config).layers[-1]
        assert (unit.class_name, unit.known) == (class_name, True)
        told = legacy_order(unit)
        assert len(told) == len(weights), class_name
        for variable, (name, _, is_trained) in zip(told, weights, strict=True):
            assert name in edge_spellings(variable.name), class_name
            assert variable.trainable == is_trained, (class_name, name)
        _check_shapes(unit, [tuple(shape) for _, shape, _ in weights])


def _check_shapes(unit: Unit, shapes: list[tuple[int, ...]]) -> None:
    if unit.class_name in ("Bidirectional", "MultiHeadAttention", "TimeDistributed"):
        return  # What is within has a row of its own.
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


def _convolved(class_name: str, rank: int, **more: Any) -> list[tuple[str, dict[str, Any], list[int]]]:
    """Return a convolution with each of its options in turn, over images of odd and of even sizes."""
    image, kernel = [7, 6, 5][:rank], [3, 2, 2][:rank]
    plain = {"kernel_size": kernel, **more}
    options: list[dict[str, Any]] = [
        {},
        {"padding": "same", "use_bias": False},
        {"strides": 2},
        {"strides": 2, "padding": "same", "activation": "tanh"},
        {"dilation_rate": 2},
        {"dilation_rate": 2, "padding": "same"},
    ]
    return [(class_name, {**plain, **one}, [*image, 4]) for one in options]


def _within(class_name: str, shape: list[int], **options: Any) -> tuple[str, dict[str, Any], list[int]]:
    return "TimeDistributed", {"layer": {"class": class_name, "options": options}}, shape


LAYERS_RUN: list[tuple[str, dict[str, Any], list[int]]] = [
    *_convolved("Conv1D", 1, filters=6),
    ("Conv1D", {"filters": 6, "kernel_size": 3, "groups": 2}, [7, 4]),
    ("Conv1D", {"filters": 3, "kernel_size": 3, "padding": "causal"}, [7, 4]),
    ("Conv1D", {"filters": 3, "kernel_size": 2, "padding": "causal", "dilation_rate": 3}, [7, 4]),
    ("Conv1D", {"filters": 3, "kernel_size": 2, "padding": "causal", "strides": 2}, [7, 4]),
    *_convolved("Conv2D", 2, filters=6),
    ("Conv2D", {"filters": 6, "kernel_size": 3, "groups": 2, "strides": [2, 1]}, [7, 6, 4]),
    *_convolved("Conv3D", 3, filters=2),
    ("Conv3D", {"filters": 2, "kernel_size": 1, "strides": [2, 1, 3]}, [7, 6, 5, 4]),
    *_convolved("DepthwiseConv2D", 2, depth_multiplier=2),
    *_convolved("Conv2DTranspose", 2, filters=3),
    ("Conv2DTranspose", {"filters": 2, "kernel_size": 2, "strides": [3, 2]}, [4, 3, 4]),
    ("Conv2DTranspose", {"filters": 2, "kernel_size": 3, "strides": 3, "output_padding": [2, 1]}, [4, 3, 4]),
    ("Conv2DTranspose", {"filters": 2, "kernel_size": 1, "strides": 3, "output_padding": 0}, [4, 3, 4]),
    (
        "Conv2DTranspose",
        {"filters": 2, "kernel_size": [4, 3], "strides": 2, "output_padding": [1, 0], "padding": "same"},
        [4, 3, 4],
    ),
    *_convolved("SeparableConv2D", 2, filters=3, depth_multiplier=2),
    ("GroupNormalization", {"groups": 2}, [6]),
    ("GroupNormalization", {"groups": 3, "epsilon": 0.1}, [4, 3, 6]),
    ("GroupNormalization", {"groups": -1, "scale": False}, [4, 6]),
    ("GroupNormalization", {"groups": 1, "center": False}, [4, 6]),
    ("GroupNormalization", {"groups": 2, "axis": 1}, [4, 3, 5]),
    ("GroupNormalization", {"groups": 2, "axis": -2}, [3, 4, 5]),
    ("LayerNormalization", {}, [4, 6]),
    ("LayerNormalization", {"axis": 1, "epsilon": 0.1}, [4, 6]),
    ("LayerNormalization", {"axis": [1, 2]}, [4, 3, 5]),
    ("LayerNormalization", {"axis": [1, 3], "center": False}, [4, 3, 5]),
    ("LayerNormalization", {"axis": [-1, -2], "scale": False}, [4, 3, 5]),
    ("LayerNormalization", {"center": False, "scale": False}, [6]),
    ("UnitNormalization", {}, [4, 6]),
    ("UnitNormalization", {"axis": [1, 2]}, [4, 3, 5]),
    ("GlobalAveragePooling1D", {}, [5, 4]),
    ("GlobalMaxPooling1D", {"keepdims": True}, [5, 4]),
    _within("Dense", [5, 4], units=3, activation="tanh"),
    _within("Conv2D", [3, 5, 4, 2], filters=3, kernel_size=2),
    _within("BatchNormalization", [5, 4]),
    _within("Flatten", [5, 4, 2]),
    _within("LSTM", [3, 4, 2], units=3),
]


def test_layers_of_a_configuration_compute_what_keras_computes(tensorflow: TensorFlow) -> None:
    """Of Keras 2 and 3: the output, and the gradients by the input and by each weight."""
    rows = [row for row in LAYERS_RUN if tensorflow.is_old or not _only_in_keras_2(*row)]
    answers = tensorflow.ask("keras", "layer_values", layers=rows)
    for row, (config, given, output, gradients) in zip(rows, answers, strict=True):
        x, *weights = (np.array(one, "f4") for one in given)
        model = model_from_config(config, 100_000, keras3=not tensorflow.is_old)
        model.set_weights(weights)
        inputs = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            found = model(inputs, training=False)
            total = tf.reduce_sum(found * _waves(found.shape, 7))
        _assert_close(row, found.numpy(), output)
        for one, theirs in zip(
            tape.gradient(total, [inputs, *model.trainable_weights]), gradients, strict=True
        ):
            _assert_close(row, one.numpy(), theirs)


def _only_in_keras_2(class_name: str, options: dict[str, Any], _: list[int]) -> bool:
    """Whether TensorFlow 2.21 has no kernel: it refuses dilation rates larger than 1 of this one on a CPU."""
    return class_name == "Conv2DTranspose" and "dilation_rate" in options


def _assert_close(row: Any, found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=str(row))


def _waves(shape: Any, phase: int) -> Any:
    return np.sin(np.arange(np.prod(shape)) * 1.7 + phase).reshape(shape).astype("f4")
