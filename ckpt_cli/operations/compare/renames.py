"""Finding tensors again under another key: the same dtype, shape and bytes on both sides.

Only tensors whose dtype and shape occur on both sides are compared, by their checksums. If several have the
same content, as biases of zeros do, keys with similar ends are paired: `enc/bias` and `encoder/bias` rather
than `enc/bias` and `dec/beta`.
"""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from formats.core.dtypes import INVALID

from .comparison import Operand, checksum, compare, same_checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.model.reader import FormatReader


_DEEPEST_SUFFIX = 8
"""The components from the end of a key that are compared; fewer distinguish layers."""

_CHECKSUM_BITS = 32

_Found = tuple[int, str]
"""The identity of a tensor's content: a number for its dtype and shape, and its checksum; and its key."""


def find_renames(
    left: FormatReader, right: FormatReader, removed: Sequence[str], added: Sequence[str]
) -> dict[str, str]:
    """Return new keys by old ones: tensors of `removed` that are in `added` byte for byte."""
    shared = _specs(left, removed) & _specs(right, added)
    numbers = {spec: number for number, spec in enumerate(sorted(shared))}
    content = itemgetter(0)
    # Sorted, not in a dict of lists: a hundred thousand lists of one key each weigh more than the keys.
    olds = ((found, key, True) for found, key in sorted(_contents(left, removed, numbers), key=content))
    news = ((found, key, False) for found, key in sorted(_contents(right, added, numbers), key=content))
    renamed = {}
    for _, group in groupby(merge(olds, news, key=content), content):
        same = list(group)
        old_keys = [key for _, key, is_old in same if is_old]
        new_keys = [key for _, key, is_old in same if not is_old]
        for old, new in pairs_by_ending(old_keys, new_keys):
            if _is_same(Operand(left, old), Operand(right, new)):
                renamed[old] = new
    return renamed


def _specs(reader: FormatReader, keys: Sequence[str]) -> set[tuple[str, tuple[int, ...]]]:
    specs = (reader.specs[key] for key in keys)
    return {(spec.dtype.name, spec.shape) for spec in specs if spec.dtype is not INVALID}


def _contents(
    reader: FormatReader, keys: Sequence[str], numbers: Mapping[tuple[str, tuple[int, ...]], int]
) -> Iterator[_Found]:
    """Yield what each tensor holds; a listing's tensors without a checksum are left out."""
    for key in keys:
        spec = reader.specs[key]
        number = numbers.get((spec.dtype.name, spec.shape))
        if number is None:
            continue
        operand = Operand(reader, key)
        if not operand.has_values and operand.tensor.stored.crc32c is None:
            continue
        yield number << _CHECKSUM_BITS | checksum(operand.tensor), key


def _is_same(left: Operand, right: Operand) -> bool:
    """Whether stored checksums agree, or else the values, because a computed checksum proves nothing."""
    return bool(same_checksum(left.tensor, right.tensor)) or compare(left, right).differing == 0


def pairs_by_ending(old_keys: list[str], new_keys: list[str]) -> list[tuple[str, str]]:
    """Return pairs of keys, those first whose ends have most components in common."""
    if len(old_keys) == len(new_keys) == 1:
        return [(old_keys[0], new_keys[0])]
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
