"""Comparing values: by definition, in pieces, and without reading where checksums tell."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ckpt_cli.operations.compare.comparison import Operand, checksum, compare, same_checksum
from ckpt_cli.operations.compare.diff import DiffOptions, diff_pairs
from ckpt_cli.operations.compare.measure import EQUAL, SAME, Difference, Tolerance
from ckpt_cli.operations.compare.pairs import pair_up
from formats import ChecksumError, LazyTensor, open_checkpoint
from formats.core import dtypes
from formats.core.chunks import PIECE
from formats.store import ranges
from formats.store.work.workers import TASK_BYTES, Workers
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.support import numbers, partitioned, shard_path, strings, variants, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from pathlib import Path

BIG_ENDIAN = BundleHeaderProto(num_shards=1, endianness=1, version=VersionDef(producer=1))
FLOATS = (0.0, -0.0, 1.0, -2.0, 0.5, 3.25, math.nan, math.inf, -math.inf)
NUMERIC = [dtype for dtype in dtypes.BY_NUMBER.values() if dtype.itemsize is not None]


def compared(directory: Path, left: Any, right: Any, tolerance: Tolerance = EQUAL, **how: Any) -> Difference:
    """Return what `compare` says of two tensors, each in a bundle of its own."""
    sides = []
    for name, value in (("left", left), ("right", right)):
        write_bundle(str(directory / name), {"t": value})
        sides.append(open_checkpoint(directory / name))
    with sides[0], sides[1]:
        return compare(Operand(sides[0], "t"), Operand(sides[1], "t"), tolerance, **how)


def test_the_largest_difference_is_absolute_and_relative_to_the_right(tmp_path: Path) -> None:
    left, right = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.5, 2.0, 4.0])
    assert compared(tmp_path, left, right) == Difference(2, 1.0, 0.5)


def test_a_change_from_zero_is_infinitely_large(tmp_path: Path) -> None:
    assert compared(tmp_path, np.float32([1, 2]), np.float32([0, 2])) == Difference(1, 1.0, math.inf)


@pytest.mark.parametrize(
    ("tolerance", "differing"),
    [
        (Tolerance(), 3),
        (Tolerance(atol=0.25), 2),
        (Tolerance(rtol=0.1), 2),  # 0.25 <= 0.1 * 4
        (Tolerance(rtol=0.1, atol=0.5), 1),
        (Tolerance(atol=2), 0),
    ],
)
def test_tolerances_are_relative_to_the_right_and_absolute(
    tolerance: Tolerance, differing: int, tmp_path: Path
) -> None:
    left, right = np.array([3.75, 0.5, 2.0, 7.0]), np.array([4.0, 0.0, 0.0, 7.0])
    found = compared(tmp_path, left, right, tolerance)
    assert (found.differing, found.max_abs) == (differing, 2.0)


def test_nan_equals_nan_with_any_bits(tmp_path: Path) -> None:
    left = np.array([0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    right = np.array([0xFFC00001, 0x3F800000], np.uint32).view(np.float32)
    assert compared(tmp_path, left, right) == SAME


def test_a_nan_on_one_side_is_a_difference_of_nan(tmp_path: Path) -> None:
    found = compared(tmp_path, np.array([1.0, 2.0, 3.0]), np.array([9.0, math.nan, 3.0]), Tolerance(10, 10))
    assert found.differing == 1
    assert math.isnan(found.max_abs or 0)
    assert math.isnan(found.max_rel or 0)


def test_infinities_equal_only_themselves_at_any_tolerance(tmp_path: Path) -> None:
    left, right = np.array([math.inf, -math.inf, math.inf]), np.array([math.inf, math.inf, 1.0])
    found = compared(tmp_path, left, right, Tolerance(rtol=1))
    assert (found.differing, found.max_abs) == (2, math.inf)


def test_zeros_of_both_signs_are_equal(tmp_path: Path) -> None:
    assert compared(tmp_path, np.float32([0.0]), np.float32([-0.0])) == SAME


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [
        (np.int64([2**53 + 1]), np.int64([2**53]), 1.0),
        (np.int64([-(2**63)]), np.int64([2**63 - 1]), 2.0**64),
        (np.uint64([0]), np.uint64([2**64 - 1]), 2.0**64),
        (np.uint8([0]), np.uint8([255]), 255.0),
        (np.array([True]), np.array([False]), 1.0),
        (np.complex64([3 + 4j]), np.complex64([0]), 5.0),
    ],
)
def test_integers_bools_and_complex_numbers_have_exact_distances(
    left: np.ndarray, right: np.ndarray, distance: float, tmp_path: Path
) -> None:
    found = compared(tmp_path, left, right)
    assert (found.differing, found.max_abs) == (1, distance)


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_every_dtype_is_compared(dtype: dtypes.DType, tmp_path: Path) -> None:
    left = numbers(np.array([1, 0, 1], dtype.numpy), dtype=dtype.name)
    right = numbers(np.array([1, 1, 1], dtype.numpy), dtype=dtype.name)
    assert compared(tmp_path, left, right) == Difference(1, 1.0, 1.0)
    assert compared(tmp_path, right, right, exact=True) == SAME


def test_strings_and_variants_are_compared_as_bytes(tmp_path: Path) -> None:
    assert compared(tmp_path, strings([b"a", b"\xff"]), strings([b"a", b"\xfe"])) == Difference(1)
    assert compared(tmp_path, strings([b"ab", b""]), strings([b"a", b"b"])) == Difference(2)
    assert compared(tmp_path, strings([b"a"]), strings([b"a"]), exact=True) == Difference(0)
    assert compared(tmp_path, variants([b"v", b"w"]), variants([b"v", b"x"])) == Difference(1)


def test_empty_tensors_are_the_same(tmp_path: Path) -> None:
    assert compared(tmp_path, np.zeros((0, 3)), np.zeros((0, 3)), exact=True) == SAME


def test_equal_checksums_are_believed_and_nothing_is_read(tmp_path: Path) -> None:
    value = np.arange(8.0)
    write_bundle(str(tmp_path / "left"), {"t": value})
    write_bundle(str(tmp_path / "right"), {"t": value})
    os.unlink(shard_path(str(tmp_path / "right")))
    with open_checkpoint(tmp_path / "left") as left, open_checkpoint(tmp_path / "right") as right:
        assert compare(Operand(left, "t"), Operand(right, "t")) == SAME


def test_exact_reads_what_checksums_say_is_the_same(tmp_path: Path) -> None:
    value = np.arange(8.0)
    write_bundle(str(tmp_path / "left"), {"t": value})
    write_bundle(str(tmp_path / "right"), {"t": value})
    with open(shard_path(str(tmp_path / "right")), "r+b") as file:
        file.seek(9)
        file.write(b"\xff")
    with (
        open_checkpoint(tmp_path / "left") as left,
        open_checkpoint(tmp_path / "right") as right,
        pytest.raises(ChecksumError, match="'t'"),
    ):
        compare(Operand(left, "t"), Operand(right, "t"), exact=True)


def test_checksums_of_other_byte_orders_or_slices_are_not_compared(tmp_path: Path) -> None:
    value = np.arange(6, dtype=np.float32).reshape(3, 2)
    write_bundle(str(tmp_path / "plain"), {"t": value})
    write_bundle(str(tmp_path / "swapped"), {"t": numbers(value, big_endian=True)}, header=BIG_ENDIAN)
    whole = ((0, -1), (0, -1))
    halves = partitioned(value, [((0, 1), whole[1]), ((1, 2), whole[1])])
    write_bundle(str(tmp_path / "sliced"), {"t": halves})
    names = ("plain", "swapped", "sliced")
    plain, swapped, sliced = readers = [open_checkpoint(tmp_path / name) for name in names]
    try:
        for left, right in ((plain, swapped), (plain, sliced), (swapped, sliced)):
            assert same_checksum(left["t"], right["t"]) is None
            assert compare(Operand(left, "t"), Operand(right, "t")) == SAME
        assert len({checksum(reader["t"]) for reader in readers}) == 1
    finally:
        for reader in readers:
            reader.close()


class WithoutChecksum(LazyTensor):
    """A tensor as a format without checksums hands it out."""

    def __init__(self, tensor: LazyTensor) -> None:
        super().__init__(tensor.spec)
        self._tensor = tensor

    def read(self) -> np.ndarray:
        return self._tensor.read()

    def read_region(self, index: Any) -> np.ndarray:
        return self._tensor.read_region(index)


@pytest.mark.parametrize(
    "value",
    [strings([b"ab", b"", b"c"]), variants([b"v", b"longer"]), np.arange(PIECE // 4), np.zeros(0)],
    ids=["strings", "variants", "numbers", "empty"],
)
def test_a_computed_checksum_is_the_one_a_bundle_stores(value: Any, tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "b"), {"t": value})
    with open_checkpoint(tmp_path / "b") as reader:
        assert checksum(WithoutChecksum(reader["t"])) == reader["t"].stored.crc32c


def test_progress_adds_up_to_the_bytes(tmp_path: Path) -> None:
    told: list[int] = []
    value = np.zeros(PIECE // 2 + 3)
    other = value.copy()
    other[-1] = 1
    assert compared(tmp_path, value, other, advance=told.append).differing == 1
    assert sum(told) == value.nbytes
    assert max(told) <= TASK_BYTES


def test_counting_stops_early_where_that_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TASK_BYTES", PIECE)
    value = np.zeros(PIECE)
    for name, array in (("left", value), ("right", value + 1)):
        save(tmp_path / f"{name}.safetensors", {"t": array}, "safetensors")
    left, right = (open_checkpoint(tmp_path / f"{name}.safetensors") for name in ("left", "right"))
    with left, right:
        found = compare(Operand(left, "t"), Operand(right, "t"), stop_early=True)
    assert found.differing == PIECE // 8


@pytest.mark.parametrize(
    ("stop_on", "differing"), [((), PIECE), (("value",), PIECE // 8), (("shape",), PIECE)]
)
def test_a_comparison_ends_early_where_it_was_requested_to(
    tmp_path: Path, stop_on: tuple[str, ...], differing: int
) -> None:
    """With the first range that differs; otherwise all are counted as one tensor."""
    value = np.zeros(PIECE)
    for name, array in (("left", value), ("right", value + 1)):
        save(tmp_path / f"{name}.safetensors", {"t": array}, "safetensors")
    left, right = (open_checkpoint(tmp_path / f"{name}.safetensors") for name in ("left", "right"))
    workers = Workers()
    workers.task_bytes = PIECE
    with left, right:
        found = diff_pairs(left, right, pair_up(left, right), DiffOptions(stop_on=stop_on), workers=workers)
    (entry,) = found.entries
    assert entry.difference is not None
    assert entry.difference.differing == differing


@pytest.mark.parametrize(("stop_on", "stops"), [((), False), (("value",), True), (("shape",), False)])
def test_values_that_are_streamed_end_early_where_that_is_enough(
    tmp_path: Path, stop_on: tuple[str, ...], stops: bool
) -> None:
    """Compressed chunks have no range in the file."""
    value = np.zeros(PIECE)
    for name, array in (("left", value), ("right", value + 1)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("t", data=array, compression="gzip", compression_opts=1)
    with open_checkpoint(tmp_path / "left.h5") as left, open_checkpoint(tmp_path / "right.h5") as right:
        (entry,) = diff_pairs(left, right, pair_up(left, right), DiffOptions(stop_on=stop_on)).entries
    assert entry.difference is not None
    assert (0 < entry.difference.differing < PIECE) == stops
    assert stops or entry.difference.differing == PIECE


@pytest.mark.parametrize("format", ["tf-name", "npz"])
def test_counting_continues_to_the_checksum_where_there_is_one(tmp_path: Path, format: str) -> None:  # noqa: A002
    suffix = ".npz" if format == "npz" else ""
    value = np.zeros(PIECE)
    for name in ("left", "right"):
        save(tmp_path / (name + suffix), {"t": value}, format)
    damaged = tmp_path / ("right" + (suffix or ".data-00000-of-00001"))
    data = bytearray(damaged.read_bytes())
    data[5000] ^= 1
    damaged.write_bytes(data)
    left, right = (open_checkpoint(tmp_path / (name + suffix)) for name in ("left", "right"))
    with left, right, pytest.raises(ChecksumError):
        compare(Operand(left, "t"), Operand(right, "t"), exact=True, stop_early=True)


@given(data=st.data(), shape=npst.array_shapes(max_dims=3, max_side=5))
def test_differences_are_numpys(data: st.DataObject, shape: tuple, tmp_path_factory: Any) -> None:
    values = npst.arrays(np.float32, shape, elements=st.sampled_from(FLOATS))
    left, right = data.draw(values), data.draw(values)
    rtol, atol = data.draw(st.sampled_from([0, 0.5])), data.draw(st.sampled_from([0, 0.25]))
    found = compared(tmp_path_factory.mktemp("pair"), left, right, Tolerance(rtol, atol), exact=True)
    a, b = left.astype(float), right.astype(float)
    close = np.isclose(a, b, rtol, atol, equal_nan=True) | (a == b)
    assert found.differing == np.count_nonzero(~close)
    with np.errstate(all="ignore"):
        unequal = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        delta = np.abs(a - b)[unequal]
        expected = (delta.max(), (delta / np.abs(b)[unequal]).max()) if delta.size else (0, 0)
    np.testing.assert_equal((found.max_abs, found.max_rel), expected)
