"""In words: which checkpoints of a matrix are copies, which share layers, and which are equal by chance."""

from __future__ import annotations

from itertools import combinations, groupby
from typing import TYPE_CHECKING

from formats.core.words import counted, first_of

from ..look.listing import TOP_LEVEL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from .matrix import Group, Matrix

_Pair = tuple[int, int]


def equal_layers(found: Matrix) -> list[str]:
    """Return sentences that name the checkpoints by their numbers in the matrix."""
    count = len(found.paths)
    copies = _sets(found.copies, count)
    lines = [f"checkpoints {_numbers(some)}: every tensor is equal" for some in copies]
    shared: dict[tuple[int, ...], list[str]] = {}
    for group in found.groups:
        pairs = {(one, other) for one, other in combinations(range(count), 2) if group.is_equal(one, other)}
        for some in _sets(pairs, count):
            shared.setdefault(some, []).append(group.prefix or TOP_LEVEL)
    whole_layers = {
        some: layers for some, layers in shared.items() if not any({*some} <= {*all_} for all_ in copies)
    }
    for some, layers in whole_layers.items():
        what = counted(len(layers), "layer is", "layers are")
        of_all = f" of {len(found.groups):,}" if len(layers) < len(found.groups) else ""
        lines.append(f"checkpoints {_numbers(some)}: {what} equal{of_all}: {first_of(layers)}")
    if whole_layers:
        lines.append("Frozen weights or a common ancestor explain equal layers.")
    return lines + _by_chance(found.groups)


def _by_chance(groups: Iterable[Group]) -> list[str]:
    """Return which layers are equal without a meaning, and why."""
    by_reason: dict[str, list[str]] = {}
    for group in groups:
        cells = [cell for at, row in enumerate(group.rel_l2) for cell in row[:at]]
        if not group.is_telling and 0 in cells:
            by_reason.setdefault(group.content, []).append(group.prefix or TOP_LEVEL)
    return [
        f"{first_of(layers)}: only {reason}; any two checkpoints can be equal there"
        for reason, layers in by_reason.items()
    ]


def _sets(pairs: Collection[_Pair], count: int) -> list[tuple[int, ...]]:
    """Return sets in which each pair of checkpoints is one of these; a lone pair if a set is incomplete."""
    together = [{at} for at in range(count)]
    for one, other in sorted(pairs):
        if together[one] is not together[other]:
            together[one] |= together[other]
            for at in together[other]:
                together[at] = together[one]
    found: list[tuple[int, ...]] = []
    for some in {min(each): tuple(sorted(each)) for each in together}.values():
        within = [pair for pair in combinations(some, 2) if pair in pairs]
        found += [some] if 2 * len(within) == len(some) * (len(some) - 1) > 0 else within
    return found


def _numbers(places: Sequence[int]) -> str:
    """Return the numbers of checkpoints as text: 1 and 2; 1 to 4 and 7."""
    words: list[str] = []
    for _, run in groupby(enumerate(places), lambda each: each[1] - each[0]):
        numbers = [f"{place + 1:,}" for _, place in run]
        words += [f"{numbers[0]} to {numbers[-1]}"] if len(numbers) > 2 else numbers
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
