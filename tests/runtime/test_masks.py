"""Masks: what the runtime makes of them is what TensorFlow made of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from tests.interop import masked
from tests.support import data_path


def recorded() -> dict[str, dict[str, Any]]:
    """Return what TensorFlow 2.15 answered, by row."""
    with open(data_path("keras_masks", "answers.jsonl"), encoding="utf-8") as file:
        return {row.pop("row"): row for row in map(json.loads, file)}


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    return masked.answers(tf)


@pytest.mark.parametrize("name", recorded())
def test_masks_are_tensorflows(answers: dict[str, dict[str, Any]], name: str) -> None:
    assert_same(answers[name], recorded()[name])


def test_every_row_is_recorded() -> None:
    assert list(masked.rows(tf)) == list(recorded())


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.get("error") == expected.get("error")
    values, wanted = found.get("values", []), expected.get("values", [])
    assert [value is None for value in values] == [value is None for value in wanted]
    for value, want in zip(values, wanted, strict=True):
        if want is not None:
            assert np.shape(value) == np.shape(want)
            np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)
