"""How many steps an optimizer has taken: which tensors tell, and which only bear the name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from tests.support import numbers, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ADAM = {name: np.zeros(2, np.float32) for name in ("w", "w/Adam", "w/Adam_1")}
ITER = "optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.mark.parametrize(
    ("told", "steps"),
    [
        ({"global_step": np.int64(7)}, 7),
        ({"beta1_power": np.float32(0.9**6)}, 5),
        ({"beta1_power": np.float32(0.9**6), "global_step": np.int64(5)}, 5),
        # In float32 the powers of 0.999 are off by two steps after 20,000.
        ({"beta2_power": np.float32(0.999**20_001)}, 20_000),
        ({"beta2_power": np.float32(0.999**20_001), "global_step": np.int64(20_002)}, 20_000),
        ({"beta1_power": np.float32(0), "beta2_power": np.float32(0.999**20_001)}, 20_000),
        ({"global_step": np.int64(-4)}, None),
        ({"global_step": np.float32(2.5)}, None),
        ({"global_step": np.zeros(2, np.int64)}, None),
        ({"beta1_power": np.zeros(3, np.float32)}, None),
        ({"beta1_power": np.int32(1)}, None),
        ({"beta1_power": np.float32(0)}, None),
        ({"beta1_power": np.float32("nan")}, None),
        ({}, None),
    ],
)
def test_what_shows_steps(
    told: dict[str, Any], steps: int | None, tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    source, target = str(tmp_path / "names"), str(tmp_path / "objects-1")
    write_bundle(source, {name: numbers(np.asarray(value)) for name, value in {**ADAM, **told}.items()})
    result = ckpt("convert", source, target, "--to", "object")
    assert result.code == 0, result.err
    with formats.open_checkpoint(target) as reader:
        assert (int(reader[ITER].read()) if ITER in reader else None) == steps


@pytest.mark.parametrize("there", [np.float32(2.5), np.int64(3), np.zeros(2, np.float32)])
def test_what_bears_the_name_of_a_count_keeps_it(
    there: Any, tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    source, target = str(tmp_path / "names"), str(tmp_path / "objects-1")
    told = {"w/iter": there, "beta1_power": np.float32(0.9**6)}
    write_bundle(source, {name: numbers(np.asarray(value)) for name, value in {**ADAM, **told}.items()})
    assert ckpt("convert", source, target, "--to", "object").code == 0
    assert ckpt("verify", target).code == 0
    back = str(tmp_path / "back")
    assert ckpt("convert", target, back, "--to", "name").code == 0
    with formats.open_checkpoint(source) as first, formats.open_checkpoint(back) as second:
        assert set(first.specs) <= set(second.specs)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"beta1_power": np.float32(0.9**6.2)},
            "is not a power of beta_1 (0.9 unless the file stores another)",
        ),
        (
            {"beta2_power": np.float32(0.999**20_001), "global_step": np.int64(20_003)},
            "beta2_power (with beta_2 0.999) says 20000 steps, but global_step says 20003",
        ),
        (
            {"beta1_power": np.float32(0.9**101), "global_step": np.int64(101)},
            "beta1_power (with beta_1 0.9) says 100 steps, but global_step says 101",
        ),
    ],
)
def test_powers_are_as_exact_as_float32(
    told: dict[str, Any], said: str, tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    source, target = str(tmp_path / "names"), str(tmp_path / "objects-1")
    write_bundle(source, {name: numbers(np.asarray(value)) for name, value in {**ADAM, **told}.items()})
    result = ckpt("convert", source, target, "--to", "object")
    assert result.code == 3
    assert said in result.err


def test_contradicting_counts_are_an_error_that_names_both_and_the_option(
    tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    source, target = str(tmp_path / "names"), str(tmp_path / "objects-1")
    told = {"beta1_power": np.float32(0.9**6), "global_step": np.int64(700)}
    write_bundle(source, {name: numbers(np.asarray(value)) for name, value in {**ADAM, **told}.items()})
    before = sorted(tmp_path.iterdir())
    result = ckpt("convert", source, target, "--to", "object")
    assert (result.code, result.out) == (3, "")
    assert "beta1_power (with beta_1 0.9) says 5 steps, but global_step says 700" in result.err
    assert "--iterations N" in result.err
    assert sorted(tmp_path.iterdir()) == before
    assert ckpt("convert", source, target, "--to", "object", "--iterations", "6").code == 0
    with formats.open_checkpoint(target) as reader:
        assert int(reader[ITER].read()) == 6
    assert ckpt("verify", source, "--roundtrip", "object").code == 0
