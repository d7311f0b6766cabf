"""Pairs by a model: of what was chosen on both sides, and where they agree with what names say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ckpt_cli.operations.convert import pairing

if TYPE_CHECKING:
    from collections.abc import Collection

MODEL = {"t/a": "s/a", "t/b": "s/b", "t/c": "s/c"}


def joined(
    monkeypatch: pytest.MonkeyPatch,
    pairs: dict[str, str],
    keys: Collection[str] = tuple(MODEL.values()),
    wanted: Collection[str] = tuple(MODEL),
) -> dict[str, str]:
    """Return pairs by name with those that a model adds; it pairs by letter."""
    sides: Any = ("mine", "theirs")
    monkeypatch.setattr(pairing, "paired_by_model", lambda *given: dict(MODEL) if given == sides else {})
    pairing._join_by_model(pairs, sides, keys, wanted)
    return pairs


def test_a_model_pairs_what_names_have_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joined(monkeypatch, {"t/b": "s/b"}) == MODEL


def test_a_model_pairs_what_was_chosen_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert joined(monkeypatch, {}, keys=("s/a", "s/b")) == {"t/a": "s/a", "t/b": "s/b"}
    assert joined(monkeypatch, {}, wanted=("t/b", "t/c")) == {"t/b": "s/b", "t/c": "s/c"}
    assert joined(monkeypatch, {}, keys=("s/a", "s/b"), wanted=("t/b", "t/c")) == {"t/b": "s/b"}


@pytest.mark.parametrize("pairs", [{"t/a": "s/b"}, {"t/a": "s/a", "t/c": "s/z"}])
def test_a_model_that_contradicts_a_name_pairs_nothing(
    monkeypatch: pytest.MonkeyPatch, pairs: dict[str, str]
) -> None:
    assert joined(monkeypatch, dict(pairs)) == pairs
