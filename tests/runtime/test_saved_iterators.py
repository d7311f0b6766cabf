"""Iterators that TensorFlow saved go on here at the very next element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf
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
    return [plain(element) for element, _ in zip(iterator, range(12), strict=False)]


@pytest.mark.parametrize("saved", saved_iterators(), ids=str)
def test_what_tensorflow_saved_goes_on(saved: Saved) -> None:
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
