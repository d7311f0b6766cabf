"""Checksums of neighbours make that of both together, of either kind."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.wire.crc32c import crc32c
from formats.wire.joining import CRC32, CRC32C, joined

KINDS = {CRC32C: crc32c, CRC32: zlib.crc32}


@pytest.mark.parametrize("kind", KINDS)
@given(first=st.binary(max_size=60), second=st.binary(max_size=60))
def test_two_ranges(kind: int, first: bytes, second: bytes) -> None:
    found = KINDS[kind]
    assert joined(kind, found(first), found(second), len(second)) == found(first + second)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 4095, 1 << 20, 16 << 20])
def test_a_long_range_counts_as_long(kind: int, size: int) -> None:
    found = KINDS[kind]
    assert joined(kind, found(b"head"), found(bytes(size)), size) == found(b"head" + bytes(size))
