"""The output of `diff` for other programs: its tables by layer and of the largest changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.operations.compare.diff import Diff, DiffEntry
from ckpt_cli.operations.compare.measure import Difference
from ckpt_cli.operations.report.build import of_diff
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec

if TYPE_CHECKING:
    from ckpt_cli.operations.report.findings import FindingsTable


def entry(key: str, max_abs: float | None, change: str = "value", differing: int | None = 1) -> DiffEntry:
    spec = TensorSpec(key, BY_NAME["float32"], (2,))
    return DiffEntry(key, change, None, spec, spec, Difference(differing, max_abs, max_abs))


def tables(entries: list[DiffEntry]) -> tuple[FindingsTable, ...]:
    return tuple(of_diff([(Diff("a", "b", entries), "b", None)], lambda *_: True).subjects[0].tables)


@pytest.mark.parametrize(("count", "more"), [(50, ""), (51, " (and 1 more)"), (1250, " (and 1,200 more)")])
def test_fifty_layers_are_listed_and_the_others_counted(count: int, more: str) -> None:
    layers, _ = tables([entry(f"net/{number:04}/kernel", float(number)) for number in range(count)])
    assert layers.title == f"Changes by layer{more}"
    assert len(layers.rows) == 50
    assert layers.rows[0] == (f"net/{count - 1:04}", "1 value", "", "", f"{count - 1:.3g}")


def test_layers_count_changes_and_tell_the_largest() -> None:
    layers, _ = tables(
        [
            entry("a/kernel/.ATTRIBUTES/VARIABLE_VALUE", 0.5),
            entry("a/bias/.ATTRIBUTES/VARIABLE_VALUE", 2.0),
            entry("a/new", None, "added", None),
            entry("top", None, "removed", None),
        ]
    )
    assert layers.rows == [
        ("a", "2 value, 1 added", "", "", "2"),
        ("(top level)", "1 removed", "", "", ""),
    ]


def test_the_largest_changes_are_ten_and_nan_is_above_all() -> None:
    numbers = [*map(float, range(12)), math.inf, math.nan]
    _, largest = tables([entry(f"t{at}", number) for at, number in enumerate(numbers)])
    assert [row[0] for row in largest.rows] == ["t13", "t12", *(f"t{at}" for at in range(11, 3, -1))]
    assert largest.rows[2] == ("t11", "", "", "11", "11", "1")
    _, untold = tables([entry("s", None, differing=None), entry("t", 0.0, "shape")])
    assert untold.rows == [("s", "", "", "", "", "?")]
