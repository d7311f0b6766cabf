"""tf.data."""

from __future__ import annotations

from .datasets import AUTOTUNE, Dataset
from .iterators import OwnedIterator as Iterator

__all__ = ["AUTOTUNE", "Dataset", "Iterator"]
