"""tf.data."""

from __future__ import annotations

from ..unknown import absent
from .dataset import AUTOTUNE, Dataset
from .iterators import OwnedIterator as Iterator
from .recipe import INFINITE as INFINITE_CARDINALITY
from .recipe import UNKNOWN as UNKNOWN_CARDINALITY

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset", "Iterator"]


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
