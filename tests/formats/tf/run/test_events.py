"""Event files: TensorFlow's are read, ours have its bytes, cut and damaged ones give what is whole."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.location import parse_location
from formats.store.readahead import ReadAhead
from formats.tf.run import events
from formats.tf.run.events import CHECKPOINT, START, Event, EventReader, EventWriter, event_files, scalars
from formats.wire.tfrecord import encode_record
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

IRIS = data_path("estimator_iris", "models", "iris", "events.out.tfevents.1700000001.host")


def what(event: Event) -> str:
    (name,) = (
        name
        for name in ("file_version", "graph_def", "summary", "session_log", "meta_graph_def")
        if getattr(event, name) is not None
    )
    return name


def test_an_estimators_file_is_read_as_tensorflow_reads_it() -> None:
    reader = EventReader(parse_location(IRIS))
    found = list(reader)
    assert (reader.flaw, reader.damaged) == (None, 0)
    assert [(what(event), event.step) for event in found] == [
        ("file_version", 0),
        ("session_log", 0),
        ("session_log", 1),
        ("summary", 1),
        ("session_log", 1),
        ("session_log", 1),
        ("session_log", 2),
        ("summary", 2),
        ("summary", 102),
        ("summary", 102),
        ("session_log", 200),
    ]
    assert found[0].file_version == "brain.Event:2"
    logs = [event.session_log for event in found if event.session_log is not None]
    assert [log.status for log in logs] == [CHECKPOINT, START, CHECKPOINT, CHECKPOINT, START, CHECKPOINT]
    assert logs[0].checkpoint_path == "models/iris/model.ckpt"
    assert dict(scalars(found[8])) == {"global_step/sec": pytest.approx(946.99)}
    loss = {event.step: value for event in found for tag, value in scalars(event) if tag == "loss"}
    assert list(loss) == [1, 2, 102]
    assert loss[102] < loss[1]


def test_events_are_across_what_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(EventReader(parse_location(IRIS)))
    for size in (1, 13, 100, 5000):
        monkeypatch.setattr(ReadAhead, "SIZE", size)
        assert list(EventReader(parse_location(IRIS))) == whole


def test_every_event_of_tensorflows_encodes_to_its_own_bytes() -> None:
    with open(IRIS, "rb") as file:
        data = file.read()
    assert b"".join(encode_record(event.encode()) for event in EventReader(parse_location(IRIS))) == data


def test_numbers_written_as_tensors_by_tensorflow_2() -> None:
    # Event of tf.summary.write('loss', 0.5, step=3), and of float64 2.5, float16 2.5, text, a vector.
    value = {
        "0a046c6f7373420a0801120022040000003f4a0d0a090a077363616c6172732001": ("loss", 0.5),
        "0a0164420e08021200220800000000000004404a0d0a090a077363616c6172732001": ("d", 2.5),
        "0a0168420808131200220200414a0d0a090a077363616c6172732001": ("h", 2.5),
        "0a0474657874420b08071200420568656c6c6f": None,
        "0a01764212080112041202080222080000803f00002040": None,
        "0a03726177150000a03f": ("raw", 1.25),
    }
    for raw, expected in value.items():
        body = bytes.fromhex(raw)
        summary = bytes((0x0A, len(body))) + body
        event = Event.decode(bytes((0x10, 3, 0x2A, len(summary))) + summary)
        assert list(scalars(event)) == ([] if expected is None else [expected])
        assert event.step == 3


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    with EventWriter(str(tmp_path), now=1700000001.75) as writer:
        writer.session_log(0, CHECKPOINT, "run/model.ckpt", wall_time=2.0)
        writer.session_log(1, START)
        writer.scalars(7, {"loss": 0.0, "global_step/sec": float("nan")}, wall_time=3.5)
        writer.scalars(8, {"loss": 1e300})
    assert os.path.basename(writer.path).startswith("events.out.tfevents.1700000001.")
    reader = EventReader(parse_location(writer.path))
    version, saved, began, first, second = reader
    assert reader.flaw is None
    assert (version.wall_time, version.file_version) == (1700000001.0, "brain.Event:2")
    assert (saved.wall_time, saved.session_log) == (
        2.0,
        events.SessionLog(status=3, checkpoint_path="run/model.ckpt"),
    )
    assert began.session_log == events.SessionLog(status=START)
    assert first.step == 7
    (loss, speed) = scalars(first)
    assert loss == ("loss", 0.0)
    assert speed[1] != speed[1]
    assert dict(scalars(second)) == {"loss": float("inf")}


def test_each_event_is_in_the_file_at_once(tmp_path: Path) -> None:
    with EventWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.scalars(step, {"loss": 1.0})
            assert [event.step for event in EventReader(parse_location(writer.path))][1:] == list(
                range(step + 1)
            )


def test_two_writers_in_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    with EventWriter(str(tmp_path), now=5.0) as one, EventWriter(str(tmp_path), now=5.0) as other:
        assert one.path != other.path
    (tmp_path / "model.ckpt-1.index").touch()
    (tmp_path / "tfevents").mkdir()
    assert event_files(parse_location(str(tmp_path))) == [one.path, other.path]


def test_a_file_cut_in_the_middle_gives_what_is_whole_and_says_so(tmp_path: Path) -> None:
    with open(IRIS, "rb") as file:
        data = file.read()
    path = tmp_path / "cut"
    path.write_bytes(data[: len(data) - 3])
    reader = EventReader(parse_location(str(path)))
    assert len(list(reader)) == 10
    assert (
        str(reader.flaw)
        == f"{path}: offset {len(data) - 56}: the file ends 53 bytes into a record of 56 bytes"
    )
    path.write_bytes(b"")  # TensorFlow creates the file before it writes to it
    assert list(reader) == []
    assert reader.flaw is None


def test_damaged_and_foreign_records_are_counted_and_passed_over(tmp_path: Path) -> None:
    sound = [Event(step=step, wall_time=1.0).encode() for step in range(3)]
    damaged = bytearray(encode_record(sound[1]))
    damaged[-5] ^= 1
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(
        encode_record(sound[0]) + bytes(damaged) + encode_record(b"\xff" * 4) + encode_record(sound[2])
    )
    reader = EventReader(parse_location(str(path)))
    assert [event.step for event in reader] == [0, 2]
    assert reader.damaged == 2
    assert reader.flaw is not None
    assert "a record has checksum" in reader.flaw.message
    path.write_bytes(b"no event file at all, but text")
    assert list(reader) == []
    assert reader.flaw.offset == 0


def test_a_file_that_has_gone_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError):
        list(EventReader(parse_location(str(tmp_path / "gone"))))
    with pytest.raises(CheckpointError, match="no such directory"):
        event_files(parse_location(str(tmp_path / "gone")))


def test_no_payload_is_too_odd(tmp_path: Path) -> None:
    """A record with sound frames is an event or is counted as damaged; nothing is raised."""
    generator = random.Random(5)
    payloads = [event.encode() for event in EventReader(parse_location(IRIS))]
    with open(tmp_path / "odd", "wb") as file:
        for number in range(500):
            payload = bytearray(payloads[number % len(payloads)])
            for _ in range(generator.randrange(1, 6)):
                payload[generator.randrange(len(payload))] = generator.randrange(256)
            file.write(encode_record(bytes(payload)))
    reader = EventReader(parse_location(str(tmp_path / "odd")))
    found = list(reader)
    told = [number for event in found for _, number in scalars(event)]
    assert len(found) + reader.damaged == 500
    assert 100 < len(found) < 500
    assert all(isinstance(number, float) for number in told)
