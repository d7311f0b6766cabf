"""Layers that Keras and the runtime both run: their class, its options, and the shape of an input."""

from __future__ import annotations

from typing import Any

Row = tuple[str, dict[str, Any], list[int]]


def _convolved(class_name: str, rank: int, **more: Any) -> list[Row]:
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


def _within(class_name: str, shape: list[int], **options: Any) -> Row:
    return "TimeDistributed", {"layer": {"class": class_name, "options": options}}, shape


_CELLS = [{"class": name, "options": {"units": units}} for name, units in (("LSTMCell", 3), ("GRUCell", 4))]
_SIGMOID = {"recurrent_activation": "sigmoid"}
_FIRST = {"data_format": "channels_first"}
_IN_KERAS_3: list[Row] = [
    ("MaxPooling2D", {**_FIRST}, [4, 6, 5]),
    ("AveragePooling2D", {"pool_size": 2, "padding": "same", **_FIRST}, [4, 5, 5]),
    ("GroupQueryAttention", {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2}, [5, 4]),
    (
        "GroupQueryAttention",
        {"head_dim": 2, "num_query_heads": 2, "num_key_value_heads": 1, "use_bias": False},
        [5, 4],
    ),
    ("RMSNormalization", {}, [4, 5]),
    ("RMSNormalization", {"epsilon": 0.01}, [4, 5]),
]
"""Rows for Keras 3 alone."""

LAYERS_RUN: list[Row] = [
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
    ("MaxPooling1D", {"pool_size": 3, "strides": 2, "padding": "same"}, [7, 4]),
    ("MaxPooling3D", {"pool_size": [1, 2, 3]}, [4, 5, 6, 2]),
    ("AveragePooling1D", {"pool_size": 2}, [7, 4]),
    ("AveragePooling3D", {"pool_size": 2, "strides": 1, "padding": "same"}, [4, 5, 3, 2]),
    ("ZeroPadding1D", {"padding": [0, 2]}, [5, 4]),
    ("ZeroPadding2D", {"padding": [[0, 1], [2, 0]]}, [5, 4, 2]),
    ("ZeroPadding3D", {}, [2, 3, 2, 2]),
    ("Cropping1D", {"cropping": 1}, [5, 4]),
    ("Cropping2D", {"cropping": [1, 0]}, [5, 4, 2]),
    ("Cropping3D", {"cropping": [[0, 1], [1, 0], [0, 0]]}, [3, 4, 2, 2]),
    ("UpSampling1D", {"size": 3}, [4, 2]),
    ("UpSampling2D", {"size": [1, 2]}, [3, 2, 2]),
    ("UpSampling3D", {}, [2, 2, 3, 2]),
    ("RepeatVector", {"n": 3}, [4]),
    ("SpatialDropout1D", {"rate": 0.5}, [4, 2]),
    ("SpatialDropout2D", {"rate": 0.5}, [3, 4, 2]),
    ("SpatialDropout3D", {"rate": 0.5}, [2, 3, 2, 2]),
    ("GaussianNoise", {"stddev": 0.5}, [4]),
    ("PReLU", {}, [3, 4]),
    ("PReLU", {"shared_axes": [1]}, [3, 4, 2]),
    _within("Dense", [5, 4], units=3, activation="tanh"),
    _within("Conv2D", [3, 5, 4, 2], filters=3, kernel_size=2),
    _within("BatchNormalization", [5, 4]),
    _within("Flatten", [5, 4, 2]),
    _within("LSTM", [3, 4, 2], units=3),
    ("LSTM", {"units": 3, "dropout": 0.5, "recurrent_dropout": 0.25}, [5, 2]),
    ("GRU", {"units": 3, "go_backwards": True, "return_sequences": True, "unroll": True}, [5, 2]),
    ("Bidirectional", {"layer": {"class": "GRU", "options": {"units": 2, "dropout": 0.5}}}, [5, 2]),
    ("RNN", {"cell": {"class": "StackedRNNCells", "options": {"cells": _CELLS}}}, [5, 2]),
    ("RNN", {"cell": _CELLS[1], "return_sequences": True}, [5, 2]),
    ("ConvLSTM1D", {"filters": 2, "kernel_size": 2, "return_sequences": True, **_SIGMOID}, [3, 5, 2]),
    ("ConvLSTM2D", {"filters": 2, "kernel_size": [2, 1], "padding": "same", **_SIGMOID}, [3, 4, 5, 2]),
    ("Normalization", {"mean": [1.0, 2.0, 3.0], "variance": [0.5, 2.0, 4.0]}, [4, 3]),
    ("Normalization", {"axis": 1}, [4, 3]),
    ("MultiHeadAttention", {"num_heads": 2, "key_dim": 3, "attention_axes": 2}, [3, 4, 2]),
    ("MultiHeadAttention", {"num_heads": 2, "key_dim": 3, "output_shape": 5}, [4, 2]),
    ("MaxPooling1D", {"data_format": "channels_first"}, [4, 6]),
    ("ZeroPadding2D", {"padding": [[0, 1], [2, 0]], "data_format": "channels_first"}, [2, 3, 4]),
    ("UpSampling2D", {"size": [1, 2], "data_format": "channels_first"}, [2, 3, 4]),
    ("Flatten", {"data_format": "channels_first"}, [2, 3, 4]),
    ("GlobalAveragePooling2D", {"data_format": "channels_first"}, [2, 3, 4]),
    ("GlobalMaxPooling3D", {}, [2, 3, 2, 2]),
    *_IN_KERAS_3,
]


def is_only_in_keras_2(row: Row) -> bool:
    """Whether Keras 3 cannot answer here.

    TensorFlow 2.21 has no kernel of a CPU for transposed convolutions with dilation. Normalization uses
    statistics from a file, but not those of `set_weights`.
    """
    class_name, options, _ = row
    is_adapted = class_name == "Normalization" and "mean" not in options
    return is_adapted or (class_name == "Conv2DTranspose" and "dilation_rate" in options)


def is_only_in_keras_3(row: Row) -> bool:
    return row in _IN_KERAS_3
