"""Every command on files of which one bit is flipped: right, or an error, where there are checksums."""

from __future__ import annotations

import random

import pytest

from tests.counts import count
from tests.hostile.flipped import COMMANDS, SPECIMENS, Specimen, pairs, places_of, try_pair

TRIES = 1
"""Bits of a pair in each run of the tests; `make fuzz` flips one in every byte."""

MOST_BYTES = 800
"""Bytes of a file of which each is flipped in `make fuzz`; of a larger one, every so many."""


def tried(specimen: Specimen, stride: int, first: int | None = None) -> int:
    """Flip a bit in some bytes, for every command; return how often values changed without a word."""
    changed = 0
    dice = random.Random(specimen.name)
    for pair in pairs([specimen.name]):
        begin = dice.randrange(stride) if first is None else first
        counted, findings = try_pair(pair, stride, begin)
        assert findings == []
        count("flipped bits under commands", counted.total())
        changed += counted["changed"]
    return changed


def test_every_format_and_every_command_that_shows_or_writes_values_is_there() -> None:
    assert len(pairs()) == len(SPECIMENS) * len(COMMANDS)
    assert {specimen.format for specimen in SPECIMENS} >= {"tf-name", "tf-object", "tf-v1", "npz", "hdf5"}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_a_flipped_bit_under_every_command(specimen: Specimen) -> None:
    changed = tried(specimen, -(-places_of(specimen) // TRIES))
    assert not changed or not specimen.has_checksums


@pytest.mark.fuzz
@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_a_flipped_bit_in_every_byte_under_every_command(specimen: Specimen) -> None:
    tried(specimen, -(-places_of(specimen) // MOST_BYTES), 0)
