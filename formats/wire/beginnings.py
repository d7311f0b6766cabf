"""Messages that are known by how they begin: protocol buffers have no first bytes of their own."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from .coding import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORD = rb"[\w.:/+-][ -~]*"


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message by number, numbers and bytes alone, as far as they are there."""
    at = 0
    while at < len(data):
        try:
            tag, at = decode_varint(data, at)
            value, at = decode_varint(data, at)
        except ValueError:
            return
        if tag & 7 == 0:
            yield tag >> 3, value
        elif tag & 7 == 2:
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            return


_ONNX_TEXTS, _ONNX_MESSAGES = (2, 3, 4, 6), (7, 8)


def is_onnx(head: bytes) -> bool:
    """Whether this is a ModelProto: its version, then who produced it, or the graph (onnx.proto)."""
    fields = itertools.islice(_fields(head), 2)
    (number, version), (following, value) = (*fields, (0, b""), (0, b""))[:2]
    if number != 1 or not isinstance(version, int) or not isinstance(value, bytes):
        return False
    is_text = following in _ONNX_TEXTS and bool(re.fullmatch(_WORD, value))
    return 3 <= version < 100 and (is_text or (following in _ONNX_MESSAGES and bool(value)))


def is_graph_def(head: bytes) -> bool:
    """Whether this is a GraphDef, which begins with a node: its name and its operation (graph.proto)."""
    number, node = next(_fields(head), (0, b""))
    if number != 1 or not isinstance(node, bytes):
        return False
    fields = list(itertools.islice(_fields(node), 2))
    texts = [value for _, value in fields if isinstance(value, bytes) and re.fullmatch(_WORD, value)]
    return [number for number, _ in fields] == [1, 2] and len(texts) == 2
