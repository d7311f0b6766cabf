"""Readers and formats.

A reader is an open checkpoint: a mapping of keys to tensors that are read when asked for.
Opening it reads no tensor data.  A format is one `Format`: its names, how to recognise it,
its reader and its writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from ..core.dtypes import INVALID
from ..errors import CheckpointError, CorruptCheckpointError, TensorNotFoundError
from ..store.workers import SERIAL, Workers

if TYPE_CHECKING:
    from ..core.spec import TensorSpec
    from .location import Fingerprint, Location
    from .object_graph import ObjectGraph
    from .probe import Probe
    from .verification import Finding, Verification
    from .writer import CheckpointWriter, Target
from .tensor import LazyTensor


class CheckpointReader(Mapping[str, LazyTensor], ABC):
    """An open checkpoint; a context manager.

    `findings` are the flaws that opening came across and that keep no tensor from
    being listed; the flaws that do are raised, unless it was opened `lenient`.
    """

    has_checksums: ClassVar[bool] = True
    """Whether the format stores checksums; without them a flipped bit in a value is noticed by nobody."""

    format: Format
    location: Location
    object_graph: ObjectGraph | None = None
    findings: list[Finding]
    fingerprint: Fingerprint | None = None
    """What the files were before they were opened."""

    @property
    @abstractmethod
    def specs(self) -> Mapping[str, TensorSpec]:
        """All specs by key, in the order of key bytes."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the file says of itself: producer, configuration."""
        return {}

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, str]:
        """Kind by key: variable, slot, optimizer, state or graph."""

    @property
    def object_paths(self) -> Mapping[str, str]:
        """Object path by key, for the keys that have one."""
        return {}

    @property
    def paths_flaw(self) -> Finding | None:
        """What keeps anybody from telling the object paths that there are; None where they are known."""
        return None

    @property
    def full_names(self) -> Mapping[str, str]:
        """Full name by key, for the keys that have one."""
        return {}

    def owners_of(self, name: str) -> tuple[str, ...]:
        """Return a hint that names the keys of a full name; none where no tensor has it."""
        keys = [repr(key) for key, full_name in self.full_names.items() if full_name == name]
        return (f"that is the full name of {' and of '.join(keys)}",) if keys else ()

    @abstractmethod
    def tensor(self, key: str) -> LazyTensor:
        """Return the tensor of a key that is in `specs`."""

    def files(self) -> list[str]:
        """Return the paths of the checkpoint's files that are there."""
        return self.location.files()

    def missing_files(self) -> list[str]:
        """Return the paths of files that hold tensors and are not there."""
        return []

    @abstractmethod
    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        """Check structure, then every tensor, and go on after what is found.

        What is yielded does not depend on who does the work.
        """

    def has_changed(self) -> bool:
        """Whether a file was written to, replaced or removed since the checkpoint was opened."""
        return self.fingerprint is not None and self.location.fingerprint() != self.fingerprint

    def check_unchanged(self) -> None:
        """Raise a CheckpointError where it has changed: what was read may be of two checkpoints."""
        if self.has_changed():
            raise CheckpointError("changed while it was read", path=self.location.path)

    def close(self) -> None:
        """Close all files."""

    def __getitem__(self, key: str) -> LazyTensor:
        spec = self.specs.get(key)
        if spec is None:
            hints = self.owners_of(key)
            raise TensorNotFoundError("no such tensor", path=self.location.path, key=key, hints=hints)
        if spec.dtype is INVALID:
            raise self.undecoded(key)
        return self.tensor(key)

    def undecoded(self, key: str) -> CheckpointError:
        """Return why a tensor has no dtype, and so no values."""
        return CorruptCheckpointError(
            "its entry cannot be decoded", path=self.location.path, key=key, code="entry"
        )

    def __contains__(self, key: object) -> bool:
        return key in self.specs

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if isinstance(error, CheckpointError) and self.has_changed():
            hint = f"{self.location.path} changed while it was read: run this again when nobody writes to it"
            error.hints = (hint, *error.hints)
        self.close()


class Format(NamedTuple):
    """One checkpoint format: a module's `FORMAT`, found by the registry.

    `sniff` looks at a probe and says whether this is its format; formats exclude each
    other, so their order means nothing.  `open` reads; `lenient` asks it to list what
    it can of a damaged checkpoint.  `writer` makes one that writes;
    `dtypes` are the names of those it can hold.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[Probe], bool]
    open: Callable[[Probe, bool], CheckpointReader]
    writer: Callable[[Target], CheckpointWriter]
    dtypes: frozenset[str]
