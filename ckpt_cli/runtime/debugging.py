"""tf.debugging: assertions about values, which raise InvalidArgumentError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidArgumentError
from .functions import assert_equal
from .signatures import with_signature
from .tensor import OPERATIONS, Tensor, as_tensor
from .unknown import absent, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

_PAIRS = ("less", "less_equal", "greater", "greater_equal")
_SIGNS = {
    "positive": "greater", "non_negative": "greater_equal", "negative": "less", "non_positive": "less_equal",
}  # fmt: skip
__all__ = [  # noqa: PLE0604
    "assert_all_finite", "assert_equal", "assert_near", "assert_none_equal", "assert_rank", "assert_shapes",
    "check_numerics",
    *(f"assert_{name}" for name in (*_PAIRS, *_SIGNS)),
]  # fmt: skip


def _pair(name: str, operation: str) -> Callable[..., None]:
    def check(
        x: Any, y: Any, message: str | None = None, summarize: Any = None, name: str | None = None
    ) -> None:
        if not np.all(OPERATIONS[operation](x, y)._value):
            raise InvalidArgumentError(
                f"{message or ''} Condition x {operation} y did not hold: {x!r}, {y!r}"
            )

    check.__name__ = check.__qualname__ = name
    return check


def _sign(name: str, operation: str) -> Callable[..., None]:
    pair = _pair(name, operation)

    def check(x: Any, message: str | None = None, summarize: Any = None, name: str | None = None) -> None:
        pair(x, 0, message)

    check.__name__ = check.__qualname__ = name
    return check


globals().update({f"assert_{name}": _pair(f"assert_{name}", name) for name in _PAIRS})
globals().update({f"assert_{name}": _sign(f"assert_{name}", operation) for name, operation in _SIGNS.items()})
assert_none_equal = with_signature(_pair("assert_none_equal", "not_equal"), "x y summarize message name")


def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, message: str | None = None, summarize: Any = None,
    name: str | None = None,
) -> None:  # fmt: skip
    left = as_tensor(x)._value
    right = as_tensor(y, left.dtype)._value
    least = 10 * np.finfo(left.dtype).eps
    bounds = (least if atol is None else atol) + (least if rtol is None else rtol) * np.abs(right)
    if not np.all(np.abs(left - right) < bounds):
        raise InvalidArgumentError(f"{message or ''} x and y not equal to tolerance: {x!r}, {y!r}")


def assert_rank(x: Any, rank: int, message: str | None = None, name: str | None = None) -> None:
    if as_tensor(x).ndim != int(rank):
        raise ValueError(f"{message or ''} Tensor must have rank {rank}. Received {as_tensor(x).shape}")


def assert_shapes(
    shapes: Any, data: Any = None, summarize: Any = None, message: str | None = None, name: str | None = None
) -> None:
    """Raise ValueError if sizes are not the numbers, or of one symbol not the same, that a shape says."""
    refuse("assert_shapes", data=data)
    known: dict[Any, Any] = {}
    for x, shape in shapes.items() if isinstance(shapes, dict) else shapes:
        own = as_tensor(x).shape
        wanted = list(shape) if isinstance(shape, list | tuple) else list(str(shape))
        if any(one is Ellipsis or one in ("...", "*") for one in wanted):
            raise NotImplementedError("assert_shapes: a shape with ... or * is not supported")
        fits = len(wanted) == len(own)
        for size, one in zip(own, wanted, strict=False) if fits else ():
            number = (
                int(one)
                if str(one).isdigit()
                else known.setdefault(one, size)
                if one not in (None, ".")
                else size
            )
            fits = fits and number == size
        if not fits:
            raise ValueError(f"{message or ''} Specified by tensor {x!r}: shape {own} is not {shape}")


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    x = as_tensor(tensor)
    if not np.isfinite(x._value).all():
        raise InvalidArgumentError(f"{message} : Tensor had Inf or NaN values [Op:CheckNumerics]")
    return x


def assert_all_finite(x: Any, message: str, name: str | None = None) -> Tensor:
    return check_numerics(x, message)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
