"""TFLite: the tensors of a model's graphs that have a buffer with data.

    Model        0 version, 2 subgraphs, 3 description, 4 buffers
    SubGraph     0 tensors, 4 name
    Tensor       0 shape (int32), 1 type (int8), 2 buffer (uint32), 3 name, 4 quantization, 6 sparsity
    Buffer       0 data, 1 offset (uint64), 2 size (uint64), of data behind the flatbuffer: models above 2 GB
    Quantization 2 scale (float32), 3 zero_point (int64), 6 quantized_dimension (int32)

Two tensors may share a buffer.  Names are those of the operations that were fused, joined by `;`.
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/compiler/mlir/lite/schema/schema.fbs
"""

from __future__ import annotations

import struct
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..core.dtypes import BY_NAME, STRING, DType, unmapped
from ..core.slicing import allocate
from ..core.spec import StoredType, TensorSpec
from ..errors import CorruptCheckpointError
from ..model.tensor import LazyTensor
from ..wire.flatbuffers import FlatBuffer
from .codecs import AffineCodec, CastCodec, PackedCodec, bool_codec
from .cursor import FileWindow
from .reader import ExportReader, ModelFacts, StoredWeight, one_range
from .tensors import DecodedTensor, StoredTensor
from .tflite_nodes import tflite_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from ..core.region import Index
    from ..model.operation_nodes import OperationNode
    from ..store.base import File
    from .stored import StoredRanges

_LARGEST = 2**31
"""Largest flatbuffer in bytes; the data of buffers may follow it."""

_TYPE_NAMES = """
    float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource
    variant uint32 uint16 int4 bfloat16 int2
"""
_TYPES = _TYPE_NAMES.split()
_PACKED = {"int4": 4, "int2": 2}
_QUANTIZED = frozenset(("int8", "uint8", "int16", "uint16", "int32", "int64", "int4", "int2"))
_MOST_DIMENSIONS = 254
_LONGEST_NAME = 1 << 20


class TfliteReader(ExportReader):
    """A model."""

    def _read(self, file: File) -> None:
        window = FileWindow(file)
        buffer = self._buffer = FlatBuffer(window.read, min(file.size, _LARGEST))
        model = buffer.root()
        self._numbers: dict[int, tuple[Any, ...]] = {}
        self._names = 0
        self._keys: dict[int, str] = {}
        buffers = buffer.tables(model, 4)
        subgraphs = buffer.tables(model, 2)
        if len(set(buffers)) != len(buffers) or len(set(subgraphs)) != len(subgraphs):
            raise ValueError("buffers or graphs occur twice")
        for number, graph in enumerate(subgraphs):
            prefix = f"{buffer.text(graph, 4, _LONGEST_NAME) or number}/" if number else ""
            tables = buffer.tables(graph, 0)
            if len(set(tables)) != len(tables):
                raise ValueError("tensors occur twice")
            for tensor in tables:
                self._tensor(file, tensor, buffers, prefix)
        description = buffer.text(model, 3, _LONGEST_NAME)
        version = buffer.scalar(model, 0, "I")
        self._facts = ModelFacts(description or None, str(version))

    def _tensor(self, file: File, table: int, buffers: list[int], prefix: str) -> None:
        """Take a tensor if its buffer has data."""
        flat = self._buffer
        number = flat.scalar(table, 2, "I")
        if number >= len(buffers):
            raise ValueError(f"a tensor refers to buffer {number}, but there are {len(buffers)} buffers")
        begin, size = self._data(buffers[number])
        if not size:
            return
        shape = flat.numbers(table, 0, "i")
        name = prefix + flat.text(table, 3, _LONGEST_NAME)
        self._names += len(name)
        if self._names > 2 * file.size + _LONGEST_NAME:
            raise ValueError("names occur too often")
        if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
            raise ValueError(f"tensor {name!r:.80}: invalid shape {list(shape[:20])}")
        if not self._check_range(name, file, begin, size):
            return
        spec = TensorSpec(name, self._dtype(table), shape)
        if not spec.dtype.is_unmapped and not self._charge(spec, 0):
            raise ValueError("tensors share buffers so often that reading each would take too long")
        weight = self._weight(file, table, spec, begin, size)
        if weight is not None:
            spec = weight.spec
            is_weight = spec.stored_as is not None or (spec.dtype.is_floating and spec.size > 1)
            kind = "variable" if is_weight or spec.dtype.is_unmapped else "state"
            self._keys[table] = self._add(weight, kind)

    def nodes(self) -> Iterator[OperationNode]:
        try:
            yield from tflite_nodes(self._buffer, self._keys)
        except ValueError as error:
            raise self._corrupt(f"{self.format.title}: {error}", code="header") from error

    def _data(self, buffer: int) -> tuple[int, int]:
        """Return where the data of a buffer begin, and their size."""
        inside = self._buffer.vector(buffer, 0, 1)
        if inside is not None and inside[1]:
            return inside
        offset, size = (int(self._buffer.scalar(buffer, field, "Q")) for field in (1, 2))
        return (offset, size) if offset > 1 else (0, 0)

    def _dtype(self, table: int) -> DType:
        number = self._buffer.scalar(table, 1, "b")
        name = _TYPES[number] if 0 <= number < len(_TYPES) else f"type {number}"
        return BY_NAME[name] if name in BY_NAME and name != "variant" else unmapped(name)

    def _weight(self, file: File, table: int, spec: TensorSpec, begin: int, size: int) -> StoredWeight | None:
        """Return a tensor with what reads it; None if it is damaged and that is taken note of."""
        data, dtype = one_range(file, begin, size), spec.dtype
        if self._buffer.field(table, 6) is not None and not dtype.is_unmapped:
            dtype = unmapped(f"sparse {dtype.name}")
        if dtype is STRING:
            return StoredWeight(spec._replace(stored=size), data, TfliteStrings)
        if dtype.is_unmapped:
            return StoredWeight(spec._replace(dtype=dtype, stored=size), data, StoredTensor)
        bits = _PACKED.get(dtype.name)
        expected = spec.nbytes or 0 if bits is None else -(-spec.size * bits // 8)
        if size != expected:
            message = f"the tensor has {size} bytes, but {dtype} of shape {list(spec.shape)} needs {expected}"
            self._flaw(self._corrupt(message, spec.key, code="tensor-size", offset=begin))
            return None
        stored = self._quantization(table, spec) if dtype.name in _QUANTIZED else None
        if stored is not None:
            own = spec._replace(dtype=BY_NAME["float32"], stored=size, stored_as=stored)
            return StoredWeight(own, data, partial(_dequantized, dtype=dtype))
        if bits is not None:
            own = spec._replace(stored=size, stored_as=StoredType(f"packed {dtype.name}"))
            return StoredWeight(
                own, data, lambda spec, data: DecodedTensor(spec, data, PackedCodec(bits, dtype))
            )
        if dtype.name == "bool":
            return StoredWeight(spec, data, lambda spec, data: DecodedTensor(spec, data, bool_codec()))
        return StoredWeight(spec, data, StoredTensor)

    def _quantization(self, table: int, spec: TensorSpec) -> StoredType | None:
        """Return how a tensor is quantized; None if it is not."""
        found = self._buffer.table(table, 4)
        if found is None:
            return None
        scale, zero = self._once(found, 2, "f"), self._once(found, 3, "q")
        if not scale:
            return None
        axis = self._buffer.scalar(found, 6, "i") if len(scale) > 1 else None
        is_fit = axis is None or (0 <= axis < len(spec.shape) and spec.shape[axis] == len(scale))
        if not is_fit or len(zero) not in (0, len(scale)):
            message = f"found {len(scale)} scales and {len(zero)} zero points on axis {axis}"
            raise ValueError(f"tensor {spec.key!r:.80}: {message} for shape {list(spec.shape)}")
        return StoredType(spec.dtype.name, scale, zero or (0,) * len(scale), axis)

    def _once(self, table: int, number: int, code: str) -> tuple[Any, ...]:
        """Return the numbers of a vector, which are made once however many tensors share them."""
        found = self._buffer.vector(table, number, 1)
        if found is None:
            return ()
        if found[0] not in self._numbers:
            self._numbers[found[0]] = self._buffer.numbers(table, number, code)
        return self._numbers[found[0]]


def _dequantized(spec: TensorSpec, data: StoredRanges, dtype: DType) -> LazyTensor:
    import numpy as np

    assert spec.stored_as is not None
    bits = _PACKED.get(dtype.name)
    plain = np.dtype(dtype.numpy) if bits is None else np.dtype(np.int8)
    codec = CastCodec(plain, plain) if bits is None else PackedCodec(bits, dtype)
    return DecodedTensor(spec, data, AffineCodec(codec, spec.stored_as, spec.shape))


class TfliteStrings(LazyTensor):
    """Strings: int32 count, int32 offset of each and of the end, then their bytes."""

    def __init__(self, spec: TensorSpec, data: StoredRanges) -> None:
        super().__init__(spec)
        self._data = data

    def read(self) -> np.ndarray[Any, Any]:
        raw = self._data.read(0, self._data.size)
        count = struct.unpack_from("<i", raw)[0] if len(raw) >= 4 else -1
        if count != self.spec.size or 4 * (count + 2) > len(raw):
            raise self._corrupt(f"found {count} strings; expected {self.spec.size}")
        offsets = struct.unpack_from(f"<{count + 1}i", raw, 4)
        if any(not 0 <= low <= high <= len(raw) for low, high in pairwise(offsets)):
            raise self._corrupt("strings are not in their buffer")
        out = allocate(self.spec, self.spec.shape, self._data.path)
        for at, (low, high) in enumerate(pairwise(offsets)):
            out.reshape(-1)[at] = raw[low:high]
        return out

    def _corrupt(self, message: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self._data.path, key=self.spec.key, code="entry")

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        where: tuple[Any, ...] = (*index, ...)
        found: np.ndarray[Any, Any] = self.read()[where]
        return found
