"""Changes that exporters make to recurrent layers: gates apart, gates in another order, directions stacked.

Keras' kernels have the gates of all units next to each other in the last axis, PyTorch's in the first.

    TFLite   one input for each gate and kernel of an LSTM; biases of a GRU apart
    ONNX     W and R with the directions as first axis, B with both biases in a row
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .records import Derivation, Expected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.core.spec import TensorSpec

    from .records import Target
    from .source import SourceLayer
    from .values import Rows, Values

    Array = np.ndarray[Any, Any]

_LSTM_INPUTS = {
    **{number: (number - 1, "kernel") for number in (1, 2, 3, 4)},
    **{number: (number - 5, "recurrent_kernel") for number in (5, 6, 7, 8)},
    **{number: (number - 12, "bias") for number in (12, 13, 14, 15)},
}
"""The gate and the kernel of an input of TFLite's LSTM; the order is Keras': input, forget, cell, output."""

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_FROM_KERAS = {"LSTM": (0, 3, 1, 2), "GRU": (0, 1, 2), "RNN": (0,)}
_FROM_PYTORCH = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""The positions of ONNX' gates in another library: of LSTM i o f c, of GRU z r h."""

_INPUT, _RECURRENT, _BIAS = 1, 2, 3

_ROLES = {_INPUT: "kernel", _RECURRENT: "recurrent_kernel", _BIAS: "bias"}
_PYTORCH_ROLE = re.compile(r"(weight_ih|weight_hh|bias_ih|bias_hh)_(l[0-9]{1,6})(_reverse)?\Z")

STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Inputs that hold the state before the first step, not weights."""


RECURRENT = frozenset(("UNIDIRECTIONAL_SEQUENCE_LSTM", *_GATES))
"""Operations whose inputs say by their position which kernel they are."""


class Direction(NamedTuple):
    """The weights of a recurrent layer in one direction: kernels, and the biases that are added."""

    kernels: Mapping[int, str]
    biases: tuple[str, ...]
    is_pytorch: bool


def gates(specs: Mapping[str, TensorSpec], layer: SourceLayer, target: Target) -> Iterator[Derivation]:
    """Yield the ways to make a weight from a recurrent layer."""
    if target.operation == "UNIDIRECTIONAL_SEQUENCE_LSTM":
        yield from _lite(specs, layer, target)
    elif target.operation in _GATES and target.position in _ROLES:
        yield from _onnx(specs, layer, target)
    yield from _halves(specs, layer, target)


def _lite(specs: Mapping[str, TensorSpec], layer: SourceLayer, target: Target) -> Iterator[Derivation]:
    input_role = _LSTM_INPUTS.get(target.position)
    if input_role is None or input_role[1] not in layer.weights:
        return
    number, role = input_role
    key = layer.weights[role]
    shape = specs[key].shape
    if len(shape) > 2 or (shape[-1] // 4, *shape[:-1]) != target.shape:
        return
    rule = f"gate {number + 1} of 4" + (", transposed" if len(shape) == 2 else "")
    yield Derivation((key,), rule, layer.number, ("gate", role), partial(_gate, key, number))


def _halves(specs: Mapping[str, TensorSpec], layer: SourceLayer, target: Target) -> Iterator[Derivation]:
    """Yield the two biases of a GRU, one for the input and one for the state, which Keras has as rows."""
    key = layer.weights.get("bias")
    if key is None or len(specs[key].shape) != 2 or specs[key].shape != (2, target.size):
        return
    for row, word in enumerate(("input", "recurrent")):
        compute = partial(_row, key, row, target.shape)
        yield Derivation((key,), f"the {word} bias", layer.number, ("row", str(row)), compute)


def _onnx(specs: Mapping[str, TensorSpec], layer: SourceLayer, target: Target) -> Iterator[Derivation]:
    count = target.shape[0] if target.shape else 0
    for directions in _directions(layer):
        if len(directions) != count:
            continue
        keys = _sources(directions, target.position)
        if not keys:
            continue
        compute = partial(_stacked, directions, target.operation, target.position)
        if _shape(specs, directions, target) != target.shape:
            continue
        order = (_FROM_PYTORCH if directions[0].is_pytorch else _FROM_KERAS)[target.operation]
        words = [f"gates {', '.join(str(at + 1) for at in order)}"] if len(order) > 1 else []
        words += ["directions stacked"] if count > 1 else []
        words += ["both biases in a row"] if target.position == _BIAS else []
        rule = ", ".join(words) or "unchanged"
        yield Derivation(keys, rule, layer.number, ("gates", str(target.position)), compute)


def _directions(layer: SourceLayer) -> Iterator[Sequence[Direction]]:
    """Yield the recurrent layers that a layer has, each by its directions."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for role, key in layer.weights.items():
        parts = _PYTORCH_ROLE.match(role)
        if parts is not None:
            found.setdefault(parts[2], {}).setdefault(parts[3] or "", {})[parts[1]] = key
    for ways in found.values():
        made = [_of_pytorch(ways[end]) for end in ("", "_reverse") if end in ways]
        yield made
    if "recurrent_kernel" in layer.weights and "kernel" in layer.weights:
        yield [_of_keras(layer)]
    elif layer.parts:
        yield [_of_keras(part) for part in layer.parts]


def _of_pytorch(weights: Mapping[str, str]) -> Direction:
    names = {"weight_ih": _INPUT, "weight_hh": _RECURRENT}
    kernels = {names[role]: key for role, key in weights.items() if role in names}
    biases = tuple(weights[role] for role in ("bias_ih", "bias_hh") if role in weights)
    return Direction(kernels, biases, is_pytorch=True)


def _of_keras(layer: SourceLayer) -> Direction:
    kernels = {at: layer.weights[_ROLES[at]] for at in (_INPUT, _RECURRENT) if _ROLES[at] in layer.weights}
    bias = layer.weights.get("bias")
    return Direction(kernels, (bias,) if bias else (), is_pytorch=False)


def _sources(directions: Sequence[Direction], position: int) -> tuple[str, ...]:
    if position == _BIAS:
        return tuple(key for one in directions for key in one.biases)
    if any(position not in one.kernels for one in directions):
        return ()
    return tuple(one.kernels[position] for one in directions)


def _shape(specs: Mapping[str, TensorSpec], directions: Sequence[Direction], target: Target) -> Any:
    """Return the shape that the rule gives; none if a source has another one than such layers have."""
    gates_count, count = _GATES[target.operation], len(directions)
    shapes = {specs[key].shape for key in _sources(directions, target.position)}
    if len(shapes) != 1:
        return None
    shape = shapes.pop()
    if target.position == _BIAS:
        size = shape[-1] if shape else 0
        is_known = len(shape) in (1, 2) and size % gates_count == 0 and (len(shape) == 1 or shape[0] == 2)
        return (count, 2 * size) if is_known else None
    if len(shape) != 2:
        return None
    rows, columns = shape if directions[0].is_pytorch else shape[::-1]
    return (count, rows, columns) if rows % gates_count == 0 else None


def _gate(key: str, number: int, read: Values, rows: Rows | None = None) -> Expected:
    del rows
    return Expected(np.split(read(key), 4, axis=-1)[number].T)


def _row(key: str, row: int, shape: tuple[int, ...], read: Values, rows: Rows | None = None) -> Expected:
    del rows
    return Expected(read(key)[row].reshape(shape))


def _ordered(array: Array, direction: Direction, operation: str) -> Array:
    """Return a kernel with ONNX' order of gates in its first axis."""
    order = (_FROM_PYTORCH if direction.is_pytorch else _FROM_KERAS)[operation]
    turned = array if direction.is_pytorch else array.T
    parts = np.split(turned, len(order), axis=0)
    return np.concatenate([parts[at] for at in order])


def _stacked(
    directions: Sequence[Direction], operation: str, position: int, read: Values, rows: Rows | None = None
) -> Expected:
    del rows
    if position != _BIAS:
        found = [_ordered(read(one.kernels[position]), one, operation) for one in directions]
        return Expected(np.stack(found))
    return Expected(np.stack([_biases(one, operation, read) for one in directions]))


def _biases(direction: Direction, operation: str, read: Values) -> Array:
    """Return both biases of a direction; of an LSTM of Keras, which has one, the other is zero."""
    found = [each for key in direction.biases for each in np.atleast_2d(read(key))]
    if len(found) == 1:
        found.append(np.zeros_like(found[0]))
    return np.concatenate([_ordered(each, direction, operation) for each in found])
