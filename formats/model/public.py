"""The public interface of readers and writers, which stays compatible.

Each format has more than this, for the commands (`model.reader`, `model.writer`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..store.work.workers import SERIAL, Workers
from .tensor import LazyTensor

if TYPE_CHECKING:
    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..location import Location
    from .facts import Facts
    from .object_graph import ObjectGraph
    from .verification import Finding, Verification


class FormatDescription(Protocol):
    """A format, as other programs see it."""

    @property
    def name(self) -> str:
        """The id, as "tf-object"."""

    @property
    def title(self) -> str:
        """What people call it."""


class CheckpointReader(Mapping[str, LazyTensor], ABC):
    """An open checkpoint: a mapping of keys to tensors, and a context manager.

    Opening reads no tensor data. Several threads can read from one reader.
    """

    format: FormatDescription

    findings: list[Finding]
    """Damage that opening found and that hides no tensor. With `lenient`, damage that hides some, too."""

    object_graph: ObjectGraph | None = None
    """The object graph of a tf-object checkpoint."""

    @property
    @abstractmethod
    def specs(self) -> Mapping[str, TensorSpec]:
        """The key, dtype and shape of each tensor, sorted by the bytes of the keys."""

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, str]:
        """The kind of each key: variable, slot, optimizer, state or graph."""

    @property
    @abstractmethod
    def object_paths(self) -> Mapping[str, str]:
        """The object path of each key that has one."""

    @property
    @abstractmethod
    def full_names(self) -> Mapping[str, str]:
        """The full name of each key that has one."""

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """The metadata in the file: its producer, its configuration."""

    @abstractmethod
    def prove_specs(self, keys: Iterable[str] | None = None) -> None:
        """Compare the checksums that cover the keys, dtypes and shapes of these keys, or of all.

        Call it before you use specs without reading values.  Most formats do this when they are
        opened, or have no such checksums.  In npz and `.keras` one checksum covers specs and values,
        so this reads the values.  It also checks that no key is hidden, even if `keys` is empty.
        Raises ChecksumError, CorruptCheckpointError.
        """

    @abstractmethod
    def files(self) -> Sequence[Location]:
        """Return the paths of the checkpoint's files that exist."""

    @abstractmethod
    def missing_files(self) -> Sequence[Location]:
        """Return the paths of data files that the checkpoint names and that do not exist."""

    @abstractmethod
    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        """Check the structure, then every tensor; continue after each finding.

        The results do not depend on the workers.
        """

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether a file was written to, replaced or removed since the checkpoint was opened."""

    @abstractmethod
    def close(self) -> None:
        """Close all files."""

    @abstractmethod
    def __getitem__(self, key: str) -> LazyTensor:
        """Return the tensor of a key; TensorNotFoundError if there is none."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None: ...


class CheckpointWriter(ABC):
    """A checkpoint that is being written; a context manager.

    It knows all specs from the start and rejects what the format cannot hold before it writes the
    first byte.  Write each tensor exactly once, in any order.  Leaving the `with` block normally
    commits: the target is the complete old or the complete new checkpoint at every instant.
    Leaving it by an exception removes everything that was written; an old target is unchanged.
    """

    format: FormatDescription

    specs: dict[str, TensorSpec]
    """The key, dtype and shape of each tensor to write."""

    notes: list[str]
    """Notes about the result for the user."""

    @abstractmethod
    def write(self, key: str, data: Any) -> None:
        """Write a tensor: an array of its dtype and shape, or its chunks (see `LazyTensor.chunks`).

        Raises TensorNotFoundError for a key that is not in `specs`, and ValueError if the tensor was
        already written or the array has another shape or dtype.
        """

    @abstractmethod
    def write_slice(self, key: str, extents: Extents, data: Any) -> None:
        """Write one slice of a tensor that `create_checkpoint` was given in `slices`."""

    @abstractmethod
    def commit(self) -> None:
        """Move the checkpoint to its place.  Raises ValueError if a tensor was not written."""

    @abstractmethod
    def abandon(self) -> None:
        """Remove everything that was written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.abandon()
