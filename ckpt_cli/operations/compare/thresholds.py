"""The conditions on which a comparison fails: changes, distances, and changes since an earlier result."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError, CorruptCheckpointError

from .diff import CHANGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.location import Location

    from .diff import DiffEntry
    from .measure import Difference


_BOUND = re.compile(
    r"(?P<measure>value>|l2>|rel_l2>|cosine<)(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?P<percent>%?)"
)

_MEASURES = {"value": "max_abs", "l2": "rel_l2", "rel_l2": "rel_l2", "cosine": "cosine"}
"""Measures of the distance between tensors: the largest |a - b|, |a - b| / |b| as norms, and the cosine."""


class Bound(NamedTuple):
    """How far apart values may be, by one of `_MEASURES`."""

    measure: str
    number: float

    def is_passed(self, difference: Difference) -> bool:
        """Whether values are farther apart; unknown distances (NaN, strings, a listing's) count as
        farther.
        """
        found: float | None = getattr(difference, _MEASURES[self.measure])
        if self.measure != "cosine":
            return found is None or not found <= self.number
        is_of_zeros = found is None and difference.norms is not None
        return not is_of_zeros and (found is None or not found >= self.number)


class FailOn(NamedTuple):
    """Kinds of changes, and bounds for those of values."""

    changes: tuple[str, ...] = CHANGES
    bounds: tuple[Bound, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FailOn:
        """Parse `added,value>1e-3,rel_l2>5%`; the ValueError for other text says what was expected."""
        changes, bounds = [], []
        for word in text.split(","):
            found = _BOUND.fullmatch(word)
            if word in CHANGES:
                changes.append(word)
            elif found is None or (found["percent"] and "l2" not in found["measure"]):
                raise ValueError(
                    f"{word!r} is not a kind of change; expected {', '.join(CHANGES)}, value>N, "
                    "rel_l2>N% or cosine<N"
                )
            else:
                number = float(found["number"]) / (100 if found["percent"] else 1)
                if math.isinf(number):
                    raise ValueError(f"{word!r} can never be reached: it is larger than any float64")
                bounds.append(Bound(found["measure"][:-1], number))
        return cls(tuple(changes), tuple(bounds))

    @property
    def needs_values(self) -> bool:
        return bool(self.bounds) or "value" in self.changes

    @property
    def with_norms(self) -> bool:
        return any(bound.measure != "value" for bound in self.bounds)

    def is_met(self, entry: DiffEntry) -> bool:
        """Whether an entry is one to fail on; a renamed tensor is one added and one removed."""
        sorts = ("added", "removed") if entry.change == "renamed" else (entry.change,)
        if not set(sorts).isdisjoint(self.changes):
            return True
        return entry.change == "value" and any(bound.is_passed(entry.difference) for bound in self.bounds)


class Baseline:
    """An earlier document of `ckpt diff --json`. A change that it already contains does not fail the command.

    A change of values is known if the distance has not grown. If the document has only a count of changed
    elements, that count must not have grown. With several pairs, each is compared with its own earlier
    result. Raises CheckpointError for another kind of file.
    """

    def __init__(self, path: Location) -> None:
        self._path = path
        document = _document(path)
        try:
            pairs = (
                {pair["name"]: pair for pair in document["pairs"]}
                if "pairs" in document
                else {None: document}
            )
            self._entries = {
                (name, *_identity(entry)): _distance(entry)
                for name, pair in pairs.items()
                for entry in pair["entries"]
            }
            only = {"removed": document.get("only_left", []), "added": document.get("only_right", [])}
            self._only = {(change, name) for change, names in only.items() for name in names}
        except (TypeError, KeyError, AttributeError) as error:
            raise _no_document(path) from error

    def knows(self, entry: DiffEntry, pair: str | None = None) -> bool:
        """Whether the earlier result has an entry, in the pair of that name if there are several."""
        row = entry.document()
        before = self._entries.get((pair, *_identity(row)))
        return before is not None and not any(map(_is_larger, _distance(row), before))

    def knows_only(self, change: str, name: str) -> bool:
        """Whether a checkpoint was on one side alone then, too."""
        return (change, name) in self._only


def _identity(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what makes two entries of documents one change of one tensor."""
    return entry["key"], entry["change"], json.dumps([entry["left"], entry["right"]])


def _distance(entry: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the distance of values, and the number of different elements if the distance is unknown."""
    largest = _number(entry["max_abs"])
    return largest, _number(entry["differing"]) if largest is None else None


def _number(value: Any) -> float | None:
    """Return a number of a document, in which some are text; None for what is none."""
    return float(value) if isinstance(value, int | float) or value in ("nan", "inf", "-inf") else None


def _is_larger(now: float | None, before: float | None) -> bool:
    if now is None or before is None:
        return now is not before
    if now != now or before != before:  # noqa: PLR0124  NaN is beyond everything, and equal to itself here
        return now != now and before == before  # noqa: PLR0124
    return now > before


_LONGEST_BASELINE = 1 << 30
"""Bytes of a document that is read."""


def _document(path: Location) -> Mapping[str, Any]:
    with path.open() as file:
        if file.size > _LONGEST_BASELINE:
            raise _no_document(path)
        data = file.read_exactly(0, file.size)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _no_document(path) from error
    if not isinstance(document, dict) or repr(document.get("schema")) != "1":  # `true` and 1.0 are equal to 1
        raise _no_document(path)
    return document


def _no_document(path: str) -> CheckpointError:
    hints = ("to make such a file, run the same diff with --json and save its output",)
    return CorruptCheckpointError("this is not the output of ckpt diff --json", path=path, hints=hints)
