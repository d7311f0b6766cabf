"""tf.keras.models."""

from __future__ import annotations

from typing import Any

from ..unknown import refuse
from .from_config import model_from_json
from .functional import Functional
from .model import Model, Sequential
from .saving import load_model, save_model

__all__ = ["Functional", "Model", "Sequential", "clone_model", "load_model", "model_from_json", "save_model"]


def clone_model(model: Any, input_tensors: Any = None, clone_function: Any = None) -> Any:
    """Return a model of the same layers with new weights."""
    refuse("clone_model", input_tensors=input_tensors, clone_function=clone_function)
    return type(model).from_config(model.get_config())
