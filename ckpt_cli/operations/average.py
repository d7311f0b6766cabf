"""The mean of checkpoints, element by element.

Floating and complex tensors are summed in float64, a piece of every source at a time,
and rounded once to their own dtype.  Everything else (integers, strings, the object
graph) is the last source's, as are format, slices and what the file says of itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from formats.chunks import ChunkSource, whole_elements
from formats.errors import CheckpointNotFoundError, ConversionError
from formats.files import PIECE
from formats.model import LazyTensor, Stored
from formats.wire.crc32c import extend, mask

from .transfer import Move, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from formats.chunks import Chunk
    from formats.directory import Directory
    from formats.model import CheckpointReader, Index
    from formats.paths import Location

__all__ = ["MeanTensor", "last_of", "plan_average"]

_MOST_HELD = 16 * PIECE
"""Bytes of sources held at a time, however many they are."""

_SMALLEST_STEP = 1 << 16


class MeanTensor(LazyTensor):
    """The mean of tensors of one dtype and shape, computed as it is read.

    Once all of it has been read, `stored` has its checksum, so that what was written can
    be held against that instead of computing the mean again.
    """

    def __init__(self, tensors: Sequence[LazyTensor]) -> None:
        super().__init__(tensors[-1].spec)
        self._tensors = tensors
        self._stored = Stored()

    @property
    def stored(self) -> Stored:
        return self._stored

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        import numpy as np

        dtype, nbytes = self.spec.dtype, self.spec.nbytes
        assert dtype.itemsize is not None
        assert nbytes is not None
        share = max(_SMALLEST_STEP, _MOST_HELD // len(self._tensors))
        step = whole_elements(min(max_bytes, share), dtype.itemsize)
        wide = np.complex128 if dtype.family == "complex" else np.float64
        sources = [ChunkSource(tensor.chunks(step)) for tensor in self._tensors]
        crc = 0
        for at in range(0, nbytes, step):
            size = min(step, nbytes - at)
            # NaN and infinity pass into the mean, as they should; so does -0, which 0 + -0 would not be.
            with np.errstate(all="ignore"):
                total = np.frombuffer(sources[0].take(size), dtype.numpy).astype(wide)
                for source in sources[1:]:
                    total += np.frombuffer(source.take(size), dtype.numpy)
                total /= len(sources)
                mean = total.astype(dtype.numpy).view(np.uint8)
            crc = extend(crc, mean)
            yield mean
        for source in sources:
            source.finish()
        self._stored = Stored(crc32c=mask(crc))

    def read(self) -> np.ndarray[Any, Any]:
        import numpy as np

        data = b"".join(map(bytes, self.chunks()))
        return np.frombuffer(data, self.spec.dtype.numpy).reshape(self.spec.shape).copy()

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        return self.read()[index]


def last_of(directory: Directory, count: int, target: str) -> list[Location]:
    """Return the `count` newest checkpoints of a directory, oldest first; `target` itself is none of them.

    Raises CheckpointNotFoundError where there are fewer, and what is wrong with one that is damaged.
    """
    own = os.path.abspath(target.removesuffix(".index"))
    members = [member for member in directory.members if os.path.abspath(member.location.path) != own]
    if len(members) < count:
        message = f"{len(members)} checkpoints in this directory, the last {count} were asked for"
        hints = (f"to see what is there: ckpt ls {directory.path}",)
        raise CheckpointNotFoundError(message, path=directory.path, hints=hints)
    chosen = members[-count:]
    for member in chosen:
        if member.error is not None:
            raise member.error
    return [member.location for member in chosen]


def plan_average(readers: Sequence[CheckpointReader], target: str) -> Plan:
    """Return the plan of averaging checkpoints that agree in keys, dtypes and shapes.

    Raises ConversionError, naming a tensor, where they do not, and where their format
    cannot be written.
    """
    last = readers[-1]
    for reader in readers[:-1]:
        _check_alike(reader, last)
    if last.format.writer is None:
        message = f"{last.format.name} ({last.format.title}) can be read, not written"
        hints = ("convert the sources first: ckpt convert SRC DST --to object",)
        raise ConversionError(message, path=last.location.path, hints=hints)
    moves = []
    for key in last.specs:
        tensor: LazyTensor = last[key]
        if tensor.spec.dtype.family in ("float", "complex"):
            tensor = MeanTensor([reader[key] for reader in readers])
        moves.append(Move(tensor.spec, key, tensor))
    slices = {key: [extents for extents, _ in found] for key in last.specs if (found := last[key].pieces())}
    source = ", ".join(reader.location.path for reader in readers)
    averaged = sum(isinstance(move.tensor, MeanTensor) for move in moves)
    rest = f"; {len(moves) - averaged:,} are those of {last.location.path}" if averaged < len(moves) else ""
    notes = (f"{averaged:,} tensors are the mean of {len(readers)} checkpoints{rest}",)
    return Plan(
        source, target, last.format.name, tuple(moves), slices=slices, metadata=last.metadata, notes=notes
    )


def _check_alike(reader: CheckpointReader, last: CheckpointReader) -> None:
    """Refuse a source whose tensors are not those of the last one."""
    if reader.format.name != last.format.name:
        message = f"is {reader.format.name}, {last.location.path} is {last.format.name}"
        hints = (f"bring them into one format first: ckpt convert {reader.location.path} ...",)
        raise ConversionError(message, path=reader.location.path, hints=hints)
    hints = (f"to see all differences: ckpt diff --no-values {reader.location.path} {last.location.path}",)
    missing = [key for key in last.specs if key not in reader.specs]
    surplus = [key for key in reader.specs if key not in last.specs]
    for keys, where in ((missing, "is not there"), (surplus, "is there alone")):
        if keys:
            message = f"{len(keys)} tensors differ from those of {last.location.path}, this one {where}"
            raise ConversionError(message, path=reader.location.path, key=keys[0], hints=hints)
    for key, spec in last.specs.items():
        mine = reader.specs[key]
        if (mine.dtype, mine.shape) != (spec.dtype, spec.shape):
            message = (
                f"{mine.dtype} {list(mine.shape)}, {spec.dtype} {list(spec.shape)} in {last.location.path}"
            )
            raise ConversionError(message, path=reader.location.path, key=key, hints=hints)
