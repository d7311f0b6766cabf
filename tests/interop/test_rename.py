"""Renamed checkpoints, as TensorFlow restores them into the renamed program: both releases."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from tests.support import data_path, digest
from tests.writing import read_all

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def told(array: Any) -> list[Any]:
    """Return an array in the oracle's form."""
    array = np.asarray(array)
    return [formats.core.dtypes.from_numpy(array.dtype).name, list(array.shape), digest(array)]


def all_told(arrays: dict[str, Any]) -> dict[str, list[Any]]:
    return {key: told(array) for key, array in arrays.items()}


def rename(*arguments: object) -> None:
    command = [sys.executable, "-m", "ckpt_cli", "rename", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


NET = {"kernel": np.array([[1, 2]], np.float32), "bias": np.array([3], np.float32)}
OTHERS = {
    "blocks/0": np.float32(4),
    "blocks/1": np.float32(5),
    "pair/alpha": np.float32(10),
    "pair/beta": np.float32(11),
    "one": np.array([7, 8], np.float32),
    "two/inner": np.array([7, 8], np.float32),
    "odd/a.b/c": np.float32(6),
}


def edges(values: dict[str, Any]) -> list[tuple[list[str], list[int]]]:
    parts = {path: path.split("/") for path in values}
    parts.update({path: ["odd", path.removeprefix("odd/")] for path in values if path.startswith("odd/")})
    return [(parts[path], list(np.shape(value))) for path, value in values.items()]


CASES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "edge": (
        ["--sub", "^net=>model"],
        {"model/l1/kernel": NET["kernel"], "model/l1/bias": NET["bias"], **OTHERS},
    ),
    "layer": (
        ["--sub", "/l1/=>/dense/"],
        {"net/dense/kernel": NET["kernel"], "net/dense/bias": NET["bias"], **OTHERS},
    ),
    "moved": (
        ["--sub", "^net/l1/kernel$=>head/w"],
        {"head/w": NET["kernel"], "net/l1/bias": NET["bias"], **OTHERS},
    ),
    "swapped": (
        ["--sub", "^blocks/0$=>blocks/x", "--sub", "^blocks/1$=>blocks/0", "--sub", "^blocks/x$=>blocks/1"],
        {
            "net/l1/kernel": NET["kernel"],
            "net/l1/bias": NET["bias"],
            **OTHERS,
            "blocks/0": OTHERS["blocks/1"],
            "blocks/1": OTHERS["blocks/0"],
        },
    ),
    "prefix_stripped": (
        ["--strip-prefix", "net/"],
        {"l1/kernel": NET["kernel"], "l1/bias": NET["bias"], **OTHERS},
    ),
    "odd_edge": (
        ["--sub", r"^odd/a\.b=>odd/x.y"],
        {
            "net/l1/kernel": NET["kernel"],
            "net/l1/bias": NET["bias"],
            **{name: value for name, value in OTHERS.items() if name != "odd/a.b/c"},
            "odd/x.y/c": OTHERS["odd/a.b/c"],
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("in_place", [False, True])
def test_renamed_objects_are_restored_into_the_renamed_program(
    tensorflow: TensorFlow, case: str, in_place: bool, tmp_path: Path
) -> None:
    rules, expected = CASES[case]
    path = tensorflow.ask("rename", "save_module", path=str(tmp_path / "ckpt"))
    if in_place:
        os.link(path + ".data-00000-of-00001", tmp_path / "elsewhere")  # trap 27: never written to
        before = (tmp_path / "elsewhere").read_bytes()
        rename("--in-place", path, *rules)
        assert (tmp_path / "elsewhere").read_bytes() == before
        target = path
    else:
        target = str(tmp_path / "out" / "renamed-1")
        rename(path, target, *rules, "--link")
    # The alias is one variable under two paths, so a program needs but one of them.
    restored = tensorflow.ask("rename", "restore_module", path=target, edges=edges(without_alias(expected)))
    assert restored == {name: told(value) for name, value in without_alias(expected).items()}


def without_alias(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "two/inner"}


def test_aliases_still_lead_to_what_has_moved(tensorflow: TensorFlow, tmp_path: Path) -> None:
    path = tensorflow.ask("rename", "save_module", path=str(tmp_path / "ckpt"))
    rename("--in-place", path, "--sub", "^one$=>far/away")
    expected = {
        "net/l1/kernel": NET["kernel"],
        "net/l1/bias": NET["bias"],
        **{name: value for name, value in OTHERS.items() if name != "one"},
    }
    restored = tensorflow.ask("rename", "restore_module", path=path, edges=edges(expected))
    assert restored == {name: told(value) for name, value in expected.items()}


def test_slots_of_legacy_adam_follow_their_variables(tensorflow: TensorFlow, tmp_path: Path) -> None:
    source = str(tmp_path / "ckpt-1")
    if tensorflow.is_old:
        source = tensorflow.ask("rename", "save_adam", path=str(tmp_path / "ckpt"))
        rules = ["--sub", "^net/l1/kernel$=>model/dense/w", "--sub", "^net/l1/bias$=>model/dense/b"]
        rename(source, tmp_path / "out-1", *rules, "--sub", "^optimizer=>opt")
        before = read_all(source)
        values = {"w": NET_KEYS["kernel"], "b": NET_KEYS["bias"]}
        expected = {name: before[f"{stem}/.ATTRIBUTES/VARIABLE_VALUE"] for name, stem in values.items()}
        for name, stem in values.items():
            for slot in ("m", "v"):
                key = f"{stem}/.OPTIMIZER_SLOT/optimizer/{slot}/.ATTRIBUTES/VARIABLE_VALUE"
                expected[f"{name}.{slot}"] = before[key]
        assert tensorflow.ask("rename", "restore_adam", path=str(tmp_path / "out-1")) == all_told(expected)
    else:
        # Keras 3 has no optimizer with slot variables; its reader must still find all tensors.
        rename(data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10"), source, "--sub", "^net=>model")
        found = tensorflow.ask("tensors", "listed", path=source)
        assert "model/l1/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE" in found


NET_KEYS = {"kernel": "net/l1/kernel", "bias": "net/l1/bias"}


def test_iterators_follow_with_their_suffix(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """Trap 10: the attribute's key is only what the tensor's key begins with."""
    path = tensorflow.ask("rename", "save_iterator", path=str(tmp_path / "ckpt"))
    rename("--in-place", path, "--sub", "^source$=>data")
    assert tensorflow.ask("rename", "restore_iterator", path=path) == 7


def test_hash_tables_follow_with_their_suffixes(tensorflow: TensorFlow, tmp_path: Path) -> None:
    path = tensorflow.ask("rename", "save_table", path=str(tmp_path / "ckpt"))
    rename("--in-place", path, "--sub", "^words$=>vocabulary")
    assert tensorflow.ask("rename", "restore_table", path=path) == [1, 2, -1]


@pytest.mark.parametrize("in_place", [False, True])
def test_renamed_names_are_restored_by_a_saver(
    tensorflow: TensorFlow, in_place: bool, tmp_path: Path
) -> None:
    source = data_path("name_based", "adam", "model.ckpt-5")
    before = read_all(source)
    target = str(tmp_path / "ckpt-5")
    rename(source, target, "--sub", "^=>scope/")
    if in_place:
        rename("--in-place", target, "--strip-prefix", "scope/", "--add-prefix", "other/")
    prefix = "other/" if in_place else "scope/"
    expected = {prefix + name: value for name, value in before.items()}
    variables = {name: told(value)[:2] for name, value in expected.items()}
    assert tensorflow.ask("tensors", "by_saver", path=target, variables=variables) == all_told(expected)


@pytest.mark.parametrize("parts", [("name_based", "partitioned", "model.ckpt-4"), ("shards", "merged")])
def test_slices_are_found_under_their_new_keys(
    tensorflow: TensorFlow, parts: tuple[str, ...], tmp_path: Path
) -> None:
    """Trap 7: slice keys are made of the tensor's key."""
    target = str(tmp_path / "ckpt-1")
    rename(data_path(*parts), target, "--add-prefix", "new/")
    expected = {f"new/{name}": told(value) for name, value in read_all(data_path(*parts)).items()}
    assert tensorflow.ask("tensors", "by_reader", path=target) == expected


def test_models_of_keras_are_taken_off_and_put_below(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """Section 11.1: what a model's own file and one of a program differ in is one edge."""
    path, weights = tensorflow.ask("rename", "save_keras", path=str(tmp_path / "ckpt"))
    rename(path, tmp_path / "root-1", "--strip-prefix", "model/")
    assert tensorflow.ask("rename", "restore_keras", path=str(tmp_path / "root-1")) == weights
    rename("--in-place", path, "--sub", "^model=>deep/er")
    assert tensorflow.ask("rename", "restore_keras_below", path=path) == weights
