"""tf.random.Generator draws the same numbers under TensorFlow and here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli.runtime as tf

if TYPE_CHECKING:
    from conftest import TensorFlow

STATES = [[0, 0, 0], [7, 0, -1], [-3, 2**62, 12345678901234567]]
"""The second carries through the low half of the counter."""

FLOATS = ["float16", "bfloat16", "float32", "float64"]
COUNT = 4097

# A last bit of the machine's logarithm or sine; a radius of up to six makes it more.
LAST_BITS = {"float16": 0.0, "bfloat16": 0.0, "float32": 5e-7, "float64": 1e-15}


def drawn(method: str, state: list[int], dtype: str, bounds: tuple[int, ...]) -> tuple[list, list]:
    generator = tf.random.Generator.from_state(state, alg="philox")
    found = getattr(generator, method)([COUNT], *bounds, dtype=dtype).numpy()
    values = found.astype("f8") if dtype in FLOATS else found
    return values.tolist(), generator.state.numpy().tolist()


EXACT = [
    *[("uniform", dtype, ()) for dtype in FLOATS],
    *[("uniform", dtype, (-5, 2)) for dtype in FLOATS],
    *[("uniform", dtype, (-70, 1000)) for dtype in ("int32", "int64")],
    *[("uniform_full_int", dtype, ()) for dtype in ("int32", "int64", "uint32", "uint64")],
]


@pytest.mark.parametrize("state", STATES, ids=str)
@pytest.mark.parametrize(("method", "dtype", "bounds"), EXACT)
def test_uniform_numbers_are_tensorflows(
    tensorflow: TensorFlow, state: list[int], method: str, dtype: str, bounds: tuple[int, ...]
) -> None:
    what = {"method": method, "state": state, "dtype": dtype, "bounds": bounds}
    assert drawn(**what) == tuple(tensorflow.ask("random", "draw", count=COUNT, **what))


@pytest.mark.parametrize("state", STATES, ids=str)
@pytest.mark.parametrize("method", ["normal", "truncated_normal"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_numbers_are_tensorflows_to_the_last_bits(
    tensorflow: TensorFlow, state: list[int], method: str, dtype: str
) -> None:
    """Of float32 all but two in a hundred are equal; none is further off than `LAST_BITS`."""
    what = {"method": method, "state": state, "dtype": dtype, "bounds": ()}
    values, after = drawn(**what)
    expected, expected_after = tensorflow.ask("random", "draw", count=COUNT, **what)
    assert after == expected_after
    np.testing.assert_allclose(values, expected, rtol=0, atol=LAST_BITS[dtype])
    assert np.mean(np.array(values) != expected) < 0.05
