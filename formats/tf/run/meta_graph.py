"""MetaGraphDef: the graph that TensorFlow 1 writes next to a checkpoint, `PREFIX.meta`.

    meta_info_def   1   tensorflow_version 5
    graph_def       2   node 1: name 1, op 2, attr 5 (map: `shape`, `dtype` of a variable)
    collection_def  4   map: key 1, value 2: bytes_list 2: value 1, a VariableDef each
    VariableDef         variable_name 1 (`dense/kernel:0`), save_slice_info_def 4 of a partition:
                        full_name 1, full_shape 2

The collections `variables` and `trainable_variables` list the variables that a program trains, which the
checkpoint itself does not. A partition counts as the variable that it belongs to, because that is its key in
the checkpoint. A graph can hold gigabytes of constants, so the file is read field by field: names, ops and
collections are read, and nothing large. tensorflow/core/protobuf/meta_graph.proto,
tensorflow/core/framework/{graph,node_def,variable}.proto
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...wire.messages import TensorShapeProto
from ...wire.protobuf import BYTES, INT32, INT64, TEXT, Field, Message, fields
from ..bundle.large_message import LargeMessage

if TYPE_CHECKING:
    from ...location import Location
    from ...store.base import File


_META_INFO, _GRAPH, _COLLECTION = 1, 2, 4
_NODE = 1
_TRAINABLE, _GLOBAL = "trainable_variables", "variables"
_VARIABLE_OPS = frozenset(("VarHandleOp", "VariableV2", "Variable"))

_LARGEST_NODE = 1 << 16
"""Bytes; a variable's node is a hundred, what is larger is a constant."""


class SaveSliceInfo(Message):
    full_name: str
    full_shape: list[int]
    FIELDS = fields(full_name=Field(1, TEXT), full_shape=Field(2, INT64, repeated=True))


class VariableDef(Message):
    variable_name: str
    slice: SaveSliceInfo | None
    FIELDS = fields(variable_name=Field(1, TEXT), slice=Field(4, SaveSliceInfo))


class _BytesList(Message):
    value: list[bytes]
    FIELDS = fields(value=Field(1, BYTES, repeated=True))


class _Collection(Message):
    bytes_list: _BytesList | None
    FIELDS = fields(bytes_list=Field(2, _BytesList))


class _CollectionEntry(Message):
    key: str
    value: _Collection | None
    FIELDS = fields(key=Field(1, TEXT), value=Field(2, _Collection))


class _AttrValue(Message):
    type: int
    shape: TensorShapeProto | None
    FIELDS = fields(type=Field(6, INT32), shape=Field(7, TensorShapeProto))


class _AttrEntry(Message):
    key: str
    value: _AttrValue | None
    FIELDS = fields(key=Field(1, TEXT), value=Field(2, _AttrValue))


class _GraphNode(Message):
    name: str
    op: str
    attr: list[_AttrEntry]
    FIELDS = fields(name=Field(1, TEXT), op=Field(2, TEXT), attr=Field(5, _AttrEntry, repeated=True))


class _MetaInfo(Message):
    tensorflow_version: str
    FIELDS = fields(tensorflow_version=Field(5, TEXT))


class GraphVariable(NamedTuple):
    """A variable of a graph, by the key it is saved under; `shape` is None if the graph leaves it open."""

    key: str
    shape: tuple[int, ...] | None
    trainable: bool


class MetaGraph(NamedTuple):
    """A checkpoint's producer, and its variables by key, as a graph lists them."""

    tensorflow_version: str
    variables: dict[str, GraphVariable]


def read_meta_graph(path: Location) -> MetaGraph:
    """Return the content of the MetaGraphDef at `path`.

    Raises CorruptCheckpointError if it is none, CheckpointNotFoundError, UnsupportedFeatureError.
    """
    with path.open() as file:
        return _MetaGraphFile(file).read()


class _MetaGraphFile:
    """A file that is a MetaGraphDef, gone through once."""

    def __init__(self, file: File) -> None:
        self._message = LargeMessage(file)
        self._version = ""
        self._shapes: dict[str, tuple[int, ...] | None] = {}
        self._collections: dict[str, list[VariableDef]] = {_TRAINABLE: [], _GLOBAL: []}

    def read(self) -> MetaGraph:
        found = False
        for number, start, size in self._message.fields(0, self._message.file.size):
            found = found or number in (_META_INFO, _GRAPH)
            if number == _META_INFO:
                self._version = self._message.decode(_MetaInfo, start, size).tensorflow_version
            elif number == _GRAPH:
                self._read_nodes(start, start + size)
            elif number == _COLLECTION:
                self._read_collection(start, size)
        if not found:
            raise self._message.corrupt(
                "this is not a MetaGraphDef: it has neither a graph nor meta information", 0
            )
        return MetaGraph(self._version, self._variables())

    def _read_nodes(self, start: int, end: int) -> None:
        for number, at, size in self._message.fields(start, end):
            if number != _NODE or size > _LARGEST_NODE:
                continue
            data = self._message.read(at, size)
            if b"Var" not in data:  # faster than decoding every node
                continue
            try:
                node = _GraphNode.decode(data)
            except ValueError as error:
                raise self._message.corrupt(str(error), at) from error
            if node.op in _VARIABLE_OPS:
                self._shapes[node.name] = _shape(node)

    def _read_collection(self, start: int, size: int) -> None:
        for number, at, length in self._message.fields(start, start + size):
            if number == 1:
                name = self._message.file.read_exactly(at, min(length, len(_TRAINABLE) + 1))
                if name.decode("utf-8", "replace") not in self._collections:
                    return
        entry = self._message.decode(_CollectionEntry, start, size)
        if entry.key not in self._collections:  # a key given twice: the last one counts
            return
        values = entry.value.bytes_list.value if entry.value and entry.value.bytes_list else []
        try:
            self._collections[entry.key] += [VariableDef.decode(value) for value in values]
        except ValueError as error:
            raise self._message.corrupt(f"collection {entry.key!r}: {error}", start) from error

    def _variables(self) -> dict[str, GraphVariable]:
        trainable = {_key(variable) for variable in self._collections[_TRAINABLE]}
        variables = {}
        for variable in (*self._collections[_GLOBAL], *self._collections[_TRAINABLE]):
            key = _key(variable)
            shape = (
                tuple(variable.slice.full_shape)
                if variable.slice is not None
                else self._shapes.get(_operation(variable.variable_name))
            )
            variables[key] = GraphVariable(key, shape, key in trainable)
        return variables


def _operation(name: str) -> str:
    """Return the operation whose output a tensor's name is: `w:0` is the first of `w`."""
    return name.rpartition(":")[0] or name


def _key(variable: VariableDef) -> str:
    return variable.slice.full_name if variable.slice else _operation(variable.variable_name)


def _shape(node: _GraphNode) -> tuple[int, ...] | None:
    for attribute in node.attr:
        if attribute.key == "shape" and attribute.value is not None and attribute.value.shape is not None:
            shape = attribute.value.shape
            sizes = tuple(dim.size for dim in shape.dim)
            return None if shape.unknown_rank or any(size < 0 for size in sizes) else sizes
    return None
