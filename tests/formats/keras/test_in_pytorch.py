"""Layers of a configuration in PyTorch; `tests/interop/test_layouts.py` computes what becomes of them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from formats.core.axes import Cut, Join, parse_steps
from formats.keras.in_pytorch import LAYERS_IN_PYTORCH, LayoutRow, TorchRow, filled_in, remarks_on, rows_of
from formats.keras.model import Edge, ModelError, Unit, Variable, from_config
from formats.keras.torch_shapes import check_tensors, check_variables


def model(class_name: str, beside: dict[str, Any], **config: Any) -> Unit:
    """Return a model of one layer; the entries in `beside` identify the owner of its class."""
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
    """Its kernel may already be (out, in), which the shape of a square one does not show."""
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
def test_what_pytorch_computes_otherwise_is_rejected(
    class_name: str, config: dict[str, Any], words: str
) -> None:
    found = model(class_name, {}, **config)
    (layer,) = found.layers
    # present in a file, even if the table has none
    layer.edges = layer.edges or [Edge("gamma", Variable("gamma"))]
    with pytest.raises(ModelError, match=words):
        rows_of(found)


@pytest.mark.parametrize(
    ("class_name", "config", "words"),
    [
        ("Conv1D", {"padding": "causal", "kernel_size": [3]}, "pads only at the start"),
        ("Conv2D", {"padding": "same", "kernel_size": [3, 3], "strides": [2, 2]}, "pad before the layer"),
        (
            "Conv2DTranspose",
            {"padding": "same", "kernel_size": [3, 3], "strides": [2, 2]},
            "crop after the layer",
        ),
        ("MaxPooling2D", {"padding": "same", "pool_size": [2, 2]}, "pad with -inf"),
        (
            "AveragePooling2D",
            {"padding": "same", "pool_size": [3, 3], "strides": [1, 1]},
            "is left out of the average",
        ),
        ("AveragePooling2D", {"padding": "same", "pool_size": [2, 2]}, "an equally padded mask"),
        ("Embedding", {"mask_zero": True}, "masks time steps"),
        ("LayerNormalization", {"axis": [-2], "epsilon": 1e-5}, "normalizes axis [-2]"),
    ],
)
def test_what_weights_do_not_say_is_reported(class_name: str, config: dict[str, Any], words: str) -> None:
    (remark,) = remarks_on(model(class_name, {}, **config))
    assert words in remark


@pytest.mark.parametrize(
    ("window", "strides", "is_uneven"),
    [
        ([3, 3], [1, 1], False),
        ([2, 3], [1, 1], True),
        ([3, 2], (1, 1), True),
        ((3, 5), None, False),
        ((3, 4), None, True),
        (3, 1, False),
        (4, 1, True),
        (3, 2, True),
        ([3, 3], [1, 2], True),
        ([3, 3], 2, True),
    ],
)
def test_a_padding_is_uneven_for_strides_and_even_windows(
    window: object, strides: object, is_uneven: bool
) -> None:
    layer = model("Conv2D", {}, padding="same", kernel_size=window, strides=strides)
    assert len(remarks_on(layer)) == is_uneven
    layer = model("MaxPooling2D", {}, padding="same", pool_size=window, strides=strides or 1)
    assert len(remarks_on(layer)) == is_uneven


def test_a_pool_steps_by_its_window_where_nothing_else_is_reported() -> None:
    for strides in (None, [3, 3]):
        (remark,) = remarks_on(model("MaxPooling2D", {}, padding="same", pool_size=[3, 3], strides=strides))
        assert "pad with -inf" in remark
    assert remarks_on(model("MaxPooling2D", {}, padding="same", pool_size=[1, 1], strides=None)) == []
    (remark,) = remarks_on(model("AveragePooling2D", {}, padding="same", pool_size=[1, 1], strides=None))
    assert "an equally padded mask" not in remark


def test_axes_are_the_last_ones_of_the_input_they_are_built_for() -> None:
    built = {"build_config": {"input_shape": [None, 6, 6]}}
    (remark,) = remarks_on(model("LayerNormalization", built, axis=[1], epsilon=1e-5))
    assert "normalizes axis [1]" in remark
    assert remarks_on(model("LayerNormalization", built, axis=[1, 2], epsilon=1e-5)) == []
    assert remarks_on(model("LayerNormalization", {}, axis=[1], epsilon=1e-5)) == []  # not known
    assert remarks_on(model("Conv2D", {}, padding="same", kernel_size=[3, 3], strides=[1, 1])) == []


# Shapes -------------------------------------------------------------------------------

TOLD = {"depth_multiplier": 2, "kernel_size": [3], "num_heads": 2, "key_dim": 4}
SIZES = {"O": 6, "I": 5, "K": 3, "L": 4, "M": 2, "D": 8, "C": 7, "N": 9, "H": 4, "E": 8}
ROWS = [(name, row) for name, rows in LAYERS_IN_PYTORCH.items() for row in rows]
of_each_row = pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda each: getattr(each, "weight", each))


def in_pytorch(row: TorchRow) -> tuple[int, ...]:
    """Return a shape that a row takes, spelled by hand once more."""
    words = row.takes.replace("...", "").split()
    return tuple(
        math.prod(int(factor) if factor.isdigit() else SIZES[factor] for factor in word.split("*"))
        for word in words
    )


def laid(name: str, row: TorchRow) -> list[LayoutRow]:
    """Return the rows of a layer that make one tensor of it, or are made of one."""
    sizes = {**TOLD, "kernel_size": [SIZES[word] for word in ("K", "L", "M") if word in row.takes.split()]}
    mine = [one for one in LAYERS_IN_PYTORCH[name] if row.name == one.name or row.weight == one.weight]
    return [
        LayoutRow(
            one.weight,
            one.name,
            parse_steps(filled_in(one.steps, sizes)),
            Variable(one.weight),
            "p",
            name,
            one.takes,
        )
        for one in mine
    ]


def in_keras(row: TorchRow, rows: list[LayoutRow]) -> tuple[int, ...]:
    """Return the shape of the variable that becomes what a row takes."""
    (mine,) = (one for one in rows if (one.old, one.new) == (row.weight, row.name))
    turn = mine.steps.turn
    count = sum(one.new == mine.new for one in rows)
    if isinstance(turn, Join):
        back = mine.steps._replace(turn=turn._replace(parts=count)).inverse()
        return back.shapes([in_pytorch(row)])[0]
    back = mine.steps.inverse()
    return back.shapes([in_pytorch(row)] * (2 if isinstance(turn, Cut) else 1))[0]


@of_each_row
def test_each_row_takes_the_shapes_that_its_words_spell(name: str, row: TorchRow) -> None:
    rows = laid(name, row)
    check_tensors(rows, {row.name: in_pytorch(row)})
    check_variables(rows, {one.old: in_keras(row, rows) for one in rows})


@of_each_row
@pytest.mark.parametrize("change", ["scalar", "one more", "one less", "of one"])
def test_each_row_refuses_other_ranks_in_both_directions(name: str, row: TorchRow, change: str) -> None:
    def changed(shape: tuple[int, ...]) -> tuple[int, ...]:
        return {"scalar": (), "one more": (*shape, 2), "one less": shape[1:], "of one": (*shape, 1)}[change]

    rows, there = laid(name, row), changed(in_pytorch(row))
    if row.takes == "N..." and there:
        check_tensors(rows, {row.name: there})
        return
    with pytest.raises(ModelError) as caught:
        check_tensors(rows, {row.name: there})
    assert f"of layer 'p' ({name}): {row.name!r} has shape {list(there)}, PyTorch takes [" in str(
        caught.value
    )
    held = changed(in_keras(row, rows))
    with pytest.raises(ModelError) as caught:
        check_variables(rows, {one.old: held for one in rows})
    assert f"of layer 'p' ({name}) has shape {list(held)}" in str(caught.value)
    assert "PyTorch takes [" in str(caught.value)


def test_a_number_that_a_layer_has_twice_is_one() -> None:
    rows, _ = rows_of(model("Dense", {}, units=4, use_bias=True))
    check_tensors(rows, {"d.weight": (4, 3), "d.bias": (4,)})
    with pytest.raises(ModelError, match=r"'d.bias' has shape \[5\], PyTorch takes \[O\].*; O is 4"):
        check_tensors(rows, {"d.weight": (4, 3), "d.bias": (5,)})
    with pytest.raises(ModelError, match=r"'d/bias' of layer 'd' \(Dense\) has shape \[5\]"):
        check_variables(rows, {"d/kernel": (3, 4), "d/bias": (5,)})


def test_a_loop_over_cells_is_rejected_by_its_own_name() -> None:
    cells = [{"class_name": "LSTMCell", "config": {"name": "c", "units": 2}}]
    stacked = {"class_name": "StackedRNNCells", "config": {"name": "s", "cells": cells}}
    unit = model("RNN", {}, cell=stacked)
    with pytest.raises(ModelError, match="layer 'd' has class 'RNN', which has no known layout in PyTorch"):
        rows_of(unit, {})
