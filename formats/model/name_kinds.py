"""The kind of a tensor by its name: variable, slot, optimizer, state or graph.

The rules follow the names that TensorFlow's optimizers give their slots. A slot's name counts only if its
variable exists with the same shape. `formats.tf.graph.object_kinds` uses the edges of a graph instead.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import compress, islice
from typing import TYPE_CHECKING, NamedTuple

from ..core.dtypes import STRING, VARIANT
from .object_keys import GRAPH_KEY
from .object_names import ObjectNames, is_named_optimizer

if TYPE_CHECKING:
    from ..core.spec import TensorSpec

# Suffix -> slot names in the order of their numbers, for the optimizers of tf.compat.v1.train
# and tensor2tensor, and the variables that other optimizers make for themselves.
TF1_SLOTS: dict[str, tuple[str, ...]] = {
    "Adam": ("m", "v"),
    "Momentum": ("momentum",),
    "Adagrad": ("accumulator",),
    "RMSProp": ("rms", "momentum"),
    "Adadelta": ("accum", "accum_update"),
    "Ftrl": ("accum", "linear"),
    "ProximalAdagrad": ("accumulator",),
    "AdagradDA": ("gradient_accumulator", "gradient_squared_accumulator"),
    "adam_m": ("m",),
    "adam_v": ("v",),
}
KERAS_SLOTS = frozenset(
    ("m", "v", "vhat", "momentum", "accumulator", "accum_grad", "accum_var", "rms", "mg", "linear")
)
_HYPERPARAMETERS = frozenset(
    [
        "iter",
        "beta",
        "beta_1",
        "beta_2",
        "decay",
        "learning_rate",
        "learning_rate_power",
        "momentum",
        "momentum_cache",
        "rho",
        "epsilon",
        "l1_regularization_strength",
        "l2_regularization_strength",
    ]
)
_POWER = re.compile(r"beta[12]_power(_[0-9]+)?")
NUMBERED = re.compile(r"(.+?)(?:_([0-9]+))?", re.DOTALL)
"""A name, and the number after it that makes it unique."""

_ADAFACTOR = re.compile(r"(.+)_slot_(v|m|vr|vc)", re.DOTALL)
_MOST_COMPONENTS = 100
_AVERAGE = "ExponentialMovingAverage"


class NamedSlot(NamedTuple):
    """A slot's name: its variable's key, and the text around it.

    `prefix` and `suffix` surround the variable's name: `training/Adam/` and `/m`,
    or nothing and `/Adam_1`.
    """

    variable: str
    prefix: str
    suffix: str


def _less_one_dimension(factor: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether `factor` is `shape` less one of its dimensions, as Adafactor keeps row and column means."""
    return len(shape) - len(factor) == 1 and all(factor.count(dim) <= shape.count(dim) for dim in factor)


@lru_cache(1 << 12)  # names of weights and slots, which are the same below every layer
def _base(last: str) -> str:
    """Return the last part of a key without the number that makes it unique."""
    numbered = NUMBERED.fullmatch(last)
    return numbered[1] if numbered else last


@lru_cache(1 << 12)
def _is_power(last: str) -> bool:
    return _POWER.fullmatch(last) is not None


def _too_deep(key: str) -> bool:
    """Whether a key has so many components that trying each would take its length squared."""
    return key.count("/") > _MOST_COMPONENTS


class _Names:
    """The keys of a name-based checkpoint, prepared to look up each other."""

    def __init__(self, specs: Mapping[str, TensorSpec]) -> None:
        self.specs = specs
        # In this order, keys that begin with another key follow it directly.
        ordered = sorted(specs)
        begun = compress(ordered, map(str.startswith, islice(ordered, 1, None), ordered))
        self.shapes = {key: specs[key].shape for key in begun}
        """Shapes of keys with which others begin: the variables of nearly all slots are among them."""

        # An Adam of another name that minimized within a scope has its powers there.
        end = "/beta1_power"
        self.scopes = {key.removesuffix(end) for key in specs if key.endswith(end) and key.count("/") == 1}

    def slot(self, key: str, spec: TensorSpec) -> NamedSlot | None:
        """Return the slot that a key is, or None; of `w/Adam/Adam` that is the one of `w/Adam`."""
        head, _, last = key.rpartition("/")
        if not last or last.startswith(_AVERAGE) or _too_deep(key):
            return None
        # <v>/Adam, <v>/t_0/Adagrad, <v>/adam_m: the optimizer may have any name.
        at = len(head) if self.shapes else 0
        while at > 0:
            if self.shapes.get(key[:at]) == spec.shape:
                return NamedSlot(key[:at], "", key[at:])
            at = key.rfind("/", 0, at)
        base = _base(last)
        if base == "Adafactor" and head in self.shapes and _less_one_dimension(spec.shape, self.shapes[head]):
            return NamedSlot(head, "", f"/{last}")
        adafactor = _ADAFACTOR.fullmatch(key) if "_slot_" in key else None
        if adafactor and adafactor[1] in self.shapes:
            variable, slot = adafactor[1], adafactor[2]
            shape = self.shapes[variable]
            factored = slot in ("vr", "vc")
            fits = _less_one_dimension(spec.shape, shape) if factored else shape == spec.shape
            return NamedSlot(variable, "", f"_slot_{slot}") if fits else None
        # training/<Opt>/<v>/<slot> and <Opt>/<v>/<slot>; <scope>/<v>/Adam, minimized in a variable scope.
        if last not in KERAS_SLOTS and base not in TF1_SLOTS and head.partition("/")[0] not in self.scopes:
            return None
        parts = head.split("/")
        for depth in range(1, 3 if last in KERAS_SLOTS else len(parts)):
            found = self.specs.get("/".join(parts[depth:]))
            if found is not None and found.key and found.shape == spec.shape:
                return NamedSlot(found.key, "/".join(parts[:depth]) + "/", f"/{last}")
        return None


def named_slots(specs: Mapping[str, TensorSpec]) -> dict[str, NamedSlot]:
    """Return the slots of a name-based checkpoint by key; none has a slot for its variable.

    Of `w/Adam/Adam` both are slots of `w`.
    """
    return _named_slots(_Names(specs))


def _named_slots(names: _Names) -> dict[str, NamedSlot]:
    found = ((key, names.slot(key, spec)) for key, spec in names.specs.items())
    slots = {key: slot for key, slot in found if slot is not None}
    # The variable's key is the shorter one, so that what it is of itself is settled first.
    for key in sorted(slots, key=len):
        slot = slots[key]
        above = slots.get(slot.variable)
        if above is not None:
            slots[key] = NamedSlot(above.variable, slot.prefix + above.prefix, above.suffix + slot.suffix)
    return slots


class NameKinds(Mapping[str, str]):
    """Kinds by key, each computed at its first use, because a listing starts before it has all of a
    million.
    """

    def __init__(self, specs: Mapping[str, TensorSpec], slots: Mapping[str, NamedSlot] | None) -> None:
        self._specs = specs
        self._given = slots

    @cached_property
    def _names(self) -> _Names:
        return _Names(self._specs)

    @cached_property
    def _objects(self) -> ObjectNames:
        return ObjectNames(self._specs)

    @cached_property
    def _slot_prefixes(self) -> set[str]:
        slots = _named_slots(self._names) if self._given is None else self._given
        return {slot.prefix for slot in slots.values() if slot.prefix}

    def _is_slot(self, key: str, spec: TensorSpec) -> bool:
        return self._names.slot(key, spec) is not None if self._given is None else key in self._given

    def _is_hyperparameter(self, key: str, spec: TensorSpec) -> bool:
        head, _, last = key.rpartition("/")
        if last not in _HYPERPARAMETERS or spec.shape:
            return False
        return is_named_optimizer(head) or head + "/" in self._slot_prefixes

    def is_number(self, key: str, spec: TensorSpec) -> bool:
        """Whether a tensor is a number of an optimizer, as name-based checkpoints call them."""
        return _is_power(key.rpartition("/")[2]) or self._is_hyperparameter(key, spec)

    def _kind(self, key: str, spec: TensorSpec) -> str:
        if self._is_slot(key, spec):
            return "slot"
        if key == GRAPH_KEY and spec.dtype is STRING:
            return "graph"
        if key == "global_step" or spec.dtype in (STRING, VARIANT):
            return "state"
        if self.is_number(key, spec):
            return "optimizer"
        return self._objects.kind(key, spec) or "variable"

    def __getitem__(self, key: str) -> str:
        return self._kind(key, self._specs[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def items(self) -> ItemsView[str, str]:
        return _Kinds(self)


class _Kinds(ItemsView[str, str]):
    _mapping: NameKinds

    def __iter__(self) -> Iterator[tuple[str, str]]:
        kind = self._mapping._kind
        return ((key, kind(key, spec)) for key, spec in self._mapping._specs.items())


def name_kinds(specs: Mapping[str, TensorSpec], slots: Mapping[str, NamedSlot] | None = None) -> NameKinds:
    """Return the kind of each key of a name-based checkpoint, whose `slots` are looked for unless given."""
    return NameKinds(specs, slots)
