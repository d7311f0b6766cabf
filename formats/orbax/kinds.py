"""What kinds of tensors a tree holds, by the paths of its leaves.

optax keeps its state as tuples of tuples.  What belongs to a parameter is below `mu`, `nu`, `trace` and the
like, with the parameter's own path; the rest are counts and hyperparameters.

    params/dense/kernel
    opt_state/1/0/mu/dense/kernel      slot
    opt_state/1/0/count                optimizer

Flax's NNX states end in `value`, and MaxText has `params` twice; the paths are compared from their ends.
Keras joins a variable's path by `_`: `optimizer_variables/sgd/dense_kernel_momentum`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
_STATES = frozenset(("step", "metrics_variables"))
_COUNTS = frozenset(("count", "mini_step", "gradient_step"))
_LEADING, _DEEPEST = 4, 12
"""Parts that may stand before the path that a parameter and its slot share, and parts of a slot before it."""


def kinds_of(paths: Mapping[str, Path], specs: Mapping[str, TensorSpec]) -> dict[str, str]:
    """Return the kind of each key, whose `paths` are given."""
    roots = {key: _optimizer_at(path) for key, path in paths.items()}
    outside = {key: _outside(path, specs[key]) for key, path in paths.items() if roots[key] is None}
    parameters = {key: paths[key] for key, kind in outside.items() if kind == "variable"}
    owners = _Owners(parameters, specs)
    found = {}
    for key, path in paths.items():
        at = roots[key]
        if at is None:
            found[key] = outside[key]
        else:
            found[key] = "slot" if owners.has_slot(path[at:], specs[key].shape) else "optimizer"
    return found


def _optimizer_at(path: Path) -> int | None:
    """Return where an optimizer's state begins in a path; None where it leads to none."""
    for at, part in enumerate(path[:-1]):
        if part in _OPTIMIZERS:
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
    if path[0] == "metrics_variables" or (is_integer and last in _STATES):
        return "state"
    return "optimizer" if is_integer and last in _COUNTS else "variable"


class _Owners:
    """The parameters, by the ends of their paths."""

    def __init__(self, paths: Mapping[str, Path], specs: Mapping[str, TensorSpec]) -> None:
        self._by_end: dict[Path, set[tuple[int, ...]]] = {}
        self._by_text: dict[str, set[tuple[int, ...]]] = {}
        for key, path in paths.items():
            parts = len(path) - (path[-1] == "value")
            for leading in range(min(_LEADING, parts)):
                self._by_end.setdefault(path[leading:], set()).add(specs[key].shape)
                self._by_text.setdefault("_".join(path[leading:]), set()).add(specs[key].shape)
        self._is_empty = not paths

    def has_slot(self, path: Path, shape: tuple[int, ...]) -> bool:
        """Whether a path within an optimizer's state ends as the path of a parameter of this shape."""
        if self._is_empty:
            return any(part in _SLOTS for part in path[:-1])
        for at in range(1, min(_DEEPEST, len(path))):
            if shape in self._by_end.get(path[at:], ()):
                return True
        return any(shape in self._by_text.get(end, ()) for end in _without_slot(path[-1]))


def _without_slot(name: str) -> Iterator[str]:
    """Yield a name less what stands behind each of its last underscores."""
    for _ in range(_LEADING):
        name, found, _ = name.rpartition("_")
        if not found:
            return
        yield name
