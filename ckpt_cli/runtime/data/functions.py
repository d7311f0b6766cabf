"""Functions of elements: calling them, and what is known of them."""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

from ..nest import map_structure
from ..ops.random import seeded
from ..tensor import Tensor, as_tensor, observers
from .recipe import call
from .saved import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recipe import Step

__all__ = ["Mapping"]

_STATEFUL = {"draw": "RandomUniform", "dropout_mask": "RandomUniform", "shuffle": "RandomShuffle"}
"""Operations whose outcome is not told by their inputs, and what TensorFlow calls them."""


class Mapping:
    """A function of elements.

    What it reads or draws beside its element is noticed: an iterator over such a function
    cannot be saved, as another could not go on with the same elements.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._was_called = False
        self._stateful: str | None = None

    def _call(self, element: Any) -> Any:
        self._was_called = True
        observers.append(self)
        try:
            return call(self.function, element)
        finally:
            observers.remove(self)

    def observe(self, operation: Any, inputs: Any, outputs: Any, attributes: dict[str, Any]) -> None:
        """Be told of an operation that the function ran."""
        self._stateful = _STATEFUL.get(operation.name, self._stateful)

    def observe_read(self, variable: Any, output: Tensor) -> None:
        """Be told of a variable that the function read."""
        self._stateful = "ReadVariableOp"

    def __call__(self, element: Any) -> Any:
        """Return an element made of another; a list is taken for a tuple."""
        made = self._call(element)
        return map_structure(_component, tuple(made) if isinstance(made, list) else made)

    def holds(self, element: Any) -> bool:
        """Return what the function says of an element."""
        return bool(self._call(element))

    def step(self, element: Any) -> Step:
        """Return the recipe of the dataset that the function makes of an element."""
        made = self._call(element)
        if not hasattr(made, "step"):
            raise TypeError(
                f"The `map_func` argument must return a `Dataset` object. Got {type(made).__name__!r}."
            )
        return made.step

    def sample(self, element: Any) -> Any:
        """Return what an element looks like, and draw nothing from what is random."""
        with seeded(None):
            return self(element)

    def refuse_stateful(self, source: Step) -> None:
        """Raise FailedPreconditionError where another iterator could not go on with the same elements."""
        if not self._was_called and source.can_be_sampled:
            # TensorFlow knows a function from tracing it; a sample that it cannot take tells nothing.
            with contextlib.suppress(Exception), seeded(None):
                self._call(source.structure)
        if self._stateful is not None:
            raise refuse(self._stateful)

    def is_identity(self, source: Step) -> bool:
        """Whether the function returns what it is given: TensorFlow leaves such a step out.

        Only one that names nothing is tried: it cannot do anything but with its arguments.
        """
        code = getattr(self.function, "__code__", None)
        if not inspect.isfunction(self.function) or code is None or code.co_names or code.co_freevars:
            return False
        probes = tuple(object() for _ in range(code.co_argcount))
        try:
            made = self.function(*probes)
        except Exception:  # It has done something with an argument.
            return False
        if len(probes) == 1:
            is_same = made is probes[0] and source.can_be_sampled
            return is_same and not isinstance(source.structure, tuple)
        return isinstance(made, tuple) and len(made) == len(probes) and all(map(_is, made, probes))


def _is(one: Any, other: Any) -> bool:
    return one is other


def _component(leaf: Any) -> Any:
    """Return a tensor, or a dataset as it is."""
    return leaf if isinstance(leaf, Tensor) or hasattr(leaf, "step") else as_tensor(leaf)
