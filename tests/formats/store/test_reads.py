"""How often a file is read: an index once, however large it is."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import open_checkpoint
from formats.store.work import counters
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_tallies", None)


def reads(path: str) -> tuple[int, int]:
    """Return how many bytes of an index opening and listing reads, and in how many reads."""
    counted = counters.count_reads()
    with open_checkpoint(path) as reader:
        assert len(reader.specs)
        assert reader.kinds
    return counted[path + ".index"].nbytes, counted[path + ".index"].reads


def test_a_small_index_is_one_read(tmp_path: Path) -> None:
    # A file of its own: what another test has read of one is known.
    path = str(tmp_path / "c")
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(data_path("name_based", "adam", "model.ckpt-5" + suffix), path + suffix)
    assert os.path.getsize(path + ".index") < 4096
    assert reads(path) == (os.path.getsize(path + ".index"), 1)


def test_a_large_index_is_one_read(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    write_bundle(path, {f"layer_{number}/kernel": np.zeros(1, np.float32) for number in range(3000)})
    assert reads(path) == (os.path.getsize(path + ".index"), 1)
