"""From the object in a PyTorch file to keys: which tensors it holds, and what they are called.

A dictionary of tensors alone is a state dict, whose names stay as they are.  Of what is nested
the parts of the way to a tensor are joined by `/`, with `/` and `%` within a part as `%2F`
and `%25`; positions of lists are digits, other keys what Python prints.  Where two of a
dictionary's keys would be equal, the one that is no text has a `#` in front.

Lists can share lists, so that a small file has more ways to its tensors than anybody can
follow, and can hold themselves.  How many ways there are is counted first, once for each
container, and containers without tensors are not gone through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.spec import key_text
from ..wire.limits import KeySizes
from .objects import Placed, Storage, View, view_of_all
from .pickle import Bag, Pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST = 200
MOST_WAYS = 20
"""How many times as many keys as tensors there may be, and 1,000 more; what is shared is listed twice."""

_MOST_COUNTED = 1 << 40
_MOST_PARTS = 64
_LONGEST_PART = 1 << 16


TENSORS = (View, Storage, Placed)


def tensors_of(root: Any) -> dict[str, Any]:
    """Return the tensors of an object by key, in no order: Views, of what is to be written Placed.

    ValueError where they cannot be told apart, where something holds itself, or for more than is read.
    """
    if type(root) in TENSORS:
        return {"": _as_view(root)}
    below = ways_to_tensors(root)
    found: dict[str, Any] = {}
    if not below[id(root)]:
        return found
    sizes = KeySizes()
    is_flat = is_state_dict(root, below)
    left: list[tuple[str, int, Any]] = [("", 0, root)]
    while left:
        prefix, depth, container = left.pop()
        if depth >= DEEPEST:
            raise ValueError(f"tensors more than {DEEPEST} levels deep")
        for part, _, value, leads in entries(container, below):
            if not leads:
                continue
            key = part if is_flat else prefix + escaped(part)
            sizes.add((key,))
            if type(value) in TENSORS:
                found[key] = _as_view(value)
            else:
                left.append((key + "/", depth + 1, value))
    return found


def is_state_dict(root: Any, below: dict[int, int]) -> bool:
    """Whether an object is a dictionary of tensors alone, whose names stay as they are."""
    return type(root) is Pairs and not any(below.get(id(value)) for _, value in root.items)


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


def ways_to_tensors(root: Any) -> dict[int, int]:
    """Return, by identity, how many ways lead from a container to tensors."""
    ways: dict[int, int] = {}
    tensors: set[int] = set()
    open_ones: list[tuple[Any, Iterator[Any], list[int]]] = [(root, _children(root), [0])]
    waiting: set[int] = {id(root)}
    circles = False
    while open_ones:
        container, rest, total = open_ones[-1]
        for value in rest:
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
                raise ValueError("a tensor in a set, in which it has no name")
            ways[id(container)] = min(total[0], _MOST_COUNTED)
            if open_ones:
                open_ones[-1][2][0] += total[0]
    if circles and tensors:
        raise ValueError("a list or dictionary that holds itself, beside tensors")
    if ways[id(root)] > MOST_WAYS * len(tensors) + 1000:
        raise ValueError(f"{len(tensors)} tensors under more than {MOST_WAYS} keys each")
    return ways


def entries(container: Any, below: dict[int, int]) -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield what each entry is called, its key or position, its value, and whether that leads to tensors."""
    if type(container) is not Pairs:
        for number, value in enumerate(container):
            yield str(number), number, value, _leads(value, below)
        return
    texts = {_text(key) for key, _ in container.items if type(key) is str}
    seen: set[str] = set()
    others: set[str] = set()
    for key, value in container.items:
        part = _text(key) if type(key) is str else _printed(key)
        if type(key) is not str:
            while part in texts:
                part = "#" + part
        equal = None if type(key) is str else _printed(_as_compared(key))
        if part in seen or equal in others:
            raise ValueError(f"two keys {part!r:.60} in a dictionary")
        seen.add(part)
        if equal is not None:
            others.add(equal)
        yield part, key, value, _leads(value, below)


def _leads(value: Any, below: dict[int, int]) -> bool:
    return type(value) in TENSORS or bool(below.get(id(value)))


def _text(key: str) -> str:
    """Return a key as keys are spelled here, by its bytes."""
    return key if key.isascii() else key_text(key.encode("utf-8", "surrogatepass"))


def _printed(key: Any, depth: int = 0) -> str:
    """Return a key that is no text as Python prints it."""
    if type(key) is tuple and depth < 4 and len(key) <= _MOST_PARTS:
        parts = [_printed(each, depth + 1) for each in key]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if key is not None and type(key) not in (int, float, bool, bytes, complex, str):
        raise ValueError(f"a {type(key).__name__} as a dictionary's key")
    if type(key) in (bytes, str) and len(key) > _LONGEST_PART:
        raise ValueError(f"a key of {len(key)} bytes")
    return _text(repr(key))


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
    """Return what an object says beside its tensors: the first numbers and short texts in dictionaries.

    So the epoch and the options of a run are told, and lists of losses are not.
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
