"""tf.keras.models."""

from __future__ import annotations

from .functional import Functional
from .model import Model, Sequential

__all__ = ["Functional", "Model", "Sequential"]
