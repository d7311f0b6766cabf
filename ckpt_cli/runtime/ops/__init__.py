"""The operations, by what they are about; importing this package fills the table."""

from __future__ import annotations

from . import (
    arrays,
    convolution,
    elementwise,
    neural,
    normalization,
    random,
    reductions,
    state,
    training,
    windows,
)

__all__ = [
    "arrays", "convolution", "elementwise", "neural", "normalization", "random", "reductions", "state",
    "training", "windows",
]  # fmt: skip
