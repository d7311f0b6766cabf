"""Exported models, made by hand from arrays."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

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
