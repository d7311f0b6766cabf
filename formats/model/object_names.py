"""Keys of object-based checkpoints in formats without an object graph, read by their spelling.

net/l1/kernel                                a variable, whose suffix an export has dropped
net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE     the same as it was stored
net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m    its slot
optimizer/iter, optimizer/_variables/2       an optimizer's number, and a slot in its list
save_counter, step                           integers at the root
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from .object_keys import (
    ATTRIBUTES,
    GRAPH_KEY,
    OPTIMIZER_SLOT,
    SAVE_COUNTER,
    TABLE,
    TABLE_SUFFIXES,
    VALUE_SUFFIX,
    VARIABLE_VALUE,
    escape,
    is_one_part,
    unescape,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..core.spec import TensorSpec


SLOT_MARK = f"/{OPTIMIZER_SLOT}/"
_TAIL = f"/{ATTRIBUTES}/"
_INNER = "/inner_optimizer"
_ATTRIBUTES = frozenset((*(TABLE + suffix for suffix in TABLE_SUFFIXES), "py_state"))
"""Attributes saved under names that are not in capitals, unlike `VARIABLE_VALUE` and `ITERATOR_STATE`."""

_MOST_PARTS = 100
_LIST, _VARIABLES = "_variables", "_trainable_variables"
_COUNT, _ITERATIONS = "iter", "_iterations"
_NAMES_OF_KERAS = frozenset(["Adam", "Adamax", "Nadam", "SGD", "Adagrad", "Adadelta", "RMSprop", "Ftrl"])


class ObjectName(NamedTuple):
    """A decoded key, its parts as spelled; `optimizer` and `slot` are those of a slot variable."""

    path: str
    optimizer: str
    slot: str
    attribute: str


def plain_key(key: str) -> str:
    """Return a key without the suffix that all variables' keys have; none gets the graph's own key."""
    plain = key.removesuffix(VALUE_SUFFIX)
    return key if plain == GRAPH_KEY else plain


def object_name(key: str) -> ObjectName:
    """Return what a key says, with or without its suffix."""
    stem, tail, attribute = key.rpartition(_TAIL)
    if not (tail and stem and _is_attribute(attribute)):
        stem, attribute = key, VARIABLE_VALUE
    path, mark, below = stem.partition(SLOT_MARK)
    optimizer, _, slot = below.rpartition("/")
    if not (mark and path and optimizer and slot):
        return ObjectName(stem, "", "", attribute)
    return ObjectName(path, optimizer, slot, attribute)


def has_only_escapes(names: Iterable[ObjectName]) -> bool:
    """Whether each dot of some names is part of an escape."""
    parts = {part for name in names for path in name[:3] for part in path.split("/")}
    return all(escape(unescape(part)) == part for part in parts)


def _is_attribute(name: str) -> bool:
    """Whether TensorFlow's objects save something under a name.

    `.S` has capitals alone, too, and is how a path spells a slash.
    """
    return name in _ATTRIBUTES or (name.isupper() and name.isidentifier())


def is_lone_integer(spec: TensorSpec) -> bool:
    """Whether a tensor is one integer."""
    return not spec.shape and spec.dtype.family in ("int", "uint")


def counts_at_root(key: str, spec: TensorSpec) -> bool:
    """Whether a tensor is one integer at the root of its program, as the guide's `step` is."""
    return is_lone_integer(spec) and is_one_part(plain_key(key))


def is_save_counter(key: str, spec: TensorSpec) -> bool:
    return plain_key(key) == SAVE_COUNTER and not spec.shape and spec.dtype.name == "int64"


def is_step(key: str, spec: TensorSpec, kind: str | None) -> bool:
    """Whether a tensor is a program's own step count. Save counters are excluded, because they restart."""
    return kind == "state" and counts_at_root(key, spec) and plain_key(key) != SAVE_COUNTER


def is_named_optimizer(path: str) -> bool:
    """Whether the name before a hyperparameter is one that Keras gives optimizers in name-based
    checkpoints.
    """
    return path.startswith("training/") or path in _NAMES_OF_KERAS


def _is_below(paths: frozenset[str], key: str) -> bool:
    """Whether a key is below one of some paths; of a very long key only the first parts are compared."""
    at = key.find("/") if paths else -1
    for _ in range(_MOST_PARTS):
        if at < 0 or key[:at] in paths:
            break
        at = key.find("/", at + 1)
    return at >= 0 and key[:at] in paths


class ObjectNames:
    """The keys of a file, and which of them are spelled as those of objects are."""

    def __init__(self, specs: Mapping[str, TensorSpec]) -> None:
        self._specs = specs

    @cached_property
    def is_marked(self) -> bool:
        """Whether the tensors were an object-based checkpoint's, which their keys leave no doubt of."""
        return bool(self._certain) or self.has_slots

    @cached_property
    def has_slots(self) -> bool:
        """Whether a key is that of a slot, or has the suffix of objects' keys."""
        lists = tuple(f"{path}/{_LIST}/" for path in self._certain)
        return any(
            key.startswith(lists) or object_name(key).slot or object_name(key).path != key
            for key in self._specs
            if SLOT_MARK in key or _TAIL in key or lists
        )

    @cached_property
    def are_distinct(self) -> bool:
        """Whether no two keys say the same, as one with and one without its suffix do."""
        return len({object_name(key) for key in self._specs}) == len(self._specs)

    @cached_property
    def is_escaped(self) -> bool:
        """Whether dots in keys are escaped as TensorFlow does, doubled, and occur nowhere else."""
        return any(".." in key for key in self._specs) and has_only_escapes(map(object_name, self._specs))

    @cached_property
    def has_counter(self) -> bool:
        """Whether one of the tensors is a save counter."""
        return any(
            key in self._specs and is_save_counter(key, self._specs[key])
            for key in (SAVE_COUNTER, SAVE_COUNTER + VALUE_SUFFIX)
        )

    @cached_property
    def _certain(self) -> frozenset[str]:
        """Paths of optimizers that have slots, or count their steps as Keras' newer optimizers do."""
        found = set()
        for key, spec in self._specs.items():
            if SLOT_MARK in key:
                found.add(object_name(key).optimizer)
            elif key.endswith((f"/{_ITERATIONS}", f"/{_ITERATIONS}{VALUE_SUFFIX}")) and is_lone_integer(spec):
                found.add(plain_key(key).rpartition("/")[0])
        found |= {path.removesuffix(_INNER) for path in found}
        return frozenset(found - {""})

    @cached_property
    def _counting(self) -> frozenset[str]:
        """Paths of what has an integer `iter`, as legacy optimizers have."""
        ends = (f"/{_COUNT}", f"/{_COUNT}{VALUE_SUFFIX}")
        found = {
            plain_key(key).rpartition("/")[0]
            for key, spec in self._specs.items()
            if key.endswith(ends) and is_lone_integer(spec)
        }
        return frozenset(path for path in found if path and not is_named_optimizer(path))

    @cached_property
    def _shapes(self) -> frozenset[tuple[int, ...]]:
        """The shapes of weights, which those of their slots are."""
        return frozenset(
            spec.shape
            for key, spec in self._specs.items()
            if spec.dtype.is_floating
            and SLOT_MARK not in key
            and (not _is_below(self._certain, key) or f"/{_VARIABLES}/" in key)
        )

    def kind(self, key: str, spec: TensorSpec) -> str | None:
        """Return the kind that a key's spelling implies, or None."""
        name = object_name(key)
        if name.attribute != VARIABLE_VALUE:
            return "state"
        if name.slot:
            return "slot"
        if _is_below(self._certain, name.path):
            above, _, last = name.path.rpartition("/")
            if above.endswith(f"/{_VARIABLES}"):
                return "variable"
            is_listed = above.endswith(f"/{_LIST}") and last.isdigit()
            return "slot" if is_listed and spec.shape in self._shapes else "optimizer"
        if not spec.shape and _is_below(self._counting, name.path):
            return "optimizer"
        return "state" if counts_at_root(key, spec) else None
