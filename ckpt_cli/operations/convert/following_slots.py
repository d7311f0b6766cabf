"""Slots that go through the operations of their weights: a map changes axes, and `--like` gives the rest.

params/fc/kernel          model/fc.weight    T       a line of the map
opt_state/0/mu/fc/kernel                     T       follows of it, under its own key
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import NOTHING
from formats.errors import ConversionError

from ..select.relations import Relation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.keras.training_state import TrainingState


class FollowingSlots(NamedTuple):
    """The relations of an optimizer's tensors, and its state by the keys that weights have then."""

    relations: list[Relation]
    state: TrainingState


def follow_weights(state: TrainingState, weights: Sequence[Relation]) -> FollowingSlots:
    """Return slots laid out as their weights are, and numbers as they are.

    Raises ConversionError where one tensor is made of a weight that has a slot and one that has none.
    """
    relations: list[Relation] = []
    slots: dict[tuple[str, str], str] = {}
    for name in sorted(state.slot_names):
        for relation in weights:
            held = [state.slots.get((source, name)) for source in relation.sources]
            keys = tuple(key for key in held if key is not None)
            if not keys:
                continue
            if len(keys) < len(held):
                lacking = relation.sources[held.index(None)]
                message = f"this weight has no {name}, but other parts of {relation.targets[0]!r} have one"
                raise ConversionError(message, key=lacking)
            several = len(relation.targets) > 1
            targets = tuple(f"{keys[0]}/{at}" if several else keys[0] for at in range(len(relation.targets)))
            relations.append(Relation(keys, targets, relation.steps, relation.row))
            slots |= {(target, name): key for target, key in zip(relation.targets, targets, strict=True)}
    there = {source for relation in weights for source in relation.sources}
    numbers = dict.fromkeys(key for keys in state.numbers.values() for key in keys if key not in there)
    relations += [Relation((key,), (key,), NOTHING) for key in numbers]
    return FollowingSlots(relations, state._replace(slots=slots))
