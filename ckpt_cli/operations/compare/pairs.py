"""Pairing the tensors of two checkpoints by name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.core.spec import key_bytes
from formats.model.object_names import plain_key
from formats.model.reader import Family

from ..select.selection import (
    EVERYTHING,
    Selection,
    Sifted,
    note_unused_patterns,
    nothing_selected,
    prove_graph,
    sift,
    unmatched,
    with_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.model.reader import FormatReader

    from ..select.keys import Renamed
    from .diff import DiffEntry

BY = ("key", "full-name", "object-path")
"""What tensors can be paired by."""


class KeyPair(NamedTuple):
    """Keys of the two sides that name one tensor; None if a side has none.

    `key` is the name of the pair: the right side's key, or the left one's after the requested changes.
    """

    key: str
    left: str | None
    right: str | None


def labels(reader: FormatReader, by: str, changed: Renamed | None = None) -> dict[str, str]:
    """Return what each key is paired by: its name, or the key itself where it has none or shares it.

    Full names need not be unique, and pairing what shares one would mix variables up.
    `changed` has the keys and names of a checkpoint whose keys were changed.
    """
    keys = changed.keys if changed is not None else {key: key for key in reader.specs}
    if by == "key":
        return dict(keys)
    prove_graph(reader)
    named = changed if changed is not None else reader
    names = named.full_names if by == "full-name" else named.object_paths
    counts = Counter(names.values())
    unique = {old: names[new] for old, new in keys.items() if names.get(new) and counts[names[new]] == 1}
    taken = set(unique.values())
    return unique | {old: new for old, new in keys.items() if old not in unique and new not in taken}


def pair_up(
    left: FormatReader,
    right: FormatReader,
    by: str = "key",
    selection: Selection = EVERYTHING,
    changed: Renamed | None = None,
) -> list[KeyPair]:
    """Return all tensors of both sides in pairs, in the order of their keys.

    `changed` has the left side's changed keys.  A pair is chosen where one of its tensors
    is, and dropped where one of them is dropped.  Raises NothingSelectedError if a
    pattern matches nothing on either side.
    """
    names, others = _labels_of_both(left, right, by, changed)
    partners = {label: key for key, label in others.items()}
    pairs, paired = [], set()
    for key in left.specs:
        other = partners.get(names[key]) if key in names else None
        if other is not None:
            paired.add(other)
        new = key if changed is None else changed.keys[key]
        pairs.append(KeyPair(new if other is None else other, key, other))
    pairs += [KeyPair(key, None, key) for key in right.specs if key not in paired]
    chosen = _chosen(left, right, with_words(selection, left, right))
    return sorted((pair for pair in pairs if chosen(pair)), key=by_key)


def _labels_of_both(
    left: FormatReader, right: FormatReader, by: str, changed: Renamed | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels of two checkpoints. One may be an export of the other's objects."""
    names, others = labels(left, by, changed), labels(right, by)
    if by == "key" and Family.ARRAYS in (left.format.family, right.format.family):
        return _plain(left, names), _plain(right, others)
    return names, others


def _plain(reader: FormatReader, names: dict[str, str]) -> dict[str, str]:
    """Return keys as an export has them, if these are unique."""
    own = reader.own_keys
    plain = {key: plain_key(own.get(key, key) if name == key else name) for key, name in names.items()}
    return plain if len(set(plain.values())) == len(plain) else names


def by_key(named: KeyPair | DiffEntry) -> tuple[bytes, bool]:
    """Sort by key; of two with one key, what the left side has goes first."""
    return key_bytes(named.key), named.left is None


def _chosen(left: FormatReader, right: FormatReader, selection: Selection) -> Callable[[KeyPair], bool]:
    if selection.everything:
        return lambda _: True
    one, other = sifted_together((left, right), selection)
    return either_is_chosen(one, other)


def sifted_together(readers: Sequence[FormatReader], selection: Selection) -> list[Sifted]:
    """Return what a selection chooses in each checkpoint.

    Raises NothingSelectedError if a pattern matches nothing in any of them, or nothing is chosen.
    """
    found = [sift(reader, selection) for reader in readers]
    for text in found[0].unmatched:
        if all(text in each.unmatched for each in found):
            raise unmatched(readers[-1], text)
    note_unused_patterns(
        readers[-1], (text for text in found[0].idle if all(text in each.idle for each in found))
    )
    if not any(each.chosen for each in found):
        raise nothing_selected(readers[-1])
    return found


def either_is_chosen(one: Sifted, other: Sifted) -> Callable[[KeyPair], bool]:
    """Return a function that returns whether a pair is chosen: one of its tensors is, and none is dropped."""
    lefts, rights = set(one.chosen), set(other.chosen)

    def is_chosen(pair: KeyPair) -> bool:
        dropped = pair.left in one.dropped or pair.right in other.dropped
        return not dropped and (pair.left in lefts or pair.right in rights)

    return is_chosen


def better_by(left: FormatReader, right: FormatReader, by: str) -> str | None:
    """Return the value of --by that would pair tensors; None if `by` pairs some, or no value would."""
    counts = {}
    for name in BY:
        one, other = _labels_of_both(left, right, name)
        counts[name] = len({*one.values()} & {*other.values()})
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] and not counts[by] else None
