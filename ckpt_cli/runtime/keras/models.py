"""tf.keras.models."""

from __future__ import annotations

from .functional import Functional
from .model import Model, Sequential
from .model_json import model_from_json

__all__ = ["Functional", "Model", "Sequential", "model_from_json"]
