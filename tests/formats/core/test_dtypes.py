from __future__ import annotations

import pickle

import numpy as np
import pytest

from formats.core import dtypes
from formats.errors import UnsupportedFeatureError
from tests.support import open_bytes_as

# formats.md 4.5, in full: number, name, array type, bytes an element on disk.
TABLE = """
     1 float32            float32             4
     2 float64            float64             8
     3 int32              int32               4
     4 uint8              uint8               1
     5 int16              int16               2
     6 int8               int8                1
     7 string             object              var
     8 complex64          complex64           8
     9 int64              int64               8
    10 bool               bool                1
    11 qint8              int8                1
    12 quint8             uint8               1
    13 qint32             int32               4
    14 bfloat16           bfloat16            2
    15 qint16             int16               2
    16 quint16            uint16              2
    17 uint16             uint16              2
    18 complex128         complex128         16
    19 float16            float16             2
    21 variant            object              var
    22 uint32             uint32              4
    23 uint64             uint64              8
    24 float8_e5m2        float8_e5m2         1
    25 float8_e4m3fn      float8_e4m3fn       1
    26 float8_e4m3fnuz    float8_e4m3fnuz     1
    27 float8_e4m3b11fnuz float8_e4m3b11fnuz  1
    28 float8_e5m2fnuz    float8_e5m2fnuz     1
    29 int4               int4                1
    30 uint4              uint4               1
    31 int2               int2                1
    32 uint2              uint2               1
    33 float4_e2m1fn      float4_e2m1fn       1
"""
ROWS = [row.split() for row in TABLE.strip().splitlines()]

# The bytes of one, or of the value named, that formats.md 4.5 gives.
BYTES = [
    ("bfloat16", 1, "80 3f"),
    ("float16", 1, "00 3c"),
    ("float8_e5m2", 1, "3c"),
    ("float8_e4m3fn", 1, "38"),
    ("float8_e4m3fnuz", 1, "40"),
    ("float8_e4m3b11fnuz", 1, "58"),
    ("float8_e5m2fnuz", 1, "40"),
    ("int4", -1, "0f"),
    ("int4", -8, "08"),
    ("uint4", 15, "0f"),
    ("int2", -1, "03"),
    ("float4_e2m1fn", 1, "02"),
    ("bool", 1, "01"),
    ("complex64", 1j, "00 00 00 00 00 00 80 3f"),
    ("int32", -2, "fe ff ff ff"),
]


def test_the_table_is_tensorflows() -> None:
    assert [str(number) for number in dtypes.BY_NUMBER] == [row[0] for row in ROWS]
    assert [dtype.name for dtype in dtypes.BY_NUMBER.values()] == [row[1] for row in ROWS]
    assert [dtype.name for dtype in dtypes.DTYPES if not dtype.number] == ["float8_e8m0fnu"]


def test_a_type_that_is_not_mapped_is_one_by_its_name() -> None:
    one = dtypes.unmapped("F4")
    assert pickle.loads(pickle.dumps(one)) is one
    assert one.is_unmapped
    assert [one.is_mapped, one.is_number] == [False, False]
    assert [dtypes.INVALID.is_mapped, dtypes.INVALID.is_unmapped] == [False, False]
    assert dtypes.unmapped("qint8") != dtypes.BY_NAME["qint8"]
    with pytest.raises(UnsupportedFeatureError, match="values of dtype F4 cannot be read"):
        one.numpy  # noqa: B018  asking is what raises


@pytest.mark.parametrize(("number", "name", "array", "size"), ROWS)
def test_each_dtype(number: str, name: str, array: str, size: str) -> None:
    dtype = dtypes.BY_NUMBER[int(number)]
    assert dtype is dtypes.BY_NAME[name]
    assert str(dtype) == name
    assert dtype.numpy.name == array
    assert dtype.itemsize == (None if size == "var" else int(size))
    if dtype.itemsize is not None:
        assert dtype.numpy.itemsize == dtype.itemsize


@pytest.mark.parametrize("number", [0, 20, 34, 101, 119])
def test_numbers_that_no_tensor_in_a_file_has(number: int) -> None:
    """0 is invalid, 20 a resource, and references begin at 101: formats.md 4.5."""
    assert number not in dtypes.BY_NUMBER


@pytest.mark.parametrize(("name", "value", "data"), BYTES)
def test_bytes_of_elements(name: str, value: complex, data: str) -> None:
    dtype = dtypes.BY_NAME[name]
    assert np.array(value).astype(dtype.numpy).tobytes() == bytes.fromhex(data)
    assert open_bytes_as(dtype, bytes.fromhex(data)) == np.array(value).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", dtypes.DTYPES, ids=str)
def test_arrays_lead_back_to_their_dtype(dtype: dtypes.DType) -> None:
    """Quantized types aside, whose arrays are plain integers."""
    found = dtypes.from_numpy(dtype.numpy)
    assert found is not None
    assert found.numpy == dtype.numpy
    quantized = dtype.name.startswith(("qint", "quint"))
    assert (found is dtype) == (not quantized and dtype.name != "variant")


@pytest.mark.parametrize("array", ["datetime64[s]", "V3", [("a", "f4")], "longdouble"])
def test_arrays_of_no_dtype(array: object) -> None:
    assert dtypes.from_numpy(np.dtype(array)) is None  # type: ignore[call-overload]


def test_byte_order_of_an_array_does_not_matter() -> None:
    assert dtypes.from_numpy(np.dtype(">f4")) is dtypes.BY_NAME["float32"]


def test_families() -> None:
    by_family: dict[str, set[str]] = {}
    for dtype in dtypes.DTYPES:
        by_family.setdefault(dtype.family, set()).add(dtype.name)
    assert by_family["bytes"] == {"string", "variant"}
    assert by_family["complex"] == {"complex64", "complex128"}
    assert by_family["bool"] == {"bool"}
    assert all("float" in name for name in by_family["float"])
    assert len(by_family["float"]) == 11
    assert {dtype.name for dtype in dtypes.DTYPES if dtype.is_floating} == by_family["float"]
    assert not dtypes.STRING.is_number
    assert dtypes.BY_NAME["bool"].is_number


def test_types_that_npy_files_can_hold() -> None:
    native = {dtype.name for dtype in dtypes.DTYPES if dtype.native_numpy}
    assert {"float32", "bool", "complex128", "qint8"} <= native
    assert not native & {"bfloat16", "int4", "float8_e5m2", "float4_e2m1fn", "string", "variant"}


def test_safetensors_codes_are_different_codes() -> None:
    codes = [dtype.safetensors for dtype in dtypes.DTYPES if dtype.safetensors is not None]
    assert len(codes) == len(set(codes))
    assert dtypes.BY_NAME["bfloat16"].safetensors == "BF16"


def test_invalid_is_in_no_table() -> None:
    assert dtypes.INVALID.number == 0
    assert dtypes.INVALID not in dtypes.DTYPES
