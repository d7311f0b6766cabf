"""The messages of an object header: dataspace, datatype, layout, attributes.

    dataspace    version: uint8, rank: uint8, flags: uint8, (version 2: kind: uint8; 1: 5 bytes), the
                 dimensions: lengths, and if flags are 1 the most that each can be
    datatype     class and version: uint8, 3 bytes of bits, size: uint32, properties
    layout       version: uint8 (3), class: uint8, of contiguous values offset and length
    attribute    version: uint8, flags: uint8, sizes of name, datatype, dataspace: 3 uint16,
                 (version 3: character set: uint8), the three (version 1: padded to 8), the values

HDF5 File Format Specification, IV.A.2
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from ...core.dtypes import BY_NAME, INVALID, STRING, DType

PLACE = struct.Struct("<QQ")
"""An offset and a length, or two offsets."""

_STRING = struct.Struct("<IQI")
_ATTRIBUTE = struct.Struct("<BBHHH")
_UNDEFINED = (1 << 64) - 1
_MOST_DIMENSIONS = 32
_COMPACT, _CONTIGUOUS, _CHUNKED = range(3)


class UnfamiliarError(Exception):
    """Only the HDF5 library can read this, or it is damaged: the library decides which."""


def unpack(form: struct.Struct, data: bytes) -> tuple[int, int]:
    """Return the two numbers at the beginning of a message."""
    if len(data) < form.size:
        raise UnfamiliarError
    first, second = form.unpack_from(data)
    return first, second


class DataLayout(NamedTuple):
    """The stored size in bytes, and the offset of contiguous values; None if only the library knows."""

    offset: int | None
    stored: int | None


class Outline(NamedTuple):
    """A dataset without its values; `shape` is None if it has no dataspace.

    For opaque elements, `opaque` is their size, and the dtype is unknown here.
    """

    dtype: DType
    opaque: int
    shape: tuple[int, ...] | None
    layout: DataLayout


class Attribute(NamedTuple):
    """An attribute: what stands for its datatype and dataspace, and its values."""

    datatype: bytes
    dataspace: bytes
    values: bytes


# Datasets ------------------------------------------------------------------------------


def outline_of(datatype: bytes, dataspace: bytes, layout: bytes) -> Outline:
    """Return what a dataset is; UnfamiliarError if its type is none of the commonest."""
    shape, place = shape_of(dataspace), layout_of(layout)
    number = _NUMBERS.get(datatype[: _NUMBER_SIZES.get(datatype[:1], 0)])
    if number is not None:
        size = math.prod(shape) * (number.itemsize or 0) if shape is not None else 0
        if place.offset is not None and place.stored != size:
            raise UnfamiliarError
        return Outline(number, 0, shape, place)
    if _is_fixed_string(datatype) or _is_variable_string(datatype):
        return Outline(STRING, 0, shape, place)
    if datatype[:1] == _OPAQUE and len(datatype) >= 8:
        return Outline(INVALID, int.from_bytes(datatype[4:8], "little"), shape, place)
    raise UnfamiliarError


def layout_of(layout: bytes) -> DataLayout:
    """Return how a dataset's values are stored, which is in its own file."""
    if len(layout) < 4 or layout[0] != 3 or layout[1] > _CHUNKED:
        raise UnfamiliarError
    if layout[1] == _COMPACT:
        return DataLayout(None, int.from_bytes(layout[2:4], "little"))
    if layout[1] == _CHUNKED:
        return DataLayout(None, None)
    offset, size = unpack(PLACE, layout[2:])
    if offset == _UNDEFINED:
        return DataLayout(None, 0)
    if offset + size > _UNDEFINED:
        raise UnfamiliarError
    return DataLayout(offset, size)


def shape_of(dataspace: bytes) -> tuple[int, ...] | None:
    """Return the dimensions; None for a dataspace that holds nothing."""
    if len(dataspace) < 4:
        raise UnfamiliarError
    version, rank, flags, kind = dataspace[:4]
    if version not in (1, 2) or rank > _MOST_DIMENSIONS or flags > 1 or (version == 2 and kind > 2):
        raise UnfamiliarError
    begin = 8 if version == 1 else 4
    if len(dataspace) < begin + 8 * rank * (1 + flags):
        raise UnfamiliarError
    shape = struct.unpack_from(f"<{rank}Q", dataspace, begin)
    most = struct.unpack_from(f"<{rank}Q", dataspace, begin + 8 * rank) if flags else shape
    if math.prod(shape) >> 63 or any(dim > limit for dim, limit in zip(shape, most, strict=True)):
        raise UnfamiliarError
    return None if version == 2 and kind == 2 else shape


# Attributes ----------------------------------------------------------------------------


def split_attribute(message: bytes) -> tuple[bytes, Attribute]:
    """Return an attribute and its name."""
    if len(message) < _ATTRIBUTE.size + 1:
        raise UnfamiliarError
    version, flags, *sizes = _ATTRIBUTE.unpack_from(message)
    if version not in (1, 3) or (version == 3 and flags):
        raise UnfamiliarError
    at = _ATTRIBUTE.size + (version == 3)
    parts = []
    for size in sizes:
        parts.append(message[at : at + size])
        at += (size + 7 & ~7) if version == 1 else size
    name, datatype, dataspace = parts
    if at > len(message) or name.find(b"\0") != len(name) - 1:
        raise UnfamiliarError
    return name[:-1], Attribute(datatype, dataspace, message[at:])


def fixed_strings(attribute: Attribute) -> list[bytes] | None:
    """Return an attribute's strings without the NULs that pad them; None if they vary in length.

    An attribute without elements can be of any type: h5py makes an empty list one of numbers.
    """
    elements = _elements(attribute)
    if not elements or _is_fixed_string(attribute.datatype):
        return [element.rstrip(b"\0") for element in elements]
    if _is_variable_string(attribute.datatype):
        return None
    raise UnfamiliarError


def variable_strings(attribute: Attribute) -> list[tuple[int, int, int]]:
    """Return length, collection and number in it of an attribute's strings."""
    return [_STRING.unpack(element) for element in _elements(attribute)]


def _elements(attribute: Attribute) -> list[bytes]:
    shape = shape_of(attribute.dataspace)
    count = math.prod(shape) if shape is not None else 0
    size = int.from_bytes(attribute.datatype[4:8], "little")
    if count and (not size or len(attribute.values) < count * size):
        raise UnfamiliarError
    return [attribute.values[at * size : (at + 1) * size] for at in range(count)]


# Datatypes -----------------------------------------------------------------------------

_OPAQUE = b"\x15"


def _integer(nbytes: int, *, signed: bool) -> bytes:
    return struct.pack("<BB2xIHH", 0x10, 8 if signed else 0, nbytes, 0, 8 * nbytes)


def _ieee(nbytes: int, exponent: int) -> bytes:
    """Little-endian, the leading 1 of the mantissa implied, sign in the highest bit."""
    bits, mantissa = 8 * nbytes, 8 * nbytes - 1 - exponent
    properties = struct.pack("<HHBBBBI", 0, bits, mantissa, exponent, 0, mantissa, (1 << exponent - 1) - 1)
    return struct.pack("<BBBxI", 0x11, 0x20, bits - 1, nbytes) + properties


_NUMBERS = {
    **{_ieee(2 << at, exponent): BY_NAME[f"float{16 << at}"] for at, exponent in enumerate((5, 8, 11))},
    **{_integer(1 << at, signed=True): BY_NAME[f"int{8 << at}"] for at in range(4)},
    **{_integer(1 << at, signed=False): BY_NAME[f"uint{8 << at}"] for at in range(4)},
}
_NUMBER_SIZES = {datatype[:1]: len(datatype) for datatype in _NUMBERS}
"""How many bytes tell a number's type: messages are padded."""


def _is_fixed_string(datatype: bytes) -> bool:
    """Return whether this is a string padded with NULs or spaces, ASCII or UTF-8."""
    return len(datatype) >= 8 and datatype[0] == 0x13 and datatype[1] & 0x0F < 3 and datatype[1] >> 4 < 2


def _is_variable_string(datatype: bytes) -> bool:
    """Return whether this is a string of variable length: of integers of one byte."""
    return (
        datatype[:1] == b"\x19"
        and datatype[1] & 0x0F == 1
        and datatype[1] >> 4 < 3
        and datatype[2] < 2
        and datatype[3:20] == bytes(1) + _STRING.size.to_bytes(4, "little") + _integer(1, signed=False)
    )
