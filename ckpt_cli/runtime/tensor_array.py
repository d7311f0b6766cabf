"""tf.TensorArray: a list of tensors that grows; writing returns the array, as TensorFlow's eager one."""

from __future__ import annotations

from typing import Any

from . import dtypes
from .errors import InvalidArgumentError, OutOfRangeError
from .shaping import concat, gather, split, stack, unstack
from .tensor import Tensor, as_tensor
from .unknown import refuse

__all__ = ["TensorArray"]


class TensorArray:
    def __init__(
        self, dtype: Any, size: Any = None, dynamic_size: Any = None, clear_after_read: Any = None,
        tensor_array_name: str | None = None, handle: Any = None, flow: Any = None, infer_shape: bool = True,
        element_shape: Any = None, colocate_with_first_write_call: bool = True, name: str | None = None,
    ) -> None:  # fmt: skip
        refuse("TensorArray", handle=handle, flow=flow, element_shape=element_shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.dynamic_size = bool(dynamic_size)
        self._clears = clear_after_read is None or bool(clear_after_read)
        self._parts: list[Any] = [None] * int(0 if size is None else size)

    def size(self, name: str | None = None) -> Tensor:
        return as_tensor(len(self._parts))

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        at = int(index)
        try:
            tensor = as_tensor(value, self.dtype.numpy_dtype)
        except TypeError as error:
            raise InvalidArgumentError(f"TensorArray dtype is {self.dtype.name}: {error}") from error
        if tensor.dtype != self.dtype:
            raise InvalidArgumentError(f"Invalid data type {tensor.dtype!r}, expected {self.dtype!r}")
        if at < 0:
            raise OutOfRangeError("Writing to negative indices (index {at}) is not allowed.")
        if at >= len(self._parts) and not self.dynamic_size:
            raise OutOfRangeError(f"Tried to write to index {at} but array is not resizeable and size is: "
                                  f"{len(self._parts)}")  # fmt: skip
        self._parts += [None] * (at + 1 - len(self._parts))
        self._parts[at] = tensor
        return self

    def read(self, index: Any, name: str | None = None) -> Tensor:
        at = int(index)
        if not 0 <= at < len(self._parts):
            raise OutOfRangeError(f"Tried to read from index {at} but array size is: {len(self._parts)}")
        found = self._parts[at]
        if found is None:
            raise ValueError(f"Could not read index {at}: it was not written, or read before")
        if self._clears:
            self._parts[at] = None
        return found

    def stack(self, name: str | None = None) -> Tensor:
        if any(one is None for one in self._parts):
            known = next((one for one in self._parts if one is not None), None)
            if known is None:
                raise InvalidArgumentError("the shape of elements that were never written is not known")
            self._parts = [known * 0 if one is None else one for one in self._parts]
        return stack(list(self._parts))

    def concat(self, name: str | None = None) -> Tensor:
        return concat(list(self._parts), 0)

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        return gather(self.stack(), indices)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        self._parts = list(unstack(as_tensor(value, self.dtype.numpy_dtype)))
        return self

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        self._parts = list(
            split(as_tensor(value, self.dtype.numpy_dtype), as_tensor(lengths).numpy().tolist())
        )
        return self

    def identity(self) -> TensorArray:
        return self
