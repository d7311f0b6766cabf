"""ONNX: initializers and constants of a model's graphs, in the file itself or in files next to it.

    ModelProto   2 producer_name, 3 producer_version, 5 model_version, 7 graph, 8 opset_import, 25 functions
    GraphProto   1 node, 2 name, 5 initializer, 15 sparse_initializer
    NodeProto    2 output, 4 op_type, 5 attribute
    Attribute    1 name, 5 t, 6 g, 10 tensors, 11 graphs, 22 sparse_tensor; see `onnx_constants` for others
    Function     1 name, 7 node, 11 attribute_proto
    SparseTensor 1 values, 2 indices, 3 dims
    TensorProto  1 dims, 2 data_type, 4 float_data, 5 int32_data, 6 string_data, 7 int64_data, 8 name,
                 9 raw_data, 10 double_data, 11 uint64_data, 13 external_data, 14 data_location

raw_data is little-endian.  4 and 2 bits are packed, low ones first.  Typed fields have bit patterns in
int32_data for float16, bfloat16 and float8, and pairs for complex numbers.
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import BY_NAME, STRING, DType
from ..core.spec import StoredType, TensorSpec
from ..errors import CheckpointError
from .codecs import PackedCodec, bool_codec
from .confined import MOST_FILES, confined, missing_file
from .cursor import BrokenFileError, FileWindow
from .message_ranges import MessageFile, MessageRange, WireField
from .onnx_constants import CONSTANT, constant
from .onnx_nodes import onnx_nodes
from .reader import ExportReader, ModelFacts, StoredWeight, one_range
from .sparse import SparseTensor
from .tensors import DecodedTensor, RejectedTensor, StoredTensor, UnavailableTensor
from .typed_fields import Encoding, StringsTensor, TypedTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..location import Location
    from ..model.operation_nodes import OperationNode
    from ..model.tensor import LazyTensor
    from ..store.base import File
    from .stored import StoredRanges

_TYPE_NAMES = """
    float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128
    bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz uint4 int4 float4_e2m1fn
    float8_e8m0fnu uint2 int2
"""
_TYPES = dict(enumerate(_TYPE_NAMES.split(), 1))
PACKED_BITS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
_FLOATS, _INT32S, _STRINGS, _INT64S, _RAW, _DOUBLES, _UINT64S = 4, 5, 6, 7, 9, 10, 11
_MOST_PAIRS = 10
"""Keys of external data: location, offset, length, checksum and some that later versions may have."""

_MOST_DIMENSIONS = 254
_DEEPEST = 100
"""Graphs within graphs."""


def encoding_of(dtype: DType) -> Encoding:
    """Return how the typed field of a dtype stores values."""
    name, itemsize = dtype.name, dtype.itemsize or 1
    if name in PACKED_BITS:
        return Encoding(_INT32S, "", "u1", PACKED_BITS[name])
    fixed = {"float32": (_FLOATS, "<f4"), "complex64": (_FLOATS, "<f4")}
    fixed |= {"float64": (_DOUBLES, "<f8"), "complex128": (_DOUBLES, "<f8")}
    if name in fixed:
        number, wire = fixed[name]
        return Encoding(number, wire, wire)
    if name == "int64":
        return Encoding(_INT64S, "", "i8")
    if name in ("uint32", "uint64"):
        return Encoding(_UINT64S, "", f"u{itemsize}")
    return Encoding(_INT32S, "", "i4" if name == "bool" else f"u{itemsize}")


class _TensorProto(NamedTuple):
    """A TensorProto as it was found: its fields, and the message itself."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    message: MessageRange
    raw: MessageRange | None
    external: dict[str, str] | None
    present: frozenset[int]


class OnnxReader(ExportReader):
    """A model."""

    def _read(self, file: File) -> None:
        self._message = MessageFile(FileWindow(file))
        self._external: dict[str, File | CheckpointError] = {}
        self._missing: list[Location] = []
        self._main: MessageRange | None = None
        facts: dict[int, str] = {}
        opsets: list[str] = []
        for field in self._message.fields(self._message.all):
            if field.number == 7 and field.varint is None:
                self._main = field.span
                self._graph(field.span, "", 0)
            elif field.number == 25 and field.varint is None:
                self._function(field.span)
            elif field.number in (2, 3) and field.varint is None:
                facts[field.number] = self._message.text(field.span)
            elif field.number == 8 and field.varint is None and len(opsets) < 100:
                opsets.append(self._opset(field.span))
        self._facts = ModelFacts(facts.get(2), facts.get(3), {"opsets": opsets} if opsets else {})

    def nodes(self) -> Iterator[OperationNode]:
        if self._main is None:
            return
        try:
            yield from onnx_nodes(self._message, self._main, self._weights)
        except BrokenFileError as error:
            message = f"this {self.format.title} cannot be read: {error}"
            raise self._corrupt(message, offset=error.offset, code="header") from error

    def _opset(self, span: MessageRange) -> str:
        entry = self._message.entry(span)
        domain = self._message.text(entry[1].span) if 1 in entry else ""
        return f"{domain or 'ai.onnx'} {entry[2].varint if 2 in entry else 1}"

    # Graphs -------------------------------------------------------------------------

    def _function(self, span: MessageRange) -> None:
        fields = list(self._parts(span, (1, 7)))
        name = next((self._message.text(field.span) for field in fields if field.number == 1), "")
        for field in fields:
            if field.number == 7:
                self._node(field.span, f"{name}/", 1)

    def _parts(self, span: MessageRange, numbers: tuple[int, ...]) -> Iterator[WireField]:
        """Yield the strings and messages in a message that have one of these numbers."""
        for field in self._message.fields(span):
            if field.number in numbers and field.varint is None:
                yield field

    def _graph(self, span: MessageRange, prefix: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise BrokenFileError(f"graphs are nested more than {_DEEPEST} deep", span.begin)
        for field in self._parts(span, (1, 5, 15)):
            if field.number == 1:
                self._node(field.span, prefix, depth)
            elif field.number == 5:
                self._tensor(field.span, prefix, "variable")
            else:
                self._sparse(field.span, prefix)

    def _node(self, span: MessageRange, prefix: str, depth: int) -> None:
        """Take the tensors in a node's attributes: a constant's value, and graphs that it runs."""
        output, is_constant = "", False
        for field in self._parts(span, (2, 4, 5)):
            if field.number == 2:
                output = output or self._message.text(field.span)
                continue
            if field.number == 4:
                is_constant = self._message.text(field.span) == CONSTANT
                continue
            if is_constant and (
                plain := constant(self._message, self._files[0], field.span, prefix + output)
            ):
                self._add_constant(plain)
                continue
            for part in self._parts(field.span, (5, 6, 10, 11, 22)):
                if part.number in (6, 11):
                    self._graph(part.span, prefix, depth + 1)
                elif part.number == 22:
                    self._sparse(part.span, prefix, output)
                else:
                    self._tensor(part.span, prefix, None, output)

    # Tensors ------------------------------------------------------------------------

    def _tensor(self, span: MessageRange, prefix: str, kind: str | None, name: str = "") -> None:
        """Add a tensor; a constant has the name of its node's output."""
        found = self._parsed(span)
        weight = self._weight(found, prefix + (name or found.name))
        if weight is None:
            return
        if kind is None:
            self._add_constant(weight)
        else:
            self._add(weight, "state" if weight.spec.dtype is STRING else kind)

    def _add_constant(self, weight: StoredWeight) -> None:
        """Add a constant, which is a weight if it is more than one number, and of a floating type."""
        spec = weight.spec
        self._add(weight, "variable" if spec.dtype.is_floating and spec.size > 1 else "state")

    def _parsed(self, span: MessageRange) -> _TensorProto:
        message = self._message
        found: dict[int, WireField] = {}
        external: dict[str, str] = {}
        shape: list[int] = []
        for field in message.fields(span):
            if field.number == 1:
                shape += message.numbers(field, _MOST_DIMENSIONS)
            elif field.number == 13 and field.varint is None:
                external |= self._pair(field.span)
            found[field.number] = field
            if len(external) > _MOST_PAIRS:
                raise BrokenFileError(
                    f"a tensor's external data has more than {_MOST_PAIRS} keys", span.begin
                )
            if len(shape) > _MOST_DIMENSIONS or any(not 0 <= dim < 1 << 63 for dim in shape):
                raise BrokenFileError(f"a tensor has the invalid dims {shape[:20]}", span.begin)
        name = message.text(found[8].span) if 8 in found and found[8].varint is None else ""
        number, location = (found[at].varint or 0 if at in found else 0 for at in (2, 14))
        if number not in _TYPES:
            raise BrokenFileError(f"tensor {name!r:.80}: data_type {number} is not supported", span.begin)
        return _TensorProto(
            name,
            BY_NAME[_TYPES[number]],
            tuple(shape),
            span,
            found[_RAW].span if _RAW in found else None,
            external if location == 1 else None,
            frozenset(found),
        )

    def _pair(self, span: MessageRange) -> dict[str, str]:
        entry = self._message.entry(span)
        key, value = (self._message.text(entry[at].span) if at in entry else "" for at in (1, 2))
        return {key: value}

    def _weight(self, found: _TensorProto, key: str) -> StoredWeight | None:
        """Return a tensor with what reads it; None if it is damaged and that is taken note of."""
        file, message = self._files[0], found.message
        spec = TensorSpec(key, found.dtype, found.shape)
        whole = one_range(file, message.begin, message.size)
        if found.dtype is STRING:
            spec = spec._replace(stored=message.size)
            if not self._charge(spec, message.size):
                return StoredWeight(spec, whole, partial(_too_large, path=file.path))
            return StoredWeight(spec, whole, partial(StringsTensor, number=_STRINGS))
        bits = PACKED_BITS.get(found.dtype.name)
        nbytes = spec.nbytes or 0 if bits is None else -(-spec.size * bits // 8)
        if bits is not None:
            spec = spec._replace(stored=nbytes, stored_as=StoredType(f"packed {found.dtype.name}"))
        if found.external is not None:
            return self._external_weight(spec, nbytes, found.external)
        if found.raw is not None:
            return self._raw_weight(spec, nbytes, found.raw)
        encoding = encoding_of(found.dtype)
        if encoding.number not in found.present and spec.size:
            self._flaw(
                self._corrupt("the tensor has no values", key, code="tensor-size", offset=message.begin)
            )
            return None
        if not self._charge(spec, 8 * message.size):
            self._flaw(self._corrupt(_EXPANDS, key, code="tensor-size", offset=message.begin))
            return None
        return StoredWeight(spec, whole, partial(TypedTensor, encoding=encoding))

    def _raw_weight(self, spec: TensorSpec, nbytes: int, raw: MessageRange) -> StoredWeight | None:
        if raw.size != nbytes:
            message = (
                f"the tensor has {raw.size} bytes, but {spec.dtype} "
                f"of shape {list(spec.shape)} needs {nbytes}"
            )
            self._flaw(self._corrupt(message, spec.key, code="tensor-size", offset=raw.begin))
            return None
        return StoredWeight(spec, one_range(self._files[0], raw.begin, raw.size), reader_of(spec))

    def _external_weight(
        self, spec: TensorSpec, nbytes: int, external: dict[str, str]
    ) -> StoredWeight | None:
        """Return a tensor in a file next to the model."""
        name = external.get("location", "")
        offset, length = (_number(external.get(each)) for each in ("offset", "length"))
        if offset is None or length is None or (external.get("length") and length != nbytes):
            position = f"offset {external.get('offset')!r:.30}, length {external.get('length')!r:.30}"
            message = f"its external data is at {position}; expected {nbytes} bytes"
            self._flaw(self._corrupt(message, spec.key, code="tensor-size"))
            return None
        file = self._external_file(name)
        if isinstance(file, CheckpointError):
            data = one_range(self._files[0], 0, 0)
            return StoredWeight(spec, data, partial(UnavailableTensor, error=file))
        if not self._check_range(spec.key, file, offset, nbytes):
            return None
        if not self._charge(spec, 0):
            raise ValueError("tensors share external data so often that reading each would take too long")
        return StoredWeight(spec, one_range(file, offset, nbytes), reader_of(spec))

    def _external_file(self, name: str) -> File | CheckpointError:
        """Return a file next to the model, opened once; an error if it is missing."""
        found = self._external.get(name)
        if found is not None:
            return found
        if len(self._external) == MOST_FILES:
            raise ValueError(f"the external data is in more than {MOST_FILES} files")
        path = confined(self.location.head, name)
        if path.is_file():
            found = path.open()
            self._files.append(found)
        else:
            found = missing_file(path)
            self._missing.append(path)
        self._external[name] = found
        return found

    def missing_files(self) -> list[Location]:
        return self._missing

    def _sparse(self, span: MessageRange, prefix: str, name: str = "") -> None:
        """Take a sparse tensor as the dense one that it stands for."""
        parts: dict[int, Any] = {3: []}
        for field in self._message.fields(span):
            if field.number in (1, 2) and field.varint is None:
                parts[field.number] = self._parsed(field.span)
            elif field.number == 3:
                parts[3] += self._message.numbers(field, _MOST_DIMENSIONS)
        values, indices, dims = parts.get(1), parts.get(2), parts[3]
        if values is None or len(dims) > _MOST_DIMENSIONS or any(not 0 <= dim < 1 << 63 for dim in dims):
            raise BrokenFileError("a sparse tensor has no values, or its dims are invalid", span.begin)
        key = prefix + (name or values.name)
        own = self._weight(values, key)
        where = None if indices is None else self._weight(indices, key)
        if own is None or own.spec.dtype is STRING or (where is None and own.spec.size):
            error = self._corrupt("a sparse tensor has no indices", key, code="entry", offset=span.begin)
            return self._flaw(error)
        stored = (own.spec.stored_nbytes or 0) + (where.spec.stored_nbytes or 0 if where else 0)
        kind = StoredType("sparse")
        spec = TensorSpec(key, own.spec.dtype, tuple(dims), stored, kind)
        data = one_range(self._files[0], span.begin, span.size)
        if self._charge(spec, stored):
            parts_of = (own.make(own.spec, own.data), where.make(where.spec, where.data) if where else None)
            make: Any = partial(SparseTensor, parts=parts_of)
        else:
            make = partial(_too_large, path=self._files[0].path)
        self._add(StoredWeight(spec, data, make), "variable")
        return None


_EXPANDS = "many times as large as what is stored of it, more than is supported"


def _too_large(spec: TensorSpec, data: StoredRanges, path: str) -> LazyTensor:  # noqa: ARG001  as its siblings
    return RejectedTensor(spec, _EXPANDS, path)


def reader_of(spec: TensorSpec) -> Any:
    """Return what reads values that are stored one after the other, little-endian."""
    bits = PACKED_BITS.get(spec.dtype.name)
    if bits is not None:
        return lambda spec, data: DecodedTensor(spec, data, PackedCodec(bits, spec.dtype))
    if spec.dtype.name == "bool":
        return lambda spec, data: DecodedTensor(spec, data, bool_codec())
    return StoredTensor


def _number(text: str | None) -> int | None:
    """Return the number that a text spells, 0 for no text; None if it is not a number."""
    if not text:
        return 0
    return int(text) if len(text) < 20 and text.isascii() and text.isdigit() else None
