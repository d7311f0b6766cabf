"""The identity of a checkpoint: to the byte as docs/ci.md says, and the same in every format."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from formats import TensorSpec, create_checkpoint, open_checkpoint
from formats.core.dtypes import dtype_named
from formats.errors import CorruptCheckpointError
from formats.model.identity import canonical_tensors, identity_of
from tests.support import data_path, numbers, strings, write_bundle
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
VECTOR = {
    "a\\b\t": np.array(True),
    "empty": np.zeros((0, 3), np.float16),
    "net/bias": np.array([1.0, -2.0], np.float32),
    "net/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "step": np.array(10, np.int64),
}


def identity(path: str | Path) -> str:
    with open_checkpoint(str(path)) as reader:
        return identity_of(canonical_tensors(reader))


def write(path: Path, form: str, arrays: dict[str, np.ndarray[Any, Any]]) -> Path:
    specs = [TensorSpec(key, dtype_named(str(array.dtype)), array.shape) for key, array in arrays.items()]
    with create_checkpoint(str(path), format=form, specs=specs) as writer:
        for key, array in arrays.items():
            writer.write(key, array)
    return path


def test_the_test_vector_of_the_docs(tmp_path: Path) -> None:
    with open(os.path.join(ROOT, "docs", "ci.md"), encoding="utf-8") as file:
        text = file.read()
    lines, expected = re.findall(
        r"<!-- vector -->\n```text\n(.*?)```\n\n`(sha256:[0-9a-f]{64})`", text, re.DOTALL
    )[0]
    fields = [line.split(" | ") for line in lines.splitlines()]
    joined = "".join("\t".join(field.strip() for field in row) + "\n" for row in fields)
    assert f"sha256:{hashlib.sha256(joined.encode()).hexdigest()}" == expected
    path = write(tmp_path / "vector.npz", "npz", VECTOR)
    with open_checkpoint(str(path)) as reader:
        tensors = list(canonical_tensors(reader))
    assert "".join(tensor.line for tensor in tensors) == joined
    assert identity_of(tensors) == expected


def test_no_tensors_have_an_identity_too() -> None:
    assert identity_of([]) == f"sha256:{hashlib.sha256().hexdigest()}"


@pytest.mark.parametrize("name", ["npz", "safetensors", "pytorch", "hdf5", "tf-name", "tf-v1"])
def test_it_is_the_same_in_every_format(name: str, tmp_path: Path) -> None:
    arrays = {key: array for key, array in VECTOR.items() if key.isidentifier() or "/" in key}
    suffix = {"hdf5": ".h5"}.get(name, "")
    expected = identity(write(tmp_path / "one.npz", "npz", arrays))
    assert identity(write(tmp_path / f"other{suffix}", name, arrays)) == expected


def test_the_suffix_the_counter_strings_and_the_order_do_not_count(tmp_path: Path) -> None:
    values = {key: numbers(array) for key, array in VECTOR.items() if key != "a\\b\t"}
    stored = {key + SUFFIX: value for key, value in sorted(values.items())}
    write_bundle(str(tmp_path / "plain"), dict(sorted(values.items())))
    more = {"save_counter" + SUFFIX: numbers(np.array(3, np.int64)), "text" + SUFFIX: strings([b"a"])}
    write_bundle(str(tmp_path / "stored"), dict(sorted({**stored, **more}.items())))
    assert identity(tmp_path / "plain") == identity(tmp_path / "stored")


@pytest.mark.parametrize(
    "change",
    [
        {"step": np.array(11, np.int64)},
        {"step": np.array([10], np.int64)},
        {"step": np.array(10, np.uint64)},
        {"net/bias": np.array([1.0, -2.0], np.float32).view(np.int32)},
        {"more": np.array(1.0, np.float32)},
        {"empty": np.zeros((0, 4), np.float16)},
        {"empty": np.zeros((0, 3), ml_dtypes.bfloat16)},
        {"net/bias\u200b": np.array([1.0], np.float32)},
    ],
)
def test_every_change_is_another_identity(change: dict[str, Any], tmp_path: Path) -> None:
    one = write(tmp_path / "one.safetensors", "safetensors", VECTOR)
    other = write(tmp_path / "other.safetensors", "safetensors", {**VECTOR, **change})
    assert identity(one) != identity(other)


def test_two_names_that_would_be_one_stay_apart(tmp_path: Path) -> None:
    one, two = np.array([1.0], np.float32), np.array([2.0], np.float32)
    here = identity(write(tmp_path / "one.npz", "npz", {"a": one, "a" + SUFFIX: two}))
    there = identity(write(tmp_path / "two.npz", "npz", {"a": two, "a" + SUFFIX: one}))
    assert here != there


def test_damage_that_hides_tensors_has_no_identity() -> None:
    path = data_path("corrupt", "entry_garbage")
    with pytest.raises(CorruptCheckpointError):
        identity(path)
