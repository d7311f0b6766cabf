"""A checkpoint in the layout of PyTorch, or of TensorFlow again: names and axes of another library.

A map or a model defines the conversion. The model comes from a configuration, or from the names of an object
graph if they show the classes of its layers (`formats.keras.in_pytorch` lists the known ones). Either way it
is rows of names and operations, which are compared with the existing tensors (`select.relations`). The result
is a reader of the other layout (`select.view`). A map is written from TensorFlow to PyTorch; `tensorflow`
needs its inverse.
"""

from __future__ import annotations

import shlex
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from formats.core.chunks import same_bytes
from formats.core.words import FirstNames, counted
from formats.errors import ConversionError, leave_out
from formats.keras.classes import model_in
from formats.keras.facts import KerasFacts, keras_facts
from formats.keras.in_pytorch import COUNT, Filler, LayoutRow, model_names, remarks_on, rows_of
from formats.keras.layers import is_seed
from formats.keras.match import fill
from formats.keras.model import ModelError, Unit, from_config
from formats.keras.optimizer_state import stored_state
from formats.keras.torch_shapes import check_tensors, check_variables
from formats.model.facts import Facts, Nothing, Rich
from formats.model.reader import Family
from formats.safetensors.reader import SafetensorsFacts
from formats.torch.keys import escaped, in_dictionary, unescaped

from ..select.name_map import MapRow, Name, NameMap, packs_hints
from ..select.relations import Relation, inverted, relate
from ..select.view import Constant, DerivedReader
from .accounting import KEEP_OPTIMIZER
from .following_slots import follow_weights
from .framework_optimizer import (
    WEIGHTS_ONLY,
    ModelWeights,
    chosen_optimizer,
    follow,
    optimizer_for_keras,
    under_keys_of,
)
from .framework_optimizer import ReturnedWeights as Trained
from .hub.back import way_back
from .hub.google import google_model
from .hub.layout import CONFIG, TIED, config_of, hub_model, hub_model_back
from .hub.ties import Tie, warn_of_unequal_ties
from .keras.exports import without_copies
from .keras.sides import side_of
from .optimizers import OptimizerOptions
from .plan import Dropped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from formats.keras.training_state import TrainingState
    from formats.location import Location
    from formats.model.hub_config import HubConfig
    from formats.model.reader import Format, FormatReader

    from .hub.google import GoogleModel
    from .hub.layout import HubModel
    from .plan import Plan


PYTORCH, TENSORFLOW, FLAX = "pytorch", "tensorflow", "flax"
BACK = (TENSORFLOW, FLAX)
"""The ways for which a map is inverted: maps lead to PyTorch."""

OF_OPTIMIZER = ("slot", "optimizer")
"""Kinds of an optimizer's state."""

_MOST_SHOWN = 5
_CONFIG = (
    "pass --config FILE, where FILE is a saved model.to_json(), a config.json or a whole-model Keras file"
)
_MAP = "pass --map FILE; each line of FILE has the source key, the PyTorch key, and operations such as T"
_LIKE = "to use the names and axes of a checkpoint that the same program saved, pass --like TEMPLATE"


_HUB_CONFIG = "pass the config.json of the model with --config FILE"


def _model_hints() -> tuple[str, ...]:
    """Return the hints that name the sources of a model's names and axes."""
    return (_CONFIG, _MAP, *packs_hints())


class FrameworkLayout(NamedTuple):
    """The requested layout: `way` is one of the above, or None with a map alone; and the sources of names and
    axes.
    """

    way: str | None = None
    names: NameMap | None = None
    config: KerasFacts | None = None
    like: FormatReader | None = None
    """A checkpoint whose keys are wanted: of Keras, where the way is TENSORFLOW."""

    nests: bool = False
    """Whether the target has a place for optimizer state next to the weights."""

    given: OptimizerOptions = OptimizerOptions()
    """The options about the optimizer that no file contains."""

    hub: HubConfig | None = None
    """A configuration of transformers that is given."""

    carries: bool = False
    """Whether slots follow their weights through a map, to be placed by what they mean."""

    @property
    def is_back(self) -> bool:
        return self.way in BACK


class LayoutResult(NamedTuple):
    """A checkpoint in another layout, the map that was used, and notes about it."""

    reader: DerivedReader
    names: NameMap
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    facts: Facts = Nothing()
    """The facts to write with the tensors."""

    optimizer: TrainingState | None = None
    """The state of an optimizer as Keras' layouts list it, on the way back."""

    metadata: Facts = Nothing()
    """Metadata by which the other framework recognises its own files."""

    beside: Mapping[str, Location | bytes] = {}
    """Files that the other framework needs next to the weights, or their contents, by name."""

    @property
    def own_facts(self) -> KerasFacts | None:
        """How a Keras file groups the tensors, whose names are already those of the target."""
        return self.metadata if isinstance(self.metadata, KerasFacts) else None

    @property
    def holds_optimizer(self) -> bool:
        return not isinstance(self.facts, Nothing)

    def source_plan(self, plan: Plan) -> Plan:
        """Return a plan made of this reader's tensors as one that names those of the file."""
        self._check_names(plan)
        origins = self.reader.origins
        moves = []
        for move in plan.moves:
            found = origins.get(move.source or "", ())
            steps = self.reader.operations.get(move.source or "", "")
            first = found[0] if found else None
            moves.append(move._replace(source=first, also=tuple(found[1:]), operations=steps))
        facts = self.facts if self.holds_optimizer else plan.facts
        facts = self.metadata if isinstance(facts, Nothing) else facts
        dropped, notes = (*self.dropped, *plan.dropped), (*self.notes, *plan.notes)
        return plan._replace(
            moves=tuple(moves), dropped=dropped, notes=notes, facts=facts, beside=self.beside
        )

    def _check_names(self, plan: Plan) -> None:
        """Reject other keys and dtypes if the facts depend on them."""
        if not self.holds_optimizer:
            return
        for move in plan.moves:
            spec = self.reader.specs.get(move.source or "")
            if spec is not None and (spec.key, spec.dtype) != (move.spec.key, move.spec.dtype):
                message = "names and dtypes cannot change here, because the optimizer state refers to them"
                raise ConversionError(message, path=plan.source, key=spec.key, hints=(WEIGHTS_ONLY,))


def compared_with(layout: FrameworkLayout, right: FormatReader) -> FrameworkLayout:
    """Return the layout to be compared with a checkpoint: back, in the keys of the model that it holds.

    If the other side has optimizer state, this side's is converted, too.
    """
    if layout.names is not None:
        return layout
    layout = layout._replace(nests=holds_optimizer(right.format, layout) and has_optimizer(right))
    if layout.way != TENSORFLOW:
        return layout._replace(like=right)
    facts = keras_facts(right.facts)
    config = layout.config or facts
    fits = right.format.family is Family.KERAS or right.format.has_object_graph
    return layout._replace(config=config, like=right if fits else None)


def has_optimizer(reader: FormatReader, keys: Iterable[str] | None = None) -> bool:
    """Whether a checkpoint, or these tensors of it, are state of an optimizer, too."""
    kinds = reader.kinds
    return any(kinds.get(key) in OF_OPTIMIZER for key in (reader.specs if keys is None else keys))


def holds_optimizer(into: Format, layout: FrameworkLayout) -> bool:
    """Whether a format has a place for the state of an optimizer in a layout."""
    if layout.way == TENSORFLOW:
        return layout.names is None and (into.family is Family.KERAS or into.has_object_graph)
    return into.keeps_structure


def check_target(into: Format, layout: FrameworkLayout, target: str) -> None:
    """Refuse PyTorch's names and axes in a format from which TensorFlow or Keras restores."""
    if layout.way == FLAX and into.family is not Family.ARRAYS:
        hints = ("use --to flax, or a DST that ends in .msgpack",)
        raise ConversionError(f"{into.name} does not store Flax's names and axes", path=target, hints=hints)
    if layout.way == PYTORCH and into.family is not Family.ARRAYS:
        hints = ("use --to safetensors or --to pytorch, or a DST with one of their suffixes",)
        message = f"TensorFlow or Keras reads {into.name}, but not with PyTorch's names and axes"
        raise ConversionError(message, path=target, hints=hints)


def lay_out(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult:
    """Return the chosen tensors of a checkpoint in another layout.

    Raises ConversionError, which names tensors and rows, if the counterpart of a tensor is unknown or
    missing, or if an operation does not fit.
    """
    keys, copies = without_copies(reader, keys)
    try:
        laid = _laid_out(reader, keys, layout)
    except ModelError as error:
        is_configured = (layout.config or keras_facts(reader.facts)).config is not None
        hints = _model_hints()[1 if is_configured else 0 :]
        raise ConversionError(str(error), path=reader.location.path, hints=hints) from error
    except ConversionError as error:
        error.path = error.path or reader.location.path
        raise
    return laid._replace(dropped=(*copies, *laid.dropped))


def _laid_out(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult:
    if layout.names is not None:
        return _by_map(reader, keys, layout, layout.names)
    if layout.is_back:
        return _back_to_hub(reader, keys, layout) or _to_tensorflow(reader, keys, layout)
    model = hub_model(reader, layout.hub) if layout.config is None else None
    if model is not None:
        return _of_hub(reader, keys, layout, model)
    google = google_model(reader, layout.hub) if layout.config is None else None
    if google is not None:
        return _of_google(reader, keys, google)
    return _to_pytorch(reader, keys, layout)


# By a map -----------------------------------------------------------------------------


def _by_map(
    reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout, names: NameMap
) -> LayoutResult:
    rows = inverted(names) if layout.is_back else names
    side = side_of(reader, layout.given) if layout.carries else None
    state = side.states[0] if side is not None and len(side.states) == 1 else None
    if state is not None and state.flaw:
        message = f"the optimizer state cannot be converted: {state.flaw}"
        raise ConversionError(message, path=reader.location.path, hints=(KEEP_OPTIMIZER,))
    keys = keys if state is None else [key for key in keys if key not in state.keys]
    config = (layout.config or keras_facts(reader.facts)).config
    model = _filled(config, reader) if config is not None and not layout.is_back else None
    called = _called(reader, keys, rows, model)
    related = relate(rows, {name: reader.specs[key].shape for name, key in called.items()})
    dropped = _left_over(
        reader, [called[name] for name in related.left], "no line of the map matches this tensor"
    )
    used = {relation.row for relation in related.relations}
    idle = [row for row in rows.rows if not used.intersection(rows.group(row))]
    notes = [] if model is None else remarks_on(model)
    if idle and not names.is_both_ways:
        notes.append(f"{len(idle)} of {len(rows.rows)} lines of the map match no tensor, such as {idle[0]}")
    relations = _of_keys(related.relations, called)
    constants = []
    if layout.way == PYTORCH:
        constants = _counts(relations)
        if constants and model is None:
            layers = counted(len(constants), "layer")
            notes.append(f"{COUNT} of {layers} is set to 0, because TensorFlow does not store it")
    following = None if state is None else follow_weights(state, relations)
    relations += following.relations if following is not None else []
    of_keras = layout.way == TENSORFLOW and config is not None
    laid = DerivedReader(reader, relations, constants, of_keras=of_keras, keeps_facts=layout.way is None)
    laid.states = () if following is None else (following.state,)
    return LayoutResult(laid, names, tuple(dropped), (*notes, *laid.left_out()))


def _counts(relations: Iterable[Relation]) -> list[Constant]:
    """Return PyTorch's counts of batches, which TensorFlow and Flax do not have."""
    made = {target for relation in relations for target in relation.targets}
    counts = [f"{name.removesuffix('running_var')}{COUNT}" for name in made if name.endswith(".running_var")]
    return [Constant(name, 0, (), "int64") for name in counts if name not in made]


def _called(reader: FormatReader, keys: Sequence[str], rows: NameMap, model: Unit | None) -> dict[str, str]:
    """Return the keys by what rows call them: key, object path, full name, or the name in the model."""
    of_model = {}
    if model is not None:
        of_model = {variable.key: name for name, variable in model_names(model).items()}
    paths, full_names = reader.edge_paths, reader.full_names
    out: dict[str, str] = {}
    for key in keys:
        names = [name for name in (key, paths.get(key), full_names.get(key), of_model.get(key)) if name]
        name = next((name for name in names if rows.find(name) is not None), names[-1])
        if out.setdefault(name, key) != key:
            raise ConversionError(f"{out[name]!r} and {key!r} both have the name {name!r}")
    return out


def _of_keys(relations: Iterable[Relation], called: Mapping[str, str]) -> list[Relation]:
    return [
        relation._replace(sources=tuple(called[source] for source in relation.sources))
        for relation in relations
    ]


def _left_over(reader: FormatReader, keys: Sequence[str], why: str) -> list[Dropped]:
    """Return the dropped tensors that no row mentions. Raises ConversionError for weights and slots."""
    kinds = {
        key: "state"
        if key.rpartition(".")[2] == COUNT or is_seed(reader.specs[key], reader.full_names.get(key, ""))
        else reader.kinds.get(key, "variable")
        for key in keys
    }
    for kind in ("variable", "slot", "optimizer"):
        left = [key for key in keys if kinds[key] == kind]
        if left:
            some = ", ".join(map(repr, left[1:_MOST_SHOWN]))
            count = counted(len(left) - 1, "more tensor has", "more tensors have")
            more = f"; {count} the same problem, such as {some}" if len(left) > 1 else ""
            reason = (
                why if kind == "variable" else "optimizer state cannot be written in this layout and format"
            )
            hints = (_exclude(reader, left, keys),) if kind == "variable" else _LEFT_HINTS
            raise ConversionError(f"{reason}{more}", path=reader.location.path, key=left[0], hints=hints)
    return [Dropped(key, f"the other layout cannot represent this {kinds[key]}") for key in keys]


_LEFT_HINTS = (
    WEIGHTS_ONLY,
    "to keep the optimizer state, pass --to pytorch, and a Keras configuration with --config FILE",
)


def _exclude(reader: FormatReader, left: Sequence[str], unmatched: Sequence[str]) -> str:
    """Return the hint that leaves weights out: by their folder, if nothing in it is converted."""
    parts = zip(min(left).split("/")[:-1], max(left).split("/")[:-1], strict=False)
    below = "".join(f"{one}/" for one, _ in takewhile(lambda pair: pair[0] == pair[1], parts))
    is_plain = below and not any(character in below for character in "*?[")
    if len(left) > 1 and is_plain and {key for key in reader.specs if key.startswith(below)} <= {*unmatched}:
        return f"to leave these tensors out, pass --exclude {shlex.quote(below + '*')}"
    return leave_out(left[0])


# By the table of transformers' architectures --------------------------------------------


def _of_hub(
    reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout, model: HubModel
) -> LayoutResult:
    called, dropped = _variables_once(reader, keys)
    shapes = {name: reader.specs[key].shape for name, key in called.items()}
    names = NameMap(list(model.rows(shapes)))
    related = relate(names, {name: shapes[name] for name in names})
    relations = _of_keys(related.relations, called)
    ties = [
        Tie(Relation((called[row.old.text],), (row.new.text,), row.steps), partner)
        for row, partner in model.ties(shapes)
    ]
    warn_of_unequal_ties(reader, relations, ties)
    dropped += [Dropped(called[name], TIED) for name in shapes if name not in names]
    laid = DerivedReader(reader, relations, _counts(relations))
    metadata = SafetensorsFacts({"format": "pt"})
    return LayoutResult(
        laid, names, tuple(dropped), (), metadata=metadata, beside=_configured(reader, layout)
    )


def _of_google(reader: FormatReader, keys: Sequence[str], model: GoogleModel) -> LayoutResult:
    slots = [key for key in keys if reader.kinds.get(key) in OF_OPTIMIZER]
    if slots:
        message = f"optimizer state cannot be written in the layout of {model.class_name}"
        raise ConversionError(message, path=reader.location.path, key=slots[0], hints=(WEIGHTS_ONLY,))
    rows, dropped = model.rows(keys)
    names = NameMap(rows)
    relations = relate(names, {name: reader.specs[name].shape for name in names}).relations
    metadata = SafetensorsFacts({"format": "pt"})
    return LayoutResult(
        DerivedReader(reader, relations),
        names,
        tuple(dropped),
        model.notes(reader),
        metadata=metadata,
        beside=model.beside(),
    )


def _configured(reader: FormatReader, layout: FrameworkLayout) -> dict[str, Location | bytes]:
    config = config_of(reader, layout.hub)
    return {} if config is None else {CONFIG: config.path}


def _back_to_hub(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult | None:
    """Return PyTorch's weights under the names of transformers' library; None for another model."""
    like, facts = layout.like, layout.config or KerasFacts()
    if facts.config is not None or (like is not None and like.object_graph is not None):
        return None
    assert layout.way is not None
    model = hub_model_back(reader, layout.way, layout.hub)
    if model is None:
        if layout.way == FLAX:
            message = f"converting to Flax needs the model's {CONFIG} for transformers, or a map"
            raise ConversionError(message, path=reader.location.path, hints=(_HUB_CONFIG, _MAP))
        return None
    back = way_back(reader, keys, model, like)
    laid = DerivedReader(reader, back.relations)
    return LayoutResult(
        laid,
        back.names,
        tuple(back.dropped),
        (),
        metadata=back.facts or Nothing(),
        beside=_configured(reader, layout),
    )


def _variables_once(reader: FormatReader, keys: Sequence[str]) -> tuple[dict[str, str], list[Dropped]]:
    """Return keys by full names, and the other keys of a variable that several layers of a file hold."""
    called: dict[str, str] = {}
    dropped = []
    for key in keys:
        name = reader.full_names.get(key, key)
        first = called.setdefault(name, key)
        if first == key:
            continue
        if not same_bytes(reader[first].chunks(), reader[key].chunks()):
            message = f"this tensor has the full name of {first!r}, but different values"
            raise ConversionError(message, key=key, hints=(leave_out(key),))
        dropped.append(Dropped(key, "another layer stores the same variable"))
    return called, dropped


# By a model ---------------------------------------------------------------------------


def _filled(config: str, reader: FormatReader) -> Unit:
    model = from_config(config)
    fill(model, reader)
    return model


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
        return _Model(_filled(facts.config, reader), facts)
    variables = _variables(reader, keys)
    if reader.object_graph is None:
        message = "without the model's configuration, the name and axes of this tensor are unknown"
        raise ConversionError(
            message, path=reader.location.path, key=next(iter(variables), None), hints=_model_hints()
        )
    try:
        unit, layer_notes = model_in(reader, variables)
    except ConversionError as error:
        error.hints = (*_model_hints(), leave_out(error.key or ""))
        raise
    return _Model(unit, facts, layer_notes)


def _variables(reader: FormatReader, keys: Iterable[str]) -> dict[str, None]:
    kinds = reader.kinds
    weights = (key for key in keys if kinds.get(key) == "variable")
    names = reader.full_names
    return dict.fromkeys(key for key in weights if not is_seed(reader.specs[key], names.get(key, "")))


def _map_of(rows: Iterable[LayoutRow]) -> NameMap:
    return NameMap([MapRow(Name((row.old,)), Name((row.new,)), row.steps, repr(row.old)) for row in rows])


def _to_pytorch(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult:
    model = _model_of(reader, keys, layout.config or keras_facts(reader.facts))
    rows, fillers = rows_of(model.unit, reader.specs)
    wanted = set(keys)
    rows = [row for row in rows if row.variable.key in wanted]
    called = {row.old: row.variable.key for row in rows if row.variable.key is not None}
    names = _map_of(rows)
    shapes = {name: reader.specs[key].shape for name, key in called.items()}
    check_variables(rows, shapes)
    relations = _of_keys(relate(names, shapes).relations, called)
    constants = _constants(fillers, relations, reader)
    optimizer = _optimizer(reader, wanted, layout)
    held = {*called.values(), *(optimizer.stored_keys if optimizer is not None else ())}
    left = [key for key in keys if key not in held]
    dropped = _left_over(reader, left, model.lack)
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


def _to_tensorflow(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult:
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
    dropped += _left_over(reader, left, model.lack)
    relations = _of_keys(related.relations, called)
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
        return _Model(from_config(facts.config) if like is None else _filled(facts.config, like), facts)
    if like is None or like.object_graph is None:
        message = (
            "converting to the TensorFlow layout needs the model's configuration, a checkpoint of the "
            "model, or a map"
        )
        raise ConversionError(message, hints=(*_model_hints(), _LIKE))
    unit, layer_notes = model_in(like, _variables(like, like.specs), whole=False)
    return _Model(unit, facts, layer_notes)


def _weights_in(reader: FormatReader, keys: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the keys of a model's tensors by their names in PyTorch, at any depth of dictionaries.

    Raises ConversionError if no dictionary has all of them, or several have.
    """
    prefixes = _dictionaries(keys, names)
    found = [prefix for prefix, missing in prefixes.items() if not missing]
    if len(found) > 1:
        some = ", ".join(map(repr, found[:_MOST_SHOWN]))
        message = f"{len(found)} dictionaries contain all tensors of the model; expected one: {some}"
        raise ConversionError(
            message, path=reader.location.path, hints=("to leave out all but one, pass --exclude",)
        )
    if not found:
        missing = min(prefixes.values(), key=len)
        shown = ", ".join(map(repr, missing[:_MOST_SHOWN]))
        message = (
            f"{counted(len(missing), 'tensor of the model is', 'tensors of the model are')} missing: {shown}"
        )
        raise ConversionError(message, path=reader.location.path, hints=(_MAP, *packs_hints()))
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
