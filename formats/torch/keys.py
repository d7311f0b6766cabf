"""From the object in a PyTorch file to keys: which tensors it holds, and what they are called.

A dictionary of tensors alone is a state dict, whose names are kept. Otherwise the parts of the path to a
tensor are joined by `/`, with `/` and `%` within a part as `%2F` and `%25`. Positions of lists are digits,
and other keys are as Python prints them. If two keys of a dictionary would be equal, the one that is not text
gets a `#` in front.

Lists can share lists, so a small file can have more paths to its tensors than can be listed, and lists can
contain themselves. So the paths are counted first, once for each container, and containers without tensors
are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.spec import key_text
from ..core.words import counted
from ..wire.limits import KeySizes
from .objects import Storage, TensorPosition, View, view_of_all
from .values import Bag, Pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEEPEST = 200
MOST_WAYS = 2
"""How many times as many keys as tensors there may be, and 20,000 more; what is shared is listed twice."""

_MORE_WAYS = 20_000
_MOST_COUNTED = 1 << 40
_MORE_STEPS = 200_000
"""The entries without tensors that may be read, besides twice the existing ones: shared ones count again."""

_CHARACTERS_OF_TENSOR = 512
_MORE_CHARACTERS = 8 << 20
"""Characters of keys together: a file says a prefix once, and each key below it has it."""

_MOST_PARTS = 64
_LONGEST_PART = 1 << 16
_LEVELS_OF_PART = 4


TENSORS = (View, Storage, TensorPosition)


def tensors_of(root: Any) -> dict[str, Any]:
    """Return the tensors of an object by key, in no order: Views, or Placed in an object to write.

    Raises ValueError for ambiguous tensors, for an object that contains itself, and beyond the limits.
    """
    if type(root) in TENSORS:
        return {"": _as_view(root)}
    ways = Ways(root)
    found: dict[str, Any] = {}
    if not ways.leads(root):
        return found
    left: list[tuple[str, int, Any]] = [("", 0, root)]
    while left:
        prefix, depth, container = left.pop()
        if depth >= DEEPEST:
            raise ValueError(f"tensors are nested more than {DEEPEST} levels deep")
        for part, _, value, leads in ways.entries(container):
            if not leads:
                continue
            key = part if ways.is_flat else prefix + escaped(part)
            ways.take_note(key)
            if type(value) in TENSORS:
                found[key] = _as_view(value)
            else:
                left.append((key + "/", depth + 1, value))
    return found


def escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def unescaped(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


def in_dictionary(prefix: str, name: str) -> str:
    """Return the key of a name in the dictionary that a prefix leads to; that of a state dict is empty."""
    return prefix + escaped(name) if prefix else name


def _as_view(value: Any) -> Any:
    return view_of_all(value) if type(value) is Storage else value


def _children(container: Any) -> Iterator[Any]:
    if type(container) is Pairs:
        yield from (value for _, value in container.items)
    elif type(container) is Bag:
        yield from container.items
    elif type(container) in (list, tuple):
        yield from container


_CONTAINERS = (Pairs, Bag, list, tuple)


class Ways:
    """The ways from an object to its tensors, for one walk along them, which is bounded.

    Raises ValueError beyond the limits on paths, on other entries, and on characters of keys.
    """

    def __init__(self, root: Any) -> None:
        self._counts, tensors, entries = _counted(root)
        if self._counts[id(root)] > MOST_WAYS * tensors + _MORE_WAYS:
            raise ValueError(f"{counted(tensors, 'tensor')} would have more than {MOST_WAYS} keys each")
        self._steps = 2 * entries + _MORE_STEPS
        self._characters = _CHARACTERS_OF_TENSOR * tensors + _MORE_CHARACTERS
        self._sizes = KeySizes()
        self.is_flat = type(root) is Pairs and not any(self._counts.get(id(value)) for _, value in root.items)
        """Whether it is a dictionary of tensors alone, a state dict, whose names stay as they are."""

    def leads(self, value: Any) -> bool:
        """Whether a value is a tensor, or leads to one."""
        return type(value) in TENSORS or bool(self._counts.get(id(value)))

    def take_note(self, key: str) -> None:
        """Count a key that is made."""
        self._sizes.add((key,))
        if not self.is_flat:
            self._spend(len(key))

    def _spend(self, characters: int) -> None:
        self._characters -= characters
        if self._characters < 0:
            raise ValueError("the keys have too many characters for this number of tensors")

    def entries(self, container: Any) -> Iterator[tuple[str, Any, Any, bool]]:
        """Yield what each entry is called, its key or position, its value, and whether tensors are in it."""
        named = _named(container, self._spend) if type(container) is Pairs else _numbered(container)
        for part, key, value in named:
            leads = self.leads(value)
            if not leads:
                self._steps -= 1
                if self._steps < 0:
                    raise ValueError("too many lists and dictionaries are shared")
            yield part, key, value, leads


def _counted(root: Any) -> tuple[dict[int, int], int, int]:
    """Return how many ways lead to tensors by container, then the number of tensors, then of entries."""
    ways: dict[int, int] = {}
    tensors: set[int] = set()
    open_ones: list[tuple[Any, Iterator[Any], list[int]]] = [(root, _children(root), [0])]
    waiting: set[int] = {id(root)}
    circles = False
    entries = 0
    while open_ones:
        container, rest, total = open_ones[-1]
        for value in rest:
            entries += 1
            kind = type(value)
            if kind in TENSORS:
                tensors.add(id(value))
                total[0] += 1
            elif kind in _CONTAINERS:
                known = ways.get(id(value))
                if known is not None:
                    total[0] += known
                elif id(value) in waiting:
                    circles = True
                else:
                    waiting.add(id(value))
                    open_ones.append((value, _children(value), [0]))
                    break
        else:
            open_ones.pop()
            waiting.discard(id(container))
            if type(container) is Bag and total[0]:
                raise ValueError("a tensor is in a set, where it has no name")
            ways[id(container)] = min(total[0], _MOST_COUNTED)
            if open_ones:
                open_ones[-1][2][0] += total[0]
    if circles and tensors:
        raise ValueError("a list or dictionary contains itself")
    return ways, len(tensors), entries


def _numbered(container: Any) -> Iterator[tuple[str, Any, Any]]:
    for number, value in enumerate(container):
        yield str(number), number, value


def _named(container: Pairs, spend: Callable[[int], None]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the entries of a dictionary, each by a name of its own; `spend` counts the characters made."""
    texts = {_text(key) for key, _ in container.items if type(key) is str}
    seen: set[str] = set()
    others: set[str] = set()
    for key, value in container.items:
        part = _text(key) if type(key) is str else _printed(key)
        if part is not key:
            spend(len(part))
        equal = None
        if type(key) is not str:
            while part in texts:
                part = "#" + part
                spend(len(part))
            equal = _printed(_as_compared(key))
        if part in seen or equal in others:
            raise ValueError(f"a dictionary has the key {part!r:.60} twice")
        seen.add(part)
        if equal is not None:
            others.add(equal)
        yield part, key, value


def _text(key: str) -> str:
    """Return a key as keys are spelled here, by its bytes."""
    return key if key.isascii() else key_text(key.encode("utf-8", "surrogatepass"))


def _printed(key: Any) -> str:
    """Return a key that is not text as Python prints it."""
    return _text(_part_printed(key, 0, _LONGEST_PART))


def _part_printed(key: Any, depth: int, longest: int) -> str:
    """Return a key, or one of a tuple that is a key, in so many characters; ValueError for what has more."""
    if type(key) is tuple and depth < _LEVELS_OF_PART and len(key) <= _MOST_PARTS:
        parts: list[str] = []
        for each in key:
            parts.append(_part_printed(each, depth + 1, longest))
            longest -= len(parts[-1])
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if key is not None and type(key) not in (int, float, bool, bytes, complex, str):
        raise ValueError(f"a dictionary has a {type(key).__name__} as a key")
    found = repr(key) if type(key) not in (bytes, str) or len(key) <= longest else None
    if found is None or len(found) > longest:
        raise ValueError(f"a dictionary key that is not text has more than {_LONGEST_PART} characters")
    return found


def _as_compared(key: Any) -> Any:
    """Return a key as Python compares it: of True, 1, 1.0 and 1+0j a dictionary has one, the last."""
    if type(key) is tuple:
        return tuple(map(_as_compared, key))
    if type(key) is complex and key.imag == 0:
        key = key.real
    is_whole = type(key) is bool or (type(key) is float and key.is_integer())
    return int(key) if is_whole else key


MOST_SHOWN = 100
_LONGEST_SHOWN = 1000


def values_of(root: Any) -> dict[str, Any]:
    """Return the values besides tensors in an object: the first numbers and short texts in dictionaries.

    So the epoch and the options of a run are shown, and lists of losses are not.
    """
    found: dict[str, Any] = {}
    left: list[tuple[str, Any]] = [("", root)]
    for prefix, container in left:
        if type(container) is not Pairs:
            continue
        for key, value in container.items[:MOST_SHOWN]:
            if type(key) is not str or len(key) > _LONGEST_SHOWN or len(found) + len(left) >= MOST_SHOWN:
                continue
            name = prefix + escaped(_text(key))
            if type(value) in (bool, int, float) or (type(value) is str and len(value) <= _LONGEST_SHOWN):
                found[name] = _text(value) if type(value) is str else value
            elif type(value) is Pairs and prefix.count("/") < 2:
                left.append((name + "/", value))
    return found
