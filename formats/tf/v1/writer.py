"""Writing a V1 checkpoint: one table that holds metadata and data.

    ""          SavedTensorSlices.meta: every tensor with its slices, in the caller's order
    SLICE KEY   SavedTensorSlices.data, in the order of slice keys

A table is written in the order of its keys, so tensors must come in that order. An entry is one message, so a
slice is in memory while it is written, and must be smaller than 2 GiB there. TensorFlow rejects larger ones
by an upper estimate, and so does this writer, before it writes the first byte.
tensorflow/core/util/tensor_slice_writer.{h,cc}
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from ...core.chunks import PIECE, ChunkSource, view_of, whole_elements
from ...core.dtypes import STRING, DType
from ...core.region import WHOLE, region_of, tiling_flaw, volume
from ...core.spec import key_bytes
from ...errors import CheckpointExistsError, ConversionError
from ...model.checkpoint_files import v1_shards
from ...model.writer import FormatWriter, check_text
from ...store.siblings import V1_SHARD
from ...wire.messages import SavedSlice, SavedSliceMeta, SavedTensorSliceMeta, SavedTensorSlices, VersionDef
from ...wire.sstable import TableBuilder
from ..bundle.index import encode_shape, refuse_shape
from ..bundle.slices import slice_key, slice_proto
from ..bundle.tiling import scatter
from ..bundle.writer import LISTED
from .values import encode_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.chunks import Chunk
    from ...core.region import Extents
    from ...core.spec import TensorSpec
    from ...location import Location
    from ...model.reader import Format
    from ...model.writer import WriteTarget


PRODUCER = 1
_LARGEST_MESSAGE = 1 << 31
_MESSAGE_OVERHEAD = 1 << 10
_LARGEST_ELEMENT = {"uint8": 2, "quint8": 2, "uint16": 3, "quint16": 3, "float16": 3, "bool": 1}
"""Bytes of an element by TensorFlow's estimate, where that is not 10 for integers, the size for others."""


def _estimate(dtype: DType, elements: int) -> int:
    """Return how large TensorFlow takes the message of a slice to be, before it has encoded it."""
    size = dtype.itemsize or 0
    if dtype.family in ("int", "uint"):
        size = 10
    return _MESSAGE_OVERHEAD + elements * _LARGEST_ELEMENT.get(dtype.name, size)


def _in_key_order(spec: TensorSpec, slices: Sequence[Extents]) -> list[Extents]:
    """Return the slices of a tensor in the order of their keys, of one that has none the whole of it."""
    name = key_bytes(spec.key)
    return sorted(slices or [((0, WHOLE),) * spec.rank], key=lambda extents: slice_key(name, extents))


class V1Writer(FormatWriter):
    """Writes a V1 checkpoint in one file; slices, too, in the order of their keys."""

    has_slices = True

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        slices = {spec.key: _in_key_order(spec, target.slices.get(spec.key, ())) for spec in target.specs}
        _check_target(target)
        for spec in target.specs:
            _check(target, spec, slices[spec.key])
        if (target.path + ".index").exists():
            message = "a V2 checkpoint has this name; TensorFlow would read it instead of the new one"
            hints = ("choose another name, or remove the V2 checkpoint",)
            raise CheckpointExistsError(message, path=target.path + ".index", hints=hints)
        self.order = tuple(
            spec.key
            for spec in sorted(
                target.specs, key=lambda spec: slice_key(key_bytes(spec.key), slices[spec.key][0])
            )
        )
        super().__init__(format, target)
        if set(os.path.basename(target.path)) & set("*?[]"):
            self.notes.append(
                f"{target.path}: TensorFlow treats this name as a glob pattern and will not find it"
            )

    @classmethod
    def existing(cls, path: Location) -> list[Location]:
        return super().existing(path) + v1_shards(path)

    def _start(self) -> None:
        target = self.target
        self._table = TableBuilder(self.staging.create(os.path.basename(target.path)).write)
        meta = SavedTensorSliceMeta(
            tensor=[
                SavedSliceMeta(
                    name=spec.key,
                    shape=encode_shape(spec.shape),
                    type=spec.dtype.number,
                    slice=[slice_proto(e) for e in target.slices.get(spec.key) or _in_key_order(spec, ())],
                )
                for spec in target.specs
            ],
            versions=VersionDef(producer=PRODUCER),
        )
        self._table.add(b"", SavedTensorSlices(meta=meta).encode())

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:
        if extents is None:
            (extents,) = _in_key_order(spec, ())
        if spec.dtype is not STRING:
            chunks = _whole(spec, chunks)
        self._add(spec, extents, encode_values(chunks, spec.dtype))

    def _add(self, spec: TensorSpec, extents: Extents, values: bytes) -> None:
        if len(values) + _MESSAGE_OVERHEAD >= _LARGEST_MESSAGE:
            raise _too_large(self.target, spec, len(values))
        saved = SavedSlice(name=spec.key, slice=slice_proto(extents), data=values)
        key = slice_key(key_bytes(spec.key), extents)
        self._table.add(key, SavedTensorSlices(data=saved).encode())

    def _write_in_slices(self, spec: TensorSpec, slices: Sequence[Extents], chunks: Iterator[Chunk]) -> None:
        """Cut a tensor; a slice that is complete is written when those before it are."""
        slices = _in_key_order(spec, slices)
        regions = [region_of(extents, spec.shape) for extents in slices]
        itemsize = spec.dtype.itemsize
        if itemsize is None or tiling_flaw(regions, spec.shape):
            raise ValueError(f"tensor {spec.key!r}: write its slices one by one")
        sizes = [volume(region) * itemsize for region in regions]
        parts = [bytearray() for _ in slices]
        source = ChunkSource(chunks)
        portions = scatter(spec.shape, regions, itemsize, source.take)
        written = 0
        while written < len(slices):
            if len(parts[written]) < sizes[written]:
                number, data = next(portions)
                parts[number] += view_of(data)
            else:
                part, parts[written] = bytes(parts[written]), bytearray()
                self._add(spec, slices[written], encode_values([part] if part else [], spec.dtype))
                written += 1
        source.finish()

    def _finish(self) -> None:
        self._table.finish()


def _whole(spec: TensorSpec, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield chunks of whole elements, small enough for what varints need in between."""
    assert spec.nbytes is not None
    assert spec.dtype.itemsize is not None
    source = ChunkSource(chunks)
    left = spec.nbytes
    step = whole_elements(PIECE, spec.dtype.itemsize)
    while left:
        yield source.take(min(left, step))
        left -= min(left, step)
    source.finish()


def _check_target(target: WriteTarget) -> None:
    """Refuse what a V1 checkpoint has not: shards, by size or by name, and an object graph."""
    if target.shard_size is not None or V1_SHARD.fullmatch(os.path.basename(target.path)):
        hints = ("name one file, and leave out --shard-size",)
        raise ConversionError(
            "writing V1 checkpoints in shards is not supported", path=target.path, hints=hints
        )
    if target.object_graph is not None:
        hints = ("pass --to tf-object to keep the object graph",)
        raise ConversionError("V1 checkpoints cannot have an object graph", path=target.path, hints=hints)


def _check(target: WriteTarget, spec: TensorSpec, slices: Sequence[Extents]) -> None:
    """Reject shapes that TensorFlow does not have, slices of a tensor that is also written whole, and
    messages that are too large.
    """
    check_text(target.path, spec.key, LISTED)
    refuse_shape(target.path, spec)
    for extents in slices:
        try:
            region = region_of(extents, spec.shape)
        except ValueError as error:
            raise ConversionError(str(error), path=target.path, key=spec.key) from error
        size = _estimate(spec.dtype, math.prod(stop - start for start, stop in region))
        if size >= _LARGEST_MESSAGE:
            raise _too_large(target, spec, size)


def _too_large(target: WriteTarget, spec: TensorSpec, size: int) -> ConversionError:
    message = (
        f"the tensor is too large: one message would have up to {size} "
        f"bytes, and V1 checkpoints allow less than {_LARGEST_MESSAGE}"
    )
    hints = ("to write a V2 checkpoint, which has no such limit, pass --to tf-name",)
    return ConversionError(message, path=target.path, key=spec.key, hints=hints)
