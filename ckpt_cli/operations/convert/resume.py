"""Resume an interrupted conversion: `ckpt convert --resume`.

A conversion is identified by the version, the identities of the sources, the options and the resulting plan.
The journal has all of them (`formats.store.journal`), so that an error can name a different source or option.
The staging directory's name is a digest of them, so that it is found again.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from formats.core.chunks import PIECE, chunks_of, view_of
from formats.core.version import VERSION
from formats.errors import CheckpointError, ConversionError, CorruptCheckpointError
from formats.store.journal import Claim
from formats.store.local.staging_journal import StagingJournal
from formats.store.ranges import Sum
from formats.store.remote.upload_journal import UploadJournal

from .plan import Outcome
from .tasks import Copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from formats.core.chunks import Chunk
    from formats.location import Location
    from formats.model.writer import FormatWriter, Placement
    from formats.store.journal import Journal

    from .lazy import Sums
    from .placement import Name
    from .plan import Plan
    from .tasks import UnitRange


_END = 64 << 10
"""Bytes at the beginning and at the end of a file, which hold its header or index as a rule."""

_INDEXES = (".index", ".json", ".metadata")


class Resume:
    """The request to resume, and its result: `options` are those that affect the output, as text.

    Finished work counts as finished until `forget`, so that a kill after the last byte, or between two of
    several conversions, loses nothing.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self._journals: list[Journal] = []

    def journal(self, plan: Plan, writer: FormatWriter) -> Journal:
        """Return the journal of a plan, for a writer that rehearses it.

        Raises ConversionError if the target cannot be resumed, and CheckpointError if another conversion was
        begun in its place.
        """
        path = writer.target.path
        if not writer.is_resumable:
            hints = ("remove --resume, or write another format: --to tf-name",)
            message = f"{plan.format} is written in one piece and cannot be resumed"
            raise ConversionError(message, path=path, hints=hints)
        if not writer.target.is_local and writer.is_one_object:
            hints = ("remove --resume, or write shards: DST/ --to safetensors --shard-size",)
            message = "this is one object, whose upload cannot be resumed"
            raise ConversionError(message, path=path, hints=hints)
        sources, changed = _known_by(plan)
        header = {
            "version": VERSION,
            "target": path.name,
            "sources": sources,
            "options": self.options,
            "plan": _digest(plan),
            "nbytes": plan.nbytes,
        }
        kind = StagingJournal if writer.target.is_local else UploadJournal
        journal = kind(path, header, changed)
        for directory, other in journal.others():
            raise _refusal(directory, header, _difference(other, header))
        if changed and isinstance(journal, UploadJournal) and journal.is_doubtful:
            raise another_source(journal, plan)  # sent objects are not read again
        self._journals.append(journal)
        return journal

    @property
    def has_kept(self) -> bool:
        """Whether there is anything to resume."""
        return any(journal.is_kept for journal in self._journals)

    def forget(self) -> None:
        """Remove what is remembered of conversions that are finished, now that all are."""
        for journal in self._journals:
            journal.forget()


# What is done ---------------------------------------------------------------------


def _known_by(plan: Plan) -> tuple[dict[str, list[int | str]], dict[str, int]]:
    """Return by what the sources' files are known again, and when they were last changed.

    File systems reuse inodes, and archives set times, so the first includes a digest of each file's start and
    end, usually its index or header. The index of a bundle has checksums of all values; in other files that
    have changed since, values are read again. Raises CheckpointError if a server does not identify its files.
    """
    found: dict[str, list[int | str]] = {}
    changed: dict[str, int] = {}
    for source in plan.sources:
        for path in (*(source.fingerprint or {}), *source.files()):
            entry = path.entry()
            if entry is None:
                raise CheckpointError("this file no longer exists", path=path)
            is_local = not path.store.scheme
            # The number of a local device may be another when the machine was started again.
            identity = entry.identity[1:] if is_local else entry.identity
            is_proved = source.format.is_bundle and path != source.location.head
            if is_local and not is_proved:
                identity = (*identity, _ends_digest(path))
            if entry.changed is not None and not source.format.is_bundle:
                changed[path.absolute()] = entry.changed
            if not is_local and not any(isinstance(part, str) and part for part in identity):
                message = "the server sends no ETag or version, so ckpt cannot recognise this file"
                raise CheckpointError(message, path=path, hints=("remove --resume",))
            found[path.absolute()] = list(identity)
    return found, changed


def _ends_digest(path: Location) -> str:
    """Return a digest of an index, of other files of their beginning and end."""
    with path.open() as file:
        is_whole = path.endswith(_INDEXES) or file.size <= 2 * _END
        ranges = [(0, file.size)] if is_whole else [(0, _END), (file.size - _END, file.size)]
        digest = hashlib.sha256()
        for begin, end in ranges:
            for at in range(begin, end, PIECE):
                digest.update(file.read_exactly(at, min(PIECE, end - at)))
    return digest.hexdigest()


def _digest(plan: Plan) -> str:
    """Return a digest of everything that is written, except the sources' values."""
    found = hashlib.sha256(repr((plan.format, plan.slices, plan.facts)).encode("utf-8", "surrogatepass"))
    if plan.object_graph is not None:
        found.update(plan.object_graph.encode())
    for spec, source, tensor, value, *made in plan.moves:
        stored = None if tensor is None else tensor.spec.dtype.name
        line = repr((spec.key, spec.dtype.name, spec.shape, source, stored, *made))
        found.update(line.encode("utf-8", "surrogatepass"))
        for chunk in chunks_of(spec, value) if tensor is None else ():
            found.update(view_of(chunk))
    return found.hexdigest()


def _refusal(directory: str, header: Mapping[str, Any], why: str) -> CheckpointError:
    """Return the error that says why a conversion cannot be resumed."""
    hints = (f"to start again, delete the files of that conversion: rm -r {directory}",)
    message = f"an interrupted conversion to {header['target']} cannot be resumed: {why}"
    return CheckpointError(message, path=directory, hints=hints)


def another_source(journal: Journal, plan: Plan) -> CheckpointError:
    """Return the error if finished work may come from other files than the current ones."""
    why = f"the source {plan.source} may have been replaced, because its ctime has changed"
    return _refusal(journal.directory, journal.header, why)


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    if old.get("version") != new["version"]:
        return f"ckpt {old.get('version')} started it, but this is ckpt {new['version']}"
    for name, describe in (("sources", _source), ("options", _option)):
        before, now = old.get(name), new[name]
        before = before if isinstance(before, dict) else {}
        for each in sorted({*before, *now}):
            if before.get(each) != now.get(each):
                return describe(each, before.get(each), now.get(each))
    return "the content of a file passed to an option (--map, --config) has changed"


def _source(path: str, before: object, now: object) -> str:
    if before is None or now is None:
        return f"{path} was {'not ' if before is None else ''}one of its sources"
    return f"the source {path} has changed since then"


def _option(name: str, before: object, now: object) -> str:
    if before is None or now is None:
        return f"it was started with{'out' if before is None else ''} {name}"
    return f"it was started with {name} {before}, but now {name} is {now}"


# Resuming -------------------------------------------------------------------------


class Ledger:
    """Notes what is filled, in a journal if there is one; `kept` counts bytes that already existed."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self.is_doubtful = journal is not None and journal.is_doubtful
        """Whether what is claimed counts only when its source was read again."""
        self.kept = 0
        self.streamed: dict[Name, Copied] = {}
        """The results for tensors that were filled from beginning to end."""

    def claim(self, place: Placement, begin: int, end: int) -> Claim | None:
        """Return what is claimed of a range of a place."""
        if self._journal is None:
            return None
        return self._journal.claim(place.name, place.offset + begin, end - begin)

    def note(self, part: UnitRange, sums: Sums) -> None:
        """Take note of a part that is in its place."""
        self.kept += sums.kept
        if self._journal is None or sums.kept or part.begin == part.end or part.place is None:
            return
        claim = Claim(part.end - part.begin, sums.made.crc, part.values.stored_checksums(sums))
        self._filled(part.place, part.begin, claim)

    def stream(
        self, place: Placement, size: int, chunks: Callable[[], Iterator[Chunk]], *, proves: bool
    ) -> Copied:
        """Fill a place from its beginning to its end; return the checksum.

        If `proves` is True, each chunk is read back at once, because computing it again takes longer.
        """
        claim = self.claim(place, 0, size)
        if claim is not None and self.is_doubtful:
            claim = claim if _sum_of(chunks()).crc == claim.made else None
        if claim is not None and place.holds(0, claim):
            self.kept += size
            return Copied(Sum(claim.made, size))
        found, is_proved = place.sum, proves and place.file.shares_memory
        for chunk in chunks():
            at = found.size
            place.write(at, chunk)
            found.extend(chunk)
            is_proved = is_proved and place.returns(at, chunk)
        if size:
            self._filled(place, 0, Claim(size, found.crc))
        return Copied(found, place if is_proved else None)

    def _filled(self, place: Placement, begin: int, claim: Claim) -> None:
        if self._journal is not None:
            self._journal.filled(place.name, place.offset + begin, claim)

    def notes(self, plan: Plan) -> list[str]:
        """Return what a person should know of it."""
        notes = []
        if self._journal is not None and self._journal.is_damaged:
            notes.append(
                f"{self._journal.directory}: the journal is damaged, so the conversion started again"
            )
        if self.kept:
            notes.append(
                f"resumed the conversion: {self.kept:,} of {plan.nbytes:,} bytes were already written"
            )
        return notes


def _sum_of(chunks: Iterator[Chunk]) -> Sum:
    found = Sum()
    for chunk in chunks:
        found.extend(chunk)
    return found


@contextmanager
def discarding_journal(journal: Journal | None, plan: Plan) -> Iterator[None]:
    """Remove the journal of a conversion that cannot be resumed, because it is wrong, or a source has
    changed.
    """
    try:
        yield
    except CheckpointError as error:
        if journal is not None:
            hopeless = isinstance(error, ConversionError | CorruptCheckpointError)
            journal.is_void = hopeless or _has_changed(plan)
        raise


def _has_changed(plan: Plan) -> bool:
    with suppress(CheckpointError):  # of a server that does not answer
        return any(source.has_changed() for source in plan.sources)
    return False


def finished(journal: Journal, plan: Plan, rehearsed: FormatWriter, *, dry_run: bool) -> Outcome:
    """Tidy up after a conversion that was interrupted when all was in its place; return its outcome."""
    if not dry_run:
        rehearsed.tidy()
        journal.is_over = True
        journal.remove()
    return Outcome([*plan.notes, f"{plan.target}: the conversion had already finished"])


def known(journal: Journal, plan: Plan, *, dry_run: bool) -> Outcome:
    """Return the outcome of a conversion whose only remains are the target, which was already compared."""
    if not dry_run:
        journal.sweep()
    return Outcome(
        [*plan.notes, f"{plan.target}: the conversion had already finished, and all of it was compared"]
    )
