"""A reader of datasets in HDF5 files: what all HDF5 formats do alike.

A format says which dataset goes by which key; specs are made at once, from headers
alone.  Datasets are opened again when they are read, so that a large checkpoint does
not keep thousands of them open.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.dtypes import INVALID, STRING
from ..core.spec import TensorSpec, key_bytes
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError, leave_out
from ..model.expansion import expansion_flaw
from ..model.reader import FormatReader
from ..model.verification import Finding, Verification, verified_in_pieces
from ..store.work.workers import SERIAL, Workers
from ..wire.limits import KeySizes
from .library.damage import damage
from .specs import check_place, describe, is_number_type, place_of, readable_spec
from .tensors import H5Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..model.checkpoint_files import CheckpointLocation
    from .node import Node
    from .safe import H5File


NO_VALUES = "its elements are neither numbers nor strings"


def _lack(spec: TensorSpec) -> str:
    """Return why a dataset whose type is not mapped has no values."""
    return f"{NO_VALUES} (HDF5 type {spec.dtype})"


class _DatasetPath(NamedTuple):
    """The place of a tensor: a path in a file, and how many soft links may lead to it."""

    file: H5File
    path: str
    soft: int


class H5Reader(FormatReader):
    """The tensors of one or more HDF5 files; subclasses call `add` for each, then `seal`."""

    has_checksums = False

    def __init__(self, location: CheckpointLocation, files: list[H5File], *, lenient: bool) -> None:
        self.location = location
        self.findings: list[Finding] = []
        self._h5_files = files
        self._lenient = lenient
        self._places: dict[str, _DatasetPath] = {}
        self._specs: dict[str, TensorSpec] = {}
        self._sizes = KeySizes()
        self._held: set[tuple[int, int]] = set()
        self._stored = self._repeated = 0
        self._unread: list[Finding] = []

    def unread(self, finding: Finding) -> None:
        """Take note of something that the file says of itself, and that cannot be read."""
        self._unread.append(finding)
        self.findings.append(finding)

    def facts_findings(self) -> Sequence[Finding]:
        self.facts  # noqa: B018  reads what there is
        return self._unread

    def flaw(self, error: CheckpointError) -> None:
        """Raise what keeps tensors from being listed; with `lenient` it becomes a finding."""
        if not self._lenient:
            raise error
        self.findings.append(Finding.of(error))

    def add(self, key: str, file: H5File, path: str, dataset: Node | None, *, soft: int = 0) -> None:
        """Add a dataset under a key; None if it is missing."""
        if key in self._specs:
            message = f"datasets {self._places[key].path!r} and {path!r} have the same key"
            self.flaw(CorruptCheckpointError(message, path=file.path, key=key, code="hdf5-read"))
            return
        try:
            self._sizes.add((key,))
        except ValueError as error:
            self.flaw(CorruptCheckpointError(str(error), path=file.path, code="hdf5-read"))
            return
        self._places[key] = _DatasetPath(file, path, soft)
        spec = TensorSpec(key, INVALID, ())
        try:
            if dataset is None:
                raise CorruptCheckpointError(
                    f"no dataset {path!r}", path=file.path, key=key, code="hdf5-read"
                )
            with damage(file.path, f"dataset {path!r}", key):
                spec = describe(key, file, dataset)
                check_place(file, dataset, path)
                self._count(spec, file, dataset)
        except CorruptCheckpointError as error:
            self.findings.append(Finding.of(error, key))
        except UnsupportedFeatureError as error:
            self.flaw(error)
        self._specs[key] = spec

    def _count(self, spec: TensorSpec, file: H5File, dataset: Node) -> None:
        """Count the bytes of a dataset, which may be another name of one, or share its place."""
        place = (id(file), place_of(dataset))
        if place in self._held:
            self._repeated += spec.nbytes or 0
        else:
            self._held.add(place)
            self._stored += min(spec.nbytes or 0, file.size)

    def seal(self) -> None:
        """Put specs in the order of key bytes; what has no values that could be read is found to be so.

        Raises UnsupportedFeatureError where datasets are the same one again and again.
        """
        flaw = expansion_flaw(self._repeated, self._stored)
        if flaw is not None:
            raise UnsupportedFeatureError(flaw, path=self.location.path, code="tensor-size")
        known = {finding.key for finding in self.findings}
        self.findings += [
            Finding("error", "dtype", _lack(spec), key, self._places[key].file.path)
            for key, spec in self._specs.items()
            if spec.dtype.is_unmapped and self.is_unread(key) and key not in known
        ]
        self._specs = {key: self._specs[key] for key in sorted(self._specs, key=key_bytes)}

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    def tensor(self, key: str) -> H5Tensor:
        place = self._places[key]
        return H5Tensor(place.file, readable_spec(self._specs[key]), place.path, place.soft)

    def is_unread(self, key: str) -> bool:
        dtype = self._specs[key].dtype
        return not (dtype.is_mapped or is_number_type(dtype))

    def undecoded(self, key: str) -> CheckpointError:
        spec, path = self._specs[key], self._places[key].file.path
        if not spec.dtype.is_unmapped:
            return super().undecoded(key)
        hints = (leave_out(key),)
        return UnsupportedFeatureError(_lack(spec), path=path, key=key, code="dtype", hints=hints)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return {key: self.kind(key, spec) for key, spec in self._specs.items()}

    def kind(self, key: str, spec: TensorSpec) -> str:  # noqa: ARG002  subclasses go by it
        """Return the kind of one tensor."""
        return "state" if spec.dtype is STRING else "variable"

    def shape_findings(self) -> list[Finding]:
        """Return where shapes contradict the model's configuration."""
        return []

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  the HDF5 library does one thing at a time
        self.facts_findings()  # so that they are among the findings
        yield Verification(findings=tuple(self.findings))
        for key in self._specs:
            if not self.is_unread(key):
                yield from verified_in_pieces(key, self.tensor(key).scan())
        yield Verification(findings=tuple(self.shape_findings()))

    def close(self) -> None:
        for file in self._h5_files:
            file.close()


def read_attribute(file: H5File, holder: Node, name: str, read: Callable[[H5File, Node, str], Any]) -> Any:
    """Return an attribute as `read` gives it; CorruptCheckpointError if it cannot be read."""
    with damage(file.path, f"attribute {name!r}"):
        return read(file, holder, name)


class KerasFileReader(H5Reader):
    """A file of Keras: the slots of its optimizer are called by their variables."""

    @cached_property
    def object_paths(self) -> Mapping[str, str]:
        """Names of slots whose variables the configuration identifies: `dense/kernel (m of optimizer)`."""
        from ..keras.slot_paths import slot_paths

        return slot_paths(self)

    @property
    def edge_paths(self) -> Mapping[str, str]:
        return {}  # rules see keys alone
