"""The parts of a source that another format takes: the tensors, their keys, and the graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from formats.core.dtypes import BY_NAME, DType
from formats.core.spec import TensorSpec, is_utf8
from formats.errors import (
    ConversionError,
    DuplicateKeyError,
    UnsupportedDtypeError,
    cast_or_leave_out,
    leave_out,
)
from formats.keras.training_state import is_added_count
from formats.model.checkpoint_files import bundle_prefix, step_of
from formats.model.object_keys import GRAPH_KEY, SAVE_COUNTER, table_part
from formats.model.object_names import counts_at_root, plain_key
from formats.tf.graph import state_in_names
from formats.tf.graph.invent import Invented, invent_graph
from formats.tf.graph.prune import prune

from ..select.keys import object_graph_of
from .lazy import scaled
from .named_optimizers import NamedOptimizers
from .optimizers import AS_THEY_ARE, OptimizerOptions, changes_nothing
from .plan import Dropped, Move

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.facts import KerasFacts
    from formats.keras.training_state import TrainingState
    from formats.location import Location
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import Format, FormatReader

    from ..select.keys import Renamed


class Settings(NamedTuple):
    """The options of a conversion, apart from source and target."""

    cast: DType | None = None
    merge_slices: bool = False
    names: Renamed | None = None
    """The source's keys, object paths and graph after rules that change them, where there are any."""

    given: OptimizerOptions = OptimizerOptions()
    """The options about the optimizer that no file contains."""

    config: KerasFacts | None = None
    """The configuration of the Keras model, where it is given, and what comes with it."""

    optimizer: TrainingState | None = None
    """The state of an optimizer, where another layout than Keras' has it."""

    generation: str | None = None
    """The Keras that restores a tf-object or keras-weights target, if it is not that of the configuration."""

    stored_keys: bool = False
    """Whether keys of objects keep their suffix in formats without an object graph."""

    own_facts: KerasFacts | None = None
    """How a Keras target groups the tensors, if their names are already those of the target."""


def check_keys(moves: Sequence[Move], target: str) -> None:
    """Refuse two tensors that end on one key."""
    seen: dict[str, str | None] = {}
    for move in moves:
        if move.spec.key in seen:
            message = f"{move.source!r} and {seen[move.spec.key]!r} would both become this key"
            hints = ("to rename one of them, pass --sub or --map; to leave one out, pass --exclude",)
            raise DuplicateKeyError(message, path=target, key=move.spec.key, hints=hints)
        seen[move.spec.key] = move.source


def exports_objects(source: FormatReader, into: Format | None) -> bool:
    """Whether tensors leave their object graph behind; a listing has their keys as they are stored."""
    return source.format.has_object_graph and (into is None or into.has_values)


def plain_names(names: Mapping[str, str], source: FormatReader) -> dict[str, str]:
    """Return new keys without the suffix of variables; DuplicateKeyError where two tensors would have one."""
    plain = {key: plain_key(name) for key, name in names.items()}
    owners: dict[str, str] = {}
    for key, name in plain.items():
        other = owners.setdefault(name, key)
        if other != key and names[other] != names[key]:
            message = f"{names[other]!r} and {names[key]!r} would both become this key"
            hints = ("to keep the keys as stored, pass --keys stored",)
            raise DuplicateKeyError(message, path=source.location.path, key=name, hints=hints)
    return plain


class Chosen:
    """The chosen tensors of a source, and what became of the others."""

    def __init__(self, source: FormatReader, keys: Sequence[str], into: Format, settings: Settings) -> None:
        self.source = source
        self.into = into
        self.settings = settings
        self.dropped: list[Dropped] = []
        self.notes: list[str] = []
        self._requested = keys
        self.keys = [key for key in keys if self._fits(key)]

    def _fits(self, key: str) -> bool:
        """Whether the target can hold a tensor; ConversionError if it must and cannot."""
        spec = self.source.specs[key]
        if self.source.is_unread(key):
            raise self.source.undecoded(key)
        if key == GRAPH_KEY and self._kind(key) == "graph":
            if not self.into.has_object_graph:
                self.dropped.append(Dropped(key, f"{self.into.name} cannot store an object graph"))
            return False
        dtype = self._dtype(spec)
        if self.into.holds(dtype):
            return True
        reason = f"{self.into.name} cannot store {dtype} tensors"
        if self._kind(key) == "state":
            self.dropped.append(Dropped(key, reason))
            return False
        specs = self.source.specs
        others = [
            each
            for each in self._requested
            if each not in (key, GRAPH_KEY)
            and not self.into.holds(self._dtype(specs[each]))
            and self._kind(each) != "state"
        ]
        hints = cast_or_leave_out(key, castable=spec.dtype.is_floating, others=others)
        raise UnsupportedDtypeError(reason, path=self.source.location.path, key=key, hints=hints)

    def _kind(self, key: str) -> str | None:
        return self.source.kinds.get(key)  # kinds are computed from names, so only on demand

    def _dtype(self, spec: TensorSpec) -> DType:
        cast = self.settings.cast
        return cast if cast is not None and spec.dtype.is_floating else spec.dtype

    def move(self, key: str, name: str) -> Move:
        tensor = self.source[key]
        spec = tensor.spec.plain
        dtype = self._dtype(spec)
        if name != key or dtype is not spec.dtype:
            spec = TensorSpec(name, dtype, spec.shape, spec.stored)
        return Move(spec, key, tensor)

    def _cast(self, move: Move) -> Move:
        spec = move.spec._replace(dtype=self._dtype(move.spec))
        value = None if move.value is None else move.value.astype(spec.dtype.numpy)
        return move._replace(spec=spec, value=value)

    def renamed(self, key: str) -> str:
        """Return the key after the rules; where none changes it, the one that the tensor had before SRC."""
        new = self.settings.names.keys[key] if self.settings.names else key
        return self.source.own_keys.get(key, key) if new == key else new

    @property
    def object_graph(self) -> ObjectGraph | None:
        """The source's graph, after the rules; CorruptCheckpointError if it is damaged."""
        return self.settings.names.object_graph if self.settings.names else object_graph_of(self.source)

    # Targets that keep keys ----------------------------------------------------------

    def with_keys(self) -> list[Move]:
        names = {key: self.renamed(key) for key in self.keys}
        if exports_objects(self.source, self.into) and not self.settings.stored_keys:
            names = plain_names(names, self.source)
        return [self.move(key, name) for key, name in names.items()]

    # Names ----------------------------------------------------------------------------

    def with_names(self) -> list[Move]:
        """Return moves to a name-based target, sorted as savers write them."""
        if object_graph_of(self.source) is None:
            moves = self.with_keys()
        else:
            names = self._names_of_objects()
            given = self.settings.given
            state = state_in_names.write(self.source, names, given.iterations, given.learning_rate)
            self.notes += state.notes
            moves = [self._slot(key, *state.slots.get(key, (name, None))) for key, name in names.items()]
            moves += [Move(spec, None, None, value) for spec, value in state.made]
            moves = [*map(self._cast, moves)]
        return sorted(moves, key=lambda move: move.spec)

    def _slot(self, key: str, name: str, factor: float | None) -> Move:
        if factor is None:
            return self.move(key, name)
        turned = scaled(self.source[key], factor)
        return Move(turned.spec._replace(key=name), key, turned)

    def _names_of_objects(self) -> dict[str, str]:
        """Return a name for each key: the full names if they are unique, otherwise the object paths."""
        source = self.source
        weights, tables, unnamed = [], [], []
        for key in self.keys:
            if self._is_added_count(key):
                self.dropped.append(Dropped(key, "other tensors already contain this step count"))
            elif self._is_save_counter(key):
                self.dropped.append(Dropped(key, f"{self.into.name} has no save counter"))
            elif (
                source.kinds.get(key) != "state"
                or key in source.full_names
                or counts_at_root(key, source.specs[key])
            ):
                weights.append(key)
            elif table_part(key):
                tables.append(key)
            else:
                unnamed.append(key)
        self.dropped += [Dropped(key, "the object graph stores no full name") for key in unnamed]
        full = {key: source.full_names.get(key, "") for key in weights}
        if self.settings.names:
            self.notes.append("the keys of DST are object paths, as changed by your rules")
        elif all(full.values()) and len(set(full.values())) == len(full):
            self.notes.append("the keys of DST are the full names of the variables")
            return full | self._path_names(tables)
        else:
            self.notes.append(
                "tensors are named by object path, because full names are missing or not unique"
            )
        return self._path_names([*weights, *tables])

    def _is_added_count(self, key: str) -> bool:
        """Whether a count of steps was added to TensorFlow 1's state, which is what its name says."""
        path = self.source.edge_paths.get(key)
        return is_added_count(path or "", self.source.full_names.get(key)) and bool(path)

    def _is_save_counter(self, key: str) -> bool:
        return self.source.edge_paths.get(key) == SAVE_COUNTER and self.source.kinds.get(key) == "state"

    def _path_names(self, keys: Sequence[str]) -> dict[str, str]:
        """Return object paths as names.

        A slot's is its variable's, its optimizer's and its own, joined; a hash table's two have its path
        and `-keys` or `-values`, as TensorFlow's savers name them.
        """
        graph = self.object_graph
        assert graph is not None
        owners = graph.tensors({self.renamed(key): None for key in keys})
        slots = {slot.node: slot for slot in graph.slots}
        names = {}
        for key in keys:
            node, _, _ = owners.get(self.renamed(key), (None, "", ""))
            slot = slots.get(node) if node is not None else None
            if slot is not None:
                names[key] = f"{graph.paths[slot.variable]}/{graph.paths[slot.optimizer]}/{slot.name}"
            else:
                path = graph.paths.get(node) if node is not None else None
                names[key] = path + table_part(key) if path else self.renamed(key)
        return names

    # Objects ---------------------------------------------------------------------------

    def with_graph(self, target: Location) -> tuple[list[Move], ObjectGraph]:
        """Return moves to an object-based target, in the order of its nodes, and the graph."""
        source_graph = self.object_graph
        if source_graph is not None:
            moves = [self.move(key, self.renamed(key)) for key in self.keys]
            every = {self.renamed(key): None for key in self.source.specs}
            graph = prune(source_graph, every, {move.spec.key for move in moves})
            return _in_node_order(moves, graph), graph
        named = {
            self.renamed(key): self.source.specs[key]._replace(key=self.renamed(key)) for key in self.keys
        }
        if len(named) != len(self.keys):
            check_keys(self.with_keys(), target)
        origins = {self.renamed(key): key for key in self.keys}
        invented = self._invent(named)
        if invented.is_export:
            return self._as_exported(invented, origins, target)
        optimizers = NamedOptimizers(self.source, self.settings.given, origins)
        if names_again := optimizers.converted_names(named, invented):
            invented = self._invent(names_again)
        moves = [
            optimizers.scaled_move(name, self.move(key, invented.keys[optimizers.name(name)]))
            for name, key in origins.items()
        ]
        self.notes += [f"{name}-keys and {name}-values became a hash table" for name in invented.tables]
        moves += _save_counter(invented.save_counter, target)
        moves += optimizers.counts(invented)
        self.notes += optimizers.notes
        return _in_node_order(moves, invented.graph), invented.graph

    def _as_exported(
        self, invented: Invented, origins: dict[str, str], target: Location
    ) -> tuple[list[Move], ObjectGraph]:
        """Return the moves of an export back to objects, whose optimizers are what they were."""
        given = self.settings.given
        if given.learning_rate is not None:
            raise changes_nothing(self.source, "--learning-rate", AS_THEY_ARE)
        if given.iterations is not None and not given.allows_missing:
            raise changes_nothing(self.source, "--iterations", AS_THEY_ARE)
        moves = [self.move(key, invented.keys[name]) for name, key in origins.items()]
        moves += _save_counter(invented.save_counter, target)
        return _in_node_order(moves, invented.graph), invented.graph

    def _invent(self, named: dict[str, TensorSpec]) -> Invented:
        try:
            foreign = next((name for name in named if not is_utf8(name)), None)
            if foreign is not None:
                hints = ("to rename this tensor, pass --sub or --map", leave_out(foreign))
                message = "the name is not UTF-8, but names in an object graph must be"
                raise ConversionError(message, key=foreign, hints=hints)
            return invent_graph(named)
        except ConversionError as error:
            error.path = error.path or self.source.location.path
            raise


def _save_counter(key: str | None, target: Location) -> list[Move]:
    """Return a save counter, which follows the target's name, where SRC has none."""
    import numpy as np

    if key is None:
        return []
    spec = TensorSpec(key, BY_NAME["int64"], ())
    return [Move(spec, None, None, np.array(step_of(bundle_prefix(target)) or 1, np.int64))]


def _in_node_order(moves: Sequence[Move], graph: ObjectGraph) -> list[Move]:
    """Return moves in the order in which TensorFlow saves: by node; what no node has goes last."""
    owners = graph.tensors({move.spec.key: None for move in moves})
    places = {key: (number, at) for at, (key, (number, _, _)) in enumerate(owners.items())}
    return sorted(moves, key=lambda move: places.get(move.spec.key, (math.inf, 0)))
