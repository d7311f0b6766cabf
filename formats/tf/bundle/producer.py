"""The TensorFlow that wrote a checkpoint: the graph next to a bundle names it, the bundle does not.

    PREFIX.meta:       MetaGraphDef: meta_info_def = 1 {tensorflow_version = 5}, graph_def = 2, ...

The graph can be large, and the version is at its start, so only that is read. A file that is not such a
message is ignored: the checkpoint is complete without it. For a SavedModel, `formats.tf.bundle.saved_model`
reads more. tensorflow/core/protobuf/meta_graph.proto
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import CheckpointError
from ...model.facts import Nothing
from ...wire.coding import decode_varint
from ...wire.protobuf import LENGTH, VARINT

if TYPE_CHECKING:
    from ...location import Location
    from ...model.facts import Facts

_MOST_READ = 1 << 22
_META_INFO, _VERSION = 1, 5
_FIXED_SIZE = {1: 8, 5: 4}


class TensorFlowFacts(NamedTuple):
    """The TensorFlow that wrote a checkpoint."""

    tensorflow_version: str

    @property
    def producer(self) -> str:
        return "tensorflow"

    def document(self) -> dict[str, Any]:
        return {"producer": self.producer, **self._asdict()}


def producer_of(prefix: Location) -> Facts:
    """Return which TensorFlow the graph of a checkpoint speaks of, or nothing."""
    version = _version(prefix + ".meta")
    return Nothing() if version is None else TensorFlowFacts(version)


def _version(path: Location) -> str | None:
    if not path.is_file():
        return None
    try:
        with path.open() as file:
            data: bytes | None = file.read(0, _MOST_READ)
        for number in (_META_INFO, _VERSION):
            data = _field(data or b"", number)
    except (CheckpointError, ValueError):
        return None
    text = (data or b"").decode("utf-8", "replace")
    return text if text and text.isprintable() else None


def _field(data: bytes, number: int) -> bytes | None:
    """Return the first field of a number; a message is cut where the data is.  ValueError where malformed."""
    position = 0
    while position < len(data):
        tag, position = decode_varint(data, position)
        kind = tag & 7
        if kind == VARINT:
            _, position = decode_varint(data, position)
        elif kind == LENGTH:
            size, position = decode_varint(data, position)
            if tag >> 3 == number:
                found = data[position : position + size]
                return found if number != _VERSION or len(found) == size else None
            position += size
        elif kind in _FIXED_SIZE:
            position += _FIXED_SIZE[kind]
        else:
            raise ValueError(f"the wire type {kind} is unknown")
    return None
