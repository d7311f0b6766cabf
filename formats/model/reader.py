"""Readers and formats.

A reader is an open checkpoint: a mapping of keys to tensors that are read on demand. Opening it reads no
tensor data. A format is one `Format`: its names, how it is recognised, read and written, and how it differs
from others.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from ..core.dtypes import INVALID
from ..core.spec import SpecColumns, Stored, spec_columns
from ..core.words import command_line
from ..errors import (
    CheckpointError,
    ConversionError,
    CorruptCheckpointError,
    ResourceError,
    TensorNotFoundError,
    exhausted,
    is_exhausted,
)
from .facts import Facts, Nothing
from .public import CheckpointReader

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from ..core.dtypes import DType
    from ..location import Location
    from .checkpoint_files import CheckpointLocation, Fingerprint
    from .operation_nodes import OperationNode
    from .probe import Probe
    from .verification import Finding
    from .writer import FormatWriter, WriteTarget
from .tensor import LazyTensor, StoredBytes


class Gap(Protocol):
    """Bytes that are missing from a file."""

    is_touched: bool
    """Whether some of them were read since this was last set to False."""


class FormatReader(CheckpointReader):
    """The reader of a format as commands use it; `CheckpointReader` is the public part.

    `findings` are the flaws that opening came across and that keep no tensor from
    being listed; the flaws that do are raised, unless it was opened `lenient`.
    """

    has_checksums: ClassVar[bool] = True
    """Whether the format stores checksums; without them a flipped bit in a value goes unnoticed."""

    lists_all: ClassVar[bool] = False
    """Whether a reader that opens lists all tensors: no damage hides some of them."""

    format: Format
    location: CheckpointLocation
    gap: Gap | None = None
    """The missing part of a damaged file, which reads as zeros."""

    fingerprint: Fingerprint | None = None
    """The state of the files before they were opened."""

    def load(self) -> None:
        """Read what opening put off: all that says which tensors there are.

        Raises what opening does where that is damaged.
        """

    @property
    def is_local(self) -> bool:
        """Whether its files are on this machine."""
        return not self.location.store.scheme

    @property
    def is_long(self) -> bool:
        """Whether `columns` come in parts, of an index that is not loaded for them."""
        return False

    def columns(self) -> Iterator[SpecColumns]:
        """Yield the specs in columns, part by part; a large index that is not loaded is read on the way.

        Raises CorruptCheckpointError, after the parts that are sound.
        """
        yield spec_columns(self.specs.values())

    @property
    def facts(self) -> Facts:
        """The metadata in the file: producer, configuration."""
        return Nothing()

    @property
    def own_keys(self) -> Mapping[str, str]:
        """The key that a tensor had before it was written here, where the file could not hold that one."""
        return {}

    @property
    def tied(self) -> Mapping[str, str]:
        """By key, the first tensor that another one is: one that the file has once, under several names."""
        return {}

    def nodes(self) -> Iterator[OperationNode]:
        """Yield the operations of an exported model's graph in order; of other checkpoints, none."""
        yield from ()

    @property
    def object_paths(self) -> Mapping[str, str]:
        """Object path by key, for the keys that have one."""
        return {}

    @property
    def edge_paths(self) -> Mapping[str, str]:
        """Object path by key as the edges have it, a slot in a list by its number: what rules see."""
        return self.object_paths

    @property
    def paths_flaw(self) -> Finding | None:
        """The damage that hides the object paths; None if they are known."""
        return None

    @property
    def full_names(self) -> Mapping[str, str]:
        """Full name by key, for the keys that have one."""
        return {}

    def prove_specs(self, keys: Iterable[str] | None = None) -> None:
        """Do nothing: opening has proved what can be proved."""

    @property
    def source_format(self) -> Format:
        """The format of the file, also for tensors that are shown in another layout."""
        return self.format

    def proved_facts(self) -> Facts:
        """Return `facts`; raise CorruptCheckpointError if some of the file's metadata cannot be read.

        Call it before you write them into another file, which would lack what cannot be read.
        """
        facts = self.facts
        for finding in self.facts_findings():
            hints = (f"to save the tensors: {command_line('rescue', self.location.path)} OUT",)
            raise CorruptCheckpointError(
                finding.message, path=finding.file, offset=finding.offset, code=finding.code, hints=hints
            )
        return facts

    def facts_findings(self) -> Sequence[Finding]:
        """Return findings about metadata that cannot be read and is therefore missing from `facts`."""
        return ()

    def read_unproved(self) -> str | None:
        """Read values from now on even where a checksum of all of them at once does not fit.

        Returns what is wrong with it; None if it fits, or where there is none.
        """
        return None

    def owners_of(self, name: str) -> tuple[str, ...]:
        """Return a hint that names the keys of a full name; none if no tensor has it."""
        keys = [repr(key) for key, full_name in self.full_names.items() if full_name == name]
        return (f"name the key instead of the full name: {' or '.join(keys)}",) if keys else ()

    @abstractmethod
    def tensor(self, key: str) -> LazyTensor:
        """Return the tensor of a key that is in `specs`; of a type that is not mapped, what has its bytes."""

    def places(self, keys: Iterable[str]) -> Iterator[Stored]:
        """Yield where the bytes of tensors are stored, as `LazyTensor.stored` does; empty if damaged."""
        for key in keys:
            try:
                yield self[key].stored
            except CheckpointError:
                yield Stored()

    def files(self) -> Sequence[Location]:
        """Return the paths of the checkpoint's files that exist."""
        return self.location.files()

    @property
    def is_index_alone(self) -> bool:
        """Whether this is an index, and none of the files that hold the values is there."""
        return False

    def missing_files(self) -> Sequence[Location]:
        """Return the paths of files with tensors that are missing."""
        return []

    def has_changed(self) -> bool:
        """Whether a file was written to, replaced or removed since the checkpoint was opened.

        One that has come is none of its files, as long as the head does not name it.
        """
        before = self.fingerprint
        if before is None:
            return False
        now = self.location.fingerprint()
        return any(now.get(path) != identity for path, identity in before.items())

    def check_unchanged(self) -> None:
        """Raise a CheckpointError if it has changed: what was read may be of two checkpoints."""
        if self.has_changed():
            raise CheckpointError("this file changed while it was read", path=self.location.path)

    def close(self) -> None:
        """Close all files."""

    def __getitem__(self, key: str) -> LazyTensor:
        spec = self.specs.get(key)
        if spec is None:
            hints = self.owners_of(key)
            raise TensorNotFoundError("no such tensor", path=self.location.path, key=key, hints=hints)
        if not spec.dtype.is_mapped and self.is_unread(key):
            raise self.undecoded(key)
        tensor = self.tensor(key)
        if spec.dtype.is_unmapped and tensor.has_values:
            return StoredBytes(spec, tensor, self.location.path)
        return tensor

    def is_unread(self, key: str) -> bool:
        """Whether nothing of a tensor can be had but its spec: `undecoded` says why."""
        return self.specs[key].dtype is INVALID

    def undecoded(self, key: str) -> CheckpointError:
        """Return why a tensor has no dtype, and so neither values nor bytes."""
        return CorruptCheckpointError(
            "the entry of this tensor cannot be decoded", path=self.location.path, key=key, code="entry"
        )

    def __contains__(self, key: object) -> bool:
        return key in self.specs

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def _repr_html_(self) -> str:
        from ..core.notebook import table

        rows = ((spec.key, spec.dtype, list(spec.shape)) for spec in self.specs.values())
        return table(("key", "dtype", "shape"), rows, len(self.specs))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if isinstance(error, CheckpointError) and self.has_changed():
            path = self.location.path
            hint = f"run this again when no program is writing to {path}"
            error.hints = (hint, *error.hints)
        self.close()
        if error is not None and is_exhausted(error):
            raise exhausted(error, self.location.path) from error
        if isinstance(error, ResourceError) and error.path is None:
            error.path = self.location.path


class Family(Enum):
    """The library that a checkpoint comes from, which determines the meaning of its keys."""

    TENSORFLOW = "variables of a program, by full name or object graph"
    KERAS = "weights of a model's layers, described by its configuration"
    ARRAYS = "arrays, known only by their names"


class Format(NamedTuple):
    """One checkpoint format: a module's `FORMAT`, found by the registry.

    `sniff` looks at a probe and says whether this is its format; formats exclude each
    other, so their order means nothing.  `reader` opens one, lenient where its second
    argument says so: to list what it can of a damaged checkpoint.  `writer` makes one
    that writes; a format without is only read.  `dtypes` are the names of those it can hold.
    """

    name: str
    title: str
    family: Family
    suffixes: tuple[str, ...]
    sniff: Callable[[Probe], bool]
    reader: Callable[[Probe, bool], FormatReader]
    writer: Callable[[WriteTarget], FormatWriter] | None
    dtypes: frozenset[str]

    salvage: Callable[[Probe, Finding], FormatReader | None] | None = None
    """Opens what is left of a file that its reader refuses, for the reason that the finding says; None where
    the file is another format's.  A format without has no more to say than its lenient reader."""

    refusal: Callable[[Probe], CheckpointError | None] | None = None
    """Returns why a file is not this format, for damaged files of its own and for related files of its
    programs, or None. Called after every `sniff` returned no.
    """

    magic: tuple[str, bytes] | None = None
    """The kind of every file with one of the suffixes, such as "a zip archive", and its first bytes."""

    carries: Container[str] = frozenset()
    """The names of stored types that are not mapped and that it writes back as they were read."""

    is_export: bool = False
    """Whether a file holds a program and the weights that an exporter made from those of a checkpoint."""

    has_object_graph: bool = False
    """Whether keys belong to nodes of an object graph, which is a part of the checkpoint."""

    has_values: bool = True
    """Whether it holds values, rather than only their descriptions."""

    is_bundle: bool = False
    """Whether it is an index next to data shards, whose tensors can be placed anywhere."""

    index_last: bool = False
    """Whether programs write the index, or the mark of what is complete, after everything else."""

    names_layers: bool = False
    """Whether weights are named by layer, in the model's order, rather than by object."""

    keeps_structure: bool = False
    """Whether plain values, as an optimizer's settings, are written around the tensors."""

    has_assets: bool = False
    """Whether a checkpoint can hold files other than tensors, such as vocabularies."""

    is_tree: bool = False
    """Whether a program restores it as a tree of arrays, each by its key."""

    nests_keys: bool = False
    """Whether parts of a key are groups, so that no key is the beginning of another's."""

    most_dimensions: int | None = None
    """How many dimensions an array of it can have, where that is less than TensorFlow's 254."""

    unshared: str = (
        "values are not stored as in a data shard (they may be compressed, chunked, "
        "inside metadata, big-endian, in Fortran order, bool, an enum, merged or cast)"
    )
    """Why nothing of it can be a data shard of a bundle, where that is so."""

    def holds(self, dtype: DType) -> bool:
        """Whether tensors of a dtype can be written, those of a type that is not mapped as their bytes."""
        return dtype.name in (self.carries if dtype.is_unmapped else self.dtypes)

    @property
    def is_by_name(self) -> bool:
        """Whether keys are full names of TensorFlow's variables."""
        return self.family is Family.TENSORFLOW and not self.has_object_graph

    @property
    def summary(self) -> str:
        """Its description in lists of formats."""
        return self.title if self.writer else f"{self.title} (read-only)"

    def require_writer(self, path: str) -> Callable[[WriteTarget], FormatWriter]:
        """Return what makes writers; ConversionError, which names the target, where nothing does."""
        if self.writer is None:
            hints = ("to see which formats are written: ckpt explain formats",)
            raise ConversionError(f"{self.name} can be read, but not written", path=path, hints=hints)
        return self.writer
