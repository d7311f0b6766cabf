"""The operations, by what they are about; importing this package fills the table."""

from __future__ import annotations

from . import arrays, elementwise, neural, random, reductions, state, training

__all__ = ["arrays", "elementwise", "neural", "random", "reductions", "state", "training"]
