"""Hash tables through `ckpt convert`: two tensors that go together, of any number of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from tests.support import data_path, numbers, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THREE, FORTY = data_path("hash_tables", "three"), data_path("hash_tables", "forty")
GRAPH, WEIGHT = "_CHECKPOINTABLE_OBJECT_GRAPH", "m/w/.ATTRIBUTES/VARIABLE_VALUE"
KEYS, VALUES = "m/words/.ATTRIBUTES/table-keys", "m/words/.ATTRIBUTES/table-values"


def table_in(path: object, keys: str = KEYS, values: str = VALUES) -> dict[bytes, int]:
    with formats.open_checkpoint(str(path)) as reader:
        return dict(zip(reader[keys].read().tolist(), reader[values].read().tolist(), strict=True))


def test_a_template_with_a_table_of_another_size(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", THREE, tmp_path / "out", "--like", FORTY).code == 0
    assert table_in(tmp_path / "out") == table_in(THREE)
    assert len(table_in(THREE)) == 3


def test_a_template_whose_table_gets_nothing_is_rejected(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", THREE, tmp_path / "out", "--like", FORTY, "--exclude", "*table*")
    assert result.code == 3
    assert "2 tensors of TEMPLATE get no value: 'm/words-keys', 'm/words-values'" in result.err
    kept = ckpt("convert", THREE, tmp_path / "out", "--like", FORTY, "--exclude", "*table*", "--partial")
    assert kept.code == 0
    assert table_in(tmp_path / "out") == table_in(FORTY)


def test_an_empty_table_of_a_template_needs_no_value(tmp_path: Path, ckpt: Callable) -> None:
    """An adapted layer of Keras 2 has one, which a `.keras` file lacks; entries are never lost."""
    empty, weights, out = (str(tmp_path / name) for name in ("empty", "weights.npz", "out"))
    with formats.open_checkpoint(THREE) as reader:
        graph, w = strings([reader[GRAPH].read().item()], ()), reader[WEIGHT].read()
    write_bundle(empty, {GRAPH: graph, WEIGHT: w + 1, KEYS: strings([]), VALUES: np.zeros(0, np.int64)})
    np.savez(weights, **{"m/w": w})
    assert ckpt("convert", weights, out, "--like", empty).code == 0
    assert table_in(out) == {}
    result = ckpt("convert", THREE, out, "--like", empty, "--overwrite", "--exclude", "*table*")
    assert (result.code, "2 tensors of TEMPLATE get no value" in result.err) == (3, True)
    assert ckpt("convert", THREE, out, "--like", empty, "--overwrite").code == 0
    assert table_in(out) == table_in(THREE)


@pytest.mark.parametrize("to", ["name", "v1"])
def test_names_and_back(to: str, tmp_path: Path, ckpt: Callable) -> None:
    named, anew, back = tmp_path / "named", tmp_path / "anew", tmp_path / "back"
    result = ckpt("convert", THREE, named, "--to", to)
    assert (result.code, "left out m/words" in result.err) == (0, False)
    assert table_in(named, "m/words-keys", "m/words-values") == table_in(THREE)
    assert ckpt("convert", named, back, "--like", FORTY).code == 0
    assert table_in(back) == table_in(THREE)
    result = ckpt("convert", named, anew, "--to", "object")
    assert (result.code, "m/words-keys and m/words-values became a hash table" in result.err) == (0, True)
    assert table_in(anew) == table_in(THREE)
    assert ckpt("verify", anew).code == 0


@pytest.mark.parametrize(
    ("keys", "values", "more"),
    [
        (numbers(np.zeros(2, np.float32)), numbers(np.zeros(2, np.float32)), {}),
        (strings([b"a", b"b"]), numbers(np.zeros(3, np.float32)), {}),
        (strings([b"a", b"b"]), numbers(np.zeros(2, np.float32)), {"m/x": numbers(np.zeros(1, np.float32))}),
    ],
)
def test_two_tensors_that_are_not_a_table_stay_variables(
    keys: object, values: object, more: dict, tmp_path: Path, ckpt: Callable
) -> None:
    write_bundle(str(tmp_path / "names"), {"m/x-keys": keys, "m/x-values": values, **more})
    result = ckpt("convert", tmp_path / "names", tmp_path / "objects", "--to", "object")
    assert (result.code, "hash table" in result.err) == (0, False)
    with formats.open_checkpoint(str(tmp_path / "objects")) as reader:
        assert "m/x-keys/.ATTRIBUTES/VARIABLE_VALUE" in reader.specs
