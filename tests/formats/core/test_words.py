"""Parts of sentences: the first of many names, and ages."""

from __future__ import annotations

import pytest

from formats.core.words import FirstNames, age_in_words


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["b"], "b"),
        (["c", "a", "b"], "a, b, c"),
        (["d", "c", "a", "b"], "a, b, c and 1 more"),
        ([f"{n:04}" for n in reversed(range(2003))], "0000, 0001, 0002 and 2,000 more"),
    ],
)
def test_the_first_names_are_reported_and_how_many_are_left(names: list[str], text: str) -> None:
    found = FirstNames(most=3)
    for name in names:
        found.add(name)
    assert str(found) == text
    one, other = FirstNames(most=3), FirstNames(most=3)
    for at, name in enumerate(names):
        (one if at % 2 else other).add(name)
    one.add_all(other)
    assert str(one) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 seconds"),
        (0.9, "0 seconds"),
        (1, "1 second"),
        (1.9, "1 second"),
        (2, "2 seconds"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (7199, "119 minutes"),
        (7200, "2 hours"),
        (172_799, "47 hours"),
        (172_800, "2 days"),
        (8_640_000, "100 days"),
    ],
)
def test_an_age_is_reported_in_the_largest_unit_that_makes_it_two_or_more(seconds: float, text: str) -> None:
    assert age_in_words(seconds) == text
