"""tf.compat.v1.summary: numbers that a model_fn writes to the event file."""

from __future__ import annotations

from typing import Any

from ...tensor import as_tensor
from ...unknown import refuse
from . import add_to_collection

__all__ = ["scalar"]


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> None:
    """Write a number every `save_summary_steps`, next to the loss."""
    refuse("summary.scalar", collections=collections)
    add_to_collection("summaries", (f"{family}/{name}" if family else name, as_tensor(tensor)))
