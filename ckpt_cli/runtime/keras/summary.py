"""The table that `model.summary()` prints.

keras/src/utils/layer_utils.py: print_summary
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..nest import flatten
from .base_layer import deduplicated
from .layers.structural import FunctionLayer, TFOpLambda
from .symbolic import depths

if TYPE_CHECKING:
    from collections.abc import Callable

    from .base_layer import Layer
    from .symbolic import Call

__all__ = ["print_summary"]

_BREAKS = ("),", "},", "],", "',")
"""A line of a field ends behind the first of these, or where the column ends."""


def print_summary(
    model: Any, line_length: int | None, positions: Any, say: Callable[[str], object], expand_nested: bool,
    show_trainable: bool, layer_range: Any,
) -> None:  # fmt: skip
    """Print each layer with its shape and number of parameters, and the totals."""
    calls = model._graph()
    calls = None if calls is None or _is_a_line(calls) else calls
    width = line_length or (65 if calls is None else 98)
    ends = list(positions or ([0.45, 0.85, 1.0] if calls is None else [0.3, 0.6, 0.7, 1.0]))
    if ends[-1] <= 1:
        ends = [int(width * end) for end in ends]
    titles = ["Layer (type)", "Output Shape", "Param #"] + ([] if calls is None else ["Connected to"])
    if show_trainable:
        width += 11
        ends.append(width)
        titles.append("Trainable")
    chosen = _chosen(model.layers, layer_range)
    table = _Table(say, width, ends, calls, expand_nested, show_trainable)
    say(f'Model: "{model.name}"')
    say("_" * width)
    table.row(titles)
    say("=" * width)
    for layer in chosen:
        table.layer(layer)
    say("=" * width)
    _say_totals(model, say)
    say("_" * width)


def _say_totals(model: Any, say: Callable[[str], object]) -> None:
    parts = {
        "Total": model.weights, "Trainable": model.trainable_weights,
        "Non-trainable": model.non_trainable_weights,
    }  # fmt: skip
    for name, weights in parts.items():
        arrays = [weight._value for weight in deduplicated(weights)]
        size = _readable(sum(array.nbytes for array in arrays))
        say(f"{name} params: {sum(array.size for array in arrays)} ({size})")


def _readable(size: float) -> str:
    units = ["PB", "TB", "GB", "MB", "KB", "Byte"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    return f"{size:.2f} {units[-1]}"


def _is_a_line(calls: list[Call]) -> bool:
    """Whether each layer has one input, which is the output of the layer before it."""
    found = {depth for _, depth in depths(calls)}
    one_each = len(found) == len(calls) and all(len(call.inputs) <= 1 for call in calls)
    return one_each and len({id(call.layer) for call in calls}) == len(calls)


def _chosen(layers: list[Layer], bounds: Any) -> list[Layer]:
    if bounds is None:
        return layers
    if len(bounds) != 2:
        raise ValueError(
            "layer_range must be a list or tuple of length 2. Received: "
            f"layer_range = {bounds} of length {len(bounds)}"
        )
    if not all(isinstance(one, str) for one in bounds):
        raise ValueError(f"layer_range should contain string type only. Received: {bounds}")
    first, last = (
        [at for at, layer in enumerate(layers) if re.match(pattern, layer.name)] for pattern in bounds
    )
    if not first or not last:
        raise ValueError(f"Passed layer_names do not match the layer names in the model. Received: {bounds}")
    if min(first) > max(last):
        return layers[min(last) : max(first) + 1]
    return layers[min(first) : max(last) + 1]


def _connections(layer: Layer, calls: list[Any]) -> list[str]:
    """Return what a layer is called on, as names of layers, their calls and outputs."""
    found = []
    for call in (call for call in layer._inbound if any(call is one for one in calls)):
        for symbol in call.inputs:
            made_by: Any = symbol.call
            node = made_by.layer._inbound.index(made_by)
            place = next(at for at, one in enumerate(flatten(made_by.outputs)) if one is symbol)
            found.append(f"{made_by.layer.name}[{node}][{place}]")
    return found


def _class_of(layer: Layer) -> str:
    if isinstance(layer, FunctionLayer | TFOpLambda):
        return "SlicingOpLambda" if getattr(layer, "_operation", "") == "slice" else "TFOpLambda"
    return type(layer).__name__


class _Table:
    def __init__(
        self, say: Callable[[str], object], width: int, ends: list[int], calls: list[Any] | None,
        expand_nested: bool, show_trainable: bool,
    ) -> None:  # fmt: skip
        self._say, self._width, self._ends, self._calls = say, width, ends, calls
        self._expands, self._shows_trainable = expand_nested, show_trainable

    def row(self, fields: list[Any], level: int = 0) -> None:
        """Print fields in their columns, in as many lines as the longest one takes."""
        left, last = [str(field) for field in fields], len(self._ends) - 1
        starts = [0, *self._ends]
        while any(left):
            line = ""
            for column, text in enumerate(left):
                cutoff = self._ends[column] - starts[column]
                cutoff -= (0 if column == last else 3) + (level if column == 0 else 0)
                breaks = [text[:cutoff].find(mark) + len(mark) for mark in _BREAKS if mark in text[:cutoff]]
                cutoff = min(breaks, default=cutoff)
                line += "|" * level + " " if column == 0 else ""
                line += text[:cutoff] + ("  " if column != last else "")
                left[column] = text[cutoff:]
                line = line.ljust(self._ends[column] - (level if column == last else 0))
            self._say(line + "|" * level)

    def layer(self, layer: Layer, level: int = 0, is_nested_last: bool = False) -> None:
        """Print a layer, with `expand_nested` those in it, and the line below it."""
        self._row_of(layer, level)
        below: list[Layer] = getattr(layer, "layers", []) if self._expands else []
        for at, one in enumerate(below):
            if at == 0:
                self._line("¯", level + 1)
            self.layer(one, level + 1, at == len(below) - 1)
        if below:
            self._line("¯", level)
        if not is_nested_last and not below:
            self._line(" ", level)

    def _line(self, mark: str, level: int) -> None:
        self._say("|" * level + mark * (self._width - 2 * level) + "|" * level)

    def _row_of(self, layer: Layer, level: int) -> None:
        try:
            shape: Any = layer.output_shape
        except AttributeError:
            shape = "multiple"
        fields = [
            f"{layer.name} ({_class_of(layer)})",
            shape,
            layer.count_params(),
        ]
        if self._calls is not None:
            fields.append(_connections(layer, self._calls))
        elif not layer.built:
            fields[2] = "0 (unused)"
        if self._shows_trainable:
            fields.append("Y" if layer.trainable else "N")
        self.row(fields, level)
