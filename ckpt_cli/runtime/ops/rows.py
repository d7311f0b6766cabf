"""Large arrays, done in parts that stay in a processor's cache."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..parts import cut, share

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LARGE", "Rows", "in_parts"]

_ELEMENTS = 1 << 16
"""That are done at a time: 256 KiB of float32."""

LARGE = 1 << 20
"""Elements from which on a pass is shared: some 300 microseconds.  On a busy machine the wait for the last
part, by a thread whose turn it is not, takes milliseconds; it would be more than is gained.
"""

_WIDTH = 1024
"""Elements that a row is to have: a row takes numpy some ten nanoseconds more."""


def in_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function by element, called with operands and `out`, that does large operands in parts.

    Later operands are of the first one's dtype and are broadcast to its shape, or it is not done in parts.
    """

    def forward(x: Any, *others: Any) -> Any:
        if (
            x.size < LARGE
            or x.ndim < 2
            or any(np.broadcast_shapes(x.shape, other.shape) != x.shape for other in others)
        ):
            return function(x, *others)
        out = np.empty(x.shape, x.dtype)
        is_cut = [other.ndim == x.ndim and len(other) == len(x) for other in others]

        def work(piece: slice) -> None:
            pieces = (other[piece] if cuts else other for other, cuts in zip(others, is_cut, strict=True))
            function(x[piece], *pieces, out=out[piece])

        share(work, cut(len(x), max(1, len(x) * _ELEMENTS // x.size)))
        return out

    return forward


class Rows:
    """A batch as rows of channels, several in one where that makes the rows longer."""

    def __init__(self, x: Any) -> None:
        self.channels = x.shape[-1]
        self.count = math.prod(x.shape[:-1])
        self.folds = 1
        while self.channels * self.folds < _WIDTH and self.count and not self.count % (2 * self.folds):
            self.folds *= 2
        self.shape = self.count // self.folds, self.channels * self.folds
        step = max(1, _ELEMENTS // max(self.shape[1], 1))
        self.pieces = [slice(at, at + step) for at in range(0, self.shape[0], step)]

    def of(self, x: Any) -> Any:
        return x.reshape(self.shape)

    def along(self, channels: Any) -> Any:
        """Return channel values repeated along a row."""
        return np.tile(channels, self.folds)

    def sums(self, *values: Any) -> list[Any]:
        """Return sums for each channel, of what functions of a piece return; in one order on any machine."""
        parts = np.zeros((len(values), len(self.pieces), self.shape[1]), np.float64)

        def work(at: int) -> None:
            for number, value in enumerate(values):
                parts[number, at] = value(self.pieces[at]).sum(axis=0)

        share(work, range(len(self.pieces)))
        return list(parts.sum(axis=1).reshape(len(values), self.folds, self.channels).sum(axis=1))

    def made(self, like: Any, value: Any) -> Any:
        """Return an array of the batch's shape, filled piece by piece by a function."""
        out = np.empty(self.shape, like.dtype)

        def work(piece: slice) -> None:
            out[piece] = value(piece)

        share(work, self.pieces)
        return out.reshape(like.shape)
