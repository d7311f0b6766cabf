"""Programs: computing that was recorded once and is run again with other values.

Recording a function runs it, and keeps every operation with the sources of its inputs: an argument, an
earlier operation, or a constant. Reading a variable is a step of the program, and so is changing one; a
replay changes variables as running the function again would. Decisions that the function makes in Python are
made once.

A program can be reduced to what some of its tensors need: TensorFlow runs only the required part of a graph.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from .nest import flatten, map_structure
from .tensor import Operation, Tensor, as_tensor, observers, raw_value

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Program"]


class _Step(NamedTuple):
    forward: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any]
    changed: Any = None  # the variable that the step gives another value
    read: Any = None  # the variable whose value the step is
    after: tuple[int, ...] = ()  # the values that must be there before


class Program:
    """A recorded function: call it with values of the same structure, of any batch size."""

    records_shapes = True
    used: set[int]  # the places that a reduced program needs

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._begin()
        arguments = map_structure(as_tensor, arguments)
        self._arguments = [self._place(tensor) for tensor in flatten(arguments)]
        observers.append(self)
        try:
            self.result = function(*arguments)
        finally:
            observers[:] = [observer for observer in observers if observer is not self]
        self._answer = map_structure(self._leaf, self.result)

    def _begin(self) -> None:
        self._steps: list[_Step] = []
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []
        self._values: list[Any] = []

    def _place(self, tensor: Any) -> int:
        """Return the number of a tensor's value; one that no step made is a constant."""
        number = self._places.get(id(tensor))
        if number is None:
            number = self._places[id(tensor)] = len(self._values)
            self._kept.append(tensor)
            self._values.append(raw_value(tensor))
        return number

    def _leaf(self, value: Any) -> tuple[int | None, Any]:
        return (self._place(value), None) if isinstance(value, Tensor) else (None, value)

    def observe(self, operation: Operation, inputs: Any, outputs: Any, attributes: dict[str, Any]) -> None:
        """Note an operation that was run."""
        places = tuple(map(self._place, inputs))
        changed = attributes.get("variable") if operation.name != "read" else None
        made = tuple(map(self._place, outputs))
        self._steps.append(_Step(operation.forward, places, made, attributes, changed))

    def observe_read(self, variable: Any, output: Tensor) -> None:
        """Note that a variable was read."""
        self._steps.append(_Step(lambda: variable._value, (), (self._place(output),), {}, read=variable))

    def narrowed(
        self, result: Any, changes: Callable[[Any, bool], bool], fed: tuple[int, ...] | None = None
    ) -> Program:
        """Return a program with another result, tensors of the recording, that runs only what it needs.

        Variables are changed only if `changes` returns true for a variable; it also gets whether the result
        needs its value afterwards. With `fed`, the arguments are the values at these places.
        """
        other = copy.copy(self)
        given = set(fed or ())
        other.result = result
        other._answer = map_structure(self._leaf, result)
        needed = {self._place(leaf) for leaf in flatten(result) if isinstance(leaf, Tensor)} - given
        read: set[int] = set()
        steps = []
        for step in reversed(self._steps):
            changed = step.changed
            is_wanted = changed is not None and changes(changed, id(changed) in read)
            if is_wanted or not needed.isdisjoint(step.outputs):
                steps.append(step)
                needed.update({*step.inputs, *step.after} - given)
                read.add(id(step.read))
        if fed is not None:
            other._arguments, other._values = list(fed), self._values[:]
        other._steps, other.used = steps[::-1], needed
        return other

    def __call__(self, *arguments: Any) -> Any:
        """Run the steps with new arguments and return the new result."""
        values = self._values
        fed = [as_tensor(one)._value for one in flatten(arguments)]
        for number, value in zip(self._arguments, fed, strict=True):
            values[number] = value
        for forward, inputs, outputs, attributes, *_ in self._steps:
            result = forward(*[values[place] for place in inputs], **attributes)
            if result.__class__ is tuple:
                for place, part in zip(outputs, result, strict=True):
                    values[place] = part
            else:
                values[outputs[0]] = result

        def fetch(leaf: tuple[int | None, Any]) -> Any:
            number, value = leaf
            return value if number is None else Tensor(values[number])

        return _map_leaves(fetch, self._answer, self.result)


def _map_leaves(function: Callable[[Any], Any], packed: Any, structure: Any) -> Any:
    """Apply a function to the pairs at the positions of the leaves of `structure`."""
    if isinstance(structure, dict):
        return {key: _map_leaves(function, packed[key], structure[key]) for key in structure}
    if isinstance(structure, list | tuple):
        return type(structure)(
            _map_leaves(function, one, two) for one, two in zip(packed, structure, strict=True)
        )
    return function(packed)
