"""Variables: a value that can be assigned to, and a leaf of the object graph."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.model.object_keys import VARIABLE_VALUE

from . import dtypes, graphs
from .errors import InvalidArgumentError
from .names import fresh_counts, scoped
from .reader import cpp_name
from .shapes import TensorShape
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor, observers, raw_value, shown, static_index
from .trackable import Trackable
from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.core.spec import TensorSpec

__all__ = ["Variable", "has_no_effect", "without_effect"]

_ids = itertools.count()
_trials: list[dict[int, tuple[Variable, Any]]] = []
"""The variables changed in a trial, by id, with what they held before; innermost trial last."""


@contextlib.contextmanager
def without_effect() -> Iterator[None]:
    """Compute only for shapes: nothing is recorded, and variables keep their values.

    A value that a restore assigns stays, because a variable may be made here and restored at once. Names of
    layers made inside are counted from the start, as TensorFlow counts them in a graph of its own.
    """
    recording, trial = observers[:], dict[int, tuple[Variable, Any]]()
    observers.clear()
    _trials.append(trial)
    try:
        with fresh_counts():
            yield
    finally:
        _trials.pop()
        observers[:] = recording
        for variable, value in trial.values():
            variable._set(value)


def has_no_effect() -> bool:
    """Whether what runs is for the sake of shapes alone."""
    return bool(_trials)


def _scatters(how: str) -> tuple[Callable[..., Variable], Callable[..., Variable]]:
    """Return the methods that change a variable at indices, and at those of an IndexedSlices."""

    def scatter_nd(self: Any, indices: Any, updates: Any, name: str | None = None) -> Variable:
        return self._scattered(indices, updates, how)

    def scatter(self: Any, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Variable:
        return self._scattered(as_tensor(sparse_delta.indices)[..., None], sparse_delta.values, how)

    return scatter_nd, scatter


class Variable(TensorLike, Trackable):
    """A variable with TensorFlow's names and arguments.

    Its array is never changed in place, so earlier reads keep their values.
    """

    _is_variable = True

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
        experimental_enable_variable_lifting: bool = True,
    ) -> None:
        refuse("Variable", variable_def=variable_def, import_scope=import_scope)
        if initial_value is None:
            raise ValueError(
                "The `initial_value` arg to `tf.Variable` must be specified except when you are not "
                "providing a `variable_def`."
            )
        if callable(initial_value):
            initial_value = initial_value()
        wanted = dtypes.as_numpy(dtype) if dtype is not None else None
        initial = as_tensor(initial_value, wanted)
        value = raw_value(initial)
        if wanted is not None and value.dtype != wanted:
            raise ValueError(
                f"initial_value: Tensor conversion requested dtype {dtypes.as_dtype(wanted).name} for Tensor "
                f"with dtype {dtypes.as_dtype(value.dtype).name}: {initial_value!r}"
            )
        self._declared_shape = None if shape is None else TensorShape(shape)
        if self._declared_shape is not None and not self._declared_shape.is_compatible_with(value.shape):
            raise ValueError(
                f"In this `tf.Variable` creation, the initial value's shape ({value.shape}) is not "
                f"compatible with the explicitly supplied `shape` argument ({shape})."
            )
        if constraint is not None and not callable(constraint):
            raise ValueError(
                "Argument `constraint` must be None or a callable. a callable. "
                f"Got a {type(constraint)}:  {constraint}"
            )
        self._value: Any = np.array(value)
        graph, self._shared_name = graphs.current(), scoped(name if name is not None else "Variable")
        if graph is not None:
            self._shared_name = graph.add(self, self._shared_name)
        self._trainable = True if trainable is None else bool(trainable)
        self._unique_id = f"{self._shared_name}_{next(_ids)}"
        self.constraint = constraint
        if graph is not None:
            graph.take_variable(self, initial)

    @property
    def name(self) -> str:
        return f"{self._shared_name}:0"

    @property
    def shape(self) -> TensorShape:
        """The shape that was declared, None where any size will do, or that of the value."""
        return super().shape if self._declared_shape is None else self._declared_shape

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def device(self) -> str:
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    @property
    def initializer(self) -> None:
        return None

    def _read(self) -> Tensor:
        """Return the current value, and notify recording tapes and programs."""
        tensor = Tensor(self._value)
        for observer in observers:
            observer.observe_read(self, tensor)
        return tensor

    def value(self) -> Tensor:
        return self._read()

    read_value = value

    def _about_to_change(self) -> None:
        """Remember the value where a change is not to last."""
        for trial in _trials:
            trial.setdefault(id(self), (self, self._value))

    def _set(self, value: Any) -> None:
        self._value = value if value.__class__ is np.ndarray else np.asarray(value)

    def _of_dtype(self, value: Any) -> Tensor:
        tensor = as_tensor(value, self._value.dtype)
        if tensor._value.dtype != self._value.dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {self.dtype.name} for Tensor with dtype "
                f"{tensor.dtype.name}: {tensor!r}"
            )
        return tensor

    def _prepared(self, value: Any, what: str) -> Tensor:
        """Return a value to assign, in the variable's dtype and checked against its shape."""
        tensor = self._of_dtype(value)
        found = tensor._value
        if found.shape == self._value.shape:
            return tensor
        if what == "assign" and not self.shape.is_compatible_with(found.shape):
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch.The variable shape "
                f"{self.shape}, and "
                f"the assigned value shape {tensor.shape} are incompatible."
            )
        if what != "assign":
            raise InvalidArgumentError(
                f"Cannot update variable with shape {list(self.shape)} using a Tensor with shape "
                f"{list(tensor.shape)}, shapes must be equal. [Op:{what}]"
            )
        return tensor

    def _change(self, what: str, value: Any, read_value: bool) -> Any:
        if what != "assign" and self._value.dtype.kind in "bO":
            raise InvalidArgumentError(
                f"No OpKernel was registered to support Op {what} of {self.dtype.name}"
            )
        tensor = value if value.__class__ is Tensor and value._value.dtype == self._value.dtype else None
        if tensor is None or tensor._value.shape != self._value.shape:
            tensor = self._prepared(value, what)
        self._about_to_change()
        return self._changed(OPERATIONS[what](tensor, variable=self), read_value)

    def _changed(self, tensor: Tensor, read_value: bool) -> Any:
        """Return what a change returns, of whose operation a tensor is the result."""
        return self if read_value else None

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Replace the value; ValueError where the shape or the dtype is another."""
        return self._change("assign", value, read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._change("assign_add", delta, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._change("assign_sub", delta, read_value)

    def _scattered(self, indices: Any, updates: Any, how: str) -> Variable:
        self._about_to_change()
        made = OPERATIONS["scatter_nd"](
            as_tensor(updates, self._value.dtype), indices, variable=self, how=how
        )
        return self._changed(made, True)

    scatter_nd_update, scatter_update = _scatters("update")
    scatter_nd_add, scatter_add = _scatters("add")
    scatter_nd_sub, scatter_sub = _scatters("sub")

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        return OPERATIONS["gather"](self, indices, axis=0)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        return OPERATIONS["gather_nd"](self, indices)

    def __len__(self) -> int:
        raise TypeError("object of type 'Variable' has no len()")

    def __index__(self) -> int:
        raise TypeError("'Variable' object cannot be interpreted as an integer")

    def __getitem__(self, key: Any) -> Tensor:
        index = static_index(key)
        return _Part(OPERATIONS["slice"](self, index=index), self, index)

    def _in_place(self, other: Any) -> Any:
        raise RuntimeError(
            "Variable += value not supported. Use variable.assign_add(value) to modify the variable value "
            "and variable = variable + value to get a new Tensor object."
        )

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = _in_place

    def _serialize(self) -> dict[str, Any]:
        return {VARIABLE_VALUE: self._value}

    def _restorable(self) -> tuple[str, ...]:
        return (VARIABLE_VALUE,)

    def _check_restored(self, attribute: str, spec: TensorSpec) -> None:
        if spec.dtype.name != self.dtype.name:
            raise InvalidArgumentError(
                f"tensor_name = {spec.key}; expected dtype {cpp_name(self.dtype.name)} does not equal "
                "original dtype "
                f"{cpp_name(spec.dtype.name)} [Op:RestoreV2]"
            )
        if not self.shape.is_compatible_with(spec.shape):
            raise ValueError(
                f"Received incompatible tensor with shape {spec.shape} when attempting to restore variable "
                "with shape "
                f"{self.shape} and name {self.name}."
            )

    def _take_restored(self, attribute: str, value: Any) -> None:
        for trial in _trials:
            trial.pop(id(self), None)
        self._set(value)

    def _full_name(self) -> str:
        return self._shared_name

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        copied = Variable(self._value, trainable=self._trainable, dtype=self.dtype)
        copied._shared_name = self._shared_name
        memo[id(self)] = copied
        return copied

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, numpy={shown(self)}>"

    __str__ = __repr__


class _Part(Tensor):
    """The value of a slice of a variable, which can be assigned to."""

    __slots__ = ("_index", "_tensor", "_variable")

    def __init__(self, tensor: Tensor, variable: Variable, index: Any) -> None:
        super().__init__(tensor._value)
        self._tensor, self._variable, self._index = tensor, variable, index

    def _read(self) -> Tensor:
        """Return the tensor that tapes know."""
        return self._tensor

    def assign(self, value: Any, name: str | None = None) -> Variable:
        variable = self._variable
        tensor = variable._of_dtype(value)
        variable._about_to_change()
        OPERATIONS["assign_slice"](tensor, variable=variable, index=self._index)
        return variable
