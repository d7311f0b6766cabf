"""hdf5: any HDF5 file that Keras did not write; its numeric and string datasets by path.

    <path>    a dataset; the path has no leading slash

A soft link to a dataset of the same file is another name of it. Links out of the file are rejected, see
formats.h5.safe. Datasets of other types (compounds, references, variable-length arrays) are named in
`facts.unlisted`, and no other HDF5 file is written without them.

Written is a contiguous dataset for each tensor, its key for a path: strings of variable
length, bfloat16 and float8 as opaque bytes with an attribute `dtype`, as Keras has them.
"""

from __future__ import annotations

import contextlib
import io
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE, ChunkSource, FixedWidth
from ..core.dtypes import BY_NAME, STRING
from ..core.region import boxes, index_shape
from ..core.spec import is_utf8, key_bytes
from ..core.words import first_of
from ..errors import ConversionError, DuplicateKeyError
from ..h5.facts import h5_facts
from ..h5.names import text
from ..h5.reader import H5Reader, read_attribute
from ..h5.safe import MOST_SOFT_LINKS
from ..h5.specs import RAW
from ..h5.writer import MOST_COMPONENTS, MOST_DIMENSIONS, NAMES
from ..model.facts import Respelling
from ..model.object_names import ObjectNames
from ..model.reader import Family, Format
from ..model.verification import Finding
from ..model.writer import ANOTHER_KEY, FormatWriter, check_text
from ..store.local.refusals import refusing
from ..wire.magic import HDF5

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.writer import WriteTarget


class HDF5Facts(NamedTuple):
    """Paths of the datasets that no key stands for, and keys that are spelled otherwise in the file."""

    unlisted: tuple[str, ...]
    respelled: Mapping[str, str] = {}

    @property
    def producer(self) -> None:
        return None

    def document(self) -> dict[str, Any]:
        renamed_keys = {"respelled": dict(self.respelled)} if self.respelled else {}
        return {"producer": None, "version": None, "unlisted": list(self.unlisted), **renamed_keys}

    def rekeyed(self, keys: Mapping[str, str]) -> HDF5Facts:
        """Return the facts for other keys; a changed key is no longer respelled."""
        kept = {key: own for key, own in self.respelled.items() if keys.get(key) == key}
        return self._replace(respelled=kept)


class Hdf5Reader(H5Reader):
    """Any HDF5 file's datasets."""

    format: Format

    def __init__(self, probe: Probe, *, lenient: bool) -> None:
        facts = probe.result_of(h5_facts)
        assert facts is not None
        file = facts.file
        super().__init__(probe.location, [file], lenient=lenient)
        self.format = FORMAT
        for path, found in file.walk(self.flaw, soft=True):
            if found.is_dataset:
                self.add(path, file, path, found, soft=MOST_SOFT_LINKS)
        self._unlisted = sorted(
            key for key, spec in self._specs.items() if spec.dtype.is_unmapped and self.is_unread(key)
        )
        for key in self._unlisted:
            del self._specs[key]
        if self._unlisted:
            message = (
                f"left out {first_of([*map(repr, self._unlisted)])}: "
                "their elements are neither numbers nor strings"
            )
            severity = "warning" if self._specs else "error"
            self.unread(Finding(severity, "dtype", message, None, file.path))
        self.seal()

    @property
    def own_keys(self) -> dict[str, str]:
        return self._respelled

    @cached_property
    def _objects(self) -> ObjectNames:
        own = self.own_keys
        return ObjectNames({own.get(key, key): spec for key, spec in self._specs.items()})

    def kind(self, key: str, spec: TensorSpec) -> str:
        by_name = self._objects.kind(self.own_keys.get(key, key), spec)
        return by_name if by_name and spec.dtype is not STRING else super().kind(key, spec)

    @cached_property
    def _respelled(self) -> dict[str, str]:
        """Keys that the file's writer had to change, because another tensor occupies their path."""
        found = {}
        (file,) = self._h5_files
        for key in self._specs:
            if any(key[:at] in self._specs for at, character in enumerate(key) if character == "."):
                dataset = file.find(key)
                own = read_attribute(file, dataset, _KEY, text) if dataset is not None else None
                if own is not None and own != key and own.replace("/", ".") == key.replace("/", "."):
                    found[key] = own
        return found

    @property
    def facts(self) -> HDF5Facts:
        return HDF5Facts(tuple(self._unlisted), self._respelled)


# Writing ----------------------------------------------------------------------------

HELD = (
    RAW
    | {name for name, dtype in BY_NAME.items() if name == dtype.array and dtype.native_numpy}
    | {STRING.name}
)
"""The types that HDF5 can describe, or Keras marks; 4-bit integers and quantized types would come back as
others.
"""

_KEY = "key"
"""The attribute of a dataset that says which key it stands for, where it is called otherwise."""

_STRINGS_AT_ONCE = 4096


class _Sink(io.FileIO):
    """A new file that the HDF5 library can always write to.

    The system's error is kept in `error`, and later data are discarded: the library neither reports such an
    error correctly, nor can it close a file after it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, "x+")
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        left = view
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        if left:
            self.seek(len(left), os.SEEK_CUR)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0


class Hdf5Writer(FormatWriter):
    """Writes each tensor as the dataset of its key."""

    is_sent_when_made = True

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        _check_names(target)
        super().__init__(format, target)

    @cached_property
    def _sink(self) -> _Sink:
        with refusing(self.target.path):
            return _Sink(self.staging.path(os.path.basename(self.target.path)))

    @cached_property
    def _file(self) -> Any:
        import h5py

        return h5py.File(self._sink, "w", libver="earliest")

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        if spec.dtype is STRING:
            self._write_strings(spec, chunks)
        else:
            self._write_numbers(spec, chunks)
        if spec.key in self._respelled:
            own = self._respelled[spec.key]
            self._file[key_bytes(spec.key)].attrs[_KEY] = own if is_utf8(own) else key_bytes(own)
        self._check_sink()

    @cached_property
    def _respelled(self) -> Mapping[str, str]:
        facts = self.target.facts
        return facts.respelled if isinstance(facts, Respelling) else {}

    def _check_sink(self) -> None:
        with refusing(self.target.path):
            if self._sink.error is not None:
                raise self._sink.error

    def _write_numbers(self, spec: TensorSpec, chunks: Iterator[Chunk]) -> None:
        import numpy as np

        assert spec.dtype.itemsize is not None
        raw = spec.dtype.name in RAW
        stored = np.dtype(f"V{spec.dtype.itemsize}") if raw else spec.dtype.numpy
        dataset = self._file.create_dataset(key_bytes(spec.key), spec.shape, stored)
        if raw:
            dataset.attrs["dtype"] = spec.dtype.name
        source = ChunkSource(chunks)
        for box in boxes(spec.shape, max(1, PIECE // spec.dtype.itemsize)):
            shape = index_shape(box)
            size = int(np.prod(shape, dtype=object)) * spec.dtype.itemsize
            dataset[box] = np.frombuffer(source.take(size), stored).reshape(shape)
        source.finish()

    def _write_strings(self, spec: TensorSpec, elements: Iterator[Chunk]) -> None:
        import h5py
        import numpy as np

        with FixedWidth(spec, elements, self.staging.staged) as strings:
            # A string of variable length ends at its first NUL; at a fixed width only the last ones go.
            stored = np.dtype(f"S{strings.width}") if strings.has_nul else h5py.string_dtype()
            dataset = self._file.create_dataset(key_bytes(spec.key), spec.shape, stored)
            waiting = iter(strings)
            for box in boxes(spec.shape, _STRINGS_AT_ONCE):
                values = np.empty(index_shape(box), stored if strings.has_nul else object)
                for at in np.ndindex(values.shape):
                    values[at] = next(waiting)
                dataset[box] = values

    def _finish(self) -> None:
        self._file.close()
        self._check_sink()
        with refusing(self.target.path):
            self._sink.close()

    def abandon(self) -> None:
        # a file that cannot be closed is removed in the last line
        if "_file" in self.__dict__:
            with contextlib.suppress(OSError, RuntimeError):
                self._file.close()
        if "_sink" in self.__dict__:
            with contextlib.suppress(OSError):
                self._sink.close()
        super().abandon()


def _check_names(target: WriteTarget) -> None:
    """Reject keys that are not paths of datasets, and keys inside the path of another."""
    keys = {spec.key for spec in target.specs}
    for spec in target.specs:
        key = spec.key
        parts = key.split("/")
        check_text(target.path, key, NAMES)
        too_deep = len(parts) > MOST_COMPONENTS
        if too_deep or "\0" in key or any(part in ("", ".") for part in parts):
            raise ConversionError(
                "this is not a valid path of a dataset", path=target.path, key=key, hints=ANOTHER_KEY
            )
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in keys:
                message = f"{'/'.join(parts[:depth])!r} is a tensor, so it cannot also be a group"
                hints = ("to leave slots out, pass --weights-only; to rename one of them, pass --sub",)
                raise DuplicateKeyError(message, path=target.path, key=key, hints=hints)


def _sniff(probe: Probe) -> bool:
    facts = probe.result_of(h5_facts)
    return facts is not None and not facts.is_keras_h5 and not facts.is_keras_weights


def _open(probe: Probe, lenient: bool) -> Hdf5Reader:
    return Hdf5Reader(probe, lenient=lenient)


def _salvage(probe: Probe, finding: Finding) -> FormatReader | None:  # noqa: ARG001  any damage is alike
    from ..h5.salvage import read_h5_remains

    return read_h5_remains(probe, FORMAT)


def _create(target: WriteTarget) -> FormatWriter:
    return Hdf5Writer(FORMAT, target)


FORMAT = Format(
    "hdf5",
    "HDF5 file",
    Family.ARRAYS,
    (".h5", ".hdf5"),
    _sniff,
    _open,
    _create,
    frozenset(HELD),
    _salvage,
    magic=("an HDF5 file", HDF5),
    nests_keys=True,
    most_dimensions=MOST_DIMENSIONS,
)
