r"""npz: numpy's archives, a zip of `.npy` members; a key is a member's name without `.npy`.

    members: see formats.store.archive.reader; each is a `.npy` file, see formats.core.npy

An array of objects is a pickle, and a pickle is a program. It is listed without a dtype and never loaded.
numpy writes other libraries' types (bfloat16) as bytes without their name, so these have no dtype either.
Stored members are read in place, and deflated ones from their start. numpy/lib/_format_impl.py

The writer stores members uncompressed and without times, so the same tensors give the same file.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE, array_chunks, stored_chunks, view_of
from ..core.dtypes import INVALID, STRING
from ..core.npy import (
    CARRIED,
    LONGEST_HEADER,
    MOST_DIMENSIONS,
    NPY_DTYPES,
    PICKLED,
    decode_header,
    in_fortran_order,
    npy_chunks,
)
from ..core.region import full_index, index_shape
from ..core.slicing import allocate, fill_region, keep_chunks
from ..core.spec import TensorSpec, key_bytes
from ..errors import (
    CheckpointError,
    ChecksumError,
    ConversionError,
    CorruptCheckpointError,
    UnsupportedFeatureError,
    leave_out,
)
from ..model.name_kinds import name_kinds
from ..model.reader import Family, Format, FormatReader
from ..model.tensor import LazyTensor
from ..model.verification import Finding, Verification, verified_in_pieces
from ..model.writer import ANOTHER_KEY, FormatWriter, check_text
from ..store.archive.reader import Archive, ArchiveMember, Cursor, is_safe_name
from ..store.local.refusals import refusing
from ..store.ranges import FileRange
from ..store.work.workers import SERIAL, Workers
from ..wire.magic import ZIP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.npy import Header
    from ..core.region import Extents, Index
    from ..model.probe import Probe
    from ..model.writer import WriteTarget


_NAME_AND_HEADER = 1024
"""Bytes in which a member's name and the header of its array nearly always end."""


class NpzTensor(LazyTensor):
    """One `.npy` member."""

    def __init__(self, archive: Archive, spec: TensorSpec, member: ArchiveMember, header: Header) -> None:
        super().__init__(spec)
        self._archive = archive
        self._member = member
        self._header = header

    def read(self) -> np.ndarray[Any, Any]:
        return self.read_region(full_index(self.spec.shape))

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        if not self._is_as_stored:
            yield from array_chunks(self.read(), max_bytes)
            return
        self._check()
        header = self._header
        cursor = Cursor(self._archive, self._member, header.data_offset)
        read = partial(self._exactly, cursor)
        yield from stored_chunks(read, header.data_offset, header.nbytes, header.itemsize or 1, max_bytes)
        self._finish(cursor)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        """Return a region, the member's CRC-32 compared."""
        self._check()
        cursor = Cursor(self._archive, self._member)
        out = self._read(partial(self._exactly, cursor), index)
        self._finish(cursor)
        return out

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        if not self._is_as_stored:
            return super().region_chunks(index, max_bytes)
        return keep_chunks(self.spec, self.chunks(), index, max_bytes)

    def shard_range(self) -> FileRange | None:
        if self._member.deflated or not self._is_as_stored:
            return None
        self._check()
        offset = self._member.offset + self._header.data_offset
        return FileRange(self._archive.file, offset, self._header.nbytes, self.spec.key)

    @property
    def _is_as_stored(self) -> bool:
        """Whether chunks are the member's bytes just as they are."""
        header = self._header
        if self.spec.dtype.is_unmapped:
            return True
        is_swapped = header.fortran or header.descr.startswith(">")
        return not is_swapped and self.spec.dtype is not STRING and self.spec.dtype.name != "bool"

    def _finish(self, cursor: Cursor) -> None:
        """Go through what is left of the member, so that its CRC-32 is compared."""
        try:
            cursor.finish()
        except ChecksumError as error:
            error.key = self.spec.key
            raise

    def _exactly(self, cursor: Cursor, offset: int, size: int) -> bytes:
        data = cursor.read(offset, size)
        if len(data) != size:
            raise self._corrupt(f"the member is {size - len(data)} bytes too short")
        return data

    def _check(self) -> None:
        expected = self._header.data_offset + self._header.nbytes
        if self._member.size != expected:
            shape = list(self.spec.shape)
            what = f"{self.spec.dtype} of shape {shape}"
            message = f"the member has {self._member.size} bytes, but {what} needs {expected}"
            raise self._corrupt(message)

    def _corrupt(self, message: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(
            message,
            path=self._archive.path,
            key=self.spec.key,
            offset=self._member.offset,
            code="tensor-size",
        )

    def _read(self, read: Callable[[int, int], bytes], index: Index) -> np.ndarray[Any, Any]:
        import numpy as np

        header = self._header
        stored = np.dtype(header.descr if self.spec.dtype is STRING else self.spec.dtype.numpy)
        if header.descr.startswith(">"):
            stored = stored.newbyteorder(">")
        # An array in Fortran order is its transpose in C order.
        turn = -1 if header.fortran else 1
        shape, index = header.shape[::turn], index[::turn]
        raw = allocate(self.spec, index_shape(index), self._archive.path, stored)
        if stored.itemsize:
            fill_region(read, shape, stored, index, raw, base=header.data_offset)
        if stored == np.bool_:
            np.not_equal(raw.view(np.uint8), 0, out=raw)
        if self.spec.dtype is STRING:
            return _as_bytes(raw.T if header.fortran else raw)
        if header.fortran:
            return np.array(raw.T, stored.newbyteorder("="), order="C")
        return raw.astype(stored.newbyteorder("="), copy=False)


def _as_bytes(strings: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return fixed-width strings as objects: bytes as they are, text as UTF-8."""
    import numpy as np

    out = np.empty(strings.shape, object)
    for at, value in np.ndenumerate(strings):
        out[at] = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
    return out


def _pickled(descr: str) -> str:
    return f"its elements {descr!r} are pickled; ckpt never loads pickles"


class NumpyFacts(NamedTuple):
    """The facts of every archive of arrays."""

    producer: str = "numpy"

    def document(self) -> dict[str, Any]:
        return {"producer": self.producer, "version": None}


class NpzReader(FormatReader):
    """A zip of arrays."""

    def __init__(self, probe: Probe, *, lenient: bool) -> None:
        assert probe.zip is not None
        self.location = probe.location
        self.format = FORMAT
        self.findings: list[Finding] = []
        self._archive = probe.zip
        self._lenient = lenient
        self._archive.check()
        self._members: dict[str, tuple[ArchiveMember, Header]] = {}
        self._specs: dict[str, TensorSpec] = {}
        keys = {name.removesuffix(".npy"): name for name in self._archive.names}
        self._names = {key: keys[key] for key in sorted(keys, key=key_bytes)}
        self._proved: set[str] = set()
        self._archive.expect_heads(_NAME_AND_HEADER)
        for key, name in self._names.items():
            self._add(key, name)

    def _add(self, key: str, name: str) -> None:
        self._specs[key] = TensorSpec(key, INVALID, ())
        try:
            member = self._archive.member(name)
            header = self._header(member)
        except UnsupportedFeatureError as error:
            if not self._lenient:
                raise
            self.findings.append(Finding("error", error.code, error.message, key, error.path))
            return
        except CorruptCheckpointError as error:
            self.findings.append(Finding.of(error, key))
            return
        except ValueError as error:
            self.findings.append(Finding("error", "header", str(error), key, self._archive.path))
            return
        if self._is_pickle(header):
            self.findings.append(Finding("warning", "dtype", _pickled(header.descr), key, self._archive.path))
        elif header.dtype.is_unmapped and header.fortran:  # the bytes are of the transpose
            header = header._replace(dtype=in_fortran_order(header.dtype))
        self._members[key] = member, header
        stored = None if self._is_pickle(header) else header.nbytes
        self._specs[key] = TensorSpec(key, header.dtype, header.shape, stored)

    @staticmethod
    def _is_pickle(header: Header) -> bool:
        return header.dtype is PICKLED

    def is_unread(self, key: str) -> bool:
        return super().is_unread(key) or self._is_pickle(self._members[key][1])

    def undecoded(self, key: str) -> CheckpointError:
        if key not in self._members:
            return super().undecoded(key)
        message, hints = _pickled(self._members[key][1].descr), (leave_out(key),)
        return UnsupportedFeatureError(message, path=self._archive.path, key=key, code="dtype", hints=hints)

    def _header(self, member: ArchiveMember) -> Header:
        cursor = Cursor(self._archive, member)
        read = cursor.read if member.deflated else self._stored(member)
        head = read(0, min(member.size, 256))
        try:
            return decode_header(head)
        except ValueError:
            rest = b"" if member.size <= 256 else read(256, min(member.size, LONGEST_HEADER + 12) - 256)
            return decode_header(head + rest)

    def _stored(self, member: ArchiveMember) -> Callable[[int, int], bytes]:
        return lambda offset, size: self._archive.file.read(member.offset + offset, size)

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    def prove_specs(self, keys: Iterable[str] | None = None) -> None:
        """Compare the CRC-32 of members, which covers header and values; names are stored twice."""
        for key in self._names if keys is None else keys:
            if key in self._proved:
                continue
            try:
                for _ in self._archive.pieces(self._archive.member(self._names[key])):
                    pass
            except CorruptCheckpointError as error:
                error.key = key
                raise
            self._proved.add(key)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return name_kinds(self._specs)

    @property
    def facts(self) -> NumpyFacts:
        return NumpyFacts()

    def tensor(self, key: str) -> NpzTensor:
        return NpzTensor(self._archive, self._specs[key], *self._members[key])

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  checked in order
        yield Verification(findings=tuple(self.findings))
        for key, (member, header) in self._members.items():
            known: list[Finding] = []
            expected = header.data_offset + header.nbytes
            if not self._is_pickle(header) and member.size != expected:
                message = f"the member has {member.size} bytes, but its shape and dtype need {expected}"
                known.append(Finding("error", "tensor-size", message, key, self._archive.path, member.offset))
            yield from verified_in_pieces(key, map(len, self._archive.pieces(member)), *known)

    def close(self) -> None:
        self._archive.close()


# Writing ----------------------------------------------------------------------------

_MEMBER_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest a zip knows


class NpzWriter(FormatWriter):
    """Writes a zip of arrays."""

    is_sent_when_made = True

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        for spec in target.specs:
            _check_member_name(target, spec.key)
        super().__init__(format, target)

    @cached_property
    def _file(self) -> IO[bytes]:
        with refusing(self.target.path):
            return open(self.staging.path(os.path.basename(self.target.path)), "xb")

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED)

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        # numpy, too, always uses zip64, because sizes are unknown when a member's header is written.
        member = zipfile.ZipInfo(spec.key + ".npy", _MEMBER_TIME)
        with refusing(self.target.path), self._zip.open(member, "w", force_zip64=True) as file:
            for chunk in npy_chunks(spec, chunks, self.staging.staged):
                file.write(view_of(chunk))

    def _finish(self) -> None:
        with refusing(self.target.path):
            self._zip.close()
            self._file.close()

    def abandon(self) -> None:
        if "_zip" in self.__dict__:
            self._zip.fp = None  # discarded data gets no directory
        if "_file" in self.__dict__:
            # a file on a full disk is removed in the next line
            with contextlib.suppress(OSError):
                self._file.close()
        super().abandon()


def _check_member_name(target: WriteTarget, key: str) -> None:
    """Refuse keys that no member can be named by, or that unpacking would take out of its directory."""
    check_text(target.path, key, "as zip archives require")
    if "\0" in key or len(key_bytes(key)) > 0xFFFF - len(".npy"):
        raise ConversionError(
            "this is not a valid name in a zip archive", path=target.path, key=key, hints=ANOTHER_KEY
        )
    if not is_safe_name(key):
        raise ConversionError(
            "this name is a path outside the archive", path=target.path, key=key, hints=ANOTHER_KEY
        )


def _sniff(probe: Probe) -> bool:
    return (
        probe.zip is not None
        and bool(probe.zip.names)
        and all(name.endswith(".npy") for name in probe.zip.names)
    )


def _open(probe: Probe, lenient: bool) -> NpzReader:
    return NpzReader(probe, lenient=lenient)


def _salvage(probe: Probe, finding: Finding) -> FormatReader | None:
    from ..model.zip_salvage import read_zip_remains

    return read_zip_remains(probe, finding, FORMAT)


def _create(target: WriteTarget) -> FormatWriter:
    return NpzWriter(FORMAT, target)


FORMAT = Format(
    "npz",
    "numpy archive",
    Family.ARRAYS,
    (".npz",),
    _sniff,
    _open,
    _create,
    NPY_DTYPES,
    _salvage,
    magic=("a zip archive", ZIP),
    carries=CARRIED,
    most_dimensions=MOST_DIMENSIONS,
)
