"""TensorFlow.js: `model.json`, and the shards that it names.

    {"format": "layers-model" or "graph-model", "generatedBy", "convertedBy",
     "weightsManifest": [{"paths": [shard, ...], "weights": [weight, ...]}],
     "modelTopology": {"keras_version", "model_config": {"class_name", "config"}, "training_config"}}
    weight: {"name", "shape", "dtype", "quantization": {"dtype", "scale", "min"}}

The shards of a group are one row of bytes, cut anywhere; weights follow each other without gaps,
little-endian.  A string is a uint32 length and its bytes.  A quantized value is `q * scale + min`; one of
float16 has neither.
https://github.com/tensorflow/tfjs/blob/master/tfjs-core/src/io/types.ts
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from ..core.dtypes import BY_NAME, STRING
from ..core.slicing import allocate
from ..core.spec import StoredType, TensorSpec
from ..errors import CheckpointError, CorruptCheckpointError
from ..keras.facts import KerasFacts
from ..model.tensor import LazyTensor
from .codecs import AffineCodec, CastCodec, bool_codec
from .confined import MOST_FILES, confined, missing_file
from .graphdef_nodes import StoredNode, graph_nodes
from .reader import ExportReader, ModelFacts, StoredWeight, one_range
from .stored import FilePart, StoredRanges
from .tensors import DecodedTensor, StoredTensor, UnavailableTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from ..core.region import Index
    from ..location import Location
    from ..model.operation_nodes import OperationNode
    from ..model.probe import Probe
    from ..store.base import File

MANIFEST = "weightsManifest"
_DTYPES = ("float32", "int32", "bool", "string", "complex64", "float16", "bfloat16")
_QUANTIZED = ("uint8", "uint16", "float16")
_MOST_DIMENSIONS = 254


class TfjsReader(ExportReader):
    """A model."""

    def _open(self, probe: Probe) -> File:
        assert probe.json is not None
        self._document = probe.json
        self._missing: list[Location] = []
        return super()._open(probe)

    def _read(self, file: File) -> None:
        del file  # its object is known
        document = self._document
        for group in document[MANIFEST]:
            if not isinstance(group, dict) or not all(
                isinstance(group.get(name), list) for name in ("paths", "weights")
            ):
                raise ValueError(f"{MANIFEST}: expected objects with paths and weights")
            self._group(group["paths"], group["weights"])
        texts = {name: document.get(name) for name in ("format", "generatedBy", "convertedBy")}
        shown = {name: text for name, text in texts.items() if isinstance(text, str)}
        producer = shown.pop("generatedBy", None)
        more = {("model" if name == "format" else name): text for name, text in shown.items()}
        self._facts = ModelFacts(producer, None, more, _keras_facts(document.get("modelTopology")))

    def nodes(self) -> Iterator[OperationNode]:
        topology = self._document.get("modelTopology")
        nodes = topology.get("node") if isinstance(topology, dict) else None
        yield from graph_nodes(map(_node, nodes if isinstance(nodes, list) else ()), self._weights)

    def missing_files(self) -> list[Location]:
        return self._missing

    def _group(self, paths: list[Any], weights: list[Any]) -> None:
        """Take the weights of a group, one after the other."""
        parts, error = self._parts(paths)
        data, at = StoredRanges(parts), 0
        for item in weights:
            spec, size = self._spec(item)
            if error is not None:
                self._add(
                    StoredWeight(
                        spec, one_range(self._files[0], 0, 0), partial(UnavailableTensor, error=error)
                    )
                )
                continue
            if size is None:
                size = _strings_size(data, at, spec)
            if at + size > data.size:
                message = (
                    f"the tensor needs {size} bytes from offset {at} of "
                    f"its shards, but they have only {data.size} bytes"
                )
                return self._flaw(self._corrupt(message, spec.key, code="shard-short"))
            self._add(self._weight(spec, StoredRanges(_cut(parts, at, size))))
            at += size
        if error is None and at != data.size:
            self._flaw(self._corrupt(f"the shards have {data.size} bytes; expected {at}", code="tensor-size"))
        return None

    def _parts(self, paths: list[Any]) -> tuple[list[FilePart], CheckpointError | None]:
        """Return the open shards of a group, or the error if one is missing."""
        parts = []
        for name in paths:
            if not isinstance(name, str) or len(self._files) > MOST_FILES:
                raise ValueError(f"{MANIFEST}: expected the names of at most {MOST_FILES} files")
            path = confined(self.location.head, name)
            if any(file.path == path for file in self._files):
                raise ValueError(f"{MANIFEST}: {name!r:.80} is named twice")
            if not path.is_file():
                self._missing.append(path)
                return [], missing_file(path)
            self._files.append(file := path.open())
            parts.append(FilePart(file, 0, file.size))
        return parts, None

    def _spec(self, item: Any) -> tuple[TensorSpec, int | None]:
        """Return a weight's spec and its bytes; None of strings, whose lengths are stored."""
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ValueError(f"{MANIFEST}: expected weights with names")  # noqa: TRY004  the file is at fault
        name, shape, dtype = item["name"], item.get("shape"), item.get("dtype")
        is_shape = isinstance(shape, list) and len(shape) <= _MOST_DIMENSIONS
        if not is_shape or not all(type(dim) is int and 0 <= dim < 1 << 63 for dim in shape or ()):
            raise ValueError(f"weight {name!r:.80}: invalid shape {str(shape)[:60]}")
        if dtype not in _DTYPES:
            raise ValueError(f"weight {name!r:.80}: dtype {str(dtype)[:40]!r} is not supported")
        spec = TensorSpec(name, BY_NAME[dtype], tuple(shape or ()))
        if spec.dtype is STRING:
            return spec, None
        stored = _stored_type(item.get("quantization"), name)
        if stored is None:
            return spec, spec.nbytes or 0
        size = spec.size * (BY_NAME[stored.name].itemsize or 1)
        return spec._replace(dtype=BY_NAME["float32"], stored=size, stored_as=stored), size

    def _weight(self, spec: TensorSpec, data: StoredRanges) -> StoredWeight:
        if spec.dtype is STRING:
            return StoredWeight(spec._replace(stored=data.size), data, TfjsStrings)
        if spec.stored_as is not None:
            return StoredWeight(spec, data, _dequantized)
        if spec.dtype.name == "bool":
            return StoredWeight(spec, data, lambda spec, data: DecodedTensor(spec, data, bool_codec()))
        return StoredWeight(spec, data, StoredTensor)


def _node(item: Any) -> StoredNode:
    """Return a node of a graph model; anything else becomes a node without a name."""
    found = item if isinstance(item, dict) else {}
    name, operation, inputs = (found.get(field) for field in ("name", "op", "input"))
    return StoredNode(
        name if isinstance(name, str) else "",
        operation if isinstance(operation, str) else "",
        tuple(each for each in inputs if isinstance(each, str)) if isinstance(inputs, list) else (),
    )


def _keras_facts(topology: Any) -> KerasFacts:
    """Return what a layers model says of Keras; programs in JavaScript give the model's class directly."""
    if not isinstance(topology, dict):
        return KerasFacts()
    model = topology.get("model_config", topology)
    if not isinstance(model, dict) or not isinstance(model.get("config"), dict | list):
        return KerasFacts()
    version, compiled = topology.get("keras_version"), topology.get("training_config")
    return KerasFacts(
        version=version if isinstance(version, str) and version[:1].isdigit() else None,
        config=json.dumps({name: model.get(name) for name in ("class_name", "config")}),
        training_config=json.dumps(compiled) if isinstance(compiled, dict) else None,
    )


def _stored_type(quantization: Any, name: str) -> StoredType | None:
    """Return how a weight is quantized; None if it is not."""
    if quantization is None:
        return None
    found = quantization.get("dtype") if isinstance(quantization, dict) else None
    if found not in _QUANTIZED:
        raise ValueError(f"weight {name!r:.80}: quantization {str(quantization)[:60]} is not supported")
    if found == "float16":
        return StoredType(found)
    scale, minimum = (quantization.get(field) for field in ("scale", "min"))
    if not all(type(each) in (int, float) and math.isfinite(each) for each in (scale, minimum)):
        raise ValueError(f"weight {name!r:.80}: expected a scale and a min")
    return StoredType(found, (float(scale),), (), None, float(minimum))


def _dequantized(spec: TensorSpec, data: StoredRanges) -> LazyTensor:
    import numpy as np

    stored = spec.stored_as
    assert stored is not None
    own = np.dtype(BY_NAME[stored.name].numpy)
    if not stored.scale:
        return DecodedTensor(spec, data, CastCodec(own, spec.dtype.numpy))
    return DecodedTensor(spec, data, AffineCodec(CastCodec(own, own), stored, spec.shape))


def _cut(parts: list[FilePart], begin: int, size: int) -> list[FilePart]:
    """Return a range of the row of bytes that files are."""
    found, at = [], 0
    for part in parts:
        low, high = max(begin, at), min(begin + size, at + part.size)
        if low < high:
            found.append(FilePart(part.file, low - at, high - low))
        at += part.size
    return found or [FilePart(parts[0].file, 0, 0)] if parts else []


def _strings_size(data: StoredRanges, begin: int, spec: TensorSpec) -> int:
    """Return how many bytes strings take, by their lengths; ValueError if they do not fit."""
    if 4 * spec.size > data.size - begin:
        raise ValueError(
            f"weight {spec.key!r:.80}: {spec.size} strings do not fit in {data.size - begin} bytes"
        )
    at = begin
    for _ in range(spec.size):
        if at + 4 > data.size:
            raise ValueError(f"weight {spec.key!r:.80}: a string is cut off")
        at += 4 + int.from_bytes(data.read(at, 4), "little")
    return at - begin


class TfjsStrings(LazyTensor):
    """Strings, each behind its length."""

    def __init__(self, spec: TensorSpec, data: StoredRanges) -> None:
        super().__init__(spec)
        self._data = data

    def read(self) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, self.spec.shape, self._data.path)
        raw, at = self._data.read(0, self._data.size), 0
        for number in range(out.size):
            end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
            if end > len(raw):
                message = "a string is cut off"
                raise CorruptCheckpointError(message, path=self._data.path, key=self.spec.key, code="entry")
            out.reshape(-1)[number] = raw[at + 4 : end]
            at = end
        return out

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        where: tuple[Any, ...] = (*index, ...)
        found: np.ndarray[Any, Any] = self.read()[where]
        return found
