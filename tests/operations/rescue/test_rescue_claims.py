"""Values that `ckpt rescue` calls proved are those that were saved, with any damaged bit.

Every bit of an index and a shard is flipped in turn, and every length is tried; make test takes a share.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from ckpt_cli.operations.rescue.recovery import plan_rescue
from formats.errors import ConversionError
from formats.location import parse_location
from formats.tf.bundle.index import OBJECT_GRAPH_KEY
from tests import counts
from tests.support import data_path, same
from tests.writing import read_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = data_path("corrupt", "good", "ckpt")
GRAPH = OBJECT_GRAPH_KEY.decode()
FILES = ("ckpt.index", "ckpt.data-00000-of-00001")
SHARE = 41
"""Of so many places, make test takes one."""


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return read_all(GOOD)


def damages(path: str, step: int) -> Iterator[bytes]:
    """Yield the file with one bit flipped, and cut off, at each `step`th place."""
    with open(path, "rb") as file:
        data = file.read()
    for at in range(0, len(data), step):
        yield data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :]
        yield data[:at]


def claims_hold(directory: Path, expected: dict[str, Any], sibling: str | None) -> None:
    try:
        rescue = plan_rescue(
            parse_location(str(directory / "ckpt")),
            parse_location(str(directory / "out")),
            None if sibling is None else parse_location(sibling),
        )
    except ConversionError:  # the sibling cannot help
        rescue = None
    if rescue is None or rescue.refusal is not None:
        counts.count("damaged checkpoints rescued, of which nothing was left")
        return
    for move in rescue.plan.moves if rescue.plan is not None else ():
        key = move.spec.key
        if rescue.proofs[key] is not None and move.tensor is not None:
            assert same(move.tensor.read(), expected[key]), key
    known = {move.spec.key for move in rescue.plan.moves} if rescue.plan is not None else set()
    lost = {each.key for each in rescue.lost}
    if sibling is not None:
        assert known | lost | {GRAPH} >= set(expected), "a tensor was neither saved nor called lost"
    counts.count("damaged checkpoints rescued, all that was called proved being right")


def try_all(directory: Path, expected: dict[str, Any], name: str, sibling: str | None, step: int) -> None:
    shutil.copytree(os.path.dirname(GOOD), directory, dirs_exist_ok=True)
    for data in damages(os.path.join(os.path.dirname(GOOD), name), step):
        (directory / name).write_bytes(data)
        claims_hold(directory, expected, sibling)


@pytest.mark.parametrize("sibling", [None, GOOD], ids=["alone", "sibling"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_proved_is_right(
    name: str, sibling: str | None, expected: dict[str, Any], tmp_path: Path
) -> None:
    try_all(tmp_path, expected, name, sibling, SHARE)


@pytest.mark.fuzz
@pytest.mark.parametrize("sibling", [None, GOOD], ids=["alone", "sibling"])
@pytest.mark.parametrize("name", FILES)
def test_proved_values_are_right_with_any_damage(
    name: str, sibling: str | None, expected: dict[str, Any], tmp_path: Path
) -> None:
    try_all(tmp_path, expected, name, sibling, 1)
