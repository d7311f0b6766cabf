"""A reader of what is made of another reader's tensors asks that one what it says of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.operations.select.name_map import parse_map
from ckpt_cli.operations.select.relations import Relation, relate
from ckpt_cli.operations.select.view import Constant, DerivedReader
from formats import CheckpointError, ConversionError, open_checkpoint
from formats.core import dtypes
from formats.core.axes import AxisOperations
from formats.errors import DuplicateKeyError
from tests.support import numbers, write_bundle

if TYPE_CHECKING:
    from pathlib import Path


def test_a_view_has_the_files_of_its_source_and_changes_with_them(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {"a": np.ones((2, 3), np.float32)})
    with open_checkpoint(prefix) as reader:
        shapes = {key: spec.shape for key, spec in reader.specs.items()}
        view = DerivedReader(reader, relate(parse_map(b"a\tb\tT", "names.tsv"), shapes).relations)
        assert view.specs["b"].shape == (3, 2)
        assert view.files() == reader.files()
        assert sum(step.tensors for step in view.verify()) == 1
        assert view.has_changed() is False
        view.check_unchanged()
        write_bundle(prefix, {"a": np.zeros((2, 3), np.float32), "b": np.ones(4)})
        assert view.has_changed() is True
        with pytest.raises(CheckpointError, match="changed"):
            view.check_unchanged()


def view_of(tmp_path: Path, tensors: dict[str, np.ndarray], lines: bytes) -> DerivedReader:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, tensors)
    reader = open_checkpoint(prefix)
    shapes = {key: spec.shape for key, spec in reader.specs.items()}
    return DerivedReader(reader, relate(parse_map(lines, "names.tsv"), shapes).relations)


def test_parts_that_are_joined_have_one_dtype(tmp_path: Path) -> None:
    joined = b"a\tc\tconcat(0)\nb\tc\tconcat(0)"
    both = {"a": np.ones(2, np.float32), "b": np.zeros(2, np.float32)}
    view = view_of(tmp_path, both, joined)
    assert view["c"].read().tolist() == [1, 1, 0, 0]
    assert view.origins == {"c": ("a", "b")}
    with pytest.raises(ConversionError, match="combines float32 and float64; expected one dtype") as raised:
        view_of(tmp_path, {**both, "b": np.zeros(2)}, joined)
    assert raised.value.key == "c"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bfloat16"])
def test_numbers_are_scaled_where_nothing_is_lost(tmp_path: Path, dtype: str) -> None:
    prefix = str(tmp_path / "c-1")
    array = np.arange(6).reshape(2, 3).astype(dtypes.BY_NAME[dtype].numpy)
    write_bundle(prefix, {"a": numbers(array, dtype=dtype)})
    with open_checkpoint(prefix) as reader:
        scaled = Relation(("a",), ("b",), AxisOperations(), scale=0.5)
        if dtype in ("int32", "bfloat16"):
            with pytest.raises(
                ConversionError, match=f"needs float16, float32, float64; found {dtype}"
            ) as raised:
                DerivedReader(reader, [scaled])
            assert raised.value.key == "a"
            return
        view = DerivedReader(reader, [scaled, Relation(("a",), ("same",), AxisOperations())])
        assert view["b"].read().tolist() == (array / 2).tolist()
        assert view["same"].read().tolist() == array.tolist()
        assert view.operations == {"b": "scale(0.5)", "same": ""}
        assert [view[key].file_range() is None for key in ("b", "same")] == [True, False]


def test_a_value_for_all_elements_has_a_key_of_its_own(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {"a": np.ones(2, np.float32)})
    with open_checkpoint(prefix) as reader:
        renamed = Relation(("a",), ("b",), AxisOperations())
        view = DerivedReader(
            reader, [renamed], [Constant("step", 7, (), "int64"), Constant("z", 0.5, (2,), "float32")]
        )
        assert {key: view[key].read().tolist() for key in view} == {"b": [1, 1], "step": 7, "z": [0.5, 0.5]}
        assert view.kinds == {"b": "variable", "step": "state", "z": "state"}
        assert view["step"].read().dtype == np.int64
        with pytest.raises(DuplicateKeyError, match="two tensors would become this key") as raised:
            DerivedReader(reader, [renamed], [Constant("b", 7, (), "int64")])
        assert raised.value.key == "b"
