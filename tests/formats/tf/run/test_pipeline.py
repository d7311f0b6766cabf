"""Facts that states contain about pipelines: names, positions, buffered elements, distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.tf.run.iterator_state import decode
from formats.tf.run.pipeline import Pipeline, Position, Step, apart, pipeline
from tests.iterators import RELEASES, Saved, saved_iterators

if TYPE_CHECKING:
    from collections.abc import Callable

NEXT: dict[str, Callable[[int], Position]] = {
    "guide": lambda n: Position((2 * n // 10,), 2 * n % 10, "TensorSlice"),
    "slices": lambda n: Position((), n, "TensorSlice"),
    "strings": lambda n: Position((), 3 * n, "TensorSlice"),
    "range": lambda n: Position((), n, "Range"),
    "range_step": lambda n: Position((), 3 + 3 * n, "Range"),
    "prefetch": lambda n: Position((), n, "Range"),
    "zip": lambda n: Position((), n, "Range"),
    "enumerate": lambda n: Position((), n, "Range"),
    "batch_drop": lambda n: Position((), 4 * n, "Range"),
    "batch_rest": lambda n: Position((), 4 * n, "Range"),
    "take_skip": lambda n: Position((), n, "FiniteTake"),
    "filter": lambda n: Position((), n, "Filter"),
    "shuffle_seeded": lambda n: Position((), n, "Shuffle"),
    "shuffle_once": lambda n: Position((), n, "ShuffleAndRepeat"),
    "shuffle_repeat": lambda n: Position((), 3 * n, "ShuffleAndRepeat"),
    "cache": lambda n: Position((n // 9,), n % 9, "MemoryCacheImpl"),
}
"""The position after n elements, by pipeline; the states of all others do not always contain it."""


@pytest.mark.parametrize("saved", [one for one in saved_iterators() if one.name in NEXT], ids=str)
def test_positions(saved: Saved) -> None:
    found = pipeline(decode(saved.state))
    if found.position is None:
        # Only what has read its input to the end says nothing; what it holds may still follow.
        assert any(step.has_ended for step in found.steps)
        assert found.has_ended == (not saved.next)
    else:
        assert found.position == NEXT[saved.name](saved.position)


def one(release: str, name: str, position: int) -> dict[str, dict[str, np.ndarray]]:
    (saved,) = (
        one for one in saved_iterators() if (one.release, one.name, one.position) == (release, name, position)
    )
    return decode(saved.state)


@pytest.mark.parametrize(
    ("name", "position", "expected"),
    [
        ("guide", 3, "Prefetch(BatchV2(ForeverRepeat(TensorSlice)))"),
        ("batch_drop", 6, "Prefetch(BatchV2)"),
        ("zip", 1, "Prefetch(Zip(Range, Range))"),
        ("window", 1, "Prefetch(FlatMap(Window(Range), BatchV2(Window)))"),
        ("padded", 1, "Prefetch(PaddedBatchV2(ParallelMapV2(Range)))"),
        ("shuffle_repeat", 1, "Prefetch(BatchV2(ShuffleAndRepeat(Range)))"),
        ("cache", 1, "Prefetch(FiniteRepeat(MemoryCache, MemoryCacheImpl(Range)))"),
    ],
)
def test_pipelines_in_a_line(name: str, position: int, expected: str) -> None:
    assert str(pipeline(one("tf221", name, position))) == expected


def test_a_step_that_has_no_values_of_its_own() -> None:
    state = {"Iterator::Root::FlatMap[1]::Map::Range": {"next": np.asarray(4)}}
    assert str(pipeline(state)) == "FlatMap(Map(Range))"


def test_numbers_and_what_is_held() -> None:
    steps = {step.name: step for step in pipeline(one("tf215", "shuffle_repeat", 1)).steps}
    shuffle = steps["ShuffleAndRepeat"]
    assert (shuffle.numbers["seed"], shuffle.numbers["seed2"]) == (2313400127, 3706097062)
    assert (shuffle.numbers["epoch"], shuffle.numbers["data_produced"]) == (2, 1)
    assert len(shuffle.held) == 7  # of eight slots one is empty
    assert [value.tolist() for value in steps["Prefetch"].held[0]] == [[1, 2, 3]]
    assert steps["Range"].numbers["next"] == 5
    windowed = {step.name: step for step in pipeline(one("tf215", "window", 1)).steps}
    assert len(windowed["FlatMap"].held) == 1


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "left", "right", "expected"),
    [
        ("guide", 0, 1, "2 elements apart"),
        ("slices", 6, 1, "5 elements apart"),
        ("slices", 0, 1, "1 element apart"),
        ("slices", 1, 1, "at the same element"),
        ("range_step", 1, 6, "15 values apart"),
        ("guide", 1, 6, "1 pass apart"),
        ("guide", 3, 6, "at pass 1, element 6 of TensorSlice and at pass 2, element 2 of TensorSlice"),
        ("batch_drop", 1, 6, "one has ended"),
        ("batch_drop", 6, 6, "both have ended"),
        ("interleave", 1, 6, "at different positions"),
        ("shuffle_once", 0, 6, "6 elements apart"),
        ("shuffle_seeded", 0, 1, "1 element apart"),
        ("window", 0, 3, "at different positions"),
        ("window", 1, 6, "one has ended"),
    ],
)
def test_apart(release: str, name: str, left: int, right: int, expected: str) -> None:
    assert apart(one(release, name, left), one(release, name, right)) == expected


def test_apart_before_the_first_of_a_pass() -> None:
    state = one("tf215", "guide", 6)
    (slices,) = (prefix for prefix in state if prefix.endswith("TensorSlice"))
    moved = {**state, slices: {key: np.asarray(1) for key in state[slices]}}
    assert str(pipeline(moved).position) == "pass 2, 3 elements before the first of TensorSlice"
    assert apart(state, moved) == "5 elements apart"


def test_other_pipelines() -> None:
    found = apart(one("tf215", "range", 1), one("tf215", "slices", 1))
    assert found == "different pipelines: Prefetch(Range) and Prefetch(TensorSlice)"


@pytest.mark.parametrize(
    ("names", "position"),
    [
        (("Prefetch", "TensorSlice"), 98),  # of two elements, each of one
        (("Prefetch", "BatchV2", "TensorSlice"), 92),  # of two batches of four
        (("Prefetch", "BatchV2", "BatchV2", "TensorSlice"), 76),  # of two batches of three batches of four
        (("BatchV2", "Prefetch", "TensorSlice"), 98),
        (("BatchV2", "Prefetch", "BatchV2", "TensorSlice"), 92),
        (("ParallelBatch", "TensorSlice"), 92),
        (("BatchV2", "ParallelBatch", "TensorSlice"), 92),
    ],
)
def test_what_is_held_ahead_was_not_given_out(names: tuple[str, ...], position: int) -> None:
    shape = (3, 4, 5) if names.count("BatchV2") == 2 and names[0] == "Prefetch" else (4, 5)
    held = [[np.zeros(shape, np.float32)], [np.zeros(shape, np.float32)]]
    steps = [
        Step(
            names[: at + 1],
            {"index": 100} if name == "TensorSlice" else {},
            held if name in ("Prefetch", "ParallelBatch") else [],
        )
        for at, name in enumerate(names)
    ]
    assert Pipeline(steps).position == Position((), position, "TensorSlice")


def test_parallel_steps() -> None:
    """TensorFlow 2.15 with `range(50).batch(4, num_parallel_calls=2)` after a batch, with two ready."""
    batch = "Iterator::Root::ParallelBatch"
    ahead = {
        f"60d899aa0d8ce4351e7c3b419e92d25b|{batch}:batch_results_{n}": {"output_0": np.arange(4) + 4 * n + 4}
        for n in range(2)
    }
    state = {
        batch: {"batch_results_size": np.asarray(2)},
        **ahead,
        f"{batch}::Range": {"next": np.asarray(12)},
    }
    found = pipeline(state)
    assert (str(found), found.place) == ("ParallelBatch(Range)", "value 4 of Range")
    interleave = "Iterator::Root::ParallelInterleaveV4"
    place = {".inputs[0]": np.asarray(7), ".results[0][0]": np.asarray(1), ".results[1][0]": np.asarray(2)}
    state = {
        f"{interleave}::Range": {"next": np.asarray(2)},
        f"{interleave}::current_elements::0": place,
        f"{interleave}[0]::Range": {"next": np.asarray(3)},
    }
    found = pipeline(state)
    assert str(found) == "ParallelInterleaveV4(Range, Range)"
    assert [int(value) for (value,) in found.steps[0].held] == [7, 1, 2]
