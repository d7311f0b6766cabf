"""Tables of notebooks are cut, and say how much is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats.core.notebook import table
from tests.support import write_bundle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("rows", "shown", "more"), [(0, 0, ""), (29, 29, ""), (30, 30, ""), (1205, 30, "<p>1,175 more</p>")]
)
def test_30_rows_are_shown_with_the_count_of_the_others(rows: int, shown: int, more: str) -> None:
    html = table(["key"], ([number] for number in range(rows)), rows)
    assert (html.count("<td>"), html.partition("</table>")[2]) == (shown, more)
    assert html.startswith("<table><thead><tr><th>key</th></tr></thead>")


def test_a_checkpoint_of_many_tensors_is_cut(tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "many-1"), {f"k{n:04}": np.float32(0) for n in range(205)})
    with formats.open_checkpoint(tmp_path / "many-1") as reader:
        html = reader._repr_html_()
    assert html.count("<td>") == 3 * 30
    assert html.endswith("<p>175 more</p>")


def test_invisible_characters_are_escaped() -> None:
    html = table(["a\x1b"], [["<b>\u202e\udcff"]], 1)
    assert "<th>a\\x1b</th>" in html
    assert "<td>&lt;b&gt;\\u202e\\udcff</td>" in html
