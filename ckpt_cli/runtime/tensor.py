"""Tensors, and operations: the rows of a table from which everything computed is made.

An operation is a forward function on numpy values and one gradient rule for each
input.  A rule is called with the gradient of the output, the output and the inputs,
all tensors, and is made of operations of the same table.  So a gradient is computed
like anything else: it can be differentiated again, and it can be recorded and
replayed with other values (`program.Program`), which is why rules look at tensors
and not at shapes.

Values are never changed in place: assigning to a variable replaces its array, so earlier reads keep their
values.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .shapes import Reference, TensorShape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .dtypes import DType

__all__ = [
    "OPERATIONS", "Operation", "Tensor", "TensorLike", "TensorShape", "as_tensor", "convert_to_tensor",
    "define", "identity", "is_tensor", "observers", "raw_value", "static_index",
]  # fmt: skip

Rule = Callable[..., Any]


def _operator(name: str) -> tuple[Callable[[Any, Any], Tensor], Callable[[Any, Any], Tensor]]:
    """Return the methods of an operator, and of it with its operands the other way round."""

    def operator(self: Any, other: Any) -> Tensor:
        return OPERATIONS[name](self, other)

    def reflected(self: Any, other: Any) -> Tensor:
        return OPERATIONS[name](other, self)

    return operator, reflected


class TensorLike:
    """The operators that tensors and variables have in common."""

    __slots__ = ()
    __array_priority__ = 100  # numpy leaves `array + tensor` to us
    __hash__ = None  # type: ignore[assignment]  # == compares elements; `ref()` is the key

    _value: Any

    @property
    def dtype(self) -> DType:
        return dtypes.as_dtype(self._value.dtype)

    @property
    def shape(self) -> TensorShape:
        return tuple.__new__(TensorShape, self._value.shape)  # An array's dimensions need no check.

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def ndim(self) -> int:
        return int(self._value.ndim)

    def experimental_ref(self) -> Reference:
        return self.ref()

    def ref(self) -> Reference:
        return Reference(self)

    def numpy(self) -> Any:
        """Return the value as an array of its own, of rank 0 as a numpy scalar."""
        value = self._value
        if value.dtype == object:
            return value.item() if value.ndim == 0 else value.copy()
        return value[()] if value.ndim == 0 else value.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._value, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        if self._value.ndim == 0:
            raise TypeError("Scalar tensor has no `len()`")
        return len(self._value)

    def __iter__(self) -> Iterator[Tensor]:
        if self._value.ndim == 0:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return (self[index] for index in range(len(self._value)))

    def __bool__(self) -> bool:
        return self._value.size > 0 and bool(self._value)

    def __int__(self) -> int:
        return int(self._single())

    def _single(self) -> Any:
        """Return the only element; numpy 1.26 also made a number of an array of one."""
        return self._value.reshape(()) if self._value.size == 1 else self._value

    def __index__(self) -> int:
        return int(self._value.item().__index__())

    def __float__(self) -> float:
        return float(self._single())

    def __complex__(self) -> complex:
        return complex(self._single())

    def __getitem__(self, key: Any) -> Tensor:
        return OPERATIONS["slice"](self, index=static_index(key))

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")
    __floordiv__, __rfloordiv__ = _operator("floordiv")
    __mod__, __rmod__ = _operator("floormod")
    __pow__, __rpow__ = _operator("pow")
    __matmul__, __rmatmul__ = _operator("matmul")
    __and__, __rand__ = _operator("bitwise_and")
    __or__, __ror__ = _operator("bitwise_or")
    __xor__, __rxor__ = _operator("bitwise_xor")
    __lt__ = _operator("less")[0]
    __le__ = _operator("less_equal")[0]
    __gt__ = _operator("greater")[0]
    __ge__ = _operator("greater_equal")[0]

    def __neg__(self) -> Tensor:
        return OPERATIONS["negative"](self)

    def __abs__(self) -> Tensor:
        return OPERATIONS["abs"](self)

    def __invert__(self) -> Tensor:
        return OPERATIONS["logical_not" if self._value.dtype.kind == "b" else "invert"](self)

    def __eq__(self, other: object) -> Any:
        return self._compared("equal", other, unlike=False)

    def __ne__(self, other: object) -> Any:
        return self._compared("not_equal", other, unlike=True)

    def _compared(self, operation: str, other: Any, *, unlike: bool) -> Any:
        """Compare elements; with None, and with a tensor whose shape does not go with this one, the whole."""
        if other is None:
            return unlike
        try:
            return OPERATIONS[operation](self, other)
        except InvalidArgumentError:
            try:
                np.broadcast_shapes(self._value.shape, as_tensor(other)._value.shape)
            except ValueError:
                return Tensor(np.bool_(unlike))
            raise


class Tensor(TensorLike):
    """An immutable value.

    `_keras_mask` is there where a layer of Keras has said which places count, `_keras_logits` where an
    activation made the value of logits.
    """

    __slots__ = ("__weakref__", "_graph", "_keras_logits", "_keras_mask", "_value")

    _graph: Any
    _keras_logits: Any
    _keras_mask: Any

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def device(self) -> str:
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    backing_device = device

    def cpu(self) -> Tensor:
        return self

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        raise NotImplementedError(
            "eval is not supported when eager execution is enabled, is .numpy() what you're looking for?"
        )

    def consumers(self) -> Any:
        raise NotImplementedError("Tensor.consumers is undefined when eager execution is enabled.")

    def set_shape(self, shape: Any) -> None:
        if not self.shape.is_compatible_with(TensorShape(shape)):
            raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {shape}.")

    def __repr__(self) -> str:
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={shown(self)}>"

    def __str__(self) -> str:
        return f"tf.Tensor({shown(self, str)}, shape={self.shape}, dtype={self.dtype.name})"

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec)


_AS_NUMPY_1: Any = {"legacy": "1.25"} if np.__version__ >= "2" else {}


def shown(tensor: TensorLike, text_of: Callable[[Any], str] = repr) -> str:
    """Return a value as text, as numpy 1.26 has it; one of several lines begins with a line of its own."""
    with np.printoptions(**_AS_NUMPY_1):
        text = text_of(tensor.numpy())
    return f"\n{text}" if "\n" in text else text


raw_value: Callable[[Any], Any] = vars(Tensor)["_value"].__get__
"""The value of a tensor, of one of a graph the example that it was recorded with."""

_value_of: Callable[[Any], Any] = attrgetter("_value")
"""Returns values for operations; it is `raw_value`, which is slower, if a graph of a Session is open."""
_BOOL = np.dtype(np.bool_)

observers: list[Any] = []
"""Recording tapes and programs, which are notified of every operation."""

_SCALARS: dict[type, np.dtype[Any]] = {
    float: np.dtype(np.float32),
    int: np.dtype(np.int32),
    bool: np.dtype(np.bool_),
    complex: np.dtype(np.complex128),
}


def static_index(key: Any) -> Any:
    """Return an index whose parts are numbers, slices, None and Ellipsis, tensors made numbers."""
    if isinstance(key, tuple):
        return tuple(map(static_index, key))
    if isinstance(key, slice):
        return slice(*(None if part is None else int(part) for part in (key.start, key.stop, key.step)))
    if isinstance(key, TensorLike):
        key = key._value if key._value.dtype.kind not in "iu" else int(key)
    if isinstance(key, bool):
        raise ValueError("mask cannot be scalar.")  # noqa: TRY004  TensorFlow's
    if isinstance(key, np.ndarray) and key.dtype.kind == "b":
        return key
    if isinstance(key, np.ndarray) and not key.ndim and key.dtype.kind in "iu":
        return int(key)
    if isinstance(key, list | np.ndarray):
        raise InvalidArgumentError(
            f"slice: {key!r} cannot be an index, only numbers and slices can [Op:StridedSlice]"
        )
    if key is not None and key is not Ellipsis and not hasattr(key, "__index__"):
        raise TypeError(
            "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 "
            f"tensors are valid indices, got {key!r}"
        )
    return key


def _array_of(value: Any, dtype: np.dtype[Any] | None) -> Any:
    """Return Python or numpy values as an array, as `tf.constant` types them.

    Arrays are cast to a dtype; Python's numbers only where none can lose its meaning.
    """
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind in "SUO":
            array = _strings(array)
        elif array.dtype.kind in "mM" or array.dtype.char in "gG":
            raise ValueError(
                f"Failed to convert a NumPy array to a Tensor (Unsupported numpy type: {array.dtype})."
            )
        elif not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if dtype is None or array.dtype == dtype:
            return array
        if (array.dtype.kind == "O") != (dtype.kind == "O"):
            raise _unconvertible(value, dtype)
        with np.errstate(all="ignore"):
            return array.astype(dtype)
    kinds: dict[type, None] = {}
    array = np.asarray(_plain(value, kinds))
    if array.dtype.kind in "SUO":
        # As objects: an array of numpy's own texts would drop zero bytes at their ends.
        array = _strings(np.asarray(value, object))
    if array.dtype == np.uint64 and np.uint64 not in kinds:
        raise _out_of_range()
    first = next(iter(kinds), None)
    if len(kinds) > 1 and (first is bool or (first is int and complex in kinds)):
        raise ValueError("Can't convert Python sequence with mixed types to Tensor.")
    return _typed(value, array, kinds, dtype)


def _typed(value: Any, array: Any, kinds: dict[type, None], dtype: np.dtype[Any] | None) -> Any:
    """Return an array of Python's values in the dtype wanted, or in the one that TensorFlow gives them."""
    if dtype is not None:
        if array.dtype != dtype and array.size and array.dtype.kind not in _CONVERTED[dtype.kind]:
            raise _unconvertible(value, dtype)
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    if array.dtype == np.float64 and (float in kinds or not kinds):
        return array.astype(np.float32)
    if array.dtype == np.int64:
        small = array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31)
        return array.astype(np.int32 if small else np.int64)
    return array


_FLOAT32_MAX = float(np.finfo(np.float32).max)
_CONVERTED = {"b": "b", "i": "iub", "u": "iub", "f": "fiubV", "V": "fiubV", "c": "cfiub", "O": "O"}
"""By kind of dtype: the kinds of Python's numbers that become one."""


def _unconvertible(value: Any, dtype: np.dtype[Any]) -> TypeError:
    return TypeError(f"Cannot convert {value!r} to EagerTensor of dtype {dtypes.as_dtype(dtype).name}")


def _out_of_range() -> ValueError:
    return ValueError("Can't convert Python sequence with out-of-range integer to Tensor.")


def _plain(value: Any, kinds: dict[type, None]) -> Any:
    """Return values without tensors, and note their classes, in their order."""
    if isinstance(value, list | tuple | range):
        return [_plain(item, kinds) for item in value]
    if isinstance(value, TensorLike):
        value = value._value
    kinds[value.__class__] = None
    return value


def _strings(array: Any) -> Any:
    out = np.empty(array.shape, object)
    for index, item in np.ndenumerate(array):
        if not isinstance(item, str | bytes):
            raise ValueError(  # noqa: TRY004  TensorFlow's
                f"Attempt to convert a value ({item!r}) with an unsupported type ({type(item)}) to a Tensor."
            )
        out[index] = item.encode() if isinstance(item, str) else bytes(item)
    return out


def _first_tensor(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return next((found for one in value if (found := _first_tensor(one)) is not None), None)
    return value if isinstance(value, TensorLike) else None


def as_tensor(value: Any, dtype: np.dtype[Any] | None = None) -> Tensor:
    """Return a value as a tensor; `dtype` types Python numbers, tensors keep theirs."""
    if value.__class__ is Tensor:
        return value
    if isinstance(value, TensorLike):
        return value._read()  # type: ignore[attr-defined]
    scalar = _SCALARS.get(value.__class__)
    if scalar is not None:
        if scalar.kind == "i" and not -(2**31) <= value < 2**31:
            scalar = np.dtype(np.int64)
            if not -(2**63) <= value < 2**63:
                raise _out_of_range()
        if dtype is None:
            if scalar.kind == "f" and _FLOAT32_MAX < abs(value) < math.inf:
                raise ValueError(
                    "Can't convert Python sequence with a value out of range for a double-precision float."
                )
            return Tensor(np.array(value, scalar))
        if scalar.kind not in _CONVERTED[dtype.kind]:
            raise _unconvertible(value, dtype)
        return Tensor(np.array(value, scalar).astype(dtype) if dtype.kind in "iu" else np.array(value, dtype))
    if value is None:
        raise ValueError(
            "Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor."
        )
    if hasattr(value, "_as_tensor"):
        return as_tensor(value._as_tensor(), dtype)
    if isinstance(value, list | tuple) and (found := _first_tensor(value)) is not None:
        dtype = found._value.dtype if dtype is None else dtype
        return OPERATIONS["stack"](*(as_tensor(item, dtype) for item in value), axis=0)
    return Tensor(_array_of(value, dtype))


def convert_to_tensor(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None
) -> Tensor:
    """Return `value` as a tensor. Raises ValueError if a tensor has another dtype than requested."""
    wanted = dtypes.as_numpy(dtype) if dtype is not None else None
    tensor = None
    if wanted is None and dtype_hint is not None and not isinstance(value, TensorLike):
        with contextlib.suppress(TypeError, ValueError):
            tensor = as_tensor(value, dtypes.as_numpy(dtype_hint))
    if tensor is None:
        tensor = as_tensor(value, wanted)
    if wanted is not None and tensor._value.dtype != wanted:
        message = (
            f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for Tensor with dtype "
            f"{tensor.dtype.name}: {tensor!r}"
        )
        raise ValueError(message)
    return tensor


def is_tensor(x: Any) -> bool:
    return isinstance(x, TensorLike) or hasattr(x, "_as_tensor")


_CONVERTED_LATE = ("add", "matmul")
"""Operations that take the dtype of a list for its own: an error is one of the operation."""


def _promoted(x: Any, y: Any, name: str) -> tuple[Tensor, Tensor]:
    """Return two operands of one dtype: a Python number takes the other's."""
    try:
        if isinstance(y, TensorLike) and not isinstance(x, TensorLike):
            right = as_tensor(y)
            left = as_tensor(x, right._value.dtype)
        else:
            left = as_tensor(x)
            right = y if y.__class__ is Tensor else as_tensor(y, left._value.dtype)
    except TypeError as error:
        if name not in _CONVERTED_LATE:
            raise
        raise InvalidArgumentError(f"cannot compute {name}: {error}") from error
    if left._value.dtype != right._value.dtype:
        message = (
            f"cannot compute {name} as input #1(zero-based) was expected to be a {left.dtype.name} tensor "
            f"but is a {right.dtype.name} tensor"
        )
        raise InvalidArgumentError(message)
    return left, right


class Operation:
    """A row of the table: a name, a function on values, and a gradient rule, or None, for each input.

    With `promotes`, two operands are converted to one dtype. If `forward` returns a tuple, the operation has
    several outputs, and its rules are called with a tuple of gradients. A single rule in a list serves any
    number of inputs; it is called with the position of the input as `position`, or, if it is `joint`, once
    for all inputs, and returns the gradients of all. `takes` has the kinds of dtypes of the first input, or
    None for any.
    """

    __slots__ = ("forward", "joint", "name", "promotes", "rules", "takes", "variadic")

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        rules: tuple[Rule | None, ...],
        promotes: bool,
        variadic: bool,
        joint: bool = False,
    ) -> None:
        self.name = name
        self.forward = forward
        self.rules = rules
        self.promotes = promotes
        self.variadic = variadic
        self.joint = joint
        self.takes: str | None = None

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        # By far the most of these calls are of small models, where a comprehension counts.
        if self.promotes:
            x, y = inputs
            if not (x.__class__ is Tensor and y.__class__ is Tensor and x._value.dtype == y._value.dtype):
                inputs = _promoted(x, y, self.name)
        else:
            for x in inputs:
                if x.__class__ is not Tensor:
                    wanted = _BOOL if self.takes == "b" else None
                    inputs = tuple([as_tensor(x, wanted) for x in inputs])
                    break
        if self.takes is not None and inputs[0]._value.dtype.kind not in self.takes:
            raise self._untaken(inputs[0])
        try:
            value = self.forward(*map(_value_of, inputs), **attributes)
        except (ValueError, IndexError) as error:
            raise InvalidArgumentError(f"{self.name}: {error}") from error
        if value.__class__ is tuple:
            outputs = tuple(map(Tensor, value))
            for observer in observers:
                observer.observe(self, inputs, outputs, attributes)
            return outputs
        output = Tensor(value)
        if observers:
            for observer in observers:
                observer.observe(self, inputs, (output,), attributes)
        return output

    def _untaken(self, tensor: Tensor) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"Value for attr 'T' of {tensor.dtype.name} is not in the list of allowed values: "
            f"{self.takes} (kinds of numpy's dtypes) [Op:{self.name}]"
        )

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


OPERATIONS: dict[str, Operation] = {}
"""The table, by name."""


def define(
    name: str,
    forward: Callable[..., Any],
    *rules: Rule | None,
    promotes: bool = False,
    each: Rule | None = None,
    together: Rule | None = None,
) -> Operation:
    """Add a row to the table and return it.

    `each` is the rule of every input of a variadic operation, `together` one rule for all inputs.
    """
    assert name not in OPERATIONS, name
    one = each or together
    operation = Operation(
        name, forward, (one,) if one else rules, promotes, each is not None, together is not None
    )
    OPERATIONS[name] = operation
    return operation


identity = define("identity", lambda x: x, lambda g, out, x: g)
"""Tapes see reading a variable as this operation."""
