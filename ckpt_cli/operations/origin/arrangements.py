"""How the axes of a weight may be arranged: transposed, then reshaped, into the shape that an export has.

If several orders of axes give one shape, as for a square kernel, the operation that uses the weight decides.
Orders are those of Keras' kernels; those of PyTorch are the orders of ONNX.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Shape = tuple[int, ...]

_MOST_AXES = 5

_IN_CHANNELS_LAST: dict[str, dict[int, Shape]] = {
    "CONV_2D": {2: (1, 0), 3: (2, 0, 1), 4: (3, 0, 1, 2)},
    "DEPTHWISE_CONV_2D": {3: (0, 1, 2), 4: (0, 1, 2, 3)},
    "FULLY_CONNECTED": {2: (1, 0)},
    "TRANSPOSE_CONV": {4: (2, 0, 1, 3)},
    "GATHER": {2: (0, 1)},
    "Gather": {2: (0, 1)},
    "MatMul": {2: (0, 1)},
    "Gemm": {2: (0, 1)},
    "Gemm(transB)": {2: (1, 0)},
    "Conv": {3: (2, 1, 0), 4: (3, 2, 0, 1)},
    "ConvTranspose": {4: (3, 2, 0, 1)},
}
_IN_CHANNELS_FIRST: dict[str, dict[int, Shape]] = {
    "CONV_2D": {2: (0, 1), 4: (0, 2, 3, 1)},
    "DEPTHWISE_CONV_2D": {4: (1, 2, 3, 0)},
    "FULLY_CONNECTED": {2: (0, 1)},
    "TRANSPOSE_CONV": {4: (1, 2, 3, 0)},
    "GATHER": {2: (0, 1)},
    "Gather": {2: (0, 1)},
    "MatMul": {2: (1, 0)},
    "Gemm": {2: (1, 0)},
    "Gemm(transB)": {2: (0, 1)},
    "Conv": {3: (0, 1, 2), 4: (0, 1, 2, 3)},
    "ConvTranspose": {3: (0, 1, 2), 4: (0, 1, 2, 3)},
}


_EINSUMS: dict[str, tuple[Shape, ...]] = {
    "FULLY_CONNECTED": ((1, 2, 0), (2, 0, 1)),
    "Gemm(transB)": ((1, 2, 0), (2, 0, 1)),
    "MatMul": ((0, 1, 2),),
    "Gemm": ((0, 1, 2),),
}
"""The orders of attention kernels: heads and their dimensions are outputs of some, and inputs of others."""

_HEADS_ARE_OUTPUTS = ("query", "key", "value")


class Arrangement(NamedTuple):
    """An order of axes, and the resulting shape."""

    order: Shape
    shape: Shape

    def apply(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a weight, or the part of it that some rows of the result are made of, arranged."""
        if array.size == math.prod(self.shape):
            return array.transpose(self.order).reshape(self.shape)
        return array.transpose(self.order).reshape((-1, *self.shape[1:]))

    def leading(self, before: Shape) -> int | None:
        """Return the axis of a weight that is the first axis of the result, if it is one."""
        is_one = bool(self.shape) and 0 not in before and before[self.order[0]] == self.shape[0]
        return self.order[0] if is_one else None

    def words(self, before: Shape) -> str:
        """Return what is done to a weight of a shape, in words; nothing if it stays as it is."""
        moved = [axis for axis in self.order if before[axis] != 1]
        words = []
        if moved != sorted(moved):
            words.append(f"transposed ({', '.join(map(str, self.order))})")
        if tuple(before[axis] for axis in self.order) != self.shape:
            words.append(f"reshaped to {list(self.shape)}")
        return ", ".join(words)


def arrangements(
    before: Shape, after: Shape, operation: str, role: str, path: Sequence[str] = ()
) -> list[Arrangement]:
    """Return the arrangements from one shape to another that an operation allows.

    If several are possible and nothing decides, the first one, which keeps the axes, is returned.
    """
    found = orders_of(before, after)
    if len(before) == 3 and role == "kernel" and operation in _EINSUMS:
        fitting = [order for order in _of_heads(operation, path) if _meets(_arranged(before, order), after)]
        found = list({tuple(at for at in order if before[at] != 1): order for order in fitting}.values())
    elif len(found) > 1:
        required = _required_order(before, operation, role)
        found = [
            order for order in found if required is not None and _same(order, required, before)
        ] or found[:1]
    return [Arrangement(order, after) for order in found]


def open_arrangements(before: Shape, after: Shape, operation: str, role: str) -> list[Arrangement]:
    """Return all ways except the first, if nothing says which of several it is."""
    is_decided = _required_order(before, operation, role) is not None or (
        len(before) == 3 and operation in _EINSUMS
    )
    return [] if is_decided else [Arrangement(order, after) for order in orders_of(before, after)[1:]]


def orders_of(before: Shape, after: Shape) -> list[Shape]:
    """Return the orders of the axes of one shape that give another: axes of size 1 do not count."""
    if math.prod(before) != math.prod(after):
        return []
    if len(before) > _MOST_AXES:
        return [tuple(range(len(before)))] if _meets(before, after) else []
    seen: dict[Shape, Shape] = {}
    for order in itertools.permutations(range(len(before))):
        if _meets(_arranged(before, order), after):
            seen.setdefault(tuple(axis for axis in order if before[axis] != 1), order)
    return list(seen.values())


def _arranged(before: Shape, order: Shape) -> list[int]:
    return [before[axis] for axis in order]


def _of_heads(operation: str, path: Sequence[str]) -> Sequence[Shape]:
    """Return the orders of an attention kernel, by the path of its layer."""
    orders = _EINSUMS[operation]
    name = path[-1] if path and len(orders) > 1 else ""
    if any(word in name for word in _HEADS_ARE_OUTPUTS):
        return orders[:1]
    return orders[1:] if "output" in name else orders


def _same(one: Shape, other: Shape, shape: Shape) -> bool:
    return [axis for axis in one if shape[axis] != 1] == [axis for axis in other if shape[axis] != 1]


def _required_order(before: Shape, operation: str, role: str) -> Shape | None:
    """Return the order of axes that an operation needs."""
    is_pytorch = role in ("weight", "weights") or role.endswith(("_weight", "_v", "_g"))
    is_pytorch = is_pytorch or role.startswith(("weight_ih_l", "weight_hh_l"))
    table = _IN_CHANNELS_FIRST if is_pytorch else _IN_CHANNELS_LAST
    if role == "depthwise_kernel" and operation == "Conv" and len(before) == 4:
        return (2, 3, 0, 1)
    return table.get(operation, {}).get(len(before))


def _meets(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether one shape is the other with axes merged, or with axes of size 1."""
    one, other = ([size for size in shape if size != 1] for shape in (before, after))
    return one == other or _merges(one, other) or _merges(other, one)


def _merges(fine: Sequence[int], coarse: Sequence[int]) -> bool:
    if 0 in fine:
        return False
    sizes = iter(fine)
    for wanted in coarse:
        size = 1
        while size < wanted:
            size *= next(sizes, wanted + 1)
        if size != wanted:
            return False
    return next(sizes, None) is None
