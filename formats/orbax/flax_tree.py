"""Flax's trees in msgpack: maps of maps, whose leaves are arrays, numbers, texts and None.

    extension 1   array: a msgpack list of shape, name of the dtype, bytes
    extension 2   complex number: a msgpack list of two numbers
    extension 3   numpy's scalar: as 1, without dimensions

    {"__msgpack_chunked_array__": true, "shape": {"0": 5, ...}, "chunks": {"0": array, ...}}

The last is an array of more than 2**30 bytes, its elements in flat pieces.  Lists are maps with the keys
"0", "1" and so on.  The values stay in the file.
flax/serialization.py
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import BY_NAME, DType, unmapped
from ..wire.msgpack import ByteRange, MalformedError, Unpacker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .names import Path

MOST_DIMENSIONS = 254
PLACEHOLDER = "PLACEHOLDER://"
"""The text with which Orbax replaces an array that is stored elsewhere, followed by its name."""

CHUNKED = "__msgpack_chunked_array__"
ARRAY, _COMPLEX, _SCALAR = 1, 2, 3
_MAP_BYTES = (*range(0x81, 0x90), 0xDE, 0xDF)


class ArrayLeaf(NamedTuple):
    """An array in a file: its elements are in `parts`, in C order, little-endian."""

    dtype: DType
    shape: tuple[int, ...]
    parts: tuple[ByteRange, ...]

    @property
    def nbytes(self) -> int:
        return sum(part.size for part in self.parts)


class Complex(NamedTuple):
    """A complex number."""

    value: complex


def leaves_of(read: Callable[[int, int], bytes], size: int) -> dict[Path, Any]:
    """Return the leaves of the tree in a file of `size` bytes, by path; MalformedError where it is none.

    A leaf is an ArrayLeaf, a number, a text, None, the ByteRange of bytes, or an empty container.
    """
    unpacker = Unpacker(read, 0, size)
    root = unpacker.value()
    if unpacker.at != size:
        raise MalformedError(f"{size - unpacker.at} bytes follow the tree", unpacker.at)
    if not isinstance(root, dict):
        raise MalformedError("the tree is not a map", 0)
    found: dict[Path, Any] = {}
    for path, value in _flat(root, ()):
        found[path] = _leaf(value, read, path)
    return found


def _flat(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and not value.get(CHUNKED):
        for key, each in value.items():
            yield from _flat(each, (*path, key))
    elif isinstance(value, list) and value:
        for at, each in enumerate(value):
            yield from _flat(each, (*path, str(at)))
    else:
        yield path, value


def _leaf(value: Any, read: Callable[[int, int], bytes], path: Path) -> Any:
    try:
        if isinstance(value, dict) and value:
            return _chunked(value, read)
        return _decoded(value, read) if isinstance(value, ByteRange) else value
    except MalformedError as error:
        raise MalformedError(f"{'/'.join(path)!r:.200}: {error}", error.offset) from error


def _decoded(extent: ByteRange, read: Callable[[int, int], bytes]) -> Any:
    if extent.code is None:
        return extent
    if extent.code in (ARRAY, _SCALAR):
        return _array(extent, read)
    if extent.code == _COMPLEX:
        parts = _whole(extent, read)
        if isinstance(parts, list) and [type(each) for each in parts] == [float, float]:
            return Complex(complex(*parts))
        raise MalformedError("a complex number is not made of two numbers", extent.offset)
    raise MalformedError(f"the extension {extent.code} is unknown", extent.offset)


def _whole(extent: ByteRange, read: Callable[[int, int], bytes]) -> Any:
    unpacker = Unpacker(read, extent.offset, extent.offset + extent.size)
    value = unpacker.value()
    if unpacker.at != extent.offset + extent.size:
        raise MalformedError("bytes follow the value of an extension", unpacker.at)
    return value


def _array(extent: ByteRange, read: Callable[[int, int], bytes]) -> ArrayLeaf:
    fields = _whole(extent, read)
    if not isinstance(fields, list) or len(fields) != 3:
        raise MalformedError("an array is not made of a shape, a dtype and bytes", extent.offset)
    shape, name, data = fields
    if isinstance(name, ByteRange) and name.size <= 64:
        name = read(name.offset, name.size).decode("latin-1")
    if not isinstance(name, str) or not name.isascii() or len(name) > 64 or not name:
        raise MalformedError("an array has no name of a dtype", extent.offset)
    if not isinstance(data, ByteRange) or data.code is not None:
        raise MalformedError("an array has no bytes", extent.offset)
    dtype = BY_NAME.get(name)
    if dtype is None or dtype.itemsize is None:
        dtype = unmapped(name)
    return _checked(dtype, _shape(shape, extent.offset), (data,), extent.offset)


def _checked(dtype: DType, shape: tuple[int, ...], parts: tuple[ByteRange, ...], offset: int) -> ArrayLeaf:
    """Return an array whose bytes are as many as its dtype and shape need."""
    leaf = ArrayLeaf(dtype, shape, parts)
    if dtype.itemsize is not None and not dtype.is_unmapped:
        expected = math.prod(shape) * dtype.itemsize
        if expected != leaf.nbytes:
            message = f"an array has {leaf.nbytes} bytes, but {dtype} of shape {list(shape)} needs {expected}"
            raise MalformedError(message, offset)
    return leaf


def _shape(value: Any, offset: int) -> tuple[int, ...]:
    if isinstance(value, dict):
        value = _in_order(value, offset)
    is_list = isinstance(value, list) and len(value) <= MOST_DIMENSIONS
    if not is_list or not all(type(dim) is int and 0 <= dim < 1 << 63 for dim in value):
        raise MalformedError(f"the shape {str(value)[:80]} is invalid", offset)
    return tuple(value)


def _in_order(value: dict[str, Any], offset: int) -> list[Any]:
    """Return a list that is written as a map."""
    if set(value) != {str(at) for at in range(len(value))}:
        raise MalformedError(f"expected the keys 0 to {len(value) - 1}", offset)
    return [value[str(at)] for at in range(len(value))]


def _chunked(value: dict[str, Any], read: Callable[[int, int], bytes]) -> ArrayLeaf:
    """Return the array that its pieces make."""
    chunks = value.get("chunks")
    listed = _in_order(chunks, 0) if isinstance(chunks, dict) else chunks
    if not isinstance(listed, list) or not listed or not all(isinstance(each, ByteRange) for each in listed):
        raise MalformedError("an array in pieces has no pieces", 0)
    pieces = [_decoded(each, read) for each in listed]
    offset = listed[0].offset
    if not all(isinstance(each, ArrayLeaf) and each.dtype is pieces[0].dtype for each in pieces):
        raise MalformedError("the pieces of an array are not arrays of one dtype", offset)
    parts = tuple(part for piece in pieces for part in piece.parts)
    return _checked(pieces[0].dtype, _shape(value.get("shape"), offset), parts, offset)


def begins_as_tree(head: bytes, size: int) -> bool:
    """Whether a file that begins so is such a tree: a map, and its first key and value."""
    return head[:1] != b"" and head[0] in _MAP_BYTES and _has_first(head, size)


def _has_first(head: bytes, size: int) -> bool:
    """Whether the first key is text, and its value a map or what a leaf can be."""

    def read(offset: int, count: int) -> bytes:
        if offset + count > len(head):
            raise MalformedError("beyond the beginning", offset)
        return head[offset : offset + count]

    at = 0
    try:
        while head[at] in _MAP_BYTES:
            at += {0xDE: 3, 0xDF: 5}.get(head[at], 1)
            unpacker = Unpacker(read, at, min(size, len(head)))
            key = unpacker.value()
            if not isinstance(key, str) or not key.isprintable():
                return False
            at = unpacker.at
            if at >= len(head):
                return False
        return _is_leaf(head, at)
    except (MalformedError, IndexError):
        return False


def _is_leaf(head: bytes, at: int) -> bool:
    """Whether a position holds a number, a text, None, an empty map, or an array."""
    first = head[at]
    if not (0xC7 <= first <= 0xC9 or 0xD4 <= first <= 0xD8):
        return first not in (0xC1, 0xC4, 0xC5, 0xC6)
    extent = Unpacker(lambda offset, count: head[offset : offset + count], at, 1 << 40).value()
    return isinstance(extent, ByteRange) and extent.code in (ARRAY, _COMPLEX, _SCALAR)
