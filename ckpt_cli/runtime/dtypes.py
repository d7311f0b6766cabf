"""TensorFlow's dtypes as the runtime shows them: `tf.float32` and its kin.

They are the rows of `formats.core.dtypes` that numpy or ml_dtypes can compute with, plus
strings and variants, which only travel.  A dtype equals its name and its numpy type,
as TensorFlow's does.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from formats.core import dtypes as formats_dtypes

__all__ = ["DType", "as_dtype", "as_numpy", "float32", "int32", "int64"]


class DType:
    """An element type; one object each."""

    __slots__ = ("_row", "as_numpy_dtype", "numpy_dtype")

    def __init__(self, row: formats_dtypes.DType) -> None:
        self._row = row
        self.numpy_dtype: np.dtype[Any] = row.numpy
        self.as_numpy_dtype: type[Any] = self.numpy_dtype.type

    @property
    def name(self) -> str:
        return self._row.name

    @property
    def as_datatype_enum(self) -> int:
        return self._row.number

    @property
    def base_dtype(self) -> DType:
        return self

    @property
    def size(self) -> int:
        return self._row.itemsize or 0

    @property
    def is_floating(self) -> bool:
        return self._row.is_floating

    @property
    def is_complex(self) -> bool:
        return self._row.family == "complex"

    @property
    def is_integer(self) -> bool:
        return self._row.family in ("int", "uint") and not self._row.name.startswith(("q", "b"))

    @property
    def is_bool(self) -> bool:
        return self._row.family == "bool"

    def is_compatible_with(self, other: Any) -> bool:
        return as_dtype(other) is self

    @property
    def min(self) -> Any:
        return self._limit("min")

    @property
    def max(self) -> Any:
        return self._limit("max")

    def _limit(self, which: str) -> Any:
        if not self.is_floating and not self.is_integer:
            raise TypeError(f"Cannot find {which}imum value of {self} with type {self}.")
        limits: Any = (ml_dtypes.finfo if self.is_floating else np.iinfo)(self.numpy_dtype)
        return getattr(limits, which)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is DType:
            return self is other
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self._row.number

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"


BY_NAME: dict[str, DType] = {row.name: DType(row) for row in formats_dtypes.DTYPES if row.number}
_BY_NUMPY: dict[np.dtype[Any], DType] = {}
for _dtype in BY_NAME.values():
    if not _dtype.name.startswith(("q", "variant")):
        _BY_NUMPY.setdefault(_dtype.numpy_dtype, _dtype)

float16, float32, float64, bfloat16 = (
    BY_NAME[name] for name in ("float16", "float32", "float64", "bfloat16")
)
int8, int16, int32, int64 = (BY_NAME[name] for name in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (BY_NAME[name] for name in ("uint8", "uint16", "uint32", "uint64"))
complex64, complex128, string = BY_NAME["complex64"], BY_NAME["complex128"], BY_NAME["string"]
variant = BY_NAME["variant"]
bool_ = BY_NAME["bool"]
_ALIASES = {"half": float16, "float": float32, "double": float64, "str": string}


def as_dtype(type_value: Any) -> DType:
    """Return the dtype for a dtype, a name, or a numpy or Python type. Raises TypeError."""
    value = type_value
    if value.__class__ is DType:
        return value
    if isinstance(value, np.dtype):
        found = _BY_NUMPY.get(value)
    elif value.__class__ is int:
        found = next((one for one in BY_NAME.values() if one.as_datatype_enum == value), None)
    elif isinstance(value, str):
        found = BY_NAME.get(value) or _ALIASES.get(value)
    elif value is float:
        found = float32
    elif value is int:
        found = int32
    elif value is bool:
        found = bool_
    elif value in (str, bytes):
        found = string
    elif isinstance(value, type) and issubclass(value, np.generic):
        found = _BY_NUMPY.get(np.dtype(value))
    else:
        found = None
    if found is None:
        raise TypeError(f"Cannot convert {value!r} to a TensorFlow DType.")
    return found


def as_numpy(value: Any) -> np.dtype[Any]:
    """Return the numpy dtype of anything that `as_dtype` takes."""
    return as_dtype(value).numpy_dtype
