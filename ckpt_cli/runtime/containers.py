"""Lists, tuples and dicts that are trackables.

A container assigned to an attribute is replaced by a wrapper of the same type: a list becomes a node with
edges `0`, `1`, ..., a dict has its keys as edges, a named tuple an edge for each field and then for each
index. Later additions are tracked, and restored as they are added.

A wrapper of a list or dict shows the container it was made of and writes to it, so
what is put into that one, before or after, is seen.  But restoring by position needs
positions to keep their meaning: a wrapper that has been changed in other ways than by
appending, or behind its back, refuses to be saved.
"""

from __future__ import annotations

import copy
import inspect
import operator
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from .trackable import NoDependency, Trackable, track_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["Container", "DictWrapper", "ListWrapper", "TupleWrapper", "wrap"]


class Container(Trackable):
    """The common part of the wrappers: variables in the container itself, and in its elements."""

    __hash__ = None  # type: ignore[assignment]

    trainable = True

    def _elements(self) -> list[Any]:
        raise NotImplementedError

    @property
    def _variables(self) -> list[Any]:
        """The variables that were tracked, kept apart from what the container holds now."""
        return self.__dict__.setdefault("_tracked_variables", [])

    def _tracked(self, name: str, value: Any) -> Any:
        """Attach an element under its edge name, and return its replacement."""
        value = track_attribute(self, name, value)
        if getattr(value, "_is_variable", False):
            self._variables.append(value)
        return value

    def _gathered(self, attribute: str) -> list[Any]:
        """Return the variables of one kind that belong to the elements."""
        return [
            variable
            for element in self._elements()
            if isinstance(element, Trackable) and not element._is_variable and hasattr(element, attribute)
            for variable in getattr(element, attribute)
        ]

    @property
    def trainable_variables(self) -> list[Any]:
        if not self.trainable:
            return []
        own = [variable for variable in self._variables if variable.trainable]
        return self._gathered("trainable_variables") + own

    @property
    def non_trainable_variables(self) -> list[Any]:
        own = [variable for variable in self._variables if not variable.trainable]
        found = self._gathered("non_trainable_variables") + own
        if self.trainable:
            return found
        frozen = [variable for variable in self._variables if variable.trainable]
        return self._gathered("trainable_variables") + frozen + found

    @property
    def variables(self) -> list[Any]:
        return self.trainable_variables + self.non_trainable_variables

    trainable_weights, non_trainable_weights, weights = (
        trainable_variables,
        non_trainable_variables,
        variables,
    )

    @property
    def layers(self) -> list[Any]:
        return [element for element in self._elements() if hasattr(type(element), "trainable_variables")]


_IGNORED = (
    "\n\nIf you don't need this {word} checkpointed, wrap it in a {remedy} object; it will be subsequently "
    "ignored."
)
_MOVED = (
    "A list element was replaced (__setitem__, __setslice__), deleted (__delitem__, __delslice__), or moved "
    "(sort). In order to support restoration on object creation, tracking is exclusively for append-only "
    "data structures."
) + _IGNORED.format(word="list", remedy="non-trackable")
_NOT_TEXT = (
    "The wrapped dictionary contains a non-string key which maps to a trackable object or mutable data "
    "structure."
) + _IGNORED.format(word="dictionary", remedy="non-trackable")
_OUTSIDE = (
    "The wrapped {word} was modified outside the wrapper (its final value was {found}, its value when a "
    "checkpoint dependency was added was {expected}), which breaks restoration on object creation."
) + _IGNORED


def _is_same(one: Any, other: Any) -> bool:
    """Whether two elements are one: plain values by being equal, not what is compared element by element."""
    if one is other:
        return True
    if isinstance(one, Trackable | np.ndarray) or isinstance(other, Trackable | np.ndarray):
        return False
    return bool(one == other)


def _original(value: Any) -> Any:
    return value._original if isinstance(value, ListWrapper | DictWrapper) else value


_READING: dict[str, Callable[..., Any]] = {
    "__len__": len,
    "__iter__": iter,
    "__reversed__": reversed,
    "__getitem__": operator.getitem,
}
_COMPARING = ("__contains__", "__eq__", "__ne__")
_ORDERING = ("__lt__", "__le__", "__gt__", "__ge__")


def _shows_original(*names: str) -> Callable[[type], type]:
    """Make a wrapper's methods those of the container it was made of."""

    def method(name: str) -> Callable[..., Any]:
        reading = _READING.get(name)

        def read(self: Any, *arguments: Any) -> Any:
            assert reading is not None
            return reading(self._original, *arguments)

        def call(self: Any, *arguments: Any, **more: Any) -> Any:
            return getattr(self._original, name)(*map(_original, arguments), **more)

        made = call if reading is None else read
        made.__name__ = name
        return made

    def decorate(cls: type) -> type:
        for name in names:
            setattr(cls, name, method(name))
        return cls

    return decorate


class _Mutable(Container):
    """A wrapper of a container that can be changed."""

    _original: Any
    _snapshot: Any
    _broken = ""
    """Why this cannot be saved; the empty text where it can."""

    _kind: str
    _word: str
    _remedy: str

    def __init__(self, original: Any) -> None:
        raise NotImplementedError

    def _remember(self) -> None:
        """Take note of what the original holds, after a change of our own."""
        self._snapshot = copy.copy(self._original)

    def _is_as_remembered(self) -> bool:
        raise NotImplementedError

    def _check(self) -> None:
        """Note whether the original was changed behind our back."""
        if not self._broken and not self._is_as_remembered():
            self._broken = _OUTSIDE.format(
                word=self._word, remedy=self._remedy, found=self._original, expected=self._snapshot
            )

    def _trackable_children(self) -> Mapping[str, Trackable]:
        self._check()
        if self._broken:
            raise ValueError(f"Unable to save the object {self} (a {self._kind}). {self._broken}")
        return super()._trackable_children()

    def _copied(self, original: Any) -> Any:
        """Return a wrapper of a copy, which can be saved as little as this one."""
        copied = type(self)(original)
        copied._broken = copied._broken or self._broken
        return copied

    def __copy__(self) -> Any:
        return self._copied(copy.copy(self._original))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._copied(copy.deepcopy(self._original, memo))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return wrap, (self._original,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._original!r})"


@_shows_original(*_READING, *_COMPARING, *_ORDERING, "__add__", "__mul__", "__rmul__", "index", "count")
class ListWrapper(_Mutable, list[Any]):
    """A list that tracks what is appended."""

    _kind = "list wrapper constructed to track trackable TensorFlow objects"
    _word, _remedy = "list", "NoDependency"

    def __init__(self, original: list[Any]) -> None:
        list.__init__(self)
        self._original = original
        for index, element in enumerate(original):
            original[index] = self._tracked(str(index), element)
        self._remember()

    def _elements(self) -> list[Any]:
        return list(self._original)

    def _is_as_remembered(self) -> bool:
        return len(self._original) == len(self._snapshot) and all(
            map(_is_same, self._original, self._snapshot)
        )

    def _moving(self, elements: Iterable[Any]) -> None:
        """Note that elements lose their places, which matters if one of them is tracked."""
        self._check()
        if any(isinstance(element, Trackable) for element in elements):
            self._broken = self._broken or _MOVED

    def __radd__(self, other: Any) -> Any:
        return other + self._original

    def append(self, value: Any) -> None:
        self._check()
        self._original.append(self._tracked(str(len(self._original)), value))
        self._remember()

    def extend(self, values: Iterable[Any]) -> None:
        for value in list(values):
            self.append(value)

    def __iadd__(self, values: Iterable[Any]) -> ListWrapper:  # type: ignore[misc]
        self.extend(values)
        return self

    def __imul__(self, count: SupportsIndex) -> ListWrapper:
        times = count.__index__()
        if times <= 0:
            self.clear()
        else:
            self.extend(self._elements() * (times - 1))
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            self._set_slice(key, value)
            return
        index = range(len(self._original))[key]
        self._moving([self._original[index]])
        self._original[index] = self._tracked(str(index), value)
        self._remember()

    def _set_slice(self, key: slice, values: Iterable[Any]) -> None:
        before = self._elements()
        self._moving(before)
        self._original[key] = values
        for index, value in enumerate(self._original):
            if index >= len(before) or not _is_same(value, before[index]):
                self._original[index] = self._tracked(str(index), value)
        self._remember()

    def __delitem__(self, key: Any) -> None:
        self._moving(self._original)
        del self._original[key]
        self._remember()

    def insert(self, index: SupportsIndex, value: Any) -> None:
        self._moving([*self._original, value])
        self._original.insert(index, value)
        self._remember()

    def pop(self, index: SupportsIndex = -1) -> Any:
        value = self[index]
        del self[index]
        return value

    def remove(self, value: Any) -> None:
        del self[self.index(value)]

    def clear(self) -> None:
        self._moving(self._original)
        self._original.clear()
        self._remember()

    def reverse(self) -> None:
        self[:] = self._elements()[::-1]

    def sort(self, **how: Any) -> None:
        self._moving(self._original)
        self._original.sort(**how)
        self._remember()

    def copy(self) -> ListWrapper:
        return ListWrapper(self._elements())

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sys.getsizeof(self._original)


# As in TensorFlow, these change the dict behind the wrapper's back: it cannot be saved afterwards.
@_shows_original("pop", "popitem", "clear", "setdefault")
@_shows_original(*_READING, *_COMPARING, "__or__", "__ror__", "get", "items", "keys", "values")
class DictWrapper(_Mutable, dict[Any, Any]):
    """A dict that tracks the values of its string keys."""

    _kind = "dictionary wrapper constructed automatically on attribute assignment"
    _word, _remedy = "dictionary", "non-trackable"

    def __init__(self, original: Any = ()) -> None:
        dict.__init__(self)
        self._original = original if isinstance(original, dict) else dict(original)
        for key, value in list(self._original.items()):
            self._put(key, value)
        self._remember()

    def _elements(self) -> list[Any]:
        if all(isinstance(key, str) for key in self):
            return [self[key] for key in sorted(self)]
        return list(self.values())

    def _is_as_remembered(self) -> bool:
        return self._original.keys() == self._snapshot.keys() and all(
            _is_same(value, self._snapshot[key]) for key, value in self._original.items()
        )

    def _put(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            value = self._tracked(key, value)
        elif isinstance(value, NoDependency):
            value = value.value
        else:
            value = wrap(value)
            if isinstance(value, Trackable):
                self._broken = self._broken or _NOT_TEXT
        self._original[key] = value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check()
        self._put(key, value)
        self._remember()

    def __delitem__(self, key: Any) -> None:
        # As in TensorFlow, the edge of a deleted key stays: what was saved under it has not become another's.
        self._check()
        del self._original[key]
        self._remember()

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self._original |= other
        return self

    def update(self, *arguments: Any, **values: Any) -> None:
        for key, value in dict(*arguments, **values).items():
            self[key] = value

    def copy(self) -> dict[Any, Any]:
        return copy.copy(self)

    def __str__(self) -> str:
        return str(self._original)


@_shows_original("move_to_end")
class OrderedDictWrapper(DictWrapper, OrderedDict[Any, Any]):  # type: ignore[misc]
    """The wrapper of an OrderedDict, and one itself."""

    def __init__(self, original: Any = ()) -> None:
        OrderedDict.__init__(self)
        DictWrapper.__init__(self, original if isinstance(original, dict) else OrderedDict(original))

    def __repr__(self) -> str:
        return f"DictWrapper({self._original!r})"


class TupleWrapper(Container):
    """The common part of the wrappers of tuples; `wrap` combines it with the tuple's own class."""

    _is_constructable = True

    def _elements(self) -> list[Any]:
        return list(self)  # type: ignore[call-overload]

    def _trackable_children(self) -> Mapping[str, Trackable]:
        if not self._is_constructable:
            raise ValueError(
                f"Unable to save because the namedtuple {self!r} is not constructable from its _fields (i.e. "
                f"__new__ is overridden). Expected keyword arguments {self._fields}. If you do not need to "  # type: ignore[attr-defined]
                "save this object, consider wrapping it in a custom object that does not inherit from tuple."
            )
        return super()._trackable_children()

    def _track_part(self, name: str, part: Any) -> None:
        if isinstance(part, Trackable):
            self._track(part, name)
            if part._is_variable and all(part is not one for one in self._variables):
                self._variables.append(part)

    def __copy__(self) -> Any:
        return _tuple_wrapper(_plain_class(self), tuple(self))  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _tuple_wrapper(_plain_class(self), copy.deepcopy(tuple(self), memo))  # type: ignore[arg-type]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _tuple_wrapper, (_plain_class(self), tuple(self))  # type: ignore[arg-type]

    def __str__(self) -> str:
        plain = _plain_class(self)
        return plain.__repr__(self) if not hasattr(self, "_fields") else _shown(self, plain)

    def __repr__(self) -> str:
        return f"_TupleWrapper({self})"

    __hash__ = tuple.__hash__  # type: ignore[assignment]


def _plain_class(wrapper: TupleWrapper) -> Any:
    """Return the tuple's own class."""
    return type(wrapper).__bases__[1]


def _shown(value: Any, plain: type) -> str:
    parts = (f"{name}={part!r}" for name, part in zip(value._fields, value, strict=True))
    return f"{plain.__name__}({', '.join(parts)})"


_tuple_classes: dict[type, type] = {}


def _tuple_class(plain: type) -> type:
    """Return the class that is both the wrapper and `plain`; what `plain` has of a name goes first."""
    cls = _tuple_classes.get(plain)
    if cls is None:
        names = [name for name in dir(plain) if not name.startswith("__") and hasattr(Container, name)]
        kept = {name: inspect.getattr_static(plain, name) for name in names}
        cls = _tuple_classes[plain] = type("_TupleWrapper", (TupleWrapper, plain), kept)
    return cls


def _tuple_wrapper(plain: Any, elements: Iterable[Any]) -> Any:
    """Return a tuple of a class that is both the wrapper and `plain`."""
    parts = [one.value if isinstance(one, NoDependency) else wrap(one) for one in elements]
    fields = getattr(plain, "_fields", ())
    try:
        made = plain(**dict(zip(fields, parts, strict=True))) if fields else plain(parts)
    except TypeError:  # A class with a way of its own to be made: nothing says how to make it again.
        unmade: Any = tuple.__new__(_tuple_class(plain), elements)
        unmade._is_constructable = False
        return unmade
    wrapper: Any = tuple.__new__(_tuple_class(plain), made)
    tracked = [not isinstance(one, NoDependency) for one in elements]
    edges = [str(index) for index in range(len(parts))]
    for names in (fields, edges):
        for name, part, wanted in zip(names, made, tracked, strict=False):
            if wanted:
                wrapper._track_part(name, part)
    return wrapper


def _holds_trackables(value: tuple[Any, ...]) -> bool:
    return any(
        isinstance(element, Trackable | NoDependency)
        or type(element) in (list, dict, OrderedDict)
        or (isinstance(element, tuple) and _holds_trackables(element))
        for element in value
    )


def wrap(value: Any) -> Any:
    """Return a container's wrapper; anything else, subclasses of list and dict included, as it is."""
    kind = type(value)
    if kind is list:
        return ListWrapper(value)
    if kind is dict:
        return DictWrapper(value)
    if kind is OrderedDict:
        return OrderedDictWrapper(value)
    if isinstance(value, tuple) and not isinstance(value, Trackable) and _holds_trackables(value):
        return _tuple_wrapper(kind, value)
    return value
