"""Predict what `restore()` of a checkpoint would do to the objects from which another checkpoint was saved.

TARGET's object graph stands for the program. (If both are name-based, TARGET's names do, as for the Savers of
TensorFlow 1 and the Estimators; for Orbax and Flax, the keys of TARGET's tree.) Each of its nodes, slot
variables included, counts as an existing object, and `restore` adds a missing save counter.
`formats.tf.graph.matching` does the matching, as it does when the runtime restores. An optimizer receives
slot variables that it lacks as follows:

    Keras 2 legacy (edges `iter` and `decay`), or any with slots   makes it
    Keras 2.11 and later (edge `_iterations`)                      refuses: the restore fails
    Keras 3 (edge `_trainable_variables`), any other object        passes over it

The verdicts are those of TensorFlow's assertions.  The lists say what becomes of each
value, which is not the same: an object that two of CHECKPOINT's nodes claim counts as
matched twice, but gets the value of the first.
tensorflow/python/checkpoint/checkpoint.py: CheckpointLoadStatus, NameBasedSaverStatus
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.core.words import command_line
from formats.errors import ConversionError, CorruptCheckpointError
from formats.find.resolve import spelling
from formats.model.facts import Rich
from formats.model.object_graph import ROOT, KeyResolver
from formats.model.object_keys import SAVE_COUNTER, VARIABLE_VALUE, looks_object_based
from formats.tf.graph.matching import GraphTarget, Matching

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader
    from formats.wire.messages import SerializedTensor


COUNTER_KEY = f"{SAVE_COUNTER}/.ATTRIBUTES/{VARIABLE_VALUE}"
_COUNTER_SPEC = TensorSpec(COUNTER_KEY, BY_NAME["int64"], ())


BY_OBJECT, BY_FULL_NAME, BY_KEY, BY_STRUCTURE = "object", "full name", "key", "structure"


class RestoredPair(NamedTuple):
    """A value that is restored: TARGET's key (None for a slot variable made for it) and CHECKPOINT's."""

    target: str | None
    checkpoint: str


class Mismatch(NamedTuple):
    """A value that does not fit: TARGET's key, and the shape or the dtype on either side."""

    key: str
    checkpoint: list[int] | str
    target: list[int] | str


class Match(NamedTuple):
    """The result of a restore; keys in the order of their bytes."""

    checkpoint: str
    target: str
    consumed: bool
    existing_matched: bool
    restored: list[RestoredPair]
    unmatched_target: list[str]
    unused_checkpoint: list[str]
    shape_mismatch: list[Mismatch]
    dtype_mismatch: list[Mismatch]
    failures: list[str]
    """Problems that make the whole restore fail, apart from mismatches."""
    by: str = BY_OBJECT
    """How values are matched: BY_OBJECT, BY_FULL_NAME, BY_KEY or BY_STRUCTURE."""
    read: bool = False
    """Whether it is what `Checkpoint.read()` would do, which looks for no save counter."""

    @property
    def is_of_trees(self) -> bool:
        """Whether both sides are trees of arrays."""
        return self.by == BY_KEY

    @property
    def lacks_only_counter(self) -> bool:
        """Whether a save counter is all that keeps the objects of TARGET from being matched."""
        fails = self.shape_mismatch or self.dtype_mismatch or self.failures
        return not fails and not self.existing_matched and self.unmatched_target == [COUNTER_KEY]

    def document(self) -> dict[str, Any]:
        return {
            "checkpoint": self.checkpoint,
            "target": self.target,
            "assert_consumed": self.consumed,
            "assert_existing_objects_matched": self.existing_matched,
            "restored": [pair._asdict() for pair in self.restored],
            "unmatched_target": self.unmatched_target,
            "unused_checkpoint": self.unused_checkpoint,
            "shape_mismatch": [found._asdict() for found in self.shape_mismatch],
            "dtype_mismatch": [found._asdict() for found in self.dtype_mismatch],
            "failures": self.failures,
            "remedy": remedy_for_shapes(self),
        }


_HINTS = {
    "CHECKPOINT": (
        "to convert CHECKPOINT, if it has the weights of TARGET: ckpt convert {path} DST --like {target}"
    ),
    "TARGET": "save a TensorFlow checkpoint from your program before training, and pass it as TARGET",
    "PATH": "to make an object graph from the keys: ckpt convert {path} DST --to object",
}


def graph_of(reader: FormatReader, role: str, target: FormatReader | None = None) -> ObjectGraph:
    """Return a checkpoint's object graph; its damage, or that there is none, is an error.

    `role` is what the checkpoint is to the command: CHECKPOINT, of `target`, TARGET, or PATH.
    """
    if reader.object_graph is not None:
        return reader.object_graph
    if reader.format.has_object_graph:
        flaw = reader.findings[-1]  # found during the search for the graph
        raise CorruptCheckpointError(
            flaw.message, path=flaw.file, key=flaw.key, offset=flaw.offset, code=flaw.code
        )
    who = "this checkpoint" if role == "PATH" else role
    message = f"{who} has no object graph; its format is {reader.format.name} ({reader.format.title})"
    path, like = reader.location.path, spelling(target.location) if target is not None else ""
    if reader.format.is_by_name and any(map(looks_object_based, reader.specs)):
        message = f"the keys of {who} are object-based, but the object graph is missing"
        rescue = (
            "to rebuild the object graph from the keys: "
            f"{command_line('rescue', spelling(reader.location), 'OUT')}"
        )
        raise CorruptCheckpointError(message, path=path, code="graph-decode", hints=(rescue,))
    hint = _HINTS[role].format(path=shlex.quote(spelling(reader.location)), target=shlex.quote(like))
    raise ConversionError(message, path=path, hints=(hint,))


def match(checkpoint: FormatReader, target: FormatReader, *, read: bool = False) -> Match:
    """Return what restoring one checkpoint into the object graph of another would do.

    With `read` it is what `Checkpoint.read()` and Keras' `load_weights` would do: the program has no save
    counter.  For two name-based checkpoints, it is what a Saver or an Estimator would do, and for two
    trees of arrays what Orbax or Flax would do.
    """
    if checkpoint.format.is_tree and target.format.is_tree:
        return match_trees(checkpoint, checkpoint.specs, target)
    by_name = checkpoint.format.is_by_name
    if by_name and target.format.is_by_name:
        return match_names(checkpoint, checkpoint.specs, target)
    into = graph_of(target, "TARGET")
    if by_name:
        return match_by_name(checkpoint, into, target)
    graph = graph_of(checkpoint, "CHECKPOINT", target)
    return match_objects(checkpoint, graph, checkpoint.specs, into, target, read=read)


class _Program(GraphTarget):
    """TARGET's objects, as TensorFlow would find them while it restores.

    Ids beyond the graph's nodes are objects that the restore itself makes: the save
    counter where TARGET has none, and slot variables.  With `read` there is no save counter,
    neither one that is made nor TARGET's: a program has none before its first `save` or `restore`.
    """

    def __init__(self, graph: ObjectGraph, specs: Mapping[str, TensorSpec], *, read: bool = False) -> None:
        super().__init__(graph)
        self.counter = len(graph.nodes)
        self.read = read
        self.made: dict[tuple[int, int, str], int] = {}
        self.rejected: list[str] = []
        self._specs = specs
        self._resolve = KeyResolver(specs)
        self._edge_names: dict[int, set[str]] = {}

    def child(self, owner: int, name: str) -> int | None:
        is_counter = (owner, name) == (ROOT, SAVE_COUNTER)
        if owner >= len(self.graph.nodes) or (is_counter and self.read):
            return None
        found = super().child(owner, name)
        return self.counter if found is None and is_counter else found

    def slot(self, optimizer: int, variable: int, name: str, node: int) -> int | None:
        found = super().slot(optimizer, variable, name, node)
        if found is not None or optimizer >= len(self.graph.nodes):
            return found
        edges = self._edge_names.get(optimizer)
        if edges is None:  # for an optimizer whose slots are looked up a hundred thousand times
            edges = self._edge_names[optimizer] = {edge for edge, _ in self.graph.children(optimizer)}
        if self.graph.nodes[optimizer].slot_variables or {"iter", "decay"} <= edges:
            return self.made.setdefault((optimizer, variable, name), self.counter + 1 + len(self.made))
        if "_iterations" in edges and "_trainable_variables" not in edges and not self.rejected:
            path = self.graph.paths.get(optimizer, "")
            self.rejected.append(
                f"{path!r} is an optimizer of Keras 2.11 or later, which rejects slots of legacy optimizers"
            )
        return None

    def live(self) -> Iterator[tuple[int, list[tuple[str, TensorSpec | None]]]]:
        """Yield the objects that hold values, with their keys, as TensorFlow's assertions list them."""
        reached = self.graph.reachable()
        slots = {s.node for s in self.graph.slots if s.optimizer in reached and s.variable in reached}
        counter = super().child(ROOT, SAVE_COUNTER)
        for number, node in enumerate(self.graph.nodes):
            if self.read and number == counter:
                continue
            if node.attributes and (number in reached or number in slots):
                keys = [key for attribute in node.attributes for key, _ in self.tensors(attribute)]
                yield number, [(key, self._specs.get(key)) for key in keys]
        if counter is None and not self.read:
            yield self.counter, [(COUNTER_KEY, _COUNTER_SPEC)]

    def attribute(self, partner: int, name: str) -> list[tuple[str | None, TensorSpec | None, str]] | None:
        """Return the key, spec and key suffix of the tensor of an attribute; None if it is not known."""
        if partner == self.counter:
            return [(COUNTER_KEY, _COUNTER_SPEC, "")] if name == VARIABLE_VALUE else None
        if partner > self.counter:
            return [(None, None, "")] if name == VARIABLE_VALUE else None
        for attribute in self.graph.nodes[partner].attributes:
            if attribute.name == name:
                return [(key, self._specs.get(key), suffix) for key, suffix in self.tensors(attribute)]
        return None

    def tensors(self, attribute: SerializedTensor) -> list[tuple[str, str]]:
        """Return the keys that an attribute stands for, each with what follows `checkpoint_key` in it."""
        key = attribute.checkpoint_key
        return [(found, found[len(key) :]) for found in self._resolve(key)] or [(key, "")]


class _Fate:
    """The fate of each value, updated pair by pair."""

    def __init__(self) -> None:
        self.restored: list[RestoredPair] = []
        self.shapes: list[Mismatch] = []
        self.dtypes: list[Mismatch] = []
        self.failures: list[str] = []
        self.unknown_attributes = False
        self.used: set[str] = set()
        self.given: set[str] = set()

    def take(
        self, key: str | None, spec: TensorSpec | None, source: TensorSpec, *, shaped: bool = True
    ) -> None:
        """Compare a value of CHECKPOINT with its place in TARGET."""
        self.used.add(source.key)
        fits = True
        if key is not None and spec is not None:
            self.given.add(key)
            if shaped and spec.shape != source.shape:
                self.shapes.append(Mismatch(key, list(source.shape), list(spec.shape)))
                fits = False
            if spec.dtype is not source.dtype:
                self.dtypes.append(Mismatch(key, source.dtype.name, spec.dtype.name))
                fits = False
        if fits:
            self.restored.append(RestoredPair(key, source.key))

    @property
    def fails(self) -> bool:
        return bool(self.shapes or self.dtypes or self.failures)


def match_objects(
    checkpoint: FormatReader,
    graph: ObjectGraph,
    specs: Mapping[str, TensorSpec],
    into: ObjectGraph,
    target: FormatReader,
    *,
    read: bool = False,
) -> Match:
    """Match object graphs; `graph` and `specs` are CHECKPOINT's, or what an edit would make of them."""
    program = _Program(into, target.specs, read=read)
    matching: Matching[int] = Matching(graph, program, {})
    fate = _Fate()
    resolve = KeyResolver(specs)
    reached: set[int] = set()
    for number, partner in matching.match(ROOT, ROOT):
        if partner in reached:
            continue  # A restore gives an object one value, and the first that comes is it.
        reached.add(partner)
        for attribute in graph.nodes[number].attributes:
            places = program.attribute(partner, attribute.name)
            _give(fate, attribute, places, [specs[key] for key in resolve(attribute.checkpoint_key)])
    fate.failures += program.rejected
    partners = set(matching.bound.values())
    live = list(program.live())
    existing = not fate.fails and all(number in partners for number, _ in live)
    consumed = (
        existing
        and all(n in matching.bound for n, node in enumerate(graph.nodes) if node.attributes)
        and not matching.slot_requests
        and not fate.unknown_attributes
    )
    keys = [key for _, found in live for key, _ in found]
    result = _result((checkpoint, target), specs, fate, (consumed, existing), keys)
    return result._replace(read=read)


def _give(
    fate: _Fate,
    attribute: SerializedTensor,
    places: list[tuple[str | None, TensorSpec | None, str]] | None,
    found: list[TensorSpec],
) -> None:
    key = attribute.checkpoint_key
    if places is None:
        fate.unknown_attributes = True
        return
    if not found:
        fate.failures.append(
            f"the object graph of CHECKPOINT names {key!r}, but CHECKPOINT has no such tensor"
        )
        return
    by_suffix = {suffix: (place, spec) for place, spec, suffix in places}
    for source in found:
        suffix = source.key[len(key) :]
        # Iterators and tables are replaced as a whole, regardless of their size.
        if suffix in by_suffix:
            fate.take(*by_suffix[suffix], source, shaped=attribute.name == VARIABLE_VALUE)


def match_by_name(checkpoint: FormatReader, into: ObjectGraph, target: FormatReader) -> Match:
    """Match a name-based checkpoint: every value of TARGET by its full name, the save counter exempt."""
    program = _Program(into, target.specs)
    counter = program.child(ROOT, SAVE_COUNTER)
    fate = _Fate()
    complete = True
    keys = []
    for number, found in program.live():
        if number >= len(into.nodes):
            continue
        names = {
            key: attribute.full_name
            for attribute in into.nodes[number].attributes
            for key, _ in program.tensors(attribute)
        }
        for key, spec in found:
            source = checkpoint.specs.get(names[key]) if names[key] else None
            keys.append(key)
            if source is not None:
                fate.take(key, spec, source)
            elif number != counter:
                complete = False
    holds = complete and not fate.fails
    result = _result((checkpoint, target), checkpoint.specs, fate, (holds, holds), keys)
    return result._replace(by=BY_FULL_NAME)


def match_names(checkpoint: FormatReader, specs: Mapping[str, TensorSpec], target: FormatReader) -> Match:
    """Match two name-based checkpoints as a Saver restores: every value of TARGET by its key.

    `specs` are CHECKPOINT's, perhaps under new names. Its other tensors are ignored. If shapes differ,
    TensorFlow 1 fails; with resource variables, as Estimators of TensorFlow 2 have them, it silently
    continues with CHECKPOINT's shapes.
    """
    fate = _Fate()
    for key, spec in target.specs.items():
        if key in specs:
            fate.take(key, spec, specs[key])
    holds = not fate.fails and target.specs.keys() <= specs.keys()
    result = _result((checkpoint, target), specs, fate, (holds, holds), list(target.specs))
    return result._replace(by=BY_FULL_NAME)


def match_trees(checkpoint: FormatReader, specs: Mapping[str, TensorSpec], target: FormatReader) -> Match:
    """Match two trees of arrays: every value of TARGET by its key, texts among them.

    Orbax rejects a tree with other keys, unless `partial_restore` is set.  It silently converts dtypes,
    and old releases also shapes.
    """
    found = match_names(checkpoint, specs, target)
    mine, theirs = _texts(checkpoint), _texts(target)
    existing = found.existing_matched and theirs <= mine
    unused = [*found.unused_checkpoint, *sorted(mine - theirs)]
    return found._replace(
        by=BY_KEY,
        existing_matched=existing,
        consumed=existing and not unused,
        unmatched_target=sorted({*found.unmatched_target, *(theirs - mine)}),
        unused_checkpoint=unused,
    )


def _texts(reader: FormatReader) -> set[str]:
    """Return the keys of values other than tensors."""
    return set(reader.facts.beside()) if isinstance(reader.facts, Rich) else set()


def remedy_for_shapes(found: Match) -> str | None:
    """Return what to do where the program makes other shapes than the checkpoint holds."""
    if not found.shape_mismatch:
        return None
    first = found.shape_mismatch[0]
    difference = f"{first.key} is {first.target} in TARGET, but {first.checkpoint} in CHECKPOINT"
    if len(found.shape_mismatch) > 1:
        difference = f"{len(found.shape_mismatch):,} shapes differ; for example, {difference}"
    return (
        f"{difference}. "
        "Build the program with the sizes of CHECKPOINT, or train it from scratch in a new directory"
    )


def remedy_for_dtypes(found: Match) -> str | None:
    """Return the command that casts, where floating-point dtypes are all that differs."""
    if not found.dtype_mismatch or found.unmatched_target or found.unused_checkpoint or found.failures:
        return None
    wanted = {BY_NAME[str(row.target)] for row in found.dtype_mismatch}
    given = {BY_NAME[str(row.checkpoint)] for row in found.dtype_mismatch}
    if len(wanted) > 1 or not all(dtype.is_floating for dtype in wanted | given):
        return None
    (dtype,) = wanted
    return command_line("convert", found.checkpoint, "DST", "--like", found.target, "--cast", dtype.name)


def _result(
    readers: tuple[FormatReader, FormatReader],
    specs: Mapping[str, TensorSpec],
    fate: _Fate,
    verdicts: tuple[bool, bool],
    keys: list[str],
) -> Match:
    checkpoint, target = readers
    order = {key: place for place, key in enumerate(specs)}
    return Match(
        checkpoint.location.path,
        target.location.path,
        *verdicts,
        sorted(fate.restored, key=lambda pair: (order[pair.checkpoint], pair.target or "")),
        sorted({key for key in keys if key not in fate.given}),
        [key for key in specs if key not in fate.used and checkpoint.kinds.get(key) != "graph"],
        sorted(fate.shapes),
        sorted(fate.dtypes),
        fate.failures,
    )
