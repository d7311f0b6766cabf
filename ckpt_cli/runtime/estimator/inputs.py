"""The batches of features and labels that an `input_fn` returns."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from ..data.dataset import Dataset
from ..nest import map_structure
from ..tensor import as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Batch", "argument_names", "batches"]


class Batch(NamedTuple):
    """Tensors, or dicts of them; `labels` is None where there are none."""

    features: Any
    labels: Any = None

    def arguments(self) -> tuple[Any, ...]:
        return (self.features,) if self.labels is None else (self.features, self.labels)


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the arguments that a function takes; what a partial has filled in is none."""
    names = tuple(inspect.signature(function).parameters)
    filled = function.keywords if isinstance(function, functools.partial) else {}
    return tuple(name for name in names if name not in filled)


def batches(found: Any) -> Iterator[Batch]:
    """Yield the batches of what an input_fn returned: a dataset, or features and labels for every step.

    A dataset is read from its first pass on, so that a call does not depend on the calls before it.
    """
    if found is None:
        raise ValueError("input_fn should return a Dataset, or features and labels; it returned None.")
    if not isinstance(found, Dataset):
        batch = _parsed(map_structure(_tensor, found))
        while True:
            yield batch
    for element in found.afresh():
        yield _parsed(element)


def _tensor(value: Any) -> Any:
    return None if value is None else as_tensor(value)


def _parsed(element: Any) -> Batch:
    if isinstance(element, list | tuple):
        if len(element) != 2:
            raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
        return Batch(element[0], element[1])
    return Batch(element)
