"""Optimizers in a PyTorch file: the dictionaries that `Optimizer.state_dict()` returns.

    state           parameter's number -> {"step": ..., "exp_avg": tensor, ...}
    param_groups    [{"lr": ..., "params": [numbers], "param_names": [names, where the program gave them]}]

Dictionaries can be shared, so the walk is bounded. Values are numbers, short text, and short tuples like
betas, so that all of them can be compared and printed. torch/optim/optimizer.py: state_dict
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.limits import KeySizes
from .keys import DEEPEST, TENSORS, escaped
from .kinds import GROUPS
from .values import Pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE = "state"
_OF_PARAMETERS = ("params", "param_names")
_MOST_STEPS = 2_000_000
_LONGEST_TEXT = 200
_MOST_NUMBERS = 8
_MOST_BITS = 64


class KeptTensor(NamedTuple):
    """A tensor that an optimizer keeps for a parameter: its key."""

    key: str


class Unread(NamedTuple):
    """A value that is not a setting of any optimizer."""

    kind: str

    def __repr__(self) -> str:
        return f"<{self.kind}>"


class TorchOptimizer(NamedTuple):
    """An optimizer: the way to it, its groups, and what it keeps of each parameter, by its number."""

    path: str
    groups: tuple[Mapping[str, Any], ...]
    states: Mapping[int, Mapping[str, Any]]

    def keys(self) -> set[str]:
        """Return the keys of its tensors."""
        values = (value for state in self.states.values() for value in state.values())
        return {value.key for value in values if isinstance(value, KeptTensor)}


def optimizers_in(root: Any) -> list[TorchOptimizer]:
    """Return the optimizers in an object, each at its first position. Raises ValueError beyond the limits."""
    return _Search().optimizers(root)


class _Search:
    def __init__(self) -> None:
        self._steps = _MOST_STEPS
        self._sizes = KeySizes()

    def optimizers(self, root: Any) -> list[TorchOptimizer]:
        found = []
        seen: set[int] = set()
        left: list[tuple[str, int, Any]] = [("", 0, root)]
        while left:
            path, depth, at = left.pop()
            if type(at) is not Pairs or id(at) in seen or depth > DEEPEST:
                continue
            seen.add(id(at))
            held = self._texts(at)
            if STATE in held and GROUPS in held:
                optimizer = self._optimizer(path, held)
                found += [optimizer] if optimizer is not None else []
            else:
                below = {name: value for name, value in held.items() if type(value) is Pairs}
                left += [
                    (self._path(path, name), depth + 1, value)
                    for name, value in below.items()
                    if id(value) not in seen
                ]
        return found

    def _path(self, path: str, name: str) -> str:
        found = f"{path}{escaped(name)}/"
        self._sizes.add((found,))
        return found

    def _optimizer(self, path: str, held: Mapping[str, Any]) -> TorchOptimizer | None:
        """Return an optimizer; None for what is only called so."""
        state, groups = held[STATE], held[GROUPS]
        if type(state) is not Pairs or type(groups) is not list:
            return None
        if any(type(one) is not Pairs for one in groups):
            return None
        states = {
            number: {
                name: self._kept(value, path, f"{number}/{escaped(name)}")
                for name, value in self._texts(kept).items()
            }
            for number, kept in state.items
            if type(number) is int and type(kept) is Pairs
        }
        return TorchOptimizer(path, tuple(map(self._settings, groups)), states)

    def _kept(self, value: Any, path: str, name: str) -> Any:
        if type(value) not in TENSORS:
            return _plain(value)
        key = f"{path}{STATE}/{name}"
        self._sizes.add((key,))
        return KeptTensor(key)

    def _settings(self, group: Pairs) -> dict[str, Any]:
        return {
            name: value if name in _OF_PARAMETERS else _plain(value)
            for name, value in self._texts(group).items()
        }

    def _texts(self, pairs: Pairs) -> dict[str, Any]:
        self._steps -= len(pairs.items)
        if self._steps < 0:
            raise ValueError("the optimizers share too many dictionaries")
        return {name: value for name, value in pairs.items if type(name) is str}


def _plain(value: Any) -> Any:
    """Return a setting: a number, short text, or a few of them; Unread for another value."""
    if type(value) in (list, tuple) and len(value) <= _MOST_NUMBERS and all(map(_is_plain, value)):
        return value
    return value if _is_plain(value) else Unread(type(value).__name__)


def _is_plain(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() <= _MOST_BITS
    if type(value) is str:
        return len(value) <= _LONGEST_TEXT
    return value is None or type(value) in (bool, float)
