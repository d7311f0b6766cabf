"""Numbers of msgpack, in the fewest bytes that hold them."""

from __future__ import annotations

import pytest

from formats.wire.msgpack_encoding import encode_integer


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (0x7F, "7f"),
        (0x80, "cc80"),
        (0xFF, "ccff"),
        (0x100, "cd0100"),
        (0xFFFF, "cdffff"),
        (0x10000, "ce00010000"),
        (0xFFFFFFFF, "ceffffffff"),
        (0x100000000, "cf0000000100000000"),
        ((1 << 64) - 1, "cfffffffffffffffff"),
    ],
)
def test_an_integer_has_the_shortest_of_five_forms(value: int, data: str) -> None:
    assert encode_integer(value).hex() == data
