"""Exported models, made by hand from arrays."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from formats.wire.coding import encode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

_GGUF_TYPES = {"float32": 0, "float16": 1, "int32": 26}


def gguf(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return a GGUF file."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0), b""
    for key, array in tensors.items():
        name, shape = key.encode(), array.shape
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", _GGUF_TYPES[array.dtype.name], len(data))
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


def onnx_model(graph: bytes) -> bytes:
    """Return a model with this graph."""
    return field(1, 8) + field(2, b"tests") + field(7, graph)


def onnx(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return an ONNX file."""
    return onnx_model(b"".join(field(5, onnx_tensor(key, array)) for key, array in tensors.items()))
