"""A checkpoint in the layout that a map defines."""

from __future__ import annotations

import shlex
from itertools import takewhile
from typing import TYPE_CHECKING

from formats.core.words import counted
from formats.errors import ConversionError, leave_out
from formats.keras.facts import keras_facts
from formats.keras.in_pytorch import COUNT, model_names, remarks_on
from formats.keras.layers import is_seed
from formats.keras.match import fill
from formats.keras.model import Unit, from_config

from ..select.relations import Relation, inverted, relate
from ..select.view import Constant, DerivedReader
from .accounting import KEEP_OPTIMIZER
from .following_slots import follow_weights
from .framework_optimizer import (
    WEIGHTS_ONLY,
)
from .keras.sides import side_of
from .plan import Dropped
from .requested_layout import (
    MOST_SHOWN,
    PYTORCH,
    TENSORFLOW,
    FrameworkLayout,
    LayoutResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from formats.model.reader import FormatReader

    from ..select.name_map import NameMap


def by_map(
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
    model = filled_model(config, reader) if config is not None and not layout.is_back else None
    called = keys_by_name(reader, keys, rows, model)
    related = relate(rows, {name: reader.specs[key].shape for name, key in called.items()})
    dropped = left_over(
        reader, [called[name] for name in related.left], "no line of the map matches this tensor"
    )
    used = {relation.row for relation in related.relations}
    idle = [row for row in rows.rows if not used.intersection(rows.group(row))]
    notes = [] if model is None else remarks_on(model)
    if idle and not names.is_both_ways:
        notes.append(f"{len(idle)} of {len(rows.rows)} lines of the map match no tensor, such as {idle[0]}")
    relations = with_keys(related.relations, called)
    constants = []
    if layout.way == PYTORCH:
        constants = counts_of_batches(relations)
        if constants and model is None:
            layers = counted(len(constants), "layer")
            notes.append(f"{COUNT} of {layers} is set to 0, because TensorFlow does not store it")
    following = None if state is None else follow_weights(state, relations)
    relations += following.relations if following is not None else []
    of_keras = layout.way == TENSORFLOW and config is not None
    laid = DerivedReader(reader, relations, constants, of_keras=of_keras, keeps_facts=layout.way is None)
    laid.states = () if following is None else (following.state,)
    return LayoutResult(laid, names, tuple(dropped), (*notes, *laid.left_out()))


def counts_of_batches(relations: Iterable[Relation]) -> list[Constant]:
    """Return PyTorch's counts of batches, which TensorFlow and Flax do not have."""
    made = {target for relation in relations for target in relation.targets}
    counts = [f"{name.removesuffix('running_var')}{COUNT}" for name in made if name.endswith(".running_var")]
    return [Constant(name, 0, (), "int64") for name in counts if name not in made]


def keys_by_name(
    reader: FormatReader, keys: Sequence[str], rows: NameMap, model: Unit | None
) -> dict[str, str]:
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


def with_keys(relations: Iterable[Relation], called: Mapping[str, str]) -> list[Relation]:
    return [
        relation._replace(sources=tuple(called[source] for source in relation.sources))
        for relation in relations
    ]


def left_over(reader: FormatReader, keys: Sequence[str], why: str) -> list[Dropped]:
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
            some = ", ".join(map(repr, left[1:MOST_SHOWN]))
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


def filled_model(config: str, reader: FormatReader) -> Unit:
    model = from_config(config)
    fill(model, reader)
    return model
