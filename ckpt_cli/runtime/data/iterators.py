"""Iterators of datasets: trackables whose state is TensorFlow's.

    <path>/.ATTRIBUTES/ITERATOR_STATE   variant vector: see `formats.tf.run.iterator_state`

The object graph's key for it lacks `_STATE`, as TensorFlow's does.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.core.dtypes import VARIANT
from formats.tf.run.iterator_state import decode, encode

from ..errors import DataLossError, InvalidArgumentError, OutOfRangeError
from ..ops.random import Traced
from ..tensor import Tensor
from ..trackable import Trackable
from .functions import tell_of_reading
from .rewriting import rewritings, rewritten
from .saved import Sections, UnfitStateError

if TYPE_CHECKING:
    from formats.core.spec import TensorSpec

    from .cursors import Cursor
    from .dataset import Dataset
    from .recipe import Step

__all__ = ["OwnedIterator"]

ROOT = "Iterator::Root"

logger = logging.getLogger("ckpt_cli.runtime")


class Optional:
    """An element, or none."""

    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements

    def has_value(self, name: str | None = None) -> Tensor:
        return Tensor(np.bool_(bool(self._elements)))

    def get_value(self, name: str | None = None) -> Any:
        if not self._elements:
            raise InvalidArgumentError("The given optional does not have a value. [Op:OptionalGetValue]")
        return self._elements[0]


class OwnedIterator(Trackable):
    """What `iter(dataset)` returns."""

    _key_suffix = "_STATE"
    _saved_dtype = VARIANT

    def __init__(self, dataset: Dataset) -> None:
        tell_of_reading()
        self._dataset = dataset
        self._cursor = rewritten(dataset.step).open()
        self._functions = Traced(kept=True)

    def __iter__(self) -> OwnedIterator:
        return self

    def __next__(self) -> Any:
        with self._functions.called():
            return self._cursor.next()

    def get_next(self) -> Any:
        """Return the next element; OutOfRangeError at the end."""
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None

    def get_next_as_optional(self) -> Optional:
        """Return the next element, or what stands for none."""
        return Optional(list(itertools.islice(self, 1)))

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec

    def _serialize(self) -> dict[str, Any]:
        sections = Sections()
        self._cursor.save(sections, ROOT)
        elements = encode(sections.written)
        state = np.empty(len(elements), object)
        state[:] = elements
        return {"ITERATOR": state}

    def _restorable(self) -> tuple[str, ...]:
        return ("ITERATOR",)

    def _understands(self, attribute: str, spec: TensorSpec) -> bool:
        understood = spec.dtype == VARIANT
        if not understood:
            logger.warning(
                "%s: iterator state in the format of an early development version of ckpt, "
                "which is not supported; the iterator restarts",
                spec.key,
            )
        return understood

    def _decode_restored(self, attribute: str, value: Any) -> Any:
        """Return a state's sections, and which of the recipes they are of; nothing is changed yet."""
        try:
            sections = Sections(decode(value.reshape(-1)))
        except ValueError as error:
            raise DataLossError(f"the state of an iterator cannot be decoded: {error}") from error
        complaints = []
        for number, recipe in enumerate(rewritings(self._dataset.step.anew())):
            try:
                _restored(recipe, sections)
            except UnfitStateError as error:
                complaints.append(error)
            else:
                return number, sections
        raise InvalidArgumentError(
            f"the saved iterator is not of this dataset, {self._dataset.step}: {complaints[0]}"
        )

    def _take_restored(self, attribute: str, value: Any) -> None:
        number, sections = value
        self._cursor = _restored(rewritings(self._dataset.step)[number], sections)

    def __repr__(self) -> str:
        return f"<OwnedIterator of {self._dataset.step}>"


def _restored(recipe: Step, sections: Sections) -> Cursor:
    cursor = recipe.open()
    cursor.restore(sections, ROOT)
    return cursor
