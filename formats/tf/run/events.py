"""TensorBoard's event files: the log of a training run, in order of time.

    events.out.tfevents.<seconds since 1970>.<host>    and a suffix of the writer's own
    file:     records of formats.wire.tfrecord, one Event each
    Event:    wall_time, step, and one of file_version ("brain.Event:2", always the first),
              a graph, a summary, a session log
    Summary:  values, each with a tag: a number (`simple_value`), since TensorFlow 2 a
              tensor of rank 0 instead, or an image, a histogram

A session log says START when a run begins, which discards the earlier entries of that step and later ones,
and CHECKPOINT after a save. Values that are not modelled here, such as histograms, stay in a message's
`unknown` bytes. A file that is being written, or was cut off, ends within a record; everything before that
record is read. tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto, tensor.proto
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import IO, TYPE_CHECKING, Self

from ...errors import CorruptCheckpointError
from ...model.checkpoint_files import is_event_file
from ...store.readahead import ReadAhead
from ...wire.messages import TensorShapeProto
from ...wire.protobuf import BYTES, DOUBLE, FLOAT, INT32, INT64, TEXT, Field, Message, fields
from ...wire.tfrecord import encode_record, iter_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...location import Location


FILE_VERSION = "brain.Event:2"
START, STOP, CHECKPOINT = 1, 2, 3
"""SessionLog.status."""

LARGEST_EVENT = 1 << 26
"""Bytes; what is larger is a graph or a batch of images and is passed over."""


class TensorProto(Message):
    """A tensor in a message; the typed fields are those that scalars come in."""

    dtype: int
    tensor_shape: TensorShapeProto | None
    tensor_content: bytes
    float_val: list[float]
    double_val: list[float]
    int_val: list[int]
    int64_val: list[int]
    FIELDS = fields(
        dtype=Field(1, INT32),
        tensor_shape=Field(2, TensorShapeProto),
        tensor_content=Field(4, BYTES),
        float_val=Field(5, FLOAT, repeated=True),
        double_val=Field(6, DOUBLE, repeated=True),
        int_val=Field(7, INT32, repeated=True),
        int64_val=Field(10, INT64, repeated=True),
    )


class SummaryValue(Message):
    """A tag and its value; at most one of `simple_value` and `tensor` is set."""

    tag: str
    simple_value: float | None
    tensor: TensorProto | None
    metadata: bytes | None
    FIELDS = fields(
        tag=Field(1, TEXT),
        simple_value=Field(2, FLOAT, explicit=True),
        tensor=Field(8, TensorProto),
        metadata=Field(9, BYTES, explicit=True),
    )


class Summary(Message):
    value: list[SummaryValue]
    FIELDS = fields(value=Field(1, SummaryValue, repeated=True))


class SessionLog(Message):
    status: int
    checkpoint_path: str
    msg: str
    FIELDS = fields(status=Field(1, INT32), checkpoint_path=Field(2, TEXT), msg=Field(3, TEXT))


class SourceMetadata(Message):
    writer: str
    FIELDS = fields(writer=Field(1, TEXT))


class Event(Message):
    """One thing that happened; besides `wall_time` and `step` one of the others is set."""

    wall_time: float
    step: int
    file_version: str | None
    graph_def: bytes | None
    summary: Summary | None
    session_log: SessionLog | None
    meta_graph_def: bytes | None
    source_metadata: SourceMetadata | None
    FIELDS = fields(
        wall_time=Field(1, DOUBLE),
        step=Field(2, INT64),
        file_version=Field(3, TEXT, explicit=True),
        graph_def=Field(4, BYTES, explicit=True),
        summary=Field(5, Summary),
        session_log=Field(7, SessionLog),
        meta_graph_def=Field(9, BYTES, explicit=True),
        source_metadata=Field(10, SourceMetadata),
    )


# Reading -------------------------------------------------------------------------


def event_files(directory: Location) -> list[Location]:
    """Return the paths of the event files in a directory, those that began first first."""
    paths = [directory / name for name, _ in directory.listing() if is_event_file(name)]
    return [path for path in paths if path.is_file()]


class EventReader:
    """The events of a file that can be read, in order; going through them again reads them again.

    After that, `flaw` is the first thing that was wrong, or None, and `damaged` counts the
    records that could not be read.  Memory is that of one event.
    """

    def __init__(self, path: Location) -> None:
        self.path = path
        self.flaw: CorruptCheckpointError | None = None
        self.damaged = 0

    def __iter__(self) -> Iterator[Event]:
        """Yield the events.  Raises CheckpointNotFoundError, CheckpointError if there is no such file."""
        self.flaw, self.damaged = None, 0
        with self.path.open() as file:
            for record in iter_records(ReadAhead(file).read, file.size, LARGEST_EVENT):
                if record.payload is None:
                    if record.flaw is not None:
                        self._lost(record.flaw, record.offset)
                    continue
                try:
                    event = Event.decode(record.payload)
                except ValueError as error:
                    self._lost(f"this record is not an event: {error}", record.offset)
                    continue
                yield event

    def _lost(self, message: str, offset: int) -> None:
        self.damaged += 1
        if self.flaw is None:
            self.flaw = CorruptCheckpointError(message, path=self.path, offset=offset, code="events")


# DataType of types.proto: the format of a scalar in `tensor_content`, or the field that holds it.
_SCALARS = {
    1: ("<f", "float_val"),
    2: ("<d", "double_val"),
    3: ("<i", "int_val"),
    9: ("<q", "int64_val"),
    19: ("<e", None),
}


def _scalar(tensor: TensorProto) -> float | None:
    """Return the number that a tensor of rank 0 is; None for others."""
    if tensor.tensor_shape is None or tensor.tensor_shape.dim or tensor.tensor_shape.unknown_rank:
        return None
    code, field = _SCALARS.get(tensor.dtype, (None, None))
    if code is None:
        return None
    if len(tensor.tensor_content) == struct.calcsize(code):
        return float(struct.unpack(code, tensor.tensor_content)[0])
    values = getattr(tensor, field) if field is not None else []
    return float(values[0]) if len(values) == 1 else None


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """Yield (tag, number) of an event's summary, in either of the two ways of writing numbers."""
    for value in event.summary.value if event.summary is not None else ():
        if value.simple_value is not None:
            yield value.tag, value.simple_value
        elif value.tensor is not None and (number := _scalar(value.tensor)) is not None:
            yield value.tag, number


# Writing -------------------------------------------------------------------------


class EventWriter:
    """Writes a new event file into a directory; a context manager.

    Each event goes to the file at once and, unless it is a large one, whole, so that TensorBoard
    sees it and a program that is killed leaves whole records.
    """

    def __init__(self, directory: str, *, suffix: str = "", now: float | None = None) -> None:
        os.makedirs(directory, exist_ok=True)
        now = time.time() if now is None else now
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}{suffix}"
        self._file, self.path = _create(os.path.join(directory, name))
        # TensorFlow gives the first event whole seconds.
        source = SourceMetadata(writer="tensorflow.core.util.events_writer")
        self.write(Event(wall_time=float(int(now)), file_version=FILE_VERSION, source_metadata=source))

    def write(self, event: Event) -> None:
        self._file.write(encode_record(event.encode()))
        self._file.flush()

    def _now(self, wall_time: float | None) -> float:
        return time.time() if wall_time is None else wall_time

    def scalars(self, step: int, values: Mapping[str, float], *, wall_time: float | None = None) -> None:
        """Write numbers of one step, as TensorFlow 1 and its Estimators do (`simple_value`)."""
        summary_values = [
            SummaryValue(tag=tag, simple_value=_float32(value)) for tag, value in values.items()
        ]
        self.write(Event(wall_time=self._now(wall_time), step=step, summary=Summary(value=summary_values)))

    def session_log(
        self, step: int, status: int, checkpoint_path: str = "", *, wall_time: float | None = None
    ) -> None:
        """Write START, STOP or CHECKPOINT; the latter with the path given to the saver, without the step."""
        log = SessionLog(status=status, checkpoint_path=checkpoint_path)
        self.write(Event(wall_time=self._now(wall_time), step=step, session_log=log))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _create(path: str) -> tuple[IO[bytes], str]:
    """Return a new file, under a number more where two writers begin in one second."""
    number = 0
    while True:
        unused = f"{path}.{number}" if number else path
        try:
            return open(unused, "xb"), unused
        except FileExistsError:
            number += 1


def _float32(value: float) -> float:
    """Return what can be packed: too large for a float32 is infinite, as it is to TensorFlow."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(value)
