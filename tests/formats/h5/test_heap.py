"""How large the strings of variable length of a file can be, found by going through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h5py
import pytest

import formats
from formats.errors import CorruptCheckpointError
from formats.h5.native.heap import COLLECTION, largest_object
from tests.hostile.bombs import h5_strings_that_are_one

if TYPE_CHECKING:
    from pathlib import Path


def largest_in(data: bytes) -> int:
    return largest_object(lambda offset, size: data[offset : offset + size], len(data))


def test_the_largest_string_of_a_file_is_found(tmp_path: Path) -> None:
    strings = [b"a", b"b" * 70_000, *[b"c" * size for size in range(3000)]]
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.create_dataset("v", data=strings, dtype=h5py.string_dtype("ascii"))
    assert largest_in((tmp_path / "w.h5").read_bytes()) == 70_000
    with formats.open_checkpoint(str(tmp_path / "w.h5")) as reader:
        assert reader["v"].read().tolist() == strings


def test_collections_that_are_none_have_no_strings() -> None:
    assert largest_in(b"") == 0
    assert largest_in(bytes(5000)) == 0
    assert largest_in(COLLECTION + bytes(8)) == 0
    assert largest_in(bytes((1 << 20) - 3) + COLLECTION + (1 << 40).to_bytes(8, "little")) == (1 << 20) + 13


@pytest.mark.parametrize("before", [0, 1, (1 << 20) - 4, 1 << 20])
def test_collections_are_found_at_any_offset(before: int) -> None:
    string = (1).to_bytes(8, "little") + (24).to_bytes(8, "little") + bytes(24)
    collection = COLLECTION + (16 + len(string)).to_bytes(8, "little") + string
    assert largest_in(bytes(before) + collection + bytes(100)) == 24


def test_collections_on_top_of_each_other_are_scanned_once() -> None:
    """Each of ten thousand headers claims all that follows."""
    data = (COLLECTION + (150_000).to_bytes(8, "little")) * 10_000
    assert largest_in(data) == len(data)


def test_strings_that_are_one_and_the_same_are_rejected(tmp_path: Path) -> None:
    """A megabyte made four gigabytes."""
    path = h5_strings_that_are_one(str(tmp_path))
    same = pytest.raises(CorruptCheckpointError, match="its strings have more bytes than the file")
    with formats.open_checkpoint(path) as reader, same:
        reader["v"].read()
