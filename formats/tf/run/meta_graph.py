"""MetaGraphDef: the graph that TensorFlow 1 writes beside a checkpoint, `PREFIX.meta`.

    meta_info_def   1   tensorflow_version 5
    graph_def       2   node 1: name 1, op 2, attr 5 (map: `shape`, `dtype` of a variable)
    collection_def  4   map: key 1, value 2: bytes_list 2: value 1, a VariableDef each
    VariableDef         variable_name 1 (`dense/kernel:0`), save_slice_info_def 4 of a partition:
                        full_name 1, full_shape 2

The collections `variables` and `trainable_variables` tell which variables a program trains, which
the checkpoint itself does not say.  A partition counts as the variable that it is a part of, since
that is its key in the checkpoint.  A graph can hold gigabytes of constants, so the file is gone
through field by field and nothing large is read; names, ops and collections are.
tensorflow/core/protobuf/meta_graph.proto, tensorflow/core/framework/{graph,node_def,variable}.proto
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...errors import CorruptCheckpointError, UnsupportedFeatureError
from ...store.readahead import ReadAhead
from ...wire.coding import decode_varint
from ...wire.messages import TensorShapeProto
from ...wire.protobuf import BYTES, INT32, INT64, TEXT, Field, Message, fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...location import Location
    from ...store.base import File


M = TypeVar("M", bound=Message)

_META_INFO, _GRAPH, _COLLECTION = 1, 2, 4
_NODE = 1
_TRAINABLE, _GLOBAL = "trainable_variables", "variables"
_VARIABLE_OPS = frozenset(("VarHandleOp", "VariableV2", "Variable"))

_MOST_OF_A_TAG = 20
"""Bytes of a tag and a length, ten each at most."""
_LARGEST_NODE = 1 << 16
"""Bytes; a variable's node is a hundred, what is larger is a constant."""
_LARGEST_COLLECTION = 1 << 28
"""Bytes; a million variables fit."""


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
    """A variable of a graph, by the key it is saved under; `shape` is None where the graph leaves it open."""

    key: str
    shape: tuple[int, ...] | None
    trainable: bool


class MetaGraph(NamedTuple):
    """What a graph tells of a checkpoint: who wrote it, and its variables by key."""

    tensorflow_version: str
    variables: dict[str, GraphVariable]


def read_meta_graph(path: Location) -> MetaGraph:
    """Return what the MetaGraphDef at `path` tells.

    Raises CorruptCheckpointError where it is none, CheckpointNotFoundError, UnsupportedFeatureError.
    """
    with path.open() as file:
        return _MetaGraphFile(file).read()


class _MetaGraphFile:
    """A file that is a MetaGraphDef, gone through once."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._ahead = ReadAhead(file)
        self._version = ""
        self._shapes: dict[str, tuple[int, ...] | None] = {}
        self._collections: dict[str, list[VariableDef]] = {_TRAINABLE: [], _GLOBAL: []}

    def read(self) -> MetaGraph:
        found = False
        for number, start, size in self._fields(0, self._file.size):
            found = found or number in (_META_INFO, _GRAPH)
            if number == _META_INFO:
                self._version = self._decode(_MetaInfo, start, size).tensorflow_version
            elif number == _GRAPH:
                self._read_nodes(start, start + size)
            elif number == _COLLECTION:
                self._read_collection(start, size)
        if not found:
            raise self._corrupt("not a MetaGraphDef: it has neither a graph nor meta information", 0)
        return MetaGraph(self._version, self._variables())

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (number, start, size) of the messages, strings and bytes between two offsets."""
        position = start
        while position < end:
            head = self._ahead.read(position, min(_MOST_OF_A_TAG, end - position))
            try:
                tag, at = decode_varint(head, 0)
                number, wire_type = tag >> 3, tag & 7
                size = 0
                if wire_type == 2:
                    size, at = decode_varint(head, at)
                elif wire_type == 0:
                    _, at = decode_varint(head, at)
                elif wire_type in (1, 5):
                    at += 8 if wire_type == 1 else 4
                else:
                    raise ValueError(f"field {number} has unknown wire type {wire_type}")
            except ValueError as error:
                raise self._corrupt(str(error), position) from error
            if number == 0 or size > end - position - at:
                message = f"field {number} needs {size} bytes, only {max(0, end - position - at)} are left"
                raise self._corrupt(message, position)
            if wire_type == 2:
                yield number, position + at, size
            position += at + size

    def _decode(self, message: type[M], start: int, size: int) -> M:
        if size > _LARGEST_COLLECTION:
            what = f"a {message.__name__.strip('_')} has {size} bytes, which is over the limit"
            raise UnsupportedFeatureError(what, path=self._file.path, offset=start)
        try:
            return message.decode(self._file.read_exactly(start, size))
        except ValueError as error:
            raise self._corrupt(str(error), start) from error

    def _read_nodes(self, start: int, end: int) -> None:
        for number, at, size in self._fields(start, end):
            if number != _NODE or size > _LARGEST_NODE:
                continue
            data = self._ahead.read(at, size)
            if b"Var" not in data:  # which is faster than taking every node apart
                continue
            try:
                node = _GraphNode.decode(data)
            except ValueError as error:
                raise self._corrupt(str(error), at) from error
            if node.op in _VARIABLE_OPS:
                self._shapes[node.name] = _shape(node)

    def _read_collection(self, start: int, size: int) -> None:
        for number, at, length in self._fields(start, start + size):
            if number == 1:
                key = self._file.read_exactly(at, min(length, len(_TRAINABLE) + 1)).decode("utf-8", "replace")
                if key not in self._collections:
                    return
        entry = self._decode(_CollectionEntry, start, size)
        if entry.key not in self._collections:  # a key given twice: the last one counts
            return
        values = entry.value.bytes_list.value if entry.value and entry.value.bytes_list else []
        try:
            self._collections[entry.key] += [VariableDef.decode(value) for value in values]
        except ValueError as error:
            raise self._corrupt(f"collection {entry.key!r}: {error}", start) from error

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

    def _corrupt(self, message: str, offset: int) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self._file.path, offset=offset, code="meta-graph")


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
