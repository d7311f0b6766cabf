"""GraphDef: the constants of a frozen TensorFlow graph, and those in its functions.

    GraphDef     1 node, 2 library {1 function}
    FunctionDef  1 signature {1 name}, 3 node_def
    NodeDef      1 name, 2 op, 3 input, 5 attr {1 key, 2 value}
    AttrValue    8 tensor
    TensorProto  1 dtype, 2 shape {2 dim {1 size}}, 4 tensor_content, 5 float_val, 6 double_val, 7 int_val,
                 8 string_val, 9 scomplex_val, 10 int64_val, 11 bool_val, 12 dcomplex_val, 13 half_val,
                 16 uint32_val, 17 uint64_val

A typed field may have fewer values than there are elements: the last one is repeated, or zero.  half_val
holds the bits of float16 and bfloat16.
tensorflow/core/framework/graph.proto, node_def.proto, tensor.proto
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..core.dtypes import BY_NUMBER, STRING, DType, unmapped
from ..core.spec import TensorSpec
from .cursor import BrokenFileError, FileWindow
from .graphdef_nodes import StoredNode, graph_nodes
from .message_ranges import MessageFile, MessageRange, WireField, signed
from .reader import ExportReader, ModelFacts, StoredWeight, one_range
from .tensors import RejectedTensor, StoredTensor
from .typed_fields import Encoding, StringsTensor, TypedTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model.operation_nodes import OperationNode
    from ..model.tensor import LazyTensor
    from ..store.base import File
    from .stored import StoredRanges

_MOST_DIMENSIONS = 254
_FIRST_OF_REFERENCES = 100
"""Numbers of types that are references to tensors of another, which is so much lower."""

_CONTENT, _STRINGS = 4, 8
_FIELDS = {
    "float32": (5, "<f4"),
    "float64": (6, "<f8"),
    "complex64": (9, "<f4"),
    "complex128": (12, "<f8"),
    "int64": (10, "i8"),
    "bool": (11, "i4"),
    "float16": (13, "u2"),
    "bfloat16": (13, "u2"),
    "uint32": (16, "u4"),
    "uint64": (17, "u8"),
}
_INT_FIELD = 7
_EXPANDS = "many times as large as what is stored of it, more than is supported"


class GraphDefReader(ExportReader):
    """A graph."""

    def _read(self, file: File) -> None:
        self._message = MessageFile(FileWindow(file))
        self._reads: set[str] = set()
        for field in self._message.fields(self._message.all):
            if field.varint is not None:
                continue
            if field.number == 1:
                self._node(field.span, "")
            elif field.number == 2:
                for function in self._parts(field.span, (1,)):
                    self._function(function.span)
        for key in self._reads & self._kinds.keys():
            self._kinds[key] = "variable"
        self._facts = ModelFacts("TensorFlow")

    def nodes(self) -> Iterator[OperationNode]:
        yield from graph_nodes(self._graph_nodes(), self._weights)

    def _graph_nodes(self) -> Iterator[StoredNode]:
        for node in self._parts(self._message.all, (1,)):
            texts: dict[int, list[str]] = {1: [""], 2: [""], 3: []}
            for field in self._parts(node.span, (1, 2, 3)):
                texts[field.number].append(self._message.text(field.span))
            yield StoredNode(texts[1][-1], texts[2][-1], tuple(texts[3]))

    def _parts(self, span: MessageRange, numbers: tuple[int, ...]) -> Iterator[WireField]:
        """Yield the strings and messages in a message that have one of these numbers."""
        for field in self._message.fields(span):
            if field.number in numbers and field.varint is None:
                yield field

    def _function(self, span: MessageRange) -> None:
        """Take the constants of a function, whose name comes before theirs."""
        prefix = ""
        for field in self._parts(span, (1, 3)):
            if field.number == 1:
                entry = self._message.entry(field.span)
                prefix = f"{self._message.text(entry[1].span)}/" if 1 in entry else ""
            else:
                self._node(field.span, prefix)

    def _node(self, span: MessageRange, prefix: str) -> None:
        """Take a node if it is a constant; note which constants are read as variables."""
        message = self._message
        name, operation, first, value = "", "", "", None
        for field in self._parts(span, (1, 2, 3, 5)):
            if field.number == 1:
                name = message.text(field.span)
            elif field.number == 2:
                operation = message.text(field.span)
            elif field.number == 3:
                first = first or message.text(field.span)
            elif operation in ("", "Const"):
                value = self._value(field.span) or value
        if operation == "Identity" and name.endswith("/read") and len(self._reads) < len(self._weights):
            self._reads.add(prefix + first.removeprefix("^").partition(":")[0])
        if operation == "Const" and value is not None:
            self._constant(prefix + name, value)

    def _value(self, attribute: MessageRange) -> MessageRange | None:
        """Return the tensor of an attribute called `value`."""
        entry = self._message.entry(attribute)
        if 1 not in entry or 2 not in entry or self._message.text(entry[1].span) != "value":
            return None
        found = self._message.entry(entry[2].span).get(8)
        return None if found is None else found.span

    # Tensors ------------------------------------------------------------------------

    def _constant(self, key: str, span: MessageRange) -> None:
        entry = self._message.entry(span)
        number = entry[1].varint or 0 if 1 in entry else 0
        dtype = BY_NUMBER.get(number - _FIRST_OF_REFERENCES if number > _FIRST_OF_REFERENCES else number)
        shape = self._shape(entry[2].span) if 2 in entry else ()
        if dtype is None or dtype.name == "variant":
            spec = TensorSpec(key, unmapped(f"dtype {number}"), shape, span.size)
            self._add(StoredWeight(spec, one_range(self._files[0], *_place(span)), StoredTensor), "state")
            return
        weight = self._weight(TensorSpec(key, dtype, shape), span, entry.get(_CONTENT))
        if weight is None:
            return
        spec = weight.spec
        is_read = key.endswith(("/ReadVariableOp/resource", "/ReadVariableOp")) or "/ReadVariableOp_" in key
        is_weight = dtype.family in ("float", "complex") and (spec.size > 1 or is_read)
        self._add(weight, "variable" if is_weight else "state")

    def _shape(self, span: MessageRange) -> tuple[int, ...]:
        shape: list[int] = []
        for field in self._message.fields(span):
            if field.number != 2 or field.varint is not None:
                continue
            size = self._message.entry(field.span).get(1)
            shape.append(signed(size.varint or 0) if size is not None else 0)
            if len(shape) > _MOST_DIMENSIONS or shape[-1] < 0:
                raise BrokenFileError(f"a constant of shape {shape[:20]}", span.begin)
        return tuple(shape)

    def _weight(self, spec: TensorSpec, span: MessageRange, content: WireField | None) -> StoredWeight | None:
        """Return a constant with what reads it; None if it is damaged and that is taken note of."""
        file = self._files[0]
        data = one_range(file, span.begin, span.size)
        if content is not None and content.span.size and spec.dtype is not STRING:
            if content.span.size != spec.nbytes:
                message = f"found {content.span.size} bytes; expected {spec.nbytes}"
                where = f"{spec.dtype} of shape {list(spec.shape)}"
                self._flaw(self._corrupt(f"{message} for {where}", spec.key, code="tensor-size"))
                return None
            return StoredWeight(spec, one_range(file, *_place(content.span)), reader_of_content(spec.dtype))
        if spec.dtype is STRING:
            spec = spec._replace(stored=span.size)
        if not self._charge(spec, span.size):
            return StoredWeight(spec, data, partial(_refused, path=file.path))
        if spec.dtype is STRING:
            return StoredWeight(spec, data, partial(StringsTensor, number=_STRINGS, repeats=True))
        return StoredWeight(spec, data, partial(TypedTensor, encoding=encoding_of_field(spec.dtype)))


def _place(span: MessageRange) -> tuple[int, int]:
    return span.begin, span.size


def _refused(spec: TensorSpec, data: StoredRanges, path: str) -> LazyTensor:  # noqa: ARG001  as its siblings
    return RejectedTensor(spec, _EXPANDS, path)


def reader_of_content(dtype: DType) -> type[StoredTensor] | partial[LazyTensor]:
    """Return what reads a constant's bytes, little-endian, each element for itself."""
    return partial(_bools) if dtype.name == "bool" else StoredTensor


def _bools(spec: TensorSpec, data: StoredRanges) -> LazyTensor:
    from .codecs import bool_codec
    from .tensors import DecodedTensor

    return DecodedTensor(spec, data, bool_codec())


def encoding_of_field(dtype: DType) -> Encoding:
    """Return how the typed field of a dtype stores values."""
    number, bits = _FIELDS.get(dtype.name, (_INT_FIELD, f"u{dtype.itemsize or 1}"))
    wire = bits if bits.startswith("<") else ""
    return Encoding(number, wire, bits, repeats=True)
