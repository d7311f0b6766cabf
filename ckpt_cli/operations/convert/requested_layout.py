"""The layout of another framework that is requested, and a checkpoint in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.errors import ConversionError
from formats.keras.facts import KerasFacts, keras_facts
from formats.model.facts import Facts, Nothing
from formats.model.reader import Family

from ..select.name_map import NameMap, packs_hints
from .framework_optimizer import (
    WEIGHTS_ONLY,
)
from .optimizers import OptimizerOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from formats.keras.training_state import TrainingState
    from formats.location import Location
    from formats.model.hub_config import HubConfig
    from formats.model.reader import Format, FormatReader

    from ..select.view import DerivedReader
    from .plan import Dropped, Plan


PYTORCH, TENSORFLOW, FLAX = "pytorch", "tensorflow", "flax"

BACK = (TENSORFLOW, FLAX)
"""The ways for which a map is inverted: maps lead to PyTorch."""

OF_OPTIMIZER = ("slot", "optimizer")
"""Kinds of an optimizer's state."""

MOST_SHOWN = 5

_CONFIG = (
    "pass --config FILE, where FILE is a saved model.to_json(), a config.json or a whole-model Keras file"
)

MAP_HINT = (
    "pass --map FILE; each line of FILE has a TensorFlow, Keras or Flax key, its PyTorch key, "
    "and operations such as T"
)

LIKE_HINT = "to use the names and axes of a checkpoint that the same program saved, pass --like TEMPLATE"


def model_hints() -> tuple[str, ...]:
    """Return the hints that name the sources of a model's names and axes."""
    return (_CONFIG, MAP_HINT, *packs_hints())


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
