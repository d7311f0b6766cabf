"""Exported models, made by hand from arrays."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.wire.coding import encode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np


class Hole(NamedTuple):
    """An array that takes its place in a file, but whose bytes are not written."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: tuple[int, int] | None = None
    """The number of a type of GGUF, and the bytes of its blocks."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.blocks[1] if self.blocks else math.prod(self.shape) * self.dtype.itemsize

    def tobytes(self) -> bytes:
        return b""


_GGUF_TYPES = {"float32": 0, "float16": 1, "int32": 26}


def gguf(tensors: Mapping[str, np.ndarray[Any, Any] | Hole]) -> bytes:
    """Return a GGUF file."""
    head, data, end = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0), b"", 0
    for key, array in tensors.items():
        name, shape = key.encode(), array.shape
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape[::-1])
        blocks = array.blocks if isinstance(array, Hole) else None
        head += struct.pack("<IQ", blocks[0] if blocks else _GGUF_TYPES[array.dtype.name], end)
        end += array.nbytes + -array.nbytes % 32
        data += array.tobytes() + b"\0" * (-array.nbytes % 32)
    return head + b"\0" * (-len(head) % 32) + data


def field(number: int, value: bytes | int) -> bytes:
    """Return one field of a protocol buffer message."""
    if isinstance(value, int):
        return encode_varint(number << 3) + encode_varint(value)
    return encode_varint(number << 3 | 2) + encode_varint(len(value)) + value


_ONNX_TYPES = {"float32": 1, "int32": 6}


def onnx_tensor(key: str, array: np.ndarray[Any, Any]) -> bytes:
    """Return a TensorProto of ONNX with raw data."""
    dims = b"".join(field(1, dim) for dim in array.shape)
    kind = field(2, _ONNX_TYPES[array.dtype.name])
    return dims + kind + field(8, key.encode()) + field(9, array.tobytes())


def onnx_external(key: str, array: Hole, location: str, offset: int) -> bytes:
    """Return a TensorProto of ONNX whose data are in a file next to the model."""
    dims = b"".join(field(1, dim) for dim in array.shape)
    told = {"location": location, "offset": str(offset), "length": str(array.nbytes)}
    pairs = (field(1, name.encode()) + field(2, text.encode()) for name, text in told.items())
    external = b"".join(field(13, pair) for pair in pairs)
    return dims + field(2, _ONNX_TYPES[array.dtype.name]) + field(8, key.encode()) + external + field(14, 1)


def onnx_model(graph: bytes) -> bytes:
    """Return a model with this graph."""
    return field(1, 8) + field(2, b"tests") + field(7, graph)


def onnx(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return an ONNX file."""
    return onnx_model(b"".join(field(5, onnx_tensor(key, array)) for key, array in tensors.items()))


_TFLITE_TYPES = {"float32": 0, "int32": 2, "int8": 9, "string": 5}


class Flat:
    """A flatbuffer, written from its beginning on: what an offset leads to comes behind it."""

    def __init__(self, identifier: bytes) -> None:
        self.data = bytearray(4) + identifier

    def point(self, at: int, to: int) -> None:
        """Make the offset at a place lead somewhere."""
        struct.pack_into("<I", self.data, at, to - at)

    def vector(self, count: int, content: bytes) -> int:
        self.data += b"\0" * (-len(self.data) % 4)
        at = len(self.data)
        self.data += struct.pack("<I", count) + content
        return at

    def table(self, fields: Mapping[int, bytes]) -> tuple[int, dict[int, int]]:
        """Add a table; return its place and those of its fields."""
        count = max(fields, default=-1) + 1
        vtable, places, body = [0] * count, {}, b""
        for number, value in fields.items():
            vtable[number] = 4 + len(body)
            body += value + b"\0" * (-len(value) % 4)
        self.data += b"\0" * (-len(self.data) % 4)
        begin = len(self.data)
        at = begin + 4 + 2 * count
        self.data += struct.pack(f"<HH{count}H", 4 + 2 * count, 4 + len(body), *vtable)
        self.data += struct.pack("<i", at - begin) + body
        for number in fields:
            places[number] = at + vtable[number]
        return at, places


def tflite(
    tensors: Mapping[str, np.ndarray[Any, Any] | Hole], *, is_shared: bool = False, is_behind: bool = False
) -> bytes:
    """Return a TFLite file; all tensors share the first buffer, or data are behind the flatbuffer."""
    flat = Flat(b"TFL3")
    model, places = flat.table({0: struct.pack("<I", 3), 2: bytes(4), 4: bytes(4)})
    flat.point(0, model)
    graphs = flat.vector(1, bytes(4))
    flat.point(places[2], graphs)
    graph, graph_places = flat.table({0: bytes(4)})
    flat.point(graphs + 4, graph)
    head = flat.vector(len(tensors), bytes(4 * len(tensors)))
    flat.point(graph_places[0], head)
    for number, (key, array) in enumerate(tensors.items()):
        kind = struct.pack("<b", _TFLITE_TYPES[array.dtype.name])
        buffer = struct.pack("<I", 1 if is_shared else number + 1)
        table, own = flat.table({0: bytes(4), 1: kind, 2: buffer, 3: bytes(4)})
        flat.point(own[0], flat.vector(array.ndim, struct.pack(f"<{array.ndim}i", *array.shape)))
        flat.point(own[3], flat.vector(len(key), key.encode()))
        flat.point(head + 4 + 4 * number, table)
    begin = flat.vector(len(tensors) + 1, bytes(4 * len(tensors) + 4))
    flat.point(places[4], begin)
    flat.point(begin + 4, flat.table({})[0])
    offsets: list[int] = []
    for number, array in enumerate(tensors.values(), 1):
        fields = {1: bytes(8), 2: struct.pack("<Q", array.nbytes)} if is_behind else {0: bytes(4)}
        table, own = flat.table(fields)
        flat.point(begin + 4 + 4 * number, table)
        if is_behind:
            offsets.append(own[1])
        else:
            flat.point(own[0], flat.vector(array.nbytes, array.tobytes()))
    end = len(flat.data)
    for at, array in zip(offsets, tensors.values(), strict=False):
        struct.pack_into("<Q", flat.data, at, end)
        flat.data += array.tobytes()
        end += array.nbytes
    return bytes(flat.data)


_TF_TYPES = {"float32": 1, "int32": 3}


def graph_def(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return a frozen graph."""
    nodes = []
    for key, array in tensors.items():
        dims = b"".join(field(2, field(1, dim)) for dim in array.shape)
        tensor = field(1, _TF_TYPES[array.dtype.name]) + field(2, dims) + field(4, array.tobytes())
        value = field(5, field(1, b"value") + field(2, field(8, tensor)))
        nodes.append(field(1, field(1, key.encode()) + field(2, b"Const") + value))
    return b"".join(nodes)
