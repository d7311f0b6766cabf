"""Our readers read files that both releases of TensorFlow write during the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import formats
from tests.support import digest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


def as_told(reader: formats.FormatReader, *, variants: bool = False) -> dict[str, list]:
    """Return every tensor in the oracle's form."""
    return {
        key: [spec.dtype.name, list(spec.shape), digest(reader[key].read())]
        for key, spec in reader.specs.items()
        if variants or spec.dtype.name != "variant"
    }


def sound(reader: formats.FormatReader) -> bool:
    return sum(step.tensors for step in reader.verify()) == len(reader)


def test_an_object_based_checkpoint(tensorflow: TensorFlow, tmp_path: Path) -> None:
    prefix, truth = tensorflow.ask("reading", "object_based", path=str(tmp_path / "ckpt"))
    with formats.open_checkpoint(prefix) as reader:
        assert reader.format.name == "tf-object"
        assert as_told(reader) == truth
        assert sound(reader)
        paths = set(reader.object_paths.values())
        assert {"net/tied", "net/layers/1/bias", "net/names/a/b.c", "table", "iterator"} <= paths


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("sharded", "partitions"), [(False, 1), (True, 1), (False, 3), (True, 3)])
def test_a_name_based_checkpoint(
    tensorflow: TensorFlow, version: int, sharded: bool, partitions: int, tmp_path: Path
) -> None:
    path = str(tmp_path / "model.ckpt")
    prefix, truth = tensorflow.ask(
        "reading", "name_based", path=path, version=version, sharded=sharded, partitions=partitions
    )
    with formats.open_checkpoint(prefix) as reader:
        assert reader.format.name == ("tf-v1" if version == 1 else "tf-name")
        assert as_told(reader) == truth
        assert sound(reader)
        assert reader.kinds["net/kernel/Adam_1"] == "slot"
        assert reader.kinds["beta1_power"] == "optimizer"
