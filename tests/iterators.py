"""States of iterators that TensorFlow saved, and what it gave next."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any, NamedTuple

from tests.support import data_path

RELEASES = ("tf215", "tf221")


class Saved(NamedTuple):
    """An iterator of a pipeline after `position` elements: its state, and at most 12 that follow."""

    release: str
    name: str
    program: str
    position: int
    state: list[bytes]
    next: list[Any]

    def __str__(self) -> str:
        return f"{self.release}-{self.name}-{self.position}"


@cache
def saved_iterators() -> list[Saved]:
    """Return all 200: 25 pipelines at four positions, of both releases."""
    found = []
    for release in RELEASES:
        with open(data_path("iterators", f"{release}.json"), encoding="utf-8") as file:
            pipelines = json.load(file)["pipelines"]
        for name, pipeline in pipelines.items():
            for position, one in pipeline["positions"].items():
                state = [base64.b64decode(element) for element in one["state"]]
                found.append(Saved(release, name, pipeline["program"], int(position), state, one["next"]))
    return found
