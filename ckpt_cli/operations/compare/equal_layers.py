"""In words: which checkpoints of a matrix are copies, which share layers, and which are equal by chance."""

from __future__ import annotations

from itertools import combinations, groupby
from typing import TYPE_CHECKING

from formats.core.words import counted, first_of

from ..look.listing import TOP_LEVEL
from .layers import is_of_weights

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from .matrix import Group, Matrix

_Pair = tuple[int, int]


def equal_layers(found: Matrix) -> list[str]:
    """Return sentences that name the checkpoints by their numbers in the matrix."""
    count = len(found.paths)
    copies = _sets(found.copies, count)
    sentences = [f"checkpoints {numbers(some)}: every tensor is equal" for some in copies]
    layers = [group for group in found.groups if is_of_weights(group.prefix)]
    shared: dict[tuple[int, ...], list[str]] = {}
    for group in layers:
        pairs = {pair for pair in combinations(range(count), 2) if group.is_equal(pair)}
        for some in _sets(pairs, count):
            shared.setdefault(some, []).append(group.prefix)
    shown = {some: names for some, names in shared.items() if not any({*some} <= {*all_} for all_ in copies)}
    for some, names in shown.items():
        what = counted(len(names), "layer is", "layers are")
        of_all = f" of {len(layers):,}" if len(names) < len(layers) else ""
        sentences.append(f"checkpoints {numbers(some)}: {what} equal{of_all}: {_named(found, some, names)}")
    if shown:
        sentences.append(
            "Frozen weights, a common ancestor, or values that the program computes explain equal layers."
        )
    return sentences + _by_chance(layers)


def _named(found: Matrix, some: Sequence[int], names: Collection[str]) -> str:
    """Return the names of equal layers of a set of checkpoints; of a block with no others, its own name."""
    distinct_names = {
        found.rows_of[group.prefix]
        for group in found.groups
        if any(group.rel_l2[one][other] != 0 for one, other in combinations(some, 2))
    }
    rows = ((found.rows_of[name], name) for name in names)
    return first_of(
        [*dict.fromkeys((name if row in distinct_names else row) or TOP_LEVEL for row, name in rows)]
    )


def _by_chance(groups: Iterable[Group]) -> list[str]:
    """Return which layers are equal without a meaning, and why."""
    names = [
        group.prefix or TOP_LEVEL
        for group in groups
        if any(group.is_equal(pair, by_chance=True) for pair in combinations(range(len(group.rel_l2)), 2))
    ]
    why = "only tensors of one value, such as zeros, ones or a learning rate"
    return [f"{first_of(names)}: {why}; any two checkpoints can be equal there"] if names else []


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


def numbers(places: Sequence[int]) -> str:
    """Return the numbers of checkpoints as text: 1 and 2; 1 to 4 and 7."""
    words: list[str] = []
    for _, run in groupby(enumerate(places), lambda each: each[1] - each[0]):
        of_run = [f"{place + 1:,}" for _, place in run]
        words += [f"{of_run[0]} to {of_run[-1]}"] if len(of_run) > 2 else of_run
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
