"""The results of pickles: plain records, each with the amount that a call must read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES_OF_PLACE = 8
"""The size of a value's place in a list or on a stack."""


class Global(NamedTuple):
    """A name that a pickle may use: `make` builds a record of the arguments; None means a constant.

    `objects` is how many objects such a record is charged as.
    """

    name: str
    make: Callable[[tuple[Any, ...]], Any] | None = None
    objects: int = 1


class Pairs:
    """A dictionary: its keys and values in the order in which they were set.

    `name` is that of the class, if it is not `dict`, and `attributes` are its other attributes, as
    `Module.state_dict()` sets on its OrderedDict.
    """

    __slots__ = ("attributes", "items", "name")

    def __init__(self, items: list[tuple[Any, Any]] | None = None, name: str | None = None) -> None:
        self.items = [] if items is None else items
        self.name = name
        self.attributes: Any = None


class Bag:
    """A set: its elements; some may be equal."""

    __slots__ = ("items",)

    def __init__(self, items: list[Any]) -> None:
        self.items = items


class Made(NamedTuple):
    """Another plain value, which a global makes of arguments."""

    name: str
    arguments: tuple[Any, ...]


class PickledObject:
    """An object of a class that has nothing but fields; `fields` is what it was given as its state."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: Any = None


def places_read(arguments: tuple[Any, ...], most: int) -> int:
    """Return how many values a call goes through, or copies: those in its arguments, and in lists in these.

    The count stops at `most`, because counting takes as long as reading. Shapes and dictionaries are
    arguments; those of a tensor within another call are a level below.
    """
    places = 0
    for value in arguments:
        places += 1 + _places_in(value)
        if places > most:
            break
        if type(value) in (tuple, list):
            places += sum(map(_places_in, value))
    return places


def _places_in(value: Any) -> int:
    kind = type(value)
    if kind is tuple or kind is list:
        return len(value) + _PLACES_OF_TUPLE
    if kind is str or kind is bytes:
        return len(value) // BYTES_OF_PLACE
    if kind is Pairs or kind is Bag:
        return len(value.items)
    if kind is Made:
        return sum(
            len(each) for each in value.arguments[:_MOST_ARGUMENTS] if type(each) in (tuple, str, bytes)
        )
    return 0


_MOST_ARGUMENTS = 4
"""The arguments of a kept record. torch.Size has one; others are not read again."""

_PLACES_OF_TUPLE = 4
"""The memory of a tuple, or a list, besides its elements."""
