"""Targets next to the checkpoints themselves: event files, and the graphs of TensorFlow 1.

Both are read to tell of a run, so a damaged one may say less, and never end a command.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from formats.errors import CheckpointError
from formats.location import parse_location
from formats.tf.bundle.saved_model import KERAS_METADATA, SAVED_MODEL, read_saved_model
from formats.tf.run.events import CHECKPOINT, START, EventReader, EventWriter, scalars
from formats.tf.run.meta_graph import read_meta_graph
from formats.wire.tfrecord import encode_record, iter_records
from tests.hostile.mutation import mutate_bytes, mutate_message
from tests.support import DATA

if TYPE_CHECKING:
    import random

__all__ = [
    "events",
    "meta_graph",
    "mutate_events",
    "mutate_saved_model",
    "saved_model",
    "seeds_of_events",
    "seeds_of_meta_graphs",
    "seeds_of_saved_models",
]

LARGEST_SEED = 40_000


def _found(part: str) -> list[bytes]:
    """Return the small files of tests/data with `part` in their names."""
    found = []
    for directory, _, names in sorted(os.walk(DATA)):
        for name in sorted(names):
            path = os.path.join(directory, name)
            if part in name and 0 < os.path.getsize(path) <= LARGEST_SEED:
                with open(path, "rb") as file:
                    found.append(file.read())
    return found


def seeds_of_events() -> list[bytes]:
    """Return event files: TensorFlow's that are small, and one with all that is read of them."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        with EventWriter(directory, now=1_700_000_000.0) as writer:
            writer.session_log(0, START, wall_time=1.0)
            for step in range(5):
                writer.scalars(step, {"loss": 1.5 / (step + 1), "accuracy": 0.5}, wall_time=2.0 + step)
            writer.session_log(5, CHECKPOINT, "model.ckpt", wall_time=9.0)
        with open(writer.path, "rb") as file:
            return [file.read(), *_found("tfevents")]


def mutate_events(dice: random.Random, data: bytes) -> bytes:
    """Change an event below its checksum, or any byte."""
    if dice.random() < 0.2:
        return mutate_bytes(dice, data)
    records = list(iter_records(lambda at, size: data[at : at + size], len(data), len(data)))
    payloads = [record.payload for record in records if record.payload is not None]
    at = dice.randrange(len(payloads))
    payloads[at] = mutate_message(dice, payloads[at])
    return b"".join(map(encode_record, payloads))


def events(data: bytes, workspace: str) -> str:
    """Read the events of a file, and the numbers they tell."""
    path = os.path.join(workspace, "events.out.tfevents.1700000000.host")
    with open(path, "wb") as file:
        file.write(data)
    reader = EventReader(parse_location(path))
    told = [number for event in reader for number in scalars(event)]
    assert all(isinstance(tag, str) for tag, _ in told)
    assert (reader.flaw is None) == (reader.damaged == 0)
    return "read" if reader.flaw is None else "damaged"


def seeds_of_meta_graphs() -> list[bytes]:
    return _found(".meta")


def meta_graph(data: bytes, workspace: str) -> str:
    """Read the graph next to a checkpoint."""
    path = os.path.join(workspace, "model.ckpt-1.meta")
    with open(path, "wb") as file:
        file.write(data)
    try:
        found = read_meta_graph(parse_location(path))
    except CheckpointError as error:
        return "refused" if str(error) else "refused without a word"
    assert all(key == variable.key for key, variable in found.variables.items())
    return "read"


def seeds_of_saved_models() -> list[bytes]:
    """Return both files of a SavedModel, the first byte saying which it is."""
    names = (SAVED_MODEL, KERAS_METADATA)
    return [bytes((number,)) + data for number, name in enumerate(names) for data in _found(name)]


def mutate_saved_model(dice: random.Random, data: bytes) -> bytes:
    return data[:1] + mutate_message(dice, data[1:])


def saved_model(data: bytes, workspace: str) -> str:
    """Read what a SavedModel says next to its variables."""
    for name, content in ((SAVED_MODEL, b""), ((SAVED_MODEL, KERAS_METADATA)[data[0] % 2], data[1:])):
        with open(os.path.join(workspace, name), "wb") as file:
            file.write(content)
    try:
        document = read_saved_model(parse_location(workspace)).document()
    except CheckpointError as error:
        return "refused" if str(error) else "refused without a word"
    assert isinstance(document["signatures"], list)
    return "read"
