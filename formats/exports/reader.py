"""The base of the readers of exported models: tensors by key, each with the place of its bytes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE
from ..core.spec import TensorSpec, key_bytes
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..keras.facts import KerasFacts
from ..model.expansion import expansion_flaw
from ..model.facts import Nothing
from ..model.name_kinds import name_kinds
from ..model.reader import FormatReader
from ..model.verification import Finding, Verification, verified_in_pieces
from ..store.work.workers import SERIAL, Workers
from ..wire.limits import KeySizes
from .cursor import BrokenFileError, UnreadableError
from .stored import FilePart, StoredRanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..model.facts import Facts
    from ..model.probe import Probe
    from ..model.reader import Format
    from ..model.tensor import LazyTensor
    from ..store.base import File


MOST_TENSORS = 1_000_000
"""Tensors of a file: each takes some hundred bytes of memory, and in the file few."""


class StoredWeight(NamedTuple):
    """A tensor of an export: its spec, where it is stored, and what makes a lazy tensor of these."""

    spec: TensorSpec
    data: StoredRanges
    make: Callable[[TensorSpec, StoredRanges], LazyTensor]


class ModelFacts(NamedTuple):
    """The program that wrote a model, and other metadata of the file."""

    producer: str | None = None
    version: str | None = None
    more: Mapping[str, Any] = {}
    keras: KerasFacts = KerasFacts()
    """The file's facts about the Keras model from which it was made."""

    def document(self) -> dict[str, Any]:
        found = {"producer": self.producer, "version": self.version, **self.more}
        texts = {name: getattr(self.keras, name) for name in ("config", "training_config")}
        return found | {name: text for name, text in texts.items() if text is not None}


class ExportReader(FormatReader):
    """A model's weights.  A subclass fills in `_weights` and `_files`, and says what else is known."""

    has_checksums = False
    lists_all = True  # the whole header is parsed, or the file is rejected

    def __init__(self, probe: Probe, format: Format, *, lenient: bool) -> None:  # noqa: A002  the word of the field
        self.location = probe.location
        self.format = format
        self.findings: list[Finding] = []
        self._facts: Facts = Nothing()
        self._lenient = lenient
        self._files: list[File] = []
        self._weights: dict[str, StoredWeight] = {}
        self._kinds: dict[str, str] = {}
        self._taken: dict[str, int] = {}
        self._sizes = KeySizes()
        self._made = 0
        try:
            self._read(self._open(probe))
        except BrokenFileError as error:
            self.close()
            path = self._files[-1].path if self._files else self.location.path
            kind = UnsupportedFeatureError if isinstance(error, UnreadableError) else CorruptCheckpointError
            raise kind(
                f"this {format.title} cannot be read: {error}",
                path=path,
                offset=error.offset,
                code="header",
                hints=error.hints,
            ) from error
        except ValueError as error:
            self.close()
            message = f"this {format.title} cannot be read: {error}"
            raise CorruptCheckpointError(message, path=self.location.path, code="header") from error
        except BaseException:
            self.close()
            raise
        self._weights = {key: self._weights[key] for key in sorted(self._weights, key=key_bytes)}

    def _open(self, probe: Probe) -> File:
        file = probe.location.head.open()
        self._files.append(file)
        return file

    def _read(self, file: File) -> None:
        """Find the weights; ValueError if the file is malformed."""
        raise NotImplementedError

    def _corrupt(self, message: str, key: str | None = None, **where: Any) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self._files[-1].path, key=key, **where)

    def _flaw(self, error: CheckpointError) -> None:
        """Raise what is wrong with one tensor, or take note of it where what can be listed shall be."""
        if not self._lenient:
            raise error
        self.findings.append(Finding.of(error))

    def _add(self, weight: StoredWeight, kind: str | None = None) -> str:
        """Take a tensor and return its key; another may have its name, as in the branches of a condition."""
        if len(self._weights) == MOST_TENSORS:
            raise ValueError(f"the file has more than {MOST_TENSORS} tensors")
        name = key = weight.spec.key
        number = self._taken.get(name, 1)
        while key in self._weights:
            number += 1
            key = f"{name}#{number}"
        self._taken[name] = number
        self._sizes.add((key,))
        self._weights[key] = weight._replace(spec=weight.spec._replace(key=key))
        if kind is not None:
            self._kinds[key] = kind
        return key

    def _charge(self, spec: TensorSpec, stored: int) -> bool:
        """Return whether values may be made of so few bytes: all that a file makes is bounded by its size."""
        self._made += max(0, (8 if spec.dtype.itemsize is None else spec.dtype.itemsize) * spec.size - stored)
        return expansion_flaw(self._made, sum(file.size for file in self._files)) is None

    def _check_range(self, key: str, file: File, offset: int, size: int) -> bool:
        """Return whether a range is in the file; raise, or take note, where it is not."""
        if offset + size <= file.size:
            return True
        message = (
            f"the tensor needs {size} bytes from offset {offset}, but the file has only {file.size} bytes"
        )
        error = CorruptCheckpointError(message, path=file.path, key=key, offset=offset, code="shard-short")
        self._flaw(error)
        return False

    @cached_property
    def specs(self) -> Mapping[str, TensorSpec]:
        return {key: weight.spec for key, weight in self._weights.items()}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        kinds = {} if len(self._kinds) == len(self._weights) else name_kinds(self.specs)
        return {key: self._kinds.get(key) or kinds[key] for key in self.specs}

    @property
    def facts(self) -> Facts:
        return self._facts

    def tensor(self, key: str) -> LazyTensor:
        weight = self._weights[key]
        return weight.make(weight.spec, weight.data)

    def files(self) -> Sequence[Any]:
        return list(
            dict.fromkeys([self.location.head, *(self.location.head.of(file.path) for file in self._files)])
        )

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  checked in order
        """Check that every byte can be read; the format has no checksums."""
        yield Verification(findings=tuple(self.findings))
        for key, weight in self._weights.items():
            yield from verified_in_pieces(key, _sizes_read(weight.data))

    def has_changed(self) -> bool:
        """Whether a file changed since the checkpoint was opened, those included that only this one names."""
        return super().has_changed() or any(_has_changed(file) for file in self._files)

    def close(self) -> None:
        for file in self._files:
            file.close()


def _has_changed(file: File) -> bool:
    if not file.store.lists_first:  # each file would be a request, so only the head is read
        return False
    entry = file.store.stat(file.path)
    return entry is None or entry.identity != file.identity


def _sizes_read(data: StoredRanges) -> Iterator[int]:
    """Read stored bytes in pieces, and yield their sizes."""
    data.expect()
    for at in range(0, data.size, PIECE):
        yield len(data.read(at, min(PIECE, data.size - at)))


def one_range(file: File, offset: int, size: int) -> StoredRanges:
    """Return the bytes of a tensor that are in one piece."""
    return StoredRanges((FilePart(file, offset, size),))
