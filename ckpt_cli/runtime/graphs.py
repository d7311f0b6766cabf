"""Graphs: the book of what one call of an Estimator's `model_fn` made.

TensorFlow builds a graph for each call of `train`, `evaluate` and `predict`. Here a call is recorded
(`program`), and everything else that a graph would know is noted while it is open:

    variables     in the order they were made, their names made unique: Variable, Variable_1
    initial       the value each began with, to begin again from there
    local         those that count within one call and are not saved: metrics
    derived       those that follow from others at each step and are not saved: a scheduled rate
    global_step   the step, where one was made
    collections   tensors by collection, the losses among them
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .names import fresh_names

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DEFAULT", "Done", "Graph", "current", "default_session", "open_sessions", "session_of"]


class Done:
    """An operation without a value: where everything is done when it is called, it is done already.

    In a graph of TensorFlow 1 a Session computes `needs` and gives `initial` variables their first values.
    """

    def __init__(self, needs: tuple[Any, ...] = (), initial: tuple[Any, ...] = ()) -> None:
        self.needs, self.initial = needs, initial

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        session_of(session).run(self, feed_dict)

    def __repr__(self) -> str:
        return "<tf.Operation>"


class Graph:
    """Everything that was made while the graph was open."""

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self.global_step: Any = None
        self.collections: dict[str, list[Any]] = {}
        self.tape: Any = None
        self._initial: list[Any] = []
        self._local: set[int] = set()
        self._derived: set[int] = set()
        self._names: set[str] = set()
        self._held: set[int] = set()
        self._is_finalized = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[Graph]:
        """Make this the graph that variables belong to, with names and scopes of its own."""
        from .tensor import observers

        outer = observers[:]
        observers[:] = [one for one in outer if one not in (_open[-1:] and (_open[-1], _open[-1].tape))]
        _open.append(self)
        try:
            with fresh_names():
                yield self
        finally:
            _open.pop()
            observers[:] = outer

    def add(self, variable: Any, name: str) -> str:
        """Take in a variable that is being made; return its name, a number added where it is taken."""
        if self._is_finalized:
            raise RuntimeError(
                f"Graph is finalized and cannot be modified: {name} would not be restored. Make "
                "variables in model_fn, or in a hook's `begin`."
            )
        unique, number = name, 0
        while unique.lower() in self._names:  # As in TensorFlow, `W` and `w` are one name.
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique.lower())
        self._held.add(id(variable))
        self.variables.append(variable)
        self._initial.append(variable._value)
        return unique

    def take_variable(self, variable: Any, initial: Any) -> None:
        """Note a variable that is made."""

    def mark(self) -> int:
        return 0

    def begin_with(self, variable: Any, value: Any) -> None:
        """Give a variable another first value."""
        self._initial[next(at for at, one in enumerate(self.variables) if one is variable)] = value
        variable._set(value)

    def first(self, variable: Any) -> Any:
        """Return the value that a variable begins with."""
        return variable

    def held(self, value: Any) -> Any:
        """Return a value as an attribute of operations."""
        return value

    def _changes_since(self, mark: int) -> tuple[Any, ...]:
        """Return the operation that makes the changes since a mark; here they were made at once."""
        return ()

    def finalize(self) -> None:
        """Take in no more variables."""
        self._is_finalized = True

    def make_local(self, variables: list[Any]) -> None:
        """Say that variables are not saved: they count within one call."""
        self._local.update(id(variable) for variable in variables)

    def make_derived(self, variable: Any) -> None:
        """Say that a variable is not saved: each step gives it its value."""
        self._derived.add(id(variable))

    def holds(self, variable: Any) -> bool:
        return id(variable) in self._held

    def is_local(self, variable: Any) -> bool:
        return id(variable) in self._local

    def global_variables(self) -> list[Any]:
        """Return the variables that are saved, in the order they were made."""
        unsaved = self._local | self._derived
        return [variable for variable in self.variables if id(variable) not in unsaved]

    def rewind(self) -> None:
        """Give every variable the value it began with."""
        for variable, value in zip(self.variables, self._initial, strict=True):
            variable._set(value)


DEFAULT = Graph()
"""Stands for TensorFlow's default graph if none is open: it has a global step, and nothing else."""

_open: list[Graph] = []


def current() -> Graph | None:
    """Return the graph that is open, None where computing is eager."""
    return _open[-1] if _open else None


open_sessions: list[Any] = []


def default_session() -> Any:
    return open_sessions[-1] if open_sessions else None


def session_of(session: Any) -> Any:
    found = session or default_session()
    if found is None:
        raise ValueError(
            "Cannot evaluate tensor using `eval()`: No default session is registered. Use `with "
            "sess.as_default()` or pass an explicit session to `eval(session=sess)`"
        )
    return found
