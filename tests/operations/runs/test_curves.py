"""Curves from event files: runs that begin again, several files, cut files, tags."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ckpt_cli.operations.runs.curves import Curve, read_curve
from formats.location import parse_location
from formats.tf.run.events import START, EventWriter
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

IRIS = data_path("estimator_iris", "models", "iris")


def points(curve: Curve) -> list[tuple[int, float]]:
    return list(zip(curve.steps, curve.values, strict=True))


def test_the_loss_of_an_estimator() -> None:
    told = read_curve(parse_location(IRIS))
    assert told.curve.tag == "loss"
    assert told.curve.steps == [1, 2, 102]
    assert told.notes == ()
    assert [os.path.basename(path) for path in told.files] == ["events.out.tfevents.1700000001.host"]
    assert {"loss", "average_loss", "global_step/sec"} <= set(told.tags)
    assert read_curve(parse_location(IRIS), "global_step/sec").curve.steps == [102]
    assert read_curve(parse_location(IRIS), "accuracy").curve.steps == []


def test_a_run_that_begins_again_takes_back_what_an_earlier_one_reported(tmp_path: Path) -> None:
    with EventWriter(str(tmp_path), now=1.0) as writer:
        for step in (1, 101, 201, 301):
            writer.scalars(step, {"loss": float(step)})
    with EventWriter(str(tmp_path), now=2.0) as writer:  # it had died, and its last checkpoint was 150
        writer.session_log(150, START)
        writer.scalars(151, {"loss": 0.5})
    assert points(read_curve(parse_location(str(tmp_path))).curve) == [(1, 1.0), (101, 101.0), (151, 0.5)]


def test_a_step_reported_again_counts_as_reported_last_and_steps_are_put_in_order() -> None:
    curve = Curve("loss")
    for step, value in ((5, 1.0), (3, 2.0), (5, 3.0), (9, 4.0)):
        curve.add(step, value)
    assert points(curve) == [(3, 2.0), (5, 3.0), (9, 4.0)]
    assert curve.last(-1, 8) == (5, 3.0)
    assert curve.last(5, 8) is None
    assert curve.last(5, 9) == (9, 4.0)
    assert Curve().last(-1, 9) is None


def test_the_loss_under_other_names(tmp_path: Path) -> None:
    with EventWriter(str(tmp_path)) as writer:
        writer.scalars(1, {"head/loss": 1.0, "accuracy": 0.5})
        assert read_curve(parse_location(str(tmp_path))).curve.tag == "head/loss"
        writer.scalars(2, {"epoch_loss": 2.0})
        assert read_curve(parse_location(str(tmp_path))).curve.tag == "epoch_loss"
        writer.scalars(3, {"loss": 3.0})
        assert points(read_curve(parse_location(str(tmp_path))).curve) == [(3, 3.0)]


def test_a_cut_file_gives_what_is_whole_and_a_note(tmp_path: Path) -> None:
    with EventWriter(str(tmp_path)) as writer:
        writer.scalars(1, {"loss": 1.0})
        writer.scalars(2, {"loss": 2.0})
    os.truncate(writer.path, os.path.getsize(writer.path) - 1)
    told = read_curve(parse_location(str(tmp_path)))
    assert points(told.curve) == [(1, 1.0)]
    (note,) = told.notes
    assert note.startswith(f"{writer.path}: offset ")
    assert "bytes into a record of" in note
    assert note.endswith("; ckpt uses the complete records")
