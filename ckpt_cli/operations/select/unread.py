"""Tensors of a type that is not mapped: what commands that need values say of them and leave alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.words import counted, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.model.reader import FormatReader


def unread_note(reader: FormatReader, keys: Iterable[str]) -> str | None:
    """Return a line that names the tensors whose type is not mapped; None if there is none."""
    specs = (reader.specs[key] for key in keys)
    named = [f"{spec.key!r} ({spec.dtype})" for spec in specs if spec.dtype.is_unmapped]
    if not named:
        return None
    what = counted(len(named), "tensor is", "tensors are")
    return f"{what} left out, because ckpt cannot read values of this type: {first_of(named)}"
