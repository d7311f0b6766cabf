"""The nodes of an ONNX model's main graph, with the stored tensors that each one uses.

GraphProto     1 node
NodeProto      1 input, 2 output, 3 name, 4 op_type, 5 attribute, 9 metadata_props
AttributeProto 1 name, 3 i
StringStringEntryProto 1 key, 2 value

torch.onnx stores the module of a node in `pkg.torch.onnx.name_scopes`, as the text of a Python list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.operation_nodes import OperationNode

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from .message_ranges import MessageFile, MessageRange

_PASSES_ON = frozenset(("Identity", "Cast", "DequantizeLinear"))
_MOST_INPUTS = 1 << 16
_LONGEST_SCOPE = 1 << 12


def onnx_nodes(message: MessageFile, graph: MessageRange, keys: Container[str]) -> Iterator[OperationNode]:
    """Yield the nodes of a graph; `keys` are those of stored tensors."""
    passed: dict[str, str] = {}
    for field in message.fields(graph):
        if field.number != 1 or field.varint is not None:
            continue
        node, outputs = _parsed(message, field.span)
        used = tuple(passed.get(name, name if name in keys else "") for name in node.inputs)
        if node.operation in _PASSES_ON and used and used[0] and outputs:
            passed[outputs[0]] = used[0]
        elif node.operation != "Constant":
            yield node._replace(inputs=used, operands=node.inputs, results=tuple(outputs))


def _parsed(message: MessageFile, span: MessageRange) -> tuple[OperationNode, list[str]]:
    """Return a node with the names of all its inputs, and the names of its outputs."""
    name, operation, flag, scope = "", "", "", ""
    inputs: list[str] = []
    outputs: list[str] = []
    for field in message.fields(span):
        if field.varint is not None:
            continue
        if field.number in (1, 2) and len(inputs) + len(outputs) < _MOST_INPUTS:
            (inputs if field.number == 1 else outputs).append(message.text(field.span))
        elif field.number == 3:
            name = message.text(field.span)
        elif field.number == 4:
            operation = message.text(field.span)
        elif field.number == 5:
            flag = flag or _transposed(message, field.span)
        elif field.number == 9:
            scope = scope or _scope(message, field.span)
    names = (*((scope,) if scope else ()), name, *outputs)
    return OperationNode(operation + flag, names, tuple(inputs)), outputs


def _scope(message: MessageFile, span: MessageRange) -> str:
    """Return the name of a node's module, if this message has it."""
    texts = {1: "", 2: ""}
    for field in message.fields(span):
        if field.varint is None and field.number in texts and field.span.size <= _LONGEST_SCOPE:
            texts[field.number] = message.text(field.span)
    if texts[1] != "pkg.torch.onnx.name_scopes":
        return ""
    scopes = texts[2].strip("[]").split(", ")
    return scopes[-2].strip("'\"") if len(scopes) > 1 else ""


def _transposed(message: MessageFile, span: MessageRange) -> str:
    """Return the mark of a Gemm whose second input is transposed."""
    is_flag = value = False
    for field in message.fields(span):
        if field.number == 1 and field.varint is None and field.span.size == len("transB"):
            is_flag = message.text(field.span) == "transB"
        elif field.number == 3:
            value = bool(field.varint)
    return "(transB)" if is_flag and value else ""
