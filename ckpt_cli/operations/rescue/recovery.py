"""Saving what is left of a damaged checkpoint: what is intact, what is lost and why, and writing it.

Every tensor is read once to its last byte before anything is planned; what then is not
lost is copied as `convert` copies, compared again, and moved into place.  The damaged
checkpoint is only read.

    proof "checksum"   the tensor fits a checksum that was stored for it
          "sibling"    it is to the last bit what a sibling has under this key
          None         nothing contradicts it, and nothing proves it; the document says why

Damage can crash the HDF5 library, so files that it reads are surveyed in a process of its own. If that dies,
the tensor it was reading is lost, and another process continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import INVALID
from formats.errors import (
    MEMORY,
    NOT_READ,
    CheckpointError,
    ConversionError,
    CorruptCheckpointError,
    InaccessibleError,
    ResourceError,
    as_ours,
)
from formats.find.opening import open_reader
from formats.find.registry import format_named
from formats.find.salvage import Salvage, find_damaged, open_damaged
from formats.find.suffixes import format_of_suffix, refuse_false_suffix
from formats.h5.library.cut import find_damaged_superblock
from formats.model.facts import Nothing
from formats.model.object_keys import GRAPH_KEY, looks_object_based
from formats.model.probe import Probe
from formats.model.verification import Finding
from formats.model.writer import WriteTarget
from formats.tf.bundle.writer import bundle_target
from formats.tf.graph.salvage import claimed_keys, graph_of_keys, without_lost

from ..convert.plan import NONE, Dropped, Move, Plan, verification
from ..look.child import ChildLostError, ReadingChild

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection

    from formats.core.spec import TensorSpec
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import Format, FormatReader


_PATIENCE = 60
"""Seconds without a message after which a process that reads HDF5 counts as stuck."""


class Lost(NamedTuple):
    """A tensor that cannot be saved; `key` is None for all tensors without a known key."""

    key: str | None
    spec: TensorSpec | None
    finding: Finding

    def document(self) -> dict[str, Any]:
        known = self.spec if self.spec is not None and self.spec.dtype is not INVALID else None
        return {
            "key": self.key,
            "dtype": known.dtype_name if known else None,
            "shape": list(known.shape) if known else None,
            "reason": self.finding.message,
            "code": self.finding.code,
            "file": self.finding.file,
            "offset": self.finding.offset,
        }


class Rescue(NamedTuple):
    """The tensors to save, as a plan like that of a conversion, and the lost ones.

    `graph` says what becomes of the object graph: kept, trimmed, sibling or rebuilt;
    `refusal` why the damaged checkpoint could not be opened at all.
    """

    plan: Plan | None
    source: Location
    target: Location
    lost: tuple[Lost, ...]
    proofs: dict[str, str | None]
    doubts: dict[str, str]
    graph: str | None
    sibling: str | None
    notes: tuple[str, ...] = ()
    refusal: CheckpointError | None = None

    def document(self, proof: str) -> dict[str, Any]:
        """Return the JSON document: that of converting, with what is lost and what is not proved."""
        base: dict[str, Any] = {
            "source": self.source,
            "target": self.target,
            "format": None,
            "tensors": [],
            "dropped": [],
            **verification(NONE),
        }
        if self.plan is not None:
            base = self.plan.document(proof)
        for row in base["tensors"]:
            row["proof"] = self.proofs.get(row["from"])
        return {
            **base,
            "lost": [lost.document() for lost in self.lost],
            "unproved": [{"key": key, "reason": reason} for key, reason in self.doubts.items()],
            "graph": self.graph,
            "sibling": self.sibling,
        }


def plan_rescue(
    path: Location,
    target: Location,
    sibling: Location | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Rescue:
    """Read all that is left of a checkpoint and return what saving it does.

    Its `plan` is None if not one tensor is left.  Raises CheckpointError if the sibling
    cannot help, and where OUT is the damaged checkpoint or its sibling.
    """
    try:
        location = find_damaged(path)
    except CheckpointError as error:
        return _rejection(path, target, sibling, error)
    other = open_reader(sibling) if sibling is not None else None
    for kept in (location.path, *([other.location.path] if other is not None else [])):
        if _place(kept) == _place(bundle_target(WriteTarget(target, ())).path):
            hints = ("choose another output path",)
            raise ConversionError("this path is one of the inputs", path=target, hints=hints)
    try:
        lost = {} if not _needs_a_child(location) else _survey_in_children(location)
        salvage = open_damaged(location, other)
    except ConversionError:
        raise
    except CheckpointError as error:
        return _rejection(path, target, sibling, error)
    into = _format_written(salvage.reader.format, target)
    if not _needs_a_child(location):
        found = _flaws(salvage, salvage.reader.specs, advance)
        lost = {key: flaw for key, flaw in found if flaw is not None}
    for flaw in lost.values():
        if flaw.code in NOT_READ:
            kind = ResourceError if flaw.code == MEMORY else InaccessibleError
            raise kind(flaw.message, path=flaw.file, key=flaw.key if flaw.code == MEMORY else None)
    return _RescuePlanner(salvage, lost, path, into, (target, sibling)).rescue()


def _format_written(own: Format, target: Location) -> Format:
    """Return the format of the output: the damaged checkpoint's, or another one if that is only read."""
    if own.writer is not None:
        why = f"rescue keeps the format, {own.name}"
        refuse_false_suffix(own, target, why, "to change the format, convert the result")
        return own
    by_suffix = format_of_suffix(target)
    if by_suffix is None or by_suffix.name not in _FOR_ONLY_READ:
        message = f"{own.name} can be read, but not written"
        hints = (
            (f"to save the tensors in another format, end OUT in {' or '.join(_FOR_ONLY_READ.values())}"),
        )
        raise ConversionError(message, path=target, hints=hints)
    return by_suffix


_FOR_ONLY_READ = {"safetensors": ".safetensors", "npz": ".npz"}
"""Formats that take the tensors of a format that is only read, and their suffixes."""


def _rejection(
    source: Location, target: Location, sibling: Location | None, error: CheckpointError
) -> Rescue:
    """Return what a source that cannot be opened comes to: all of it is lost, for this reason.

    A tensor without read permission is not lost, so that error is raised.
    """
    if isinstance(error, InaccessibleError):
        raise error
    flaw = Finding("error", error.code, error.message, error.key, error.path or source, error.offset)
    lost = Lost(error.key, None, flaw)
    return Rescue(None, source, target, (lost,), {}, {}, None, sibling, refusal=error)


def _place(path: Location) -> str:
    return path.real()


# What is intact ---------------------------------------------------------------------


def _flaws(
    salvage: Salvage, keys: Iterable[str], advance: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[str, Finding | None]]:
    """Read tensors to their last byte; yield for each why it is lost, None if it is not."""
    known = {finding.key: finding for finding in reversed(salvage.reader.findings)}
    for key in keys:
        if salvage.reader.is_unread(key):
            yield key, known.get(key) or _lost_for(salvage.reader.undecoded(key), key)
        else:
            yield key, _unwritable(salvage.reader, key) or _flaw(salvage, key, advance)


def _unwritable(reader: FormatReader, key: str) -> Finding | None:
    """Return why a sound tensor is lost all the same: its format is not written with its type."""
    dtype = reader.specs[key].dtype
    if not dtype.is_unmapped or reader.format.holds(dtype):
        return None
    message = f"{reader.format.name} cannot be written with dtype {dtype}"
    return Finding("error", "dtype", message, key, reader.location.head)


def _flaw(salvage: Salvage, key: str, advance: Callable[[int], None]) -> Finding | None:
    reader = salvage.reader
    if reader.gap is not None:
        reader.gap.is_touched = False
    try:
        tensor = reader[key]
        pieces = tensor.pieces()
        for part in [piece for _, piece in pieces] or [tensor]:
            for _ in part.chunks():
                pass
            advance(part.spec.nbytes or 0)
    except Exception as error:
        return _lost_for(as_ours(error, reader.location.head), key)
    if reader.gap is not None and reader.gap.is_touched:
        return Finding(
            "error",
            "hdf5-read",
            "a part of the tensor is missing, because the file is truncated",
            key,
            reader.location.head,
        )
    return None


def _lost_for(error: CheckpointError, key: str) -> Finding:
    return Finding("error", error.code, error.message, key, error.path, error.offset)


def _needs_a_child(location: CheckpointLocation) -> bool:
    try:
        head = Probe(location).head
    except CheckpointError:
        return False
    zipped = head.startswith(b"PK\3\4")
    return zipped or find_damaged_superblock(head) is not None or location.head.endswith(".json")


def _survey_in_children(location: CheckpointLocation) -> dict[str, Finding]:
    """Return why tensors are lost, found out in processes that may die of it."""
    lost: dict[str, Finding] = {}
    done: set[str] = set()
    while True:
        for key, flaw in _one_survey(location, frozenset(done)):
            done.add(key)
            if flaw is not None:
                lost[key] = flaw
            if key == "":
                return {name: each for name, each in lost.items() if name}


def _one_survey(location: CheckpointLocation, done: frozenset[str]) -> Iterator[tuple[str, Finding | None]]:
    """Yield keys with what is wrong with them, an empty one at the end of all.

    The child says a key before it reads the tensor, and the answer after it.
    """
    reading: str | None = None
    try:
        with ReadingChild(location, _report_to, location, done) as child:
            while True:
                received = child.receive(_PATIENCE)
                if isinstance(received, dict):
                    kind = CheckpointError if received["code"] in NOT_READ else CorruptCheckpointError
                    raise kind(received.pop("message"), **received)
                if isinstance(received, str):
                    reading = received
                    continue
                yield received
                if received[0] == "":
                    return
    except ChildLostError as lost:
        what, code = str(lost), lost.code
    if code == MEMORY:
        raise ResourceError(what, path=location.head, key=reading)
    if reading is None:
        raise CorruptCheckpointError(what, path=location.head, code=code)
    yield reading, Finding("error", code, what, reading, location.head)


def _report_to(sender: Connection, location: CheckpointLocation, done: frozenset[str]) -> None:
    try:
        salvage = open_damaged(location)
    except Exception as raised:
        # Errors made with keywords do not go through a pipe; what they say does.
        error = as_ours(raised, location.head)
        sender.send(
            {
                "message": error.message,
                "path": error.path,
                "key": error.key,
                "offset": error.offset,
                "code": error.code,
                "hints": error.hints,
            }
        )
        return
    left = [key for key in salvage.reader.specs if key not in done]
    flaws = _flaws(salvage, left)
    for key in left:
        sender.send(key)
        sender.send(next(flaws))
    sender.send(("", None))


# What is written --------------------------------------------------------------------


class _RescuePlanner:
    def __init__(
        self,
        salvage: Salvage,
        flaws: dict[str, Finding],
        source: Location,
        into: Format,
        places: tuple[Location, Location | None],
    ) -> None:
        self.salvage = salvage
        self.reader = salvage.reader
        self.source = self.reader.location.path or source
        self.into = into
        self.target, self.sibling = places
        self.lost = [Lost(key, self.reader.specs[key], flaw) for key, flaw in flaws.items()]
        self.kept = {key: spec for key, spec in self.reader.specs.items() if key not in flaws}
        self.doubts = dict(salvage.doubts)
        self.notes = [_finding_text(finding) for finding in salvage.findings]

    def rescue(self) -> Rescue:
        if self.into is not self.reader.format:
            self._leave_out_unheld()
        graph, state = self._graph()
        self._hidden_losses()
        weights = [key for key in self.kept if key != GRAPH_KEY]
        plan = self._plan(graph, state) if weights else None
        return Rescue(
            plan,
            self.source,
            self.target,
            tuple(self.lost),
            {key: self._proof(key) for key in self.kept},
            {key: self._doubt(key) for key in self.kept if self._proof(key) is None},
            state if weights else None,
            self.sibling,
            tuple(self.notes),
        )

    def _leave_out_unheld(self) -> None:
        """Leave out tensors of dtypes that another format does not have."""
        for key, spec in list(self.kept.items()):
            if not self.into.holds(spec.dtype):
                self._lose(key, "dtype", f"{self.into.name} cannot store {spec.dtype} tensors")

    def _proof(self, key: str) -> str | None:
        if key in self.doubts or not self.reader.has_checksums:
            return None
        return self.salvage.proofs.get(key, "checksum")

    def _doubt(self, key: str) -> str:
        return self.doubts.get(key, f"{self.reader.format.name} stores no checksums")

    def _lose(self, key: str | None, code: str, reason: str, file: str | None = None) -> None:
        spec = self.kept.pop(key, None) if key is not None else None
        self.lost.append(
            Lost(key, spec, Finding("error", code, reason, key, file or self.reader.location.head))
        )

    # The object graph ----------------------------------------------------------------

    def _graph(self) -> tuple[ObjectGraph | None, str | None]:
        """Return the object graph to be written, and what it is; what it does not know is lost."""
        own = self._own_graph()
        if own is not None:
            self._pass_over_misread(own)
            trimmed = without_lost(own, self._weights(self.reader.specs), self._weights(self.kept))
            return (None, "kept") if trimmed is own else (trimmed, "trimmed")
        weights = self._weights(self.kept)
        other = self.salvage.sibling.object_graph if self.salvage.sibling is not None else None
        if other is not None:
            return without_lost(other, self._weights(other_specs(self.salvage)), weights), "sibling"
        objects = [key for key in weights if looks_object_based(key)]
        if not objects or not self.reader.format.is_bundle:
            return None, None
        graph, unplaced = graph_of_keys(objects)
        self.notes.append(
            "the object graph was rebuilt from the keys; full names and additional edges are lost"
        )
        if unplaced:
            self.notes.append(f"{len(unplaced):,} keys belong to no object")
        return graph, "rebuilt"

    def _own_graph(self) -> ObjectGraph | None:
        """Return the checkpoint's own graph, where it can be read and decoded."""
        if GRAPH_KEY not in self.reader.specs:
            return None
        graph = self.reader.object_graph
        if graph is None and GRAPH_KEY in self.kept:
            found = next(each for each in self.reader.findings if each.key == GRAPH_KEY)
            self._lose(GRAPH_KEY, found.code, found.message, found.file)
        return graph if GRAPH_KEY in self.kept else None

    def _pass_over_misread(self, graph: ObjectGraph) -> None:
        """Pass over what a damaged block names and no object has: a key that was misread."""
        owned = graph.tensors(self.reader.specs)
        misread = [key for key in self.salvage.doubts if key not in owned and key != GRAPH_KEY]
        for key in misread:
            self.kept.pop(key, None)
            self.doubts.pop(key, None)
            self.notes.append(f"ignored {key!r}, because its block is damaged and no object has this key")
        self.lost = [lost for lost in self.lost if lost.key not in misread]

    def _weights(self, specs: Any) -> dict[str, TensorSpec]:
        return {key: spec for key, spec in specs.items() if key != GRAPH_KEY}

    def _hidden_losses(self) -> None:
        """Add what is lost with damaged blocks; a sound graph says which keys that were."""
        graph = self.reader.object_graph if GRAPH_KEY in self.kept else None
        known = {lost.key for lost in self.lost}
        for finding in self.salvage.losses:
            if finding.key is not None and finding.key not in known:
                self.lost.append(Lost(finding.key, None, finding))
            elif finding.key is None and (graph is None or finding.code == "entry"):
                self.lost.append(Lost(None, None, finding))
            elif finding.key is None:
                self.notes.append(_finding_text(finding))
        hidden = any(finding.key is None and finding.code != "entry" for finding in self.salvage.losses)
        if graph is not None and hidden:
            for key in claimed_keys(graph, self.reader.specs):
                if key not in known:
                    self._lose(
                        key, "block-checksum", "the entry of this tensor is in a damaged block of the index"
                    )

    # The plan ------------------------------------------------------------------------

    def _plan(self, graph: ObjectGraph | None, state: str | None) -> Plan:
        reader = self.reader
        keys = [key for key in self.kept if key != GRAPH_KEY or state == "kept"]
        into = self.into
        if into.is_bundle:
            keys.sort(key=self._stored_place)
            into = format_named("tf-object" if state is not None else "tf-name")
            if reader.format.has_object_graph and not into.has_object_graph:
                self.notes.append(f"the output is {into.name}, because the object graph is lost")
        moves = [Move(reader.specs[key].plain, key, reader[key]) for key in keys]
        pieces = {move.spec.key: move.tensor.pieces() for move in moves if move.tensor is not None}
        slices = {key: [extents for extents, _ in found] for key, found in pieces.items() if found}
        dropped = tuple(Dropped(lost.key, lost.finding.message) for lost in self.lost if lost.key is not None)
        self.lost += [Lost(None, None, finding) for finding in reader.facts_findings()]
        facts = reader.facts if into is reader.format and not into.is_bundle else Nothing()
        return Plan(
            self.source,
            self.target,
            into.name,
            tuple(moves),
            dropped,
            graph,
            slices,
            facts,
            tuple(self.notes),
            (reader,),
        )

    def _stored_place(self, key: str) -> tuple[int, int]:
        tensor = self.reader[key]
        pieces = tensor.pieces()
        stored = (pieces[0][1] if pieces else tensor).stored
        return stored.shard or 0, stored.offset or 0


def other_specs(salvage: Salvage) -> Any:
    """Return the specs of the sibling; none if there is none."""
    return salvage.sibling.specs if salvage.sibling is not None else {}


def _finding_text(finding: Finding) -> str:
    where = finding.file or ""
    offset = f": offset {finding.offset}" if finding.offset is not None else ""
    return f"{where}{offset}: {finding.message}"
