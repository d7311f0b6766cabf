"""Names that programs rarely give, through `convert` and `rename`: none is lost, none changes another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support import numbers, write_bundle
from tests.writing import read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Result

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"

ODD = [
    ["a", "a/"],
    ["a", "/a", "a/", "a//b", "a/_/b", "/", "//"],
    ["w", "w/Adam", "w/Adam/Adam", "w/Adam/Adam_1/Adam"],
    ["w", "w/Adam\n", "w/A\nB", "w/\n"],
    ["x\ny", "x\ny/Adam", "x\ny_slot_v", "x\ny/beta1_power"],
    ["save_counter", "save_counter_1", "save_counter/x", "a/save_counter"],
    ["optimizer", "optimizer_1", "w", "w/Adam", "w/Adam_1"],
    ["beta1_power", "beta1_power/Adam"],
    [".ATTRIBUTES/VARIABLE_VALUE", "w/.ATTRIBUTES/VARIABLE_VALUE", "w"],
    ["w", "w/.OPTIMIZER_SLOT/optimizer/m", "w/Adam"],
    [".", "..", ".S", "..S", "./S", "/S"],
]


@pytest.mark.parametrize("names", ODD, ids=repr)
def test_every_name_comes_back_with_its_values(
    names: list[str], ckpt: Callable[..., Result], tmp_path: Path
) -> None:
    arrays = {name: np.full(2, number, np.float32) for number, name in enumerate(names)}
    save(tmp_path / "names", arrays)
    assert ckpt("convert", tmp_path / "names", tmp_path / "c-1", "--to", "object").code == 0
    assert ckpt("verify", tmp_path / "c-1").code == 0
    assert ckpt("convert", tmp_path / "c-1", tmp_path / "back", "--to", "name").code == 0
    found = read_all(tmp_path / "back")
    assert {key: array.tolist() for key, array in found.items()} == {
        key: array.tolist() for key, array in arrays.items()
    }


def test_name_that_is_not_utf8_is_rejected(ckpt: Callable[..., Result], tmp_path: Path) -> None:
    """A graph with such a name is one that TensorFlow cannot parse."""
    write_bundle(str(tmp_path / "names"), {b"a\xff": numbers(np.ones(2))})
    result = ckpt("convert", tmp_path / "names", tmp_path / "c", "--to", "object")
    assert result.code == 3
    assert "not UTF-8" in result.err
    assert str(tmp_path / "names") in result.err
    assert not (tmp_path / "c.index").exists()


def test_rule_that_makes_a_name_no_utf8_is_rejected(ckpt: Callable[..., Result], tmp_path: Path) -> None:
    save(tmp_path / "names", {"w": np.ones(2)})
    ckpt("convert", tmp_path / "names", tmp_path / "objects", "--to", "object")
    for source in ("names", "objects"):
        result = ckpt("rename", tmp_path / source, tmp_path / "c", "--add-prefix", "\udcff")
        assert result.code == 3, source
        assert "not UTF-8" in result.err


def test_rule_that_hides_a_tensor_from_tensorflow_is_rejected(
    ckpt: Callable[..., Result], tmp_path: Path
) -> None:
    save(tmp_path / "names", {"w": np.ones(2)})
    ckpt("convert", tmp_path / "names", tmp_path / "objects", "--to", "object")
    result = ckpt("rename", tmp_path / "objects", tmp_path / "c", "--add-prefix", "x.ATTRIBUTES/")
    assert result.code == 3
    assert "TensorFlow restores nothing" in result.err


def test_numbers_called_like_the_graph_are_numbers(ckpt: Callable[..., Result], tmp_path: Path) -> None:
    """No part of a file is silently left out because of its name."""
    name = "_CHECKPOINTABLE_OBJECT_GRAPH"
    save(tmp_path / "a.npz", {name: np.ones(2), "w": np.zeros(2)}, "npz")
    assert ckpt("convert", tmp_path / "a.npz", tmp_path / "c-1", "--to", "object").code == 0
    assert ckpt("convert", tmp_path / "c-1", tmp_path / "b.npz").code == 0
    assert name + VALUE in read_all(tmp_path / "b.npz")
    result = ckpt("convert", tmp_path / "a.npz", tmp_path / "n", "--to", "name")
    assert result.code == 3
    assert "object graph" in result.err
