"""Iterators of datasets: trackables whose state is a tensor of their own.

    <path>/.ATTRIBUTES/ITERATOR_STATE   string scalar: JSON, arrays in it as base64

The object graph's key for it lacks `_STATE`, as TensorFlow's does.  TensorFlow's own
state is a variant; it cannot be understood here, and a restore says so.
"""

from __future__ import annotations

import base64
import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import DataLossError, InvalidArgumentError, OutOfRangeError
from .trackable import Trackable

if TYPE_CHECKING:
    from formats.core.spec import TensorSpec

    from .cursors import Cursor, Source

__all__ = ["OwnedIterator"]

logger = logging.getLogger("ckpt_cli.runtime")


class OwnedIterator(Trackable):
    """What `iter(dataset)` returns."""

    _key_suffix = "_STATE"

    def __init__(self, dataset: Source, number: int) -> None:
        self._dataset = dataset
        self._number = number
        self._cursor: Cursor = dataset.open(number)

    def __iter__(self) -> OwnedIterator:
        return self

    def __next__(self) -> Any:
        return self._cursor.next()

    def get_next(self) -> Any:
        """Return the next element; OutOfRangeError at the end."""
        try:
            return self._cursor.next()
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec

    def _serialize(self) -> dict[str, Any]:
        saved = {
            "pipeline": self._dataset.pipeline,
            "number": self._number,
            "state": _packed(self._cursor.state()),
        }
        value = np.empty((), object)
        value[()] = json.dumps(saved, separators=(",", ":")).encode()
        return {"ITERATOR": value}

    def _restorable(self) -> tuple[str, ...]:
        return ("ITERATOR",)

    def _understands(self, attribute: str, spec: TensorSpec) -> bool:
        understood = spec.dtype.name == "string" and not spec.shape
        if not understood:
            logger.warning(
                "%s: the state of an iterator of TensorFlow's, not understood here; the iterator begins anew",
                spec.key,
            )
        return understood

    def _decode_restored(self, attribute: str, value: Any) -> Any:
        try:
            saved = json.loads(value.item())
            pipeline, number, state = str(saved["pipeline"]), int(saved["number"]), _unpacked(saved["state"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataLossError(f"the state of an iterator cannot be decoded: {error}") from error
        if pipeline != self._dataset.pipeline:
            message = f"the saved iterator is of a dataset {pipeline}, this one of {self._dataset.pipeline}"
            raise InvalidArgumentError(message)
        cursor = self._dataset.open(number)
        try:
            cursor.restore(state)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataLossError(f"the state of an iterator does not fit its dataset: {error!r}") from error
        return number, cursor

    def _take_restored(self, attribute: str, value: Any) -> None:
        self._number, self._cursor = value

    def __repr__(self) -> str:
        return f"<OwnedIterator of {self._dataset.pipeline}>"


def _packed(value: Any) -> Any:
    """Return a state as JSON has it; arrays and tuples as objects that say what they are."""
    if isinstance(value, dict):
        return {"map": [[key, _packed(one)] for key, one in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_packed(one) for one in value]}
    if isinstance(value, list):
        return [_packed(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype == object:
            return {
                "strings": [base64.b64encode(one).decode() for one in array.reshape(-1)],
                "shape": array.shape,
            }
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return {"array": data, "dtype": array.dtype.str, "shape": array.shape}
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "map" in value:
        return {key: _unpacked(one) for key, one in value["map"]}
    if "tuple" in value:
        return tuple(_unpacked(one) for one in value["tuple"])
    if "strings" in value:
        out = np.empty(len(value["strings"]), object)
        out[:] = [base64.b64decode(one) for one in value["strings"]]
        return out.reshape(value["shape"])
    dtype = np.dtype(value["dtype"])
    if dtype.hasobject:
        raise ValueError(f"dtype {dtype}")
    return np.frombuffer(base64.b64decode(value["array"]), dtype).reshape(value["shape"]).copy()
