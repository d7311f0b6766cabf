"""Iterators that TensorFlow saved continue here at the very next element."""

from __future__ import annotations

import contextlib
import itertools
from random import Random
from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from formats.tf.run.iterator_state import decode, encode, own_key
from formats.tf.run.pipeline import apart, pipeline
from tests.iterators import Saved, saved_iterators


def plain(element: Any) -> Any:
    """Return an element as the truth has it."""
    if isinstance(element, dict):
        return {key: plain(value) for key, value in element.items()}
    if isinstance(element, tuple):
        return [plain(value) for value in element]
    array = np.asarray(element)
    return [one.decode() for one in array.reshape(-1)] if array.dtype == object else array.tolist()


def iterator_of(saved: Saved) -> Any:
    tf.random.set_seed(1)
    return iter(eval(saved.program, {"D": tf.data.Dataset, "np": np, "tf": tf}))


def restore(iterator: Any, state: list[bytes]) -> None:
    value = np.empty(len(state), object)
    value[:] = state
    iterator._take_restored("ITERATOR", iterator._decode_restored("ITERATOR", value))


def following(iterator: Any) -> list[Any]:
    return [plain(element) for element in itertools.islice(iterator, 12)]


@pytest.mark.parametrize("saved", saved_iterators(), ids=str)
def test_what_tensorflow_saved_continues(saved: Saved) -> None:
    iterator = iterator_of(saved)
    restore(iterator, saved.state)
    assert following(iterator) == saved.next


@pytest.mark.parametrize("saved", saved_iterators(), ids=str)
def test_what_tensorflow_gives_is_given(saved: Saved) -> None:
    iterator = iterator_of(saved)
    for _ in range(saved.position):
        next(iterator, None)
    assert following(iterator) == saved.next


@pytest.mark.parametrize("saved", saved_iterators(), ids=str)
def test_what_was_restored_is_saved_again(saved: Saved) -> None:
    iterator = iterator_of(saved)
    restore(iterator, saved.state)
    again = iterator_of(saved)
    restore(again, list(iterator._serialize()["ITERATOR"]))
    assert following(again) == saved.next


@pytest.mark.parametrize("drop", [False, True])
def test_a_batch_that_was_begun_is_filled(drop: bool) -> None:
    """TensorFlow saves one while it makes it: its elements so far, and how many calls it waits for."""
    dataset = tf.data.Dataset.range(7).map(lambda x: (x, -x)).batch(4, drop_remainder=drop)
    iterator = iter(dataset)
    sections = decode(iterator._serialize()["ITERATOR"])
    me, result = "Iterator::Root::MapAndBatch", "batch_results_0"
    numbers = {
        "call_counter": 2,
        "batch_results_size": 1,
        f"{result}_num_calls": 2,
        f"{result}_num_elements": 2,
        own_key(me, f"{result}_output_size"): 2,
        own_key(me, f"{result}_status_code"): 0,
    }
    sections[me] = {key: np.asarray(value) for key, value in numbers.items()}
    sections[own_key(me, result)] = {"output_0": np.arange(2), "output_1": -np.arange(2)}
    sections[f"{me}::Range"] = {"next": np.asarray(2)}
    restore(iterator, encode(sections))
    again = iter(dataset)
    restore(again, list(iterator._serialize()["ITERATOR"]))
    expected = [[[0, 1, 2, 3], [0, -1, -2, -3]]] + ([] if drop else [[[4, 5, 6], [-4, -5, -6]]])
    assert following(iterator) == following(again) == expected


def changed(state: list[bytes], random: Random) -> list[bytes]:
    """Return a state with a changed byte or value."""
    if random.random() < 0.4:
        place = random.randrange(len(state))
        element = bytearray(state[place])
        element[random.randrange(len(element))] = random.randrange(256)
        return [*state[:place], bytes(element), *state[place + 1 :]]
    sections = decode(state)
    prefix = random.choice([prefix for prefix, values in sections.items() if values])
    key = random.choice(list(sections[prefix]))
    match random.randrange(4):
        case 0:
            sections[prefix][key] = np.asarray(random.choice([-1, 0, 1, 2, 5, 1 << 40, (1 << 63) - 1]))
        case 1:
            sections[prefix][key] = np.asarray(random.choice([1.5, [1, 2], [[1]]]))
        case 2:
            del sections[prefix][key]
        case 3:
            sections[prefix + random.choice(["::Range", "[0]", "::0"])] = sections.pop(prefix)
    return encode(sections)


@pytest.mark.parametrize("seed", range(300))
def test_a_changed_state_is_rejected_or_continues(seed: int) -> None:
    """Neither an error of another class nor an iterator that hangs."""
    random = Random(seed)
    saved = random.choice(saved_iterators())
    state = changed(saved.state, random)
    with contextlib.suppress(ValueError):
        sections = decode(state)
        assert str(pipeline(sections))
        assert apart(sections, decode(saved.state))
    iterator = iterator_of(saved)
    with contextlib.suppress(tf.errors.DataLossError, tf.errors.InvalidArgumentError):
        restore(iterator, state)
        assert len(following(iterator)) <= 12
