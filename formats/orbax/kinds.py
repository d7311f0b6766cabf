"""The kinds of tensors in a tree, by the paths of its leaves.

optax keeps its state as tuples of tuples. Values that belong to a parameter are below `mu`, `nu`, `trace` and
the like, with the parameter's own path; the rest are counts and hyperparameters.

    params/dense/kernel
    opt_state/1/0/mu/dense/kernel      slot
    opt_state/1/0/count                optimizer

Flax's NNX states end in `value`, and MaxText has `params` twice; the paths are compared from their ends.
Keras joins a variable's path by `_`: `optimizer_variables/sgd/dense_kernel_momentum`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.spec import TensorSpec
    from .names import Path

_OPTIMIZERS = frozenset(
    ("opt_state", "opt_states", "optimizer", "optimizer_state", "optim", "optimizer_variables")
)
_SLOTS = frozenset(
    ("mu", "nu", "nu_max", "trace", "v", "m", "v_row", "v_col", "acc_grads", "momentum", "sum_of_squares")
)
_PARAMETERS = "params"
"""Flax' name for the trained parameters."""

_STATES = frozenset(("step",))
_METRICS = "metrics_variables"
_COUNTS = frozenset(("count", "mini_step", "gradient_step"))
_LEADING, _DEEPEST = 4, 12
"""The most parts before the path that a parameter and its slot share, and parts of a slot before it."""


def kinds_of(paths: Mapping[str, Path], specs: Mapping[str, TensorSpec]) -> dict[str, str]:
    """Return the kind of each key, whose `paths` are given."""
    roots = {key: optimizer_at(path) for key, path in paths.items()}
    owners = _Owners(_parameters(paths, specs, roots), specs)
    found = {}
    for key, path in paths.items():
        at = roots[key]
        if at is None:
            found[key] = _outside(path, specs[key])
        else:
            is_slot = owners.find(path[at:], specs[key].shape) is not None
            found[key] = "slot" if is_slot else "optimizer"
    return found


def optimizer_at(path: Path) -> int | None:
    """Return where an optimizer's state begins in a path; None where it leads to none."""
    for at, part in enumerate(path[:-1]):
        if part in _OPTIMIZERS or "opt_state" in part:
            return at + 1
    # A state that is saved by itself: its chain's positions, then a slot's name.
    at = 0
    while at < len(path) - 1 and path[at].isdigit():
        at += 1
    is_alone = at > 0 and (path[at] in _SLOTS or path[at] in _COUNTS)
    return at if is_alone or (path[0] in _SLOTS and len(path) > 1 and len(path[0]) > 1) else None


def _outside(path: Path, spec: TensorSpec) -> str:
    is_integer = spec.dtype.family in ("int", "uint") and not spec.shape
    last = path[-2] if len(path) > 1 and path[-1] == "value" else path[-1]
    if _METRICS in path[:-1] or (is_integer and last in _STATES):
        return "state"
    if not is_integer or last not in _COUNTS:
        return "variable"
    # Flax's NNX counts the keys that a stream of random numbers has given: `rngs/dropout/count/value`.
    return "optimizer" if path[0] == last else "state"


class OwnedSlot(NamedTuple):
    """A slot: the folder of its optimizer, the key of its parameter, and what it is called.

    `state` is the path of the state of optax that has it: of a chain's member.
    """

    optimizer: Path
    variable: str
    name: str
    state: Path = ()


def slots_of(paths: Mapping[str, Path], specs: Mapping[str, TensorSpec]) -> dict[str, OwnedSlot]:
    """Return the slots among keys, each of one parameter; those that several could own are left out."""
    roots = {key: optimizer_at(path) for key, path in paths.items()}
    owners = _Owners(_parameters(paths, specs, roots), specs)
    found = {}
    for key, path in paths.items():
        at = roots[key]
        owner = None if at is None else owners.find(path[at:], specs[key].shape)
        if at is not None and owner is not None and owner.variable:
            found[key] = OwnedSlot(path[:at], owner.variable, owner.name, path[: at + owner.depth])
    return found


def _parameters(
    paths: Mapping[str, Path], specs: Mapping[str, TensorSpec], roots: Mapping[str, int | None]
) -> dict[str, Path]:
    return {
        key: path
        for key, path in paths.items()
        if roots[key] is None and _outside(path, specs[key]) == "variable"
    }


class _SlotOwner(NamedTuple):
    """The parameter of a slot, empty where several could be it, and what the slot is called.

    `depth` is the number of parts before that name.
    """

    variable: str
    name: str
    depth: int = 0


class _End(NamedTuple):
    """A parameter whose path ends so: how many parts are left out, its key, whether `params` is among them.

    The key is empty if several parameters have this end. Averages of all parameters are a tree next to
    `params`.
    """

    leading: int
    key: str
    below: bool

    def beside(self, other: _End) -> _End:
        """Return the one of two that a slot means."""
        if self.leading != other.leading:
            return min(self, other, key=lambda end: end.leading)
        if self.key == other.key or self.below != other.below:
            return self if self.below else other
        return self._replace(key="")


_ByShape = dict[tuple[int, ...], _End]


class _Owners:
    """The parameters, by the ends of their paths."""

    def __init__(self, paths: Mapping[str, Path], specs: Mapping[str, TensorSpec]) -> None:
        self._paths = paths
        self._specs = specs

    @cached_property
    def _ends(self) -> tuple[dict[Path, _ByShape], dict[str, _ByShape]]:
        """The ends of the parameters' paths: as they are, and joined by `_`."""
        by_end: dict[Path, _ByShape] = {}
        by_text: dict[str, _ByShape] = {}
        for key, path in self._paths.items():
            shape = self._specs[key].shape
            for leading in range(min(_LEADING, len(path) - (path[-1] == "value"))):
                for ends in (
                    by_end.setdefault(path[leading:], {}),
                    by_text.setdefault("_".join(path[leading:]), {}),
                ):
                    end = _End(leading, key, _PARAMETERS in path[:leading])
                    ends[shape] = end if shape not in ends else ends[shape].beside(end)
        return by_end, by_text

    def find(self, path: Path, shape: tuple[int, ...]) -> _SlotOwner | None:
        """Return the owner of a path within optimizer state, or None if it is not a slot."""
        if not self._paths:
            return _SlotOwner("", "") if any(part in _SLOTS for part in path[:-1]) else None
        by_end, by_text = self._ends
        for at in range(1, min(_DEEPEST, len(path))):
            found = by_end.get(path[at:], {}).get(shape)
            if found is not None and not (path[at - 1].isdigit() and path[-1] in _COUNTS):
                return _SlotOwner(found.key, path[at - 1], at - 1)
        for end in _without_slot(path[-1]):
            found = by_text.get(end, {}).get(shape)
            if found is not None:
                return _SlotOwner(found.key, path[-1][len(end) + 1 :])
        return None


def _without_slot(name: str) -> Iterator[str]:
    """Yield a name without the part after each of its last underscores."""
    for _ in range(_LEADING):
        name, found, _ = name.rpartition("_")
        if not found:
            return
        yield name
