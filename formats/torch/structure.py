"""The structure of an object: its other values, and the positions of its tensors, kept for writing it again.

A file is written with the structure that it was read with: the same dictionaries, lists and plain values
around tensors that may be fewer, or have other keys. A changed key moves the path to it: if everything below
`model/` moves to `net/`, the dictionary is renamed, and keeps its place, its class and its content. A
dictionary that loses all its tensors is removed, and its other values are reported.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.spec import is_utf8
from ..core.words import FirstNames
from .keys import TENSORS, Ways, escaped, tensors_of, unescaped
from .objects import TensorPosition
from .values import Pairs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


class Arranged(NamedTuple):
    """An object to be written, of plain values and `Placed` tensors.

    `left_out` are values that were removed with their dictionary's tensors. `turned` are lists that lost
    elements, and became dictionaries by position, so that the others keep their keys.
    """

    root: Any
    left_out: FirstNames
    turned: tuple[str, ...] = ()


class NestedStructure(NamedTuple):
    """An object as it was read; `names` gives the keys that kept tensors have now, None: those that they had.

    Of tensors that are one, under several names, `is_tied` says that they are written as one.
    """

    root: Any
    names: Mapping[str, str] | None = None
    is_tied: bool = True

    def rekeyed(self, keys: Mapping[str, str]) -> NestedStructure:
        """Return it for other keys; what `keys` does not name is not kept."""
        if self.names is not None:
            keys = {old: keys[new] for old, new in self.names.items() if new in keys}
        return self._replace(names=dict(keys))

    def _kept(self, keys: Collection[str]) -> dict[str, str]:
        """Return, by the key that was read, the key of each tensor that is written."""
        names = {key: key for key in keys} if self.names is None else self.names
        wanted = frozenset(keys)
        return {old: new for old, new in names.items() if new in wanted}

    def tied(self, keys: Collection[str] | None = None) -> dict[str, str]:
        """Return, by key, the first tensor that another one is: all of the same view of a storage."""
        found: dict[str, str] = {}
        if not self.is_tied:
            return found
        views = tensors_of(self.root)
        firsts: dict[Any, str] = {}
        for old, new in sorted(self._kept(views if keys is None else keys).items()):
            view = views.get(old)
            if view is not None and type(view) is not TensorPosition and firsts.setdefault(view, new) != new:
                found[new] = firsts[view]
        return found

    def arranged(self, keys: Collection[str]) -> Arranged:
        """Return the object for these tensors, the keys under which they are written.

        ValueError if they have no place in it.
        """
        kept = self._kept(keys)
        arranged = _Arranging(self.root, kept).arranged(keys)
        found = tensors_of(arranged.root)
        for key in keys:
            if found.get(key) != TensorPosition(key):
                read = next((name for name, placed in found.items() if placed == TensorPosition(key)), None)
                other = "" if read is None else f"; it would be read as {read!r}"
                raise ValueError(f"{key!r} does not fit into the structure of the source{other}")
        return arranged

    def beside(self) -> Iterator[str]:
        """Yield the values besides the tensors, by key: a container without tensors as a whole."""
        if type(self.root) not in (Pairs, list, tuple):
            return
        ways = Ways(self.root)
        left = [("", self.root)]
        while left:
            prefix, container = left.pop()
            for part, _, value, leads in ways.entries(container):
                if not leads:
                    yield _shown(prefix, part)
                elif type(value) not in TENSORS:
                    left.append((f"{prefix}{escaped(part)}/", value))


_LONGEST_SHOWN = 1000


def _shown(prefix: str, part: str) -> str:
    """Return the readable key of a value that is not a tensor; dictionaries can share very long ones."""
    if len(prefix) > _LONGEST_SHOWN:
        prefix = f"{prefix[:_LONGEST_SHOWN]}.../"
    return prefix + escaped(part if len(part) <= _LONGEST_SHOWN else f"{part[:_LONGEST_SHOWN]}...")


def flat(keys: Collection[str]) -> Arranged:
    """Return a state dict: a dictionary of tensors alone. Raises ValueError for a key that is not text."""
    return Arranged(Pairs([(_text(key), TensorPosition(key)) for key in keys]), FirstNames())


def _text(key: str) -> str:
    if not is_utf8(key):
        raise ValueError(f"{key!r} is not UTF-8, as pickles require")
    return key


class _Arranging:
    """Copies containers on the way to tensors that are written; all else stays what it is."""

    def __init__(self, root: Any, kept: Mapping[str, str]) -> None:
        self._root = root
        self._kept = kept
        self._olds = sorted(kept)
        self._left_out = FirstNames()
        self._turned: list[str] = []
        self._placed: set[str] = set()
        self._named: dict[int, _Named] = {}

    def arranged(self, keys: Collection[str]) -> Arranged:
        if type(self._root) in TENSORS:
            alone = self._kept == {"": ""}
            return Arranged(TensorPosition(""), FirstNames()) if alone else flat(keys)
        self._ways = Ways(self._root)
        if not self._ways.leads(self._root):
            return flat(keys)
        if self._ways.is_flat:
            root: Any = self._state_dict()
            root.items += [(_text(key), TensorPosition(key)) for key in keys if key not in self._placed]
        else:
            root = self._container(self._root, "", "")
            for key in keys:
                if key not in self._placed:
                    self._insert(root, key)
        return Arranged(root, self._left_out, tuple(sorted(self._turned)))

    def _state_dict(self) -> Any:
        items: list[tuple[Any, Any]] = []
        is_renamed = False
        for part, key, value, leads in self._ways.entries(self._root):
            new = self._kept.get(part) if leads else None
            if new is not None:
                is_renamed |= new != part
                items.append((key if new == part else _text(new), self._place(new)))
            elif not leads:
                items.append((key, value))
        return _like(self._root, items, is_renamed=is_renamed)

    def _place(self, new: str) -> TensorPosition:
        self._placed.add(new)
        return TensorPosition(new)

    def _container(self, container: Any, prefix: str, new_prefix: str) -> Any:
        """Return a container, read at `prefix`, now at `new_prefix`; None if it has lost all tensors."""
        if type(container) is not Pairs:
            return self._sequence(container, prefix, new_prefix)
        listed = [*self._ways.entries(container)]
        taken = {part for part, *_ in listed}
        items: list[tuple[Any, Any]] = []
        is_renamed = has_tensors = False
        for part, key, value, leads in listed:
            if not leads:
                items.append((key, value))
                continue
            path = prefix + escaped(part)
            name = self._name(part, path, value, new_prefix, taken)
            is_renamed |= name != part
            found = self._entry(value, path, new_prefix + escaped(name))
            if found is not None:
                has_tensors = True
                items.append((key if name == part else _as(key, name), found))
        if prefix and not has_tensors:
            return self._left(container, prefix)
        return _like(container, items, is_renamed=is_renamed)

    def _sequence(self, container: Any, prefix: str, new_prefix: str) -> Any:
        """Return a list or a tuple, whose elements keep their positions; a dictionary where some are gone."""
        values: list[Any] = []
        gone: set[int] = set()
        has_gap = has_tensors = False
        for part, position, value, leads in self._ways.entries(container):
            found = self._entry(value, prefix + part, new_prefix + part) if leads else value
            if leads and found is None:
                gone.add(position)
                continue
            values.append(found)
            has_tensors |= leads
            has_gap |= leads and bool(gone)
        if prefix and not has_tensors:
            return self._left(container, prefix)
        if has_gap:
            self._turned.append(prefix.removesuffix("/"))
            positions = (position for position in range(len(container)) if position not in gone)
            return Pairs([*zip(positions, values, strict=True)])
        return type(container)(values)

    def _left(self, container: Any, prefix: str) -> None:
        """Take note of what goes with the tensors of a container; nothing of it is written."""
        for part, _, _, leads in self._ways.entries(container):
            if not leads:
                self._left_out.add(_shown(prefix, part))

    def _entry(self, value: Any, path: str, new_path: str) -> Any:
        """Return what is written of an entry that leads to tensors; None if that is nothing."""
        if type(value) not in TENSORS:
            return self._container(value, path + "/", new_path + "/")
        return self._place(new_path) if self._kept.get(path) == new_path else None

    def _name(self, part: str, path: str, value: Any, new_prefix: str, taken: set[str]) -> str:
        """Return what an entry at `path` is called, where all tensors in it go to one place of `new_prefix`.

        No two of a dictionary are called the same.
        """
        new = self._kept.get(path) if type(value) in TENSORS else self._new_path(path + "/")
        if new is None or not new.startswith(new_prefix):
            return part
        name = unescaped(new[len(new_prefix) :])
        if "/" in new[len(new_prefix) :] or name in taken:
            return part
        taken.add(name)
        return name

    def _new_path(self, prefix: str) -> str | None:
        """Return where all tensors below a prefix go to, which keep the rest of their keys."""
        new = None
        for at in range(bisect_left(self._olds, prefix), len(self._olds)):
            old = self._olds[at]
            if not old.startswith(prefix):
                break
            rest = old[len(prefix) - 1 :]
            moved = self._kept[old]
            found = moved.removesuffix(rest)
            if found == moved or found != (new or found):
                return None
            new = found
        return new

    def _insert(self, root: Any, key: str) -> None:
        """Put a tensor where its key says, into new dictionaries where there are none on the way."""
        *way, last = map(unescaped, key.split("/"))
        at = root
        for part in (*way, None):
            if type(at) is not Pairs:
                raise ValueError(f"{key!r} does not fit into the structure of the source")
            if part is None:
                break
            below = self._named_in(at).values.get(part)
            if below is None:
                below = Pairs()
                self._named_in(at).add(part, below)
            at = below
        self._named_in(at).add(last, TensorPosition(key))

    def _named_in(self, container: Pairs) -> _Named:
        found = self._named.get(id(container))
        if found is None:
            found = self._named[id(container)] = _Named(container)
        return found


class _Named:
    """A dictionary to write, and its content by name, the first of each."""

    def __init__(self, container: Pairs) -> None:
        self._items = container.items
        plain = [(str(key), value) for key, value in self._items if type(key) in (str, int)]
        self.values = dict(reversed(plain))
        self._are_numbers = bool(self._items) and all(type(key) is int for key, _ in self._items)

    def add(self, name: str, value: Any) -> None:
        """Add an entry: its key is a number where all others are numbers."""
        key = _as(0 if self._are_numbers else "", name)
        self._are_numbers = type(key) is int
        self._items.append((key, value))
        self.values.setdefault(name, value)


def _like(container: Pairs, items: Sequence[tuple[Any, Any]], *, is_renamed: bool) -> Pairs:
    """Return a dictionary of the same kind with other entries.

    The module metadata of Module.state_dict() is by name, so it is dropped if one is renamed.
    """
    found = Pairs([*items], container.name)
    found.attributes = None if is_renamed else container.attributes
    return found


def _as(other: Any, part: str) -> Any:
    """Return a key as another one is: a number where that is one, and this can be."""
    return int(part) if type(other) is int and part.isascii() and part.isdecimal() else _text(part)
