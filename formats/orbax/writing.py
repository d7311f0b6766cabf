"""The tree that a set of keys makes, as writers of Orbax and Flax need it: maps within maps, leaves below.

A leaf is a tensor, a text, or the type of what has no value.  Two leaves cannot have one path, and no leaf
can be on the way to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.spec import TensorSpec
from ..core.words import FirstNames
from ..errors import ConversionError
from ..model.writer import ANOTHER_KEY, check_text
from .facts import TreeFacts
from .names import key_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..model.facts import Facts
    from ..model.writer import WriteTarget
    from .names import Path

_DEEPEST = 90
"""Parts of a path; readers take 100, and an array has some more."""


class Text(NamedTuple):
    """A leaf that is text."""

    text: str


class NoValue(NamedTuple):
    """A leaf without a value: None, or an empty container."""

    type: str


Leaf = TensorSpec | Text | NoValue
Tree = dict[str, Any]
"""Names of parts -> leaves, and such dictionaries."""


def facts_of(target: WriteTarget) -> TreeFacts:
    return target.facts if isinstance(target.facts, TreeFacts) else TreeFacts("")


def leaves_of(target: WriteTarget) -> dict[Path, Leaf]:
    """Return the leaves to write by path, in order.  Raises ConversionError for a key without a path."""
    facts = facts_of(target)
    found: dict[Path, Leaf] = {_path(target, spec.key): spec for spec in target.specs}
    others: dict[str, Leaf] = {
        key: Text(str(text)) for key, text in facts.values.items() if key not in facts.raw
    }
    others |= {key: NoValue(kind) for key, kind in facts.empty.items()}
    for key, leaf in others.items():
        found.setdefault(_path(target, key), leaf)
    ordered = {path: found[path] for path in sorted(found, key=_order)}
    _refuse_leaves_on_the_way(target, ordered)
    return ordered


def _path(target: WriteTarget, key: str) -> Path:
    check_text(target.path, key, "as a tree's keys are")
    path = tuple(parts_of(key))
    why = None
    if len(path) > _DEEPEST:
        why = f"its path has {len(path)} parts, but at most {_DEEPEST} are supported"
    elif "" in path:
        why = "a part of its path is empty"
    elif key_of(path) != key:
        why = f"it would become {key_of(path)!r} in a tree"
    if why is not None:
        raise ConversionError(why, path=target.path, key=key, hints=ANOTHER_KEY)
    return path


def _order(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """Return by what paths are sorted: positions as numbers."""
    return tuple(
        (False, int(part), part) if part.isdecimal() and len(part) < 19 else (True, 0, part) for part in path
    )


def _refuse_leaves_on_the_way(target: WriteTarget, leaves: Mapping[Path, Leaf]) -> None:
    for path in leaves:
        for at in range(1, len(path)):
            if path[:at] in leaves:
                message = f"{key_of(path[:at])!r} has a value itself, so it cannot contain this tensor"
                raise ConversionError(message, path=target.path, key=key_of(path), hints=ANOTHER_KEY)


def notes_of(target: WriteTarget) -> list[str]:
    """Return what is left out of a tree."""
    names = FirstNames(facts_of(target).raw)
    return [f"left out {names}: they are raw bytes, not tensors"] if names.count else []


def has_facts(target: WriteTarget, found: Facts) -> bool:
    """Whether a checkpoint has the texts and the empty leaves that the target should have."""
    wanted = facts_of(target)
    texts = {key: text for key, text in wanted.values.items() if key not in wanted.raw}
    return isinstance(found, TreeFacts) and (found.values, found.empty) == (texts, wanted.empty)


def nested(leaves: Mapping[Path, Leaf]) -> Tree:
    """Return the tree of these leaves."""
    root: Tree = {}
    for path, leaf in leaves.items():
        at = root
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = leaf
    return root


def walked(tree: Tree) -> Iterator[tuple[str, Any]]:
    """Yield names and what they have, depth first; a dictionary comes before what is in it."""
    waiting = [iter(tree.items())]
    while waiting:
        for name, value in waiting[-1]:
            yield name, value
            if isinstance(value, dict):
                waiting.append(iter(value.items()))
                break
        else:
            waiting.pop()
