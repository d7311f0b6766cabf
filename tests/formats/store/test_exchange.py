"""Two names that are exchanged in one step, where the system can do that."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

import pytest

from formats.store.local.exchange import _exchanged
from tests.writing import files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    return str(tmp_path / "one"), str(tmp_path / "other")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has renameat2")
def test_directories_are_swapped(folders: tuple[str, str]) -> None:
    one, other = folders
    assert _exchanged(one, other)
    assert (files(one), files(other)) == ({"other": b"other"}, {"one": b"one"})
    with pytest.raises(FileNotFoundError):
        _exchanged(one, other + "-none")


def test_nothing_changes_where_the_system_cannot(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    assert not _exchanged(*folders)
    assert [os.listdir(each) for each in folders] == [["one"], ["other"]]
