"""The sections of an iterator's state that cursors write and read.

Cursors name a section by their prefix, and its values by keys.  An element is written
as its components under numbered keys.  A component that is a window is written as its graph:

    KEY.is_dataset: "", KEY.output_node: the node's name, KEY: the graph
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.tf.run.dataset_graph import Window, decode_window, encode_window
from formats.tf.run.iterator_state import State, short_key

from ..errors import FailedPreconditionError
from ..nest import flatten, pack_sequence_as
from ..tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Sections", "UnfitStateError", "refuse"]


class UnfitStateError(ValueError):
    """A state is not one of this pipeline."""


def text(value: bytes) -> np.ndarray[Any, Any]:
    """Return a string as a scalar of a state."""
    array = np.empty((), object)
    array[()] = value
    return array


class Sections:
    """The sections of one iterator's state."""

    def __init__(self, state: State | None = None) -> None:
        """Take a state to read; keys lose the prefix that some have in them."""
        self.written: State = {}
        self._read = {
            prefix: {short_key(prefix, key): value for key, value in values.items()}
            for prefix, values in (state or {}).items()
        }

    # Writing.

    def put(self, prefix: str, values: Mapping[str, int | bytes | np.ndarray[Any, Any]]) -> None:
        """Write values to a section: numbers as int64 scalars."""
        section = self.written.setdefault(prefix, {})
        for key, value in values.items():
            if isinstance(value, bytes):
                section[key] = text(value)
            else:
                section[key] = np.asarray(value, np.int64 if isinstance(value, int) else None)

    def put_element(self, prefix: str, key: str, element: Any) -> int:
        """Write an element's components, `{}` in the key being their number; return how many there are."""
        components = flatten(element)
        for number, component in enumerate(components):
            self._put_component(prefix, key.format(number), component)
        return len(components)

    def _put_component(self, prefix: str, key: str, component: Any) -> None:
        if isinstance(component, Tensor):
            self.put(prefix, {key: component._value})
            return
        held = component.step.kind.held(*component.step.settings)
        if held is None:
            raise refuse(f"a dataset {component.step} within an element")
        window = encode_window([[value._value] for value in held])
        self.put(
            prefix, {f"{key}.is_dataset": b"", f"{key}.output_node": window.node.encode(), key: window.graph}
        )

    # Reading.

    def has(self, prefix: str, key: str | None = None) -> bool:
        """Whether there is a section, or a key in it."""
        return prefix in self._read and (key is None or key in self._read[prefix])

    def value(self, prefix: str, key: str) -> np.ndarray[Any, Any]:
        """Return a value. Raises UnfitStateError if it is missing."""
        if not self.has(prefix, key):
            raise UnfitStateError(f"{prefix} has no {key!r}")
        return self._read[prefix][key]

    def number(self, prefix: str, key: str, least: int = 0, most: int | None = None) -> int:
        """Return an integer within bounds."""
        value = self.value(prefix, key)
        if value.dtype.kind != "i" or value.shape:
            raise UnfitStateError(
                f"{prefix}: {key} is {value.dtype} of shape {value.shape}, expected an integer"
            )
        found = int(value)
        if found < least or (most is not None and found > most):
            raise UnfitStateError(f"{prefix}: {key} is {found}, expected {least} to {most}")
        return found

    def string(self, prefix: str, key: str) -> bytes:
        """Return a string, which TensorFlow writes as a vector of one or a scalar."""
        value = self.value(prefix, key)
        if value.dtype != object or value.size != 1:
            raise UnfitStateError(
                f"{prefix}: {key} is {value.dtype} of shape {value.shape}, expected a string"
            )
        return bytes(value.item())

    def element(self, prefix: str, key: str, count: int, structure: Any) -> Any:
        """Return the element of `count` components that `put_element` writes, in a structure."""
        leaves = flatten(structure)
        if count != len(leaves):
            raise UnfitStateError(f"{prefix}: an element of {count} components, expected {len(leaves)}")
        found = [self._component(prefix, key.format(number), leaf) for number, leaf in enumerate(leaves)]
        return pack_sequence_as(structure, found)

    def _component(self, prefix: str, key: str, like: Any) -> Any:
        if isinstance(like, Tensor) == self.has(prefix, f"{key}.is_dataset"):
            raise UnfitStateError(
                f"{prefix}: {key} is a window where a tensor is expected, or the other way round"
            )
        if not isinstance(like, Tensor):
            window = Window(
                self.string(prefix, key), self.string(prefix, f"{key}.output_node").decode("utf-8", "replace")
            )
            if like.step.kind.held(*like.step.settings) is None:
                raise UnfitStateError(f"{prefix}: {key} is a window, expected a dataset {like.step}")
            held = tuple(Tensor(component) for row in _rows(prefix, key, window) for component in row)
            return type(like)(replace(like.step, settings=(held,)))
        value, expected = self.value(prefix, key), like._value
        if value.dtype != expected.dtype or value.ndim != expected.ndim:
            raise UnfitStateError(
                f"{prefix}: {key} is {value.dtype} of rank {value.ndim}, "
                f"expected {expected.dtype} of rank {expected.ndim}"
            )
        return Tensor(value)


def _rows(prefix: str, key: str, window: Window) -> list[list[np.ndarray[Any, Any]]]:
    try:
        return decode_window(window)
    except ValueError as error:
        raise UnfitStateError(f"{prefix}: {key}: {error}") from error


def refuse(what: str) -> FailedPreconditionError:
    """Return TensorFlow's error for a pipeline with something in it that cannot be saved."""
    return FailedPreconditionError(f"{what} is stateful.")
