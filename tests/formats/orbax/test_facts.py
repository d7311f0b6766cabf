"""The values next to the tensors of a tree follow them to their new keys."""

from __future__ import annotations

import pytest

from formats.orbax.facts import TreeFacts

TYPES = dict.fromkeys(("opt/0/mu/w", "opt/0/mu/b", "params/w", "params/b"), "jax.Array")
EMPTY = {"opt/1": "Dict", "opt/0/mu/none": "None", "params/none": "None", "none": "None"}
VALUES = {"params/note": "text", "params/below/note": "other"}


def moved(keys: dict[str, str], **fields: object) -> TreeFacts:
    types = {**TYPES, **dict.fromkeys((*EMPTY, *VALUES), "None")}
    return TreeFacts("orbax", VALUES, EMPTY, types=types, **fields).rekeyed(keys)  # type: ignore[arg-type]


def test_texts_and_empty_containers_follow_the_tensors_of_their_folder() -> None:
    keys = {key: key.replace("params/", "model/net/").replace("opt/0/", "opt/5/") for key in TYPES}
    found = moved(keys)
    assert found.values == {"model/net/note": "text", "model/net/below/note": "other"}
    assert found.empty == {"opt/1": "Dict", "opt/5/mu/none": "None", "model/net/none": "None", "none": "None"}
    assert set(found.types) == {*keys.values(), *found.values, *found.empty}


def test_what_is_next_to_tensors_that_are_left_out_is_left_out() -> None:
    found = moved({key: key for key in TYPES if key.startswith("opt")})
    assert found.values == {}
    assert found.empty == {"opt/1": "Dict", "opt/0/mu/none": "None", "none": "None"}


def test_tensors_that_part_take_nothing_along() -> None:
    """Two tensors of a folder go to two others: nothing shows where a text next to them belongs."""
    found = moved({**{key: key for key in TYPES}, "params/w": "one/w", "params/b": "two/b"})
    assert "one/note" not in found.values
    assert "two/note" not in found.values


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("a/0/w", "b/0/w", {1}, {1}),
        ("a/0/w", "x/a/0/w", {1}, {2}),
        ("x/a/0/w", "a/0/w", {2}, {1}),
        ("a/0/w", "a/one/w", {1}, set()),
        ("a/0/w", "a/7/w", {1}, {1}),
        ("0/a/1", "0/b/1", {0, 2}, {0, 2}),
        ("0/a", "a", {0}, set()),
        ("a/0", "a/0/b", {1}, {1}),
        ("a/b", "a/0", set(), set()),
    ],
)
def test_positions_in_lists_stay_positions(old: str, new: str, before: set[int], after: set[int]) -> None:
    found = TreeFacts("orbax", types={old: "jax.Array"}, positions={old: frozenset(before)}).rekeyed(
        {old: new}
    )
    assert found.positions == {new: frozenset(after)}


def test_keys_of_random_numbers_and_of_bytes_follow() -> None:
    facts = TreeFacts(
        "orbax", random={"a": "threefry2x32", "c": "rbg"}, raw=frozenset(("a", "c")), more={"x": 1}
    )
    found = facts.rekeyed({"a": "b"})
    assert (found.random, found.raw, found.more) == ({"b": "threefry2x32"}, frozenset("b"), {})


def test_metrics_are_the_numbers_among_them() -> None:
    told = {"loss": 0.5, "step": 3, "name": "x", "done": True, "none": None}
    assert TreeFacts("orbax", more={"metrics": told}).metrics == {"loss": 0.5, "step": 3}
    assert TreeFacts("orbax", more={"metrics": [1]}).metrics == {}
    assert TreeFacts("orbax").metrics == {}


def test_tensors_that_are_split_from_one_are_in_the_same_lists() -> None:
    """Each layer of a stack has the stack's place in the list of an optimizer's states."""
    whole = "opt/0/mu/layers/w"
    facts = TreeFacts("orbax", types={whole: "jax.Array"}, positions={whole: frozenset({1})})
    first, second = (f"opt/0/mu/layers_{number}/w" for number in range(2))
    found = facts.rekeyed({whole: first}).split({second: first})
    assert found.positions == {first: {1}, second: {1}}
    assert found.types == {first: "jax.Array", second: "jax.Array"}
