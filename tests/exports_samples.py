"""Exported models in tests/data/exports, with what their producers' own programs read from them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support import data_path

if TYPE_CHECKING:
    from formats import CheckpointReader


def gguf_truth() -> dict[str, Any]:
    """Return what gguf 0.19.0 reads, by file."""
    with open(data_path("exports", "gguf", "truth.json"), encoding="utf-8") as file:
        truth: dict[str, Any] = json.load(file)["files"]
    return truth


def sha256(array: np.ndarray[Any, Any]) -> str:
    """Return the SHA-256 of an array's little-endian bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def outcomes(reader: CheckpointReader) -> list[str]:
    """Return what came of reading each tensor, in whole and in part: a digest, or the error's class."""
    from formats import CheckpointError

    found = []
    for key, spec in reader.specs.items():
        try:
            value = reader[key].read()
            assert value.shape == spec.shape
            found.append(sha256(value) if spec.dtype.itemsize else repr(value.tolist()))
        except CheckpointError as error:
            found.append(type(error).__name__)
    return found
