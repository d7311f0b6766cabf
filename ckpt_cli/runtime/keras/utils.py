"""tf.keras.utils: seeds and one-hot labels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ..ops.random import reset_seed
from .initializers import reset_seeds

__all__ = ["set_random_seed", "to_categorical"]


def set_random_seed(seed: int) -> None:
    """Seed Python's, numpy's and this runtime's random numbers."""
    random.seed(seed)
    np.random.seed(seed)
    reset_seed(seed)
    reset_seeds(seed)


def to_categorical(y: Any, num_classes: int | None = None, dtype: str = "float32") -> Any:
    """Return integers as rows with a one at their place."""
    labels = np.asarray(y, int)
    return np.eye(num_classes or int(labels.max()) + 1, dtype=dtype)[labels]
