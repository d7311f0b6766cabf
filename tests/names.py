"""Names that hypothesis makes of meaningful parts, and checkpoints of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

Arrays = dict[str, np.ndarray[Any, Any]]

PARTS = [
    *("w", "a", "b", "dense", "kernel", "layer.1", "1", "0"),
    *(
        "",
        ".",
        "..",
        ".S",
        "..S",
        "%",
        "%2F",
        "%_",
        "_",
        "__1",
        "\\",
        " ",
        "\n",
        "\0",
        "\x1b[31m",
        "é",
        "²",
        "重み",
        "\u202e",
    ),
    *(".ATTRIBUTES", "VARIABLE_VALUE", ".OPTIMIZER_SLOT", "_CHECKPOINTABLE_OBJECT_GRAPH"),
    *("save_counter", "save_counter_1", "optimizer", "optimizer_1", "global_step", "metrics", "keras_api"),
    *(
        "Adam",
        "Adam_1",
        "Adam_2",
        "Momentum",
        "RMSProp",
        "Adagrad",
        "Ftrl",
        "Adafactor",
        "t_0",
        "adam_m",
        "adam_v",
    ),
    *(
        "m",
        "v",
        "iter",
        "_iterations",
        "learning_rate",
        "beta_1",
        "beta1_power",
        "beta2_power",
        "beta1_power_1",
    ),
    *(
        "training",
        "w_slot_v",
        "w_slot_vr",
        "ExponentialMovingAverage",
        "part_0",
        "A\nB",
        "x (m of optimizer)",
    ),
]
"""Parts of names with a meaning to TensorFlow, to its optimizers, to ckpt, or to a terminal."""

NAMES = st.lists(
    st.one_of(st.sampled_from(PARTS), st.text(st.characters(codec="utf-8"), max_size=4)),
    min_size=1,
    max_size=4,
).map("/".join)

ARRAYS = st.sampled_from(
    [
        np.float32(1.5),
        np.ones(2, np.float32),
        np.zeros(2, np.float32),
        np.ones((2, 3), np.float32),
        np.array(7, np.int64),
        np.ones(2, ml_dtypes.bfloat16),
        np.zeros((0,), np.float64),
    ]
).map(np.asarray)


@st.composite
def checkpoints(draw: st.DrawFn) -> Arrays:
    """Return tensors by name, among them slots and everything else of names that were drawn before."""
    names = [name for name in draw(st.lists(NAMES, min_size=1, max_size=5)) if name]
    for _ in range(draw(st.integers(0, 4))):
        about = draw(st.sampled_from(names or ["w"]))
        form = draw(st.sampled_from(["{0}/{1}", "{1}/{0}", "training/Adam/{0}/{1}", "{0}{1}", "{0}_slot_v"]))
        names.append(form.format(about, draw(st.sampled_from(PARTS))))
    shared = draw(ARRAYS)
    arrays = {name: shared if draw(st.integers(0, 3)) else draw(ARRAYS) for name in names if name}
    # Every tensor says which it is, so that none can be taken for another.
    return {
        name: (array + np.asarray(number + 1)).astype(array.dtype)
        for number, (name, array) in enumerate(arrays.items())
    } or {"w": np.ones(2, np.float32)}


KNOWN = [
    ["a", "a/"],
    ["a", "/a", "a/", "a//b", "a/_/b", "/", "//"],
    ["w", "w/Adam", "w/Adam/Adam"],
    ["w", "w/Adam\n", "w/A\nB"],
    ["save_counter", "save_counter_1", "save_counter/x"],
    ["optimizer", "optimizer_1", "w", "w/Adam", "w/Adam_1"],
    ["beta1_power", "beta1_power/Adam"],
    ["_CHECKPOINTABLE_OBJECT_GRAPH", "w"],
    [".ATTRIBUTES/VARIABLE_VALUE", "w/.ATTRIBUTES/VARIABLE_VALUE", "w"],
]
