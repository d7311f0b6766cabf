"""A run directory goes from TensorFlow's Estimator to ours and back, and training continues unmoved."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from tests.interop import runs

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
KINDS = [*sorted(runs.optimizers(tf)), "custom", "keras"]


def ours(program: str, **arguments: Any) -> Any:
    return getattr(runs, program)(tf, **arguments)


def theirs(tensorflow: TensorFlow, program: str, **arguments: Any) -> Any:
    return tensorflow.ask("runs", "run", program=program, arguments=arguments)


def stored(directory: str, name: str) -> dict[str, Any]:
    with formats.open_checkpoint(os.path.join(directory, name)) as reader:
        return {key: tensor.read() for key, tensor in reader.items()}


def assert_same_told(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert one["names"] == two["names"]
    assert one["latest"] == two["latest"]
    assert one["metrics"].keys() == two["metrics"].keys()
    for name, value in one["metrics"].items():
        np.testing.assert_allclose(value, two["metrics"][name], err_msg=name, **CLOSE)
    for here, there in zip(one["predictions"], two["predictions"], strict=True):
        assert list(here) == list(there)
        for key, (dtype, value) in here.items():
            assert dtype == there[key][0], key
            if dtype == "object":
                assert value == there[key][1]
            else:
                np.testing.assert_allclose(value, there[key][1], err_msg=key, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_each_continues_the_other(old_tensorflow: TensorFlow, kind: str, tmp_path: Path) -> None:
    """TensorFlow trains 20 steps, we 20 more, TensorFlow 20 more: the losses of TensorFlow alone."""
    alone, mixed = str(tmp_path / "alone"), str(tmp_path / "mixed")
    assert len(theirs(old_tensorflow, "train", directory=mixed, kind=kind, max_steps=20)) == 20
    shutil.copytree(mixed, alone)
    expected = theirs(old_tensorflow, "train", directory=alone, kind=kind, max_steps=60)
    losses = ours("train", directory=mixed, kind=kind, max_steps=40)
    losses += theirs(old_tensorflow, "train", directory=mixed, kind=kind, max_steps=60)
    np.testing.assert_allclose(losses, expected, **CLOSE)
    one, two = stored(alone, "model.ckpt-60"), stored(mixed, "model.ckpt-60")
    assert one.keys() == two.keys()
    for key in one:
        assert one[key].dtype == two[key].dtype
        np.testing.assert_allclose(one[key], two[key], err_msg=key, rtol=1e-3, atol=1e-4)
    assert sorted(name for name in os.listdir(mixed) if name.endswith(".index")) == [
        f"model.ckpt-{step}.index" for step in (20, 30, 40, 50, 60)
    ]
    assert_same_told(
        theirs(old_tensorflow, "tell", directory=mixed, kind=kind), ours("tell", directory=mixed, kind=kind)
    )


@pytest.mark.parametrize("kind", ["v1", "v2"])
@pytest.mark.parametrize(("classes", "named"), [(2, False), (3, False), (2, True), (3, True)])
def test_tensorflow_continues_with_ours(
    old_tensorflow: TensorFlow, kind: str, classes: int, named: bool, tmp_path: Path
) -> None:
    """A run that we began; two classes have other metrics than three, examples may have weights."""
    begun, copy = str(tmp_path / "begun"), str(tmp_path / "copy")
    what = {"kind": kind, "classes": classes, "named": named}
    ours("train", directory=begun, max_steps=20, **what)
    shutil.copytree(begun, copy)
    told = ours("tell", directory=begun, **what)
    assert_same_told(theirs(old_tensorflow, "tell", directory=copy, **what), told)
    losses = theirs(old_tensorflow, "train", directory=copy, max_steps=40, **what)
    np.testing.assert_allclose(losses, ours("train", directory=begun, max_steps=40, **what), **CLOSE)


def test_objects_go_both_ways(old_tensorflow: TensorFlow, tmp_path: Path) -> None:
    """The guide's object-based saving: begun by each side, continued and restored by the other."""
    begun, other = str(tmp_path / "ours"), str(tmp_path / "theirs")
    first = ours("train_objects", directory=begun, steps=5)
    np.testing.assert_allclose(
        first, theirs(old_tensorflow, "train_objects", directory=other, steps=5), **CLOSE
    )
    for directory in (begun, other):
        here, there = (
            ours("restore_objects", directory=directory),
            theirs(old_tensorflow, "restore_objects", directory=directory),
        )
        assert here[0] == there[0] == 5
        np.testing.assert_allclose(here[1], there[1], **CLOSE)
        np.testing.assert_allclose(here[2], there[2], **CLOSE)
    second = theirs(old_tensorflow, "train_objects", directory=begun, steps=5)
    np.testing.assert_allclose(second, ours("train_objects", directory=other, steps=5), **CLOSE)
    assert second[0] < first[0]


def test_tensorflow_reads_our_events(old_tensorflow: TensorFlow, tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    losses = ours("train", directory=directory, kind="v1", max_steps=20)
    events = old_tensorflow.ask("runs", "events", directory=directory)
    saves = [(step, path) for kind, step, status, path in events if kind == "session_log" and status == 3]
    assert saves == [(step, os.path.join(directory, "model.ckpt")) for step in (0, 10, 20)]
    assert ["summary", 1, "loss", pytest.approx(losses[0], rel=1e-6)] in events
    assert events[0][2] == "brain.Event:2"
