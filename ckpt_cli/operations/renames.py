"""Finding tensors again under another key: the same dtype, shape and bytes on both sides.

Only tensors whose dtype and shape occur on both sides are looked at, by their checksums.
Where several have the same content, as biases of zeros do, those go together whose keys
end alike: `enc/bias` and `encoder/bias` rather than `enc/bias` and `dec/beta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.dtypes import INVALID

from .compare import Operand, checksum, compare, same_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats import CheckpointReader

__all__ = ["find_renames", "pairs_by_ending"]

_DEEPEST_SUFFIX = 8
"""Components from the end of a key that are compared; layers are told apart by fewer."""

_Content = tuple[str, tuple[int, ...], int]


def find_renames(
    left: CheckpointReader, right: CheckpointReader, removed: Sequence[str], added: Sequence[str]
) -> dict[str, str]:
    """Return new keys by old ones: tensors of `removed` that are in `added` byte for byte."""
    shapes = _specs(left, removed) & _specs(right, added)
    lefts, rights = _by_content(left, removed, shapes), _by_content(right, added, shapes)
    found = {}
    for content, old_keys in lefts.items():
        for old, new in pairs_by_ending(old_keys, rights.get(content, [])):
            if _is_same(Operand(left, old), Operand(right, new)):
                found[old] = new
    return found


def _specs(reader: CheckpointReader, keys: Sequence[str]) -> set[tuple[str, tuple[int, ...]]]:
    specs = (reader.specs[key] for key in keys)
    return {(spec.dtype.name, spec.shape) for spec in specs if spec.dtype is not INVALID}


def _by_content(
    reader: CheckpointReader, keys: Sequence[str], shapes: set[tuple[str, tuple[int, ...]]]
) -> dict[_Content, list[str]]:
    """Return keys by dtype, shape and checksum; a listing's tensors without one are left out."""
    found: dict[_Content, list[str]] = {}
    for key in keys:
        spec = reader.specs[key]
        operand = Operand(reader, key)
        if (spec.dtype.name, spec.shape) not in shapes:
            continue
        if not operand.has_values and operand.tensor.stored.crc32c is None:
            continue
        content = (spec.dtype.name, spec.shape, checksum(operand.tensor))
        found.setdefault(content, []).append(key)
    return found


def _is_same(left: Operand, right: Operand) -> bool:
    """Whether checksums that were stored agree, or else the values: one that was computed is no proof."""
    return bool(same_checksum(left.tensor, right.tensor)) or compare(left, right).differing == 0


def pairs_by_ending(old_keys: list[str], new_keys: list[str]) -> list[tuple[str, str]]:
    """Return pairs of keys, those first whose ends have most components in common."""
    pairs = []
    olds, news = dict.fromkeys(old_keys), dict.fromkeys(new_keys)
    for depth in range(_DEEPEST_SUFFIX, -1, -1):
        waiting: dict[tuple[str, ...], list[str]] = {}
        for new in reversed(news):
            waiting.setdefault(_suffix(new, depth), []).append(new)
        for old in list(olds):
            same_end = waiting.get(_suffix(old, depth))
            if same_end:
                new = same_end.pop()
                pairs.append((old, new))
                del olds[old], news[new]
    return pairs


def _suffix(key: str, depth: int) -> tuple[str, ...]:
    return tuple(key.split("/")[-depth:]) if depth else ()
