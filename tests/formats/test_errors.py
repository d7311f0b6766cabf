"""Errors of other libraries and of Python as ours."""

from __future__ import annotations

import errno

import pytest

from formats.errors import CorruptCheckpointError, ResourceError, as_ours

EXHAUSTED = [
    (MemoryError(), "there is not enough memory"),
    (
        MemoryError("Unable to allocate 8 GiB\nfor an array"),
        "there is not enough memory: Unable to allocate 8 GiB",
    ),
    (RecursionError(), "this is nested too deeply for Python's stack"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "there is not enough memory"),
    (RuntimeError("can't start new thread"), "there is not enough memory"),
]


@pytest.mark.parametrize(("error", "message"), EXHAUSTED)
def test_a_lack_of_memory_is_an_error_of_the_path(error: Exception, message: str) -> None:
    found = as_ours(error, "a/b")
    assert isinstance(found, ResourceError)
    assert (found.message, found.path) == (message, "a/b")
    assert bool(found.hints) == (message != EXHAUSTED[2][1])


def test_our_errors_stay_and_others_are_raised_again() -> None:
    ours = CorruptCheckpointError("damaged", path="x")
    assert as_ours(ours, "a/b") is ours
    for error in (ValueError("no"), OSError(errno.EIO, "no"), RuntimeError("no")):
        with pytest.raises(type(error)) as raised:
            as_ours(error, "a/b")
        assert raised.value is error
