"""The values of V1 files: what one function writes the other reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.core.chunks import array_chunks
from formats.core.dtypes import BY_NAME
from formats.tf.v1.values import VALUE_FIELDS, decode_values, decode_varints, encode_values, encode_varints
from formats.wire.coding import encode_varint
from tests.support import same
from tests.writing import specimen

EDGES = [
    0,
    1,
    2**63,
    2**64 - 1,
    *(2**bits - 1 for bits in range(7, 64, 7)),
    *(2**bits for bits in range(7, 64, 7)),
]


@given(st.lists(st.integers(0, 2**64 - 1) | st.sampled_from(EDGES)))
def test_varints_are_those_of_one_at_a_time(values: list[int]) -> None:
    encoded = encode_varints(np.array(values, np.uint64))
    assert encoded == b"".join(map(encode_varint, values))
    assert decode_varints(encoded).tolist() == values


def test_more_varints_than_a_block() -> None:
    values = np.arange(200_000, dtype=np.uint64) * np.uint64(2**40 + 1)
    assert same(decode_varints(encode_varints(values)), values)


@pytest.mark.parametrize("key", [key for key in specimen() if not key.startswith("many/")])
def test_values_come_back(key: str) -> None:
    array: np.ndarray[Any, Any] = specimen()[key]
    dtype = BY_NAME["string" if array.dtype == object else array.dtype.name]
    proto = encode_values(array_chunks(array, 16), dtype)
    assert same(decode_values(proto, dtype), array.reshape(-1))
    assert (proto == b"") == (array.size == 0)


@pytest.mark.parametrize(
    ("dtype", "proto"),
    [("string", "40 05"), ("int32", "3d 01 00 00 00"), ("float32", "29" + " 00" * 8), ("float64", "30 07")],
)
def test_a_field_of_another_wire_type_is_passed_over(dtype: str, proto: str) -> None:
    """As protocol buffers take it, for one that is not known."""
    assert decode_values(bytes.fromhex(proto), BY_NAME[dtype]).size == 0


def test_every_dtype_of_v1_files_has_a_field() -> None:
    assert {field.number for field in VALUE_FIELDS.values()} == {5, 6, 7, 8, 9, 10, 11, 12, 13}


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("int32", [-1, 300], "3a 0c ff ff ff ff ff ff ff ff ff 01 ac 02"),
        ("int8", [-1], "3a 0a ff ff ff ff ff ff ff ff ff 01"),
        ("uint8", [255], "3a 02 ff 01"),
        ("float16", [1.5], "6a 02 80 7c"),
        ("bool", [True, False], "5a 02 01 00"),
        ("float32", [7.0], "2a 04 00 00 e0 40"),
        ("int64", [1], "52 01 01"),
    ],
)
def test_values_are_encoded_as_tensorflow_does(dtype: str, values: list[Any], expected: str) -> None:
    array = np.array(values, BY_NAME[dtype].numpy)
    assert encode_values(array_chunks(array), BY_NAME[dtype]) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("dtype", "proto", "expected"),
    [
        ("float32", "2d 0000803f 2d 00000040", [1.0, 2.0]),
        ("float64", "31 000000000000f03f", [1.0]),
        ("complex64", "4d 0000803f 4d 00000040", [1 + 2j]),
        ("complex128", "61 000000000000f03f 61 0000000000000040", [1 + 2j]),
        ("int32", "38 05 38 07", [5, 7]),
        ("int64", "50 05", [5]),
        ("bool", "58 01 58 00", [True, False]),
        ("float16", "68 80 78", [1.0]),
    ],
)
def test_numbers_that_are_not_packed_are_read(dtype: str, proto: str, expected: list[Any]) -> None:
    """Protocol buffers let a writer repeat the field, each number with the wire type of its own."""
    found = decode_values(bytes.fromhex(proto), BY_NAME[dtype])
    assert found.tolist() == expected
