"""Weights in Keras' newer HDF5 layout, `.weights.h5`.

    <path>/vars/0, 1, ...     an object's own variables: trainable ones, then the others

The path is attribute names from the model down.  In lists, dicts, and a model's
`layers`, an object is named by its class, `dense`, `dense_1`, ...  An object that can be
reached by several attributes has the path of the one that is walked first: Keras 2
walks them in descending order of their names, Keras 3 in ascending order and without
leading underscores.  Written is Keras 2's, read are both.
keras/src/saving/saving_lib.py
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from formats.keras.facts import KerasFacts

from ..containers import Container
from ..names import to_snake_case
from ..saving import NamedArray, save_arrays
from .base_layer import Layer
from .hdf5 import assign_all
from .optimizers import Optimizer, legacy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.model.reader import CheckpointReader

    from .hdf5 import Layered

__all__ = ["load_weights_file", "save_weights_file"]

logger = logging.getLogger("ckpt_cli.runtime")

_OWNERS = (Layer, Optimizer, legacy.Optimizer)


def _walk(model: Layered, *, keras3: bool) -> Iterator[tuple[str, Any]]:
    """Yield (path, object) of everything that may own variables, each once."""
    seen: set[int] = set()

    def visit(owner: Any, path: str) -> Iterator[tuple[str, Any]]:
        if id(owner) in seen:
            return
        seen.add(id(owner))
        yield path, owner
        children: dict[str, Any] = dict(owner._links.children)
        children |= {name: getattr(owner, name) for name in getattr(owner, "_also_walked", ())}
        if hasattr(owner, "layers"):
            children["layers"] = list(owner.layers)
        for name in sorted(children, reverse=not keras3):
            child = children[name]
            below = f"{path}/{name.lstrip('_') if keras3 else name}"
            if isinstance(child, _OWNERS):
                yield from visit(child, below)
            elif isinstance(child, Container | list):
                yield from visit_all(child, below)

    def visit_all(container: Any, path: str) -> Iterator[tuple[str, Any]]:
        used: dict[str, int] = {}
        for child in list(container.values() if isinstance(container, dict) else container):
            if not isinstance(child, _OWNERS) or id(child) in seen:
                continue
            name = to_snake_case(type(child).__name__)
            used[name] = used.get(name, -1) + 1
            yield from visit(child, f"{path}/{name}_{used[name]}" if used[name] else f"{path}/{name}")

    return visit(model, "")


def _own_variables(owner: Any) -> list[Any]:
    if isinstance(owner, Layer):
        return sorted(owner._own_weights, key=lambda weight: not weight.trainable)
    return list(owner.variables) if isinstance(owner, Optimizer) else owner.weights


def save_weights_file(path: str, model: Layered) -> None:
    """Write a model's weights, and its optimizer's; a file that is there is replaced at one stroke."""
    places = [(f"{place}/vars".lstrip("/"), owner) for place, owner in _walk(model, keras3=False)]
    tensors = [
        NamedArray(f"{group}/{number}", variable._value)
        for group, owner in places
        for number, variable in enumerate(_own_variables(owner))
    ]
    save_arrays(path, "keras-weights", tensors, facts=KerasFacts(groups=tuple(group for group, _ in places)))


def _by_group(reader: CheckpointReader) -> dict[str, list[str]]:
    """Return the keys of each object's variables, in order, by its path."""
    found: dict[str, list[tuple[int, str]]] = {}
    for key in reader:
        group, _, number = key.rpartition("/")
        if number.isdecimal() and (group == "vars" or group.endswith("/vars")):
            found.setdefault(group.removesuffix("vars").rstrip("/"), []).append((int(number), key))
    return {group: [key for _, key in sorted(members)] for group, members in found.items()}


def load_weights_file(reader: CheckpointReader, model: Layered) -> None:
    """Assign a file's weights to a model, all of them or, where something does not fit, none."""
    stored = _by_group(reader)
    walks = [list(_walk(model, keras3=keras3)) for keras3 in (False, True)]
    # The walk by which more objects find their variables is the one by which they were written.
    walk = max(walks, key=lambda found: sum(place.strip("/") in stored for place, _ in found))
    pairs: list[tuple[Any, str]] = []
    for place, owner in walk:
        variables, keys = _own_variables(owner), stored.get(place.strip("/"), [])
        if not isinstance(owner, Layer) and len(keys) != len(variables):
            logger.warning("Skipping variable loading for optimizer, which has other variables: %s", owner)
            continue
        if len(variables) != len(keys):
            raise ValueError(
                f"Layer '{owner.name}' expected {len(variables)} variables, but received {len(keys)} "
                f"variables during loading (at {place or '/'})."
            )
        pairs += zip(variables, keys, strict=True)
    assign_all(reader, pairs)
