"""The nodes of an exported model's graph: which operation uses which weights."""

from __future__ import annotations

from typing import NamedTuple


class OperationNode(NamedTuple):
    """An operation of a graph, in the order of execution.

    `names` are its own and those of its outputs, where they are known. `inputs` has the key of each input
    that is a stored tensor, also of one that is dequantized or cast on the way; others are empty.
    `operands` and `results` say which operations follow each other: they name its inputs and outputs.
    """

    operation: str
    names: tuple[str, ...]
    inputs: tuple[str, ...]
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
