"""A checkpoint in the layout of PyTorch, or of TensorFlow again: names and axes of another library.

A map or a model defines the conversion. The model comes from a configuration, or from the names of an object
graph if they show the classes of its layers (`formats.keras.in_pytorch` lists the known ones). Either way it
is rows of names and operations, which are compared with the existing tensors (`select.relations`). The result
is a reader of the other layout (`select.view`). A map is written from TensorFlow to PyTorch; `tensorflow`
needs its inverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.chunks import same_bytes
from formats.errors import ConversionError, leave_out
from formats.keras.facts import KerasFacts, keras_facts
from formats.keras.model import ModelError
from formats.model.facts import Nothing
from formats.safetensors.reader import SafetensorsFacts

from ..select.name_map import NameMap
from ..select.relations import Relation, relate
from ..select.view import DerivedReader
from .framework_optimizer import WEIGHTS_ONLY
from .hub.back import way_back
from .hub.google import google_model
from .hub.layout import CONFIG, TIED, config_of, hub_model, hub_model_back
from .hub.ties import Tie, warn_of_unequal_ties
from .keras.exports import without_copies
from .layout_by_map import by_map, counts_of_batches, with_keys
from .layout_by_model import to_pytorch, to_tensorflow
from .plan import Dropped
from .requested_layout import FLAX, MAP_HINT, OF_OPTIMIZER, FrameworkLayout, LayoutResult, model_hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.location import Location
    from formats.model.reader import FormatReader

    from .hub.google import GoogleModel
    from .hub.layout import HubModel


_HUB_CONFIG = "pass the config.json of the model with --config FILE"


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
        hints = model_hints()[1 if is_configured else 0 :]
        raise ConversionError(str(error), path=reader.location.path, hints=hints) from error
    except ConversionError as error:
        error.path = error.path or reader.location.path
        raise
    return laid._replace(dropped=(*copies, *laid.dropped))


def _laid_out(reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout) -> LayoutResult:
    if layout.names is not None:
        return by_map(reader, keys, layout, layout.names)
    if layout.is_back:
        return _back_to_hub(reader, keys, layout) or to_tensorflow(reader, keys, layout)
    model = hub_model(reader, layout.hub) if layout.config is None else None
    if model is not None:
        return _of_hub(reader, keys, layout, model)
    google = google_model(reader, layout.hub) if layout.config is None else None
    if google is not None:
        return _of_google(reader, keys, google)
    return to_pytorch(reader, keys, layout)


# By the table of transformers' architectures --------------------------------------------


def _of_hub(
    reader: FormatReader, keys: Sequence[str], layout: FrameworkLayout, model: HubModel
) -> LayoutResult:
    called, dropped = _variables_once(reader, keys)
    shapes = {name: reader.specs[key].shape for name, key in called.items()}
    names = NameMap(list(model.rows(shapes)))
    related = relate(names, {name: shapes[name] for name in names})
    relations = with_keys(related.relations, called)
    ties = [
        Tie(Relation((called[row.old.text],), (row.new.text,), row.steps), partner)
        for row, partner in model.ties(shapes)
    ]
    warn_of_unequal_ties(reader, relations, ties)
    dropped += [Dropped(called[name], TIED) for name in shapes if name not in names]
    laid = DerivedReader(reader, relations, counts_of_batches(relations))
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
            raise ConversionError(message, path=reader.location.path, hints=(_HUB_CONFIG, MAP_HINT))
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
