"""GGUF: one file, or the parts that llama.cpp's gguf-split makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import unmapped
from ..core.spec import StoredType, TensorSpec
from ..errors import CheckpointNotFoundError, UnknownFormatError
from ..store.siblings import gguf_parts
from .codecs import swapped_codec
from .cursor import FileCursor, FileWindow
from .gguf_file import MAGIC, GgufHeader, TensorInfo, parse_header
from .reader import ExportReader, StoredWeight, one_range
from .tensors import DecodedTensor, StoredTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..location import Location
    from ..model.tensor import LazyTensor
    from ..store.base import File
    from .gguf_types import TensorType
    from .stored import StoredRanges

_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"


class GgufFacts(NamedTuple):
    """The metadata of a model: `show` prints it by its keys."""

    version: int
    metadata: Mapping[str, Any]

    @property
    def producer(self) -> str | None:
        return None

    def document(self) -> dict[str, Any]:
        return {"producer": None, "version": str(self.version), **dict(self.metadata)}


class GgufReader(ExportReader):
    """A model, in as many files as it is split into."""

    def _read(self, file: File) -> None:
        header = self._header(file)
        self._facts = GgufFacts(
            header.version, {key: header.metadata[key] for key in sorted(header.metadata)}
        )
        self._take(file, header)
        count = header.metadata.get(_COUNT, 1)
        if count != 1:
            self._read_parts(header, count)

    def _header(self, file: File) -> GgufHeader:
        return parse_header(FileCursor(FileWindow(file), 0, file.size))

    def _read_parts(self, first: GgufHeader, count: Any) -> None:
        """Read the other parts of a split model."""
        paths = gguf_parts(self.location.head)
        if len(paths) != count or first.metadata.get(_NUMBER) != 0:
            number = first.metadata.get(_NUMBER)
            message = f"this is part {number} of {count} of a split model, but its name does not say so"
            hint = f"rename the parts to NAME-00001-of-{count:05d}.gguf and so on" if _is_count(count) else ""
            error = self._corrupt(message, code="header", hints=(hint,) if hint else ())
            self._flaw(error)
            return
        for number, path in enumerate(paths[1:], 1):
            if not path.is_file():
                self._flaw(_missing(path))
                continue
            self._files.append(file := path.open())
            if file.read(0, len(MAGIC)) != MAGIC:
                self._flaw(UnknownFormatError("this is not a GGUF file", path=path, code="header"))
                continue
            header = self._header(file)
            if (header.metadata.get(_COUNT), header.metadata.get(_NUMBER)) != (count, number):
                found = f"{header.metadata.get(_NUMBER)!r:.20} of {header.metadata.get(_COUNT)!r:.20}"
                message = f"this is part {found} of a split model; expected part {number} of {count}"
                self._flaw(self._corrupt(message, code="header"))
                continue
            self._take(file, header)
        expected = first.metadata.get(_TENSORS)
        if expected is not None and expected != len(self._weights) and not self.findings:
            message = f"{_TENSORS} is {expected!r:.40}, but the parts have {len(self._weights)} tensors"
            self._flaw(self._corrupt(message, code="header"))

    def _take(self, file: File, header: GgufHeader) -> None:
        """Take the tensors of a file, each compared with the file's size and the others' places."""
        end = 0
        for info in sorted(header.tensors, key=lambda info: info.offset):
            if info.offset % header.alignment:
                message = (
                    f"the tensor begins at byte {info.offset}; expected a multiple of {header.alignment}"
                )
                self._flaw(self._corrupt(message, info.name, code="header"))
                continue
            if info.offset < end and info.nbytes:
                message = (
                    f"the tensor begins at byte {info.offset}, but another tensor uses the bytes up to {end}"
                )
                self._flaw(self._corrupt(message, info.name, code="overlap"))
                continue
            offset = header.data_offset + info.offset
            if info.nbytes and not self._check_range(info.name, file, offset, info.nbytes):
                continue
            end = info.offset + info.nbytes
            if info.name in self._weights:
                self._flaw(
                    self._corrupt("the tensor is in two parts of a split model", info.name, code="entry")
                )
                continue
            data = one_range(file, offset, info.nbytes)
            self._weights[info.name] = _weight(info, data, is_big_endian=header.is_big_endian)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 100_000


def _missing(path: Location) -> CheckpointNotFoundError:

    return CheckpointNotFoundError("a part of a split model is missing", path=path, code="shard-missing")


def _weight(info: TensorInfo, data: StoredRanges, *, is_big_endian: bool) -> StoredWeight:
    """Return a tensor with what reads it."""
    kind = info.type
    if kind.dtype.is_unmapped:
        return StoredWeight(TensorSpec(info.name, kind.dtype, info.shape, info.nbytes), data, _bytes_of)
    if kind.is_plain:
        make = _swapped if is_big_endian and kind.nbytes > 1 else StoredTensor
        return StoredWeight(TensorSpec(info.name, kind.dtype, info.shape), data, make)
    if is_big_endian:  # blocks are big-endian field by field, and no such file is known
        dtype = unmapped(f"{kind.name} (big-endian)")
        return StoredWeight(TensorSpec(info.name, dtype, info.shape, info.nbytes), data, _bytes_of)
    spec = TensorSpec(info.name, kind.dtype, info.shape, info.nbytes, StoredType(kind.name))
    return StoredWeight(spec, data, lambda spec, data: DecodedTensor(spec, data, _codec(kind)))


def _codec(kind: TensorType) -> Any:
    from .gguf_blocks import BlockCodec

    return BlockCodec(kind.name, kind.block, kind.nbytes)


def _swapped(spec: TensorSpec, data: StoredRanges) -> LazyTensor:
    return DecodedTensor(spec, data, swapped_codec(spec.dtype))


def _bytes_of(spec: TensorSpec, data: StoredRanges) -> LazyTensor:
    return StoredTensor(spec, data)
