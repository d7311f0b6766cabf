"""The graph that shows which tensors of a checkpoint are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckpt_cli.operations.runs.trainable import _nearest_graph
from formats.location import parse_location

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("step", "nearest"),
    [(10, "ckpt-10.meta"), (12, "ckpt-10.meta"), (15, "ckpt-10.meta"), (16, "ckpt-20.meta")],
)
def test_a_checkpoint_without_a_graph_uses_that_of_the_nearest_step(
    tmp_path: Path, step: int, nearest: str
) -> None:
    for name in ("ckpt-0.meta", "ckpt-10.meta", "ckpt-20.meta", "other-16.meta", "ckpt-x.meta"):
        (tmp_path / name).touch()
    found = _nearest_graph(parse_location(str(tmp_path / f"ckpt-{step}")))
    assert found is not None
    assert found.name == nearest


def test_a_checkpoint_of_another_run_has_no_graph(tmp_path: Path) -> None:
    (tmp_path / "other-16.meta").touch()
    assert _nearest_graph(parse_location(str(tmp_path / "ckpt-16"))) is None
    assert _nearest_graph(parse_location(str(tmp_path / "ckpt"))) is None
