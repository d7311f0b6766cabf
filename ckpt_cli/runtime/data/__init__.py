"""tf.data."""

from __future__ import annotations

from ..unknown import absent, namespace
from .dataset import AUTOTUNE, Dataset
from .files import TextLineDataset, TFRecordDataset
from .iterators import OwnedIterator as Iterator
from .recipe import INFINITE as INFINITE_CARDINALITY
from .recipe import UNKNOWN as UNKNOWN_CARDINALITY

__all__ = [
    "AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset", "Iterator", "Options",
    "TFRecordDataset", "TextLineDataset", "experimental",
]  # fmt: skip


class Options:
    """How TensorFlow makes elements; it has no effect here."""

    def __init__(self) -> None:
        self.deterministic = self.autotune = self.threading = None


def cardinality(dataset: Dataset) -> object:
    return dataset.cardinality()


experimental = namespace("data.experimental", cardinality=cardinality)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
