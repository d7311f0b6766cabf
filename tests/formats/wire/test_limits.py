"""Keys of megabytes: no reader takes in more of them than it can go through in bounded memory."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import formats
from formats.errors import CorruptCheckpointError
from formats.wire.limits import LONGEST_KEY, KeySizes, are_keys_too_long
from formats.wire.messages import SavedSliceMeta, SavedTensorSliceMeta, SavedTensorSlices
from tests.support import shape_proto, write_bundle, write_table
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = [f"{number:03}" + "k" * 1_000_000 for number in range(10)]


def _bundle(path: str, keys: list[str]) -> str:
    write_bundle(path, {key: np.float32(1) for key in keys})
    return path


def _safetensors(path: str, keys: list[str]) -> str:
    row = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps(dict.fromkeys(keys, row)).encode()
    return _written(path + ".safetensors", len(header).to_bytes(8, "little") + header)


def _listing(path: str, keys: list[str]) -> str:
    rows = [{"key": key, "dtype": "float32", "shape": []} for key in keys]
    return _written(path + ".json", json.dumps({"schema": 1, "tensors": rows}).encode())


def _npz(path: str, keys: list[str]) -> str:
    with zipfile.ZipFile(path + ".npz", "w") as archive:
        for number in range(len(keys) * 20):  # a member's name has 16 bits of length
            archive.writestr(f"{number:03}" + keys[0][:50_000], b"")
    return path + ".npz"


def _h5(path: str, keys: list[str]) -> str:
    with h5py.File(path + ".h5", "w", libver="latest") as file:
        for key in keys:
            file[key] = np.float32(1)
    return path + ".h5"


def _v1(path: str, keys: list[str]) -> str:
    save(path, {key[: LONGEST_KEY // 2]: np.zeros(1, np.float32) for key in keys}, "tf-v1")
    return path


def _written(path: str, data: bytes) -> str:
    with open(path, "wb") as file:
        file.write(data)
    return path


MAKERS: list[Callable[[str, list[str]], str]] = [_bundle, _safetensors, _listing, _npz, _h5]


@pytest.mark.parametrize("make", MAKERS)
def test_keys_that_are_long_together_are_rejected(tmp_path: Path, make: Callable[..., str]) -> None:
    path = make(str(tmp_path / "c-1"), LONG)
    with pytest.raises(CorruptCheckpointError, match=r"more than is supported|over the limit"):
        formats.open_checkpoint(path)


@pytest.mark.parametrize("make", [*MAKERS[:3], MAKERS[4], _v1])
def test_a_few_long_keys_are_read(tmp_path: Path, make: Callable[..., str]) -> None:
    path = make(str(tmp_path / "c-1"), LONG[:5])
    with formats.open_checkpoint(path) as reader:
        assert len(reader) == 5


def test_names_of_v1_that_are_long_together_are_rejected(tmp_path: Path) -> None:
    """The metadata names tensors whether or not their values are there."""
    metas = [SavedSliceMeta(name=key, shape=shape_proto((1,)), type=1) for key in LONG]
    head = SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=metas))
    write_table(str(tmp_path / "c-1"), [(b"", head.encode())])
    with pytest.raises(CorruptCheckpointError, match="metadata: 9 keys have 9000027 characters"):
        formats.open_checkpoint(str(tmp_path / "c-1"))


def test_paths_of_hdf5_that_are_long_together_are_rejected(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w", libver="latest") as file:
        group = file.create_group("g" * 500_000)
        for number in range(30):
            group[f"v{number}"] = np.float32(1)
    with pytest.raises(CorruptCheckpointError, match="over the limit"):
        formats.open_checkpoint(str(tmp_path / "w.h5"))


def test_usual_keys_have_no_limit_together() -> None:
    assert not are_keys_too_long(1000 * 1_000_000, 1_000_000)
    assert are_keys_too_long(1100 * 1_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            ["k" * (LONGEST_KEY + 1)],
            r"a key has 1048577 characters, but at most 1048576 are supported: 'k{40}'\.\.\.",
        ),
        (LONG, "11 keys have 11048606 characters"),
    ],
)
def test_sizes_say_what_is_too_long(keys: Any, message: str) -> None:
    sizes = KeySizes()
    sizes.add([])
    sizes.add(["k" * LONGEST_KEY])
    with pytest.raises(ValueError, match=message):
        sizes.add(keys)
