"""A directory's listing says whether its checkpoints are a run, and the first finding of each."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ckpt_cli.operations.runs.listing import findings_in_short, is_run
from ckpt_cli.operations.runs.log import _size
from ckpt_cli.operations.runs.state_changes import _link_targets
from formats.location import local_location
from formats.model.verification import Finding

if TYPE_CHECKING:
    from pathlib import Path


def row(name: str, step: int | None, kept: bool | None = None) -> dict[str, Any]:
    return {"name": name, "step": step, "kept": kept}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], False),
        ([row("a-1", 1)], True),
        ([row("a-1", 1), row("a-2", 2)], True),
        ([row("a-1", 1), row("b-2", 2)], False),
        ([row("a-1", 1), row("w.h5", None)], False),
        ([row("a-1", 1), row("a-2", 2), row("w.h5", None)], True),
        ([row("w.h5", None)], False),
        ([row("w.h5", None, kept=False)], True),
    ],
)
def test_a_run_has_a_state_file_or_names_that_differ_in_the_step(
    rows: list[dict[str, Any]], expected: bool
) -> None:
    assert is_run(rows) is expected


@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (2, "; 1 more problem was found"), (3, "; 2 more problems were found")]
)
def test_of_many_findings_the_first_is_reported(count: int, more: str) -> None:
    found = [Finding("error", "header", f"flaw {at}", None, None) for at in range(count)]
    reader: Any = SimpleNamespace(findings=found)
    assert findings_in_short(reader) == [found[0].text + more]
    assert findings_in_short(SimpleNamespace(findings=[])) == []  # type: ignore[arg-type]


def test_a_file_that_is_gone_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"123")
    assert [_size(local_location(tmp_path / name)) for name in ("x", "gone")] == [3, 0]


def test_the_way_of_a_link_ends_where_it_goes_round(tmp_path: Path) -> None:
    folder = os.path.realpath(tmp_path)
    for link, to in {"a": "b", "b": "c", "c": "file", "x": "y", "y": "z", "z": "y", "self": "self"}.items():
        (tmp_path / link).symlink_to(to)
    (tmp_path / "file").touch()

    def names(link: str, *others: str) -> list[str]:
        found = _link_targets(f"{folder}/{link}", {f"{folder}/{other}" for other in others})
        return [os.path.basename(place) for place in found]

    assert names("a") == ["b", "c", "file"]
    assert names("a", "c") == ["b", "c"]
    assert names("file") == []
    assert names("x") == ["y", "z"]
    assert names("self") == ["self"]
