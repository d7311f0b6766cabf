"""How the table of layers spells shapes and conditions; what it says Keras judges in tests/interop."""

from __future__ import annotations

from typing import Any

import pytest

from formats.keras.layers import LAYERS, Pattern, edge_spellings


@pytest.mark.parametrize(
    ("class_name", "config", "expected"),
    [
        ("Dense", {"units": 3}, {"kernel": ("INPUT", 3), "bias": (3,)}),
        ("Dense", {"units": 3, "use_bias": False}, {"kernel": ("INPUT", 3)}),
        ("Dense", {"units": 3, "bias": False}, {"kernel": ("INPUT", 3)}),  # Keras 1's word
        (
            "DepthwiseConv2D",
            {"kernel_size": [3, 2], "depth_multiplier": 2},
            {"depthwise_kernel": (3, 2, "CHANNELS", 2), "bias": ("depth_multiplier*CHANNELS",)},
        ),
        ("GRUCell", {"units": 2, "use_bias": False}, {"kernel": ("INPUT", 6), "recurrent_kernel": (2, 6)}),
        ("LayerNormalization", {"axis": [1, 2], "scale": False}, {"beta": ("AXES 0", "AXES 1")}),
        ("PReLU", {}, {"alpha": None}),
        ("Attention", {}, {}),
        ("Attention", {"use_scale": True, "score_mode": "dot"}, {"scale": ()}),
        (
            "Attention",
            {"use_scale": True, "score_mode": "concat"},
            {"scale": (), "concat_score_weight": ()},
        ),
        ("AdditiveAttention", {"use_scale": True}, {"scale": ("INPUT",)}),
        ("RMSNormalization", {"axis": -1}, {"scale": ("AXES 0",)}),
        (
            "ConvLSTMCell",
            {"kernel_size": [2, 3], "filters": 5},
            {"kernel": (2, 3, "INPUT", 20), "recurrent_kernel": (2, 3, 5, 20), "bias": (20,)},
        ),
    ],
)
def test_shapes_follow_from_the_configuration(
    class_name: str, config: dict[str, Any], expected: dict[str, Pattern | None]
) -> None:
    assert {row.name: shape for row, shape in LAYERS[class_name].weights_of(config.get)} == expected


def test_the_bias_of_a_gru_has_two_rows_where_it_is_added_after_resetting() -> None:
    found = [LAYERS["GRUCell"].weights_of({"units": 2, "reset_after": after}.get) for after in (False, True)]
    shapes = [shape for weights in found for row, shape in weights if row.name == "bias"]
    assert shapes == [(6,), (2, 6)]


def test_what_only_the_input_shows_may_be_given() -> None:
    found = LAYERS["DepthwiseConv2D"].weights_of(
        {"kernel_size": [1, 1], "depth_multiplier": 2}.get, {"CHANNELS": 5}
    )
    assert [shape for _, shape in found] == [(1, 1, 5, 2), (10,)]


@pytest.mark.parametrize(
    ("class_name", "config", "option"),
    [
        ("Dense", {}, "units"),
        ("Dense", {"units": True}, "units"),
        ("Dense", {"units": -1}, "units"),
        ("Dense", {"units": 1, "lora_rank": 2}, "lora_rank"),
        ("Conv2D", {"filters": 1, "kernel_size": 3}, "kernel_size"),
        ("Conv2D", {"filters": 1, "kernel_size": [3, "3"]}, "kernel_size"),
        ("BatchNormalization", {"renorm": True}, "renorm"),
        ("BatchNormalization", {"axis": [1, 2]}, "axis"),
        ("LayerNormalization", {"rms_scaling": True}, "rms_scaling"),
        ("Normalization", {"mean": 0.0, "variance": 1.0}, "mean"),
    ],
)
def test_options_that_do_not_tell_are_named(class_name: str, config: dict[str, Any], option: str) -> None:
    with pytest.raises(KeyError, match=option):
        LAYERS[class_name].weights_of(config.get)


def test_a_layer_has_the_initializers_of_what_is_within_it() -> None:
    assert LAYERS["LSTM"].initializers() == [
        "kernel_initializer",
        "recurrent_initializer",
        "bias_initializer",
    ]
    assert LAYERS["MultiHeadAttention"].initializers() == ["kernel_initializer", "bias_initializer"]


def test_keras_3_spells_some_edges_otherwise() -> None:
    assert edge_spellings("depthwise_kernel") == ("depthwise_kernel", "_depthwise_kernel", "kernel")
    assert edge_spellings("mean") == ("mean", "_mean", "adapt_mean")
    assert edge_spellings("anything") == ("anything", "_anything")


def test_parts_and_cells_have_rows() -> None:
    parts = {part.class_name for row in LAYERS.values() for part in row.parts}
    assert (parts | {row.cell for row in LAYERS.values()}) - {""} <= set(LAYERS)
