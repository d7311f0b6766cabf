"""`convert --like` for models of classes that no table knows: structure pairs their variables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = ("ckpt", "model.weights.h5", "model.keras", "model.h5")
NAMELESS = ("keras2_blocks", "keras2_custom")
"""Models of Keras 2, whose `.weights.h5` does not name the class of its optimizer."""


def directions() -> list[tuple[str, str, str]]:
    """Return each model with two of its forms."""
    root = Path(data_path("structure"))
    return [
        (model.name, one, other)
        for model in sorted(root.iterdir())
        for one in FORMS
        for other in FORMS
        if one != other and all(any((model / "fresh").glob(f"{form}*")) for form in (one, other))
    ]


def differing(one: Path, other: str) -> list[str]:
    """Return the keys of weights, slots and counts whose values are not those of another checkpoint."""
    with formats.open_checkpoint(str(one)) as mine, formats.open_checkpoint(other) as theirs:
        wanted = [key for key, kind in theirs.kinds.items() if kind in ("variable", "slot", "optimizer")]
        return [key for key in wanted if not np.array_equal(mine[key].read(), theirs[key].read())]


@pytest.mark.parametrize(("model", "one", "other"), directions())
def test_custom_classes_go_from_form_to_form(
    ckpt: Callable, tmp_path: Path, model: str, one: str, other: str
) -> None:
    """Every weight and slot gets the value that the program itself saved in that form."""
    source, native, template = (
        data_path("structure", model, *parts)
        for parts in (("trained", one), ("trained", other), ("fresh", other))
    )
    more = ("--optimizer", "Adam") if model in NAMELESS and "model.weights.h5" in (one, other) else ()
    result = ckpt("convert", source, tmp_path / other, "--like", template, *more)
    assert (result.code, result.out) == (0, ""), result.err
    assert differing(tmp_path / other, native) == []


def test_an_optimizer_without_a_class_is_named_by_an_option(ckpt: Callable, tmp_path: Path) -> None:
    source = data_path("structure", "keras2_blocks", "trained", "ckpt")
    template = data_path("structure", "keras2_blocks", "fresh", "model.weights.h5")
    command = ("convert", source, tmp_path / "model.weights.h5", "--like", template)
    result = ckpt(*command)
    assert (result.code, result.out) == (3, "")
    assert "hint: if TEMPLATE's optimizer is SRC's, pass --optimizer Adam\n" in result.err
    result = ckpt(*command, "--optimizer", "RMSprop")
    assert (result.code, result.out) == (3, "")
    assert "--optimizer says RMSprop, but the optimizer of SRC is Adam" in result.err
    result = ckpt(*command, "--optimizer", "Adm")
    assert (result.code, result.out) == (2, "")
    assert "'Adm' is not an optimizer known here; expected one of Adam, AdamW" in result.err
    assert ckpt(*command, "--optimizer", "adam").code == 0


def test_an_optimizers_class_changes_nothing_without_keras(ckpt: Callable, tmp_path: Path) -> None:
    source = data_path("structure", "keras2_blocks", "trained", "ckpt")
    result = ckpt("convert", source, tmp_path / "all.npz", "--optimizer", "Adam")
    assert (result.code, result.out) == (3, "")
    assert "--optimizer changes nothing" in result.err


def test_another_program_is_rejected_with_the_layer(ckpt: Callable, tmp_path: Path) -> None:
    """A checkpoint of other layers pairs with none of the template's."""
    source = data_path("structure", "keras2_custom", "trained", "ckpt")
    template = data_path("structure", "keras2_blocks", "fresh", "model.weights.h5")
    result = ckpt("convert", source, tmp_path / "model.weights.h5", "--like", template)
    assert (result.code, result.out) == (3, "")
    assert "get no value" in result.err
    assert "hint: pairing by structure failed: " in result.err
