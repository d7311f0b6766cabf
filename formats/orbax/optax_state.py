"""An optimizer's state in a tree, as optax keeps it: a tuple, with a state for each member of a chain.

    opt_state/1/0/count                          steps, and again beside each schedule
    opt_state/1/0/mu/dense/kernel                m of the parameter
    opt_state/0/nu/..., opt_state/2/trace/...    RMSprop with momentum: two states of one chain
    opt_state/inner_opt_state/..., mini_step     MultiSteps around another state
    opt_state/hyperparams/learning_rate          inject_hyperparams, its state in inner_state/...
    step                                         Flax's TrainState, where it counts the same steps

No tree says which transformation made it: Adam, AdamW, Nadam and LAMB keep slots of the same names.  The user
does.  The tree must have what optax's function of that name makes, and around it states that change no step.
optax/_src/alias.py, _src/transform.py, transforms/_accumulation.py (optax 0.2.8)
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..core.words import counted
from ..keras.optimizers import OPTAX, named
from ..keras.training_state import ACCUMULATED_STEPS, ITERATIONS, LEARNING_RATE, TrainingState
from .kinds import optimizer_at, slots_of
from .names import parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..keras.optimizers import Optimizer
    from ..model.reader import FormatReader
    from .names import Path


class _Chain(NamedTuple):
    """How optax's function keeps an optimizer: whether in a state with a count, and what a later state has.

    `later` are fields of a state behind it in the chain, and how far.
    """

    counts: bool = False
    later: Mapping[str, int] = {}


_CHAINS = {
    "Adam": _Chain(counts=True),
    "AdamW": _Chain(counts=True),
    "Adamax": _Chain(counts=True),
    "Lion": _Chain(counts=True),
    "SGD": _Chain(),
    "RMSprop": _Chain(later={"trace": 2}),
    "Adagrad": _Chain(),
    "Adadelta": _Chain(),
}
"""The optimizers whose state in optax means what it means in Keras."""

STEPS = ("count", "gradient_step", "step")
"""Fields that count the steps of the optimizer."""

_MINI_STEP, _ACCUMULATED = "mini_step", "acc_grads"
_HYPERPARAMETERS = "hyperparams"
_OF_NO_EFFECT = ("notfinite_count", "last_finite", "total_notfinite")
"""Fields of apply_if_finite, which count steps that were not taken."""


def read_optax(reader: FormatReader, said: str | None) -> TrainingState | None:
    """Return the state of the optimizer in a tree, of the class `said`; None where it has none."""
    row = named(said) if said is not None else None
    tree = _StateTree(reader)
    if not tree.members and (row is None or row.name != "SGD"):
        return None
    called = said or ""
    if row is None or row.name not in _CHAINS:
        numbers = {"": tree.rest} if tree.rest else {}
        return TrainingState(OPTAX, "opt_state", called, (), tree.slots, numbers)
    flaw = tree.flaw(row)
    slots = {(owned.variable, owned.name): key for key, owned in tree.owned.items()}
    numbers = {name: tuple(keys) for name, keys in tree.numbers.items()}
    return TrainingState(OPTAX, "opt_state", called, (row,), slots, numbers, flaw=flaw)


class _StateTree:
    """The keys of a tree that are an optimizer's state."""

    def __init__(self, reader: FormatReader) -> None:
        self._reader = reader
        self._paths = {key: _without_value(parts_of(key)) for key in reader.specs}
        paths = {key: tuple(parts_of(key)) for key in reader.specs}
        self.members = [
            key
            for key, kind in reader.kinds.items()
            if kind in ("slot", "optimizer")
            and (optimizer_at(paths[key]) is not None or len(paths[key]) == 1)
        ]
        roots = {key: optimizer_at(paths[key]) for key in self.members}
        self._beside = {paths[key][: at - 1] for key, at in roots.items() if at} or {()}
        every = slots_of(paths, reader.specs)
        self.accumulated = {key: slot for key, slot in every.items() if slot.name == _ACCUMULATED}
        self.owned = {key: slot for key, slot in every.items() if key not in self.accumulated}
        self.rest = tuple(key for key in self.members if key not in every)

    @property
    def slots(self) -> dict[tuple[str, str], str]:
        return {(slot.variable, slot.name): key for key, slot in self.owned.items()}

    def _is_count(self, key: str) -> bool:
        spec = self._reader.specs[key]
        return not spec.shape and spec.dtype.family in ("int", "uint")

    @cached_property
    def numbers(self) -> dict[str, list[str]]:
        """The keys that are not slots, by meaning; those of unknown meaning by their path."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for key in self.rest:
            found[self._meaning(key)].append(key)
        found[ACCUMULATED_STEPS] += self.accumulated
        kinds = self._reader.kinds
        counts = {self._value(key) for key in found[ITERATIONS]}
        for key, path in self._paths.items():
            is_state = path[:-1] in self._beside and kinds[key] == "state"
            is_step = is_state and path[-1] == "step" and self._is_count(key)
            if is_step and not found[ACCUMULATED_STEPS] and (not counts or counts == {self._value(key)}):
                found[ITERATIONS].append(key)
        return {name: keys for name, keys in found.items() if keys}

    def _value(self, key: str) -> int:
        return int(self._reader[key].read())

    def _meaning(self, key: str) -> str:
        path = self._paths[key]
        if path[-1] in STEPS and self._is_count(key):
            return ITERATIONS
        if path[-1] == _MINI_STEP and self._is_count(key):
            return ACCUMULATED_STEPS
        if len(path) > 1 and path[-2] == _HYPERPARAMETERS and not self._reader.specs[key].shape:
            return LEARNING_RATE if path[-1] == LEARNING_RATE else path[-1]
        return path[-1] if path[-1] in _OF_NO_EFFECT else f"{_UNKNOWN}{key}"

    # What it may be ---------------------------------------------------------------------

    def flaw(self, row: Optimizer) -> str:
        """Return why the state is not that of optax's function of a class; nothing where it is."""
        unknown = next((name for name in self.numbers if name.startswith(_UNKNOWN)), None)
        if unknown is not None:
            return f"{unknown.removeprefix(_UNKNOWN)!r} does not belong to {row.name} of optax"
        return self._flaw_of_slots(row) or self._flaw_of_counts()

    def _flaw_of_slots(self, row: Optimizer) -> str:
        chain, names = _CHAINS[row.name], {slot.name for slot in self.owned.values()}
        if names and not row.keeps(OPTAX, names):
            kept = " and ".join(sorted(names))
            return f"it keeps {kept}, which is not what {row.name} of optax keeps"
        if len(self.slots) != len(self.owned):
            return f"several states keep {' and '.join(sorted(names))} of one parameter"
        states = {slot.state for slot in self.owned.values() if slot.name not in chain.later}
        if len(states) > 1:
            some = ", ".join(sorted("/".join(state) for state in states)[:_MOST_SHOWN])
            return f"it has {counted(len(states), 'optimizer')} ({some}), but Keras and PyTorch have one"
        return self._flaw_of_state(row, states.pop() if states else (), names)

    def _flaw_of_state(self, row: Optimizer, state: Path, names: set[str]) -> str:
        """Return what the state at a path, or one behind it, has or lacks."""
        chain = _CHAINS[row.name]
        has_count = any(self._paths[key] == (*state, "count") for key in self.rest)
        if names and has_count != chain.counts:
            what = "no count" if chain.counts else "a count, so it corrects bias"
            return f"the state at {'/'.join(state)!r} has {what}, unlike {row.name} of optax"
        trained = {
            name: {slot.variable for slot in self.owned.values() if slot.name == name} for name in names
        }
        if len(set(map(frozenset, trained.values()))) > 1:
            return f"{' and '.join(sorted(names))} belong to different parameters"
        for slot in self.owned.values():
            wanted = _behind(state, chain.later[slot.name]) if slot.name in chain.later else state
            if slot.state != wanted:
                found, expected = "/".join(slot.state), "/".join(wanted)
                return f"{slot.name} of {row.name} is at {found!r}; expected {expected!r}"
        return ""

    def _flaw_of_counts(self) -> str:
        counts = {self._value(key): key for key in self.numbers.get(ITERATIONS, ())}
        if len(counts) > 1:
            some = ", ".join(f"{key!r} is {count}" for count, key in sorted(counts.items())[:_MOST_SHOWN])
            return f"its counts differ: {some}"
        return ""


_UNKNOWN = "unknown "
_MOST_SHOWN = 3


def _without_value(parts: list[str]) -> Path:
    """Return the path to a leaf less what Flax's NNX puts at its end."""
    return tuple(parts[:-1] if len(parts) > 1 and parts[-1] == "value" else parts)


def _behind(state: Path, places: int) -> Path:
    """Return the path of the state so many places behind another in its chain."""
    at = state[-1] if state else ""
    return (*state[:-1], str(int(at) + places)) if at.isdigit() else ()
