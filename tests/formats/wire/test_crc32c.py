from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.wire.crc32c import MASKED_EMPTY, crc32c, extend, mask, masked_crc32c, unmask

# RFC 3720, appendix B.4.
RFC_3720 = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex(
            "01c00000 00000000 00000000 00000000 14000000 00000400"
            "00000014 00000018 28000000 00000000 02000000 00000000"
        ),
        0xD9963A56,
    ),
]

# formats.md 2.2, computed by TensorFlow.
MASKED = [
    (b"", 0x00000000, 0xA282EAD8),
    (b"a", 0xC1D04330, 0x28E46E78),
    (b"123456789", 0xE3069283, 0xC78AB0E5),
    (bytes(32), 0x8A9136AA, 0x0FD7FFFA),
    (b"hello", 0x9A71BB4C, 0x191C1FBB),
]


@pytest.mark.parametrize(("data", "crc"), RFC_3720)
def test_known_answers_of_rfc_3720(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@pytest.mark.parametrize(("data", "crc", "masked"), MASKED)
def test_known_masked_checksums(data: bytes, crc: int, masked: int) -> None:
    assert crc32c(data) == crc
    assert mask(crc) == masked
    assert unmask(masked) == crc
    assert masked_crc32c(data) == masked


def test_what_an_empty_tensor_stores() -> None:
    assert masked_crc32c(b"") == MASKED_EMPTY == 0xA282EAD8


@given(st.integers(0, 0xFFFFFFFF))
def test_unmask_undoes_mask(crc: int) -> None:
    assert 0 <= mask(crc) <= 0xFFFFFFFF
    assert unmask(mask(crc)) == crc
    assert mask(unmask(crc)) == crc


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_extending_over_pieces_is_the_checksum_of_the_whole(pieces: list[bytes]) -> None:
    crc = 0
    for piece in pieces:
        crc = extend(crc, piece)
    assert crc == crc32c(b"".join(pieces))
