"""tf.keras: Keras 2.15, as far as checkpoints and their verification need it."""

from __future__ import annotations

from ..unknown import absent
from . import (
    activations,
    backend,
    callbacks,
    initializers,
    layers,
    losses,
    metrics,
    models,
    optimizers,
    regularizers,
    saving,
    utils,
)
from .layers import Input
from .models import Model, Sequential

__all__ = [
    "Input", "Model", "Sequential", "activations", "backend", "callbacks", "initializers", "layers",
    "losses", "metrics", "models", "optimizers", "regularizers", "saving", "utils",
]  # fmt: skip


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
