"""Slots that go through the operations of their weights, to the names and axes of another layout.

params/fc/kernel          model/fc.weight    T       a relation of weights
opt_state/0/mu/fc/kernel                     T       follows, under its own key or a given one
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import NOTHING, Cut, Join
from formats.errors import ConversionError
from formats.keras.between_generations import factor_between
from formats.keras.optimizers import PYTORCH

from ..select.relations import Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from formats.keras.training_state import TrainingState


class FollowingSlots(NamedTuple):
    """The relations of an optimizer's tensors, and its state by the keys that weights have then."""

    relations: list[Relation]
    state: TrainingState


class SlotTarget(NamedTuple):
    """The generation to which slots of these names go, all of them for each weight.

    `key` says where by weight and meaning. `rate` turns values, and `title` names the optimizer in messages.
    """

    generation: str
    names: Sequence[str]
    key: Callable[[str, str], str]
    rate: float
    title: str


def follow_weights(
    state: TrainingState, weights: Sequence[Relation], into: SlotTarget | None = None
) -> FollowingSlots:
    """Return slots laid out as their weights are; without `into`, numbers too, and all under their own keys.

    Raises ConversionError if one tensor is made of a weight that has a slot and one that has none.
    """
    relations: list[Relation] = []
    slots: dict[tuple[str, str], str] = {}
    for name in sorted(state.slot_names) if into is None else into.names:
        for relation in weights:
            keys = _slots_of_relation(state, name, relation, into)
            if not keys:
                continue
            targets = (
                _targets(keys, relation) if into is None else _targets_by_name(state, name, relation, into)
            )
            scale = _scale(state, name, into)
            relations.append(Relation(keys, targets, relation.steps, relation.row, scale))
            slots |= {(target, name): key for target, key in zip(relation.targets, targets, strict=True)}
    state = state._replace(slots=slots)
    if into is not None:
        return FollowingSlots(relations, state)
    there = {source for relation in weights for source in relation.sources}
    numbers = dict.fromkeys(key for keys in state.numbers.values() for key in keys if key not in there)
    relations += [Relation((key,), (key,), NOTHING) for key in numbers]
    return FollowingSlots(relations, state)


def _slots_of_relation(
    state: TrainingState, name: str, relation: Relation, into: SlotTarget | None
) -> tuple[str, ...]:
    """Return the slots of a name of what a relation is made of; of several all have it, or none."""
    held = [state.slots.get((source, name)) for source in relation.sources]
    keys = tuple(key for key in held if key is not None)
    if len(keys) == len(held) or (into is None and not keys):
        return keys
    message = f"this weight has no {name}, but other parts of {relation.targets[0]!r} have one"
    if into is not None:
        called = name if state.generation == PYTORCH else _meaning(state, name)
        what = "parameter" if state.generation == PYTORCH else "weight"
        message = f"{into.title} has no {called} for this {what}"
    raise ConversionError(message, key=relation.sources[held.index(None)])


def _meaning(state: TrainingState, name: str) -> str:
    return state.known[0].meanings(state.generation)[name]


def _targets(keys: Sequence[str], relation: Relation) -> tuple[str, ...]:
    several = len(relation.targets) > 1
    return tuple(f"{keys[0]}/{at}" if several else keys[0] for at in range(len(relation.targets)))


def _targets_by_name(
    state: TrainingState, name: str, relation: Relation, into: SlotTarget
) -> tuple[str, ...]:
    return tuple(into.key(target, _meaning(state, name)) for target in relation.targets)


def _scale(state: TrainingState, name: str, into: SlotTarget | None) -> float:
    if into is None:
        return 1.0
    slot = state.known[0].slot(_meaning(state, name))
    return factor_between(slot, state.generation, into.generation, lambda: into.rate) or 1.0


_TWO_BIASES = {
    True: "PyTorch trains two biases instead of this one, so their sum would take two steps at once",
    False: "PyTorch trains two biases separately, but Keras has only their sum",
}
_ONE_TENSOR = {True: "tensor in PyTorch", False: "variable in Keras"}


def is_trained(relation: Relation, trained: Container[str], into: str) -> bool:
    """Whether an optimizer changes what a relation is made of; of several tensors it is all, or none."""
    found = [source for source in relation.sources if source in trained]
    if not found:
        return False
    turn, is_there = relation.steps.turn, into == PYTORCH
    if (isinstance(turn, Cut) and turn.kind == "addends") or (isinstance(turn, Join) and turn.kind == "sum"):
        raise ConversionError(_TWO_BIASES[is_there], key=relation.sources[0])
    if len(found) < len(relation.sources):
        message = f"{relation.targets[0]} is one {_ONE_TENSOR[is_there]}, but only a part of it is trainable"
        raise ConversionError(message, key=found[0])
    return True
