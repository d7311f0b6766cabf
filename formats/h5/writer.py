"""Writing HDF5: first a file in which everything has its place, then the values, in pieces.

All specs are known beforehand, so the library creates groups, attributes and datasets at once. Each dataset
is contiguous and allocated without being filled. Then the file is closed, and values go straight to their
offsets, in any order and in chunks of any size. Unwritten ranges stay holes of the file, so nothing is
written twice, and memory does not grow with a tensor.

bfloat16 and float8 have no type in HDF5: they are opaque bytes with an attribute `dtype`,
as Keras writes bfloat16.
keras/src/saving/saving_lib.py: H5IOStore
"""

from __future__ import annotations

import contextlib
import os
import re
from abc import abstractmethod
from typing import IO, TYPE_CHECKING, Any

from ..core.chunks import PIECE
from ..core.dtypes import BY_NAME
from ..core.spec import key_bytes
from ..errors import ConversionError
from ..model.writer import FormatWriter, Placement, check_text
from ..store.local.refusals import refusing
from ..store.local.removing import scratch_directory
from ..store.local.staging import Staging
from .library.damage import lacks_memory, out_of_memory
from .names import write_strings
from .specs import RAW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..model.reader import FormatReader
    from ..store.local.staged_file import StagedFile


_SKELETON = "skeleton"
"""The staged file that repeats the structure after another process has begun to fill the first."""

MOST_COMPONENTS = 1000
"""The deepest nesting of groups that is written."""

MOST_DIMENSIONS = 32
"""Of a dataset: H5S_MAX_RANK of HDF5's H5Spublic.h."""

H5_DTYPES = frozenset(
    name
    for name, dtype in BY_NAME.items()
    if dtype.is_number and not name.startswith(("q", "int4", "uint4", "int2", "uint2", "float4"))
)
"""dtypes that the datasets written here hold: numbers that h5py has a type for, and opaque ones."""


class H5Skeleton:
    """An HDF5 file being laid out.  Paths are relative to its root, parts of it made as needed.

    `about` is the path that errors name.
    """

    def __init__(self, path: str, about: str) -> None:
        import h5py

        self._about = about
        self._file = h5py.File(path, "x", locking=False)
        self._datasets: dict[str, Any] = {}

    def group(self, path: str) -> Any:
        """Return a group, created as needed."""
        return self._file.require_group(key_bytes(path)) if path else self._file

    def strings(self, path: str, name: str, values: Iterable[str]) -> None:
        """Give a group an attribute that is an array of strings."""
        write_strings(self.group(path), name, [key_bytes(value) for value in values])

    def text(self, path: str, name: str, value: str | bytes) -> None:
        """Give a group an attribute that is one string; bytes are ASCII to HDF5, str is UTF-8."""
        data = value if isinstance(value, bytes) else key_bytes(value)
        if b"\0" in data:
            message = f"attribute {name!r} has a NUL character, which HDF5 strings cannot contain"
            raise ConversionError(message, path=self._about)
        # h5py takes no lone surrogates, which stand for bytes that are not UTF-8.
        readable = isinstance(value, bytes) or data.decode("utf-8", "replace") == value
        self.group(path).attrs[name] = value if readable else data

    def dataset(self, spec: TensorSpec, path: str) -> None:
        """Make the dataset of a tensor, contiguous and without values."""
        import numpy as np
        from h5py import h5d, h5p, h5s, h5t

        dtype = spec.dtype
        stored = np.dtype(f"V{dtype.itemsize}") if dtype.name in RAW else dtype.numpy
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_layout(h5d.CONTIGUOUS)
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5d.FILL_TIME_NEVER)
        creation.set_obj_track_times(False)
        above, _, name = path.rpartition("/")
        space = h5s.create_simple(spec.shape) if spec.shape else h5s.create(h5s.SCALAR)
        type_id = h5t.py_create(stored, logical=True)
        made = h5d.create(self.group(above).id, key_bytes(name), type_id, space, creation)
        if dtype.name in RAW:
            import h5py

            h5py.Dataset(made).attrs["dtype"] = dtype.name
        self._datasets[spec.key] = made

    def close(self) -> dict[str, int]:
        """Close the file and return where the values of each tensor go; of an empty one, nowhere."""
        offsets = {key: made.get_offset() for key, made in self._datasets.items()}
        self._datasets.clear()
        self._file.close()
        return {key: offset for key, offset in offsets.items() if offset is not None}

    def abandon(self) -> None:
        self._datasets.clear()
        self._file.close()


class H5Writer(FormatWriter):
    """Writes one HDF5 file; a subclass lays it out in `_lay_out`."""

    is_sent_when_made = True
    is_resumable = True

    @abstractmethod
    def _lay_out(self, skeleton: H5Skeleton) -> None:
        """Make all groups, attributes and datasets."""

    def _h5_name(self) -> str:
        """Return the staged file's name."""
        return os.path.basename(self.target.path)

    def _start(self) -> None:
        name = self._h5_name()
        is_begun = isinstance(self.staging, Staging) and self.staging.has_begun(name)
        made = _SKELETON if is_begun else name
        self._make(self.staging.path(made))
        if is_begun:
            self._graft(self.staging.path(made), self.staging.path(name))
        self._h5: StagedFile = self.staging.adopt(name)

    def _make(self, path: str) -> None:
        """Make a file with everything in its place, and no values."""
        with refusing(self.target.path):
            skeleton = None
            try:
                skeleton = H5Skeleton(path, self.target.path)
                self._lay_out(skeleton)
                self._offsets = skeleton.close()
            except BaseException as error:
                if skeleton is not None:
                    with contextlib.suppress(OSError, RuntimeError):
                        skeleton.abandon()
                if not isinstance(error, OSError | RuntimeError):
                    raise
                if lacks_memory(error):
                    raise out_of_memory(error, self.target.path) from error
                raise _plain(error) from error

    def is_described_by(self, found: FormatReader) -> bool:  # noqa: ARG002  the writer's name
        """Whether the existing file is the same except for values."""
        with refusing(self.target.path), open(self.target.path, "rb") as there:
            return self._is_laid_out_as(there, os.fstat(there.fileno()).st_size)

    def _is_laid_out_as(self, there: IO[bytes], nbytes: int) -> bool:
        with scratch_directory() as folder:
            path = os.path.join(folder, _SKELETON)
            self._make(path)
            with open(path, "rb") as made:
                size = os.path.getsize(path)
                if nbytes != size:
                    return False
                for begin, end in self._between_values(size):
                    made.seek(begin)
                    there.seek(begin)
                    if made.read(end - begin) != there.read(end - begin):
                        return False
        return True

    def _between_values(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the file without values, in pieces."""
        places = sorted((self._offsets.get(key, 0), spec.nbytes or 0) for key, spec in self.specs.items())
        at = 0
        for offset, nbytes in [*places, (size, 0)]:
            for begin in range(at, offset, PIECE):
                yield begin, min(begin + PIECE, offset)
            at = max(at, offset + nbytes)

    def _graft(self, skeleton: str, begun: str) -> None:
        """Overwrite everything except the values of a file that another process has begun."""
        with refusing(self.target.path), open(skeleton, "rb") as source, open(begun, "r+b") as sink:
            size = os.path.getsize(skeleton)
            sink.truncate(size)
            for begin, end in self._between_values(size):
                source.seek(begin)
                sink.seek(begin)
                sink.write(source.read(end - begin))
        os.unlink(skeleton)

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:
        assert extents is None
        offset = self._offsets.get(spec.key, 0)
        for chunk in chunks:
            self._h5.write_at(offset, chunk)
            offset += len(chunk)

    def _place(self, spec: TensorSpec) -> Placement:
        return Placement(self._h5, self._offsets.get(spec.key, 0))

    def _finish(self) -> None:
        """Nothing goes last: the library wrote all but the values."""


def _plain(error: OSError | RuntimeError) -> OSError:
    """Return the error of a failed write, without the library's own stack.

    An error while a file is closed is a RuntimeError with the number in its text.
    """
    named = re.search(r"\berrno = (\d+)", str(error))
    number = getattr(error, "errno", None) or (int(named[1]) if named else None)
    return OSError(number, os.strerror(number)) if number else OSError(str(error).partition("\n")[0])


NAMES = "as HDF5 requires"
"""Why `check_text` refuses a name here."""


def check_paths(path: str, datasets: Iterable[tuple[str, str]]) -> None:
    """Refuse (key, dataset's path) that cannot all be in one file; ConversionError names the key.

    A name cannot be a group and a dataset, and `.` and empty components are not names.
    """
    keys: dict[str, str] = {}
    groups: dict[str, str] = {}
    for key, dataset in datasets:
        components = dataset.split("/")
        check_text(path, key, NAMES, dataset)
        if len(components) > MOST_COMPONENTS or any(
            component in ("", ".") or "\0" in component for component in components
        ):
            hints = ("to change the key, pass --sub or --map",)
            raise ConversionError("this is not a valid HDF5 path", path=path, key=key, hints=hints)
        keys[dataset] = key
        for count in range(1, len(components)):
            groups["/".join(components[:count])] = key
    for dataset, key in keys.items():
        if dataset in groups:
            message = f"this key conflicts with {groups[dataset]!r}: in HDF5, nothing can be below a dataset"
            raise ConversionError(
                message, path=path, key=key, hints=("to rename one of them, pass --sub or --map",)
            )


def copy_pieces(source: Any, sink: Any) -> None:
    """Copy what is left of a file object to another, in pieces."""
    while piece := source.read(PIECE):
        sink.write(piece)
