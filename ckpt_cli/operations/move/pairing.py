"""Filling the structure of one checkpoint with the values of another: `convert --like`.

Tensors pair by full name where that is unique on both sides, then by key, then by
object path (where one side has no objects, its keys stand for them); a slot also pairs
where its variable has, by the name that its optimizer gives it, in the object graph or in
its full name.  Nothing is paired by resemblance: what stays without a value is an error
that says so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import ConversionError
from formats.keras.match import pairs_within_layers
from formats.model.object_keys import table_part
from formats.tf.graph.invent import invent_graph

from ..choose.keys import path_of
from .layout import layout_of
from .transfer import Dropped, Move, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from formats.core.dtypes import DType
    from formats.core.spec import TensorSpec
    from formats.model.reader import CheckpointReader

    from ..choose.keys import Renamed


_MOST_LISTED = 10


class Strictness(NamedTuple):
    """What pairing allows beyond equal names."""

    by_shape: bool = False
    partial: bool = False
    cast: DType | None = None


def pair(
    source: CheckpointReader,
    keys: Sequence[str],
    template: CheckpointReader,
    *,
    names: Renamed | None = None,
    by_shape: bool = False,
) -> dict[str, str]:
    """Return the key in `source` for each key of `template` that has one.

    `names` are the source's keys, full names and object paths after rules that change them.
    """
    pairs: dict[str, str] = {}
    new = names.keys if names else {key: key for key in keys}
    full_names = names.full_names if names else source.full_names
    paths = names.object_paths if names else source.object_paths
    if source.object_graph is None:
        # Where there are no objects, names stand for their paths; below, the other way round, too.
        paths = {key: key for key in new.values()}
    wanted = [key for key in _in_order(template) if template.kinds.get(key) != "graph"]
    for of_source, of_template in (
        (lambda key: full_names.get(new[key]), template.full_names.get),
        (new.get, lambda key: key),
        (
            lambda key: _place(paths.get(new[key]), key),
            lambda key: _place(template.object_paths.get(key), key),
        ),
        (lambda key: _place(path_of(new[key]), key), lambda key: None if template.object_graph else key),
    ):
        _join(pairs, keys, wanted, of_source, of_template)
    _join_in_layers(pairs, source, keys, template, wanted)
    _join_slots(pairs, source, keys, template, wanted)
    if by_shape:
        _join(pairs, keys, wanted, lambda key: _shape(source, key), lambda key: _shape(template, key))
    return pairs


def _place(path: str | None, key: str) -> str | None:
    """Return what a saver would call the tensor at an object path: of a hash table, each of the two."""
    return path and path + table_part(key)


def _shape(reader: CheckpointReader, key: str) -> str | None:
    if reader.kinds.get(key) not in ("variable", "slot"):
        return None
    return f"{reader.kinds[key]} {list(reader.specs[key].shape)}"


def _join(
    pairs: dict[str, str],
    keys: Iterable[str],
    wanted: Iterable[str],
    of_source: Callable[[str], str | None],
    of_template: Callable[[str], str | None],
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


def _join_in_layers(
    pairs: dict[str, str],
    source: CheckpointReader,
    keys: Sequence[str],
    template: CheckpointReader,
    wanted: Sequence[str],
) -> None:
    """Pair weights of a Keras file with objects by full names that are unique within their layer."""
    kinds = source.format.name, template.format.name
    if kinds == ("keras-h5", "tf-object"):
        flipped = {mine: theirs for theirs, mine in pairs.items()}
        found = [(theirs, mine) for mine, theirs in pairs_within_layers(source, template, flipped)]
    elif kinds == ("tf-object", "keras-h5"):
        found = list(pairs_within_layers(template, source, pairs))
    else:
        return
    there, here = set(wanted), set(keys)
    pairs.update((theirs, mine) for theirs, mine in found if theirs in there and mine in here)


class _SlotName(NamedTuple):
    variable: str
    name: str


def _join_slots(
    pairs: dict[str, str],
    source: CheckpointReader,
    keys: Sequence[str],
    template: CheckpointReader,
    wanted: Sequence[str],
) -> None:
    """Pair slots of paired variables by slot name, where one optimizer on each side has it."""
    mine, theirs = _slots(source, keys), _slots(template, wanted)
    counts = Counter(mine.values()), Counter(theirs.values())
    by_slot = {slot: key for key, slot in mine.items() if counts[0][slot] == 1}
    used = set(pairs.values())
    for key, slot in theirs.items():
        if key in pairs or slot.variable not in pairs or counts[1][slot] != 1:
            continue
        found = by_slot.get(_SlotName(pairs[slot.variable], slot.name))
        if found is not None and found not in used:
            pairs[key] = found


def _slots(reader: CheckpointReader, keys: Sequence[str]) -> dict[str, _SlotName]:
    """Return the variable and the slot name of each slot variable."""
    if reader.object_graph is None:
        names = {key: reader.specs[key] for key in keys if reader.kinds.get(key) != "graph"}
        invented = invent_graph(names)
        graph, key_of = invented.graph, {key: name for name, key in invented.keys.items()}
    else:
        graph, key_of = reader.object_graph, {key: key for key in keys}
    owners = graph.tensors(dict.fromkeys(key_of))
    by_node = {number: key_of[key] for key, (number, _, _) in owners.items()}
    found = {
        by_node[slot.node]: _SlotName(by_node[slot.variable], slot.name)
        for slot in graph.slots
        if slot.node in by_node and slot.variable in by_node
    }
    return found | _listed_slots(reader, [key for key in keys if key not in found])


def _listed_slots(reader: CheckpointReader, keys: Sequence[str]) -> dict[str, _SlotName]:
    """Return the slots of Keras 2.11 to 2.15, of which only full names tell: `Adam/m/dense/kernel`."""
    if reader.object_graph is None:
        return {}
    kinds, names = reader.kinds, reader.full_names
    counts = Counter(names.values())
    variables = {names[key]: key for key in names if kinds.get(key) == "variable" and counts[names[key]] == 1}
    slots = {}
    for key in keys:
        parts = names.get(key, "").split("/", 2)
        if kinds.get(key) == "slot" and len(parts) == 3 and parts[2] in variables:
            slots[key] = _SlotName(variables[parts[2]], parts[1])
    return slots


# The plan ---------------------------------------------------------------------------


def plan_like(  # noqa: PLR0917  what goes where, in that order
    source: CheckpointReader,
    keys: Sequence[str],
    template: CheckpointReader,
    target: str,
    rules: Strictness,
    names: Renamed | None = None,
) -> tuple[Plan, dict[str, str]]:
    """Return the plan of writing `template` with the values of `source`, and the pairing.

    Raises ConversionError, which lists them, for weights and slots without a value
    (unless `partial`), and for pairs that differ in shape, or in dtype without a cast.
    """
    pairs = pair(source, keys, template, names=names, by_shape=rules.by_shape)
    return plan_pairs(source, keys, template, target, rules, pairs), pairs


def plan_pairs(  # noqa: PLR0917  as plan_like
    source: CheckpointReader,
    keys: Sequence[str],
    template: CheckpointReader,
    target: str,
    rules: Strictness,
    pairs: dict[str, str],
) -> Plan:
    """Return the plan of a pairing, as `plan_like` does."""
    wanted = [key for key in _in_order(template) if template.kinds.get(key) != "graph"]
    _refuse_missing(
        source, keys, template, [key for key in wanted if key not in pairs], rules=rules, pairs=pairs
    )
    _refuse_different(source, template, pairs, rules)
    moves = []
    for key in wanted:
        spec = template.specs[key]
        if key in pairs:
            theirs = source[pairs[key]]
            stored = theirs.spec.stored
            if table_part(key):
                spec = spec._replace(shape=theirs.spec.shape)
            if rules.cast is not None and theirs.spec.dtype.is_floating:
                spec = spec._replace(dtype=rules.cast)
            moves.append(Move(spec._replace(stored=stored), pairs[key], theirs))
        else:
            moves.append(Move(spec, None, template[key]))
    used = set(pairs.values())
    reason = "has no place in TEMPLATE"
    dropped = [Dropped(key, reason) for key in keys if key not in used and source.kinds.get(key) != "graph"]
    slices = {move.spec.key: _extents(template, move.spec.key) for move in moves}
    return Plan(
        source.location.path,
        target,
        template.format.name,
        tuple(moves),
        tuple(dropped),
        template.object_graph,
        {key: extents for key, extents in slices.items() if extents},
        template.facts,
        sources=(source, template),
        layout=layout_of(template, ((key, key) for key in wanted)),
    )


def _extents(template: CheckpointReader, key: str) -> list[tuple[tuple[int, int], ...]]:
    return [extents for extents, _ in template[key].pieces()]


def _in_order(template: CheckpointReader) -> list[str]:
    """Return TEMPLATE's keys in the order in which its data lie, where it tells."""
    places = {key: template[key].stored for key in template.specs}
    return sorted(places, key=lambda key: (places[key].shard or 0, places[key].offset or 0))


def _refuse_missing(
    source: CheckpointReader,
    keys: Sequence[str],
    template: CheckpointReader,
    missing: Sequence[str],
    *,
    rules: Strictness,
    pairs: Mapping[str, str],
) -> None:
    lacking = [key for key in missing if template.kinds.get(key) in ("variable", "slot") or table_part(key)]
    if rules.partial or not lacking:
        return
    used = set(pairs.values())
    free = [key for key in keys if key not in used and source.kinds.get(key) != "graph"]
    listed = ", ".join(repr(_shown(template, key)) for key in lacking[:_MOST_LISTED])
    more = f" and {len(lacking) - _MOST_LISTED} more" if len(lacking) > _MOST_LISTED else ""
    message = f"{len(lacking)} tensors of TEMPLATE get no value: {listed}{more}"
    unused = ", ".join(map(repr, free[:3]))
    hints = (
        f"{len(free)} tensors of SRC are left over, {unused} among them; pair them with --map or --sub;"
        " ckpt match SRC TEMPLATE --save-map FILE proposes pairs from structure"
        if free
        else "SRC has no tensors left to pair",
        "--partial keeps TEMPLATE's values for them; --weights-only leaves the slots of SRC out",
    )
    raise ConversionError(message, path=source.location.path, hints=hints)


def _shown(reader: CheckpointReader, key: str) -> str:
    return _place(reader.object_paths.get(key), key) or key


def _refuse_different(
    source: CheckpointReader, template: CheckpointReader, pairs: Mapping[str, str], rules: Strictness
) -> None:
    shapes, kinds = [], []
    for key, from_key in pairs.items():
        mine, theirs = source.specs[from_key], template.specs[key]
        # A restored hash table has as many rows as were saved, whatever it had.
        rows = 1 if table_part(key) else 0
        if len(mine.shape) != len(theirs.shape) or mine.shape[rows:] != theirs.shape[rows:]:
            shapes.append(_difference(template, key, from_key, list(mine.shape), list(theirs.shape)))
        elif mine.dtype is not theirs.dtype and not _castable(mine, theirs, rules):
            kinds.append(_difference(template, key, from_key, mine.dtype, theirs.dtype))
    for what, found, hint in (
        ("shape", shapes, "a tensor of another shape cannot be restored; --exclude it, with --partial"),
        ("dtype", kinds, "TensorFlow never casts on restore: --cast float32 does, for floating tensors"),
    ):
        if found:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            message = f"{len(found)} pairs differ in {what}: {'; '.join(found[:3])}{more}"
            raise ConversionError(message, path=source.location.path, hints=(hint,))


def _castable(mine: TensorSpec, theirs: TensorSpec, rules: Strictness) -> bool:
    return rules.cast is not None and mine.dtype.is_floating and theirs.dtype.is_floating


def _difference(template: CheckpointReader, key: str, from_key: str, mine: object, theirs: object) -> str:
    return f"{from_key!r} is {mine}, {_shown(template, key)!r} {theirs}"
