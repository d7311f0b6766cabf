"""Optimizers in a PyTorch file: the dictionaries that `Optimizer.state_dict()` returns.

    state           parameter's number -> {"step": ..., "exp_avg": tensor, ...}
    param_groups    [{"lr": ..., "params": [numbers], "param_names": [names, where the program gave them]}]

torch/optim/optimizer.py: state_dict
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .keys import DEEPEST, TENSORS, escaped
from .kinds import GROUPS
from .pickle import Pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE = "state"


class Tensor(NamedTuple):
    """What an optimizer keeps of a parameter, and a tensor holds: its key."""

    key: str


class TorchOptimizer(NamedTuple):
    """An optimizer: the way to it, its groups, and what it keeps of each parameter, by its number."""

    path: str
    groups: tuple[Mapping[str, Any], ...]
    states: Mapping[int, Mapping[str, Any]]

    def keys(self) -> set[str]:
        """Return the keys of its tensors."""
        values = (value for state in self.states.values() for value in state.values())
        return {value.key for value in values if isinstance(value, Tensor)}


def optimizers_in(root: Any) -> list[TorchOptimizer]:
    """Return the optimizers of an object, each where it stands first."""
    found = []
    seen: set[int] = set()
    left: list[tuple[str, int, Any]] = [("", 0, root)]
    while left:
        path, depth, at = left.pop()
        if type(at) is not Pairs or id(at) in seen or depth > DEEPEST:
            continue
        seen.add(id(at))
        held = _texts(at)
        if STATE in held and GROUPS in held:
            optimizer = _optimizer(path, held)
            found += [optimizer] if optimizer is not None else []
        else:
            left += [(f"{path}{escaped(name)}/", depth + 1, value) for name, value in held.items()]
    return found


def _optimizer(path: str, held: Mapping[str, Any]) -> TorchOptimizer | None:
    """Return an optimizer; None for what is only called so."""
    state, groups = held[STATE], held[GROUPS]
    if type(state) is not Pairs or type(groups) is not list or any(type(one) is not Pairs for one in groups):
        return None
    states = {
        number: {
            name: _kept(value, f"{path}{STATE}/{number}/{escaped(name)}")
            for name, value in _texts(kept).items()
        }
        for number, kept in state.items
        if type(number) is int and type(kept) is Pairs
    }
    return TorchOptimizer(path, tuple(map(_texts, groups)), states)


def _kept(value: Any, key: str) -> Any:
    return Tensor(key) if type(value) in TENSORS else value


def _texts(pairs: Pairs) -> dict[str, Any]:
    return {name: value for name, value in pairs.items if type(name) is str}
