"""Notebooks show checkpoints; names in them are always text."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

import ckpt_cli as ckpt
import formats
from ckpt_cli.operations.compare.diff import diff_pairs
from ckpt_cli.operations.compare.pairs import pair_up
from ckpt_cli.operations.look.stats import Statistics
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"

HOSTILE = b"<script>alert('&')</script>\xff"


def cells(html: str) -> list[str]:
    """Return the texts of a table that consists of cells; pictures may precede it."""
    root = ElementTree.fromstring(f"<div>{html}</div>")
    for picture in root.findall(f"{SVG}svg"):
        root.remove(picture)
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


def test_a_long_name_leaves_room_for_the_other_columns(tmp_path: Path) -> None:
    """A name of 300 characters pushed dtypes and shapes out of sight, and all names with them."""
    name = "a" * 150 + "/" + "b" * 150
    write_bundle(str(tmp_path / "long-1"), {name: np.zeros(3, np.float32), "few words / " * 20: np.zeros(2)})
    shown = ckpt.open(tmp_path / "long-1")._repr_html_()
    assert f'<td title="{name}">{"a" * 50}…{"b" * 50}</td>' in shown
    assert f"<td>{'few words / ' * 20}</td>" in shown  # browsers wrap it
    assert "[3]" in cells(shown)


# Plots ------------------------------------------------------------------------------


def plots(html: str) -> list[ElementTree.Element]:
    """Return the pictures above a table: well-formed, and nothing in them leads anywhere."""
    root = ElementTree.fromstring(f"<div>{html}</div>")
    tags = {each.tag.rpartition("}")[2] for each in root.iter()}
    table = {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert tags <= {*table, "svg", "text", "rect", "polyline"}
    assert "href" not in html
    assert len(html) < 200_000
    return [each for each in root if each.tag.endswith("svg")]


def test_a_run_a_difference_and_a_checkpoint_are_drawn() -> None:
    run = data_path("guide_adam_legacy", "tf_ckpts")
    (norm,) = plots(ckpt.log(run)._repr_html_())
    assert norm.get("aria-label") == "norm of the weights"
    assert len(str(norm.find(f"{SVG}polyline").get("points")).split()) == 3  # type: ignore[union-attr]
    (far,) = plots(ckpt.diff(f"{run}/ckpt-9", f"{run}/ckpt-10", kind="variable")._repr_html_())
    texts = [each.text for each in far.iter(f"{SVG}text")]
    assert texts[1:5] == ["net/l1/bias", "7.84%", "net/l1/kernel", "2.98%"]
    assert len(list(far.iter(f"{SVG}rect"))) == 2
    with ckpt.open(f"{run}/ckpt-10") as found:
        (sizes,) = plots(found._repr_html_())
        assert "net/l1" in [each.text for each in sizes.iter(f"{SVG}text")]
    assert plots(ckpt.diff(f"{run}/ckpt-9", f"{run}/ckpt-9")._repr_html_()) == []


def test_a_tensor_is_named_by_its_object_path() -> None:
    with ckpt.open(data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")) as found:
        html = found._repr_html_()
    assert "<th>key</th><th>dtype</th>" in html
    assert "<td>net/l1/kernel (m of optimizer)</td>" in html
    assert "VARIABLE_VALUE" not in html


def test_a_difference_names_slots_by_their_variables() -> None:
    """Plot and table named keys: of Keras' newer optimizers, `optimizer/_variables/325`."""
    run = data_path("guide_adam_legacy", "tf_ckpts")
    html = ckpt.diff(f"{run}/ckpt-9", f"{run}/ckpt-10", kind="slot")._repr_html_()
    (far,) = plots(html)
    drawn = [each.text for each in far.iter(f"{SVG}text")]
    assert "net/l1/kernel (m of optimizer)" in drawn
    assert "net/l1/kernel (m of optimizer)" in cells(html)


def test_statistics_name_slots_by_their_variables() -> None:
    """They were named by number in one optimizer, and by escaped keys in the other."""
    for name, slot in (("guide_adam_new/tf_ckpts", "m"), ("guide_adam_legacy/tf_ckpts", "v")):
        found = ckpt.stats(data_path(name))
        shown = found._repr_html_()
        assert f"net/l1/kernel ({slot} of optimizer)" in shown
        assert "_variables/" not in shown
        assert ".OPTIMIZER_SLOT" not in shown
        assert [tensor.key for tensor in found] == [row["key"] for row in found.to_dict()["tensors"]]
        assert "object_path" not in found.to_dict()["tensors"][0]


def test_a_change_is_one_short_row(tmp_path: Path) -> None:
    left = {"a": np.float32([3, 4]), "b": np.float32([1]), "c": np.zeros(3), "old": np.float32([7, 8, 9])}
    right = {"a": np.float32([3, 5]), "b": np.float64([1]), "c": np.zeros((3, 1)), "new": left["old"]}
    write_bundle(str(tmp_path / "left-1"), left)
    write_bundle(str(tmp_path / "right-1"), {**right, "more": np.int32(1)})
    found = ckpt.diff(tmp_path / "left-1", tmp_path / "right-1", find_renames=True)
    told = cells(found._repr_html_())
    rows = {told[at]: told[at + 1 : at + 9] for at in range(0, len(told), 9)}
    assert rows["a"] == ["value", "0.1715", "0.99469", "1", "1", "0.2", "float32", "[2]"]
    assert rows["b"] == ["dtype", "", "", "", "", "", "float32 -> float64", "[1]"]
    assert rows["c"] == ["shape", "", "", "", "", "", "float64", "[3] -> [3, 1]"]
    assert rows["old -> new"][0] == "renamed"
    assert rows["more"] == ["added", "", "", "", "", "", "int32", "[]"]


def test_hostile_names_are_text_in_plots(tmp_path: Path) -> None:
    ones, zeros, nans = (np.full(3, value, np.float32) for value in (1, 0, np.nan))
    write_bundle(str(tmp_path / "left-1"), {HOSTILE: zeros, b"\x1b]<": ones})
    write_bundle(str(tmp_path / "right-1"), {HOSTILE: nans, b"\x1b]<": zeros})
    (far,) = plots(ckpt.diff(tmp_path / "left-1", tmp_path / "right-1")._repr_html_())
    assert {"nan%", "inf%"} <= {each.text for each in far.iter(f"{SVG}text")}
    with ckpt.open(tmp_path / "left-1") as found:
        assert len(plots(found._repr_html_())) == 1


def test_matplotlib_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ckpt.log(data_path("guide_adam_legacy", "tf_ckpts"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        run.plot()
    drawn: list[object] = []

    class Axes:
        def set_title(self, title: str) -> None:
            drawn.append(title)

        def plot(self, xs: list[float], ys: list[float], marker: str) -> None:
            drawn.append((xs, ys))

    axes = Axes()
    module = types.ModuleType("matplotlib.pyplot")
    package = types.ModuleType("matplotlib")
    package.pyplot = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib", package)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", module)
    assert run.plot(axes) is axes
    assert drawn == ["norm of the weights", ([8, 9, 10], [row.l2 for row in run])]
