"""Planning a conversion: what each tensor becomes in another format.

Name-based and object-based checkpoints turn into each other through full names.
Everything else keeps its keys.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from formats.core.words import FirstNames
from formats.errors import ConversionError
from formats.find.registry import format_named
from formats.find.suffixes import format_of_suffix, refuse_false_suffix
from formats.model.facts import Facts, Nothing, Rich, rekeyed, respelled
from formats.model.reader import Family, Format

from ..select.safe_paths import dataset_names
from ..select.selection import NothingSelectedError
from .keras import plan as keras_plan
from .optimizers import AS_THEY_ARE, changes_nothing
from .placement import layout_of
from .plan import Move, Plan
from .source import Chosen, Settings, check_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.core.region import Extents
    from formats.location import Location
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader

    from .placement import Layout


ALIASES = {
    "object": "tf-object",
    "name": "tf-name",
    "v1": "tf-v1",
    "h5": "keras-h5",
    "weights-h5": "keras-weights",
}


def target_format(source: FormatReader, path: Location, to: str | None) -> Format:
    """Return the format to write: the requested one, that of the path's suffix, or the source's own.

    Raises ConversionError if the suffix contradicts the request, if the format is read-only, and for a
    listing that was not requested by name.
    """
    if to is not None:
        into = format_named(ALIASES.get(to, to))
        into.require_writer(path)
        refuse_false_suffix(into, path, f"--to says {into.name}", "remove --to, or change the suffix")
        return into
    by_suffix = format_of_suffix(path)
    if by_suffix is not None and not by_suffix.has_values:
        hints = (f"to write a listing anyway, pass --to {by_suffix.name}",)
        raise ConversionError(
            "the suffix means a listing, and a listing stores no values", path=path, hints=hints
        )
    own = source.format if source.format.family is Family.TENSORFLOW else format_named("tf-object")
    into = own if by_suffix is None or by_suffix.writer is None else by_suffix
    refuse_false_suffix(into, path)
    return into


_SUFFIX = re.compile(r"\.[a-z][a-z0-9_]{0,9}")
_IN_PREFIXES = frozenset((".ckpt", ".model", ".tf", ".checkpoint"))
"""Suffixes that are common in the names of TensorFlow's checkpoints."""


def unknown_suffix(path: Location) -> str | None:
    """Return the suffix of a target whose format it does not tell; None for a name without one."""
    stem, suffix = os.path.splitext(path.name)
    is_suffix = stem and _SUFFIX.fullmatch(suffix.lower()) and suffix.lower() not in _IN_PREFIXES
    return suffix if is_suffix and format_of_suffix(path) is None else None


def plan_conversion(
    source: FormatReader, keys: Sequence[str], target: Location, into: Format, settings: Settings
) -> Plan:
    """Return the plan of converting the chosen tensors of `source`.

    Raises ConversionError, with the remedy, for variables and slots that the target
    cannot hold; of state and graph, what it cannot hold is dropped and listed.
    """
    chosen = Chosen(source, keys, into, settings)
    if not chosen.keys:
        why = "the object graph would be rebuilt" if keys else "SRC has no tensors"
        reasons = "; ".join(sorted({dropped.reason for dropped in chosen.dropped})) or why
        raise NothingSelectedError(f"nothing is left to write: {reasons}", path=source.location.path)
    _refuse_idle(source, into, settings)
    graph: ObjectGraph | None = None
    facts: Facts = Nothing()
    if settings.own_facts is not None and into.names_layers:
        moves, graph, facts = keras_plan.as_named(chosen, settings.own_facts)
    elif keras_plan.concerns(source.format, into):
        moves, graph, facts = keras_plan.lay_out(chosen)
    elif into.has_object_graph:
        moves, graph = chosen.with_graph(target)
    else:
        moves = chosen.with_names() if into.is_by_name else chosen.with_keys()
    if into.family is Family.ARRAYS and (source.source_format is into or _are_trees(source.format, into)):
        facts = rekeyed(source.proved_facts(), _names(moves))
    check_keys(moves, target)
    if into.nests_keys:
        names, notes = dataset_names([move.spec.key for move in moves], target)
        moves = [move._replace(spec=move.spec._replace(key=names[move.spec.key])) for move in moves]
        chosen.notes += notes
        facts = respelled(facts, names)
    slices = {} if settings.merge_slices or into.family is not Family.TENSORFLOW else _slices(moves)
    return Plan(
        source.location.path,
        target,
        into.name,
        tuple(moves),
        tuple(chosen.dropped),
        graph,
        slices,
        facts,
        (*chosen.notes, *unstorable_notes(source, into)),
        (source,),
        (lambda: _layout(source, moves)) if source.format is into else dict,
    )


def _are_trees(one: Format, other: Format) -> bool:
    """Whether both hold trees, whose texts and empty containers go along."""
    return one.is_tree and other.is_tree


def _names(moves: Sequence[Move]) -> dict[str, str]:
    """Return what became of each key."""
    return {move.source: move.spec.key for move in moves if move.source is not None}


def unstorable_notes(source: FormatReader, into: Format) -> Iterator[str]:
    """Yield a note for each thing next to the tensors that another format cannot hold."""
    facts = source.facts
    if source.source_format is not into and isinstance(facts, Rich) and not _are_trees(source.format, into):
        names = FirstNames(facts.beside())
        if names.count:
            yield f"left out {names}: they are not tensors, and {into.name} stores only tensors"
    if into.is_tree and source.format.family is Family.KERAS:
        yield "Keras cannot load this tree; to write a step that Keras resumes from, pass --like KERAS_STEP"


def _refuse_idle(source: FormatReader, into: Format, settings: Settings) -> None:
    """Reject options about an optimizer if tensors are copied unchanged, so that they have no effect."""
    given, has_objects = settings.given, source.object_graph is not None
    if settings.generation is not None and not keras_plan.has_generation(source.format, into):
        why = "only --to object and --to weights-h5 from another format use it"
        hint = "to convert for another program, pass a checkpoint of it with --like TEMPLATE"
        raise changes_nothing(source, "--generation", why, hint)
    if keras_plan.concerns(source.format, into) or (into.is_by_name and has_objects):
        return
    if into.has_object_graph and not has_objects:
        return  # The names tell whether there is an optimizer to say it of.
    if given.learning_rate is not None:
        raise changes_nothing(source, "--learning-rate", AS_THEY_ARE)
    if given.iterations is not None:
        raise changes_nothing(source, "--iterations", AS_THEY_ARE)
    if given.optimizer is not None:
        raise changes_nothing(source, "--optimizer", AS_THEY_ARE)


def _layout(source: FormatReader, moves: Sequence[Move]) -> Layout:
    return layout_of(source, ((move.spec.key, move.source) for move in moves if move.source is not None))


def _slices(moves: Sequence[Move]) -> dict[str, list[Extents]]:
    pieces = ((move.spec.key, move.tensor.pieces()) for move in moves if move.tensor is not None)
    return {key: [extents for extents, _ in found] for key, found in pieces if found}
