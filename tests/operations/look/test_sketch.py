"""Histograms and heat maps do not depend on how values arrive, and count each of them."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.operations.look.sketch import BINS, CELLS, look, look_at
from formats import open_checkpoint
from formats.core.dtypes import dtype_named, from_numpy
from formats.store.work.workers import SERIAL
from tests.support import shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pieces(array: np.ndarray[Any, Any], size: int) -> Iterator[np.ndarray[Any, Any]]:
    flat = array.reshape(-1)
    for at in range(0, flat.size, size):
        yield flat[at : at + size]


def sketch(array: np.ndarray[Any, Any], size: int = 1 << 18, cells: int = CELLS) -> Any:
    dtype = from_numpy(array.dtype)
    assert dtype is not None
    found = look(pieces(array, size), array.shape, dtype, cells)
    assert found.flaw is None
    return found.sketch


RANDOM = np.random.default_rng(3)
SPREADS = {
    "normal": RANDOM.normal(size=5000).astype(np.float32),
    "far from zero": (1e6 + RANDOM.normal(size=5000)).astype(np.float64),
    "of all sizes": np.ldexp(1.0, RANDOM.integers(-1070, 1000, 5000)),
    "zeros, then something": np.concatenate([np.zeros(3000), np.full(9, 1e-30)]),
    "all of float64": np.array([-np.finfo(np.float64).max, np.finfo(np.float64).max, 5e-324]),
    "a hair below zero": np.array([-1e30, -1e-45, -1.0], np.float32),
    "one value": np.full(70, 0.1, np.float32),
    "integers": RANDOM.integers(-5, 90, 4000),
    "bool": RANDOM.integers(0, 2, 4000).astype(bool),
    "narrow": RANDOM.normal(size=4000).astype(np.float16),
    "holes": np.array([np.nan, 1.0, np.inf, -np.inf, 2.5, np.nan]),
}


@pytest.mark.parametrize("name", SPREADS)
def test_every_finite_value_is_in_its_bin(name: str) -> None:
    values = SPREADS[name]
    found = sketch(values).histogram
    finite = values.astype(np.float64)[np.isfinite(values.astype(np.float64))]
    edges = [(found.first + at) * found.width for at in range(len(found.counts) + 1)]
    expected = [int(((finite >= low) & (finite < high)).sum()) for low, high in itertools.pairwise(edges)]
    if name != "a hair below zero":  # this is zero in float32, at this scale
        assert found.counts == expected
    assert sum(found.counts) == finite.size
    assert found.counts[0] > 0
    assert found.counts[-1] > 0
    assert len(found.counts) <= BINS
    assert math.frexp(found.width)[0] == 0.5


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_do_not_matter(name: str, size: int) -> None:
    values = SPREADS[name]
    assert sketch(values, size).histogram == sketch(values).histogram
    assert sketch(values[::-1]).histogram == sketch(values).histogram


def means(found: Any) -> np.ndarray[Any, Any]:
    cells = np.frombuffer(found.cells, np.int8).astype(np.float64)
    shape = len(found.slices), found.rows, found.columns
    return np.where(cells == -128, np.nan, cells / 127 * found.scale).reshape(shape)


@pytest.mark.parametrize(
    "shape", [(200, 300), (3, 1000), (1000, 3), (5000,), (7, 1, 9), (5, 70, 90), (2, 2, 3, 80)]
)
@pytest.mark.parametrize("size", [11, 640, 1 << 18])
def test_cells_are_means(shape: tuple[int, ...], size: int) -> None:
    values = RANDOM.normal(size=shape) + np.linspace(0, 9, math.prod(shape)).reshape(shape)
    found = sketch(values, size).heat
    planes = values.reshape(-1, *found.shape)
    rows = [at * found.shape[0] // found.rows for at in range(found.rows)]
    columns = [at * found.shape[1] // found.columns for at in range(found.columns)]
    for place, number in enumerate(found.slices):
        plane = planes[number]
        sums = np.add.reduceat(np.add.reduceat(plane, rows, axis=0), columns, axis=1)
        sizes = np.outer(np.diff([*rows, plane.shape[0]]), np.diff([*columns, plane.shape[1]]))
        assert np.abs(means(found)[place] - sums / sizes).max() <= found.scale / 127
    assert len(found.cells) <= CELLS


def test_of_many_slices_some_are_taken() -> None:
    values = np.zeros((1000, 4, 4), np.float32)
    values[:, 1, 2] = np.arange(1000)
    found = sketch(values).heat
    assert (found.of, found.shape, len(found.slices)) == (1000, (4, 4), 16)
    assert means(found)[:, 1, 2] == pytest.approx(found.slices, abs=found.scale / 127)
    assert not means(found)[:, 0].any()


def test_what_is_not_finite_has_cells_of_its_own() -> None:
    values = np.ones((10, 10), np.float32)
    values[2, 3], values[7, 7] = np.nan, np.inf
    cells = means(sketch(values).heat)[0]
    assert np.argwhere(np.isnan(cells)).tolist() == [[2, 3], [7, 7]]
    assert np.nanmin(cells) == 1.0


@pytest.mark.parametrize(
    ("array", "has_bins", "has_cells"),
    [
        (np.float32(3), True, False),
        (np.zeros((0, 4), np.float32), False, False),
        (np.full(3, np.nan, np.float32), False, True),
        (np.array([1j, 2]), False, False),
    ],
)
def test_what_has_no_picture_has_none(array: Any, has_bins: bool, has_cells: bool) -> None:
    found = sketch(np.asarray(array))
    assert (found.histogram is not None, found.heat is not None) == (has_bins, has_cells)


def test_bfloat16_is_drawn() -> None:
    values = np.linspace(-1, 1, 300, dtype=np.float32).astype(dtype_named("bfloat16").numpy)
    found = look(pieces(values, 77), values.shape, dtype_named("bfloat16"), CELLS).sketch
    assert found is not None
    assert found.histogram is not None
    assert sum(found.histogram.counts) == 300


def test_damage_is_found_and_the_others_are_looked_at(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {name: np.full((4, 4), 2, np.float32) for name in "abc"})
    with open(shard_path(prefix), "r+b") as file:
        file.seek(70)
        file.write(b"\x07")
    with open_checkpoint(prefix) as reader:
        found = dict(look_at(reader, list("abc"), {"a", "b"}, CELLS, SERIAL))
    assert "checksum" in str(found["b"].flaw)
    assert found["b"].statistics is None
    assert found["a"].sketch is not None
    assert found["c"].sketch is None
    assert found["c"].statistics == found["a"].statistics


def test_a_shape_of_more_elements_than_64_bits_count_is_looked_at() -> None:
    """Such as a damaged header says; reading it is an error, and no overflow before."""
    sides = (99_999_999_999, 99_999_999_999)
    found = look(iter([np.ones(5, np.float32)]), sides, dtype_named("float32"), CELLS)
    assert found.flaw is None
