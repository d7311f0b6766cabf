"""How the operations of an export follow each other, and what this says of the weights that they use.

The input of an operation, or what becomes of it, identifies the weights of a normalization:

    variance   Rsqrt(variance + epsilon)
    scale      the factor of a Mul, whose result is not subtracted
    mean       x - mean, or the factor of a Mul whose result is subtracted
    offset     the term of an Add, or offset - mean * factor
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.model.operation_nodes import OperationNode

SCALE, OFFSET, MEAN, VARIANCE, KERNEL = "scale", "offset", "mean", "variance", "kernel"

_STATISTICS = (SCALE, OFFSET, MEAN, VARIANCE)
_FUSED_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx")
_AFFINE = ("LayerNormalization", "InstanceNormalization", "GroupNormalization")
_KERNEL_FIRST = (
    *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "Conv", "ConvTranspose", "Gemm", "Gemm(transB)"),
    *("_FusedConv2D", "_FusedMatMul", "_FusedDepthwiseConv2dNative", "FusedDepthwiseConv2dNative"),
)
_INPUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*_FUSED_NORMS, "BatchNormalization"), ("", *_STATISTICS)),
    **dict.fromkeys(_AFFINE, ("", SCALE, OFFSET)),
    **dict.fromkeys(_KERNEL_FIRST, ("", KERNEL, OFFSET)),
    **dict.fromkeys(("Conv2D", "DepthwiseConv2dNative", "MatMul"), ("", KERNEL)),
    "TRANSPOSE_CONV": ("", KERNEL, "", OFFSET),
    "BiasAdd": ("", OFFSET),
}
"""The weights that are the inputs of an operation."""

_ADDS = frozenset(("ADD", "Add", "AddV2"))
_SUBTRACTS = frozenset(("SUB", "Sub"))
_MULTIPLIES = frozenset(("MUL", "Mul"))
_ROOTS = frozenset(("RSQRT", "Rsqrt", "SQRT", "Sqrt"))
_NEGATES = frozenset(("NEG", "Neg"))
_SHAPES = frozenset(("SHAPE", "Shape"))
_PASSES = frozenset(
    (
        *("RESHAPE", "TRANSPOSE", "SQUEEZE", "EXPAND_DIMS", "Reshape", "Transpose", "Squeeze", "Unsqueeze"),
        *("ExpandDims", "Identity", "Cast", "DEQUANTIZE", "QUANTIZE", "BroadcastTo", "Expand"),
    )
)
"""Operations that leave values as they are."""

_KEEP_LAYER = _ADDS | _MULTIPLIES | _PASSES | {"BiasAdd"}
"""Operations with a weight of the layer in front; others with weights begin the next layer."""

_FURTHEST = 8
"""Operations that are followed."""


class Use(NamedTuple):
    """The first use of a weight: the number of the operation, the operation, and as which input.

    `names` are those of the operation, `others` the keys of its other inputs.  `behind` and `front` are the
    names of the operations behind it and in front of its first input, past those that leave values as they
    are.  `family` says what a weight must be there.
    """

    order: int
    operation: str
    position: int
    names: tuple[str, ...]
    others: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    front: tuple[str, ...] = ()
    family: str = ""

    @property
    def is_shape(self) -> bool:
        """Whether only the shape of the weight is used."""
        return self.operation in _SHAPES


class Flow:
    """The operations of a graph."""

    def __init__(self, nodes: Iterable[OperationNode]) -> None:
        self._nodes = list(nodes)
        self._made = {value: node for node in self._nodes for value in node.results}
        self._used: dict[str, list[tuple[OperationNode, int]]] = {}
        self._first: dict[str, tuple[int, int]] = {}
        for order, node in enumerate(self._nodes):
            for position, value in enumerate(node.operands):
                self._used.setdefault(value, []).append((node, position))
            for position, key in enumerate(node.inputs):
                known = self._first.get(key)
                if key and (known is None or self._nodes[known[0]].operation in _SHAPES):
                    self._first[key] = order, position

    def uses(self) -> dict[str, Use]:
        """Return the first use of each weight, of its values if they are used."""
        return {key: self._use(key, *place) for key, place in self._first.items()}

    def _use(self, key: str, order: int, position: int) -> Use:
        node = self._nodes[order]
        others = tuple(other for other in node.inputs if other and other != key)
        names = [name for each in self._behind(node) for name in each.names]
        front = [name for each in self._front(node) for name in each.names]
        return Use(
            *(order, node.operation, position, node.names, others, tuple(names), tuple(front)),
            self._family(node, position, _FURTHEST),
        )

    def _behind(self, node: OperationNode) -> Iterator[OperationNode]:
        """Yield the operations behind one, as long as they are the only ones and leave values as they are."""
        for _ in range(_FURTHEST):
            found = [one for value in node.results for one, _ in self._used.get(value, ())]
            if len(found) != 1 or (found[0].operation not in _KEEP_LAYER and any(found[0].inputs)):
                return
            node = found[0]
            yield node
            if node.operation not in _PASSES:
                return

    def _front(self, node: OperationNode) -> Iterator[OperationNode]:
        for _ in range(_FURTHEST):
            before = self._made.get(node.operands[0]) if node.operands else None
            if before is None:
                return
            node = before
            yield node
            if node.operation not in _PASSES:
                return

    def _next(self, node: OperationNode) -> list[tuple[OperationNode, int]]:
        return [one for value in node.results for one in self._used.get(value, ())]

    def _family(self, node: OperationNode, position: int, left: int) -> str:
        """Return what a weight must be that is an input of an operation; nothing if that is open."""
        if node.operation in _PASSES and position == 0 and left:
            found = {self._family(*each, left - 1) for each in self._next(node)}
            return found.pop() if len(found) == 1 else ""
        if node.operation in _KERNEL_FIRST and len(node.operands) == 2 + len(_STATISTICS):
            return ("", KERNEL, *_STATISTICS)[position]
        roles = _INPUTS.get(node.operation)
        if roles is not None:
            return roles[position] if position < len(roles) else ""
        if node.operation in _SUBTRACTS:
            return MEAN if position else OFFSET
        if node.operation in _ADDS:
            is_root = any(one.operation in _ROOTS for one, _ in self._next(node))
            return VARIANCE if is_root else OFFSET
        if node.operation in _MULTIPLIES:
            return MEAN if self._is_subtracted(node) else SCALE
        return ""

    def _is_subtracted(self, node: OperationNode) -> bool:
        """Whether the result of an operation is subtracted, and nothing else."""
        behind = self._next(node)
        return bool(behind) and all(
            one.operation in _NEGATES or (one.operation in _SUBTRACTS and at == 1) for one, at in behind
        )
