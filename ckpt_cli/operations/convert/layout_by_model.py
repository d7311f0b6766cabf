"""A checkpoint in the layout that a model defines: its configuration, or the names of its object graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import FirstNames, counted
from formats.errors import ConversionError, leave_out
from formats.keras.classes import model_in
from formats.keras.facts import KerasFacts, keras_facts
from formats.keras.in_pytorch import Filler, LayoutRow, remarks_on, rows_of
from formats.keras.layers import is_seed
from formats.keras.match import fill
from formats.keras.model import Unit, from_config
from formats.keras.optimizer_state import stored_state
from formats.keras.torch_shapes import check_tensors, check_variables
from formats.model.facts import Facts, Nothing, Rich
from formats.torch.keys import escaped, in_dictionary, unescaped

from ..select.name_map import MapRow, Name, NameMap, packs_hints
from ..select.relations import Relation, inverted, relate
from ..select.view import Constant, DerivedReader
from .framework_optimizer import (
    WEIGHTS_ONLY,
    ModelWeights,
    chosen_optimizer,
    follow,
    optimizer_for_keras,
    under_keys_of,
)
from .framework_optimizer import ReturnedWeights as Trained
from .layout_by_map import filled_model, left_over, with_keys
from .plan import Dropped
from .requested_layout import (
    LIKE_HINT,
    MAP_HINT,
    MOST_SHOWN,
    FrameworkLayout,
    LayoutResult,
    has_optimizer,
    model_hints,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from formats.keras.training_state import TrainingState
    from formats.model.reader import FormatReader


class _Model(NamedTuple):
    """A model filled with the keys of a checkpoint; `facts` have its configuration, if there is one."""

    unit: Unit
    facts: KerasFacts
    layer_notes: str = ""
    """Without one, what its layers are taken for."""

    @property
    def is_configured(self) -> bool:
        return self.facts.config is not None

    @property
    def lack(self) -> str:
        """Why a tensor is none of it."""
        if self.is_configured:
            return "the model's configuration has no variable for this tensor"
        return "no layer of the object graph has this tensor"

    def notes(self, *, back: bool = False) -> list[str]:
        remarks = remarks_on(self.unit, back=back, configured=self.is_configured)
        if self.is_configured:
            return remarks
        classes = (
            "without a configuration, ckpt identified the layers by the names of their weights: "
            f"{self.layer_notes}"
        )
        return [
            classes,
            "without --config, ckpt does not know epsilons, padding, activations and Flatten",
            *remarks,
        ]


def _model_of(reader: FormatReader, keys: Iterable[str], facts: KerasFacts) -> _Model:
    """Return the model of a checkpoint, from a configuration or else from the names of its object graph."""
    if facts.config is not None:
        return _Model(filled_model(facts.config, reader), facts)
    variables = _variables(reader, keys)
    if reader.object_graph is None:
        message = "without the model's configuration, the name and axes of this tensor are unknown"
        raise ConversionError(
            message, path=reader.location.path, key=next(iter(variables), None), hints=model_hints()
        )
    try:
        unit, layer_notes = model_in(reader, variables)
    except ConversionError as error:
        error.hints = (*model_hints(), leave_out(error.key or ""))
        raise
    return _Model(unit, facts, layer_notes)


def _variables(reader: FormatReader, keys: Iterable[str]) -> dict[str, None]:
    kinds = reader.kinds
    weights = (key for key in keys if kinds.get(key) == "variable")
    names = reader.full_names
    return dict.fromkeys(key for key in weights if not is_seed(reader.specs[key], names.get(key, "")))


def _map_of(rows: Iterable[LayoutRow]) -> NameMap:
    return NameMap([MapRow(Name((row.old,)), Name((row.new,)), row.steps, repr(row.old)) for row in rows])


def to_pytorch(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult:
    model = _model_of(reader, keys, layout.config or keras_facts(reader.facts))
    rows, fillers = rows_of(model.unit, reader.specs)
    wanted = set(keys)
    rows = [row for row in rows if row.variable.key in wanted]
    called = {row.old: row.variable.key for row in rows if row.variable.key is not None}
    names = _map_of(rows)
    shapes = {name: reader.specs[key].shape for name, key in called.items()}
    check_variables(rows, shapes)
    relations = with_keys(relate(names, shapes).relations, called)
    constants = _constants(fillers, relations, reader)
    optimizer = _optimizer(reader, wanted, layout)
    held = {*called.values(), *(optimizer.stored_keys if optimizer is not None else ())}
    left = [key for key in keys if key not in held]
    dropped = left_over(reader, left, model.lack)
    notes = model.notes()
    facts: Facts = Nothing()
    if optimizer is not None:
        order = list(dict.fromkeys(row.new for row in rows))
        weights = ModelWeights(relations, constants, order)
        optimizer = optimizer.with_numbers(layout.given.iterations, layout.given.learning_rate)
        relations, constants, facts, idle, more = follow(reader, model.unit, optimizer, weights)
        dropped, notes = [*dropped, *idle], [*notes, *more]
    elif layout.like is not None:
        relations, constants = _under_known_keys(layout.like, relations, constants)
    return LayoutResult(
        DerivedReader(reader, relations, constants), names, tuple(dropped), tuple(notes), facts
    )


def _under_known_keys(
    right: FormatReader, relations: Sequence[Relation], constants: Sequence[Constant]
) -> tuple[list[Relation], list[Constant]]:
    """Return tensors under the keys of the one dictionary in another checkpoint that has them."""
    names = [*(name for relation in relations for name in relation.targets), *(one.key for one in constants)]
    lacking = _dictionaries(right.specs, names)
    prefix = min(lacking, key=lambda prefix: len(lacking[prefix]))
    renamed = [
        relation._replace(targets=tuple(in_dictionary(prefix, name) for name in relation.targets))
        for relation in relations
    ]
    return renamed, [one._replace(key=in_dictionary(prefix, one.key)) for one in constants]


def _optimizer(
    reader: FormatReader, wanted: Collection[str], layout: FrameworkLayout
) -> TrainingState | None:
    """Return the optimizer whose state is chosen, and has a place; ConversionError for a part of it."""
    if not layout.nests or not has_optimizer(reader, wanted):
        return None
    optimizer = stored_state(reader, layout.config)
    if optimizer is None:
        return None
    parts = optimizer.stored_keys
    missing = next((key for key in parts if key not in wanted), None)
    if missing is not None:
        message = "this tensor is left out, but optimizer state can only be converted as a whole"
        raise ConversionError(message, path=reader.location.path, key=missing, hints=(WEIGHTS_ONLY,))
    return optimizer


def _constants(
    fillers: Iterable[Filler], relations: Iterable[Relation], reader: FormatReader
) -> list[Constant]:
    """Return the additional tensors of PyTorch's layers, for layers that exist."""
    made = {
        target: reader.specs[relation.sources[0]] for relation in relations for target in relation.targets
    }
    layers = {target.rpartition(".")[0] for target in made}
    out = []
    for filler in fillers:
        if filler.name.rpartition(".")[0] not in layers:
            continue
        like = made.get(filler.like) if filler.like is not None else None
        shape, dtype = ((), "int64") if like is None else (like.shape, like.dtype.name)
        out.append(Constant(filler.name, filler.value, shape, dtype))
    return out


def to_tensorflow(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult:
    model = _model_back(layout)
    facts = model.facts
    rows, fillers = rows_of(model.unit, layout.like.specs if layout.like is not None else {})
    called = _weights_in(reader, keys, [row.new for row in rows])
    names = _map_of(rows)
    shapes = {name: reader.specs[key].shape for name, key in called.items()}
    check_tensors(rows, shapes)
    related = relate(inverted(names), shapes)
    ones = {filler.name: filler for filler in fillers}
    spare = {called[name] for name in related.left if name in ones and _is_filled(reader, ones[name], called)}
    torch = chosen_optimizer(reader, keys, layout.given) if layout.nests else None
    taken = torch.keys() if torch is not None else set()
    used = {called[source] for relation in related.relations for source in relation.sources}
    left = [key for key in keys if key not in used | taken | spare]
    dropped = [Dropped(key, "TensorFlow does not use these values") for key in keys if key in spare]
    dropped += left_over(reader, left, model.lack)
    relations = with_keys(related.relations, called)
    notes = model.notes(back=True)
    if facts.config is not None:  # The configuration checks the shapes.
        fill(from_config(facts.config), DerivedReader(reader, relations, of_keras=True))
    every = reader.facts.beside() if isinstance(reader.facts, Rich) else ()
    beside = FirstNames(name for name in every if torch is None or not name.startswith(torch.path))
    if beside.count and layout.like is None:
        notes.append(f"left out {beside}: they are not tensors")
    optimizer = None
    constants: list[Constant] = []
    if torch is not None:
        returned = optimizer_for_keras(
            reader, torch, Trained(model.unit, related.relations), layout.given, facts
        )
        relations, optimizer = [*relations, *returned.relations], returned.optimizer
        notes += returned.notes
    if layout.like is not None:
        relations, constants = under_keys_of(layout.like, facts, model.unit, relations, optimizer)
    laid = DerivedReader(reader, relations, constants, of_keras=True)
    return LayoutResult(laid, names, tuple(dropped), tuple(notes), optimizer=optimizer)


def _model_back(layout: FrameworkLayout) -> _Model:
    """Return the model whose names and axes are wanted again; with the keys of `like`, where there is one.

    Unknown parts stay out: loading its keys shows which have no value.
    """
    facts, like = layout.config or KerasFacts(), layout.like
    if facts.config is not None:
        return _Model(from_config(facts.config) if like is None else filled_model(facts.config, like), facts)
    if like is None or like.object_graph is None:
        message = (
            "converting to the TensorFlow layout needs the model's configuration, a checkpoint of the "
            "model, or a map"
        )
        raise ConversionError(message, hints=(*model_hints(), LIKE_HINT))
    unit, layer_notes = model_in(like, _variables(like, like.specs), whole=False)
    return _Model(unit, facts, layer_notes)


def _weights_in(reader: FormatReader, keys: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the keys of a model's tensors by their names in PyTorch, at any depth of dictionaries.

    Raises ConversionError if no dictionary has all of them, or several have.
    """
    prefixes = _dictionaries(keys, names)
    found = [prefix for prefix, missing in prefixes.items() if not missing]
    if len(found) > 1:
        some = ", ".join(map(repr, found[:MOST_SHOWN]))
        message = f"{len(found)} dictionaries contain all tensors of the model; expected one: {some}"
        raise ConversionError(
            message, path=reader.location.path, hints=("to leave out all but one, pass --exclude",)
        )
    if not found:
        missing = min(prefixes.values(), key=len)
        shown = ", ".join(map(repr, missing[:MOST_SHOWN]))
        message = (
            f"{counted(len(missing), 'tensor of the model is', 'tensors of the model are')} missing: {shown}"
        )
        raise ConversionError(message, path=reader.location.path, hints=(MAP_HINT, *packs_hints()))
    (prefix,) = found
    if not prefix:
        return {key: key for key in keys}
    below = [key for key in keys if key.startswith(prefix) and "/" not in key[len(prefix) :]]
    return {unescaped(key[len(prefix) :]): key for key in below}


def _dictionaries(keys: Iterable[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the ways to dictionaries that have one of these names, with the names that each has not.

    The empty one leads to a state dict, whose keys are names.
    """
    there = frozenset(keys)
    ends = tuple(f"/{escaped(name)}" for name in names)
    prefixes = {"", *(key[: key.rindex("/") + 1] for key in there if key.endswith(ends))}
    return {
        prefix: [name for name in dict.fromkeys(names) if in_dictionary(prefix, name) not in there]
        for prefix in sorted(prefixes)
    }


def _is_filled(reader: FormatReader, filler: Filler, called: Mapping[str, str]) -> bool:
    """Whether a tensor that TensorFlow has no place for says nothing: it is what is made up for it."""
    if filler.like is None:
        return True
    return bool((reader[called[filler.name]].read() == filler.value).all())
