"""The sample of a matrix is a part of the whole, the same in each run of one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import sampling
from tests.sampling import seeds, turn

if TYPE_CHECKING:
    import pytest


def test_a_sample_is_of_the_whole_and_of_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CKPT_WHOLE", raising=False)
    assert seeds(20, 400) == seeds(20, 400)
    assert len(set(seeds(20, 400))) == 20
    assert set(seeds(20, 400)) < set(range(400))
    monkeypatch.setattr(sampling, "_commit", lambda: "another")
    another = seeds(20, 400)
    monkeypatch.setattr(sampling, "_commit", lambda: "one")
    assert seeds(20, 400) != another


def test_the_whole_is_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_WHOLE", "1")
    assert seeds(20, 400) == list(range(400))


def test_everything_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CKPT_WHOLE", raising=False)
    items = "abcde"
    turns = [turn(items, 2, number) for number in range(len(items))]
    assert all(len(set(each)) == 2 for each in turns)
    assert sorted("".join(map("".join, turns))) == sorted(items * 2)
    monkeypatch.setenv("CKPT_WHOLE", "1")
    assert turn(items, 2, 3) == list(items)
