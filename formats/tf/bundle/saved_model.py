"""The contents of a SavedModel next to its variables: signatures, and the configuration of a Keras 2 model.

    saved_model.pb       SavedModel: 1 schema_version, 2 meta_graphs
        MetaGraphDef     1 meta_info_def {4 tags, 5 tensorflow_version}, 5 signature_def (map),
                         7 object_graph_def {1 nodes {4 user_object {1 identifier, 3 metadata}}}
        SignatureDef     1 inputs (map), 2 outputs (map), 3 method_name
        TensorInfo       1 name, 2 dtype, 3 tensor_shape
    keras_metadata.pb    SavedMetadata: 1 nodes {2 node_id, 4 identifier, 5 metadata}

The metadata of node 0 is JSON with the model's class and configuration, how it is compiled and the
version of Keras.  TensorFlow before 2.5 has it in the object graph.  Keras 3's `export` stores none.
A graph can have gigabytes of constants, so it is not read.
tensorflow/core/protobuf/{saved_model,meta_graph,saved_object_graph}.proto,
keras/src/protobuf/saved_metadata.proto
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.dtypes import BY_NUMBER
from ...keras.facts import KerasFacts
from ...wire.jsontext import parse_object
from ...wire.messages import TensorShapeProto
from ...wire.protobuf import BYTES, INT32, TEXT, Field, Message, fields
from .large_message import LargeMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...location import Location

SAVED_MODEL, KERAS_METADATA = "saved_model.pb", "keras_metadata.pb"
_VARIABLES = "variables"
_META_GRAPH = 2
_META_INFO, _SIGNATURE, _OBJECTS = 1, 5, 7
_NODE, _USER_OBJECT = 1, 4
_LARGEST_INFO = 1 << 20
_LARGEST_SIGNATURES = 1 << 22
"""Bytes of all signatures of a SavedModel; a tensor of one takes about a hundred."""

_LARGEST_METADATA = 1 << 26
"""Bytes of the metadata of one object of Keras: for a model, the configuration of all its layers."""

_MOST_TENSORS = 20_000
"""Tensors of all signatures: what is empty takes two bytes of the file, and hundreds of memory."""

_ROOT = 0
_MODELS = ("_tf_keras_model", "_tf_keras_network", "_tf_keras_sequential")


class _GraphInfo(Message):
    tags: list[str]
    tensorflow_version: str
    FIELDS = fields(tags=Field(4, TEXT, repeated=True), tensorflow_version=Field(5, TEXT))


class _TensorInfo(Message):
    name: str
    dtype: int
    tensor_shape: TensorShapeProto | None
    FIELDS = fields(name=Field(1, TEXT), dtype=Field(2, INT32), tensor_shape=Field(3, TensorShapeProto))


class _TensorEntry(Message):
    key: str
    value: _TensorInfo | None
    FIELDS = fields(key=Field(1, TEXT), value=Field(2, _TensorInfo))


class _Signature(Message):
    inputs: list[bytes]
    outputs: list[bytes]
    method_name: str
    FIELDS = fields(
        inputs=Field(1, BYTES, repeated=True),
        outputs=Field(2, BYTES, repeated=True),
        method_name=Field(3, TEXT),
    )


class _SignatureEntry(Message):
    key: str
    value: _Signature | None
    FIELDS = fields(key=Field(1, TEXT), value=Field(2, _Signature))


class _UserObject(Message):
    identifier: str
    metadata: str
    FIELDS = fields(identifier=Field(1, TEXT), metadata=Field(3, TEXT))


class _SavedObject(Message):
    node_id: int
    identifier: str
    metadata: str
    FIELDS = fields(node_id=Field(2, INT32), identifier=Field(4, TEXT), metadata=Field(5, TEXT))


class SavedModelFacts(NamedTuple):
    """The signatures of a SavedModel, and what Keras 2 says of the model."""

    tensorflow_version: str | None = None
    tag_sets: Sequence[Sequence[str]] = ()
    """The tags of each meta graph."""

    signatures: Sequence[Mapping[str, Any]] = ()
    keras: KerasFacts = KerasFacts()

    @property
    def producer(self) -> str:
        return "tensorflow"

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"producer": self.producer}
        if self.tensorflow_version is not None:
            found["tensorflow_version"] = self.tensorflow_version
        found["tag_sets"] = [list(tags) for tags in self.tag_sets]
        found["signatures"] = [dict(signature) for signature in self.signatures]
        if self.keras.config is not None:
            found |= {"keras_version": self.keras.version, "config": self.keras.config}
        if self.keras.training_config is not None:
            found["training_config"] = self.keras.training_config
        return found


def saved_model_folder(prefix: Location) -> Location | None:
    """Return the folder of the SavedModel whose variables have this prefix; None if it is of none."""
    if prefix.name != _VARIABLES or prefix.parent.name != _VARIABLES:
        return None
    folder = prefix.parent.parent
    return folder if (folder / SAVED_MODEL).is_file() else None


def read_saved_model(folder: Location) -> SavedModelFacts:
    """Return what the files in a SavedModel's folder say.

    Raises CorruptCheckpointError if one is malformed, UnsupportedFeatureError.
    """
    with (folder / SAVED_MODEL).open() as file:
        facts = _SavedModelFile(LargeMessage(file)).read()
    path = folder / KERAS_METADATA
    if path.is_file():
        with path.open() as file:
            facts = facts._replace(keras=_keras_metadata(LargeMessage(file)))
    return facts


class _SavedModelFile:
    """A `saved_model.pb`, read once from its beginning to its end."""

    def __init__(self, message: LargeMessage) -> None:
        self._message = message
        self._version: str | None = None
        self._tag_sets: list[Sequence[str]] = []
        self._signatures: list[dict[str, Any]] = []
        self._size = self._tensors = 0
        self._keras = KerasFacts()

    def read(self) -> SavedModelFacts:
        message = self._message
        for number, start, size in message.fields(0, message.file.size):
            if number == _META_GRAPH:
                self._meta_graph(start, start + size)
        return SavedModelFacts(self._version, self._tag_sets, self._signatures, self._keras)

    def _meta_graph(self, start: int, end: int) -> None:
        tags: Sequence[str] = ()
        signatures = []
        for number, at, size in self._message.fields(start, end):
            if number == _META_INFO:
                info = self._message.decode(_GraphInfo, at, size, _LARGEST_INFO)
                tags, self._version = list(info.tags), self._version or info.tensorflow_version or None
            elif number == _SIGNATURE:
                signatures.append(self._signature(at, size))
            elif number == _OBJECTS:
                self._objects(at, at + size)
        self._tag_sets.append(tags)
        self._signatures += [{**signature, "tags": list(tags)} for signature in signatures]

    def _signature(self, start: int, size: int) -> dict[str, Any]:
        self._size += size
        if self._size > _LARGEST_SIGNATURES:
            raise self._message.corrupt(f"the signatures have more than {_LARGEST_SIGNATURES} bytes", start)
        entry = self._message.decode(_SignatureEntry, start, size)
        value = entry.value or _Signature()
        self._tensors += 1 + len(value.inputs) + len(value.outputs)
        if self._tensors > _MOST_TENSORS:
            raise self._message.corrupt(f"the signatures have more than {_MOST_TENSORS} tensors", start)
        try:
            inputs, outputs = (_tensors(each) for each in (value.inputs, value.outputs))
        except ValueError as error:
            raise self._message.corrupt(
                f"signature {entry.key!r:.80} cannot be read: {error}", start
            ) from error
        return {"name": entry.key, "method": value.method_name, "inputs": inputs, "outputs": outputs}

    def _objects(self, start: int, end: int) -> None:
        """Take the configuration that TensorFlow before 2.5 stores in the first object."""
        first = next((field for field in self._message.fields(start, end) if field[0] == _NODE), None)
        if first is None:
            return
        _, at, size = first
        for number, position, length in self._message.fields(at, at + size):
            if number == _USER_OBJECT:
                found = self._message.decode(_UserObject, position, length, _LARGEST_METADATA)
                if found.identifier in _MODELS and found.metadata:
                    self._keras = _facts_of(self._message, found.metadata, position)


def _tensors(messages: Sequence[bytes]) -> list[dict[str, Any]]:
    entries = map(_TensorEntry.decode, messages)
    return [_tensor(entry) for entry in sorted(entries, key=lambda entry: entry.key)]


def _tensor(entry: _TensorEntry) -> dict[str, Any]:
    """Return what a signature says of a tensor; unknown dimensions, and a shape of unknown rank, are None."""
    info = entry.value or _TensorInfo()
    dtype, shape = BY_NUMBER.get(info.dtype), info.tensor_shape
    is_ranked = shape is not None and not shape.unknown_rank
    return {
        "name": entry.key,
        "tensor": info.name,
        "dtype": None if dtype is None else dtype.name,
        "shape": [dim.size if dim.size >= 0 else None for dim in shape.dim] if shape and is_ranked else None,
    }


def _keras_metadata(message: LargeMessage) -> KerasFacts:
    """Return what `keras_metadata.pb` says of the model; nothing if its root is none of Keras' models."""
    for number, start, size in message.fields(0, message.file.size):
        if number != _NODE:
            continue
        found = message.decode(_SavedObject, start, size, _LARGEST_METADATA)
        if found.node_id == _ROOT and found.identifier in _MODELS and found.metadata:
            return _facts_of(message, found.metadata, start)
    return KerasFacts()


def _facts_of(message: LargeMessage, metadata: str, offset: int) -> KerasFacts:
    """Return the configuration in a model's metadata; of a subclass, which cannot be made of it, none."""
    try:
        found = parse_object(metadata)
    except ValueError as error:
        raise message.corrupt(f"the metadata of the model cannot be read: {error}", offset) from error
    model, compiled, version = (
        found.get(name) for name in ("model_config", "training_config", "keras_version")
    )
    if not isinstance(model, dict) or not isinstance(model.get("config"), dict | list):
        return KerasFacts(version=version if isinstance(version, str) else None)
    return KerasFacts(
        version=version if isinstance(version, str) else None,
        config=json.dumps(_listed(model)),
        training_config=json.dumps(_listed(compiled)) if isinstance(compiled, dict) else None,
    )


def _listed(value: Any) -> Any:
    """Return a configuration with lists for tuples and shapes, as `to_json` has them."""
    if isinstance(value, list):
        return [_listed(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"class_name", "items"} and value["class_name"] in ("__tuple__", "TensorShape"):
        return _listed(value["items"])
    return {key: _listed(item) for key, item in value.items()}
