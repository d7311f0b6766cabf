"""Event files: TensorFlow reads ours, we read TensorFlow's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from formats.location import parse_location
from formats.tf.run.events import CHECKPOINT, START, EventReader, EventWriter, scalars

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


def test_tensorflow_reads_ours_and_would_write_the_same_bytes(tensorflow: TensorFlow, tmp_path: Path) -> None:
    with EventWriter(str(tmp_path), now=5.5) as writer:
        writer.session_log(0, CHECKPOINT, "run/model.ckpt", wall_time=6.25)
        writer.session_log(1, START, wall_time=6.5)
        writer.scalars(1, {"loss": 1.5, "global_step/sec": 0.0}, wall_time=7.0)
    assert tensorflow.ask("events", "read", path=writer.path) == [
        ["file_version", 0, 5.0, "brain.Event:2"],
        ["session_log", 0, 6.25, [CHECKPOINT, "run/model.ckpt"]],
        ["session_log", 1, 6.5, [START, ""]],
        ["summary", 1, 7.0, [["loss", 1.5], ["global_step/sec", 0.0]]],
    ]
    ours = [event.encode().hex() for event in EventReader(parse_location(writer.path))]
    assert tensorflow.ask("events", "records", path=writer.path) == ours


@pytest.mark.parametrize("writer", ["write_old", "write_new"])
def test_we_read_tensorflows(tensorflow: TensorFlow, writer: str, tmp_path: Path) -> None:
    path = tensorflow.ask("events", writer, directory=str(tmp_path))
    reader = EventReader(parse_location(path))
    found = list(reader)
    assert (reader.flaw, reader.damaged) == (None, 0)
    assert found[0].file_version == "brain.Event:2"
    told = [(event.step, tag, value) for event in found for tag, value in scalars(event)]
    assert told == [(0, "loss", 0.0), (7, "loss", 1.5)]
    assert [event.encode().hex() for event in found] == tensorflow.ask("events", "records", path=path)
