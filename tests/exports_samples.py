"""Exported models in tests/data/exports, with what their producers' own programs read from them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats.model.reader import FormatReader


def gguf_truth() -> dict[str, Any]:
    """Return what gguf 0.19.0 reads, by file."""
    with open(data_path("exports", "gguf", "truth.json"), encoding="utf-8") as file:
        truth: dict[str, Any] = json.load(file)["files"]
    return truth


def sha256(array: np.ndarray[Any, Any]) -> str:
    """Return the SHA-256 of an array's little-endian bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def outcomes(reader: FormatReader) -> list[str]:
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


def truth_of(folder: str) -> dict[str, Any]:
    """Return what a format's own library reads of the samples in a folder, by file."""
    with open(data_path("exports", folder, "truth.json"), encoding="utf-8") as file:
        truth: dict[str, Any] = json.load(file)
    return truth


_NARROW = {"int4": np.int8, "int2": np.int8, "uint4": np.uint8, "uint2": np.uint8}


def told(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return an array as truth files tell it: dtype, shape, and the SHA-256, or the strings themselves."""
    name, shape = array.dtype.name, list(array.shape)
    if array.dtype == object:
        return ["string", shape, [each.decode() for each in array.reshape(-1)]]
    whole = array.astype(_NARROW[name]) if name in _NARROW else array
    return [name, shape, sha256(whole)]


def flips(data: bytes, step: int = 1) -> Iterator[bytes]:
    """Yield a file with one bit flipped in each byte, or in each so many."""
    for at in range(0, len(data), step):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        yield bytes(changed)


def survive_flips(path: Path, data: bytes, step: int = 1) -> None:
    """Open a file with each of its bytes damaged, and read what can be read: a value, or a typed error."""
    from formats import CheckpointError, open_checkpoint

    for changed in flips(data, step):
        path.write_bytes(changed)
        for lenient in (False, True):
            try:
                with open_checkpoint(path, lenient=lenient) as reader:
                    outcomes(reader)
            except CheckpointError:
                continue
