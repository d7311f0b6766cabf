"""A PyTorch file as a checkpoint: specs from its pickle, values from its storages."""

from __future__ import annotations

import zlib
from collections import deque
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..core.chunks import PIECE
from ..core.collector import collector_paused
from ..core.dtypes import INVALID, unmapped
from ..core.spec import TensorSpec, key_bytes
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError, leave_out
from ..model.expansion import expansion_flaw
from ..model.reader import FormatReader
from ..model.verification import Finding, Verification, verified_in_pieces
from ..store.ranges import FileRange, Sum, buffers, cut
from ..store.work.workers import SERIAL, Workers
from .facts import TorchFacts
from .keys import tensors_of, values_of
from .kinds import kinds_of
from .storages import LegacyContainer, ZipContainer
from .structure import NestedStructure
from .views import TorchTensor, readable_spec, stored_spec, view_flaw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..model.probe import Probe
    from ..model.reader import Format
    from .objects import Storage, View
    from .storages import Container


class TorchReader(FormatReader):
    """A file of `torch.save`."""

    lists_all = True  # a pickle names all tensors, or is rejected

    def __init__(self, probe: Probe, format: Format, container: Container, *, lenient: bool) -> None:  # noqa: A002  the word of the field
        self.location = probe.location
        self.format = format
        self.findings: list[Finding] = []
        self._lenient = lenient
        self._container = container
        views = self._tensors()
        if isinstance(container, LegacyContainer):
            error = container.place()
            if error is not None:
                if not lenient:
                    raise error
                self.findings.append(Finding.of(error))
        self._views: dict[str, View] = {}
        self._specs: dict[str, TensorSpec] = {}
        self._lacks: dict[str, CheckpointError] = {}
        for key in sorted(views, key=key_bytes):
            self._add(key, views[key])
        self._check_sizes()

    def _tensors(self) -> dict[str, View]:
        try:
            return tensors_of(self._container.root)
        except ValueError as error:
            message = f"its object cannot be read: {error}"
            raise UnsupportedFeatureError(message, path=self._container.path, code="header") from error

    def _add(self, key: str, view: View) -> None:
        self._views[key] = view
        lack = self._lack(view)
        if lack is None:
            flaw = view_flaw(view, self._container)
            if flaw is None:
                self._specs[key] = stored_spec(key, view.type, view.shape)
                return
            error = CorruptCheckpointError(flaw, path=self._container.path, key=key, code="tensor-size")
            if not self._lenient:
                raise error
            self._lacks[key] = error
            self.findings.append(Finding.of(error))
            self._specs[key] = TensorSpec(key, INVALID, view.shape)
        else:
            self._lacks[key] = UnsupportedFeatureError(
                lack, path=self._container.path, key=key, code="dtype", hints=(leave_out(key),)
            )
            self.findings.append(Finding("warning", "dtype", lack, key, self._container.path))
            self._specs[key] = TensorSpec(key, unmapped(view.type.name), view.shape)

    def _lack(self, view: View) -> str | None:
        """Return why a sound tensor has no values here."""
        if view.lack is None and self._container.is_swapped and view.storage and view.storage.untyped:
            return (
                f"big-endian {view.type.name} is not supported (torch.load does not swap its bytes)"
                if view.type.itemsize > 1
                else None
            )
        return view.lack

    def _check_sizes(self) -> None:
        """Reject thousands of large tensors claimed by a few bytes: every reader would wait for them."""
        stored = sum({storage.key: storage.nbytes for storage in self._storages()}.values())
        total = sum(spec.nbytes or 0 for spec in self._specs.values())
        flaw = expansion_flaw(total, stored)
        if flaw is not None:
            raise UnsupportedFeatureError(flaw, path=self._container.path, code="tensor-size")

    def _storages(self) -> Iterator[Storage]:
        yield from (view.storage for view in self._views.values() if view.storage is not None)

    @property
    def pickle_size(self) -> int:
        """Bytes that say which tensors there are."""
        return self._container.pickle_size

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return kinds_of(self._specs)

    @cached_property
    def tied(self) -> Mapping[str, str]:
        firsts: dict[View, str] = {}
        found = {}
        for key, view in self._views.items():
            first = firsts.setdefault(view, key) if view.storage is not None else key
            if first != key:
                found[key] = first
        return found

    @cached_property
    def _facts(self) -> TorchFacts:
        root = self._container.root
        return TorchFacts(values_of(root), NestedStructure(root))

    @property
    def facts(self) -> TorchFacts:
        return self._facts

    def tensor(self, key: str) -> TorchTensor:
        view = self._views[key]
        return TorchTensor(self._container, readable_spec(self._specs[key], view.type), view)

    def is_unread(self, key: str) -> bool:
        return key in self._lacks

    def undecoded(self, key: str) -> CheckpointError:
        return self._lacks[key]

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        """Check each storage once, for all tensors in it, and what else the file has."""
        yield Verification(findings=tuple(self.findings))
        views = {
            key: view
            for key, view in self._views.items()
            if not isinstance(self._lacks.get(key), CorruptCheckpointError)
        }
        storages = {view.storage.key: view.storage for view in views.values() if view.storage is not None}
        waiting: deque[_StorageTask] = deque()

        def tasks() -> Iterator[_StorageTask]:
            for storage in storages.values():
                for task in _tasks(self._container, storage, workers.task_bytes):
                    waiting.append(task)
                    yield task

        checked: dict[str, tuple[Finding, ...]] = {}
        mapped = workers.map(_sum, tasks(), lambda task: task.end - task.begin, local=self.is_local)
        with closing(mapped) as sums:
            for key, view in views.items():
                storage = view.storage
                if storage is None:
                    yield Verification(tensors=1)
                elif storage.key in checked:
                    again = tuple(found._replace(key=key) for found in checked[storage.key])
                    yield Verification(tensors=int(not again), findings=again)
                else:
                    found: tuple[Finding, ...] = ()
                    for step in self._verify_storage(key, storage, waiting, sums):
                        yield step
                        found += step.findings
                    checked[storage.key] = found
        for pieces in self._container.other_pieces(set(checked)):
            yield from _verified(pieces)

    def _verify_storage(
        self, key: str, storage: Storage, waiting: deque[_StorageTask], sums: Iterator[Sum | None]
    ) -> Iterator[Verification]:
        """Go through a storage by its ranges; what these do not fit is read in its order, which says how."""
        pieces = map(len, self._container.pieces(storage))
        total, is_read = Sum(), True
        for found in sums:
            values, begin, end = waiting.popleft()
            if values is None:
                yield from verified_in_pieces(key, pieces)
                return
            yield Verification(nbytes=end - begin)
            if found is None:
                is_read = False
            else:
                total.add(found)
            if end == values.size:
                is_sound = is_read and values.fits(total)
                sizes = () if is_sound else (0 for _ in pieces)  # whose bytes were counted
                yield from verified_in_pieces(key, sizes)
                return

    def close(self) -> None:
        self._container.close()


class _StorageTask(NamedTuple):
    """A range of a storage; without `values` one that is read in its order, for it is deflated or damaged."""

    values: FileRange | None
    begin: int = 0
    end: int = 0


def _tasks(container: Container, storage: Storage, step: int) -> Iterator[_StorageTask]:
    try:
        crc32, offset, size = (
            container.crc32(storage),
            container.offset_of(storage),
            container.size_of(storage),
        )
    except CheckpointError:
        offset = size = None  # raised when it is its turn
    if offset is None or size is None:
        yield _StorageTask(None)
        return
    values = FileRange(container.file, offset, size, storage.key, crc32=crc32)
    yield from (_StorageTask(values, begin, end) for begin, end in cut(size, step))


def _sum(task: _StorageTask) -> Sum | None:
    """Return the CRC-32 of a range if there is one to compare, or None if it cannot be read."""
    values, begin, end = task
    if values is None:
        return None
    crc32 = 0
    try:
        room = buffers()[0]
        values.file.expect(values.offset + begin, end - begin)
        for at in range(begin, end, PIECE):
            piece = room[: min(PIECE, end - at)]
            values.file.read_into(values.offset + at, piece.data)
            crc32 = zlib.crc32(piece.data, crc32) if values.is_checked else 0
    except CheckpointError:
        return None
    return Sum(0, end - begin, crc32)


def _verified(pieces: Iterator[bytes]) -> Iterator[Verification]:
    """Read the members that are not tensors."""
    try:
        for piece in pieces:
            yield Verification(nbytes=len(piece))
    except CheckpointError as error:
        yield Verification(findings=(Finding.of(error),))


class LegacyReader(TorchReader):
    """A file of torch before 1.6."""

    has_checksums = False


def open_torch(probe: Probe, format: Format, *, lenient: bool) -> TorchReader:  # noqa: A002  the word of the field
    """Return a reader of a file that its sniffer said yes to."""
    if probe.zip is not None:
        with collector_paused():
            return TorchReader(probe, format, ZipContainer(probe.zip), lenient=lenient)
    file = probe.location.head.open()
    try:
        with collector_paused():
            return LegacyReader(probe, format, LegacyContainer(file), lenient=lenient)
    except BaseException:
        file.close()
        raise
