"""State that objects save by methods of their own, in the manner of other trackables.

    _serialize_to_tensors()                -> {name: tensor}, each saved as `.ATTRIBUTES/<name>`
    _restore_from_tensors({name: tensor})  gets all of those names at once
    _gather_saveables_for_checkpoint()     -> {name: variable, or what has `specs` and `restore`,
                                               or a function of the key that returns one}

tensorflow/python/checkpoint/save_util.py, tensorflow/python/training/saving/saveable_object_util.py
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.model.object_keys import escape

from .errors import InvalidArgumentError
from .reader import cpp_name
from .tensor import Tensor, as_tensor
from .trackable import Trackable
from .variable import Variable

if TYPE_CHECKING:
    from formats.core.spec import TensorSpec

__all__ = ["PythonState", "state_of"]

PYTHON_STATE = "py_state"


class PythonState(Trackable, abc.ABC):
    """Base of objects whose state is a text of bytes: tf.train.experimental.PythonState."""

    @abc.abstractmethod
    def serialize(self) -> Any:
        """Return the state, as bytes or text."""

    @abc.abstractmethod
    def deserialize(self, string_value: bytes) -> None:
        """Take a state that `serialize` returned."""

    def _serialize(self) -> dict[str, Any]:
        return {PYTHON_STATE: as_tensor(self.serialize())._value}

    def _restorable(self) -> tuple[str, ...]:
        return (PYTHON_STATE,)

    def _understands(self, attribute: str, spec: TensorSpec) -> bool:
        return spec.dtype.name == "string" and spec.shape == ()

    def _take_restored(self, attribute: str, value: Any) -> None:
        self.deserialize(np.asarray(value, object).item())


class _State:
    """The state of an object that has methods for it: what a trackable says of its own, said for it."""

    _key_suffix = ""
    _saved_dtype = None

    def __init__(self, owner: Trackable) -> None:
        self._owner = owner

    def _full_name(self) -> str:
        return self._owner._full_name()

    def _understands(self, attribute: str, spec: TensorSpec) -> bool:
        return True

    def _decode_restored(self, attribute: str, value: Any) -> Any:
        return value


class _TensorsState(_State):
    """By `_serialize_to_tensors` and `_restore_from_tensors`."""

    def __init__(self, owner: Any) -> None:
        super().__init__(owner)
        self._tensors: dict[str, Tensor] = {}
        self._restored: dict[str, Tensor] = {}
        for name, value in owner._serialize_to_tensors().items():
            whole = value.get("") if isinstance(value, dict) and len(value) == 1 else value
            if whole is None or isinstance(whole, dict):
                raise NotImplementedError(f"{name}: a tensor saved in slices is not supported")
            self._tensors[name] = as_tensor(whole() if callable(whole) else whole)
        self._names = {escape(name): name for name in self._tensors}

    def _serialize(self) -> dict[str, Any]:
        return {name: tensor._value for name, tensor in self._tensors.items()}

    def _restorable(self) -> tuple[str, ...]:
        return tuple(self._names)

    _required = _restorable

    def _check_restored(self, attribute: str, spec: TensorSpec) -> None:
        expected = self._tensors[self._names[attribute]].dtype.name
        if spec.dtype.name != expected:
            raise InvalidArgumentError(
                f"tensor_name = {spec.key}; expected dtype {cpp_name(expected)} does not equal original "
                f"dtype {cpp_name(spec.dtype.name)} [Op:RestoreV2]"
            )

    def _take_restored(self, attribute: str, value: Any) -> None:
        self._restored[self._names[attribute]] = Tensor(value)
        if len(self._restored) == len(self._tensors):
            owner: Any = self._owner
            owner._restore_from_tensors({name: self._restored[name] for name in self._tensors})


class _GatheredState(_State):
    """By `_gather_saveables_for_checkpoint`."""

    def __init__(self, owner: Any) -> None:
        super().__init__(owner)
        self._saveables: dict[str, Any] = owner._gather_saveables_for_checkpoint()

    def _saveable(self, name: str) -> Any:
        """Return a variable, or an object with one spec."""
        made = self._saveables[name]
        if not isinstance(made, Variable) and callable(made):
            made = made(name=name)
        if not isinstance(made, Variable) and len(getattr(made, "specs", ())) != 1:
            kind = type(made).__name__
            raise NotImplementedError(f"{name}: a {kind} is neither a variable nor a saveable with one spec")
        return made

    def _value(self, name: str) -> Any:
        made = self._saveable(name)
        if isinstance(made, Variable):
            return made._value
        tensor = made.specs[0].tensor
        return as_tensor(tensor() if callable(tensor) else tensor)._value

    def _serialize(self) -> dict[str, Any]:
        return {name: self._value(name) for name in self._saveables}

    def _restorable(self) -> tuple[str, ...]:
        return tuple(self._saveables)

    def _required(self) -> tuple[str, ...]:
        return ()

    def _check_restored(self, attribute: str, spec: TensorSpec) -> None:
        made = self._saveable(attribute)
        if isinstance(made, Variable):
            made._check_restored(attribute, spec)

    def _take_restored(self, attribute: str, value: Any) -> None:
        made = self._saveable(attribute)
        if isinstance(made, Variable):
            made._take_restored(attribute, value)
        else:
            made.restore([Tensor(value)], None)


def state_of(owner: Trackable) -> Any:
    """Return what saves and restores an object's own state: the object, unless it has methods for that."""
    if hasattr(owner, "_serialize_to_tensors"):
        return _TensorsState(owner)
    if hasattr(owner, "_gather_saveables_for_checkpoint"):
        return _GatheredState(owner)
    return owner
