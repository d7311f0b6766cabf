"""tf.Graph: operations that are recorded, for Sessions to run.

While a graph is open, operations are computed of example values and recorded.  A tensor of it knows its dtype
and its shape: everything is computed with two sizes of unknown dimensions.  No function can read its value.
"""

from __future__ import annotations

import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.model.object_keys import VARIABLE_VALUE

from . import dtypes, graphs, names, tensor
from .graphs import session_of
from .nest import flatten
from .program import Program
from .shapes import TensorShape
from .tape import GradientTape
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor, define, observers, raw_value
from .variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Graph", "GraphTensor", "control", "default_graph", "disable_eager_execution",
    "placeholder", "placeholder_with_default", "reset_default_graph",
    "variables_in", "within",
]  # fmt: skip

_SIZES = 16, 32  # of unknown dimensions


def _no_value(self: Any, *_: Any) -> Any:
    """Raise: a program, or a function that it called, needs the value of a tensor of a graph."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name[0] in "<_":
        frame = frame.f_back
    raise NotImplementedError(
        f"{frame.f_code.co_name}: the value of a tensor of a graph is not supported before a Session runs it"
    )


class _Unknown:
    """The dtype and the shape of a value that is not known."""

    def __init__(self, dtype: Any, shape: Any) -> None:
        self.dtype, self.shape = dtype, shape

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: _no_value(self) if None in self.shape else math.prod(self.shape))
    __getattr__ = __array__ = __getitem__ = __len__ = __iter__ = __eq__ = __ne__ = __bool__ = _no_value
    __lt__ = __le__ = __gt__ = __ge__ = _no_value
    __hash__ = None  # type: ignore[assignment]


def _eval(self: Any, feed_dict: Any = None, session: Any = None) -> Any:
    return session_of(session).run(self, feed_dict)


def _is_same(self: Any, other: object) -> bool:
    """Return whether two are one tensor: in a graph, tensors are keys of `feed_dict`."""
    if other is not None and not isinstance(other, TensorLike | str):
        raise NotImplementedError(f"== of a tensor of a graph and {other!r} is not supported; use tf.equal")
    return self is other


within: list[Any] = []
"""Sessions whose values the variables of their graphs have, the innermost last."""


class GraphTensor(Tensor):
    """A tensor of a graph; `_graph` is its graph."""

    __slots__ = ()

    @property
    def _value(self) -> Any:
        return _Unknown(raw_value(self).dtype, self.shape)

    @property
    def shape(self) -> TensorShape:
        return self._graph.shape_of(self)

    def _read(self) -> GraphTensor:
        return self

    def __repr__(self) -> str:
        return f"<tf.Tensor shape={self.shape} dtype={self.dtype.name}>"

    __str__ = __repr__


class GraphVariable(Variable):
    """A variable of a graph, whose values Sessions have."""

    __slots__ = ()

    def _changed(self, tensor: Tensor, read_value: bool) -> Any:
        return tensor

    @property
    def initializer(self) -> Any:
        return graphs.Done(initial=(self,))

    def load(self, value: Any, session: Any = None) -> None:
        session_of(session).load(self, value)

    def _serialize(self) -> dict[str, Any]:
        session = within[-1] if within else session_of(None)
        session.require(self, session._values)
        return {VARIABLE_VALUE: session._values[id(self)]}

    def _take_restored(self, attribute: str, value: Any) -> None:
        raise NotImplementedError("Checkpoint.restore of variables of a graph is not supported; use a Saver")

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    __str__ = __repr__


_READING = "numpy __array__ __bool__ __int__ __float__ __index__ __complex__ __iter__ __len__"
# No common base: an object becomes one of these classes, which needs the layout of its own.
for _class in (GraphTensor, GraphVariable):
    for _name in _READING.split():
        setattr(_class, _name, _no_value)
    for _name, _value in {"eval": _eval, "__eq__": _is_same, "__ne__": object.__ne__}.items():
        setattr(_class, _name, _value)
    _class.__hash__ = object.__hash__  # type: ignore[assignment]


def _example(shape: Any, kind: np.dtype[Any]) -> Any:
    """Return values to compute with: numbers for which matrices have inverses, and indices that exist."""
    if kind.kind in "fc":
        return np.random.default_rng(7).uniform(0.5, 1.5, shape).astype(kind)
    return np.full(shape, b"" if kind.hasobject else 0, kind)


def variables_in(attributes: dict[str, Any]) -> list[Any]:
    return [one for one in flatten(list(attributes.values())) if isinstance(one, Variable)]


class Graph(graphs.Graph, Program):
    """A graph of TensorFlow 1: a program that grows while it is open."""

    def __init__(self) -> None:
        graphs.Graph.__init__(self)
        self._begin()
        self.tape = GradientTape(persistent=True)
        self.tape._recording = self.tape._entered = True
        self.initial: dict[int, Tensor] = {}
        self.placeholders: dict[int, Any] = {}
        self.after: tuple[int, ...] = ()
        self._used_names: Any = {}
        self._others: dict[int, Any] = {}

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Make this the graph that operations belong to."""
        if graphs.current() is self:
            yield self
            return
        with self.opened():
            observers[:] = [self, self.tape]
            names._used.update(self._used_names)
            before, tensor._value_of = tensor._value_of, raw_value
            try:
                yield self
            finally:
                tensor._value_of = before
                self._used_names = names._used.copy()

    def take_variable(self, variable: Variable, initial: Tensor) -> None:
        variable.__class__ = GraphVariable
        self.initial[id(variable)] = initial
        self.tape.watch(variable)

    def mark(self) -> int:
        return len(self._steps)

    def _changes_since(self, mark: int) -> tuple[Tensor, ...]:
        """Return the tensors whose computing makes the changes that were called for since a mark."""
        return tuple(self._kept[one.outputs[0]] for one in self._steps[mark:] if one.changed is not None)

    def _taken(self, tensor: Tensor, other: Any) -> None:
        tensor._graph = self
        tensor.__class__ = GraphTensor
        self._others[id(tensor)] = other

    def observe(self, operation: Any, inputs: Any, outputs: Any, attributes: dict[str, Any]) -> None:
        held = variables_in(attributes)
        if any(id(one) not in self.initial for one in held):
            raise ValueError(f"{held[0].name} was made outside of the graph")
        super().observe(operation, inputs, outputs, attributes)
        self._steps[-1] = step = self._steps[-1]._replace(after=self.after)
        found = tuple(map(raw_value, outputs))
        others = [self._others.get(id(one), raw_value(one)) for one in inputs]
        if not held and any(one is not raw_value(two) for one, two in zip(others, inputs, strict=True)):
            made = step.forward(*others, **attributes)
            found = made if isinstance(made, tuple) else (made,)
        if len(found) != len(outputs):
            raise ValueError(f"{operation.name}: the number of results depends on an unknown dimension")
        for output, other in zip(outputs, found, strict=True):
            self._taken(output, other)
        for variable in held:
            variable._set(raw_value(self.initial[id(variable)]))

    def observe_read(self, variable: Any, output: Tensor) -> None:
        if id(variable) not in self.initial:
            raise ValueError(f"{variable.name} was made outside of the graph")
        super().observe_read(variable, output)
        self._steps[-1] = self._steps[-1]._replace(after=self.after)
        self._taken(output, raw_value(output))

    def shape_of(self, tensor: Tensor) -> TensorShape:
        one, other = raw_value(tensor).shape, self._others[id(tensor)].shape
        if len(one) != len(other):
            return TensorShape(None)
        return TensorShape([a if a == b else None for a, b in zip(one, other, strict=True)])

    def add_placeholder(self, dtype: Any, shape: Any, name: str | None) -> GraphTensor:
        kind, declared = dtypes.as_numpy(dtype), TensorShape(shape)
        sizes = [(), (2,)] if declared.rank is None else [
            tuple(size if one is None else one for one in declared) for size in _SIZES
        ]  # fmt: skip
        one, other = (_example(size, kind) for size in sizes)
        tensor: Any = Tensor(one)
        place = self._place(tensor)
        self._taken(tensor, other)
        self.placeholders[place] = name or "Placeholder"
        if kind.kind in "fc":
            self.tape.watch(tensor)
        return tensor

    def begin_with(self, variable: Any, value: Any) -> None:
        self.initial[id(variable)] = Tensor(value)

    def first(self, variable: Any) -> Any:
        return self.initial[id(variable)]

    def held(self, tensor: Any) -> Any:
        """Return an attribute with the value that a tensor has in each run; the steps to come wait for it."""
        if not isinstance(tensor, GraphTensor):
            return tensor
        holder = _Holder()
        kept = OPERATIONS["hold"](tensor, holder=holder)
        self.after = (*self.after, self._place(kept))
        return holder


class _Holder:
    _value: Any = None


def _hold(value: Any, holder: _Holder) -> Any:
    holder._value = value
    return value


define("hold", _hold, None)
_default: list[Graph] = []
"""The graph that is open where a program opens none, once eager execution is disabled or a Session made."""


def default_graph() -> Graph:
    graph = graphs.current()
    if isinstance(graph, Graph):
        return graph
    if not _default:
        _default.append(Graph())
    return _default[0]


_context = contextlib.ExitStack()


def disable_eager_execution() -> None:
    """Open the default graph for the rest of the program."""
    if graphs.current() is None:
        _context.enter_context(default_graph().as_default())


def reset_default_graph() -> None:
    """Begin again with an empty graph, which is open if the one before was."""
    graph = graphs.current()
    if graph is not None and graph not in _default:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _context.close()
    _default.clear()
    if graph is not None:
        disable_eager_execution()


def control(inputs: Any) -> Any:
    """Return a context within which operations run after others."""
    graph = graphs.current()
    return _waiting(graph, inputs) if isinstance(graph, Graph) else contextlib.nullcontext(inputs)


@contextlib.contextmanager
def _waiting(graph: Graph, inputs: Any) -> Iterator[None]:
    before = graph.after
    graph.after = (*before, *(graph._place(one) for one in _needed(inputs)))
    try:
        yield
    finally:
        graph.after = before


def _needed(inputs: Any) -> list[Tensor]:
    """Return the tensors that operations and tensors stand for."""
    return [
        tensor
        for one in flatten(inputs)
        for tensor in (one.needs if isinstance(one, graphs.Done) else (as_tensor(one),))
    ]


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """Return a tensor whose value is fed to each run."""
    graph = graphs.current()
    if not isinstance(graph, Graph):
        raise RuntimeError(  # noqa: TRY004  TensorFlow's
            "tf.placeholder() is not compatible with eager execution."
        )
    return graph.add_placeholder(dtype, shape, name)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """Return a tensor that has a default value and its shape, unless another value is fed."""
    value = as_tensor(input)
    if not TensorShape(shape).is_compatible_with(value.shape) or None in TensorShape(shape):
        raise NotImplementedError(
            f"placeholder_with_default: argument {shape=} other than {value.shape} is not supported"
        )
    return OPERATIONS["identity"](value)
