"""Every command on files with one flipped bit: if there are checksums, right or an error."""

from __future__ import annotations

import random

import pytest

from tests.counts import count
from tests.hostile.flipped import COMMANDS, SPECIMENS, Pair, Specimen, pairs, places_of, try_pair
from tests.sampling import turn

TRIES = 1
"""Bits of a pair in each run of the tests; `make fuzz` flips one in every byte."""

TRIED = len(COMMANDS) // 4
"""Commands that each run of the tests tries on a specimen, other ones for another commit."""

MOST_BYTES = 800
"""`make fuzz` flips every byte of a file of this size, and an even sample of a larger one."""


def tried(specimen: Specimen, chosen: list[Pair], stride: int, first: int | None = None) -> int:
    """Flip a bit in some bytes, for commands; return how often values changed silently."""
    changed = 0
    dice = random.Random(specimen.name)
    for pair in chosen:
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
def test_a_flipped_bit_under_commands(specimen: Specimen) -> None:
    chosen = turn(pairs([specimen.name]), TRIED, SPECIMENS.index(specimen))
    changed = tried(specimen, chosen, -(-places_of(specimen) // TRIES))
    assert not changed or specimen.bare or not specimen.has_checksums("")


@pytest.mark.fuzz
@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_a_flipped_bit_in_every_byte_under_every_command(specimen: Specimen) -> None:
    tried(specimen, pairs([specimen.name]), -(-places_of(specimen) // MOST_BYTES), 0)
