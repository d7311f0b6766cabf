"""Filling the structure of one checkpoint with the values of another: `convert --like`.

Tensors pair by full name where that is unique on both sides, then by key, then by
object path (where one side has no objects, its keys stand for them).  Optimizers' state
follows its variables, by what it means (`optimizers`).  Nothing is paired by resemblance:
what stays without a value is an error that says so.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import counted
from formats.errors import ConversionError
from formats.keras.match import pairs_within_layers
from formats.model.object_names import plain_key

from ..select.keys import path_of
from .accounting import (
    KEEP_OPTIMIZER,
    Account,
    has_any_rows,
    place,
    refuse_different,
    refuse_left,
)
from .keras.models import pairs_between_models
from .keras.sides import Differing, differing_optimizers, paired_by_model, sides
from .lazy import scaled
from .optimizers import Carried, OptimizerError, OptimizerOptions, carry, contradiction
from .placement import layout_of
from .plan import Dropped, Move, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from formats.core.dtypes import DType
    from formats.keras.training_state import TrainingState
    from formats.location import Location
    from formats.model.reader import FormatReader

    from ..select.keys import Renamed
    from .keras.sides import Side

    _Naming = Callable[[str], str | None]


class Strictness(NamedTuple):
    """The changes that pairing allows beyond equal names, and the options that no file contains."""

    by_shape: bool = False
    partial: bool = False
    keep_optimizer: bool = False
    """Whether TEMPLATE's slots and optimizer stay, even if SRC has some."""

    cast: DType | None = None
    given: OptimizerOptions = OptimizerOptions()


class Pairing(NamedTuple):
    """The key in SRC for each key of TEMPLATE that has one, and what becomes of optimizers' state.

    `left` are slots of variables that are paired, which have no place themselves, each with
    its optimizer as people call it.  `notes` say what was paired by more than names.
    """

    pairs: dict[str, str]
    optimizers: Carried
    notes: tuple[str, ...] = ()
    left: Mapping[str, str] = MappingProxyType({})
    differing: str = ""
    """Why the structure of both sides does not pair them, if it does not."""

    def rows(self) -> dict[str, str]:
        """Return the key in SRC by that in TEMPLATE, optimizers' state with it."""
        carried = {
            key: origin.key for key, origin in self.optimizers.origins.items() if origin.key is not None
        }
        return {**self.pairs, **carried}


class _PairingInput(NamedTuple):
    """The input of pairing: keys of SRC, by their new names if any, and TEMPLATE."""

    source: FormatReader
    keys: Sequence[str]
    template: FormatReader
    rules: Strictness
    names: Renamed | None
    model: tuple[Side, Side] | None


def pair(
    source: FormatReader,
    keys: Sequence[str],
    template: FormatReader,
    rules: Strictness,
    names: Renamed | None = None,
) -> Pairing:
    """Return which tensor of `source` goes where in `template`.

    `names` are the source's keys, full names and object paths after rules that change them.
    Raises ConversionError if an optimizer's state has no place in TEMPLATE's.
    """
    both_sides = sides(source, template, rules.given)
    differing = both_sides.reason if isinstance(both_sides, Differing) else ""
    model = None if isinstance(both_sides, Differing) else both_sides
    given = _PairingInput(source, keys, template, rules, names, model)
    if rules.keep_optimizer or model is None:
        return (_pair_weights if rules.keep_optimizer else _pair_files)(given)._replace(differing=differing)
    mine, theirs = (side.states for side in model)
    for state in mine:
        if (error := contradiction(source, rules.given.optimizer, state.title)) is not None:
            raise error
    here, there = _own_keys(source, mine), _own_keys(template, theirs)
    others = [key for key in keys if key not in here]
    notes: list[str] = []
    pairs = _pair_by_names(given, others, notes, without=there)
    pairs.update(_same_names(source, keys, others, template, theirs, names))
    carried = carry(
        source,
        [state for state in mine if not state.keys or state.keys & set(keys)],
        template,
        theirs,
        pairs,
        rules.given,
        partial=rules.partial,
    )
    settled = carried.origins.keys() | carried.kept
    pairing = Pairing({key: pairs[key] for key in pairs if key not in settled}, carried, tuple(notes))
    return pairing._replace(left=_left(mine, set(keys), pairing))


def _pair_weights(given: _PairingInput) -> Pairing:
    """Pair everything except optimizer state. TEMPLATE keeps its own."""
    source, keys, template = given.source, given.keys, given.template
    here, there = _state_in(source), _state_in(template)
    others, notes = [key for key in keys if key not in here], list[str]()
    pairs = _pair_by_names(given, others, notes, without=there)
    if there:
        slots = sum(template.kinds[key] == "slot" for key in there)
        rest = counted(len(there) - slots, "other tensor")
        notes.append(f"TEMPLATE keeps its own optimizer state: {counted(slots, 'slot')} and {rest}")
    dropped = {key: "TEMPLATE keeps its own optimizer state" for key in keys if key in here}
    return Pairing(pairs, Carried(dropped=dropped), tuple(notes))


def _pair_files(given: _PairingInput) -> Pairing:
    """Pair without a model: optimizer state by names, which have the same meaning within one class.

    Raises ConversionError if one side's optimizer is not the other's, unless `partial`:
    then TEMPLATE keeps its own.
    """
    source, keys, template, rules = given.source, given.keys, given.template, given.rules
    here, there = _state_in(source) & set(keys), _state_in(template)
    carried, without = Carried(), frozenset[str]()
    why = differing_optimizers(source, template, rules.given.optimizer) if here and there else None
    if why is not None and not rules.partial:
        hints = (
            "to identify the slots, pass a Keras file of the program with --config FILE instead of --like",
            KEEP_OPTIMIZER,
        )
        raise OptimizerError(why, path=source.location.path, hints=hints)
    if why is not None:
        carried, without = Carried(notes=(f"{why}; TEMPLATE's own state is kept",)), frozenset(there)
        keys = [key for key in keys if key not in here]
    notes: list[str] = []
    pairs = _pair_by_names(given, keys, notes, without=without)
    used, kinds = set(pairs.values()), source.kinds
    left = [key for key in keys if kinds.get(key) == "slot" and key not in used]
    return Pairing(pairs, carried, tuple(notes), dict.fromkeys(left, "the optimizer of SRC"))


def _state_in(reader: FormatReader) -> set[str]:
    return {key for key, kind in reader.kinds.items() if kind in ("slot", "optimizer")}


def _left(states: Sequence[TrainingState], keys: Container[str], pairing: Pairing) -> dict[str, str]:
    """Return the slots that have no place although their variables have, each with its optimizer."""
    settled = {*pairing.rows().values(), *pairing.optimizers.dropped}
    return {
        key: state.spelled()
        for state in states
        for (variable, _), key in state.slots.items()
        if variable in settled and key in keys and key not in settled
    }


def _same_names(  # noqa: PLR0917  as pair
    source: FormatReader,
    keys: Sequence[str],
    others: Sequence[str],
    template: FormatReader,
    states: Sequence[TrainingState],
    names: Renamed | None,
) -> dict[str, str]:
    """Pair what is called exactly as an optimizer of TEMPLATE calls it, as in names that were made of one.

    A number of an optimizer may be one of SRC's; its slots are not, since their meaning decides.
    """
    pairs: dict[str, str] = {}
    full_names = names.full_names if names else source.full_names
    numbers = {key for state in states for held in state.numbers.values() for key in held}
    every = {key for state in states for key in state.keys}
    new = names.keys if names else {key: key for key in keys}
    for mine, wanted in ((keys, numbers), (others, every)):
        _join(pairs, mine, wanted, lambda key: full_names.get(new[key]), template.full_names.get)
    return pairs


def _own_keys(reader: FormatReader, states: Sequence[TrainingState]) -> set[str]:
    """Return the keys of optimizers' state, less what is the program's, too, as a shared global step is."""
    kinds = reader.kinds
    return {key for state in states for key in state.keys if kinds.get(key) in ("slot", "optimizer")}


def _pair_by_names(
    given: _PairingInput, keys: Sequence[str], notes: list[str], *, without: Container[str]
) -> dict[str, str]:
    """Return the key of SRC by that of TEMPLATE: of `keys` on one side, of all but `without` on the other."""
    source, _, template, rules, names, model = given
    pairs: dict[str, str] = {}
    new = {key: source.own_keys.get(key, key) for key in keys}
    if names is not None:
        new |= {key: names.keys[key] for key in keys if names.keys[key] != key}
    called = [side.full_names for side in model] if model else [source.full_names, template.full_names]
    full_names = names.full_names if names else called[0]
    paths = names.object_paths if names else source.edge_paths
    if source.object_graph is None:
        # Without objects, names serve as paths; below, the reverse, too.
        paths = {key: key for key in new.values()}
    values = [key for key in _in_order(template) if template.kinds.get(key) != "graph"]
    wanted = [key for key in values if key not in without]
    places: list[tuple[_Naming, _Naming]] = [
        (new.get, lambda key: key),
        (
            lambda key: place(paths.get(new[key]), key),
            lambda key: place(template.edge_paths.get(key), key),
        ),
        (lambda key: place(path_of(new[key]), key), lambda key: None if template.object_graph else key),
        # An export has lost the suffix of variables, and stands for the objects that it was made of.
        (lambda key: plain_key(new[key]), lambda key: plain_key(template.own_keys.get(key, key))),
    ]
    if names is not None:
        # A new name is what the user wants: its full name may be that of another tensor.
        lookups: list[tuple[_Naming, _Naming]] = [*places, (new.get, called[1].get)]
        for mine, theirs in lookups:
            _join(pairs, [k for k in keys if k in names.mapped or new[k] != k], wanted, mine, theirs)
        # A mapped key goes to its target or nowhere.
        keys = [key for key in keys if key not in names.mapped]
    _join(pairs, keys, wanted, lambda key: full_names.get(new[key]), called[1].get)
    for mine, theirs in places:
        _join(pairs, keys, wanted, mine, theirs)
    _join_in_layers(pairs, source, keys, template, wanted)
    if names is None and any(template.kinds.get(key) == "variable" for key in set(wanted) - pairs.keys()):
        if model is not None:
            _join_by_model(pairs, model, keys, wanted)
        here, there = set(keys) - set(pairs.values()), set(wanted) - pairs.keys()
        pairs.update(pairs_between_models(source, here, template, there, notes, called=called))
    if rules.by_shape:
        _join(pairs, keys, wanted, lambda key: _shape(source, key), lambda key: _shape(template, key))
    return pairs


def _shape(reader: FormatReader, key: str) -> str | None:
    if reader.kinds.get(key) not in ("variable", "slot"):
        return None
    return f"{reader.kinds[key]} {list(reader.specs[key].shape)}"


def _join(
    pairs: dict[str, str],
    keys: Iterable[str],
    wanted: Iterable[str],
    of_source: _Naming,
    of_template: _Naming,
) -> None:
    """Pair what is left on both sides by a name that is unique on both."""
    used = set(pairs.values())
    mine = {key: of_source(key) for key in keys if key not in used}
    theirs = {key: of_template(key) for key in wanted if key not in pairs}
    counts = Counter(mine.values()), Counter(theirs.values())
    by_name = {name: key for key, name in mine.items() if name and counts[0][name] == 1}
    for key, name in theirs.items():
        if name in by_name and counts[1][name] == 1:
            pairs[key] = by_name[name]


def _join_by_model(
    pairs: dict[str, str], model: tuple[Side, Side], keys: Iterable[str], wanted: Iterable[str]
) -> None:
    """Pair what is left by its place in the model, where what is paired by names already is so, too."""
    found = paired_by_model(*model)
    if all(pairs[key] == found[key] for key in pairs.keys() & found.keys()):
        here, there = set(keys), set(wanted)
        pairs.update((key, other) for key, other in found.items() if key in there and other in here)


def _join_in_layers(
    pairs: dict[str, str],
    source: FormatReader,
    keys: Sequence[str],
    template: FormatReader,
    wanted: Sequence[str],
) -> None:
    """Pair weights of a Keras file with objects by full names that are unique within their layer."""
    if source.format.names_layers and template.format.has_object_graph:
        flipped = {mine: theirs for theirs, mine in pairs.items()}
        found = [(theirs, mine) for mine, theirs in pairs_within_layers(source, template, flipped)]
    elif source.format.has_object_graph and template.format.names_layers:
        found = list(pairs_within_layers(template, source, pairs))
    else:
        return
    there, here = set(wanted), set(keys)
    pairs.update((theirs, mine) for theirs, mine in found if theirs in there and mine in here)


# The plan ---------------------------------------------------------------------------


def plan_like(  # noqa: PLR0917  what goes where, in that order
    source: FormatReader,
    keys: Sequence[str],
    template: FormatReader,
    target: Location,
    rules: Strictness,
    names: Renamed | None = None,
) -> tuple[Plan, Pairing]:
    """Return the plan of writing `template` with the values of `source`, and the pairing.

    Raises ConversionError, which lists them, for weights and slots without a value
    (unless `partial`), and for pairs that differ in shape, or in dtype without a cast.
    """
    try:
        pairing = pair(source, keys, template, rules, names)
    except OptimizerError as error:
        _check_weights(source, keys, template, target, rules, names, error)
        raise
    return plan_pairs(source, keys, template, target, rules, pairing), pairing


def _check_weights(  # noqa: PLR0917  as plan_like
    source: FormatReader,
    keys: Sequence[str],
    template: FormatReader,
    target: Location,
    rules: Strictness,
    names: Renamed | None,
    error: OptimizerError,
) -> None:
    """Raise what is wrong with the weights, where `error`, whose hint keeps the optimizer, is not all."""
    try:
        plan_like(source, keys, template, target, rules._replace(keep_optimizer=True), names)
    except ConversionError as first:
        first.hints = (*first.hints, *(hint for hint in error.hints if hint != KEEP_OPTIMIZER))
        raise first from error


def plan_pairs(  # noqa: PLR0917  as plan_like
    source: FormatReader,
    keys: Sequence[str],
    template: FormatReader,
    target: Location,
    rules: Strictness,
    pairing: Pairing,
) -> Plan:
    """Return the plan of a pairing, as `plan_like` does."""
    wanted = [key for key in _in_order(template) if template.kinds.get(key) != "graph"]
    pairs, carried = pairing.rows(), pairing.optimizers
    missing = [key for key in wanted if key not in pairs and key not in carried.origins]
    account = Account(source, keys, template, pairs, missing)
    refuse_different(source, template, pairs, rules.cast)  # another shape can be why a slot has no value
    try:
        warnings = account.check(partial=rules.partial, keep_optimizer=rules.keep_optimizer)
    except ConversionError as error:
        if pairing.differing:
            error.facts = (*error.facts, f"pairing by structure failed: {pairing.differing}")
        raise
    refuse_left(source, {} if rules.partial else pairing.left)
    moves = [_move(source, template, key, pairing, rules) for key in wanted]
    used = set(pairs.values())
    reasons = {**dict.fromkeys(keys, "TEMPLATE does not have this tensor"), **carried.dropped}
    dropped = [
        Dropped(key, reasons[key]) for key in keys if key not in used and source.kinds.get(key) != "graph"
    ]
    slices = {move.spec.key: _extents(template, move.spec.key) for move in moves}
    return Plan(
        source.location.path,
        target,
        template.format.name,
        tuple(moves),
        tuple(dropped),
        template.object_graph,
        {key: extents for key, extents in slices.items() if extents},
        template.proved_facts(),
        (*pairing.notes, *carried.notes),
        (source, template),
        lambda: layout_of(template, ((key, key) for key in wanted)),
        warnings,
    )


def _move(
    source: FormatReader, template: FormatReader, key: str, pairing: Pairing, rules: Strictness
) -> Move:
    """Return where a tensor of TEMPLATE gets its values: from SRC, from what SRC says, or its own."""
    spec = template.specs[key]
    origin = pairing.optimizers.origins.get(key)
    from_key = origin.key if origin is not None else pairing.pairs.get(key)
    if from_key is None:
        if origin is not None:
            return Move(spec._replace(stored=None), None, None, origin.value)
        return Move(spec, None, template[key])
    theirs = source[from_key]
    if has_any_rows(spec):
        spec = spec._replace(shape=theirs.spec.shape)
    if rules.cast is not None and theirs.spec.dtype.is_floating:
        spec = spec._replace(dtype=rules.cast)
    if origin is not None and origin.factor is not None:
        return Move(spec._replace(stored=None), from_key, scaled(theirs, origin.factor))
    return Move(spec._replace(stored=theirs.spec.plain.stored), from_key, theirs)


def _extents(template: FormatReader, key: str) -> list[tuple[tuple[int, int], ...]]:
    return [extents for extents, _ in template[key].pieces()]


def _in_order(template: FormatReader) -> list[str]:
    """Return TEMPLATE's keys in the order of their data, if known."""
    places = {key: template[key].stored for key in template.specs}
    return sorted(places, key=lambda key: (places[key].shard or 0, places[key].offset or 0))
