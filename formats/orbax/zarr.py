"""zarr arrays, version 2 and 3: what an array's metadata says, and the bytes of its chunks.

    NAME/.zarray          version 2, JSON: shape, chunks, dtype, compressor, order, dimension_separator
    NAME/0.1, NAME/0      chunks by their position, of no dimensions 0
    NAME/zarr.json        version 3, JSON: shape, chunk_grid, data_type, codecs
    NAME/c/0/1, NAME/c    chunks; of a shard its inner chunks, and at its end an index of them:
                          offset, length: uint64 of each, all bits set where there is none; CRC-32C

Chunks at the edges are whole.  Orbax stores each chunk, so one that is missing is damage.
zarr-specs.readthedocs.io
"""

from __future__ import annotations

import math
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import BY_NAME, DType, unmapped
from ..wire.crc32c import crc32c
from ..wire.jsontext import parse_object
from ..wire.zstd import decompress, decompress_into

if TYPE_CHECKING:
    import numpy as np

    Bytes = bytes | bytearray | memoryview

MOST_DIMENSIONS = 254
_NUMPY = re.compile(r"([<>|])([biufc])(\d{1,2})")
_FAMILIES = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_UNMAPPED = frozenset(("float8_e3m4", "float8_e4m3", "float6_e2m3fn", "float6_e3m2fn", "uint1", "int1"))
"""Types of one byte that have no dtype here."""

_ABSENT = (1 << 64) - 1
_SLACK = 1 << 16


class CodecChain(NamedTuple):
    """How the bytes of a chunk are encoded: `steps` were applied to its elements one after the other."""

    is_big: bool
    steps: tuple[str, ...]

    def decode(self, data: Bytes, size: int) -> Bytes:
        """Return the bytes of all elements; ValueError where they are not `size`."""
        sizes = [size]
        for step in self.steps:
            sizes.append(sizes[-1] + 4 if step == "crc32c" else -1)
        for step, expected in zip(reversed(self.steps), reversed(sizes[:-1]), strict=True):
            data = _DECODERS[step](data, expected)
        if len(data) != size:
            raise ValueError(f"the elements have {len(data)} bytes; expected {size}")
        return data

    def decode_into(self, data: memoryview, out: memoryview) -> None:
        """Fill `out` with the bytes of all elements; ValueError where they are not as many."""
        if self.steps == ("zstd",):
            decompress_into(data, out)
        else:
            out[:] = self.decode(data, len(out))

    def largest(self, size: int) -> int:
        """Return how many bytes `size` of elements can become."""
        return size + size // 128 + _SLACK


def _unzipped(data: Bytes, size: int) -> Bytes:
    """Return what zlib or gzip has packed."""
    machine = zlib.decompressobj(47)
    try:
        out = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"this is not a zlib or gzip stream: {error}") from error
    if len(out) != size or not machine.eof:
        raise ValueError(f"a zlib or gzip stream does not have {size} bytes of content")
    return out


def _checked(data: Bytes, size: int) -> Bytes:
    """Return bytes without the checksum behind them."""
    del size
    stored, found = int.from_bytes(data[-4:], "little"), crc32c(bytes(data[:-4]))
    if len(data) < 4 or stored != found:
        raise ValueError(f"the data has checksum {found:#010x}, but the stored one is {stored:#010x}")
    return data[:-4]


_DECODERS = {
    "zstd": lambda data, size: decompress(bytes(data), size),
    "gzip": _unzipped,
    "zlib": _unzipped,
    "crc32c": _checked,
}


class ShardIndex(NamedTuple):
    """The inner chunks of a shard: how many in each dimension, and how the index is encoded."""

    counts: tuple[int, ...]
    codecs: CodecChain
    is_at_end: bool

    @property
    def nbytes(self) -> int:
        """The bytes of the index as it is stored."""
        return 16 * int(math.prod(self.counts)) + 4 * self.codecs.steps.count("crc32c")

    def ranges(self, data: bytes) -> np.ndarray[Any, Any]:
        """Return offset and length of each inner chunk."""
        import numpy as np

        count = math.prod(self.counts)
        order = ">" if self.codecs.is_big else "<"
        return np.frombuffer(self.codecs.decode(data, 16 * count), order + "u8").reshape(count, 2)


class ZarrArray(NamedTuple):
    """The metadata of an array. `cell` is the shape of a chunk, or of an inner one in shards."""

    dtype: DType
    shape: tuple[int, ...]
    cell: tuple[int, ...]
    codecs: CodecChain
    order: str
    prefix: str
    separator: str
    shard: ShardIndex | None = None
    fill: Any = None
    """The content of chunks that are not stored; None if each must be."""

    @property
    def cell_bytes(self) -> int:
        return int(math.prod(self.cell)) * (self.dtype.itemsize or 1)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return int(math.prod(self.shape)) * (self.dtype.itemsize or 1)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The dtype of arrays that hold it; bytes of what is not mapped."""
        import numpy as np

        return np.dtype(np.uint8) if self.dtype.is_unmapped else self.dtype.numpy

    def chunk_key(self, position: tuple[int, ...]) -> str:
        """Return by what a chunk, or a shard, is called behind the array's name."""
        found = self.separator.join(map(str, position))
        if not self.prefix:
            return found or "0"
        return f"{self.prefix}{self.separator}{found}" if position else self.prefix

    @property
    def _files(self) -> tuple[int, ...]:
        """How many chunks, or shards, there are in each dimension."""
        counts = self.shard.counts if self.shard is not None else (1,) * len(self.shape)
        sizes = (size * count for size, count in zip(self.cell, counts, strict=True))
        return tuple(-(-dim // size) if size else 0 for dim, size in zip(self.shape, sizes, strict=True))

    def count_files(self) -> int:
        """Return how many chunks, or shards, there are."""
        return int(math.prod(self._files))

    def file_at(self, number: int) -> tuple[int, ...]:
        """Return the position of a chunk, or a shard, by its number in C order."""
        position = []
        for count in reversed(self._files):
            number, at = divmod(number, count)
            position.append(at)
        return tuple(reversed(position))

    def filled(self) -> np.ndarray[Any, Any] | None:
        """Return a chunk that is not stored; None where each chunk is.  ValueError for a strange value."""
        import numpy as np

        if self.fill is None or self.dtype.is_unmapped:
            return None
        value = complex(*self.fill) if isinstance(self.fill, list) else self.fill
        if isinstance(value, str):
            if value not in ("NaN", "Infinity", "-Infinity"):
                raise ValueError(f"a chunk is missing, and the fill_value {value!r:.40} is unknown")
            value = float(value.replace("Infinity", "inf"))
        try:
            return np.broadcast_to(np.array(value).astype(self.numpy), self.cell)
        except (TypeError, OverflowError) as error:
            raise ValueError(
                f"a chunk is missing, and the fill_value {str(value)[:40]} is invalid"
            ) from error

    def elements(self, data: Bytes) -> np.ndarray[Any, Any]:
        """Return the elements of a cell; ValueError where its bytes are damaged."""
        import numpy as np

        dtype = self.numpy
        found = np.frombuffer(self.codecs.decode(data, self.cell_bytes), dtype)
        if self.codecs.is_big and dtype.itemsize > 1:
            found = found.view(_word(dtype)).byteswap().view(dtype)
        return found.reshape(self.cell, order="F" if self.order == "F" else "C")


def _word(dtype: np.dtype[Any]) -> str:
    """Return the type of the numbers whose bytes are swapped: of a complex number, its two halves."""
    return f"u{dtype.itemsize // 2 if dtype.kind == 'c' else dtype.itemsize}"


class UnreadZarrError(ValueError):
    """The array is intact, as far as known, and uses a feature that is not supported."""


def parse_array(data: bytes) -> ZarrArray:
    """Return what `.zarray` or `zarr.json` says; ValueError where it is neither, or damaged."""
    document = parse_object(data, spells_bytes=False)
    version = document.get("zarr_format")
    if version == 2:
        return _version_2(document)
    if version == 3:
        return _version_3(document)
    raise ValueError(f"zarr_format is {version!r:.40}; expected 2 or 3")


def _shape(value: Any, what: str) -> tuple[int, ...]:
    is_list = isinstance(value, list) and len(value) <= MOST_DIMENSIONS
    if not is_list or not all(type(dim) is int and 0 <= dim < 1 << 48 for dim in value):
        raise ValueError(f"the {what} {str(value)[:80]} is invalid")
    return tuple(value)


def _separator(value: Any) -> str:
    if value not in (".", "/"):
        raise ValueError(f"the separator {value!r:.40} is invalid")
    return str(value)


def _checked_array(found: ZarrArray) -> ZarrArray:
    if len(found.cell) != len(found.shape) or (0 not in found.shape and 0 in found.cell):
        raise ValueError(f"chunks {list(found.cell)} do not fit shape {list(found.shape)}")
    return found


def _dtype(name: Any) -> tuple[DType, bool]:
    """Return a dtype, and whether its bytes are in big-endian order."""
    match = _NUMPY.fullmatch(name) if isinstance(name, str) else None
    if match is not None:
        family, size = match[2], int(match[3])
        name = "bool" if (family, size) == ("b", 1) else f"{_FAMILIES.get(family)}{8 * size}"
    found = BY_NAME.get(name) if isinstance(name, str) else None
    if found is not None and found.is_number:
        return found, match is not None and match[1] == ">"
    if isinstance(name, str) and name in _UNMAPPED:
        return unmapped(name), False
    raise UnreadZarrError(f"dtype {name!r:.40} is not supported")


def _version_2(document: dict[str, Any]) -> ZarrArray:
    dtype, is_big = _dtype(document.get("dtype"))
    if document.get("filters"):
        raise UnreadZarrError(f"filters {str(document['filters'])[:80]} are not supported")
    compressor = document.get("compressor")
    steps: tuple[str, ...] = ()
    if compressor is not None:
        name = compressor.get("id") if isinstance(compressor, dict) else compressor
        if name not in ("zstd", "gzip", "zlib"):
            raise UnreadZarrError(f"compressor {name!r:.40} is not supported")
        steps = (str(name),)
    order = document.get("order", "C")
    if order not in ("C", "F"):
        raise ValueError(f"the order {order!r:.40} is invalid")
    return _checked_array(
        ZarrArray(
            dtype,
            _shape(document.get("shape"), "shape"),
            _shape(document.get("chunks"), "chunks"),
            CodecChain(is_big, steps),
            order,
            "",
            _separator(document.get("dimension_separator", ".")),
            fill=document.get("fill_value"),
        )
    )


def _named(value: Any, what: str) -> tuple[str, dict[str, Any]]:
    """Return the name and configuration of an extension point."""
    name = value.get("name") if isinstance(value, dict) else value
    configuration = value.get("configuration", {}) if isinstance(value, dict) else {}
    if not isinstance(name, str) or not isinstance(configuration, dict):
        raise ValueError(f"the {what} {str(value)[:80]} is invalid")  # noqa: TRY004  the text is at fault
    return name, configuration


def _chain(value: Any) -> CodecChain:
    """Return codecs that begin with `bytes`."""
    if not isinstance(value, list) or not value or len(value) > 4:
        raise ValueError(f"the codecs {str(value)[:80]} are invalid")
    first, *rest = [_named(each, "codec") for each in value]
    if first[0] != "bytes" or any(name not in _DECODERS for name, _ in rest):
        raise UnreadZarrError(f"codecs {[name for name, _ in (first, *rest)]} are not supported")
    steps = tuple(name for name, _ in rest)
    if sum(step != "crc32c" for step in steps) > 1:
        raise UnreadZarrError(f"codecs {list(steps)} are not supported")
    endian = first[1].get("endian", "little")
    if endian not in ("little", "big"):
        raise ValueError(f"the endian {endian!r:.40} is invalid")
    return CodecChain(endian == "big", steps)


def _version_3(document: dict[str, Any]) -> ZarrArray:
    dtype, _ = _dtype(document.get("data_type"))
    shape = _shape(document.get("shape"), "shape")
    grid, of_grid = _named(document.get("chunk_grid"), "chunk_grid")
    encoding, of_encoding = _named(document.get("chunk_key_encoding"), "chunk_key_encoding")
    if grid != "regular" or encoding not in ("default", "v2") or document.get("storage_transformers"):
        raise UnreadZarrError(f"chunk grid {grid!r:.40} with keys {encoding!r:.40} is not supported")
    chunk = _shape(of_grid.get("chunk_shape"), "chunk_shape")
    prefix = "c" if encoding == "default" else ""
    separator = _separator(of_encoding.get("separator", "/" if prefix else "."))
    codecs = document.get("codecs")
    if not isinstance(codecs, list) or not codecs:
        raise ValueError(f"the codecs {str(codecs)[:80]} are invalid")
    name, configuration = _named(codecs[0], "codec")
    if name != "sharding_indexed":
        return _checked_array(
            ZarrArray(
                dtype, shape, chunk, _chain(codecs), "C", prefix, separator, None, document.get("fill_value")
            )
        )
    if len(codecs) > 1:
        raise UnreadZarrError("codecs around shards are not supported")
    inner = _shape(configuration.get("chunk_shape"), "chunk_shape")
    if len(inner) != len(chunk) or not all(inner) or any(a % b for a, b in zip(chunk, inner, strict=True)):
        raise ValueError(f"shards of {list(chunk)} do not consist of chunks of {list(inner)}")
    location = configuration.get("index_location", "end")
    if location not in ("start", "end"):
        raise ValueError(f"the index_location {location!r:.40} is invalid")
    index_codecs = _chain(configuration.get("index_codecs"))
    if any(step != "crc32c" for step in index_codecs.steps):
        raise UnreadZarrError("a compressed index of shards is not supported")
    counts = tuple(a // b for a, b in zip(chunk, inner, strict=True))
    shard = ShardIndex(counts, index_codecs, location == "end")
    found = ZarrArray(
        dtype,
        shape,
        inner,
        _chain(configuration.get("codecs")),
        "C",
        prefix,
        separator,
        shard,
        document.get("fill_value"),
    )
    return _checked_array(found)


def is_absent(offset: int, length: int) -> bool:
    """Whether an entry of a shard's index says that there is no such chunk."""
    return offset == length == _ABSENT
