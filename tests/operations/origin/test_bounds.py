"""Bounds on the difference between a weight of an export and the value that a rule gives."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_cli.operations.origin.bounds import _is_coarse


@pytest.mark.parametrize(("step", "is_coarse"), [(0.99, False), (1.0, False), (1.02, True), (1.9, True)])
def test_integers_prove_nothing_once_a_step_exceeds_every_value(step: float, is_coarse: bool) -> None:
    values = np.array([[1.0, -0.5], [0.25, 1.0]], dtype="<f4")
    assert _is_coarse(np.float64(step), values) is is_coarse
    assert _is_coarse(np.array([[0.1, step]]), values) is is_coarse


def test_a_channel_of_zeros_is_not_coarse() -> None:
    assert not _is_coarse(np.array([[0.1, 5.0]]), np.array([[1.0, 0.0]], dtype="<f4"))
