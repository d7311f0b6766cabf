"""Flax's msgpack by hand, so that tests can write what Flax does not."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping


def packed(value: Any) -> bytes:
    """Return a value as Flax packs it; bytes are taken as they are."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or value is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\xdb" + struct.pack(">I", len(data)) + data
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(packed, value))
    if isinstance(value, dict):
        return packed_map([*value.items()])
    return array(value)


def packed_map(items: list[tuple[Any, Any]]) -> bytes:
    """Return a map, which may have a key twice."""
    return (
        b"\xdf" + struct.pack(">I", len(items)) + b"".join(packed(key) + packed(each) for key, each in items)
    )


def binary(data: bytes) -> bytes:
    return b"\xc6" + struct.pack(">I", len(data)) + data


def extension(code: int, data: bytes) -> bytes:
    return b"\xc9" + struct.pack(">Ib", len(data), code) + data


def array(value: np.ndarray[Any, Any], name: str | None = None, code: int = 1) -> bytes:
    """Return an array, under the name of its dtype or another."""
    value = np.asarray(value)
    fields = packed([[*value.shape], name or value.dtype.name, binary(value.tobytes())])
    return extension(code, fields)


def chunked(value: np.ndarray[Any, Any], size: int) -> dict[str, Any]:
    """Return an array in flat pieces of so many elements."""
    flat = value.reshape(-1)
    pieces = [flat[at : at + size] for at in range(0, flat.size, size)]
    return {
        "__msgpack_chunked_array__": True,
        "shape": _numbered(value.shape),
        "chunks": _numbered(pieces),
    }


def _numbered(values: Any) -> Mapping[str, Any]:
    return {str(at): each for at, each in enumerate(values)}
