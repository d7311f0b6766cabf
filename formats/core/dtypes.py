"""The dtypes of checkpoints: one table for names, numbers, arrays and sizes.

Names and numbers are TensorFlow's `DataType` (tensorflow/core/framework/types.proto); a type that TensorFlow
does not have has the number 0. The item size is that on disk, where 4-bit and 2-bit types take a whole byte.
A type that a format has and this table lacks is `unmapped`: it has the format's own name, and its bytes are
copied without being interpreted. numpy and ml_dtypes are imported with the first array.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import numpy as np


class DType(NamedTuple):
    """One element type.

    `itemsize` is in bytes on disk, or None if elements vary in length. `array` names the numpy or ml_dtypes
    type. `safetensors` is that format's code, if it has one. `family` is one of float, int, uint, complex,
    bool, bytes, unmapped, none.
    """

    name: str
    number: int
    itemsize: int | None
    array: str | None
    safetensors: str | None
    family: str

    @property
    def numpy(self) -> np.dtype[Any]:
        """The array dtype: object for strings and variants, whose elements are bytes."""
        found = _ARRAYS.get(self.name)  # looked up for every tensor
        if found is None:
            found = _ARRAYS[self.name] = self._numpy()
        return found

    def _numpy(self) -> np.dtype[Any]:
        import numpy as np

        if self.itemsize is None:
            return np.dtype(object)
        if self.is_unmapped:
            raise UnsupportedFeatureError(f"values of dtype {self.name} cannot be read", code="dtype")
        try:
            return np.dtype(self.array)
        except TypeError:
            import ml_dtypes

            exotic: np.dtype[Any] = np.dtype(getattr(ml_dtypes, str(self.array)))
            return exotic

    @property
    def is_number(self) -> bool:
        return self.family in ("float", "int", "uint", "complex", "bool")

    @property
    def is_floating(self) -> bool:
        return self.family == "float"

    @property
    def is_quantized(self) -> bool:
        """Whether it is one of TensorFlow's integers that stand for real numbers, by a scale elsewhere."""
        return self.name.startswith(("qint", "quint"))

    @property
    def has_zero(self) -> bool:
        """Whether zero can be stored; a scale of microscaling is a positive power of two."""
        return self.name != "float8_e8m0fnu"

    @property
    def is_unmapped(self) -> bool:
        """Whether this is a stored type that has no dtype here; such a tensor is sound, and has no values."""
        return self.family == _UNMAPPED

    @property
    def is_mapped(self) -> bool:
        """Whether values of it can be read: it is neither unmapped nor INVALID."""
        return self.family not in (_UNMAPPED, "none")

    @property
    def native_numpy(self) -> bool:
        """Whether numpy itself has the type, so that `.npy` files can hold it."""
        return self.array is not None and self.array not in _ML_DTYPES

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        if self.is_unmapped:
            return unmapped, (self.name,)
        return _the_one, (self.name,)  # each exists once, so callers compare with `is`


_UNMAPPED = "unmapped"
_ARRAYS: dict[str, np.dtype[Any]] = {}

_ROWS = """
    float32              1  4  float32              F32      float
    float64              2  8  float64              F64      float
    int32                3  4  int32                I32      int
    uint8                4  1  uint8                U8       uint
    int16                5  2  int16                I16      int
    int8                 6  1  int8                 I8       int
    string               7  -  -                    -        bytes
    complex64            8  8  complex64            C64      complex
    int64                9  8  int64                I64      int
    bool                10  1  bool                 BOOL     bool
    qint8               11  1  int8                 -        int
    quint8              12  1  uint8                -        uint
    qint32              13  4  int32                -        int
    bfloat16            14  2  bfloat16             BF16     float
    qint16              15  2  int16                -        int
    quint16             16  2  uint16               -        uint
    uint16              17  2  uint16               U16      uint
    complex128          18 16  complex128           -        complex
    float16             19  2  float16              F16      float
    variant             21  -  -                    -        bytes
    uint32              22  4  uint32               U32      uint
    uint64              23  8  uint64               U64      uint
    float8_e5m2         24  1  float8_e5m2          F8_E5M2  float
    float8_e4m3fn       25  1  float8_e4m3fn        F8_E4M3  float
    float8_e4m3fnuz     26  1  float8_e4m3fnuz      F8_E4M3FNUZ float
    float8_e4m3b11fnuz  27  1  float8_e4m3b11fnuz   -        float
    float8_e5m2fnuz     28  1  float8_e5m2fnuz      F8_E5M2FNUZ float
    int4                29  1  int4                 -        int
    uint4               30  1  uint4                -        uint
    int2                31  1  int2                 -        int
    uint2               32  1  uint2                -        uint
    float4_e2m1fn       33  1  float4_e2m1fn        -        float
    float8_e8m0fnu       0  1  float8_e8m0fnu       F8_E8M0  float
"""
_ML_DTYPES = frozenset(
    [
        "bfloat16",
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e4m3b11fnuz",
        "float8_e5m2fnuz",
        "int4",
        "uint4",
        "int2",
        "uint2",
        "float4_e2m1fn",
        "float8_e8m0fnu",
    ]
)


def _parse(row: str) -> DType:
    name, number, itemsize, array, safetensors, family = (
        None if cell == "-" else cell for cell in row.split()
    )
    assert name
    assert number
    assert family
    return DType(name, int(number), int(itemsize) if itemsize else None, array, safetensors, family)


DTYPES: tuple[DType, ...] = tuple(_parse(row) for row in _ROWS.strip().splitlines())
BY_NAME = {dtype.name: dtype for dtype in DTYPES}
CAST_TARGETS = {name: dtype for name, dtype in BY_NAME.items() if dtype.is_floating and dtype.has_zero}
"""Dtypes that floating tensors can be cast to: any other would make their zeros NaN."""
BY_NUMBER = {dtype.number: dtype for dtype in DTYPES if dtype.number}
STRING = BY_NAME["string"]
VARIANT = BY_NAME["variant"]
INVALID = DType("invalid", 0, None, None, None, "none")
"""DT_INVALID: the dtype of a damaged entry, which cannot be decoded. JSON shows it as null."""


@lru_cache(None)  # one of each, as of the others
def unmapped(name: str) -> DType:
    """Return the dtype of a stored type that is not in the table, by the format's own name for it.

    Its bytes can be cut anywhere, and elements can share one; how many there are the spec says.
    """
    return DType(name, 0, 1, None, None, _UNMAPPED)


@lru_cache(None)
def raw_bytes(size: int) -> DType:
    """Return a dtype for reading elements of this many bytes, regardless of their meaning."""
    return DType(f"V{size}", 0, size, f"V{size}", None, "none")


def from_numpy(dtype: np.dtype[Any]) -> DType | None:
    """Return the dtype of an array, quantized types aside; None if there is none."""
    if dtype.kind in "OSU":
        return STRING
    found = BY_NAME.get(dtype.name)
    return found if found is not None and found.numpy == dtype.newbyteorder("=") else None


_SHORT = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}

_MEANT = {
    "half": ("float16",),
    "single": ("float32",),
    "double": ("float64",),
    "float": ("float32", "float64"),
    "int": ("int32", "int64"),
    "long": ("int64",),
    "str": ("string",),
    "bytes": ("string",),
    "fp8": ("float8_e4m3fn", "float8_e5m2"),
}
"""Other libraries' names for dtypes, if their letters do not match ours or fit several."""


def _the_one(name: str) -> DType:
    return BY_NAME.get(name, INVALID)


def dtype_named(name: str) -> DType:
    """Return a dtype by TensorFlow's name, or `f16`, `bf16`, `f32`, `f64`; ValueError with what was meant."""
    found = BY_NAME.get(_SHORT.get(name, name))
    if found is not None:
        return found
    import difflib

    lower = name.lower()  # safetensors writes F32, which is not an abbreviation of float32
    short = [_SHORT[lower]] if lower in _SHORT else []
    meant = _MEANT.get(lower) or short or difflib.get_close_matches(lower, BY_NAME, 3, 0.5)
    rest = f"did you mean {' or '.join(meant)}?" if meant else f"expected one of {', '.join(BY_NAME)}"
    raise ValueError(f"{name!r} is not a dtype; {rest}")


def as_dtype(value: Any) -> DType:
    """Return a dtype that is given as one, by its name, or as numpy's; ValueError for another."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return dtype_named(value)
    import numpy as np

    found = from_numpy(np.dtype(value))
    if found is None:
        raise ValueError(f"{value!r} is not a dtype; expected one of {', '.join(BY_NAME)}")
    return found
