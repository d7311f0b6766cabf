"""`verify` finds what TensorFlow rejects, and nothing in what it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckpt_cli.operations.look.verify import verify_one
from formats.find.opening import locate
from formats.location import parse_location

from .contradictions import OVERLOOKED, REFUSED, SOUND

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAID = {
    "slice_that_is_missing": ("slice", "no entry for its slice [2:4, 0:3]"),
    "slice_that_no_entry_declares": ("slice", "the entry of 'w' does not list this slice"),
    "slices_of_a_tensor_that_is_not_there": ("slice", "the entry of 'w' does not list this slice"),
    "slice_of_another_shape": ("slice", "its slice [0:2, 0:3] is stored with shape [3, 3]"),
    "key_that_is_not_utf8": ("entry", "its key is not UTF-8"),
    "graph_with_an_edge_that_is_not_utf8": ("graph-decode", "'w\\udcff' at node 0 is not UTF-8"),
    "graph_with_a_full_name_that_is_not_utf8": ("graph-decode", "'v\\udcff' at node 1 is not UTF-8"),
}


@pytest.mark.parametrize("name", [*REFUSED, *OVERLOOKED])
def test_contradictions_are_errors(tmp_path: Path, name: str) -> None:
    prefix = str(tmp_path / "c-1")
    (REFUSED | OVERLOOKED)[name](prefix)
    result = verify_one(locate(parse_location(prefix + ".index")))
    assert not result.ok
    code, text = SAID.get(name, ("", ""))
    assert any(code in finding.code and text in finding.message for finding in result.findings)


@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
def test_oddities_are_not_findings(tmp_path: Path, make: Callable[[str], object]) -> None:
    prefix = str(tmp_path / "c-1")
    make(prefix)
    assert verify_one(locate(parse_location(prefix + ".index"))).findings == ()
