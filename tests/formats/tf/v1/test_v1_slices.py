"""Slices of a V1 checkpoint that do not fit together, in files made by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import CorruptCheckpointError, UnsupportedFeatureError, open_checkpoint
from formats.tf.bundle.slices import slice_key
from formats.wire.messages import (
    SavedSlice,
    SavedSliceMeta,
    SavedTensorSliceMeta,
    SavedTensorSlices,
    VersionDef,
)
from formats.wire.sstable import BlockHandle, Table, encode_block
from tests.support import shape_proto, slice_proto, table_of, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from formats.core.region import Extents


def write_v1(path: str, shape: tuple[int, ...], pieces: list[tuple[Extents, list[float]]]) -> None:
    """Write one float32 tensor `p` in slices."""
    slices = [slice_proto(extents) for extents, _ in pieces]
    meta = SavedSliceMeta(name="p", shape=shape_proto(shape), type=1, slice=slices)
    versions = VersionDef(producer=1)
    rows = {b"": SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=[meta], versions=versions)).encode()}
    for extents, values in pieces:
        packed = np.array(values, np.float32).tobytes()
        data = b"\x2a" + bytes((len(packed),)) + packed
        record = SavedSlice(name="p", slice=slice_proto(extents), data=data)
        rows[slice_key(b"p", extents)] = SavedTensorSlices(data=record).encode()
    write_table(path, sorted(rows.items()))


def write_shards(prefix: str, *metas: SavedSliceMeta) -> None:
    """Write metadata of one tensor, one shard for each, and no values."""
    versions = VersionDef(producer=1)
    for number, meta in enumerate(metas):
        record = SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=[meta], versions=versions))
        write_table(f"{prefix}-{number:05}-of-{len(metas):05}", [(b"", record.encode())])


@pytest.mark.parametrize(
    ("other", "code", "message"),
    [
        ({"shape": (3,)}, "slice", r"the shards disagree: one has float32 \[2\], another float32 \[3\]"),
        ({"type": 2}, "slice", r"the shards disagree: one has float32 \[2\], another float64 \[2\]"),
        ({"type": 99}, "dtype", "dtype number 99 is not valid in V1 checkpoints"),
        ({"shape": (-1,)}, "shape", "-1"),
    ],
)
def test_metadata_that_contradict_are_found_by_their_code(
    tmp_path: Path, other: dict, code: str, message: str
) -> None:
    metas = []
    for how in ({}, other):
        shape = shape_proto(how.get("shape", (2,)))
        slices = [slice_proto(((len(metas), 1),))]
        metas.append(SavedSliceMeta(name="p", shape=shape, type=how.get("type", 1), slice=slices))
    write_shards(str(tmp_path / "m-1"), *metas)
    with open_checkpoint(tmp_path / "m-1") as reader:
        (finding,) = reader.findings
        assert (finding.severity, finding.code, finding.key) == ("error", code, "p")
        assert re.search(message, finding.message)
        assert finding.file == str(tmp_path / "m-1-00001-of-00002")
        with pytest.raises(CorruptCheckpointError):
            reader["p"].read()


def rows_of(path: str) -> list[tuple[bytes, bytes]]:
    with open(path, "rb") as file:
        data = file.read()
    return list(Table(lambda offset, size: data[offset : offset + size], len(data), path))


def test_slices_are_one_array(tmp_path: Path) -> None:
    write_v1(str(tmp_path / "m-1"), (4,), [(((2, 2),), [3, 4]), (((0, 2),), [1, 2])])
    with open_checkpoint(tmp_path / "m-1") as reader:
        assert reader["p"].read().tolist() == [1, 2, 3, 4]
        assert reader["p"].read_slice((slice(1, 4, 2),)).tolist() == [2, 4]


def test_overlap_does_not_stand_in_for_a_gap(tmp_path: Path) -> None:
    """Two slices of two elements in four, element 3 in neither: it would be read from nowhere."""
    write_v1(str(tmp_path / "m-1"), (4,), [(((0, 2),), [1, 2]), (((1, 2),), [2, 3])])
    with (
        open_checkpoint(tmp_path / "m-1") as reader,
        pytest.raises(CorruptCheckpointError, match="overlap") as caught,
    ):
        reader["p"].read()
    assert (caught.value.key, caught.value.code) == ("p", "slice")


@pytest.mark.parametrize(
    ("name", "extents"), [("\udcff", ((0, -1),)), ("q", ((0, -1),)), ("p", ((0, 2),)), ("p", ((0, -1),) * 6)]
)
def test_data_of_another_slice_are_an_error(name: str, extents: Extents, tmp_path: Path) -> None:
    """The record says whose they are; TensorFlow rejects some of these, and does not look at others."""
    path = str(tmp_path / "m-1")
    write_v1(path, (2,), [(((0, -1),), [1, 2])])
    record = SavedSlice(name=name, slice=slice_proto(extents), data=b"\x2a\x08" + bytes(8))
    rows = dict(rows_of(path))
    rows[slice_key(b"p", ((0, -1),))] = SavedTensorSlices(data=record).encode()
    write_table(path, sorted(rows.items()))
    with (
        open_checkpoint(path) as reader,
        pytest.raises(CorruptCheckpointError, match="its data is labelled as"),
    ):
        reader["p"].read()


def test_data_in_two_parts_are_put_together(tmp_path: Path) -> None:
    """They are one message, as protocol buffers have it."""
    path = str(tmp_path / "m-1")
    write_v1(path, (2,), [(((0, -1),), [1, 2])])
    parts = [b"\x2a\x04" + np.float32(value).tobytes() for value in (3, 4)]
    record = SavedSlice(name="p", slice=slice_proto(((0, -1),)), data=parts[0]).encode()
    record += b"\x1a" + bytes((len(parts[1]),)) + parts[1]
    rows = dict(rows_of(path))
    rows[slice_key(b"p", ((0, -1),))] = b"\x12" + bytes((len(record),)) + record
    write_table(path, sorted(rows.items()))
    with open_checkpoint(path) as reader:
        assert reader["p"].read().tolist() == [3, 4]


def test_of_data_that_come_twice_the_first_are_read(tmp_path: Path) -> None:
    """A search comes to them."""
    path = str(tmp_path / "m-1")
    write_v1(path, (2,), [(((0, -1),), [3, 4])])
    other = rows_of(path)[1]
    write_v1(path, (2,), [(((0, -1),), [1, 2])])
    write_table(path, [*rows_of(path), other])
    with open_checkpoint(path) as reader:
        assert reader["p"].read().tolist() == [1, 2]
        assert [finding.code for step in reader.verify() for finding in step.findings] == ["key-order"]


def test_blocks_that_no_search_comes_to_are_found(tmp_path: Path) -> None:
    path = str(tmp_path / "m-1")
    write_v1(path, (2,), [(((0, -1),), [1, 2])])
    block = encode_block(rows_of(path))
    for bound, codes in ((b"\0zz", []), (b"\0", ["key-order", "entry"])):
        (tmp_path / "m-1").write_bytes(table_of([block], index=[(bound, BlockHandle(0, len(block)))]))
        with open_checkpoint(path) as reader:
            assert [finding.code for step in reader.verify() for finding in step.findings] == codes


def test_strings_without_slices_in_the_metadata_are_listed_and_rejected(tmp_path: Path) -> None:
    meta = SavedSliceMeta(name="s", shape=shape_proto(()), type=7)
    versions = VersionDef(producer=1)
    head = SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=[meta], versions=versions)).encode()
    write_table(str(tmp_path / "m-1"), [(b"", head), (slice_key(b"v", ()), b"")])
    with open_checkpoint(tmp_path / "m-1") as reader:
        assert [(spec.key, spec.dtype.name, spec.nbytes) for spec in reader.specs.values()] == [
            ("s", "string", None)
        ]
        with pytest.raises(CorruptCheckpointError, match="lists no slice of this tensor") as caught:
            reader["s"].read()
        assert caught.value.key == "s"
        assert not list(reader.verify())[-1].tensors


def test_gap_is_corrupt(tmp_path: Path) -> None:
    write_v1(str(tmp_path / "m-1"), (4,), [(((0, 2),), [1, 2])])
    with (
        open_checkpoint(tmp_path / "m-1") as reader,
        pytest.raises(CorruptCheckpointError, match="contain only 2 of the 4"),
    ):
        reader["p"].read()


@pytest.mark.parametrize(("shape", "values"), [((1,) * 70, [1.0]), ((0, 1 << 62), [])])
def test_whole_tensor_that_numpy_cannot_hold_is_rejected_by_name(
    tmp_path: Path, shape: tuple[int, ...], values: list[float]
) -> None:
    write_v1(str(tmp_path / "m-1"), shape, [(((0, -1),) * len(shape), values)])
    with open_checkpoint(tmp_path / "m-1") as reader, pytest.raises(UnsupportedFeatureError) as caught:
        reader["p"].read()
    assert caught.value.key == "p"


def test_shape_that_numpy_cannot_hold_is_rejected_by_name(tmp_path: Path) -> None:
    shape = (2,) + (1,) * 69
    rest = ((0, 1),) * 69
    write_v1(str(tmp_path / "m-1"), shape, [(((0, 1), *rest), [1]), (((1, 1), *rest), [2])])
    with open_checkpoint(tmp_path / "m-1") as reader, pytest.raises(UnsupportedFeatureError) as caught:
        reader["p"].read()
    assert caught.value.key == "p"
