"""A checkpoint in the layout of PyTorch, or of TensorFlow again: names and axes of another library.

What becomes what is told by a map, or by a model: one made from a configuration, whose classes
`formats.keras.in_pytorch` knows.  Either way it is rows of names and operations, which are
held against the tensors that there are (`choose.relations`), and the result is a reader of
the other layout (`choose.relaid`).  A map is written from TensorFlow to PyTorch; `tensorflow`
asks for its inverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import counted
from formats.errors import ConversionError, leave_out
from formats.keras.facts import keras_facts
from formats.keras.in_pytorch import COUNT, Filler, LayoutRow, model_names, remarks_on, rows_of
from formats.keras.match import fill
from formats.keras.model import ModelError, Unit, from_config
from formats.model.reader import Family

from ..choose.name_map import Name, NameMap, Row
from ..choose.relaid import Constant, Relaid
from ..choose.relations import inverted, relate
from .plans import Dropped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from formats.core.axes import Shape
    from formats.keras.facts import KerasFacts
    from formats.model.reader import CheckpointReader, Format

    from ..choose.relations import Relation
    from .plans import Plan


PYTORCH, TENSORFLOW = "pytorch", "tensorflow"
WAYS = (PYTORCH, TENSORFLOW)

_MOST_SHOWN = 5
_HINTS = (
    "--config FILE gives the model's configuration: model.to_json(), a config.json, or a Keras file with one",
    "--map FILE says it row by row: the name, the name in PyTorch, and operations such as T",
)


class Layout(NamedTuple):
    """What is asked for: `way` is one of WAYS, None where a map alone is; what tells names and axes."""

    way: str | None = None
    names: NameMap | None = None
    config: KerasFacts | None = None
    like: CheckpointReader | None = None
    """A checkpoint of Keras whose keys are wanted, where the way is TENSORFLOW."""


class Laid(NamedTuple):
    """A checkpoint in another layout, the map by which it was laid out, and what is to be said of it."""

    reader: Relaid
    names: NameMap
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]

    def told(self, plan: Plan) -> Plan:
        """Return a plan made of this reader's tensors as one that names those of the file."""
        origins = self.reader.origins
        moves = []
        for move in plan.moves:
            found = origins.get(move.source or "", ())
            steps = self.reader.operations.get(move.source or "", "")
            first = found[0] if found else None
            moves.append(move._replace(source=first, also=tuple(found[1:]), operations=steps))
        return plan._replace(
            moves=tuple(moves), dropped=(*self.dropped, *plan.dropped), notes=(*self.notes, *plan.notes)
        )


def compared_with(layout: Layout, right: CheckpointReader) -> Layout:
    """Return the layout to be compared with a checkpoint: back, in the keys of the model that it holds."""
    if layout.way != TENSORFLOW or layout.names is not None:
        return layout
    facts = keras_facts(right.facts)
    config = layout.config or facts
    fits = right.format.family is Family.KERAS or right.format.has_object_graph
    return layout._replace(config=config, like=right if fits else None)


def check_target(into: Format, layout: Layout, target: str) -> None:
    """Refuse PyTorch's names and axes in a format from which TensorFlow or Keras restores."""
    if layout.way == PYTORCH and into.family is not Family.ARRAYS:
        hints = ("--to safetensors, --to pytorch, or a DST that ends like one",)
        message = f"{into.name} is restored by TensorFlow, whose names and axes are others than PyTorch's"
        raise ConversionError(message, path=target, hints=hints)


def lay_out(reader: CheckpointReader, keys: Sequence[str], layout: Layout) -> Laid:
    """Return the chosen tensors of a checkpoint in another layout.

    Raises ConversionError, which names tensors and rows, where it cannot be told what becomes of
    a tensor, where one is missing, and where an operation does not fit.
    """
    try:
        if layout.names is not None:
            return _by_map(reader, keys, layout, layout.names)
        if layout.way == TENSORFLOW:
            return _to_tensorflow(reader, keys, layout)
        return _to_pytorch(reader, keys, layout)
    except ModelError as error:
        raise ConversionError(str(error), path=reader.location.path, hints=_HINTS) from error
    except ConversionError as error:
        error.path = error.path or reader.location.path
        raise


# By a map -----------------------------------------------------------------------------


def _by_map(reader: CheckpointReader, keys: Sequence[str], layout: Layout, names: NameMap) -> Laid:
    rows = inverted(names) if layout.way == TENSORFLOW else names
    config = (layout.config or keras_facts(reader.facts)).config
    model = _filled(config, reader) if config is not None and layout.way != TENSORFLOW else None
    called = _called(reader, keys, rows, model)
    related = relate(rows, {name: reader.specs[key].shape for name, key in called.items()})
    dropped = _left_over(reader, [called[name] for name in related.left], "no row of the map matches it")
    used = {relation.row for relation in related.relations}
    idle = [row for row in rows.rows if not used.intersection(rows.group(row))]
    notes = [] if model is None else remarks_on(model)
    if idle:
        notes.append(f"{len(idle)} of {len(rows.rows)} lines of the map match nothing, {idle[0]} for one")
    relations = _of_keys(related.relations, called)
    constants = []
    if layout.way == PYTORCH:
        made = {target for relation in relations for target in relation.targets}
        counts = [
            f"{name.removesuffix('running_var')}{COUNT}" for name in made if name.endswith(".running_var")
        ]
        constants = [Constant(name, 0, (), "int64") for name in counts if name not in made]
        if constants and model is None:
            notes.append(
                f"{COUNT} of {counted(len(constants), 'layer')} is made up, 0: TensorFlow counts none"
            )
    laid = Relaid(reader, relations, constants, of_keras=layout.way == TENSORFLOW and config is not None)
    return Laid(laid, names, tuple(dropped), tuple(notes))


def _called(
    reader: CheckpointReader, keys: Sequence[str], rows: NameMap, model: Unit | None
) -> dict[str, str]:
    """Return the keys by what rows call them: key, object path, full name, or the name in the model."""
    of_model = {}
    if model is not None:
        of_model = {variable.key: name for name, variable in model_names(model).items()}
    paths, full_names = reader.object_paths, reader.full_names
    out: dict[str, str] = {}
    for key in keys:
        names = [name for name in (key, paths.get(key), full_names.get(key), of_model.get(key)) if name]
        name = next((name for name in names if rows.find(name) is not None), names[-1])
        if out.setdefault(name, key) != key:
            raise ConversionError(f"{out[name]!r} and {key!r} are both called {name!r}")
    return out


def _of_keys(relations: Iterable[Relation], called: Mapping[str, str]) -> list[Relation]:
    return [
        relation._replace(sources=tuple(called[source] for source in relation.sources))
        for relation in relations
    ]


def _left_over(reader: CheckpointReader, keys: Sequence[str], why: str) -> list[Dropped]:
    """Return what is dropped of tensors that nothing tells of; ConversionError for weights and slots."""
    kinds = {
        key: "state" if key.rpartition(".")[2] == COUNT else reader.kinds.get(key, "variable") for key in keys
    }
    for kind, hints in (
        ("variable", (_exclude(keys),)),
        ("slot", (_WEIGHTS_ONLY,)),
        ("optimizer", (_WEIGHTS_ONLY,)),
    ):
        left = [key for key in keys if kinds[key] == kind]
        if left:
            some = ", ".join(map(repr, left[1:_MOST_SHOWN]))
            more = f"; so with {counted(len(left) - 1, 'more', 'more')}: {some}" if len(left) > 1 else ""
            reason = (
                why if kind == "variable" else "state of an optimizer, of which this layout tells nothing"
            )
            raise ConversionError(f"{reason}{more}", path=reader.location.path, key=left[0], hints=hints)
    return [Dropped(key, f"{kinds[key]} that the other layout has no place for") for key in keys]


_WEIGHTS_ONLY = "to leave the state of optimizers out: --kind variable"


def _exclude(keys: Sequence[str]) -> str:
    return leave_out(keys[0]) if keys else ""


# By a model ---------------------------------------------------------------------------


def _filled(config: str, reader: CheckpointReader) -> Unit:
    model = from_config(config)
    fill(model, reader)
    return model


def _model_of(reader: CheckpointReader, layout: Layout) -> Unit:
    facts = layout.config or keras_facts(reader.facts)
    if facts.config is None:
        key = next((key for key in reader.specs if reader.kinds.get(key) == "variable"), None)
        message = f"{reader.format.name} without a model's configuration does not tell names and axes"
        raise ConversionError(message, path=reader.location.path, key=key, hints=_HINTS)
    return _filled(facts.config, reader)


def _map_of(rows: Iterable[LayoutRow]) -> NameMap:
    return NameMap([Row(Name((row.old,)), Name((row.new,)), row.steps, repr(row.old)) for row in rows])


def _to_pytorch(reader: CheckpointReader, keys: Sequence[str], layout: Layout) -> Laid:
    model = _model_of(reader, layout)
    rows, fillers = rows_of(model)
    wanted = set(keys)
    rows = [row for row in rows if row.variable.key in wanted]
    called = {row.old: row.variable.key for row in rows if row.variable.key is not None}
    names = _map_of(rows)
    shapes = {name: reader.specs[key].shape for name, key in called.items()}
    relations = _of_keys(relate(names, shapes).relations, called)
    held = set(called.values())
    left = [key for key in keys if key not in held]
    dropped = _left_over(reader, left, "the model's configuration has no variable for it")
    constants = _constants(fillers, relations, reader)
    return Laid(Relaid(reader, relations, constants), names, tuple(dropped), tuple(remarks_on(model)))


def _constants(
    fillers: Iterable[Filler], relations: Iterable[Relation], reader: CheckpointReader
) -> list[Constant]:
    """Return what PyTorch's layers have beside: of layers that are there."""
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


def _to_tensorflow(reader: CheckpointReader, keys: Sequence[str], layout: Layout) -> Laid:
    facts = layout.config
    if facts is None or facts.config is None:
        raise ModelError("back to TensorFlow needs the model's configuration, or a map")
    model = from_config(facts.config)
    if layout.like is not None:
        fill(model, layout.like)
    rows, fillers = rows_of(model)
    names = _map_of(rows)
    shapes: dict[str, Shape] = {key: reader.specs[key].shape for key in keys}
    missing = [row for row in rows if row.new not in shapes]
    if missing:
        some = ", ".join(repr(row.new) for row in missing[:_MOST_SHOWN])
        message = f"lacks {counted(len({row.new for row in missing}), 'tensor')} of the model's: {some}"
        raise ConversionError(message, path=reader.location.path, hints=_HINTS[1:])
    related = relate(inverted(names), shapes)
    ones = {filler.name: filler for filler in fillers}
    left = [key for key in related.left if not (key in ones and _is_filled(reader, ones[key]))]
    dropped = [Dropped(key, "TensorFlow has none, and needs none") for key in related.left if key not in left]
    dropped += _left_over(reader, left, "the model's configuration has no variable for it")
    laid = Relaid(reader, related.relations, of_keras=True)
    fill(from_config(facts.config), laid)  # which holds the shapes against the configuration
    if layout.like is not None:
        keys_of = {name: variable.key or name for name, variable in model_names(model).items()}
        renamed = [
            relation._replace(targets=tuple(keys_of[target] for target in relation.targets))
            for relation in related.relations
        ]
        laid = Relaid(reader, renamed, of_keras=True)
    return Laid(laid, names, tuple(dropped), tuple(remarks_on(model, back=True)))


def _is_filled(reader: CheckpointReader, filler: Filler) -> bool:
    """Whether a tensor that TensorFlow has no place for says nothing: it is what is made up for it."""
    if filler.like is None:
        return True
    return bool((reader[filler.name].read() == filler.value).all())
