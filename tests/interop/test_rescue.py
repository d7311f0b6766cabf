"""TensorFlow reads and restores what `ckpt rescue` saved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import formats
from formats.tf.bundle.index import OBJECT_GRAPH_KEY
from tests.cli.running import run_ckpt
from tests.support import shard_path

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


@pytest.fixture
def saved(tensorflow: TensorFlow, tmp_path: Path) -> list[dict[str, Any]]:
    """The values of tmp_path/c-1 and tmp_path/c-2, which TensorFlow has written."""
    return tensorflow.ask("rescue", "save", prefixes=[str(tmp_path / "c-1"), str(tmp_path / "c-2")])


def flip_within(prefix: str, key: str) -> None:
    with formats.open_checkpoint(prefix) as reader:
        offset = reader[key].stored.offset
    assert offset is not None
    with open(shard_path(prefix), "r+b") as file:
        file.seek(offset + 5)
        (byte,) = file.read(1)
        file.seek(offset + 5)
        file.write(bytes((byte ^ 1,)))


def test_what_is_left_is_restored(
    tensorflow: TensorFlow, saved: list[dict[str, Any]], tmp_path: Path
) -> None:
    flip_within(str(tmp_path / "c-2"), "net/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    assert run_ckpt("rescue", tmp_path / "c-2", tmp_path / "out").code == 1
    found = tensorflow.ask("rescue", "restore", prefix=str(tmp_path / "out"))
    values, expected = found["values"], saved[1]
    assert values.pop("kernel") != expected.pop("kernel")
    assert values == expected


def test_graph_made_from_keys_restores_everything(
    tensorflow: TensorFlow, saved: list[dict[str, Any]], tmp_path: Path
) -> None:
    flip_within(str(tmp_path / "c-2"), OBJECT_GRAPH_KEY.decode())
    assert run_ckpt("rescue", tmp_path / "c-2", tmp_path / "out").code == 1
    found = tensorflow.ask("rescue", "restore", prefix=str(tmp_path / "out"))
    assert found["values"] == saved[1]
    assert found["matched"]


def test_index_rebuilt_by_a_sibling_restores_everything(
    tensorflow: TensorFlow, saved: list[dict[str, Any]], tmp_path: Path
) -> None:
    os.unlink(tmp_path / "c-2.index")
    done = run_ckpt("rescue", tmp_path / "c-2", tmp_path / "out", "--sibling", tmp_path / "c-1")
    assert done.code == 0, done.err
    found = tensorflow.ask("rescue", "restore", prefix=str(tmp_path / "out"))
    assert found["values"] == saved[1]
    assert found["matched"]
