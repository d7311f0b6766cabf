"""npy: one array in numpy's own file, see formats.core.npy; its key is `array`.

A trial: what CONTRIBUTING.md says of adding a format is followed with this file.  It is only read.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.npy import LONGEST_HEADER, MAGIC, NPY_DTYPES, decode_header
from ..core.region import full_index, index_shape
from ..core.slicing import fill_region
from ..core.spec import TensorSpec
from ..errors import CorruptCheckpointError
from ..model.name_kinds import name_kinds
from ..model.reader import Family, Format, FormatReader
from ..model.tensor import LazyTensor
from ..model.verification import Finding, Verification
from ..store.work.workers import SERIAL, Workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.npy import Header
    from ..core.region import Index
    from ..model.probe import Probe
    from ..store.base import File


KEY = "array"


class NpyTensor(LazyTensor):
    """The array of a file."""

    def __init__(self, file: File, spec: TensorSpec, header: Header) -> None:
        super().__init__(spec)
        self._file = file
        self._header = header

    def read(self) -> np.ndarray[Any, Any]:
        return self.read_region(full_index(self.spec.shape))

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        out = np.empty(index_shape(index), self.spec.dtype.numpy)
        base = self._header.data_offset
        fill_region(self._file.read_exactly, self.spec.shape, out.dtype, index, out, base=base)
        return out


class NpyReader(FormatReader):
    """A file of one array."""

    has_checksums = False
    lists_all = True

    def __init__(self, probe: Probe) -> None:
        self.location = probe.location
        self.format = FORMAT
        self.findings: list[Finding] = []
        self._file = probe.location.head.open()
        try:
            self._header = decode_header(self._file.read(0, LONGEST_HEADER + 12))
        except ValueError as error:
            raise CorruptCheckpointError(str(error), path=self._file.path, offset=0, code="header") from error
        if self._header.fortran or self._header.data_offset + self._header.nbytes != self._file.size:
            raise CorruptCheckpointError("an array of another size", path=self._file.path, code="tensor-size")

    @cached_property
    def specs(self) -> Mapping[str, TensorSpec]:
        header = self._header
        return {KEY: TensorSpec(KEY, header.dtype, header.shape, header.nbytes)}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return name_kinds(self.specs)

    def tensor(self, key: str) -> NpyTensor:
        return NpyTensor(self._file, self.specs[key], self._header)

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        yield Verification(self._header.nbytes, tensors=1)

    def close(self) -> None:
        self._file.close()


def _sniff(probe: Probe) -> bool:
    return probe.head.startswith(MAGIC)


def _open(probe: Probe, lenient: bool) -> NpyReader:
    return NpyReader(probe)


FORMAT = Format("npy", "array of numpy's", Family.ARRAYS, (".npy",), _sniff, _open, None, NPY_DTYPES)
