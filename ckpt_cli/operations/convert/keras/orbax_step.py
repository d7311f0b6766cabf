"""A step that `keras.callbacks.OrbaxCheckpoint` saved, as the `.weights.h5` file of the same model.

    ITEM/trainable_variables/<path>            a variable's own path: of a Sequential model, below its name
    ITEM/non_trainable_variables/<path>
    ITEM/optimizer_variables/<optimizer>/iteration, learning_rate
    ITEM/optimizer_variables/<optimizer>/<path with _ for />_<slot>
    ITEM/metrics_variables/...
    model_config/config                        the model's configuration, a text

The configuration describes the layers, and through them the variable of each tensor. From then on the step is
read as a file of Keras 3. keras/src/callbacks/orbax_checkpoint.py (Keras 3.15)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from formats.core.axes import NOTHING
from formats.core.words import FirstNames
from formats.errors import ConversionError
from formats.find.registry import format_named
from formats.keras.config import version_of_config
from formats.keras.facts import IN_WEIGHTS, KerasFacts, variables_by_group
from formats.keras.layers import is_seed
from formats.keras.model import ModelError, Variable, from_config, trained_order
from formats.keras.optimizer_settings import wanted_by
from formats.keras.optimizers import KERAS3
from formats.keras.state_list import SCALER, WRAPPER
from formats.keras.variable_layout import give_names, weights_layout
from formats.model.facts import rekeyed
from formats.orbax.facts import TreeFacts

from ...select.relations import Relation
from ...select.view import DerivedReader
from ..plan import Dropped, Move

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.core.dtypes import DType
    from formats.core.spec import TensorSpec
    from formats.keras.optimizers import Optimizer
    from formats.model.facts import Facts
    from formats.model.reader import FormatReader

    from ..plan import Plan

_CONFIG = "model_config/config"
_VARIABLES = ("trainable_variables/", "non_trainable_variables/")
_OPTIMIZER = "optimizer_variables/"
_RATE = "learning_rate"
_OPTIMIZER_GROUP = "optimizer/"
_OPTIMIZER_VARS = f"{_OPTIMIZER_GROUP}vars"
_INNER_VARS = f"{_OPTIMIZER_GROUP}inner_optimizer/vars"
_COUNT = "/iteration"
_UNNAMED = re.compile(r"variable(_\d+)?")


class KerasStep(DerivedReader):
    """The tensors of a step by the datasets that they are in a `.weights.h5` file."""

    def __init__(self, reader: FormatReader, relations: Sequence[Relation], facts: KerasFacts) -> None:
        super().__init__(reader, relations, of_keras=True)
        self.format = format_named("keras-weights")._replace(writer=None)
        self._facts = facts
        self._groups = variables_by_group(self.specs)

    @property
    def facts(self) -> Facts:
        return self._facts

    @property
    def full_names(self) -> Mapping[str, str]:
        """There are none, as in the file that this stands for."""
        return {}

    def named(self, keys: Sequence[str]) -> list[str]:
        """Return the keys here of tensors that were chosen by their own keys."""
        chosen = set(keys)
        return [key for key, origins in self.origins.items() if origins[0] in chosen]

    def source_plan(self, plan: Plan, keys: Sequence[str]) -> Plan:
        """Return a plan made of this reader's tensors as one that names those of the step."""
        moves = tuple(
            move._replace(source=next(iter(self.origins.get(move.source or "", ())), None))
            for move in plan.moves
        )
        used = {origin for origins in self.origins.values() for origin in origins}
        left = tuple(Dropped(key, "Keras files do not store this state") for key in keys if key not in used)
        return plan._replace(moves=moves, dropped=(*plan.dropped, *left))

    def variables(self, group: str) -> list[str]:
        """Return the keys of the variables of an object, in order."""
        return self._groups.get(group, [])

    def filled(
        self, plan: Plan, *, partial: bool = False, keep_optimizer: bool = False, cast: DType | None = None
    ) -> Plan:
        """Return a plan of writing a `.weights.h5` file as one of writing this step with those values.

        Raises ConversionError for a tensor of the step that gets no value, unless it may keep its own, for
        one that the step does not have, and for another shape or dtype.
        """
        found = {move.spec.key: move for move in plan.moves}
        moves: dict[str, Move] = {}
        for key, (origin, *_) in self.origins.items():
            move, own = found.pop(key, None), self._reader[origin]
            is_kept = partial or (keep_optimizer and key.startswith(_OPTIMIZER_GROUP))
            if move is None and not is_kept:
                hints = (
                    (
                        "to keep TEMPLATE's values for tensors without a value, pass --partial, or "
                        "--keep-optimizer"
                    ),
                )
                message = "this tensor of TEMPLATE gets no value"
                raise ConversionError(message, path=plan.source, key=origin, hints=hints)
            if move is None:
                moves.setdefault(origin, Move(own.spec, None, own))
                continue
            self._check(plan, move, own.spec, cast)
            moves[origin] = move._replace(spec=move.spec._replace(key=origin))
        for key, move in found.items():
            message = "TEMPLATE does not contain this tensor"
            raise ConversionError(message, path=plan.source, key=move.source or key)
        names = {key: key for key in moves}
        left = FirstNames(key for key in self._reader.specs if key not in names)
        notes = (f"left out {left} of TEMPLATE: Keras initialises them again",) if left.count else ()
        return plan._replace(
            format=self._reader.format.name,
            moves=tuple(moves.values()),
            facts=rekeyed(self._reader.proved_facts(), names),
            notes=(*plan.notes, *notes),
            sources=(*plan.sources, self._reader),
        )

    @staticmethod
    def _check(plan: Plan, move: Move, own: TensorSpec, cast: DType | None) -> None:
        """Raise ConversionError for a tensor that is not as the program of TEMPLATE makes it."""
        spec = move.spec
        if spec.shape != own.shape:
            message = (
                f"this tensor has shape {list(spec.shape)}, but {own.key} of TEMPLATE has {list(own.shape)}"
            )
            raise ConversionError(message, path=plan.source, key=move.source or spec.key)
        # With TensorFlow, Keras saves numbers as those of Python: int64 and float64.  It restores either.
        are_numbers = not spec.shape and spec.dtype.family == own.dtype.family
        if spec.dtype is not own.dtype and not are_numbers and cast is None:
            hints = (f"to cast this tensor, pass --cast {own.dtype}",)
            message = f"this tensor is {spec.dtype}, but {own.key} of TEMPLATE is {own.dtype}"
            raise ConversionError(message, path=plan.source, key=move.source or spec.key, hints=hints)


def keras_step(reader: FormatReader, keys: Sequence[str]) -> KerasStep | None:
    """Return a step of Keras in that form; None if it is none.

    Raises ConversionError if it does not fit its own configuration, and for a weight or a slot among
    `keys` that the file has no place for.
    """
    facts_of_tree = reader.facts if reader.format.is_tree else None
    config = facts_of_tree.values.get(_CONFIG) if isinstance(facts_of_tree, TreeFacts) else None
    above = f"/{_VARIABLES[0]}"
    item = next((f"/{key}".partition(above)[0] for key in reader.specs if above in f"/{key}"), None)
    if config is None or item is None:
        return None
    try:
        return _Step(reader, f"{item}/".removeprefix("/"), str(config)).as_reader(keys)
    except ModelError as error:
        path = reader.location.path
        raise ConversionError(f"the step does not fit its own configuration: {error}", path=path) from error


class _Step:
    """A step, whose tensors are looked for by the variables of its model."""

    def __init__(self, reader: FormatReader, item: str, config: str) -> None:
        self._reader = reader
        self._item = item
        self._facts = KerasFacts(IN_WEIGHTS, version_of_config(config, None), config=config)
        self._model = from_config(config)
        give_names(self._model)
        self._paths: dict[int, str] = {}
        """The path of each variable of the model."""

    def _below(self, part: str) -> dict[str, str]:
        """Return keys by what follows a part of the tree."""
        above = self._item + part
        return {key.removeprefix(above): key for key in self._reader.specs if key.startswith(above)}

    def as_reader(self, keys: Sequence[str]) -> KerasStep:
        placed, names = weights_layout(self._model)
        self._find([variable for variable, _ in placed])
        placed += [*self._optimizer(names)]
        relations = [Relation((variable.key,), (path,), NOTHING) for variable, path in placed if variable.key]
        self._refuse_rest(keys, {relation.sources[0] for relation in relations})
        return KerasStep(self._reader, relations, self._facts._replace(object_names=names))

    def _find(self, variables: Sequence[Variable]) -> None:
        """Give variables the keys of their paths, which begin with the names of the models around them."""
        there = {**self._below(_VARIABLES[1]), **self._below(_VARIABLES[0])}
        for variable in variables:
            name = variable.full_name
            found = [name] if name in there else [path for path in there if path.endswith(f"/{name}")]
            if len(found) != 1:
                what = "is missing" if not found else f"can be {found[0]!r} or {found[1]!r}"
                raise ModelError(f"{name!r} {what}")
            variable.key, self._paths[id(variable)] = there[found[0]], found[0]

    def _optimizer(self, names: dict[str, str]) -> Iterator[tuple[Variable, str]]:
        """Yield the variables of the optimizer where a file has them, and add its name to `names`."""
        below = self._below(_OPTIMIZER)
        wanted = wanted_by(self._facts)
        counted = [path.removesuffix(_COUNT) for path in below if path.endswith(_COUNT)]
        scaler = next((path for path in counted if path == SCALER), None)
        inner = next((path for path in counted if path != scaler), None)
        if inner is None or wanted is None or wanted.row is None:
            return
        listed = self._listed(below, inner, wanted.row)
        groups = {_OPTIMIZER_VARS: (inner, listed)}
        if scaler is not None:
            own = [key for name in WRAPPER.values() if (key := below.get(f"{scaler}/{name}")) is not None]
            groups = {_OPTIMIZER_VARS: (scaler, [*own, *listed]), _INNER_VARS: (inner, listed)}
        for group, (path, keys) in groups.items():
            names[group] = path.rpartition("/")[2]
            for number, key in enumerate(keys):
                yield Variable("", False, key=key), f"{group}/{number}"

    def _listed(self, below: Mapping[str, str], name: str, row: Optimizer) -> list[str]:
        """Return the keys of an optimizer's variables in the order of Keras 3."""
        # With TensorFlow, the slots of an optimizer in another one are below the other one's name.
        heads = (f"{name}/", f"{SCALER}/{name}/")
        held = {
            path.removeprefix(head): key
            for path, key in below.items()
            for head in heads
            if path.startswith(head)
        }
        listed = [held["iteration"], *([held[_RATE]] if _RATE in held else [])]
        variables = trained_order(self._model)
        for meanings in row.listed(KERAS3):
            for variable in variables:
                keys = (self._slot(held, variable, row.slot(meaning).keras3) for meaning in meanings)
                listed += [key for key in keys if key is not None]
        if row.name == "Nadam":
            # Keras gives the product of the momentums no name of its own, and JAX' programs no optimizer's.
            products = [
                key for path, key in below.items() if _UNNAMED.fullmatch(path.removeprefix(f"{name}/"))
            ]
            listed += products if len(products) == 1 else []
        return listed

    def _slot(self, held: Mapping[str, str], variable: Variable, slot: str | None) -> str | None:
        path = self._paths.get(id(variable), "").replace("/", "_")
        return held.get(f"{path}_{slot}") if slot else None

    def _refuse_rest(self, keys: Sequence[str], used: set[str]) -> None:
        """Raise ModelError for a variable, or optimizer state, that belongs to no layer."""
        for key in keys:
            is_state = self._reader.kinds.get(key) == "state" or is_seed(self._reader.specs[key])
            if key not in used and not is_state:
                raise ModelError(f"{key!r} does not belong to a layer or an optimizer that ckpt knows")
