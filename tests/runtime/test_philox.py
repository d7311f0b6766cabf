"""The generator behind random numbers, against the answers its authors published."""

import numpy as np
import pytest

from ckpt_cli.runtime import philox

# kat_vectors of Random123, for philox4x32 of ten rounds: counter, key, block.
KNOWN = [
    (0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (2**128 - 1, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        0x0370734413198A2E85A308D3243F6A88,
        0x299F31D0A4093822,
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
def test_blocks_are_the_published_ones(counter: int, key: int, block: list[int]) -> None:
    assert philox.blocks(key, counter, 1).tolist() == [block]


@pytest.mark.parametrize("counter", [0, 2**32 - 2, 2**64 - 2, 2**96 - 1, 2**128 - 2])
def test_the_counter_carries_through_all_its_bits(counter: int) -> None:
    together = philox.blocks(11, counter, 4)
    apart = [philox.blocks(11, (counter + number) % 2**128, 1)[0] for number in range(4)]
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize("start", [0, 1, 3, 4, 10])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_samples_are_the_blocks_one_after_the_other(start: int, count: int) -> None:
    expected = philox.blocks(3, 7, 8).reshape(-1)[start : start + count]
    np.testing.assert_array_equal(philox.samples(3, 7, start, count), expected)
