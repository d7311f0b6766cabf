"""Constants of ONNX that are attributes of their node, not a tensor: `value_float`, `value_ints` and others.

Attribute    1 name, 2 f (float), 3 i (int), 4 s (string), 7 floats, 8 ints, 9 strings
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..core.dtypes import BY_NAME
from ..core.spec import TensorSpec
from .reader import StoredWeight, one_range
from .typed_fields import Encoding, StringsTensor, TypedTensor

if TYPE_CHECKING:
    from ..store.base import File
    from .message_ranges import MessageFile, MessageRange

CONSTANT = "Constant"


class _Row(NamedTuple):
    """The field of an attribute, the dtype of its values, and whether there are several."""

    number: int
    dtype: str
    wire: str = ""
    is_list: bool = False


_ROWS = {
    "value_float": _Row(2, "float32", "<f4"),
    "value_int": _Row(3, "int64"),
    "value_string": _Row(4, "string"),
    "value_floats": _Row(7, "float32", "<f4", is_list=True),
    "value_ints": _Row(8, "int64", is_list=True),
    "value_strings": _Row(9, "string", is_list=True),
}


def constant(message: MessageFile, file: File, span: MessageRange, key: str) -> StoredWeight | None:
    """Return the constant that an attribute of a `Constant` node is; None if it is none of these."""
    row, count = None, 0
    for field in message.fields(span):
        if field.number == 1 and field.varint is None:
            row = _ROWS.get(message.text(field.span))
    if row is None:
        return None
    for field in message.fields(span):
        if field.number == row.number:
            count += _count(message, row, field.span, is_varint=field.varint is not None)
    shape = (count,) if row.is_list else ()
    spec = TensorSpec(key, BY_NAME[row.dtype], shape)
    data = one_range(file, span.begin, span.size)
    if row.dtype == "string":
        return StoredWeight(spec._replace(stored=span.size), data, partial(StringsTensor, number=row.number))
    bits = row.wire or "i8"
    return StoredWeight(spec, data, partial(TypedTensor, encoding=Encoding(row.number, row.wire, bits)))


def _count(message: MessageFile, row: _Row, span: MessageRange, *, is_varint: bool) -> int:
    """Return the values in a field: one, or as many as are packed."""
    if row.dtype == "string" or is_varint:
        return 1
    if row.wire:
        return span.size // 4
    return message.count_varints(span)
