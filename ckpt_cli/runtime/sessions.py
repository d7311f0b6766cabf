"""Sessions of TensorFlow 1: they run parts of a graph (`deferred`) with values that are fed.

A Session has its own values of the variables, and runs the steps that its fetches need.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from . import graphs
from .deferred import Graph, GraphTensor, default_graph, variables_in, within
from .errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from .graphs import open_sessions
from .nest import flatten, map_structure
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor, observers, raw_value
from .unknown import refuse
from .variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .program import Program

__all__ = ["InteractiveSession", "Session"]


class Session:
    """Runs operations of a graph, and keeps the values of its variables."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        refuse("Session", target=target or None, config=config)
        self.graph = default_graph() if graph is None else graph
        self._values: dict[int, Any] = {}
        self._programs: dict[Any, Program] = {}
        self._is_closed = False

    def __enter__(self) -> Session:
        self._context = contextlib.ExitStack()
        self._context.enter_context(self.graph.as_default())
        self._context.enter_context(self.as_default())
        return self

    def __exit__(self, *exception: object) -> None:
        self._context.close()
        self.close()

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Session]:
        """Make this the session of `eval` and `run`."""
        open_sessions.append(self)
        try:
            yield self
        finally:
            open_sessions.remove(self)

    def close(self) -> None:
        self._is_closed = True

    def load(self, variable: Any, value: Any) -> None:
        self._values[id(variable)] = np.array(value, variable.dtype.as_numpy_dtype)

    @contextlib.contextmanager
    def values(self) -> Iterator[None]:
        """Give the graph's variables their values here, and keep those that they have at the end."""
        variables = self.graph.variables
        before = [variable._value for variable in variables]
        paused = observers[:]
        observers.clear()
        for variable in variables:
            variable._set(self._values.get(id(variable), variable._value))
        within.append(self)
        try:
            yield
            for variable, example in zip(variables, before, strict=True):
                value = variable._value
                if value is not example or id(variable) in self._values:
                    if not variable.shape.is_compatible_with(value.shape):
                        raise InvalidArgumentError(
                            f"Assign requires shapes of both tensors to match. {variable.name} has the shape "
                            f"{variable.shape}, the value {value.shape}"
                        )
                    self._values[id(variable)] = value
        finally:
            within.pop()
            observers[:] = paused
            for variable, example in zip(variables, before, strict=True):
                variable._set(example)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Return the values of tensors and variables, and None for operations, which are carried out."""
        refuse("Session.run", options=options, run_metadata=run_metadata)
        if self._is_closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not self.graph.variables and not self.graph._steps and not self.graph.placeholders:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling run()."
            )
        leaves, fed = flatten(fetches), self._fed(feed_dict or {})
        for leaf in leaves:
            if not isinstance(leaf, TensorLike | graphs.Done):
                raise TypeError(f"Fetch argument {leaf!r} has invalid type {type(leaf).__name__}, must be a "
                                "tensor, a variable or an operation; names are not looked up")  # fmt: skip
        for variable in (one for leaf in leaves if isinstance(leaf, graphs.Done) for one in leaf.initial):
            (value,) = self._evaluated([self.graph.initial[id(variable)]], fed)
            self._values[id(variable)] = value
        tensors = [as_tensor(leaf) for leaf in leaves
                   if isinstance(leaf, Tensor)]  # fmt: skip
        hidden = [one for leaf in leaves if isinstance(leaf, graphs.Done) for one in leaf.needs]
        made = self._evaluated([*tensors, *hidden], fed)
        found = dict(zip((id(one) for one in leaves if isinstance(one, Tensor)), made, strict=False))
        for leaf in leaves:
            if isinstance(leaf, Variable):
                self.require(leaf, self._values)
                found[id(leaf)] = self._values[id(leaf)]
        return map_structure(lambda leaf: _shown(found.get(id(leaf))), fetches)

    def _fed(self, feed_dict: dict[Any, Any]) -> dict[int, Any]:
        """Return the values that are fed by their places in the program."""
        found = {}
        for key, given in feed_dict.items():
            tensor = getattr(key, "deref", lambda key=key: key)()
            if not isinstance(tensor, Tensor) or id(tensor) not in self.graph._places:
                raise TypeError(
                    f"Cannot interpret feed_dict key as Tensor: {key!r} is not a tensor of the graph"
                )
            if isinstance(given, TensorLike):
                raise TypeError("The value of a feed cannot be a tf.Tensor object.")
            kind = raw_value(tensor).dtype
            value = as_tensor(given)._value if kind.hasobject else np.asarray(given, kind)
            if not tensor.shape.is_compatible_with(value.shape):
                raise ValueError(
                    f"Cannot feed value of shape {value.shape} for a tensor which has shape {tensor.shape}"
                )
            found[self.graph._places[id(tensor)]] = value
        return found

    def _evaluated(self, tensors: list[Tensor], fed: dict[int, Any]) -> list[Any]:
        graph = self.graph
        for tensor in tensors:
            if isinstance(tensor, GraphTensor) and tensor._graph is not graph:
                raise ValueError(f"{tensor!r} is not an element of this graph.")
        key = (tuple(map(id, tensors)), tuple(fed))
        if key not in self._programs:
            self._programs[key] = graph.narrowed(tensors, lambda *_: False, tuple(fed))
        program = self._programs[key]
        missing = [name for place, name in graph.placeholders.items() if place in program.used - fed.keys()]
        if missing:
            raise InvalidArgumentError(f"You must feed a value for placeholder tensor '{missing[0]}'")
        self._check_initialized(program)
        with self.values():
            return [one._value for one in program(*fed.values())]

    def _check_initialized(self, program: Program) -> None:
        known = set(self._values)
        for step in program._steps:
            held = variables_in(step.attributes)
            if step.forward is OPERATIONS["assign"].forward:
                known.add(id(step.changed))
            for variable in [step.read] if step.read is not None else held:
                is_sum = step.forward in (OPERATIONS["assign_add"].forward, OPERATIONS["assign_sub"].forward)
                self.require(variable, known, NotFoundError if is_sum else FailedPreconditionError)

    def require(self, variable: Any, known: Any, error: type[Exception] = FailedPreconditionError) -> None:
        if id(variable) not in known:
            raise error(f"Attempting to use uninitialized value {variable.name[:-2]}")


def _shown(value: Any) -> Any:
    return value if value is None else Tensor(value).numpy()


class InteractiveSession(Session):
    """A Session that is the default one from the beginning."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        open_sessions.append(self)

    def close(self) -> None:
        super().close()
        open_sessions.remove(self)
