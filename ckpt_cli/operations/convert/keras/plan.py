"""Converting from and to Keras' layouts: a model's variables found in one and placed in another.

The model is made from a configuration, which SRC has or `--config` gives; from the names
in an HDF5 file where the target is TensorFlow's graph.  Its variables are found in SRC,
and each layout says where they go (`_LAYOUTS`).  Between files of one layout keys stay as
they are, and no model is needed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.core.words import counted
from formats.errors import ConversionError, leave_out
from formats.find.opening import open_reader
from formats.keras import state_in_graph, state_in_h5, state_in_weights
from formats.keras.compiled_metrics import fitted_metrics
from formats.keras.config import config_in_archive, config_in_h5, training_in_h5, version_of_config
from formats.keras.facts import OPTIMIZER_WEIGHTS, KerasFacts, WeightGroup, keras_facts
from formats.keras.layers import LAYERS, are_of_one_layer, is_seed
from formats.keras.match import fill, stored_layers
from formats.keras.model import ModelError, Unit, Variable, from_config, from_names
from formats.keras.objects_of_keras3 import as_in_keras_3
from formats.keras.optimizer_settings import generation_of_config, wanted_by
from formats.keras.optimizer_state import stored_state, titled
from formats.keras.optimizers import KERAS2, KERAS3, TITLES
from formats.keras.state_list import NoPlaceError, StateList
from formats.keras.training_state import LEARNING_RATE, LOSS_SCALE
from formats.keras.variable_layout import give_names, graph_of, h5_layout, weights_layout
from formats.model.facts import Facts, Nothing
from formats.model.reader import Family
from formats.wire.jsontext import parse_object

from ..optimizers import OptimizerOptions, contradiction, reason_of_idle
from ..plan import Dropped, Move
from .copying import copied, have_one_layout, is_copied, knows_structure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from formats.keras.training_state import TrainingState
    from formats.keras.variable_layout import Placed
    from formats.location import Location
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import Format, FormatReader
    from formats.store.base import File

    from ..source import Chosen


_HINTS = (
    "pass --config FILE, where FILE is a saved model.to_json(), a config.json or a Keras model file",
    "pass --like TEMPLATE to take the layout of a checkpoint that the same model wrote",
)
_ANOTHER = "pass the configuration of the model that wrote SRC with --config FILE"
PLAIN = "to write the tensors by key, pass --to hdf5 and a DST that ends in .h5 (Keras cannot load this file)"
_MOST_CONFIG = 256 << 20
KERAS_2, KERAS_3 = "2.15.0", "3.0.0"


class KerasPlacement(NamedTuple):
    """The placement of everything in a conversion, and the facts of the target."""

    moves: list[Move]
    object_graph: ObjectGraph | None = None
    facts: Facts = Nothing()


class Model(NamedTuple):
    """The model to write: variables with their keys in SRC, the optimizer's, versions and texts."""

    unit: Unit
    state: TrainingState | None
    facts: KerasFacts
    optimizer: StateList | None = None
    """Where each layout has the optimizer's state."""


def read_config(path: Location) -> KerasFacts:
    """Return the model's configuration in a JSON file, or in a Keras file that holds one.

    With it comes what else that file says of a model: how it is compiled, and by which Keras.
    """
    with path.open() as file:
        is_json = _is_json(file)
        if is_json and file.size > _MOST_CONFIG:
            message = f"the file has {file.size} bytes, which is too large for a model configuration"
            raise ConversionError(message, path=path)
        text = file.read(0, file.size).decode("utf-8", "surrogateescape") if is_json else None
    if text is not None:
        try:
            found = parse_object(text)
        except ValueError as error:
            raise ConversionError(f"this is not a model configuration: {error}", path=path) from error
        if "class_name" not in found:
            raise ConversionError("this is not a model configuration: it has no 'class_name'", path=path)
        return KerasFacts(config=text)
    with open_reader(path) as reader:
        facts = keras_facts(reader.proved_facts())
    if facts.config is None:
        raise ConversionError("this file contains no model configuration", path=path)
    kept = ("version", "config", "training_config", "assets", "contents")
    return KerasFacts(**{name: getattr(facts, name) for name in kept})


def _is_json(file: File) -> bool:
    return file.read(0, 64).lstrip().startswith(b"{")


@contextmanager
def structure_in(path: Location | None, into: Format) -> Iterator[FormatReader | None]:
    """Yield the file of the configuration if its weights' places are needed, too; otherwise None."""
    if path is None or into.family is not Family.KERAS:
        yield None
        return
    with path.open() as file:
        is_json = _is_json(file)
    if is_json:
        yield None
        return
    with open_reader(path) as reader:
        yield reader if knows_structure(reader, into) else None


def concerns(source: Format, target: Format) -> bool:
    """Whether a conversion from one format to another is one of layouts that a model explains."""
    of_keras = Family.KERAS
    return target.family is of_keras or (source.family is of_keras and target.has_object_graph)


def has_generation(source: Format, target: Format) -> bool:
    """Whether `--generation` applies: for `.keras` archives and `.h5`, the configuration decides."""
    is_laid_out = concerns(source, target) and not have_one_layout(source, target)
    return is_laid_out and (target.has_object_graph or _LAYOUTS[target.name] is _weights)


def lay_out(chosen: Chosen) -> KerasPlacement:
    """Return the placement of the chosen tensors.

    Raises ConversionError, with the remedy, if it is unknown.
    """
    source, target = chosen.source, chosen.into.name
    if source.format is chosen.into and not _is_for_another_keras(chosen):
        return _same_layout(chosen)
    if is_copied(chosen) and not _is_for_another_keras(chosen):
        if _LAYOUTS[target] is _archive:
            given = chosen.settings.config
            _refuse_config(chosen, given and given.config)
        moves, facts = copied(chosen)
        return KerasPlacement(moves, facts=facts)
    _refuse_rules(chosen)
    try:
        model = _model(chosen)
        fill(model.unit, source)
    except ModelError as error:
        message = f"the checkpoint does not fit the model: {error}"
        hints = _HINTS if chosen.settings.config is None else (_ANOTHER, _HINTS[1])
        plain = () if chosen.into.has_object_graph else (PLAIN,)
        raise ConversionError(message, path=source.location.path, hints=(*hints, *plain)) from error
    model = _choose(chosen, model)
    if model.state is not None:
        shapes = {key: spec.shape for key, spec in source.specs.items()}
        listed = StateList(model.state, model.unit, shapes, wanted_by(model.facts))
        model = model._replace(optimizer=listed)
    return _LAYOUTS[target](chosen, model)


def as_named(chosen: Chosen, facts: KerasFacts) -> KerasPlacement:
    """Return where tensors go that already have the names of the target, in the groups that facts tell."""
    moves = chosen.with_keys()
    _refuse_unloadable(chosen, facts, moves)
    return KerasPlacement(moves, facts=facts.rekeyed({move.source or "": move.spec.key for move in moves}))


def _refuse_rules(chosen: Chosen) -> None:
    """Refuse other names for tensors that the model places by those that SRC has."""
    changed = next((key for key in chosen.keys if chosen.renamed(key) != key), None)
    if changed is not None:
        message = "the model's configuration decides the names of tensors, so rules cannot change them"
        hints = ("convert without rules first, then rename tensors in the result",)
        path = chosen.source.location.path
        raise ConversionError(message, path=path, key=changed, hints=hints)


def _is_for_another_keras(chosen: Chosen) -> bool:
    """Whether the configuration that is given is of another Keras, or another optimizer, than SRC."""
    config, facts = chosen.settings.config, keras_facts(chosen.source.proved_facts())
    if config is None:
        return False
    # In .weights.h5 only Keras 3 names objects; nothing else there shows the version.
    major = facts.major if facts.version else "3" if facts.object_names else "2"
    generations = {generation_of_config(config), generation_of_config(facts)} - {None}
    states = {wanted.state for wanted in (wanted_by(config), wanted_by(facts)) if wanted is not None}
    return (
        KerasFacts(version=version_of_config(config.config, config.version)).major != major
        or len(generations) > 1
        or len(states) > 1
    )


def _same_layout(chosen: Chosen) -> KerasPlacement:
    if chosen.settings.given != OptimizerOptions():
        message = (
            "files of the same layout are copied unchanged, so this option about the optimizer has no effect"
        )
        hints = (
            ("to convert the optimizer state, pass a configuration of another Keras with --config FILE"),
        )
        raise ConversionError(message, path=chosen.source.location.path, hints=hints)
    source_facts = keras_facts(chosen.source.proved_facts())
    facts = source_facts.rekeyed({key: chosen.renamed(key) for key in chosen.keys})
    given = chosen.settings.config
    if given is not None:
        config = config_in_h5(given.config) if chosen.into.names_layers else given.config
        compiled = given.training_config or facts.training_config
        facts = facts._replace(config=config, training_config=compiled)
    return KerasPlacement(chosen.with_keys(), facts=facts)


def _model(chosen: Chosen) -> Model:
    source = chosen.source
    own = keras_facts(source.proved_facts())
    facts = chosen.settings.config or own
    config = facts.config
    if config is not None:
        unit = from_config(config)
    elif chosen.into.has_object_graph and source.format.names_layers:
        unit = from_names(stored_layers(source))
    else:
        message = (
            f"writing {chosen.into.name} needs the model's configuration, "
            "and this checkpoint does not contain it"
        )
        if chosen.into.has_object_graph:
            message = "without the model's configuration, the order of its layers is unknown"
        hints = _HINTS if chosen.into.has_object_graph else (*_HINTS, PLAIN)
        raise ConversionError(message, path=source.location.path, hints=hints)
    texts = KerasFacts(version=version_of_config(config, facts.version or own.version), config=config)
    # Of how it is compiled another Keras would understand nothing.
    compiled = facts.training_config or (own.training_config if own.major == texts.major else None)
    texts = texts._replace(training_config=compiled, assets=facts.assets, contents=facts.contents)
    given = chosen.settings.given
    state = chosen.settings.optimizer or stored_state(source, texts, given.optimizer)
    if state is not None:
        error = contradiction(source, given.optimizer, state.called)
        if error is not None:
            raise error
        state = state.with_numbers(given.iterations, given.learning_rate)
    return Model(unit, state, texts)


_State = TypeVar("_State")


def _state_of(chosen: Chosen, model: Model, lay: Callable[[StateList], _State]) -> _State | None:
    """Return the placement of optimizer state, or None if there is none, or only counts, without a place."""
    if model.optimizer is None:
        return None
    try:
        return lay(model.optimizer)
    except NoPlaceError as error:
        slots = model.optimizer.slots.keys() & set(chosen.keys)
        if not slots:
            return None
        title = titled(model.optimizer.state)
        raise _without_place(chosen, len(slots), title, error.message, error.hints) from error


def _without_place(
    chosen: Chosen, number: int, title: str, why: str, more: Sequence[str] = ()
) -> ConversionError:
    message = f"{chosen.into.name} cannot store {counted(number, 'slot')} of {title}: {why}"
    hints = (
        *more,
        "to leave out optimizer state, pass --weights-only; to leave out a part of it, pass --exclude",
    )
    return ConversionError(message, path=chosen.source.location.path, hints=hints)


def _laid(
    chosen: Chosen,
    model: Model,
    placed: list[Placed],
    graph: ObjectGraph | None = None,
    facts: Facts | None = None,
) -> KerasPlacement:
    """Return the moves of weights and optimizer state; tensors without a place are listed or rejected."""
    held = {variable.key for variable, _ in placed}
    source, target = chosen.source, chosen.into.name
    idle = model.optimizer.idle if model.optimizer is not None else set()
    lost = [
        key for key in chosen.keys if key not in held and key not in idle and source.kinds.get(key) == "slot"
    ]
    if lost:
        raise _without_place(chosen, len(lost), *_leftover_slots(chosen, model))
    for key in chosen.keys:
        if key in held:
            continue
        kind = source.kinds.get(key)
        if kind == "variable" and not is_seed(source.specs[key], source.full_names.get(key, "")):
            message = "the model's configuration has no variable for this tensor"
            hints = (leave_out(key), *_HINTS)
            raise ConversionError(message, path=source.location.path, key=key, hints=hints)
        what = "optimizer state" if kind in ("slot", "optimizer") else "state"
        reason = f"{target} has no tensor for this {what} of this model"
        if model.optimizer is not None and key in idle:
            reason = reason_of_idle(model.optimizer.state.generation)
        chosen.dropped.append(Dropped(key, reason))
    _refuse_idle(chosen, model, placed)
    _note_scale(chosen, model, placed)
    moves = [_move(chosen, model, variable, name) for variable, name in placed]
    if graph is None:
        _refuse_unloadable(chosen, model.facts, moves)
    return KerasPlacement(moves, graph, facts or Nothing())


def _refuse_unloadable(chosen: Chosen, facts: KerasFacts, moves: list[Move]) -> None:
    """Refuse bfloat16 where Keras writes it, and does not load it: not even what it wrote itself."""
    if facts.major == "3" and not chosen.into.names_layers:
        return
    for move in moves:
        if move.spec.dtype.name == "bfloat16":
            message = f"Keras {facts.major} does not load bfloat16 from {chosen.into.name}"
            hints = ("to write another dtype, pass --cast float32",)
            raise ConversionError(message, path=chosen.source.location.path, key=move.source, hints=hints)


def _refuse_idle(chosen: Chosen, model: Model, placed: list[Placed]) -> None:
    """Reject options about an optimizer if the target has no tensor for it."""
    given, optimizer = chosen.settings.given, model.optimizer
    for option, given_value, variable in (
        ("--iterations", given.iterations, optimizer and optimizer.iteration),
        ("--learning-rate", given.learning_rate, optimizer and optimizer.rates.get(LEARNING_RATE)),
    ):
        if given_value is not None and all(one is not variable for one, _ in placed):
            message = f"{option} has no effect: {chosen.into.name} stores no such value for this model"
            hints: tuple[str, ...] = (
                (
                    "to write one, pass the configuration of a model that is compiled with this "
                    "optimizer, with --config FILE"
                ),
            )
            if _LAYOUTS[chosen.into.name] is _weights and model.facts.major == "2":
                hints = (
                    *hints,
                    "to write for Keras 3, pass --generation keras3; Keras 3 stores this value there",
                )
            raise ConversionError(message, path=chosen.source.location.path, hints=hints)


def _note_scale(chosen: Chosen, model: Model, placed: list[Placed]) -> None:
    """Note a loss scale that no tensor of SRC holds."""
    scale = model.optimizer.scaling.get(LOSS_SCALE) if model.optimizer is not None else None
    if scale is not None and scale.value is not None and any(one is scale for one, _ in placed):
        chosen.notes.append(
            f"the loss scale starts at {scale.value:.9g}, as the configuration says; SRC does not store it"
        )


_SAVED_AFTER_A_STEP = "pass --like TEMPLATE, a file or checkpoint that the program saved after a step"


def _leftover_slots(chosen: Chosen, model: Model) -> tuple[str, str, tuple[str, ...]]:
    """Return whose slots are left that no place was looked for, why, and hints."""
    if model.optimizer is not None:
        return "another optimizer", f"it stores only one optimizer, {titled(model.optimizer.state)}", ()
    if chosen.source.format.is_by_name:
        return "an optimizer of TensorFlow 1", "the names do not identify its slots", (_SAVED_AFTER_A_STEP,)
    return "an optimizer", "ckpt does not know the layout of its slots", ()


def _move(chosen: Chosen, model: Model, variable: Variable, name: str) -> Move:
    if variable.key is not None:
        return chosen.move(variable.key, name)
    import numpy as np

    is_count = model.optimizer is not None and any(variable is one for one in model.optimizer.counts)
    spec = TensorSpec(name, BY_NAME["int64" if is_count else "float32"], ())
    if variable.like is not None:
        spec = chosen.source.specs[variable.like]._replace(key=name)
    value = np.broadcast_to(np.array(variable.value, spec.dtype.numpy), spec.shape)
    return Move(spec, None, None, value)


def _choose(chosen: Chosen, model: Model) -> Model:
    """Leave out what was not chosen: of an optimizer all or nothing, of layers what the target allows."""
    wanted = set(chosen.keys)
    path, target = chosen.source.location.path, chosen.into.name
    for variable in model.unit.all_variables():
        if variable.key in wanted:
            continue
        if not chosen.into.has_object_graph:
            message = f"{target} needs all weights of a model, but this weight is left out"
            hints = ("to write some tensors of a model, pass --to npz, safetensors or hdf5",)
            raise ConversionError(message, path=path, key=variable.key or variable.name, hints=hints)
        variable.key = None
    if model.state is None:
        return model
    state = model.state.stored_keys
    if state and not wanted & set(state):
        return model._replace(state=None)
    missing = next((key for key in state if key not in wanted), None)
    if missing is not None:
        message = "optimizer state can only be converted as a whole, but this part is left out"
        hints = ("to leave out all of the optimizer state, pass --weights-only or --exclude",)
        raise ConversionError(message, path=path, key=missing, hints=hints)
    return model


# tf-object --------------------------------------------------------------------------------


def _units(model: Model) -> Iterator[Unit]:
    """Yield all layers of a model, those within others included."""
    waiting = [model.unit]
    for unit in waiting:
        waiting += unit.children()
        yield unit


def _needs_template(chosen: Chosen, message: str) -> ConversionError:
    hints = ("pass --like TEMPLATE, a checkpoint that the same program saved",)
    return ConversionError(message, path=chosen.source.location.path, hints=hints)


def _refuse_unknown(chosen: Chosen, model: Model, needs: str = "an object graph") -> None:
    """Reject layers whose attributes no table has: a target that names them could not be loaded."""
    for unit in _units(model):
        names = {variable.name for variable in unit.variables()}
        is_known = unit.known if model.facts.config is not None else are_of_one_layer(unit.name, names)
        if not is_known and unit.has_weights():
            what = (
                f"of class {unit.class_name}"
                if unit.class_name
                else f"with weights {', '.join(sorted(names))}"
            )
            message = f"layer {unit.name!r} is {what}; ckpt does not know its attributes, which {needs} needs"
            raise _needs_template(chosen, message)


def _refuse_otherwise(chosen: Chosen, model: Model) -> None:
    """Reject layers that have other weights because of an option: formats store those differently."""
    for unit in _units(model):
        row = LAYERS.get(unit.class_name)
        option = row.otherwise(dict(unit.config).get) if row is not None else None
        if option is not None and unit.has_weights():
            message = (
                f"layer {unit.name!r} has other weights with {option!r}, and {chosen.into.name} needs them"
            )
            raise _needs_template(chosen, message)


def _refuse_tables(chosen: Chosen, model: Model) -> None:
    """Reject layers whose vocabulary Keras 2 keeps in a table of the graph, and counts as weights."""
    for unit in _units(model):
        if unit.class_name in _WITH_VOCABULARY and unit.config.get("vocabulary") is None:
            message = (
                f"layer {unit.name!r} keeps its vocabulary in a table, which only your program can write"
            )
            raise _needs_template(chosen, message)


_WITH_VOCABULARY = ("IntegerLookup", "StringLookup", "TextVectorization")
"""Layers that learn a vocabulary from data unless their configuration lists it."""


def _written_for(chosen: Chosen, what: str, generation: str) -> str:
    """Return the note on the Keras that can load a target, and on the option if it was not given."""
    option = "" if chosen.settings.generation else "; to choose another Keras, pass --generation"
    return f"the {what} is written for {TITLES[generation]}{option}"


def _objects(chosen: Chosen, model: Model) -> KerasPlacement:
    _refuse_unknown(chosen, model)
    give_names(model.unit)
    generation = chosen.settings.generation or (KERAS3 if model.facts.major == "3" else KERAS2)
    chosen.notes.append(_written_for(chosen, "object graph", generation))
    if generation == KERAS3:
        state = _state_of(chosen, model, state_in_graph.write_keras3)
        graph, placed = graph_of(as_in_keras_3(model.unit), state)
    else:
        _refuse_tables(chosen, model)
        node = _state_of(chosen, model, lambda state: state_in_graph.write(state, model.facts))
        graph, placed = graph_of(model.unit, *(node or ()))
    return _laid(chosen, model, placed, graph)


# keras-h5 -----------------------------------------------------------------------------------


def _h5(chosen: Chosen, model: Model) -> KerasPlacement:
    _refuse_otherwise(chosen, model)
    major = model.facts.major
    suffix = "" if major == "3" else ":0"
    # A Sequential of Keras 3 has its name before those of its layers.
    give_names(model.unit, model.unit.name if not suffix and model.unit.class_name == "Sequential" else "")
    variables, layers = h5_layout(model.unit, suffix)
    model_facts = model.facts
    facts = model_facts._replace(
        config=config_in_h5(model_facts.config),
        training_config=model_facts.training_config or training_in_h5(model_facts.config, major),
        layers=tuple(layers),
    )
    state = _state_of(chosen, model, lambda state: state_in_h5.write(state, model_facts))
    if state is not None:
        named = [(f"{OPTIMIZER_WEIGHTS}/{name}", name + suffix) for _, name in state]
        facts = facts._replace(optimizer=WeightGroup(OPTIMIZER_WEIGHTS, tuple(named)))
        state = [(variable, f"{OPTIMIZER_WEIGHTS}/{name}") for variable, name in state]
    return _laid(chosen, model, [*variables, *(state or ())], facts=facts)


# keras-weights, keras -----------------------------------------------------------------------


def _refuse_config(chosen: Chosen, config: str | None) -> None:
    """Refuse the configuration of a .h5 file for a `.keras` archive."""
    if config is not None and "module" not in parse_object(config):
        message = (
            "a .keras archive needs the configuration of a .keras archive, and this configuration comes "
            "from a .h5 file"
        )
        hints = (
            "pass a .keras archive of the same model, or its config.json, with --config FILE",
            "to write a file for model.load_weights(...) instead, pass --to weights-h5",
        )
        raise ConversionError(message, path=chosen.source.location.path, hints=hints)


def _archive(chosen: Chosen, model: Model) -> KerasPlacement:
    model = _as_in_archives(chosen, model)
    _refuse_config(chosen, model.facts.config)
    return _weights_of(chosen, model)


def _as_in_archives(chosen: Chosen, model: Model) -> Model:
    """Return a Keras 2 model from another format, with its configuration as archives have it.

    They say how a model is compiled in another form, so this is only for models without an optimizer.
    """
    config = model.facts.config
    without_config = chosen.settings.config is None and chosen.source.format.family is not Family.KERAS
    if not without_config or config is None or model.optimizer is not None or model.facts.major != "2":
        return model
    facts = model.facts._replace(config=config_in_archive(config) or config, training_config=None)
    return model._replace(facts=facts)


def _weights(chosen: Chosen, model: Model) -> KerasPlacement:
    """Plan a .weights.h5 for the Keras of the configuration, or of --generation.

    Both store weights in the same way, but not the optimizer state.  Keras before 2.12 had no such file.
    """
    wanted = chosen.settings.generation
    if wanted is None and chosen.settings.config is None and not model.facts.writes_weights_h5:
        wanted = KERAS3
    version = {None: model.facts.version, KERAS2: KERAS_2, KERAS3: KERAS_3}[wanted]
    other = model._replace(facts=model.facts._replace(version=version))
    is_configured = model.facts.major == "3" or chosen.settings.config is not None
    if model.optimizer is not None and not (wanted is None and is_configured):
        generation = KERAS3 if other.facts.major == "3" else KERAS2
        chosen.notes.append(_written_for(chosen, "optimizer state", generation))
    return _weights_of(chosen, other)


def _weights_of(chosen: Chosen, model: Model) -> KerasPlacement:
    major = model.facts.major
    if chosen.source.format.names_layers:
        _refuse_unknown(chosen, model, chosen.into.name)
    placed, names = weights_layout(model.unit, major=major)
    state = _state_of(chosen, model, lambda state: state_in_weights.write(state, major))
    if state is not None and model.state is not None:
        names |= state_in_weights.names(model.state)
    if major == "2":
        metrics, unknown = fitted_metrics(model.facts)
        placed += metrics
        if unknown:
            classes = ", ".join(unknown)
            text = (
                f"the metrics {classes} are written without state; load the weights before you fit the model"
            )
            chosen.notes.append(text)
    facts = model.facts._replace(object_names=names, groups=tuple(names))
    return _laid(chosen, model, [*placed, *(state or ())], facts=facts)


_LAYOUTS: dict[str, Callable[[Chosen, Model], KerasPlacement]] = {
    "tf-object": _objects,
    "keras-h5": _h5,
    "keras-weights": _weights,
    "keras": _archive,
}
