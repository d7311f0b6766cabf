r"""blob: arrays one after another behind a line that lists them.

    BLOB1\n
    [["net/w", "float32", [2, 3]], ...]\n     sorted by key
    bytes of the arrays, little-endian, in that order

A trial: tests/test_adding.py follows CONTRIBUTING.md with this file.  The format is read and written.
"""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dtypes import BY_NAME
from ..core.region import full_index, index_shape
from ..core.slicing import fill_region
from ..core.spec import Stored, TensorSpec, key_bytes
from ..errors import CorruptCheckpointError
from ..model.name_kinds import name_kinds
from ..model.reader import Family, Format, FormatReader
from ..model.tensor import LazyTensor
from ..model.verification import Finding, Verification
from ..model.writer import FormatWriter, check_text
from ..store.work.workers import SERIAL, Workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.chunks import Chunk
    from ..core.region import Extents, Index
    from ..model.probe import Probe
    from ..model.writer import WriteTarget
    from ..store.base import File


MAGIC = b"BLOB1\n"
DTYPES = frozenset(
    name for name, dtype in BY_NAME.items() if dtype.native_numpy and dtype.name == dtype.array
)
_LONGEST_LIST = 1 << 20


def _specs(line: bytes) -> Iterator[TensorSpec]:
    """Yield what the second line lists; ValueError where it lists something else."""
    rows = json.loads(line)
    if not isinstance(rows, list) or rows != sorted(rows, key=lambda row: key_bytes(row[0])):
        raise ValueError("not a sorted list")
    for key, dtype, shape in rows:
        if dtype not in DTYPES or any(type(dim) is not int or dim < 0 for dim in shape):
            raise ValueError(f"{key!r}: no array of {dtype!r}")
        yield TensorSpec(key, BY_NAME[dtype], tuple(shape), math.prod(shape) * BY_NAME[dtype].numpy.itemsize)


class BlobTensor(LazyTensor):
    """An array of a file."""

    def __init__(self, file: File, spec: TensorSpec, offset: int) -> None:
        super().__init__(spec)
        self._file = file
        self._offset = offset

    @property
    def stored(self) -> Stored:
        return Stored(self._file.path, self._offset, None)

    def read(self) -> np.ndarray[Any, Any]:
        return self.read_region(full_index(self.spec.shape))

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        out = np.empty(index_shape(index), self.spec.dtype.numpy)
        fill_region(self._file.read_exactly, self.spec.shape, out.dtype, index, out, base=self._offset)
        return out


class BlobReader(FormatReader):
    """A file of arrays."""

    has_checksums = False
    lists_all = True

    def __init__(self, probe: Probe) -> None:
        self.location = probe.location
        self.format = FORMAT
        self.findings: list[Finding] = []
        self._file = probe.location.head.open()
        line = self._file.read(len(MAGIC), _LONGEST_LIST).partition(b"\n")[0]
        try:
            self._specs = {spec.key: spec for spec in _specs(line)}
        except (ValueError, TypeError, IndexError, AttributeError) as error:
            self.close()
            raise CorruptCheckpointError(f"its list: {error}", path=self._file.path, code="header") from error
        self._offsets = {}
        at = len(MAGIC) + len(line) + 1
        for spec in self._specs.values():
            self._offsets[spec.key] = at
            at += spec.nbytes or 0
        if at != self._file.size:
            self.close()
            message = f"{self._file.size} bytes, expected {at}"
            raise CorruptCheckpointError(message, path=self._file.path, code="tensor-size")

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @property
    def kinds(self) -> Mapping[str, str]:
        return name_kinds(self._specs)

    def tensor(self, key: str) -> BlobTensor:
        return BlobTensor(self._file, self._specs[key], self._offsets[key])

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        yield Verification(self._file.size, tensors=len(self._specs))

    def close(self) -> None:
        self._file.close()


class BlobWriter(FormatWriter):
    """Writes the list first, then each array in its turn."""

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        for spec in target.specs:
            check_text(target.path, spec.key, "which JSON wants")
        self.order = tuple(sorted((spec.key for spec in target.specs), key=key_bytes))
        super().__init__(format, target)

    def _start(self) -> None:
        rows = [[key, self.specs[key].dtype.name, list(self.specs[key].shape)] for key in self.order]
        self._file = self.staging.create(os.path.basename(self.target.path))
        self._file.write(MAGIC + json.dumps(rows).encode() + b"\n")

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:
        for chunk in chunks:
            self._file.write(chunk)

    def _finish(self) -> None:
        self._file.close()


def _sniff(probe: Probe) -> bool:
    return probe.head.startswith(MAGIC)


def _open(probe: Probe, lenient: bool) -> BlobReader:
    return BlobReader(probe)


def _create(target: WriteTarget) -> BlobWriter:
    return BlobWriter(FORMAT, target)


FORMAT = Format(
    "blob",
    "file of arrays",
    Family.ARRAYS,
    (".blob",),
    _sniff,
    _open,
    _create,
    DTYPES,
    magic=("a file of arrays", MAGIC),
)
