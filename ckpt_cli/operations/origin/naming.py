"""The layers of a source that the names in an export mention.

A layer is mentioned by a name that has all components of its path, in their order.  Components that all
layers share say nothing, and those of a cell are optional.  Keras 3 appends `_1` to the names of layers,
and other numbers where a layer is called again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .source import SourceLayer, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"l[0-9]{1,6}")
_NUMBERED = "_1"


class Mention(NamedTuple):
    """A layer that a name mentions, and the components behind its own."""

    layer: SourceLayer
    rest: tuple[str, ...]


class LayerNames:
    """The names of a source's layers, as an export spells them."""

    def __init__(self, layers: Sequence[SourceLayer], names: Iterable[str]) -> None:
        counted: dict[str, int] = {}
        for layer in layers:
            for part in set(layer.path):
                counted[part] = counted.get(part, 0) + 1
        shared = {part for part, count in counted.items() if count == len(layers) > 1}
        self._paths = [(layer, _decisive_names(layer.path, shared)) for layer in layers]
        found = [_hints(name) for name in names]
        plain, numbered = ({m for hints in found for m in self._all(hints, end)} for end in ("", _NUMBERED))
        self._end = _NUMBERED if len(numbered) > len(plain) else ""

    def _all(self, hints: list[tuple[str, ...]], end: str) -> Iterable[int]:
        for hint in hints:
            yield from (mention.layer.number for mention in self._best(hint, end))

    def mentioned(self, name: str) -> list[Mention]:
        """Return the layers that a name mentions; of a name that fused several, those of each."""
        found: dict[int, Mention] = {}
        for hint in _hints(name):
            for mention in self._best(hint, self._end):
                found.setdefault(mention.layer.number, mention)
        return list(found.values())

    def _best(self, hint: tuple[str, ...], end: str) -> list[Mention]:
        """Return the layers with the longest path whose components are all in a name."""
        found: list[tuple[int, Mention]] = []
        for layer, path in self._paths:
            at = _behind(path, hint, end)
            if at is not None:
                found.append((len(path), Mention(layer, hint[at:])))
        longest = max((length for length, _ in found), default=0)
        return [mention for length, mention in found if length == longest]


def _decisive_names(path: tuple[str, ...], shared: set[str]) -> tuple[str, ...]:
    return tuple(part for part in path if part not in shared and not _is_cell(part))


def _is_cell(part: str) -> bool:
    """Whether a component may be missing from names in an export: `gru_cell`, or `l0` of PyTorch."""
    return _NUMBER.fullmatch(part) is not None or part.rstrip("0123456789").removesuffix("_").endswith("cell")


def _hints(name: str) -> list[tuple[str, ...]]:
    return [parts_of(one) for one in name.split(";")]


def _behind(path: tuple[str, ...], hint: tuple[str, ...], end: str) -> int | None:
    """Return where a name continues after a path, or None if it does not have all of it."""
    at = 0
    for part in path:
        numbered = bool(end) and not part.isdigit()
        at = next((number + 1 for number in range(at, len(hint)) if _is(part, hint[number], numbered)), -1)
        if at < 0:
            return None
    return at if path else None


def _is(part: str, found: str, numbered: bool) -> bool:
    """Whether a component of a name is that of a layer, `numbered` with the number of the call behind it."""
    return found.startswith(f"{part}_") and found[len(part) + 1 :].isdigit() if numbered else found == part
