"""The count of checkpoints below a directory has a limit, and the message says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from formats.find.directory import count_below
from formats.location import parse_location

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = b"\x02\0\0\0\0\0\0\0{}"
"""A safetensors file without tensors."""


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        (1, "1 checkpoint in 1 subdirectory"),
        (999, "1 checkpoint in 1 subdirectory"),
        (1000, "at least 1 checkpoint in subdirectories"),
        (1001, "at least 1 checkpoint in subdirectories"),
    ],
)
def test_a_thousand_directories_are_looked_into(folders: int, words: str, tmp_path: Path) -> None:
    for number in range(folders):
        (tmp_path / f"{number:04}").mkdir()
    (tmp_path / "0000" / "x.safetensors").write_bytes(EMPTY)
    assert count_below(parse_location(str(tmp_path))) == words


@pytest.mark.parametrize(
    ("checkpoints", "words"),
    [(999, "999 checkpoints in 2 subdirectories"), (1000, "at least 1,000 checkpoints in subdirectories")],
)
def test_a_thousand_checkpoints_are_counted(checkpoints: int, words: str, tmp_path: Path) -> None:
    for number in range(checkpoints):
        folder = tmp_path / str(number % 2)
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.safetensors").write_bytes(EMPTY)
    assert count_below(parse_location(str(tmp_path))) == words


def test_nothing_below_is_nothing(tmp_path: Path) -> None:
    assert count_below(parse_location(str(tmp_path))) is None
    for number in range(1001):
        (tmp_path / str(number)).mkdir()
    assert count_below(parse_location(str(tmp_path))) is None
