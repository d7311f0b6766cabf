"""Bounds on the difference between a weight of an export and the value that a rule gives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ckpt_cli.operations.origin.bounds import _is_coarse, half_ulp


@pytest.mark.parametrize(("step", "is_coarse"), [(0.99, False), (1.0, False), (1.02, True), (1.9, True)])
def test_integers_prove_nothing_once_a_step_exceeds_every_value(step: float, is_coarse: bool) -> None:
    values = np.array([[1.0, -0.5], [0.25, 1.0]], dtype="<f4")
    assert _is_coarse(np.float64(step), values) is is_coarse
    assert _is_coarse(np.array([[0.1, step]]), values) is is_coarse


def test_a_channel_of_zeros_is_not_coarse() -> None:
    assert not _is_coarse(np.array([[0.1, 5.0]]), np.array([[1.0, 0.0]], dtype="<f4"))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_half_an_ulp_is_half_the_distance_to_the_next_larger_number(kind: type) -> None:
    dtype = np.dtype(kind)
    bits = np.arange(1 << 15, dtype=np.uint64) << np.uint64(8 * dtype.itemsize - 16)
    with np.errstate(invalid="ignore"):
        values, next_larger = (
            each.astype(f"u{dtype.itemsize}").view(dtype).astype("f8") for each in (bits, bits + np.uint64(1))
        )
    is_finite = np.isfinite(values) & np.isfinite(next_larger)
    values, next_larger = values[is_finite], next_larger[is_finite]
    assert values[0] == 0
    for sign in (1, -1):
        assert np.array_equal(half_ulp(sign * values, dtype), (next_larger - values) / 2)


def test_integers_have_no_ulp() -> None:
    assert half_ulp(np.array([0.0, 5.0]), np.dtype(np.int8)).tolist() == [0.0, 0.0]
