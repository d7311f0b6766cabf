"""safetensors: a header of JSON, then the tensors' bytes and nothing else.

    header length: uint64
    header: JSON object, padded with spaces: key -> {"dtype": "F32", "shape": [2, 3],
            "data_offsets": [begin, end]}; "__metadata__" -> object of strings
    data: tensors in C order, little-endian; offsets count from here, and together cover
          it all, without a hole and without an overlap

The header has at most 100,000,000 bytes.  There is no checksum.
https://github.com/huggingface/safetensors, README "Format", safetensors/src/tensor.rs
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE, array_chunks, stored_chunks
from ..core.dtypes import DTYPES, DType, unmapped
from ..core.region import full_index, index_shape
from ..core.slicing import allocate, fill_region, region_chunks
from ..core.spec import TensorSpec, key_bytes
from ..core.words import command_line
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..model.expansion import expansion_flaw
from ..model.name_kinds import name_kinds
from ..model.reader import FormatReader
from ..model.tensor import LazyTensor
from ..model.verification import Finding, Verification, verified_in_pieces
from ..store.ranges import FileRange
from ..store.work.workers import SERIAL, Workers
from ..wire.jsontext import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index
    from ..model.probe import Probe
    from ..model.reader import Format
    from ..store.base import File


LONGEST_HEADER = 100_000_000
MOST_DIMENSIONS = 254  # TensorFlow's own limit; the product of dimensions stays cheap to take.
METADATA = "__metadata__"


class SafetensorsFacts(NamedTuple):
    """What a header holds under `__metadata__`."""

    strings: Mapping[str, str] = {}

    @property
    def producer(self) -> str | None:
        return self.strings.get("format")

    def document(self) -> dict[str, Any]:
        listed = {METADATA: dict(self.strings)} if self.strings else {}
        return {"producer": self.producer, "version": None, **listed}


MOST_METADATA = 16 << 20
"""The most characters that are read: code that shows or writes them holds several copies."""

LENGTH_SIZE = 8
_BY_CODE = {dtype.safetensors: dtype for dtype in DTYPES if dtype.safetensors}
DTYPES_HELD = frozenset(dtype.name for dtype in _BY_CODE.values())
_PACKED_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
"""Types of the format whose elements share bytes, and the bits of one."""

CARRIED = frozenset(_PACKED_BITS)
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,31}")
"""A dtype as the format spells them, also one that a later version may have."""

_CUT = ("copy the file again; the copy or the save was interrupted",)


def begins_as_one(head: bytes) -> bool:
    """Whether a file that begins so is a safetensors file, by the length of its header and its brace."""
    # A length below 2**48, so that text with a brace in its ninth column is not taken for one.
    return head[6:9] == b"\0\0{"


class _Entry(NamedTuple):
    """One tensor of the header, offsets counted from the beginning of the data."""

    key: str
    dtype: DType
    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _bits(entry: _Entry) -> int | None:
    """Return the number of bits for an entry's shape and dtype, or None if the dtype is unknown."""
    itemsize = None if entry.dtype.is_unmapped else entry.dtype.itemsize
    each = _PACKED_BITS.get(entry.code) if itemsize is None else 8 * itemsize
    return None if each is None else math.prod(entry.shape) * each


def _spelled(bits: int) -> str:
    return f"{bits} bits" if bits % 8 else f"{bits // 8} bytes"


def _beginning(value: Any) -> str:
    """Return how a JSON value begins; it can be a list of millions."""
    return str(value[:20] if isinstance(value, list) else value)[:80]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _entry(key: str, value: Any) -> _Entry:
    """Return an entry of the header; ValueError, saying why, if it is not one."""
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ValueError("the entry must have only dtype, shape and data_offsets")
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise ValueError(f"the dtype {str(code)[:40]!r} is invalid")
    if (
        not isinstance(shape, list)
        or len(shape) > MOST_DIMENSIONS
        or not all(_is_count(dim) for dim in shape)
    ):
        raise ValueError(f"the shape {_beginning(shape)} is invalid")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(at) for at in offsets):
        raise ValueError(f"the data_offsets {_beginning(offsets)} are invalid")
    return _Entry(key, _BY_CODE.get(code) or unmapped(code), code, tuple(shape), *offsets)


class SafetensorsTensor(LazyTensor):
    """One contiguous tensor."""

    def __init__(self, file: File, spec: TensorSpec, offset: int) -> None:
        super().__init__(spec)
        self._file = file
        self._offset = offset

    def read(self) -> np.ndarray[Any, Any]:
        values = self.file_range()
        return self.read_region(full_index(self.spec.shape)) if values is None else values.array(self.spec)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        if self.spec.dtype.name == "bool":  # bytes other than 0 and 1 have to be made into these
            yield from array_chunks(self.read(), max_bytes)
            return
        size, itemsize = self.spec.nbytes or 0, self.spec.dtype.itemsize or 1
        self._file.expect(self._offset, size)
        yield from stored_chunks(self._file.read_exactly, self._offset, size, itemsize, max_bytes)

    def file_range(self) -> FileRange | None:
        return None if self.spec.dtype.name == "bool" else self.digest_range()

    def digest_range(self) -> FileRange:
        size = self.spec.nbytes or 0
        return FileRange(self._file, self._offset, size, self.spec.key)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return region_chunks(self.read_region, index, self.spec.dtype.itemsize or 1, max_bytes)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        import numpy as np

        out = allocate(self.spec, index_shape(index), self._file.path)
        fill_region(self._file.read_exactly, self.spec.shape, out.dtype, index, out, base=self._offset)
        if out.dtype == np.bool_:
            np.not_equal(out.view(np.uint8), 0, out=out)
        return out


class SafetensorsReader(FormatReader):
    """A safetensors file."""

    has_checksums = False
    lists_all = True  # a header names all tensors, or is rejected

    def __init__(self, probe: Probe, format: Format, *, lenient: bool) -> None:  # noqa: A002  the word of the field
        self.location = probe.location
        self.format = format
        self.findings: list[Finding] = []
        self._lenient = lenient
        self._file = probe.location.head.open()
        self._strings: dict[str, Any] = {}
        header = self._read_header()
        # Popped, for what is parsed is several times as large as what is kept of it.
        found = (self._take(key, header.pop(key)) for key in [*header])
        entries = [entry for entry in found if entry is not None]
        self._check_layout(entries)
        self._check_sizes(entries)
        self._entries = {
            entry.key: entry for entry in sorted(entries, key=lambda entry: key_bytes(entry.key))
        }
        self._specs = {
            key: TensorSpec(key, entry.dtype, entry.shape, entry.end - entry.begin)
            for key, entry in self._entries.items()
        }

    def _corrupt(
        self, message: str, *, code: str = "header", key: str | None = None, offset: int | None = None
    ) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self._file.path, key=key, offset=offset, code=code)

    def _flaw(self, error: CheckpointError) -> None:
        if not self._lenient:
            raise error
        self.findings.append(Finding.of(error))

    def _read_header(self) -> dict[str, Any]:
        length = int.from_bytes(self._file.read_exactly(0, LENGTH_SIZE), "little")
        if length > LONGEST_HEADER:
            raise self._corrupt(
                f"the header has {length} bytes, over the limit of {LONGEST_HEADER}", offset=0
            )
        self._data_offset = LENGTH_SIZE + length
        if self._data_offset > self._file.size:
            message = f"the header has {length} bytes, but the file has only {self._file.size}"
            raise CorruptCheckpointError(message, path=self._file.path, offset=0, code="header", hints=_CUT)
        try:
            header = parse_object(self._file.read_exactly(LENGTH_SIZE, length), spells_bytes=False)
        except ValueError as error:
            raise self._corrupt(f"header: {error}", offset=LENGTH_SIZE) from error
        self._strings = header.pop(METADATA, {})
        if not isinstance(self._strings, dict) or not all(
            isinstance(value, str) for value in self._strings.values()
        ):
            self.findings.append(
                Finding("error", "header", f"{METADATA} is not an object of strings", file=self._file.path)
            )
            self._strings = {}
        size = sum(len(key) + len(value) for key, value in self._strings.items())
        if size > MOST_METADATA:
            message = f"{METADATA} has {size} characters, over the limit of {MOST_METADATA}"
            rescue = command_line("rescue", self._file.path, "OUT.safetensors")
            hints = (f"to save the tensors without it, run: {rescue}",)
            self._flaw(
                UnsupportedFeatureError(message, path=self._file.path, offset=0, code="header", hints=hints)
            )
            self._strings = {}
        return header

    def _take(self, key: str, value: Any) -> _Entry | None:
        try:
            entry = _entry(key, value)
        except ValueError as error:
            self._flaw(self._corrupt(str(error), key=key, code="entry"))
            return None
        expected = _bits(entry)
        if entry.end < entry.begin or expected not in (None, 8 * (entry.end - entry.begin)):
            offsets, shape = [entry.begin, entry.end], list(entry.shape)
            size = "" if expected is None else f"; {entry.code} of shape {shape} needs {_spelled(expected)}"
            message = f"the data_offsets {offsets} are wrong{size}"
            self._flaw(self._corrupt(message, key=key, code="tensor-size"))
            return None
        if expected is None:
            message = f"the dtype {entry.code!r} is unknown"
            self.findings.append(Finding("error", "dtype", message, key, self._file.path))
        return entry

    def _check_layout(self, entries: list[_Entry]) -> None:
        """Compare the data with the offsets: each tensor begins where another ends, and the last ends at the
        end.
        """
        end = 0
        for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
            if entry.begin != end:
                code, what = (
                    ("overlap", "overlaps the data up to")
                    if entry.begin < end
                    else ("header", "leaves a gap after")
                )
                message = f"the tensor begins at byte {entry.begin} of the data and {what} byte {end}"
                self._flaw(
                    self._corrupt(message, key=entry.key, code=code, offset=self._data_offset + entry.begin)
                )
            end = max(end, entry.end)
        size = self._file.size - self._data_offset
        if size < end:
            message = f"the file is truncated: it has {size} bytes of data, but the header lists {end}"
            error = CorruptCheckpointError(
                message, path=self._file.path, offset=self._file.size, code="shard-short", hints=_CUT
            )
            # data before the cut can still be read
            self._flaw(error)
        elif size > end:
            self._flaw(
                self._corrupt(
                    f"the file has {size} bytes of data, but the header lists {end}",
                    offset=self._data_offset + end,
                )
            )

    def _check_sizes(self, entries: list[_Entry]) -> None:
        """Reject entries that share the same bytes so often that reading each would take far too long."""
        stored = self._file.size - self._data_offset
        total = sum(min(entry.end, stored) - min(entry.begin, stored) for entry in entries)
        flaw = expansion_flaw(total, stored)
        if flaw is not None:
            raise self._corrupt(flaw, code="overlap", offset=self._data_offset)

    @property
    def header_size(self) -> int:
        return self._data_offset

    @property
    def strings(self) -> Mapping[str, str]:
        """What the header holds under `__metadata__`."""
        return self._strings

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return name_kinds(self._specs)

    @property
    def facts(self) -> SafetensorsFacts:
        return SafetensorsFacts(self._strings)

    def tensor(self, key: str) -> SafetensorsTensor:
        return SafetensorsTensor(self._file, self._specs[key], self._data_offset + self._entries[key].begin)

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  checked in order
        """Check the header, and that every byte can be read; the format has no checksums."""
        yield Verification(findings=tuple(self.findings))
        for key, entry in self._entries.items():
            yield from verified_in_pieces(key, self._sizes_read(entry))

    def _sizes_read(self, entry: _Entry) -> Iterator[int]:
        """Read an entry's bytes in pieces, and yield their sizes."""
        for offset in range(entry.begin, entry.end, PIECE):
            yield len(self._file.read_exactly(self._data_offset + offset, min(PIECE, entry.end - offset)))

    def close(self) -> None:
        self._file.close()
