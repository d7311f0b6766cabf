"""The table of `ckpt explain` is held against what the real programs say when they are provoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckpt_cli.operations.look.complaints import complaints
from ckpt_cli.operations.look.explain import explain

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

PROVOKED = sorted({name for row in complaints() for name in row.provoked})


@pytest.mark.parametrize("name", PROVOKED)
def test_what_a_program_says_is_explained(name: str, tensorflow: TensorFlow, tmp_path: Path) -> None:
    function, _, release = name.partition("@")
    if release not in ("", tensorflow.release):
        return
    said = tensorflow.ask("explain", "text", name=function, directory=str(tmp_path))
    found = {match.title for match in explain(said)}
    assert {row.title for row in complaints() if name in row.provoked} <= found, said


def test_everything_that_can_be_provoked_is_in_the_table(tensorflow: TensorFlow) -> None:
    provoked = {name.partition("@")[0] for name in PROVOKED}
    known = set(tensorflow.ask("explain", "names"))
    assert known <= provoked
    assert {name for name in provoked - known if f"{name}@2.21" not in PROVOKED} == set()
