"""The nodes of a TensorFlow graph, with the constants that each one uses, in an order of execution.

An input is `NAME`, `NAME:OUTPUT` or, if it only says what runs first, `^NAME`.
tensorflow/core/framework/node_def.proto
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..model.operation_nodes import OperationNode

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

_PASSES_ON = frozenset(("Identity", "Cast", "ReadVariableOp"))


class StoredNode(NamedTuple):
    """A node as the graph stores it."""

    name: str
    operation: str
    inputs: tuple[str, ...]


def graph_nodes(nodes: Iterable[StoredNode], keys: Container[str]) -> Iterator[OperationNode]:
    """Yield the operations of a graph; `keys` are those of stored tensors."""
    passed: dict[str, str] = {}
    for node in _sorted({one.name: one for one in nodes}):
        operands = tuple(name.removesuffix(":0") for name in node.inputs if not name.startswith("^"))
        used = tuple(passed.get(name, name if name in keys else "") for name in operands)
        if node.operation in _PASSES_ON and used and used[0]:
            passed[node.name] = used[0]
        elif node.operation != "Const":
            yield OperationNode(node.operation, (node.name,), used, operands, (node.name,))


def _sorted(nodes: dict[str, StoredNode]) -> Iterator[StoredNode]:
    """Yield each node behind its inputs; loops, which old graphs have, are cut."""
    done: set[str] = set()
    for first in nodes:
        waiting = [(first, False)]
        while waiting:
            name, is_ready = waiting.pop()
            if is_ready:
                yield nodes[name]
            elif name in nodes and name not in done:
                done.add(name)
                waiting.append((name, True))
                waiting += [(_node_of(each), False) for each in reversed(nodes[name].inputs)]


def _node_of(value: str) -> str:
    return value.removeprefix("^").partition(":")[0]
