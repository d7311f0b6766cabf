"""Attributes of strings, as Keras writes them.

    layer_names, weight_names    arrays of strings; the order of a model's layers and weights
    layer_names0, layer_names1   the same in parts, where it is longer than 64,512 bytes
    keras_version, backend       single strings; model_config and training_config are JSON

Strings may be fixed-width or of variable length, and an empty array of any type.
keras/src/legacy/saving/legacy_h5_format.py: save_attributes_to_hdf5_group
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

from ..core.spec import key_text
from .native.messages import UnfamiliarError

if TYPE_CHECKING:
    from .node import Node
    from .safe import H5File


MOST_BYTES = 16 << 20
"""Of an attribute: configurations have a few hundred thousand, names 64,512 in each part."""

MOST_PARTS = 100_000

HDF5_OBJECT_HEADER_LIMIT = 64_512
"""Bytes of an attribute beyond which Keras cuts it in parts: an object header holds 64 KB."""


def has(holder: Node, name: str, *, in_parts: bool = True) -> bool:
    """Whether a group or dataset has an attribute, whole or in parts."""
    names = [name.encode(), name.encode() + b"0"] if in_parts else [name.encode()]
    if holder.header is not None:
        with contextlib.suppress(UnfamiliarError):
            return not holder.header.attributes.keys().isdisjoint(names)
    from h5py import h5a

    return any(h5a.exists(holder.id, name) for name in names)


def _read(file: H5File, holder: Node, name: bytes) -> list[str] | None:
    """Return an attribute of strings; None if there is no such attribute.

    Raises ValueError if it is none of strings, and what h5py raises.
    """
    if holder.header is not None and file.structure is not None:
        with contextlib.suppress(UnfamiliarError):
            found = file.structure.strings(holder.header, name)
            return None if found is None else [key_text(value) for value in found]
    return _read_by_library(file, holder.id, name)


def _read_by_library(file: H5File, holder: Any, name: bytes) -> list[str] | None:
    import numpy as np
    from h5py import h5a, h5t

    if not h5a.exists(holder, name):
        return None
    attribute = h5a.open(holder, name)
    type_id, shape = attribute.get_type(), attribute.shape
    count = math.prod(shape)
    if count == 0:
        return []
    if type_id.get_class() != h5t.STRING:
        raise ValueError(f"attribute {name.decode()!r} is not text")
    variable = type_id.is_variable_str()
    size = count * (16 if variable else type_id.get_size())
    if size > MOST_BYTES:
        message = f"attribute {name.decode()!r} declares {count} strings with {size} bytes in total"
        raise ValueError(f"{message}; the limit is {MOST_BYTES}")
    if variable:
        attribute = h5a.open(file.guarded(holder), name)
    out = np.empty(shape, object if variable else f"S{type_id.get_size()}")
    memory_type = string_memory_type(type_id)
    if memory_type.get_size() != out.itemsize or attribute.shape != shape:
        raise ValueError(f"attribute {name.decode()!r} changed while it was read")
    attribute.read(out, memory_type)
    return [_text(value) for value in out.reshape(-1)]


def string_memory_type(type_id: Any) -> Any:
    """Return the memory type that strings of a file's type are read as.

    Those of variable length have to become Python objects: as the file's own type the
    library would leave its pointers in the array.
    """
    from h5py import h5t

    return h5t.py_create(type_id.dtype) if type_id.is_variable_str() else type_id


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return key_text(bytes(value or b""))


def text(file: H5File, holder: Node, name: str) -> str | None:
    """Return an attribute that is one string; None if there is none of that name."""
    found = _read(file, holder, name.encode())
    return found[0] if found is not None and len(found) == 1 else None


def strings(file: H5File, holder: Node, name: str) -> tuple[str, ...] | None:
    """Return an attribute that is an array of strings, put together from its parts."""
    whole = _read(file, holder, name.encode())
    if whole is not None:
        return tuple(whole)
    out: list[str] = []
    for number in range(MOST_PARTS):
        part = _read(file, holder, f"{name}{number}".encode())
        if part is None:
            return tuple(out) if number else None
        out += part
    raise ValueError(f"attribute {name!r} has more than {MOST_PARTS} parts")


def write_strings(group: Any, name: str, values: list[bytes]) -> None:
    """Give a group an attribute that is an array of strings, cut in parts as Keras cuts it.

    An array in parts is of fixed width, so its size is the longest string's times their
    number.  Raises ValueError for a string that is too long for any part.
    """
    import numpy as np

    if any(len(value) > HDF5_OBJECT_HEADER_LIMIT for value in values):
        raise ValueError(
            f"attribute {name!r}: HDF5 allows at most {HDF5_OBJECT_HEADER_LIMIT} bytes per string"
        )
    array = np.asarray(values)
    parts = [array]
    while any(part.nbytes > HDF5_OBJECT_HEADER_LIMIT for part in parts):
        # Keras tries one more each time; fewer than this cannot do.
        least = -(-array.nbytes // HDF5_OBJECT_HEADER_LIMIT)
        parts = np.array_split(array, max(len(parts) + 1, least))
    if len(parts) == 1:
        group.attrs[name] = values
        return
    for number, part in enumerate(parts):
        group.attrs[f"{name}{number}"] = part
