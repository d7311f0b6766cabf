"""`ckpt.open`: a checkpoint as a mapping of names to tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from formats.errors import CheckpointError, TensorNotFoundError
from formats.find.opening import locate, open_location
from formats.find.resolve import spelling

from ..operations.reporting import Collected, note_choice, warn_of_findings
from ..operations.select.selection import close_keys
from .calls import hinted, lent, location
from .tables import PlottedTable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import numpy as np

    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader

    from .plots import Plot

__all__ = ["Checkpoint", "Tensor", "open"]

_COLUMNS = ("key", "object_path", "dtype", "shape", "nbytes", "kind")


class Tensor:
    """A tensor of an open checkpoint. Its values are read when you ask for them.

    - `tensor[...]` is the whole tensor as a `numpy.ndarray`. `tensor[:10]` and `tensor[0, :, 2:4]` are parts:
      integers, slices with a positive step and `...`. The result is always an array, also for one element.
    - `numpy.asarray(tensor)` is the same as `tensor[...]`. Each call reads the values again.
    - `len(tensor)` is the size of the first dimension. Iterating reads the tensor once.

    You get values only after their checksum was verified. A checksum in a bundle covers a whole tensor, so a
    slice takes as long to read as the tensor, but only the memory of the slice. HDF5 and safetensors have no
    checksums, so only the slice is read.

    Raises ChecksumError or CorruptCheckpointError for damaged values, UnsupportedFeatureError for a type
    whose values cannot be decoded, and IndexError for an index that does not match the shape.
    """

    __slots__ = ("_checkpoint", "_spec")

    def __init__(self, checkpoint: Checkpoint, spec: TensorSpec) -> None:
        self._checkpoint = checkpoint
        self._spec = spec

    @property
    def key(self) -> str:
        """The key in the file. Bytes that are not UTF-8 become lone surrogates, as in `os.fsdecode`."""
        return self._spec.key

    @property
    def object_path(self) -> str | None:
        """The object path, such as `net/l1/kernel`; None if the format has no objects."""
        return self._checkpoint._reader().object_paths.get(self._spec.key)

    @property
    def full_name(self) -> str | None:
        """The full name that TensorFlow gave the variable; None if the checkpoint has none."""
        return self._checkpoint._reader().full_names.get(self._spec.key)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape. A partitioned variable has its full shape."""
        return self._spec.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._spec.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._spec.size

    @property
    def dtype(self) -> str | None:
        """TensorFlow's name of the dtype, such as `float32` or `bfloat16`; None if it is unknown."""
        return self._spec.type_name

    @property
    def nbytes(self) -> int | None:
        """Elements times item size, in bytes. For strings and variants: the number of stored bytes."""
        return self._spec.nbytes

    @property
    def kind(self) -> str | None:
        """One of `variable`, `slot`, `optimizer`, `state` and `graph`."""
        return self._checkpoint._reader().kinds.get(self._spec.key)

    @hinted
    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        tensor = self._checkpoint._reader()[self._spec.key]
        return tensor.read() if index is Ellipsis else tensor.read_slice(index)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(
                f"the values of {self._spec.key!r} are in a file, so an array of them is always a copy"
            )
        values = self[...]
        return values if dtype is None else values.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self._spec.shape:
            raise TypeError(f"{self._spec.key!r} is a scalar and has no length")
        return self._spec.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def __repr__(self) -> str:
        return f"<Tensor {self.key!r} {self.dtype or 'of unknown dtype'} {self.shape}>"


class Checkpoint(PlottedTable, Mapping[str, Tensor]):
    """An open checkpoint: a mapping of names to tensors, and a context manager.

    `checkpoint[name]` takes a key, an object path or a full name, and returns a `Tensor`. Iterating yields
    the keys, sorted by their bytes. `repr` and notebooks show a table of the first tensors.

    An unknown name raises TensorNotFoundError, which is a KeyError; its `hints` name similar keys.
    After `close()`, or at the end of `with`, every use of the file raises CheckpointError.

    `notes` says which checkpoint of a directory was chosen. `warnings` lists damage that hides tensors.
    """

    def __init__(self, reader: FormatReader) -> None:
        self._open: FormatReader | None = reader
        self._path = str(spelling(reader.location))
        self._format = reader.format.name
        collected = Collected()
        note_choice(reader.location, collected)
        warn_of_findings(reader, collected)
        self.notes, self.warnings = tuple(collected.notes), tuple(collected.warnings)

    @property
    def path(self) -> str:
        """The path of the checkpoint that was opened. For a directory: the checkpoint that was chosen."""
        return self._path

    @property
    def format(self) -> str:
        """The id of the format, such as `tf-object`, `keras-h5` or `safetensors`."""
        return self._format

    def _reader(self) -> FormatReader:
        if self._open is None:
            raise CheckpointError("this checkpoint is closed", path=self._path)
        return self._open

    @hinted
    def __getitem__(self, name: str) -> Tensor:
        reader = self._reader()
        keys = self._keys_of(name)
        if len(keys) == 1:
            return Tensor(self, reader.specs[keys[0]])
        if keys:
            hints = tuple(f"for example: {key}" for key in keys[:3])
            raise TensorNotFoundError(
                f"{len(keys)} tensors have this name; expected one", path=self._path, key=name, hints=hints
            )
        hints = close_keys(reader, name) if isinstance(name, str) else ("pass the name as a string",)
        raise TensorNotFoundError("no such tensor", path=self._path, key=name, hints=hints)

    def _keys_of(self, name: object) -> list[str]:
        """Return the keys that a name means: keys go before object paths, and these before full names."""
        reader = self._reader()
        if not isinstance(name, str):
            return []
        if name in reader.specs:
            return [name]
        return self._by_path.get(name) or self._by_full_name.get(name, [])

    @cached_property
    def _by_path(self) -> dict[str, list[str]]:
        return _inverted(self._reader().object_paths)

    @cached_property
    def _by_full_name(self) -> dict[str, list[str]]:
        return _inverted(self._reader().full_names)

    def __contains__(self, name: object) -> bool:
        return len(self._keys_of(name)) == 1

    def __iter__(self) -> Iterator[str]:
        return iter(self._reader().specs)

    def __len__(self) -> int:
        return len(self._reader().specs)

    @hinted
    def identity(self, jobs: int | None = None) -> str:
        """Return one SHA-256 of all tensors, as `ckpt show --digest` prints it. This reads every value.

        It is the same for the same tensors in every format that keeps their names and dtypes.
        """
        from .listing import checkpoint_identity

        with lent(jobs) as workers:
            return checkpoint_identity(self._reader(), workers, Collected())

    def close(self) -> None:
        """Close the files. Closing twice is not an error."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> Self:
        self._reader()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *rest: object) -> None:
        reader, self._open = self._open, None
        if reader is not None:
            reader.__exit__(kind, error, *rest)

    # Tables ---------------------------------------------------------------------------

    def _title(self) -> str:
        if self._open is None:
            return f"<Checkpoint {self._path}: {self._format}, closed>"
        return f"<Checkpoint {self._path}: {self._format}, {len(self):,} tensors>"

    def _names(self) -> Sequence[str]:
        return _COLUMNS

    def _rows(self) -> Iterator[Sequence[Any]]:
        reader = self._open
        if reader is None:
            return iter(())
        paths, kinds = reader.object_paths, reader.kinds
        return (
            (spec.key, paths.get(spec.key), spec.type_name, spec.shape, spec.nbytes, kinds.get(spec.key))
            for spec in reader.specs.values()
        )

    def _plots(self) -> Sequence[Plot]:
        from formats.core.words import natural_order

        from ..operations.look.listing import TOP_LEVEL, split_layer
        from ..render.text import human_size
        from .plots import Bars

        reader, sizes = self._reader(), dict[str, int]()
        for key, spec in reader.specs.items():
            name = reader.object_paths.get(key, key)
            layer = split_layer(name)[0] or TOP_LEVEL
            sizes[layer] = sizes.get(layer, 0) + (spec.stored_nbytes or 0)
        largest = sorted(sizes.items(), key=lambda one: (-one[1], natural_order(one[0])))
        return [Bars("bytes by layer", largest, [human_size(size) for _, size in largest])]

    def _count(self) -> int:
        return 0 if self._open is None else len(self)

    def to_frame(self) -> Any:
        """Return one row per tensor as a `pandas.DataFrame`, without reading values.

        The columns are `key`, `object_path`, `dtype`, `shape` (a tuple of integers), `nbytes` and `kind`.
        Raises ImportError if pandas is not installed.
        """
        self._reader()
        return super().to_frame()


def _inverted(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the keys of each name."""
    found: dict[str, list[str]] = {}
    for key, name in names.items():
        found.setdefault(name, []).append(key)
    return found


@hinted
def open(path: str | os.PathLike[str]) -> Checkpoint:  # noqa: A001  as in `ckpt.open`
    """Open a checkpoint, and return it as a mapping of names to tensors.

    `path` is a prefix (`run/ckpt-10`), a file, a URL, or a directory, which means its latest checkpoint. Only
    the index is read. The format is detected by content.

    Raises CheckpointNotFoundError (a FileNotFoundError), UnknownFormatError, CorruptCheckpointError,
    InaccessibleError or UnsupportedFeatureError. All of them are CheckpointError.

    ```python
    with ckpt.open("run/ckpt-10") as checkpoint:
        kernel = checkpoint["net/l1/kernel"]  # a key, or an object path
        print(kernel.shape, kernel.dtype)  # nothing is read for these
        print(kernel[:1])  # a numpy array, its checksum verified
    ```
    """
    return Checkpoint(open_location(locate(location(path))))
