"""Proposing which variable of one checkpoint is which of another, where no name is the same.

    bert/encoder/layer_0/attention/self/query/kernel    model/encoder/layers/0/attention/query/kernel

Only tensors of one dtype and shape are proposed for each other, and a tensor that its name calls a kernel, a
bias or a gamma only for another of the kind. Among these, three things decide, in this order: the position in
stacks of layers (`layer_0`, `layers/0`, `dense_2`), the words of the names, rare ones above common ones, and
last the order. Each proposal says which one decided; only its reader can say whether it is right. A pair by
order alone is ambiguous, because another pair of the same shape fits as well.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from formats.core.spec import TensorSpec

_MOST_ALIKE = 500
"""Tensors of one dtype, shape and place that words are compared of, each with each."""

_NUMBERED = re.compile(r"(?P<base>.*?)[-_]?(?P<number>[0-9]{1,9})", re.DOTALL)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SAME = {"weight": "kernel", "bia": "bias"}
"""Words without a last `s`, and what they mean."""

_ROLES = frozenset({"kernel", "bias", "gamma", "beta", "mean", "variance", "embedding"})
"""The role of a variable in its layer, as the last word of its name; a layer has one of each."""


class Candidate(NamedTuple):
    """A variable without a partner, and its path as users see it."""

    key: str
    path: str
    spec: TensorSpec


class Proposal(NamedTuple):
    """Two keys that may be one variable, and why; `ambiguous` where another pair fits as well."""

    source: str
    target: str
    why: str
    ambiguous: bool = False


class _CandidateName(NamedTuple):
    """A parsed candidate: its words, its role, and its rank in each of its stacks."""

    candidate: Candidate
    words: frozenset[str]
    role: str | None
    ranks: tuple[tuple[int, int], ...]

    def may_be(self, other: _CandidateName) -> bool:
        """Whether the names do not say that these are different parts of a layer."""
        return self.role == other.role or None in (self.role, other.role)


_ALIKE: tuple[Callable[[_CandidateName], object], ...] = (
    lambda named: (named.role, named.ranks),
    lambda named: named.role,
    lambda named: named.ranks,
    lambda _: None,
)
"""The facts that compared candidates share, the most specific first."""


def propose(sources: Sequence[Candidate], targets: Sequence[Candidate]) -> list[Proposal]:
    """Return what may be paired, in the order of `targets`; no key comes twice."""
    sides = _split_words(sources), _split_words(targets)
    weights = _weights(sides)
    found: dict[str, Proposal] = {}
    used: set[str] = set()
    for alike in _ALIKE:
        groups: defaultdict[object, tuple[list[_CandidateName], list[_CandidateName]]] = defaultdict(
            lambda: ([], [])
        )
        for side, members in enumerate(sides):
            for named in members:
                if named.candidate.key not in (used, found)[side]:
                    spec = named.candidate.spec
                    groups[spec.dtype.name, spec.shape, alike(named)][side].append(named)
        for mine, theirs in groups.values():
            for proposal in _within(mine, theirs, weights):
                found[proposal.target] = proposal
                used.add(proposal.source)
    return [found[target.key] for target in targets if target.key in found]


# Names -----------------------------------------------------------------------------


def _words(path: str) -> list[str]:
    singular = (word.lower().removesuffix("s") or word for word in _WORD.findall(path))
    return [_SAME.get(word, word) for word in singular]


def _split_words(candidates: Sequence[Candidate]) -> list[_CandidateName]:
    stacks: defaultdict[str, set[int]] = defaultdict(set)
    for candidate in candidates:
        for stack, number in _numbers(candidate.path):
            stacks[stack].add(number)
    # Keras calls the first of several layers `dense`, the next ones `dense_1`, `dense_2`.
    for candidate in candidates:
        for stack, number in _numbers(candidate.path, stacks):
            stacks[stack].add(number)
    order = {stack: sorted(numbers) for stack, numbers in stacks.items() if len(numbers) > 1}
    taken = []
    for candidate in candidates:
        words = _words(candidate.path)
        ranks = tuple(
            (order[stack].index(number), len(order[stack]))
            for stack, number in _numbers(candidate.path, stacks)
            if stack in order
        )
        role = words[-1] if words and words[-1] in _ROLES else None
        taken.append(_CandidateName(candidate, frozenset(words), role, ranks))
    return taken


def _numbers(path: str, stacks: Mapping[str, object] | None = None) -> Iterator[tuple[str, int]]:
    """Yield the stacks of layers that a path is in, each with its number there.

    If `stacks` are known, a part without a number comes before the first of them.
    """
    before = ""
    for part in path.split("/"):
        numbered = _NUMBERED.fullmatch(part)
        stack = f"{before}/{numbered['base'] if numbered else part}"
        if numbered:
            yield stack, int(numbered["number"])
        elif stacks is not None and stack in stacks:
            yield stack, -1
        before = f"{before}/{part}"


def _weights(sides: Iterable[Sequence[_CandidateName]]) -> dict[str, float]:
    """Return the weight of each word: none if all names have it, the most if one has."""
    weights: dict[str, float] = {}
    for side in sides:
        counts = Counter(chain.from_iterable(named.words for named in side))
        for word, count in counts.items():
            weights[word] = max(weights.get(word, 0.0), math.log(len(side) / count))
    return weights


def _likeness(mine: _CandidateName, theirs: _CandidateName, weights: Mapping[str, float]) -> float:
    """Return what the words of two names have in common, as a share of all that they say."""
    common = sum(weights[word] for word in mine.words & theirs.words)
    return common / (sum(weights[word] for word in mine.words | theirs.words) or 1)


# Pairs -----------------------------------------------------------------------------


def _within(
    mine: list[_CandidateName], theirs: list[_CandidateName], weights: Mapping[str, float]
) -> Iterator[Proposal]:
    """Yield pairs of a group whose members differ in nothing but their names."""
    if not mine or not theirs or max(len(mine), len(theirs)) > _MOST_ALIKE:
        return
    where = _where(mine[0], theirs[0])
    if len(mine) == len(theirs) == 1 and mine[0].may_be(theirs[0]):
        yield Proposal(mine[0].candidate.key, theirs[0].candidate.key, f"the only {where}")
        return
    left = set(range(len(mine))), set(range(len(theirs)))
    for a, b in _by_words(mine, theirs, weights):
        common = sorted(mine[a].words & theirs[b].words, key=lambda word: (-weights[word], word))
        why = f"of {len(mine)} {where}, by words: {', '.join(common[:3])}"
        yield Proposal(mine[a].candidate.key, theirs[b].candidate.key, why)
        left[0].discard(a)
        left[1].discard(b)
    if len(left[0]) != len(left[1]):
        return
    alone = len(left[0]) == 1
    how = f"the last {where}" if alone else f"of {len(mine)} {where}, only by their order"
    for a, b in zip(sorted(left[0]), sorted(left[1]), strict=True):
        if mine[a].may_be(theirs[b]):
            yield Proposal(mine[a].candidate.key, theirs[b].candidate.key, how, ambiguous=not alone)


def _by_words(
    mine: list[_CandidateName], theirs: list[_CandidateName], weights: Mapping[str, float]
) -> Iterator[tuple[int, int]]:
    """Yield the pairs whose members are each other's most similar remaining candidate.

    If two are equally similar to a third, words do not decide, and neither is paired by fewer words.
    """
    by_likeness: defaultdict[float, list[tuple[int, int]]] = defaultdict(list)
    for a, b in itertools.product(range(len(mine)), range(len(theirs))):
        if mine[a].may_be(theirs[b]):
            by_likeness[_likeness(mine[a], theirs[b], weights)].append((a, b))
    settled: tuple[set[int], set[int]] = set(), set()
    for likeness in sorted(by_likeness, reverse=True):
        equal = by_likeness[likeness] if likeness > 0 else []
        while True:
            equal = [(a, b) for a, b in equal if a not in settled[0] and b not in settled[1]]
            counts = Counter(a for a, _ in equal), Counter(b for _, b in equal)
            clear = [(a, b) for a, b in equal if counts[0][a] == counts[1][b] == 1]
            if not clear:
                break
            yield from clear
            for a, b in clear:
                settled[0].add(a)
                settled[1].add(b)
        for a, b in equal:
            settled[0].add(a)
            settled[1].add(b)


def _where(mine: _CandidateName, theirs: _CandidateName) -> str:
    """Return what the members of a group have in common, in words."""
    spec = mine.candidate.spec
    role = f" called {mine.role}" if mine.role and mine.role == theirs.role else ""
    what = f"{spec.dtype.name} {list(spec.shape)}{role}"
    if not mine.ranks or mine.ranks != theirs.ranks:
        return what
    return f"{what} in layer {', '.join(str(rank) for rank, _ in mine.ranks)}"
