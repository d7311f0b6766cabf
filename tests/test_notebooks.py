"""What notebooks show of checkpoints; names in it are text, whatever they want to be."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

import formats
from ckpt_cli.operations.compare.diff import diff_pairs, pair_up
from ckpt_cli.operations.look.stats import Statistics
from tests.support import write_bundle

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = b"<script>alert('&')</script>\xff"


def cells(html: str) -> list[str]:
    """Return the texts of a table that has nothing but cells in it."""
    root = ElementTree.fromstring(f"<div>{html}</div>")
    assert {each.tag for each in root.iter()} <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}
    return [each.text or "" for each in root.iter("td")]


def test_tables_are_shown(tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "left-1"), {HOSTILE: np.zeros(3, np.float32)})
    write_bundle(str(tmp_path / "right-1"), {HOSTILE: np.ones(3, np.float32)})
    name = "<script>alert('&')</script>\\udcff"
    with (
        formats.open_checkpoint(tmp_path / "left-1") as left,
        formats.open_checkpoint(tmp_path / "right-1") as right,
    ):
        (spec,) = left.specs.values()
        assert cells(left._repr_html_()) == cells(spec._repr_html_()) == [name, "float32", "[3]"]
        found = diff_pairs(left, right, pair_up(left, right))
        assert cells(found._repr_html_()) == ["value", name, "1.0", "1.0", "3", "1.0", "nan"]
    assert cells(Statistics(min=1.5)._repr_html_())[:2] == ["1.5", "None"]
