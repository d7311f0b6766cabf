"""Streaming the tensors of a bundle: their values in bounded chunks, in C order.

Checksums are updated along the way, and compared after the last chunk. A copy is verified before it is
committed, and every byte is read once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...core.chunks import ChunkSource, whole_elements
from ...core.region import volume
from ...wire.crc32c import extend
from . import payload
from .tiling import gather, most_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...core.chunks import Chunk
    from ...core.region import Region
    from ...core.spec import TensorSpec
    from ...errors import CorruptCheckpointError
    from ...model.tensor import LazyTensor
    from .index import BundleEntry, BundleIndex


class Bundle(Protocol):
    """What streaming asks of a reader."""

    @property
    def index(self) -> BundleIndex: ...

    def expect(self, shard: int, offset: int, size: int) -> None: ...

    def read_bytes(self, shard: int, offset: int, size: int) -> bytes: ...

    def pieces(self, spec: TensorSpec, entry: BundleEntry) -> Sequence[tuple[Region, LazyTensor]]: ...

    def check_size(self, spec: TensorSpec, entry: BundleEntry) -> None: ...

    def check_crc(self, key: str, entry: BundleEntry, crc: int) -> None: ...

    def corrupt(self, key: str, entry: BundleEntry, message: str, code: str) -> CorruptCheckpointError: ...


def stream_numbers(reader: Bundle, spec: TensorSpec, entry: BundleEntry, max_bytes: int) -> Iterator[Chunk]:
    """Yield a fixed-width tensor, little-endian."""
    itemsize = spec.dtype.itemsize
    assert itemsize is not None
    reader.check_size(spec, entry)
    if entry.slices:
        yield from _join_pieces(reader, spec, entry, max_bytes)
        return
    crc = 0
    step = whole_elements(max_bytes, itemsize)
    reader.expect(entry.shard, entry.offset, entry.size)
    for offset in range(0, entry.size, step):
        piece = reader.read_bytes(entry.shard, entry.offset + offset, min(step, entry.size - offset))
        crc = extend(crc, piece)
        yield _swapped(piece, spec) if reader.index.big_endian and itemsize > 1 else piece
    reader.check_crc(spec.key, entry, crc)


def _swapped(piece: bytes, spec: TensorSpec) -> Chunk:
    import numpy as np

    array = np.frombuffer(bytearray(piece), spec.dtype.numpy)
    return payload.decode_numbers(array, big_endian=True).view(np.uint8)


def _join_pieces(reader: Bundle, spec: TensorSpec, entry: BundleEntry, max_bytes: int) -> Iterator[Chunk]:
    """Yield a partitioned tensor; each piece's checksum is compared at its end."""
    assert spec.dtype.itemsize is not None
    pieces = reader.pieces(spec, entry)
    regions = [region for region, _ in pieces]
    filled = sum(map(volume, regions))
    if filled != spec.size:
        message = f"its slices contain only {filled} of its {spec.size} elements"
        raise reader.corrupt(spec.key, entry, message, "slice")
    share = max(1, max_bytes // most_at_once(regions))
    sources = [ChunkSource(piece.chunks(share)) for _, piece in pieces]

    def take(number: int, size: int) -> Chunk:
        return sources[number].take(size)

    yield from gather(spec.shape, regions, spec.dtype.itemsize, take, max_bytes)
    for source in sources:
        source.finish()


def stream_elements(reader: Bundle, spec: TensorSpec, entry: BundleEntry) -> Iterator[bytes]:
    """Yield the strings or variants of a tensor that is not partitioned, one at a time."""

    def read(offset: int, size: int) -> bytes:
        return reader.read_bytes(entry.shard, entry.offset + offset, size)

    reader.check_size(spec, entry)
    stream = payload.ElementStream(
        read, spec.dtype, spec.size, entry.size, big_endian=reader.index.big_endian
    )
    try:
        yield from stream
    except ValueError as error:
        raise reader.corrupt(spec.key, entry, str(error), "tensor-checksum") from error
    reader.check_crc(spec.key, entry, stream.crc)
