"""Trees that are written: keys of many parts, and of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import ConversionError, open_checkpoint
from tests.writing import save

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("format_name", ["orbax", "flax"])
def test_a_path_has_ninety_parts_at_most(tmp_path: Path, format_name: str) -> None:
    path, deepest = tmp_path / "o", "/".join("a" * 90)
    save(path, {deepest: np.ones(2, np.float32)}, format_name)
    with open_checkpoint(str(path)) as reader:
        assert reader[deepest].read().tolist() == [1, 1]
    with pytest.raises(ConversionError, match="its path has 91 parts, but at most 90 are supported"):
        save(tmp_path / "p", {f"{deepest}/a": np.ones(2, np.float32)}, format_name)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("key", ["", "a//b", "/a", "a/"])
def test_a_part_of_a_path_is_not_empty(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConversionError, match="a part of its path is empty"):
        save(tmp_path / "o", {key: np.ones(2, np.float32)}, "orbax")
