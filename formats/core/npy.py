r"""`.npy`: one array, numpy's own way.

    magic: 93 4e 55 4d 50 59 ("\x93NUMPY"), major: uint8, minor: uint8
    header length: uint16 (version 1) or uint32 (2, 3)
    header: a Python dict literal, latin-1 (3: UTF-8), keys descr, fortran_order, shape
    data: elements in C or Fortran order, in the byte order that descr says

An array of objects is a pickle, and a pickle is a program: it has no dtype here and is
never written.  Strings are written as bytes of a fixed width.
numpy/lib/_format_impl.py
"""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .chunks import FixedWidth
from .dtypes import BY_NAME, STRING, DType, unmapped

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from .chunks import Chunk
    from .spec import TensorSpec


MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 1 << 16
MOST_DIMENSIONS = 64
_LARGEST_ITEM = (1 << 31) // 4 - 1
_LARGEST_DIMENSION = 1 << 63
_DESCR = re.compile(r"([<>=|]?)([biufcSU?])(\d*)")
_ANY = re.compile(r"[<>=|]?([a-zA-Z?])(\d{0,12})(?:\[[^\]]{0,40}\])?")
_LONGEST_NAME = 4096
_FORTRAN = " in Fortran order"
_OBJECTS = re.compile(r"\|?O\d*|.*'\|?O\d*'.*", re.DOTALL)
_FAMILIES = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_NUMBERS = {name: name for name in BY_NAME if name.rstrip("0123456789") in _FAMILIES.values()}


PICKLED = unmapped("|O")
"""Elements that are Python objects, or contain them: the file stores them as a pickle."""


class Header(NamedTuple):
    """The content of a `.npy` header; `descr` is numpy's own spelling of the element type."""

    dtype: DType
    descr: str
    shape: tuple[int, ...]
    fortran: bool
    itemsize: int
    data_offset: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.itemsize


def _dtype(descr: Any) -> tuple[DType, int]:
    """Return dtype and item size of a `descr`; an unmapped dtype keeps its spelling. Raises ValueError."""
    match = _DESCR.fullmatch(descr) if isinstance(descr, str) else None
    if match is None:
        return _other(descr)
    kind, size = match[2], int(match[3] or 1)
    if size > _LARGEST_ITEM:
        return _other(descr)
    if kind in "SU":
        return STRING, size * (4 if kind == "U" else 1)
    if kind in "b?":
        return (BY_NAME["bool"], 1) if size == 1 else _other(descr)
    dtype = BY_NAME.get(_NUMBERS.get(f"{_FAMILIES[kind]}{size * 8}", ""))
    return _other(descr) if dtype is None else (dtype, dtype.itemsize or 0)


def _other(descr: Any) -> tuple[DType, int]:
    """Return what numpy makes of a type that has no dtype here; of objects there is a pickle, of any size."""
    name = str(descr)
    if _OBJECTS.fullmatch(name):
        return PICKLED, 0
    if isinstance(descr, str):
        match = _ANY.fullmatch(descr)
        if match is None:
            raise ValueError(f"the .npy element type {name[:80]} is not supported")
        return unmapped(name), 8 if match[1] in "mM" else int(match[2] or 1)
    return unmapped(name[:_LONGEST_NAME]), _size_of_fields(descr)


def _size_of_fields(descr: Any) -> int:
    """Return how many bytes an element of several fields has; ValueError where numpy has no such type."""
    import numpy as np

    try:
        return int(np.lib.format.descr_to_dtype(descr).itemsize)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, SyntaxError) as error:
        raise ValueError(f"the .npy element type {str(descr)[:80]} is not supported") from error


def in_fortran_order(dtype: DType) -> DType:
    """Return a type that is not mapped as one of other bytes: those of the transposed array."""
    return unmapped(dtype.name + _FORTRAN)


class _Carried:
    """The types that are not mapped and whose bytes a `.npy` can hold again, by their spelling there."""

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name == PICKLED.name or name[:1] not in "<>=|[":
            return False  # other formats, too, have types that are called by a letter and a number
        try:
            return not _dtype(_descr(name))[0].is_mapped
        except ValueError:
            return False


def _descr(name: str) -> Any:
    """Return the `descr` that a type that is not mapped was named by; ValueError if it was cut."""
    spelled = name.removesuffix(_FORTRAN)
    if not spelled.startswith("["):
        return spelled
    try:
        return ast.literal_eval(spelled)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(name) from error


CARRIED: Container[str] = _Carried()


def decode_header(data: bytes) -> Header:
    """Return the header that a `.npy` file begins with; ValueError if it is none."""
    if not data.startswith(MAGIC) or len(data) < 12:
        raise ValueError("this is not an .npy header")
    major = data[6]
    if major not in (1, 2, 3) or data[7]:
        raise ValueError(f"the .npy version is {major}.{data[7]}; expected 1.0, 2.0 or 3.0")
    width = 2 if major == 1 else 4
    length = int.from_bytes(data[8 : 8 + width], "little")
    text = data[8 + width : 8 + width + length]
    if length > LONGEST_HEADER or len(text) != length:
        raise ValueError(f"the .npy header of {length} bytes is too long or cut off")
    try:
        found = ast.literal_eval(text.decode("utf-8" if major == 3 else "latin-1"))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError("the .npy header is not a dict literal") from error
    if not isinstance(found, dict) or set(found) != {"descr", "fortran_order", "shape"}:
        raise ValueError("the .npy header must have descr, fortran_order and shape, and nothing more")
    shape = found["shape"]
    if (
        not isinstance(shape, tuple)
        or len(shape) > MOST_DIMENSIONS
        or not all(type(dim) is int and 0 <= dim < _LARGEST_DIMENSION for dim in shape)
    ):
        raise ValueError(f"the .npy shape {str(shape)[:80]} is invalid")
    dtype, itemsize = _dtype(found["descr"])
    return Header(
        dtype, str(found["descr"])[:80], shape, found["fortran_order"] is True, itemsize, 8 + width + length
    )


NPY_DTYPES = frozenset(
    name for name, dtype in BY_NAME.items() if dtype.array == name and dtype.native_numpy
) | {STRING.name}
"""The types that `.npy` holds without a pickle: numpy's own. Quantized ones would come back as integers."""

_ALIGNMENT = 64


def encode_header(descr: Any, shape: tuple[int, ...], *, fortran: bool = False) -> bytes:
    """Return the header of a `.npy` file, padded as numpy does, so that elements are aligned."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    before = len(MAGIC) + 4
    length = -(-(before + len(text) + 1) // _ALIGNMENT) * _ALIGNMENT - before
    if length > 0xFFFF:
        raise ValueError(f"the .npy header of {length} bytes is too long")
    return MAGIC + b"\1\0" + length.to_bytes(2, "little") + text.ljust(length - 1).encode("latin-1") + b"\n"


def npy_chunks(spec: TensorSpec, chunks: Iterable[Chunk], directory: str | None) -> Iterator[Chunk]:
    """Yield a `.npy` file of a tensor, which comes in chunks; long strings wait in `directory`."""
    if spec.dtype is STRING:
        with FixedWidth(spec, chunks, directory) as strings:
            yield encode_header(f"|S{strings.width}", spec.shape)
            yield from strings.padded()
        return
    if spec.dtype.is_unmapped:
        name = spec.dtype.name
        yield encode_header(_descr(name), spec.shape, fortran=name.endswith(_FORTRAN))
    else:
        yield encode_header(spec.dtype.numpy.newbyteorder("<").str, spec.shape)
    yield from chunks
