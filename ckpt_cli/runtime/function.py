"""tf.function: bodies run eagerly at each call, on what TensorFlow would give them."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from .compiled import compiled
from .nest import flatten, map_structure, map_up_to
from .ops.random import Traced
from .tensor import Tensor, TensorLike, as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["function"]


def _kind(value: Any) -> Any:
    """Return what TensorFlow traces a function by: tensors by dtype and shape, all else by what it is."""
    if isinstance(value, dict):
        return tuple((key, _kind(one)) for key, one in sorted(value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_kind, value))
    if isinstance(value, Tensor | np.ndarray):
        return str(value.dtype), tuple(value.shape)
    return (type(value), value) if isinstance(value, int | float | str | bytes | type(None)) else id(value)


def _given(value: Any) -> Any:
    return as_tensor(value) if isinstance(value, np.ndarray | np.generic) else value


def _returned(value: Any) -> Any:
    """Return a value as it leaves a function: a tensor that no later change of a variable reaches."""
    if isinstance(value, TensorLike):
        tensor = as_tensor(value)
        if hasattr(tensor, "_keras_logits"):
            del tensor._keras_logits  # outside, the operation that made it is unknown
        return tensor
    return (
        as_tensor(value)
        if isinstance(value, int | float | complex | str | bytes | np.ndarray | np.generic)
        else value
    )


class Function:
    """A function that TensorFlow would compile.

    Its body runs at each call, including its side effects. Options for compiling have no effect.
    """

    def __init__(self, func: Callable[..., Any], signature: Any = None) -> None:
        functools.update_wrapper(self, func)
        self.python_function, self.input_signature = func, signature
        self._traced: dict[Any, Traced] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.input_signature is not None:
            args, kwargs = self._bound(self.input_signature, args, kwargs), {}
        args, kwargs = map_structure(_given, args), map_structure(_given, kwargs)
        trace = Traced.within()
        if trace is None:
            kind = () if self.input_signature is not None else _kind([args, kwargs])
            if kind not in self._traced:
                self._traced[kind] = Traced()
            trace = self._traced[kind]
        with compiled(), trace.called():
            return map_structure(_returned, self.python_function(*args, **kwargs))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def _bound(self, signature: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return arguments as the tensors that a signature describes."""
        try:
            bound = inspect.signature(self.python_function).bind(*args, **kwargs).args
        except TypeError as error:
            raise TypeError(f"Binding inputs to tf.function failed due to `{error}`.") from error
        # a method's instance is not part of the signature
        has_self = "self" in inspect.signature(self.python_function).parameters
        extra = len(bound) - len(signature) if has_self else 0
        if len(bound) - extra != len(signature):
            raise TypeError(
                f"Binding inputs to tf.function failed: {len(bound)} arguments, expected {len(signature)}."
            )
        tensors = [map_up_to(_fitting, spec, one) for spec, one in zip(signature, bound[extra:], strict=True)]
        return (*bound[:extra], *tensors)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function for arguments like these, which may be given as TensorSpecs."""
        if not args and not kwargs:
            return Function(self.python_function, self.input_signature)
        bound = inspect.signature(self.python_function).bind(*args, **kwargs).args
        if not all(hasattr(leaf, "shape") for leaf in flatten(list(bound))):
            raise NotImplementedError(
                "get_concrete_function: an argument other than tensors is not supported"
            )
        return Function(self.python_function, bound)


class _Method:
    """A function of a class, of one of its instances."""

    def __init__(self, function: Function, instance: Any) -> None:
        self._function, self._instance = function, instance
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._instance, *args, **kwargs)

    @property
    def python_function(self) -> Any:
        return functools.partial(self._function.python_function, self._instance)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        signature = self._function.input_signature
        return Function(self.python_function, signature).get_concrete_function(*args, **kwargs)


def _fitting(spec: Any, value: Any) -> Any:
    tensor = (
        as_tensor(value, spec.dtype.numpy_dtype) if not isinstance(value, TensorLike) else as_tensor(value)
    )
    if tensor.dtype != spec.dtype or not spec.shape.is_compatible_with(tensor.shape):
        raise TypeError(
            f"Binding inputs to tf.function failed due to `Can not cast TensorSpec(shape={tensor.shape}, "
            f"dtype={tensor.dtype!r}, name=None) to {spec!r}`."
        )
    return tensor


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Return a function that computes what TensorFlow's would, eagerly."""
    if func is None:
        return lambda decorated: function(decorated, input_signature)
    return Function(func, input_signature)
