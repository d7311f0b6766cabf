"""Functions of elements: calling them, and what is known of them."""

from __future__ import annotations

import contextlib
import operator
from typing import TYPE_CHECKING, Any

from ..nest import flatten, map_structure
from ..ops.random import Traced, seeded, site
from ..tensor import Tensor, as_tensor, observers
from ..variable import without_effect
from .recipe import call
from .saved import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .recipe import Step

__all__ = ["Mapping", "as_element", "tell_of_reading"]


@contextlib.contextmanager
def _for_a_look() -> Iterator[None]:
    """Call a function for what it would make: nothing is drawn from what is random, no variable changes."""
    with seeded(None), without_effect():
        yield


class ComputesError(Exception):
    """A function does something with an element."""


def _computes(*arguments: Any) -> Any:
    raise ComputesError


class Untouched(Tensor):
    """A component that is there to be passed on: what looks into it raises ComputesError."""

    __slots__ = ()
    numpy = __array__ = __len__ = __iter__ = __bool__ = __int__ = __index__ = __float__ = _computes  # type: ignore[assignment]

    def _read(self) -> Tensor:
        return self


_STATEFUL = {
    "assign": "AssignVariableOp",
    "assign_add": "AssignAddVariableOp",
    "assign_sub": "AssignSubVariableOp",
    "dropout_mask": "RandomUniform",
    "generate": "RngReadAndSkip",
    "integers": "RandomUniformInt",
    "normal": "RandomStandardNormal",
    "print": "PrintV2",
    "scatter": "ResourceScatterUpdate",
    "shuffle": "RandomShuffle",
    "skip_random": "RngReadAndSkip",
    "truncated_normal": "TruncatedNormal",
    "uniform": "RandomUniform",
}
"""Operations that do more than their inputs tell, or what they draw, and what TensorFlow calls them."""


class Mapping:
    """A function of elements.

    Reads and draws other than its element are noticed: an iterator over such a function cannot be saved,
    because another could not continue with the same elements.
    """

    def __init__(self, function: Callable[..., Any], calling: Callable[..., Any] = call) -> None:
        """Take a function, and how it is called with an element."""
        if not callable(function):
            raise ValueError(f"Argument `func` must be a callable. Received func={function!r}")  # noqa: TRY004
        self.function, self._calling = function, calling
        # TensorFlow traces a function within another one once, for all the pipelines that it makes.
        self._site = site() or self
        self._was_called = False
        self._stateful: str | None = None
        self._copies: dict[int, Tensor] | None = None

    def _call(self, element: Any) -> Any:
        self._was_called = True
        observers.append(self)
        traced = Traced.within(self._site)
        try:
            with contextlib.nullcontext() if traced is None else traced.called():
                return self._calling(self.function, element)
        finally:
            observers.remove(self)

    def observe(self, operation: Any, inputs: Any, outputs: Any, attributes: dict[str, Any]) -> None:
        """Note an operation that the function ran."""
        self._stateful = self._stateful or _STATEFUL.get(attributes.get("kind", operation.name))
        if self._copies is not None:
            if operation.name != "identity":
                raise ComputesError
            self._copies[id(outputs[0])] = self._copies.get(id(inputs[0]), inputs[0])

    def observe_read(self, variable: Any, output: Tensor) -> None:
        """Note a variable that the function read."""
        self._stateful = self._stateful or "ReadVariableOp"

    def observe_reading(self) -> None:
        """Note that the function drew from a dataset itself."""
        self._stateful = self._stateful or "ReduceDataset"

    def __call__(self, element: Any) -> Any:
        """Return an element made of another; a list is taken for a tuple."""
        made = self._call(element)
        return as_element(tuple(made) if isinstance(made, list) else made)

    def then(self, other: Mapping) -> Mapping:
        """Return the function that does what another does with what this one makes."""
        return Mapping(lambda element: other(self(element)), lambda function, element: function(element))

    def holds(self, element: Any) -> bool:
        """Return what the function says of an element."""
        told = as_tensor(self._call(element))
        if told.ndim or not told.dtype.is_bool:
            raise ValueError(
                "Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but it returns "
                f"{told.dtype.name} of shape {told.shape}"
            )
        return bool(told)

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
        with _for_a_look():
            return self(element)

    def refuse_stateful(self, source: Step) -> None:
        """Raise FailedPreconditionError if another iterator could not continue with the same elements."""
        if not self._was_called and source.can_be_sampled:
            # TensorFlow traces a function; a sample that it cannot take shows nothing.
            with contextlib.suppress(Exception), _for_a_look():
                self._call(source.structure)
        if self._stateful is not None:
            raise refuse(self._stateful)

    def is_identity(self, source: Step) -> bool:
        """Whether the function returns what it is given, in order: TensorFlow leaves such a step out.

        It is called for that with components that cannot be computed with, as TensorFlow traces each.
        """
        if not source.can_be_sampled:
            return False
        self._copies, was_called = {}, self._was_called
        try:
            with _for_a_look():
                given = map_structure(_untouched, source.structure)
                made = flatten(self(given))
                origins = [self._copies.get(id(leaf), leaf) for leaf in made]
        except Exception:  # any use of an argument is a use
            return False
        finally:
            # It ended at the first operation, and others may tell more.
            self._copies, self._was_called = None, was_called
        leaves = flatten(given)
        return (
            self._stateful is None and len(origins) == len(leaves) and all(map(operator.is_, origins, leaves))
        )


def _untouched(leaf: Any) -> Any:
    return Untouched(leaf._value) if isinstance(leaf, Tensor) else leaf


def tell_of_reading() -> None:
    """Tell functions that run that a dataset is drawn from: TensorFlow makes a stateful operation of it."""
    for observer in observers:
        if isinstance(observer, Mapping):
            observer.observe_reading()


def as_element(value: Any) -> Any:
    """Return a structure of tensors and datasets; a list becomes a tensor."""
    if isinstance(value, dict):
        return {key: as_element(one) for key, one in value.items()}
    if isinstance(value, tuple):
        parts = [as_element(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value if isinstance(value, Tensor) or hasattr(value, "step") else as_tensor(value)
