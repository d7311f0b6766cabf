"""How far the blocks of a quantized weight may be from the values that they are to hold."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_cli.operations.origin import blocks

LIMITS = {
    "Q4_0": (0.25, 0.5, 0.9),
    "Q4_1": (0.2, 0.65, 0.9),
    "Q5_0": (0.15, 0.3, 0.9),
    "Q5_1": (0.1, 0.25, 0.9),
    "Q2_K": (0.6, 1.0, 1.25),
    "Q3_K": (0.3, 0.6, 0.9),
    "Q4_K": (0.2, 0.45, 0.9),
    "Q5_K": (0.1, 0.25, 0.9),
    "Q6_K": (0.1, 0.3, 0.9),
    "IQ4_NL": (0.2, 0.4, 0.9),
    "IQ4_XS": (0.2, 0.4, 0.9),
    "MXFP4": (0.25, 0.3, 0.9),
    "NVFP4": (0.15, 0.25, 0.9),
}
"""Errors just beyond what llama.cpp makes: of a row, of an element and of a column."""

ROW = 4096


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return rows; blocks decode to themselves, and no type can be quantized again."""
    monkeypatch.setattr(blocks, "ENCODERS", {})
    monkeypatch.setattr(blocks, "DECODERS", dict.fromkeys(LIMITS, lambda raw: raw))
    found = np.random.default_rng(5).standard_normal((32, ROW)).astype("f4")
    found[:, 0] = 0
    return found


def is_near(name: str, values: np.ndarray, error: np.ndarray) -> bool:
    found = blocks.BlockComparison(name, ROW)
    found.add(values + error.astype("f4"), values)
    return found.result().is_proved


def test_every_type_has_limits() -> None:
    assert blocks.BOUNDS.keys() == LIMITS.keys()
    assert blocks.bound_of("Q8_0", ROW) is None


@pytest.mark.parametrize("factor", [0.98, 1.02])
@pytest.mark.parametrize("name", LIMITS)
def test_errors_of_rows_elements_and_columns_are_limited(
    name: str, factor: float, values: np.ndarray
) -> None:
    row, element, column = LIMITS[name]
    signs = np.where(np.arange(ROW) % 2, 1, -1)
    of_rows = signs * np.sqrt(np.square(values).mean(1, keepdims=True)) * row * (1 + 256 / ROW)
    largest = np.abs(values[3, 256:512]).max()
    of_element, of_column = np.zeros_like(values), np.zeros_like(values)
    of_element[3, 300] = element * largest
    of_column[:, 0] = column * np.sqrt(np.square(values).mean()) / 2
    for error in (of_rows, of_element, of_column):
        assert is_near(name, values, factor * error) == (factor < 1)
        assert not is_near(name, values, np.where(error == error.max(), np.nan, 0))


@pytest.mark.parametrize(("row", "limit"), [(32, 0.5), (256, 0.5), (512, 0.375), (25600, 0.2525)])
def test_short_rows_may_be_farther(row: int, limit: float) -> None:
    assert blocks.bound_of("Q4_0", row) == pytest.approx(limit)
    assert blocks.bound_of("Q2_K", 256) == 0.7
