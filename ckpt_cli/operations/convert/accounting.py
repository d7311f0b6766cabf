"""Account for every tensor of TEMPLATE: it gets SRC's value, is kept on request, or is an error.

An unaccounted tensor would be an untrained weight in a checkpoint that looks converted.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from formats.core.dtypes import VARIANT
from formats.core.words import command_line, counted, first_of
from formats.errors import ConversionError
from formats.find.resolve import spelling
from formats.model.object_keys import TABLE_SUFFIXES, table_part
from formats.model.object_names import is_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.core.dtypes import DType
    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader


_PAIR = "to pair tensors by hand, pass --map or --sub"
KEEP_OPTIMIZER = "pass --keep-optimizer to convert the weights and keep TEMPLATE's optimizer state"
"""The hint if the optimizer cannot continue as TEMPLATE's, but all weights have their values."""

_OF_MODEL, _OF_OPTIMIZER = frozenset(("variable", "state")), frozenset(("slot", "optimizer"))
"""Kinds of what a model needs, and of what its training does."""

_MOST_LISTED = 10
_MOST_WARNED = 100
_MOST_LEFT_OUT = 8
"""A longer command line is not worth pasting."""


class Account(NamedTuple):
    """SRC, the keys chosen of it, TEMPLATE, and the key in SRC for each key of TEMPLATE that gets its value.

    `missing` are the keys of TEMPLATE that get no value.
    """

    source: FormatReader
    keys: Sequence[str]
    template: FormatReader
    pairs: Mapping[str, str]
    missing: Sequence[str]

    @property
    def weights(self) -> list[str]:
        """The weights of TEMPLATE without a value; the entries of a hash table count as such."""
        kinds = self.template.kinds
        return [
            key
            for key in self.missing
            if kinds.get(key) == "variable" or (table_part(key) and not self._stays_empty(key))
        ]

    def _stays_empty(self, key: str) -> bool:
        """Whether a hash table of TEMPLATE has no entries, and neither has any in SRC."""
        is_empty = self.template.specs[key].shape[:1] == (0,)
        specs = self.source.specs.values()
        return is_empty and not any(_is_of_table(spec) and spec.shape[:1] != (0,) for spec in specs)

    @property
    def slots(self) -> list[str]:
        kinds = self.template.kinds
        return [key for key in self.missing if kinds.get(key) == "slot"]

    @property
    def _counts(self) -> list[str]:
        """The integers of TEMPLATE's program without a value, such as its step; its saves TEMPLATE counts."""
        kinds, specs = self.template.kinds, self.template.specs
        return [key for key in self.missing if is_step(key, specs[key], kinds.get(key))]

    def check(self, *, partial: bool, keep_optimizer: bool) -> tuple[str, ...]:
        """Return warnings about what TEMPLATE keeps.

        Raises ConversionError for what no option allows it to keep.
        """
        weights, slots = self.weights, [] if keep_optimizer else self.slots
        if (weights or slots) and not partial:
            self._refuse_missing(weights, slots)
        self._refuse_untrained()
        kept = (("weight", weights), ("slot", slots))
        warnings = [self._warning(what, keys, "because of --partial") for what, keys in kept if keys]
        if counts := self._counts:
            warnings.append(self._warning("integer", counts, "because SRC has no such value"))
        return tuple(warnings)

    def _refuse_missing(self, weights: Sequence[str], slots: Sequence[str]) -> None:
        lacking = [*weights, *slots]
        listed = ", ".join(repr(shown(self.template, key)) for key in lacking[:_MOST_LISTED])
        more = f" and {len(lacking) - _MOST_LISTED} more" if len(lacking) > _MOST_LISTED else ""
        what = counted(len(lacking), "tensor of TEMPLATE gets", "tensors of TEMPLATE get")
        left, hints = self._left_over(_OF_MODEL if weights else _OF_OPTIMIZER)
        if not weights:
            hints.append(KEEP_OPTIMIZER)
        elif self._is_any_weight_paired or not self._chosen_weights:
            hints.append("to keep TEMPLATE's values for these tensors, pass --partial")
        error = ConversionError(
            f"{what} no value: {listed}{more}", path=self.source.location.path, hints=tuple(hints)
        )
        error.facts = (left,)
        raise error

    def _left_over(self, of: frozenset[str]) -> tuple[str, list[str]]:
        """Return which tensors of SRC have no pair, and hints that find pairs for them."""
        used, kinds = set(self.pairs.values()), self.source.kinds
        free = [key for key in self.keys if key not in used and kinds.get(key) in of]
        if not free:
            return "all tensors of SRC are paired", []
        unused = ", ".join(map(repr, free[:3]))
        count = counted(len(free), "tensor of SRC is", "tensors of SRC are")
        return f"{count} unpaired, such as {unused}", [self._look(), _PAIR]

    def _look(self) -> str:
        return look_at_names(self.source, self.template)

    def _refuse_untrained(self) -> None:
        """Reject the unchanged template as a result if weights of SRC should have been converted."""
        chosen = self._chosen_weights
        if not chosen or self._is_any_weight_paired:
            return
        names = first_of([repr(shown(self.source, key)) for key in chosen])
        count = counted(len(chosen), "weight")
        message = f"none of the {count} of SRC matches a weight of TEMPLATE: {names}"
        error = ConversionError(message, path=self.source.location.path, hints=(self._look(), _PAIR))
        error.facts = ("nothing was written, because the result would be untrained",)
        raise error

    @property
    def _chosen_weights(self) -> list[str]:
        """The chosen weights of SRC; a lone integer counts steps or saves, regardless of its kind."""
        kinds, specs = self.source.kinds, self.source.specs
        weights = [key for key in self.keys if kinds.get(key) == "variable"]
        return [key for key in weights if specs[key].shape or specs[key].dtype.is_floating]

    @property
    def _is_any_weight_paired(self) -> bool:
        return not set(self.pairs.values()).isdisjoint(self._chosen_weights)

    def _warning(self, what: str, keys: Sequence[str], why: str) -> str:
        names = first_of([repr(shown(self.template, key)) for key in keys], _MOST_WARNED)
        verb = "keeps its value" if len(keys) == 1 else "keep their values"
        return f"{counted(len(keys), what)} of TEMPLATE {verb}, {why}: {names}"


def _is_of_table(spec: TensorSpec) -> bool:
    """Whether a tensor may be half of a hash table, in a format of names too."""
    return bool(table_part(spec.key)) or spec.key.endswith(TABLE_SUFFIXES)


def look_at_names(source: FormatReader, template: FormatReader) -> str:
    """Return the command that proposes pairs; where formats do not tell enough, one that shows the names."""
    one, other = spelling(source.location), spelling(template.location)
    both_by_name = source.format.is_by_name and template.format.is_by_name
    has_objects = source.format.is_by_name or source.object_graph is not None
    if both_by_name or (template.object_graph is not None and has_objects):
        return (
            f"to propose pairs from structure: {command_line('match', one, other, '--save-map', 'map.tsv')}"
        )
    return f"to see the names on both sides: {command_line('diff', '--no-values', one, other)}"


def refuse_left(source: FormatReader, left: Mapping[str, str]) -> None:
    """Refuse slots that have no place in TEMPLATE, each with its optimizer."""
    if not left:
        return
    listed = ", ".join(repr(shown(source, key)) for key in list(left)[:3])
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    owners = " and ".join(dict.fromkeys(left.values()))
    what = counted(len(left), "slot")
    message = (
        f"{what} of {owners} {'has' if len(left) == 1 else 'have'} no counterpart in TEMPLATE: {listed}{more}"
    )
    hints = (KEEP_OPTIMIZER, "to leave out some of the slots, pass --exclude")
    raise ConversionError(message, path=source.location.path, hints=hints)


def refuse_different(
    source: FormatReader, template: FormatReader, pairs: Mapping[str, str], cast: DType | None
) -> None:
    """Refuse pairs of another shape, and of another dtype without a cast."""
    shapes, dtypes = [], []
    for key, from_key in pairs.items():
        mine, theirs = source.specs[from_key], template.specs[key]
        rows = 1 if has_any_rows(theirs) else 0
        if len(mine.shape) != len(theirs.shape) or mine.shape[rows:] != theirs.shape[rows:]:
            shapes.append((key, from_key, list(mine.shape), list(theirs.shape)))
        elif mine.dtype is not theirs.dtype and not _castable(mine, theirs, cast):
            dtypes.append((key, from_key, mine.dtype, theirs.dtype))
    for what, found, hint in (
        ("shape", shapes, _leave_out([from_key for _, from_key, _, _ in shapes])),
        (
            "dtype",
            dtypes,
            "pass --cast float32 to cast floating-point tensors; TensorFlow does not cast when it restores",
        ),
    ):
        if found:
            differences = [
                f"{from_key!r} of SRC is {mine}, but {shown(template, key)!r} of TEMPLATE is {theirs}"
                for key, from_key, mine, theirs in found[:3]
            ]
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            pairs_differ = counted(len(found), "pair differs", "pairs differ")
            message = f"{pairs_differ} in {what}: {'; '.join(differences)}{more}"
            raise ConversionError(message, path=source.location.path, hints=(hint,))


def _leave_out(keys: Sequence[str]) -> str:
    if len(keys) > _MOST_LEFT_OUT:
        return (
            "pass --partial --exclude KEY to leave a tensor out; TensorFlow cannot restore a "
            "tensor with another shape"
        )
    options = " ".join(f"--exclude {shlex.quote(key)}" for key in keys)
    return (
        f"pass --partial {options} to keep TEMPLATE's values; TensorFlow cannot restore a "
        "tensor with another shape"
    )


def _castable(mine: TensorSpec, theirs: TensorSpec, cast: DType | None) -> bool:
    return cast is not None and mine.dtype.is_floating and theirs.dtype.is_floating


def shown(reader: FormatReader, key: str) -> str:
    """Return what people call a tensor: its object path, or else its key."""
    return place(reader.object_paths.get(key), key) or key


def place(path: str | None, key: str) -> str | None:
    """Return what a saver would call the tensor at an object path: of a hash table, each of the two."""
    return path and path + table_part(key)


def has_any_rows(spec: TensorSpec) -> bool:
    """Whether a tensor takes as many rows as were saved: of hash tables, and states of iterators."""
    return bool(table_part(spec.key)) or spec.dtype is VARIANT
