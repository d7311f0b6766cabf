"""Orbax checkpoints by hand, so that tests can write what Orbax and tensorstore never do."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Any

from formats.wire.coding import encode_varint
from formats.wire.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

MANIFEST, NODE = 0x0CDB3A2A, 0x0CDB20DE
DATA = b"d/" + b"0" * 32
"""The file of all nodes."""


def numbers(*values: int) -> bytes:
    return b"".join(map(encode_varint, values))


def frame(magic: int, body: bytes, compression: int = 0) -> bytes:
    """Return a frame; a body that is compressed comes as it is stored."""
    rest = numbers(0, compression) + body
    data = struct.pack(">I", magic) + struct.pack("<Q", 12 + len(rest) + 4) + rest
    return data + struct.pack("<I", crc32c(data))


def manifest(offset: int, length: int, *, height: int = 0, path: bytes = DATA) -> bytes:
    """Return a manifest of one version, whose root is in a file."""
    body = bytes(16) + numbers(0, 1024, 100_000_000) + bytes([4]) + numbers(0)
    body += numbers(1, len(path), 0) + path
    body += numbers(1, 1) + bytes([height]) + numbers(0, offset, length, 1, length, 0) + bytes(8) + numbers(0)
    return frame(MANIFEST, body)


def _keys(keys: Sequence[bytes], extra: bytes = b"") -> bytes:
    """Return the columns of keys, and the keys."""
    shared, rests, last = [], [], b""
    for key in keys:
        same = 0
        while last[: same + 1] == key[: same + 1] and same < min(len(last), len(key)):
            same += 1
        shared.append(same)
        rests.append(key[same:])
        last = key
    return numbers(*shared[1:]) + numbers(*map(len, rests)) + extra + b"".join(rests)


def leaf_body(values: Mapping[bytes, bytes]) -> bytes:
    """Return a leaf with values inline."""
    keys = [*values]
    body = bytes([0]) + numbers(0, len(keys)) + _keys(keys)
    body += numbers(*(len(values[key]) for key in keys)) + numbers(*[0] * len(keys))
    return body + b"".join(values[key] for key in keys)


def interior_body(
    children: Iterable[tuple[bytes, int, int]], height: int, path: bytes = DATA, common: int = 0
) -> bytes:
    """Return an interior node: of each child its first key, offset and length.

    So many bytes of it begin all keys of the child, which has them without.
    """
    found = [*children]
    count = len(found)
    body = bytes([height]) + numbers(1, len(path), 0) + path
    body += numbers(count) + _keys([key for key, _, _ in found], numbers(*[common] * count))
    body += (
        numbers(*[0] * count) + numbers(*(at for _, at, _ in found)) + numbers(*(size for *_, size in found))
    )
    return body + numbers(*[1] * count) * 3


def metadata(keys: Iterable[Sequence[str]], **fields: Any) -> bytes:
    """Return `_METADATA` of arrays with these paths."""
    tree = {
        repr(tuple(key)): {
            "key_metadata": [{"key": part, "key_type": 2} for part in key],
            "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False},
        }
        for key in keys
    }
    document = {"tree_metadata": tree, "use_ocdbt": True, "use_zarr3": False}
    return json.dumps(document | {"store_array_data_equal_to_fill_value": True} | fields).encode()


def zarray(array: np.ndarray[Any, Any], **fields: Any) -> bytes:
    """Return `.zarray` of an array in one chunk that is not compressed."""
    document: dict[str, Any] = {"chunks": [*array.shape], "shape": [*array.shape], "dtype": array.dtype.str}
    document |= {"compressor": None, "fill_value": None, "filters": None, "order": "C", "zarr_format": 2}
    return json.dumps(document | fields).encode()


def stored(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[bytes, bytes]:
    """Return the values of a database that has these arrays."""
    values = {}
    for name, array in arrays.items():
        values[f"{name}/.zarray".encode()] = zarray(array)
        chunk = ".".join("0" * array.ndim) or "0"
        values[f"{name}/{chunk}".encode()] = array.tobytes()
    return dict(sorted(values.items()))


def write(path: str, keys: Iterable[Sequence[str]], root: bytes, nodes: bytes) -> str:
    """Write a checkpoint of a manifest and a file of nodes."""
    os.makedirs(os.path.join(path, "d"))
    contents = {"_METADATA": metadata(keys), "manifest.ocdbt": root, DATA.decode(): nodes}
    for name, data in contents.items():
        with open(os.path.join(path, name), "wb") as file:
            file.write(data)
    return path


def save(path: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Write a sound checkpoint of one leaf."""
    node = frame(NODE, leaf_body(stored(arrays)))
    return write(path, [(key,) for key in arrays], manifest(0, len(node)), node)
