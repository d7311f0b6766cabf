"""The values of V1 checkpoints: the typed field of a TensorProto, packed.

    float, double, complex:  elements as they lie in memory, little-endian
    integers, bool:          a varint each, negative ones sign-extended to 64 bits (ten bytes)
    half:                    a varint of its 16 bits each
    string:                  a field each

Nothing else of the TensorProto is set: no dtype, no shape, no `tensor_content`. A tensor without elements is
an empty message. Numpy decodes varints, many at a time. tensorflow/core/framework/tensor.proto,
tensorflow/core/util/saved_tensor_slice_util.h
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.chunks import view_of
from ...core.dtypes import STRING, DType
from ...wire.coding import encode_varint
from ...wire.protobuf import iter_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from ...core.chunks import Chunk


_LENGTH = 2  # The wire type of packed numbers and of strings.
_ALONE = {None: 0, "<f4": 5, "<c8": 5, "<f8": 1, "<c16": 1}
"""The wire type of a number that is not packed.  A field of any other is unknown, and passed over."""

_BLOCK = 1 << 16
"""Varints encoded at a time: their rows then fit the processor's cache."""


class ValueField(NamedTuple):
    """The field of a TensorProto with values of a dtype: number, and numpy type if they are not varints."""

    number: int
    packed: str | None


_INT_VAL = ValueField(7, None)
VALUE_FIELDS: dict[str, ValueField] = {
    "float32": ValueField(5, "<f4"),
    "float64": ValueField(6, "<f8"),
    **dict.fromkeys(
        ["int32", "int16", "uint16", "int8", "uint8", "qint8", "quint8", "qint16", "quint16", "qint32"],
        _INT_VAL,
    ),
    "string": ValueField(8, None),
    "complex64": ValueField(9, "<c8"),
    "int64": ValueField(10, None),
    "bool": ValueField(11, None),
    "complex128": ValueField(12, "<c16"),
    "float16": ValueField(13, None),
}


def decode_varints(data: bytes) -> np.ndarray[Any, Any]:
    """Return packed varints as uint64; ValueError if one has more than ten bytes or is cut off."""
    import numpy as np

    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if len(raw) and (not len(ends) or ends[-1] != len(raw) - 1):
        raise ValueError("a varint runs past the end")
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64) if len(ends) else ends
    lengths = ends - starts + 1
    if len(lengths) and int(lengths.max()) > 10:
        raise ValueError("a varint is longer than 10 bytes")
    values = np.zeros(len(ends), np.uint64)
    for at in range(int(lengths.max()) if len(lengths) else 0):
        longer = lengths > at
        values[longer] |= (raw[starts[longer] + at] & 0x7F).astype(np.uint64) << np.uint64(7 * at)
    return values


def _packed_values(proto: bytes, field: ValueField) -> bytes:
    """Return the payload of a repeated number, packed or not, as packed."""
    parts = []
    for found, kind, value, _, _ in iter_fields(proto):
        if found == field.number and kind in (_LENGTH, _ALONE[field.packed]):
            parts.append(encode_varint(value) if isinstance(value, int) else value)
    return b"".join(parts)


def decode_values(proto: bytes, dtype: DType) -> np.ndarray[Any, Any]:
    """Return the values of a TensorProto as a vector; ValueError if they are malformed.

    As TensorFlow's reader, this takes the typed field alone: neither `tensor_content`
    nor one value standing for many.
    """
    import numpy as np

    field = VALUE_FIELDS[dtype.name]
    if dtype is STRING:
        strings = [
            value
            for number, kind, value, _, _ in iter_fields(proto)
            if (number, kind) == (field.number, _LENGTH)  # a field of another wire type is another field
        ]
        out = np.empty(len(strings), object)
        out[:] = strings
        return out
    data = _packed_values(proto, field)
    if field.packed is not None:
        if len(data) % np.dtype(field.packed).itemsize:
            raise ValueError(f"{len(data)} bytes are not a whole number of {dtype} values")
        return np.frombuffer(data, field.packed).astype(dtype.numpy)
    values = decode_varints(data)
    if dtype.name == "float16":
        return values.astype(np.uint16).view(np.float16)
    return values != 0 if dtype.name == "bool" else values.view(np.int64).astype(dtype.numpy)


def encode_varints(values: np.ndarray[Any, Any]) -> bytes:
    """Return uint64 values as packed varints."""
    blocks = range(0, len(values), _BLOCK)
    return b"".join(_encode_block(values[at : at + _BLOCK]) for at in blocks)


def _encode_block(values: np.ndarray[Any, Any]) -> bytes:
    """Return a few varints: rows as long as the longest, cut to the length that each needs."""
    import numpy as np

    lengths = np.ones(len(values), np.uint8)
    for bits in range(7, 64, 7):
        longer = values >> np.uint64(bits) != 0
        if not longer.any():
            break
        lengths += longer
    longest = int(lengths.max())
    rows = np.empty((len(values), longest), np.uint8)
    for at in range(longest):
        rows[:, at] = (values >> np.uint64(7 * at)).astype(np.uint8) | 0x80
    rows[np.arange(len(values)), lengths - 1] &= 0x7F
    return rows[np.arange(longest) < lengths[:, None]].tobytes()


def _encode_numbers(chunk: Chunk, dtype: DType) -> Chunk:
    """Return the payload of elements in C order, little-endian."""
    import numpy as np

    if VALUE_FIELDS[dtype.name].packed is not None:
        return chunk
    values = np.frombuffer(chunk, np.uint16 if dtype.name == "float16" else dtype.numpy)
    if dtype.name == "bool":
        values = values.view(np.uint8) != 0
    # Through int64, which extends the sign of what has one and keeps the rest as it is.
    return encode_varints(values.astype(np.int64).view(np.uint64))


def encode_values(chunks: Iterable[Chunk], dtype: DType) -> bytes:
    """Return the TensorProto of a tensor that comes in chunks of whole elements."""
    number = VALUE_FIELDS[dtype.name].number
    tag = encode_varint(number << 3 | _LENGTH)
    out = bytearray()
    for chunk in chunks:
        if dtype is STRING:
            out += tag + encode_varint(len(chunk))
        out += view_of(chunk if dtype is STRING else _encode_numbers(chunk, dtype))
    return bytes(out) if dtype is STRING or not out else tag + encode_varint(len(out)) + out
