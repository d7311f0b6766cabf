"""The samples of tests/data/orbax, and their expected content."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from tests.support import data_path

with open(data_path("orbax", "truth.json"), encoding="utf-8") as file:
    SAMPLES: dict[str, dict[str, Any]] = json.load(file)["samples"]


def summed(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return dtype, shape and SHA-256 as the truth has them: numbers of less than a byte as whole bytes."""
    name = array.dtype.name
    whole = array.astype(np.uint8 if name.startswith("u") else np.int8) if name in NARROW else array
    return [name, list(array.shape), hashlib.sha256(np.ascontiguousarray(whole).tobytes()).hexdigest()]


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


NARROW = ("int4", "uint4", "int2", "uint2")
