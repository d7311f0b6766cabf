"""tf.compat.v1.summary: what a model_fn wants told in the event file."""

from __future__ import annotations

from typing import Any

from ...tensor import as_tensor
from ...unknown import refuse
from . import add_to_collection

__all__ = ["scalar"]


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> None:
    """Tell a number every `save_summary_steps`, beside the loss."""
    refuse("summary.scalar", collections=collections)
    add_to_collection("summaries", (f"{family}/{name}" if family else name, as_tensor(tensor)))
