"""Datasets of the lines and of the records of files; their iterators cannot be saved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.wire.tfrecord import iter_records

from .. import dtypes
from ..errors import DataLossError, NotFoundError
from ..nest import flatten
from ..specs import TensorSpec
from ..tensor import Tensor, as_tensor
from ..unknown import refuse
from .dataset import Dataset
from .recipe import Step
from .sources import Generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TFRecordDataset", "TextLineDataset", "lines"]

_LARGEST = 1 << 31


def lines(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        for line in file:
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def _records(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:

        def read(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(size)

        for record in iter_records(read, os.fstat(file.fileno()).st_size, _LARGEST):
            if record.payload is None:
                raise DataLossError(f"corrupted record at {record.offset}: {record.flaw}")
            yield record.payload


class _OfFiles(Dataset):
    _read: Callable[[str], Iterator[bytes]]

    def __init__(
        self, filenames: Any, compression_type: Any = None, buffer_size: Any = None,
        num_parallel_reads: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        refuse(type(self).__name__, compression_type=compression_type or None)
        read = type(self)._read

        def elements() -> Iterator[Any]:
            for path in _names(filenames):
                if not os.path.isfile(path):
                    raise NotFoundError(f"{path}; No such file or directory [Op:IteratorGetNext]")
                for value in read(path):
                    out = np.empty((), object)
                    out[()] = value
                    yield Tensor(out)

        super().__init__(Step(Generated, (), (elements, TensorSpec((), dtypes.string))))


def _names(filenames: Any) -> Iterator[str]:
    """Yield the names of files, which may be elements of a dataset."""
    parts = filenames if isinstance(filenames, Dataset) else flatten(filenames)
    for part in parts:
        value = as_tensor(part).numpy()
        for one in [value] if isinstance(value, bytes) else value.ravel().tolist():
            yield one.decode()


class TextLineDataset(_OfFiles):
    """The lines of files, without their ends."""

    _read = staticmethod(lines)


class TFRecordDataset(_OfFiles):
    """The records of files."""

    _read = staticmethod(_records)
