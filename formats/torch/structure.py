"""What an object holds beside its tensors, and where those stand in it: kept for writing it again.

A file is written with the structure that it was read with: the same dictionaries, lists and
plain values around tensors that may be fewer, or have other keys.  A key that changes moves
what leads to it: where all below `model/` go to `net/`, the dictionary is called so, and keeps
its place, its class and what stands in it.  One that loses all its tensors goes with them,
and what else it held is told.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.spec import is_utf8
from .keys import TENSORS, entries, escaped, is_state_dict, tensors_of, unescaped, ways_to_tensors
from .objects import Placed
from .pickle import Pairs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class Arranged(NamedTuple):
    """An object to be written, of plain values and `Placed` tensors.

    `left_out` are values that went with the tensors beside them, `turned` lists of which elements did, and
    which are dictionaries by position, so that the others keep their keys.
    """

    root: Any
    left_out: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()


class Structure(NamedTuple):
    """An object as it was read; `names` gives the keys that kept tensors have now, None: those that they had.

    Of tensors that are one, under several names, `is_tied` says that they are written as one.
    """

    root: Any
    names: Mapping[str, str] | None = None
    is_tied: bool = True

    def rekeyed(self, keys: Mapping[str, str]) -> Structure:
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
            if view is not None and type(view) is not Placed and firsts.setdefault(view, new) != new:
                found[new] = firsts[view]
        return found

    def arranged(self, keys: Collection[str]) -> Arranged:
        """Return the object for these tensors, the keys under which they are written.

        ValueError where they have no place in it.
        """
        kept = self._kept(keys)
        arranged = _Arranging(self.root, kept).arranged(keys)
        found = tensors_of(arranged.root)
        for key in keys:
            if found.get(key) != Placed(key):
                read = next((name for name, placed in found.items() if placed == Placed(key)), None)
                other = "" if read is None else f"; {read!r} is how it would be read"
                raise ValueError(f"{key!r} has no place of this name in the structure that was read{other}")
        return arranged

    def beside(self) -> list[str]:
        """Return what stands beside the tensors, by key: whatever holds none, as a whole."""
        found: list[str] = []
        if type(self.root) in TENSORS:
            return found
        below = ways_to_tensors(self.root)
        left = [("", self.root)]
        while left:
            prefix, container = left.pop()
            for part, _, value, leads in entries(container, below):
                if not leads:
                    found.append(prefix + escaped(part))
                elif type(value) not in TENSORS:
                    left.append((f"{prefix}{escaped(part)}/", value))
        return sorted(found)


def flat(keys: Collection[str]) -> Arranged:
    """Return a state dict: a dictionary of tensors alone.  ValueError for a key that is no text."""
    return Arranged(Pairs([(_text(key), Placed(key)) for key in keys]))


def _text(key: str) -> str:
    if not is_utf8(key):
        raise ValueError(f"{key!r} is not UTF-8, as text in a pickle is")
    return key


class _Arranging:
    """Copies containers on the way to tensors that are written; all else stays what it is."""

    def __init__(self, root: Any, kept: Mapping[str, str]) -> None:
        self._root = root
        self._kept = kept
        self._olds = sorted(kept)
        self._left_out: list[str] = []
        self._turned: list[str] = []
        self._placed: set[str] = set()

    def arranged(self, keys: Collection[str]) -> Arranged:
        if type(self._root) in TENSORS:
            alone = self._kept == {"": ""}
            return Arranged(Placed("")) if alone else flat(keys)
        self._below = ways_to_tensors(self._root)
        if not self._below[id(self._root)]:
            return flat(keys)
        if is_state_dict(self._root, self._below):
            root: Any = self._state_dict()
            root.items += [(_text(key), Placed(key)) for key in keys if key not in self._placed]
        else:
            root = self._container(self._root, "", "")
            for key in keys:
                if key not in self._placed:
                    _insert(root, key)
        return Arranged(root, tuple(sorted(self._left_out)), tuple(sorted(self._turned)))

    def _state_dict(self) -> Any:
        items: list[tuple[Any, Any]] = []
        is_renamed = False
        for part, key, value, leads in entries(self._root, self._below):
            new = self._kept.get(part) if leads else None
            if new is not None:
                is_renamed |= new != part
                items.append((key if new == part else _text(new), self._place(new)))
            elif not leads:
                items.append((key, value))
        return _like(self._root, items, is_renamed=is_renamed)

    def _place(self, new: str) -> Placed:
        self._placed.add(new)
        return Placed(new)

    def _container(self, container: Any, prefix: str, new_prefix: str) -> Any:
        """Return a container, read at `prefix`, now at `new_prefix`; None where it has lost all tensors."""
        listed = [*entries(container, self._below)]
        taken = {part for part, *_ in listed} if type(container) is Pairs else None
        items: list[tuple[Any, Any]] = []
        lost = has_gap = is_renamed = False
        for part, key, value, leads in listed:
            path = prefix + escaped(part)
            if not leads:
                items.append((key, value))
                continue
            name = self._name(part, path, value, new_prefix, taken)
            is_renamed |= name != part
            found = self._entry(value, path, new_prefix + escaped(name))
            if found is None:
                lost = True
            else:
                has_gap |= lost and taken is None
                items.append((key if name == part else _as(key, name), found))
        beside = [prefix + escaped(part) for part, _, _, leads in listed if not leads]
        if prefix and len(items) == len(beside):
            self._left_out += beside
            return None
        if has_gap:
            self._turned.append(prefix.removesuffix("/"))
            return Pairs(items)
        return _like(container, items, is_renamed=is_renamed)

    def _entry(self, value: Any, path: str, new_path: str) -> Any:
        """Return what is written of an entry that leads to tensors; None where that is nothing."""
        if type(value) not in TENSORS:
            return self._container(value, path + "/", new_path + "/")
        return self._place(new_path) if self._kept.get(path) == new_path else None

    def _name(self, part: str, path: str, value: Any, new_prefix: str, taken: set[str] | None) -> str:
        """Return what an entry at `path` is called, where all tensors in it go to one place of `new_prefix`.

        Entries of lists keep their positions, and no two of a dictionary are called the same.
        """
        new = self._kept.get(path) if type(value) in TENSORS else self._new_path(path + "/")
        if taken is None or new is None or not new.startswith(new_prefix):
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


def _like(container: Any, items: Sequence[tuple[Any, Any]], *, is_renamed: bool) -> Any:
    """Return a container of the same kind with other entries.

    What Module.state_dict() says of modules, by their names, holds no longer where one is renamed.
    """
    if type(container) is not Pairs:
        return type(container)(value for _, value in items)
    found = Pairs([*items], container.name)
    found.attributes = None if is_renamed else container.attributes
    return found


def _insert(root: Any, key: str) -> None:
    """Put a tensor where its key says, into new dictionaries where there are none on the way."""
    *way, last = map(unescaped, key.split("/"))
    at = root
    for part in (*way, None):
        if type(at) is not Pairs:
            raise ValueError(f"{key!r} has no place in the structure that was read")
        if part is None:
            break
        below = next((value for name, value in at.items if str(name) == part), None)
        if below is None:
            below = Pairs()
            at.items.append((_as_others(part, at), below))
        at = below
    at.items.append((_as_others(last, at), Placed(key)))


def _as_others(part: str, container: Pairs) -> Any:
    """Return a new key: a number where all others are numbers."""
    is_number = container.items and all(type(key) is int for key, _ in container.items)
    return _as(0 if is_number else "", part)


def _as(other: Any, part: str) -> Any:
    """Return a key as another one is: a number where that is one, and this can be."""
    return int(part) if type(other) is int and part.isascii() and part.isdecimal() else _text(part)
