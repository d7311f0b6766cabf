"""A run over time: what changed from checkpoint to checkpoint, the norm of the weights, NaN, the loss.

Stored checksums show changes, so the indexes are enough for them. Norms and NaN need values, which are read
in pieces; an unchanged tensor is not read again. Formats without checksums are read whole, and their
checksums are computed on the way. A directory in use is shown as found: files that disappear meanwhile are
left out and named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import tee
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import counted
from formats.errors import CheckpointError
from formats.find.opening import open_location
from formats.find.resolve import spelling
from formats.model.checkpoint_files import step_of
from formats.model.facts import Scored
from formats.model.reader import FormatReader
from formats.store.work.workers import SERIAL, Workers
from formats.wire.crc32c import extend

from ..look.flaws import Flaws
from ..look.stats import do_task, file_task, statistics
from ..select.selection import NothingSelectedError, choose
from .curves import LOSS
from .listing import findings_in_short, iso_time
from .steps import stored_step
from .trainable import trainable_tensors, trained_and_not

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    import numpy as np

    from formats.find.directory import Directory, Member
    from formats.location import Location
    from formats.model.tensor import LazyTensor
    from formats.store.base import Identity

    from ..look.stats import FileTask, Statistics
    from ..select.selection import Selection
    from .curves import Curve


ATTEMPTS = 3
"""How often a checkpoint is looked at that is replaced while it is being read."""

Fingerprint = tuple[object, ...]


class Measure(NamedTuple):
    """The result of reading a tensor: its norm without NaN (None without numbers), and the counts of NaN and
    infinities.
    """

    l2: float | None
    nan: int
    inf: int


class Seen(NamedTuple):
    """A tensor at one checkpoint; None is what is not known of it."""

    fingerprint: Fingerprint | None
    measure: Measure | None


Watch = Callable[[FormatReader, Mapping[str, Seen], Mapping[str, Seen], "Collection[str]"], None]
"""Takes a checkpoint, what was found in the one before and in it, and its weights that are trained."""


class _Look(NamedTuple):
    """The facts about a tensor before it is read, and its reader: a worker, or the calling process."""

    seen: Seen
    task: FileTask | None = None
    tensor: LazyTensor | None = None
    flaw: CheckpointError | None = None


class LogRow(NamedTuple):
    """One checkpoint of a run; null is what is not known.

    `changed` and `unchanged` count the chosen tensors that the previous checkpoint has as well (the previous
    one of the same prefix, if names have steps). `added` and `removed` count those that only one of them has,
    and `uncompared` those whose checksums do not compare. `l2` covers the floating tensors of kind variable
    that are trained, and `untrained_l2` the others: moving means, averages. `nan` and `inf` are counted in
    all chosen tensors. `global_step` is the training step that the checkpoint itself stores. `loss` is the
    last value since the previous checkpoint, at `loss_step`. `metrics` are the numbers that the checkpoint
    itself stores, as Orbax' steps do; without a loss in event files, it is one of them.
    """

    name: str
    path: Location
    format: str | None
    step: int | None
    modified: str | None
    tensors: int | None = None
    changed: int | None = None
    unchanged: int | None = None
    added: int | None = None
    removed: int | None = None
    uncompared: int | None = None
    l2: float | None = None
    nan: int | None = None
    inf: int | None = None
    first_nan: str | None = None
    global_step: int | None = None
    loss: float | None = None
    loss_step: int | None = None
    untrained_l2: float | None = None
    metrics: dict[str, float] | None = None


class RunLog:
    """Goes through a directory's checkpoints, oldest first.

    `rows()` yields them. Afterwards `frozen` has the weights that no checkpoint changed, and `notes` and
    `warnings` further facts. `watch` is called with each open checkpoint, the results for the previous one,
    and its own.
    """

    def __init__(
        self,
        directory: Directory,
        selection: Selection,
        curve: Curve,
        *,
        values: bool,
        workers: Workers = SERIAL,
        watch: Watch = lambda *_: None,
    ) -> None:
        self.directory = directory
        self.selection = selection
        self.curve = curve
        self._has_curve = bool(curve.steps)
        self.values = values
        self._workers = workers
        self._watch = watch
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self._before: dict[str, dict[str, Seen]] = {}
        """The content of the last checkpoint of each series."""
        self._marks: Mapping[str, bool] | None = None if values else {}
        """Whether tensors are trained, by the graph of the run, which is looked for once."""
        self._compared: dict[str, bool] = {}
        """Weights that were compared at least once, and whether they were ever found changed."""
        self._last_steps: dict[str, int] = {}
        """The step of each series up to which the curve was shown."""

    @property
    def frozen(self) -> list[str]:
        return [key for key, changed in self._compared.items() if not changed]

    @property
    def nbytes(self) -> int:
        """Bytes there are to read, for a progress bar."""
        total = 0
        for member in self.directory.members if self.values else ():
            for path in member.location.files():
                total += _size(path)
        return total

    def rows(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[LogRow]:
        """Yield a row for each checkpoint that is still there.

        Raises NothingSelectedError if the selection matches nothing in any of them.
        """
        nothing: NothingSelectedError | None = None
        chosen = 0
        for member in self.directory.members:
            try:
                row = self.row(member, advance)
            except NothingSelectedError as error:
                nothing = error
                continue
            if row is None:
                self.notes.append(f"left out {member.location.path}, which was deleted during this command")
                continue
            chosen += row.format is not None
            yield row
        if nothing is not None and not chosen:
            raise nothing

    def row(self, member: Member, advance: Callable[[int], None] = lambda _: None) -> LogRow | None:
        """Return a checkpoint's row; None if it has gone.

        Raises NothingSelectedError if the selection matches nothing in it.
        """
        row = self._row(member, advance)
        if row is None:
            return None
        at = row.global_step if row.global_step is not None else row.step
        if at is None:
            return row
        self._add_own_metrics(at, row)
        found = self.curve.last(self._last_steps.get(_series(row.name), -1), at)
        self._last_steps[_series(row.name)] = at
        return row._replace(loss_step=found[0], loss=found[1]) if found else row

    def _add_own_metrics(self, step: int, row: LogRow) -> None:
        """Add the loss, or the requested metric, of a checkpoint itself, if event files have none."""
        if not self._has_curve:
            tag = self.curve.tag or LOSS
            if row.metrics is not None and tag in row.metrics:
                self.curve.tag = tag
                self.curve.add(step, row.metrics[tag])

    def _row(self, member: Member, advance: Callable[[int], None]) -> LogRow | None:
        """Return the row of a checkpoint, blank if it is damaged; None if it was deleted meanwhile."""
        name = member.called(spelling(member.location))
        blank = LogRow(name, member.location.path, None, member.step, iso_time(member.modified))
        for attempt in range(ATTEMPTS):
            state = _state(member.location.head)
            try:
                with open_location(member.location) as reader:
                    return self._look(reader, blank, state, advance)
            except NothingSelectedError:
                raise
            except CheckpointError as error:
                now = _state(member.location.head)
                if now is None:
                    return None
                if now == state or attempt + 1 == ATTEMPTS:
                    self.warnings.append(str(error))
                    return blank
        raise AssertionError

    def _look(
        self, reader: FormatReader, blank: LogRow, state: Identity | None, advance: Callable[[int], None]
    ) -> LogRow:
        keys = choose(reader, self.selection, noted=False)
        kinds, specs = reader.kinds, reader.specs
        series = _series(blank.name)
        before = self._before.get(series, {})
        seen: dict[str, Seen] = {}
        flaws = Flaws()
        for key, found, flaw in self._look_at(reader, keys, before):
            if flaw is not None:
                if _state(reader.location.head) != state:
                    raise flaw  # it is another checkpoint by now, or none
                flaws.add(flaw)
            seen[key] = found
            advance(specs[key].nbytes or 0)
        weights = [key for key in keys if kinds.get(key) == "variable" and _is_floating(reader, key)]
        if self._marks is None:
            self._marks = trainable_tensors(reader).marks
        trained, untrained = trained_and_not(reader, weights, self._marks)
        row = blank._replace(format=reader.format.name, tensors=len(keys), metrics=_metrics(reader))
        if series in self._before:
            row = self._compare(row, before, seen, weights)
        if self.values:
            row = row._replace(global_step=stored_step(reader))
            if not flaws.count and reader.format.has_values:
                row = _measured(row, seen, trained, untrained)
        if flaws.count:
            rest = flaws.count - 1
            more = f"; {counted(rest, 'more tensor')} cannot be read" if rest else ""
            self.warnings.append(f"{flaws.first[0]}{more}")
        self.warnings += findings_in_short(reader)
        self._watch(reader, before, seen, trained)
        self._before[series] = seen
        return row

    def _look_at(
        self, reader: FormatReader, keys: Sequence[str], before: Mapping[str, Seen]
    ) -> Generator[tuple[str, Seen, CheckpointError | None]]:
        """Yield what each tensor is found to be, in this order, and why it cannot be read.

        Workers read contiguous data; the rest is read here, in its turn.
        """
        looks, again = tee(self._look_of(reader, key, before.get(key)) for key in keys)
        mapped = self._workers.map(_read_by_worker, looks, _bytes_of_task, forks=reader.is_local)
        with closing(mapped) as results:
            for key, look, result in zip(keys, again, results, strict=True):
                found = _read_here(look.tensor, look.seen.fingerprint) if look.tensor is not None else result
                if isinstance(found, CheckpointError):
                    yield key, look.seen, found
                else:
                    yield key, found or look.seen, look.flaw

    def _look_of(self, reader: FormatReader, key: str, before: Seen | None) -> _Look:
        try:
            tensor = reader[key]
            stored = _stored_fingerprint(tensor)
        except CheckpointError as error:
            return _Look(Seen(None, None), flaw=error)
        seen = Seen(stored, None)
        if not self.values or not tensor.has_values:
            return _Look(seen)
        if before is not None and stored is not None and stored == before.fingerprint and before.measure:
            return _Look(before)
        if stored is None:
            return _Look(seen, tensor=tensor)
        if not _is_floating(reader, key):
            return _Look(seen)
        task = file_task(reader, key)
        return _Look(seen, task, tensor if task is None else None)

    def _compare(
        self, row: LogRow, before: dict[str, Seen], now: dict[str, Seen], weights: list[str]
    ) -> LogRow:
        counts = {True: 0, False: 0, None: 0}
        is_weight = set(weights)
        for key in now.keys() & before.keys():
            changed = has_changed(before[key].fingerprint, now[key].fingerprint)
            counts[changed] += 1
            if changed is not None and key in is_weight:
                self._compared[key] = self._compared.get(key, False) or changed
        return row._replace(
            changed=counts[True],
            unchanged=counts[False],
            uncompared=counts[None],
            added=len(now.keys() - before.keys()),
            removed=len(before.keys() - now.keys()),
        )


def _metrics(reader: FormatReader) -> dict[str, float] | None:
    facts = reader.facts if reader.format.is_tree else None
    return dict(facts.metrics) or None if isinstance(facts, Scored) else None


def _bytes_of_task(look: _Look) -> int:
    return 0 if look.task is None else look.task.values.size


def _read_by_worker(look: _Look) -> Seen | CheckpointError | None:
    """Read a tensor that a worker is to read; None for one that none is."""
    if look.task is None:
        return None
    try:
        return Seen(look.seen.fingerprint, _measure(do_task(look.task)))
    except CheckpointError as error:
        return error


def _read_here(tensor: LazyTensor, stored: Fingerprint | None) -> Seen | CheckpointError:
    """Measure a tensor's numbers; without a stored checksum, compute one."""
    floating = tensor.spec.dtype.family in ("float", "complex")
    crc = 0

    def arrays() -> Iterator[np.ndarray[Any, Any]]:
        import numpy as np

        nonlocal crc
        for chunk in _chunks(tensor):
            if stored is None:
                length = b"" if floating else len(chunk).to_bytes(8, "little")  # where a string ends
                crc = extend(extend(crc, length), bytes(chunk))
            if floating:
                yield np.frombuffer(chunk, tensor.spec.dtype.numpy)

    measure = None
    try:
        if floating:
            measure = _measure(statistics(arrays(), tensor.spec.dtype))
        else:
            for _ in arrays():
                pass
    except CheckpointError as error:
        return error
    return Seen(stored or (*_what(tensor), "computed", crc), measure)


def _measure(found: Statistics | None) -> Measure:
    assert found is not None
    return Measure(found.l2, found.nan, found.inf)


def _measured(
    row: LogRow, seen: dict[str, Seen], trained: Collection[str], untrained: Collection[str]
) -> LogRow:
    measures = {key: found.measure for key, found in seen.items() if found.measure is not None}

    def norm(keys: Collection[str]) -> float | None:
        norms = [measures[key].l2 for key in keys if key in measures]
        known = [norm for norm in norms if norm is not None]
        return math.hypot(*known) if known else None

    return row._replace(
        l2=norm(trained),
        untrained_l2=norm(untrained),
        nan=sum(found.nan for found in measures.values()),
        inf=sum(found.inf for found in measures.values()),
        first_nan=next((key for key, found in measures.items() if found.nan), None),
    )


def _series(name: str) -> str:
    """Return what checkpoints that follow each other have in common: their prefix, before a step."""
    return name.rpartition("-")[0] if step_of(name) is not None else ""


def _size(path: Location) -> int:
    found = path.entry()
    return found.size if found is not None else 0


def _state(path: Location) -> Identity | None:
    """Return what changes when a file is replaced; None if it is gone."""
    found = path.entry()
    return found.identity if found is not None else None


def _is_floating(reader: FormatReader, key: str) -> bool:
    return reader.specs[key].dtype.family in ("float", "complex")


def _what(tensor: LazyTensor) -> tuple[object, ...]:
    return tensor.spec.dtype.name, tensor.spec.shape


def _chunks(tensor: LazyTensor) -> Iterator[Any]:
    """Yield a tensor's bytes; of a partitioned one those of its slices, which need not be complete."""
    for part in [piece for _, piece in tensor.pieces()] or [tensor]:
        yield from part.chunks()


def _stored_fingerprint(tensor: LazyTensor) -> Fingerprint | None:
    """Return what is another value where the tensor is another, from its index entry; None without one."""
    stored = tensor.stored
    if stored.crc32c is not None:
        return (*_what(tensor), "stored", stored.big_endian, stored.crc32c)
    pieces = [(extents, piece.stored) for extents, piece in tensor.pieces()]
    if not pieces or any(found.crc32c is None for _, found in pieces):
        return None
    checksums = tuple((tuple(extents), found.crc32c) for extents, found in pieces)
    return (*_what(tensor), "slices", pieces[0][1].big_endian, *checksums)


def has_changed(before: Fingerprint | None, now: Fingerprint | None) -> bool | None:
    """Whether a tensor changed, or None if unknown."""
    if before is None or now is None:
        return None
    if before[:2] != now[:2]:
        return True  # another dtype or shape
    return before != now if before[2:4] == now[2:4] or before[2] == "computed" == now[2] else None
