"""The layer that a tensor belongs to; a slot belongs to the layer of its variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.model.name_kinds import named_slots

from ..look.listing import split_layer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.model.reader import FormatReader

    Parts = tuple[str, str]


def parts_of_slots(*readers: FormatReader) -> dict[str, Parts]:
    """Return layer and leaf of each slot that is named after its variable, as in `dense/kernel/Adam_1`.

    Object paths say so themselves: `dense/kernel (m of optimizer)`.
    """
    found: dict[str, Parts] = {}
    for reader in readers:
        if reader.format.has_object_graph:
            continue
        for key, slot in named_slots(reader.specs).items():
            separator = "/" if "/" in slot.variable else "."
            layer = split_layer(slot.variable, separator)[0]
            begins = layer and key.startswith(layer + separator)
            found[key] = layer, key[len(layer) + 1 :] if begins else key
    return found


def layer_and_leaf(
    key: str, name: str, slots: Mapping[str, tuple[str, str]], separator: str = "/"
) -> tuple[str, str]:
    """Return layer and leaf of a tensor of a comparison."""
    return slots.get(key) or split_layer(name, separator)
