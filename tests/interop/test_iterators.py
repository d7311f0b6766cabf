"""Iterators cross: what one side saved, the other continues with at the very next element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.runtime.guide import train
from tests.interop import programs
from tests.interop.pipelines import FOLLOWING, PIPELINES, POSITIONS, drawn, opened
from tests.sampling import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

CHOSEN = [PIPELINES[number] for number in seeds(20, len(PIPELINES))]


def expected(tensorflow: TensorFlow, program: str) -> list[Any]:
    """Return what follows after each position, as TensorFlow gives it without being saved."""
    whole = tensorflow.ask("iterators", "given", program=program, count=max(POSITIONS) + FOLLOWING)
    return [whole[position : position + FOLLOWING] for position in POSITIONS]


def following(tensorflow: TensorFlow, program: str, directory: Path) -> list[Any]:
    return tensorflow.ask(
        "iterators",
        "following",
        program=program,
        directory=str(directory),
        positions=POSITIONS,
        count=FOLLOWING,
    )


def restored(program: str, path: Path) -> Any:
    iterator = opened(tf, np, program)
    tf.train.Checkpoint(iterator=iterator).read(path).assert_consumed()
    return iterator


@pytest.mark.parametrize("program", CHOSEN)
def test_elements_are_tensorflows(tensorflow: TensorFlow, program: str) -> None:
    count = max(POSITIONS) + FOLLOWING
    given = tensorflow.ask("iterators", "given", program=program, count=count)
    assert drawn(opened(tf, np, program), count) == given


@pytest.mark.parametrize("program", CHOSEN)
def test_tensorflow_continues_with_ours(tensorflow: TensorFlow, program: str, tmp_path: Path) -> None:
    for position in POSITIONS:
        iterator = opened(tf, np, program)
        drawn(iterator, position)
        tf.train.Checkpoint(iterator=iterator).write(tmp_path / str(position))
    assert following(tensorflow, program, tmp_path) == expected(tensorflow, program)


@pytest.mark.parametrize("program", CHOSEN)
def test_tensorflows_continues_here_and_there_again(
    tensorflow: TensorFlow, program: str, tmp_path: Path
) -> None:
    """Elements that TensorFlow had buffered are returned; those that were not are saved again."""
    theirs, again = tmp_path / "theirs", tmp_path / "again"
    ask = {"program": program, "directory": str(theirs), "positions": POSITIONS}
    tensorflow.ask("iterators", "save", **ask)
    truth = expected(tensorflow, program)
    for position, next_ones in zip(POSITIONS, truth, strict=True):
        assert drawn(restored(program, theirs / str(position)), FOLLOWING) == next_ones
        iterator = restored(program, theirs / str(position))
        assert drawn(iterator, 1) == next_ones[:1]
        tf.train.Checkpoint(iterator=iterator).write(again / str(position))
    whole = tensorflow.ask("iterators", "given", program=program, count=max(POSITIONS) + FOLLOWING + 1)
    assert following(tensorflow, program, again) == [
        whole[position + 1 : position + 1 + FOLLOWING] for position in POSITIONS
    ]


OPTIONS: dict[str, dict[str, Any]] = {
    "no autotuning": {"autotune.enabled": False},
    "no optimizations": {"experimental_optimization.apply_default_optimizations": False},
    "neither": {
        "autotune.enabled": False,
        "experimental_optimization.apply_default_optimizations": False,
    },
    "no parallel maps": {"experimental_optimization.map_parallelization": False},
    "no prefetch": {"experimental_optimization.inject_prefetch": False},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_pipelines_that_were_not_rewritten_continue_here(
    tensorflow: TensorFlow, name: str, tmp_path: Path
) -> None:
    for number, program in enumerate(
        [
            "D.range(30).map(lambda x: x + 1).batch(2).repeat(2)",
            "D.range(30).shuffle(5, seed=1).repeat(2).map(lambda x: x + 1)",
            "D.range(9).map(lambda x: x).batch(2)",
            "D.range(9).flat_map(lambda x: D.range(6).map(lambda y: x + y).batch(2)).map(lambda x: x * 2)",
        ]
    ):
        path = str(tmp_path / str(number))
        asked = {"program": program, "path": path, "options": OPTIONS[name]}
        expected = tensorflow.ask("iterators", "save_with", **asked)
        assert drawn(restored(program, tmp_path / str(number)), 2) == expected, program


REFUSED = {
    "D.range(9).map(lambda x: tf.random.uniform([]))": "RandomUniform is stateful",
    "D.range(9).map(lambda x: tf.random.normal([]))": "RandomStandardNormal is stateful",
    "D.range(9).map(lambda x, v=tf.Variable(1, dtype=tf.int64): x + v)": "ReadVariableOp is stateful",
    "D.range(9).map(lambda x, v=tf.Variable(1, dtype=tf.int64): v.assign_add(x))": (
        "AssignAddVariableOp is stateful"
    ),
    "D.range(9).map(lambda x, g=tf.random.Generator.from_seed(1): g.uniform([]))": (
        "RngReadAndSkip is stateful"
    ),
    "D.range(4).map(lambda x: D.range(x).reduce(np.int64(0), lambda a, b: a + b))": (
        "ReduceDataset is stateful"
    ),
    "D.range(9).filter(lambda x, v=tf.Variable(1, dtype=tf.int64): x < v)": "ReadVariableOp is stateful",
    "D.from_generator(lambda: iter([1, 2, 3]), tf.int64)": "PyFunc is stateful",
    "D.range(9).flat_map(lambda x: D.range(3).shuffle(2, seed=1))": "DummySeedGenerator is stateful",
}


@pytest.mark.parametrize("program", REFUSED)
def test_what_cannot_cross_is_rejected_alike(tensorflow: TensorFlow, program: str, tmp_path: Path) -> None:
    name, message = tensorflow.ask("iterators", "save_refused", program=program, directory=str(tmp_path))
    iterator = opened(tf, np, program)
    next(iterator)
    with pytest.raises(tf.errors.OpError) as caught:
        tf.train.Checkpoint(iterator=iterator).write(tmp_path / "refused")
    assert (type(caught.value).__name__, REFUSED[program] in message) == (name, True)
    assert REFUSED[program] in str(caught.value)


def test_the_guides_loop_continues_where_the_other_side_stopped(
    tensorflow: TensorFlow, tmp_path: Path
) -> None:
    """Losses, data and steps of runs that change sides are those of one that does not."""

    def ours(directory: str, steps: int) -> Any:
        return programs.guided(tf, None, str(tmp_path / directory), steps)

    def theirs(directory: str, steps: int) -> Any:
        arguments = {"directory": str(tmp_path / directory), "steps": steps}
        return tensorflow.ask("iterators", "guided", **arguments)

    whole = theirs("alone", 30)
    for directory, sides in (("begun here", (ours, theirs, ours)), ("begun there", (theirs, ours, theirs))):
        parts = [side(directory, steps) for side, steps in zip(sides, (7, 12, 11), strict=True)]
        assert [one for part in parts for one in part["drawn"]] == whole["drawn"]
        losses = [one for part in parts for one in part["losses"]]
        np.testing.assert_allclose(losses, whole["losses"], rtol=2e-5)
        assert [part["step"] for part in parts] == [8, 20, 31]


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])  # 2.21 comes without Keras 2
def test_tensorflow_continues_with_the_guides_own_program(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """As `ckpt demo` runs it: 50 steps, the last save after 49."""
    assert train(str(tmp_path), 0.1).checkpoints[-1] == "ckpt-5"
    asked = {"directory": str(tmp_path), "steps": 12}
    theirs = tensorflow.ask("iterators", "continue_the_guide", **asked)
    ours = programs.continue_the_guide(tf, tf.keras, **asked)
    assert theirs["drawn"] == ours["drawn"]
    assert ours["drawn"][0] == [8.0, 9.0]
    assert (theirs["step"], ours["step"]) == (62, 62)
    np.testing.assert_allclose(theirs["losses"], ours["losses"], rtol=2e-4)
