"""Every readable format into every writable one: what becomes of each tensor.

There are three outcomes: the same values, bit for bit; a listed drop, of graph and
state alone; a refusal that names the remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import formats
from formats.find.registry import all_formats
from formats.tf.bundle.payload import chunks_checksum
from formats.wire.crc32c import mask
from tests.formats.test_contract import GOLDENS
from tests.support import data_path, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPECIMENS = {
    **{name: data_path(path) for name, path in reversed(GOLDENS)},
    "tf-name": data_path("dtypes", "all"),
    "keras": data_path("keras3_mlp", "mlp.keras"),
    "hdf5": "plain.h5",
    "listing": "listing.json",
}
"""The first golden of each format, unless another is more complete or there is none."""

WRITABLE = [found.name for found in all_formats() if found.writer is not None]
SUFFIXES = {
    "keras-h5": ".h5",
    "keras-weights": ".weights.h5",
    "keras": ".keras",
    "hdf5": ".h5",
    "listing": ".json",
}
REMEDIES = ("--cast", "--exclude", "--config", "--like", "--to", "name the checkpoint itself")


def specimen(name: str, directory: Path, ckpt: Callable) -> str:
    """Return a checkpoint of a format, made here if the data has none."""
    path = SPECIMENS[name]
    if name == "hdf5":
        path = str(directory / path)
        with h5py.File(path, "w") as file:
            file["a/w"] = np.arange(6, dtype=np.float32).reshape(2, 3)
            file["a/n"] = np.int64(7)
    elif name == "listing":
        path = str(directory / path)
        (directory / "listing.json").write_text(ckpt("ls", "-l", "--json", SPECIMENS["npz"]).out)
    return path


def test_every_format_has_a_specimen() -> None:
    assert set(SPECIMENS) == {found.name for found in all_formats()}


def of_each_sort(source: str) -> list[str]:
    """Return the last key of each kind, dtype and rank: tensors alike in these come to the same."""
    with formats.open_checkpoint(source) as reader:
        sorts = {(reader.kinds[key], spec.dtype, len(spec.shape)): key for key, spec in reader.specs.items()}
    return list(sorts.values())


def outcome(source: str, key: str, target: Path, into: str, ckpt: Callable) -> str:
    """Convert one tensor and return what became of it, which is checked."""
    result = ckpt("convert", "--json", source, target, key, "--to", into, "--overwrite")
    if "nothing is left to write" in result.err:
        assert (result.code, result.out) == (1, "")
        with formats.open_checkpoint(source) as reader:
            assert reader.kinds[key] in ("graph", "state")
        return "dropped"
    if result.code != 0:
        assert result.code in (1, 3), result
        assert result.out == ""
        assert any(remedy in result.err for remedy in REMEDIES), result.err
        return "refused"
    document: dict[str, Any] = result.json
    moved = [row["to"] for row in document["tensors"] if row["from"] == key]
    if not moved:
        assert [row["key"] for row in document["dropped"]] == [key]
        with formats.open_checkpoint(source) as reader:
            assert reader.kinds[key] in ("graph", "state")
        return "dropped"
    with formats.open_checkpoint(source) as reader, formats.open_checkpoint(document["target"]) as written:
        tensor = written[moved[0]]
        if not tensor.has_values:
            _, crc = chunks_checksum(reader[key].spec.dtype, reader[key].chunks())
            assert (tensor.spec[:3], tensor.stored.crc32c) == (reader[key].spec[:3], mask(crc))
            return "same"
        before, after = reader[key].read(), tensor.read()
        if before.dtype == object and after.dtype.kind == "S":  # npz keeps strings in their own width
            after = after.astype(object)
        assert same(before, after)
    return "same"


KERAS = ("keras-h5", "keras-weights", "keras")


def is_of_a_model(name: str, into: str) -> bool:
    """Whether a conversion lays out a model, which needs all of its weights at once."""
    return into in KERAS or (name in KERAS and into == "tf-object")


def whole_model(source: str, target: Path, into: str, ckpt: Callable) -> None:
    """Convert a checkpoint of a model; what is dropped beyond state is optimizer state alone."""
    result = ckpt("convert", "--json", source, target, "--to", into, "--overwrite")
    if result.code != 0:
        assert result.code == 3, result
        assert any(remedy in result.err for remedy in REMEDIES), result.err
        return
    document = result.json
    with formats.open_checkpoint(source) as reader, formats.open_checkpoint(document["target"]) as written:
        moved = {row["from"]: row["to"] for row in document["tensors"] if row["from"] is not None}
        dropped = {row["key"] for row in document["dropped"]}
        assert set(moved) | dropped >= {key for key in reader if reader.kinds[key] != "graph"}
        for key, new in moved.items():
            assert same(reader[key].read(), written[new].read())
        assert {reader.kinds[key] for key in dropped} <= {"graph", "state", "slot", "optimizer"}


@pytest.mark.parametrize("into", WRITABLE)
@pytest.mark.parametrize("name", SPECIMENS)
def test_each_tensor_is_the_same_or_dropped_or_rejected(
    name: str, into: str, tmp_path: Path, ckpt: Callable
) -> None:
    source = specimen(name, tmp_path, ckpt)
    target = tmp_path / f"out-1{SUFFIXES.get(into, '')}"
    if is_of_a_model(name, into):
        whole_model(source, target, into, ckpt)
        return
    found = {key: outcome(source, key, target, into, ckpt) for key in of_each_sort(source)}
    if name == into and name in ("tf-name", "tf-v1", "npz", "safetensors", "hdf5"):
        assert set(found.values()) == {"same"}
    if name == "listing":
        assert set(found.values()) == {"refused"}
