"""Control flow: conditions, loops, maps, and a program's own gradients.

Everything here runs eagerly, so Python evaluates conditions and runs loops. A recorded graph that runs again
with other values would not evaluate them again, so they are rejected there.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from . import dtypes, graphs
from .errors import InvalidArgumentError
from .nest import flatten, map_structure, pack_sequence_as
from .tape import GradientTape
from .tensor import OPERATIONS, Operation, Tensor, as_tensor, convert_to_tensor, observers
from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .variable import Variable

__all__ = ["cond", "custom_gradient", "map_fn", "while_loop"]


def _refuse_graphs(name: str) -> None:
    if graphs.current() is not None:
        raise NotImplementedError(f"tf.{name} in a graph is not supported")


def cond(
    pred: Any, true_fn: Callable[[], Any] | None = None, false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Return what one of two functions returns."""
    _refuse_graphs("cond")
    for called, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"'{called}' must be callable.")
    assert true_fn is not None
    assert false_fn is not None
    return true_fn() if pred else false_fn()


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """Return the loop's variables after the last round, in the structure in which they were given."""
    refuse("while_loop", back_prop=None if back_prop else "False")
    _refuse_graphs("while_loop")
    if not callable(cond) or not callable(body):
        raise TypeError("'cond' and 'body' must be callable.")
    if not loop_vars:
        raise ValueError("'loop_vars' must be provided.")
    shape = _structure(list(loop_vars))
    most = None if maximum_iterations is None else int(maximum_iterations)
    rounds = 0
    while (most is None or rounds < most) and cond(*loop_vars):
        loop_vars = body(*loop_vars)
        if not isinstance(loop_vars, list | tuple):
            raise TypeError(f"'body' must return a list or a tuple, as 'loop_vars' is one, not {loop_vars!r}")
        _check_structures(shape, _structure(list(loop_vars)))
        rounds += 1
    return map_structure(convert_to_tensor, loop_vars)


def _structure(values: Any) -> Any:
    return map_structure(lambda _: None, values)


def _check_structures(first: Any, second: Any) -> None:
    if first != second:
        raise ValueError("The two structures don't have the same nested structure.")


def map_fn(
    fn: Callable[[Any], Any], elems: Any, dtype: Any = None, parallel_iterations: int | None = None,
    back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:  # fmt: skip
    """Return what a function makes of each element along the first axis, stacked.

    Results have the dtypes of `fn_output_signature`, and without one those of `elems`.
    Raises InvalidArgumentError for a result of another dtype.
    """
    _refuse_graphs("map_fn")
    refuse("map_fn", back_prop=None if back_prop else "False")
    if not callable(fn):
        raise TypeError(f"The provided function {fn} is not callable.")
    elems = map_structure(as_tensor, elems)
    if any(not elem.ndim for elem in flatten(elems)):
        raise ValueError("Elements in elems must be 1+ dimensional Tensors, not scalars")
    counts = {len(elem) for elem in flatten(elems)}
    if len(counts) != 1:
        raise ValueError(f"all elements of `elems` must have one first dimension, found {sorted(counts)}")
    (count,) = counts
    if not count:
        raise NotImplementedError("map_fn over no elements is not supported")
    signature = fn_output_signature if fn_output_signature is not None else dtype
    results = [fn(map_structure(lambda elem, at=at: elem[at], elems)) for at in range(count)]
    signature = map_structure(lambda elem: elem.dtype, elems) if signature is None else signature
    for result in results:
        _check_structures(_structure(signature), _structure(result))
    wanted = flatten(signature)
    columns = zip(*(flatten(result) for result in results), strict=True)
    found = [_stacked(column, one) for column, one in zip(columns, wanted, strict=True)]
    left = iter(found)
    return map_structure(lambda _: next(left), results[0])


def _stacked(column: Sequence[Any], wanted: Any) -> Tensor:
    kind = dtypes.as_dtype(getattr(wanted, "dtype", wanted))
    tensors = [as_tensor(one, kind.numpy_dtype) for one in column]
    for tensor in tensors:
        if tensor.dtype != kind:
            raise InvalidArgumentError(
                f"map_fn: a result of {tensor.dtype.name}, expected {kind.name} (fn_output_signature)"
            )
    return OPERATIONS["stack"](*tensors, axis=0)


def custom_gradient(f: Callable[..., Any] | None = None) -> Any:
    """Return a function that is differentiated as it says itself: `f` returns its value and its gradient.

    The gradient is called with those of the outputs, and with `variables=` where `f` read any;
    then it returns the gradients of the inputs, and a list of those of the variables.
    """
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        inputs = map_structure(as_tensor, args)
        with GradientTape() as inner:
            result, gradient = f(*inputs, **kwargs)
        given = {id(arg) for arg in flatten(args)}
        variables = [one for one in inner.watched_variables() if id(one) not in given]
        if variables and "variables" not in inspect.signature(gradient).parameters:
            raise TypeError(
                "If using @custom_gradient with a function that uses variables, then grad_fn must accept a "
                "'variables' keyword argument."
            )
        sources = [*flatten(inputs), *(variable._read() for variable in variables)]
        rule = _Rule(gradient, variables, len(flatten(inputs)))
        operation = Operation(f"custom gradient of {f.__name__}", _never_run, (rule,), False, True)
        values = [as_tensor(one) for one in flatten(result)]
        outputs = [Tensor(value._value) for value in values]
        for observer in observers:
            if isinstance(observer, GradientTape):
                observer.observe(operation, tuple(sources), tuple(outputs), {})
            else:  # A program, which is to compute them again.
                for value, output in zip(values, outputs, strict=True):
                    observer.observe(OPERATIONS["identity"], (value,), (output,), {})
        return pack_sequence_as(result, outputs)

    return decorated


def _never_run(*values: Any) -> Any:
    raise AssertionError("tapes ask for the rule alone")


class _Rule:
    """The gradient rule of every input: the program's own function, asked once for all of them."""

    def __init__(self, gradient: Callable[..., Any], variables: list[Variable], count: int) -> None:
        self._gradient, self._variables, self._count = gradient, variables, count
        self._asked: Any = None
        self._answer: list[Any] = []

    def __call__(self, gradient: Any, output: Any, *inputs: Any, position: int) -> Any:
        if self._asked is not gradient:
            self._answer = self._asked_for(gradient if isinstance(gradient, tuple) else (gradient,))
            self._asked = gradient
        return self._answer[position]

    def _asked_for(self, gradients: tuple[Any, ...]) -> list[Any]:
        if not self._variables:
            return _listed(self._gradient(*gradients), self._count)
        of_inputs, of_variables = self._gradient(*gradients, variables=self._variables)
        if len(of_variables) != len(self._variables):
            raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        return [*_listed(of_inputs, self._count), *of_variables]


def _listed(found: Any, count: int) -> list[Any]:
    gradients = list(found) if isinstance(found, list | tuple) else [found]
    if len(gradients) != count:
        raise ValueError(
            f"custom_gradient function expected to return {count} gradients, but returned {len(gradients)} "
            "instead."
        )
    return gradients
