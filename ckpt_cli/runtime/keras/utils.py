"""tf.keras.utils: seeds and one-hot labels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ..ops.random import reset_seed
from ..unknown import absent
from .initializers import reset_seeds

__all__ = [
    "pack_x_y_sample_weight", "pad_sequences", "set_random_seed", "to_categorical",
    "unpack_x_y_sample_weight",
]  # fmt: skip


def set_random_seed(seed: int) -> None:
    """Seed Python's, numpy's and this runtime's random numbers."""
    random.seed(seed)
    np.random.seed(seed)
    reset_seed(seed)
    reset_seeds(seed)


def to_categorical(y: Any, num_classes: int | None = None, dtype: str = "float32") -> Any:
    """Return integers as rows with a one at their place."""
    labels = np.asarray(y, int)
    labels = labels[..., 0] if labels.ndim > 1 and labels.shape[-1] == 1 else labels
    return np.eye(num_classes or int(labels.max()) + 1, dtype=dtype)[labels]


def pad_sequences(
    sequences: Any, maxlen: int | None = None, dtype: str = "int32", padding: str = "pre",
    truncating: str = "pre", value: Any = 0.0,
) -> Any:  # fmt: skip
    """Return sequences as rows of one length, filled or cut at their beginnings or ends."""
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for one in sequences:
        if not hasattr(one, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {one}")
    for what, given in (("Truncating", truncating), ("Padding", padding)):
        if given not in ("pre", "post") and len(sequences):
            raise ValueError(f'{what} type "{given}" not understood')
    length = max(len(one) for one in sequences) if maxlen is None else maxlen
    inner = next((np.asarray(one).shape[1:] for one in sequences if len(one)), ())
    if isinstance(value, str) and np.dtype(dtype).kind not in "OSU":
        raise ValueError(f"`dtype` {dtype} is not compatible with `value`'s type: {type(value)}")
    out = np.full((len(sequences), length, *inner), value, dtype=dtype)
    for row, one in zip(out, sequences, strict=True):
        kept = np.asarray(one[-length:] if truncating == "pre" else one[:length], dtype=dtype)
        if len(kept) and kept.shape[1:] != inner:
            raise ValueError(f"Shape of sample {kept.shape[1:]} is different from expected shape {inner}")
        if len(kept):
            row[slice(-len(kept), None) if padding == "pre" else slice(len(kept))] = kept
    return out


def unpack_x_y_sample_weight(data: Any) -> tuple[Any, Any, Any]:
    """Return a batch's inputs, labels and weights, None for what it does not have."""
    parts = tuple(data) if isinstance(data, list | tuple) else (data,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(
            "Data is expected to be in format `x`, `(x,)`, `(x, y)`, or `(x, y, sample_weight)`, "
            f"found: {len(parts)} parts"
        )
    return (*parts, None, None)[:3]


def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Return a batch of inputs, labels and weights."""
    if y is None:
        return (x,) if isinstance(x, list | tuple) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
