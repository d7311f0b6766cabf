"""The order of the tests of a mutant: those of its own room first, those of the command line last."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.points import Point

__all__ = ["Stage", "stages_of"]

_ROOMS = ("tests/formats", "tests/operations")
_LAST = "tests/cli"


class Stage(NamedTuple):
    """Files of tests that are recorded, and the places in the sample of the mutants that then meet tests."""

    name: str
    files: list[str]
    points: set[int]


def stages_of(root: str, sample: Sequence[Point]) -> list[Stage]:
    """Return the stages of a sample; each file of tests is in one of them."""
    every = set(range(len(sample)))
    files = [path for room in _ROOMS for path in _files(root, room)]
    stages: dict[str, Stage] = {}
    for told, point in enumerate(sample):
        room = os.path.join("tests", os.path.dirname(point.path).removeprefix("ckpt_cli/"))
        if os.path.isdir(os.path.join(root, room)):
            own = [path for path in files if os.path.dirname(path) == room]
            stages.setdefault(room, Stage(room, own, set())).points.add(told)
    met = {path for stage in stages.values() for path in stage.files}
    rest = Stage("other rooms", [path for path in files if path not in met], every)
    return [*stages.values(), rest, Stage(_LAST, _files(root, _LAST), every)]


def _files(root: str, folder: str) -> list[str]:
    found = []
    for path, _, names in os.walk(os.path.join(root, folder)):
        within = os.path.relpath(path, root)
        found += [os.path.join(within, name) for name in names if name.startswith("test_")]
    return sorted(name for name in found if name.endswith(".py"))
