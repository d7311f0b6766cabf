"""The state of an iterator is carried byte for byte by every command that writes, understood or not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from formats import open_checkpoint
from tests.support import data_path, strings, variants, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")
STATE = "iterator/.ATTRIBUTES/ITERATOR_STATE"

WRITTEN: dict[str, tuple[str, Sequence[str]]] = {
    "convert": (STATE, ("convert", "SRC", "DST")),
    "convert to shards": (STATE, ("convert", "SRC", "DST", "--shard-size", "100")),
    "convert with links": (STATE, ("convert", "SRC", "DST", "--link")),
    "convert like another": (STATE, ("convert", "SRC", "DST", "--like", os.path.join(GUIDE, "ckpt-8"))),
    "rename": (STATE, ("rename", "SRC", "DST", "--sub", "^net/=>model/")),
    "rename the iterator": (
        STATE.replace("iterator", "data/it"),
        ("rename", "SRC", "DST", "--sub", "iterator=>data/it"),
    ),
    "rename in place": (STATE, ("rename", "--in-place", "DST", "--sub", "^net/=>model/")),
    "average": (STATE, ("average", os.path.join(GUIDE, "ckpt-8"), "SRC", "-o", "DST")),
}


def state_of(path: object, key: str = STATE) -> list[bytes]:
    with open_checkpoint(str(path)) as reader:
        assert reader.specs[key].dtype.name == "variant"
        return list(reader[key].read())


def checkpoint(path: Path, state: list[bytes] | None) -> None:
    """Write the guide's last checkpoint, perhaps with another state for its iterator."""
    with open_checkpoint(os.path.join(GUIDE, "ckpt-10")) as reader:
        tensors = {key: reader[key].read() for key in reader}
    kept = {
        key: variants(list(value))
        if key == STATE
        else strings(list(value.reshape(-1)), value.shape)
        if value.dtype == object
        else value
        for key, value in tensors.items()
    }
    write_bundle(str(path), kept if state is None else {**kept, STATE: variants(state)})


@pytest.mark.parametrize("what", WRITTEN)
@pytest.mark.parametrize(
    "state", [None, [b"", b"\x0a\x05other", bytes(range(256)) * 9]], ids=["known", "unknown"]
)
def test_the_bytes_are_kept(what: str, state: list[bytes] | None, tmp_path: Path, ckpt: Callable) -> None:
    key, words = WRITTEN[what]
    source, target = tmp_path / "from-1", tmp_path / "to-1"
    checkpoint(source, state)
    if "SRC" not in words:
        checkpoint(target, state)
    line = [{"SRC": str(source), "DST": str(target)}.get(word, word) for word in words]
    result = ckpt(*line)
    assert (result.code, result.err.count("error")) == (0, 0), result.err
    assert state_of(target, key) == state_of(source)
    assert state is None or state_of(target, key) == state
    shown = ckpt("show", target, key)
    assert (shown.code, "pipeline" in shown.out) == (0, state is None)
    if what == "convert":
        assert ckpt("diff", source, target).code == 0


def test_what_cannot_hold_an_iterator_says_so(tmp_path: Path, ckpt: Callable) -> None:
    checkpoint(tmp_path / "a", [b"other"])
    for name in ("b.npz", "b.safetensors"):
        result = ckpt("convert", tmp_path / "a", tmp_path / name)
        assert (result.code, f"left out {STATE}" in result.err) == (0, True), result.err


def test_a_converted_iterator_continues(tmp_path: Path, ckpt: Callable) -> None:
    """It continues at the very next element, from any position in a shuffle."""

    def opened() -> tuple[tf.train.Checkpoint, object]:
        data = tf.data.Dataset.range(40).map(lambda x: x * 2).shuffle(7, seed=3).batch(4).repeat(2)
        iterator = iter(data)
        return tf.train.Checkpoint(iterator=iterator, v=tf.Variable(1.0)), iterator

    saved, iterator = opened()
    for _ in range(4):
        next(iterator)
    saved.write(tmp_path / "a")
    expected = [batch.numpy().tolist() for batch in iterator]
    assert ckpt("convert", tmp_path / "a", tmp_path / "b").code == 0
    restored, again = opened()
    restored.read(tmp_path / "b").assert_consumed()
    assert [batch.numpy().tolist() for batch in again] == expected


def test_an_average_has_the_last_iterator(tmp_path: Path, ckpt: Callable) -> None:
    """Iterators of a run hold now more elements and now fewer: their states differ in shape."""
    for number, state in enumerate([[b"1"], [b"2", b"3"]]):
        write_bundle(str(tmp_path / f"s-{number}"), {"v": variants(state), "w": np.float32([number])})
    result = ckpt("average", tmp_path / "s-0", tmp_path / "s-1", "-o", tmp_path / "mean")
    assert result.code == 0, result.err
    assert state_of(tmp_path / "mean", "v") == [b"2", b"3"]
    with open_checkpoint(tmp_path / "mean") as reader:
        assert reader["w"].read() == 0.5
