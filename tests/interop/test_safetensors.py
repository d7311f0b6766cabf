"""Our safetensors files, read by the safetensors package, and its files read by us."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.core.dtypes import BY_NAME
from formats.known.safetensors import DTYPES_HELD
from formats.safetensors.reader import SafetensorsFacts
from tests.support import same
from tests.writing import narrow_specimen, read_all, save, specimen

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


def everything() -> dict[str, np.ndarray[Any, Any]]:
    """Return the corner cases of every dtype that a file can hold, and all bit patterns of a byte of each."""
    cases = {
        key: array
        for key, array in {**specimen(), **narrow_specimen()}.items()
        if formats.core.dtypes.from_numpy(array.dtype).name in DTYPES_HELD
    }
    for name in sorted(DTYPES_HELD - {"bool"}):
        dtype = np.dtype(BY_NAME[name].numpy)
        patterns = np.arange(256, dtype=np.uint8).repeat(dtype.itemsize)
        cases[f"patterns/{name}"] = patterns.view(dtype).reshape(16, 16)
        cases[f"none/{name}"] = np.zeros((2, 0), dtype)
    return cases


def told(array: np.ndarray[Any, Any]) -> list[Any]:
    return [array.dtype.name, list(array.shape), array.tobytes().hex()]


def code_of(array: np.ndarray[Any, Any]) -> str | None:
    return formats.core.dtypes.from_numpy(array.dtype).safetensors


def test_the_cases_are_of_every_dtype() -> None:
    assert {
        formats.core.dtypes.from_numpy(array.dtype).name for array in everything().values()
    } == DTYPES_HELD
    assert len(DTYPES_HELD) == 19


@pytest.mark.parametrize("metadata", [{}, {"format": "np", "naïve": "x"}])
def test_the_package_reads_what_was_written(
    new_tensorflow: TensorFlow, metadata: dict[str, str], tmp_path: Path
) -> None:
    arrays, path = everything(), tmp_path / "ours.safetensors"
    save(path, arrays, "safetensors", facts=SafetensorsFacts(metadata))
    raw, found, told_metadata = new_tensorflow.ask("safetensors", "read", path=str(path))
    assert raw == {key: [code_of(array), *told(array)[1:]] for key, array in arrays.items()}
    assert found == {key: told(array) for key, array in arrays.items() if "F8" not in code_of(array)}
    assert (told_metadata or {}) == metadata


@pytest.mark.parametrize("size", [1, 1000, 1 << 30])
def test_the_package_reads_our_shards(new_tensorflow: TensorFlow, size: int, tmp_path: Path) -> None:
    arrays, path = everything(), tmp_path / "model.safetensors.index.json"
    save(path, arrays, "safetensors", facts=SafetensorsFacts({"format": "pt"}), shard_size=size)
    found, total, metadata = new_tensorflow.ask("safetensors", "read_sharded", index=str(path))
    assert found == {key: [code_of(array), *told(array)[1:]] for key, array in arrays.items()}
    assert total == sum(array.nbytes for array in arrays.values())
    assert metadata == {"format": "pt"}


def test_what_the_package_wrote_is_read(new_tensorflow: TensorFlow, tmp_path: Path) -> None:
    arrays, path = everything(), tmp_path / "theirs.safetensors"
    tensors = {key: told(array) for key, array in arrays.items()}
    new_tensorflow.ask("safetensors", "written", path=str(path), tensors=tensors, metadata={"format": "np"})
    found = read_all(path)
    assert found.keys() == arrays.keys()
    assert [key for key, array in arrays.items() if not same(found[key], array)] == []
    with formats.open_checkpoint(str(path)) as reader:
        assert reader.facts.document()["producer"] == "np"
