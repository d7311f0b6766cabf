"""The specs of datasets: dtype, shape, and whether their values are in the file.

A header in the usual layout has them; the library reads the others. bfloat16 and float8 have no HDF5 type:
Keras writes opaque bytes and an attribute `dtype`.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING, Any

from ..core.dtypes import BY_NAME, STRING, DType, from_numpy, raw_bytes, unmapped
from ..core.spec import TensorSpec
from .names import text
from .native.messages import UnfamiliarError

if TYPE_CHECKING:
    from .native.messages import Outline
    from .node import Node
    from .safe import H5File


# Size, exponent bits and mantissa bits of the small floats that HDF5 2.0 can describe.
_SMALL_FLOATS = {(2, 8, 7): "bfloat16", (1, 4, 3): "float8_e4m3fn", (1, 5, 2): "float8_e5m2"}

RAW = frozenset(("bfloat16", *(name for name in BY_NAME if name.startswith("float8_"))))
"""dtypes that are opaque bytes in HDF5, identified by an attribute `dtype`."""

_OPAQUE, _EMPTY = "opaque", "empty"
_NUMBER = re.compile(r"u?int\w+|b?float\w+")
"""The names of types that are not mapped and that are numbers all the same, or said to be some."""


def is_number_type(dtype: DType) -> bool:
    """Whether elements are numbers of a type that is not mapped: their bytes can be read."""
    return dtype.is_unmapped and _NUMBER.fullmatch(dtype.name) is not None


def _raw_dtype(file: H5File, dataset: Node, size: int) -> DType:
    """Return what the attribute `dtype` of a dataset makes of its opaque elements."""
    name = text(file, dataset, "dtype") or _OPAQUE
    named = BY_NAME.get(name)
    return named if named is not None and name in RAW and named.itemsize == size else unmapped(name)


def _dtype_of(file: H5File, dataset: Node, type_id: Any) -> DType:
    """Return the dtype of a dataset; an unmapped one where there is none for its type."""
    from h5py import h5t

    kind = type_id.get_class()
    size = type_id.get_size()
    if kind == h5t.STRING:
        return STRING
    if kind == h5t.OPAQUE:
        return _raw_dtype(file, dataset, size)
    if kind == h5t.FLOAT and size <= 2:
        _, _, exponent, _, mantissa = type_id.get_fields()
        small = _SMALL_FLOATS.get((size, exponent, mantissa))
        if small is not None:
            return BY_NAME[small]
    if kind == h5t.INTEGER:
        name = f"{'u' if type_id.get_sign() == h5t.SGN_NONE else ''}int{size * 8}"
        return BY_NAME.get(name) or unmapped(name + _order(type_id))
    if kind in (h5t.FLOAT, h5t.ENUM, h5t.COMPOUND):
        # Regardless of h5py's type: booleans are enumerations, complex numbers compounds.
        other = {h5t.ENUM: "enum", h5t.COMPOUND: "compound"}.get(kind) or _float_name(type_id)
        return from_numpy(type_id.dtype) or unmapped(other)
    return unmapped(_CLASSES.get(kind, f"class {kind}"))


def _float_name(type_id: Any) -> str:
    """Return a name for a float of unusual parts: of x86's long double, float128_e15m64."""
    _, _, exponent, _, mantissa = type_id.get_fields()
    bias = type_id.get_ebias()
    usual = "" if bias == (1 << exponent - 1) - 1 else f"_b{bias}"
    return f"float{8 * type_id.get_size()}_e{exponent}m{mantissa}{usual}{_order(type_id)}"


def _order(type_id: Any) -> str:
    from h5py import h5t

    return "_be" if type_id.get_size() > 1 and type_id.get_order() == h5t.ORDER_BE else ""


_CLASSES = {2: "time", 4: "bitfield", 7: "reference", 9: "variable-length", 10: "array"}
"""The names of those numbers of H5T_class_t that are neither numbers nor strings."""


def outline(file: H5File, dataset: Node) -> Outline | None:
    """Return what a dataset's header says of it; None where only the library can read that."""
    if dataset.header is not None:
        with contextlib.suppress(UnfamiliarError):
            found = dataset.header.outline()
            dtype = _raw_dtype(file, dataset, found.opaque) if found.opaque else found.dtype
            # The library adds up the stored size of chunks; numbers do not need it.
            if dtype.itemsize is not None or found.layout.stored is not None:
                return found._replace(dtype=dtype)
    return None


def describe(key: str, file: H5File, dataset: Node) -> TensorSpec:
    """Return the spec of a dataset; the dtype is unmapped if elements are neither numbers nor strings.

    Raises the errors of h5py. A dataset without a dataspace is empty, regardless of its type.
    """
    found = outline(file, dataset)
    if found is None:
        return _describe_by_library(key, file, dataset)
    if found.shape is None:
        return TensorSpec(key, unmapped(_EMPTY), (), 0)
    if found.dtype.is_unmapped:
        return TensorSpec(key, found.dtype, found.shape, math.prod(found.shape) * found.opaque)
    return TensorSpec(
        key, found.dtype, found.shape, found.layout.stored if found.dtype.itemsize is None else None
    )


def _describe_by_library(key: str, file: H5File, dataset: Node) -> TensorSpec:
    from h5py import h5s

    space = dataset.id.get_space()
    if space.get_simple_extent_type() == h5s.NULL:
        return TensorSpec(key, unmapped(_EMPTY), (), 0)
    type_id = dataset.id.get_type()
    dtype, shape = _dtype_of(file, dataset, type_id), space.get_simple_extent_dims()
    if dtype.is_unmapped:
        return TensorSpec(key, dtype, shape, math.prod(shape) * int(type_id.get_size()))
    stored = int(dataset.id.get_storage_size()) if dtype.itemsize is None else None
    return TensorSpec(key, dtype, shape, stored)


def readable_spec(spec: TensorSpec) -> TensorSpec:
    """Return the spec that a dataset is read by: numbers of a type that is not mapped are so many bytes."""
    if not spec.dtype.is_unmapped:
        return spec
    return spec._replace(dtype=raw_bytes((spec.stored or 0) // max(1, spec.size) or 1))


def place_of(dataset: Node) -> int:
    """Return the place of a dataset: that of its values if they are contiguous, otherwise that of its
    header.
    """
    if dataset.header is not None:
        with contextlib.suppress(UnfamiliarError):
            offset = dataset.header.layout().offset
            if offset is not None:
                return offset
    if dataset.address is not None:
        return dataset.address
    import h5py

    return int(h5py.h5o.get_info(dataset.id).addr)


def check_place(file: H5File, dataset: Node, place: str) -> None:
    """Refuse a dataset whose values are not in its own file; raises what h5py raises."""
    if dataset.header is not None:
        with contextlib.suppress(UnfamiliarError):
            dataset.header.layout()
            return
    check_library_place(file, dataset.id, place)


def check_library_place(file: H5File, dataset: Any, place: str) -> None:
    from h5py import h5d

    if dataset.get_offset() is not None:
        return  # contiguous, and in this file: a property list costs more than the rest of a listing
    plist = dataset.get_create_plist()
    if plist.get_layout() == h5d.VIRTUAL:
        raise file.refused(
            place, "a virtual dataset", "its values come from other datasets, possibly in other files"
        )
    if plist.get_external_count():
        raise file.refused(place, "a dataset with external storage", "its values are in other files")
