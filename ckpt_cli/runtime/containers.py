"""Lists, tuples and dicts that are trackables.

Assigned to an attribute, a container is replaced by a wrapper that is still of its
own type: a list that is a node with edges `0`, `1`, ..., a dict with its keys for
edges, a named tuple with an edge for each field and then for each index.  What is
added later is tracked, and restored on arrival.  The wrapper writes through to the
container it was made of.

Restoring by position needs positions to keep their meaning.  So a wrapper that has
been changed in other ways than by appending, or behind its back, refuses to be saved.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, SupportsIndex

from .trackable import NoDependency, Trackable, track_attribute

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Container", "DictWrapper", "ListWrapper", "TupleWrapper", "wrap"]


class Container(Trackable):
    """What the wrappers have in common."""

    __hash__ = None  # type: ignore[assignment]

    def _elements(self) -> list[Any]:
        raise NotImplementedError

    def _weights(self, attribute: str) -> list[Any]:
        """Return the variables of one kind in the elements: of layers and containers, then plain ones."""
        found: list[Any] = []
        for element in self._elements():
            if isinstance(element, Trackable) and not element._is_variable and hasattr(element, attribute):
                found += getattr(element, attribute)
        wanted = {
            "trainable_variables": (True,),
            "non_trainable_variables": (False,),
            "variables": (True, False),
        }[attribute]
        variables = (one for one in self._elements() if getattr(one, "_is_variable", False))
        return found + [one for one in variables if one.trainable in wanted]

    @property
    def trainable_variables(self) -> list[Any]:
        return self._weights("trainable_variables")

    @property
    def non_trainable_variables(self) -> list[Any]:
        return self._weights("non_trainable_variables")

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
        return [element for element in self._elements() if hasattr(element, "trainable_variables")]


def _same(left: Iterable[Any], right: Iterable[Any]) -> bool:
    left, right = list(left), list(right)
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


class ListWrapper(Container, list[Any]):
    """A list that tracks what is appended."""

    def __init__(self, original: list[Any]) -> None:
        list.__init__(self)
        self._original = original
        self._broken = ""
        for index, element in enumerate(original):
            list.append(self, track_attribute(self, str(index), element))
        self._written()

    def _elements(self) -> list[Any]:
        return list(self)

    def _written(self) -> None:
        """Write through, and remember what was written."""
        self._original[:] = self
        self._snapshot = list(self)

    def _check(self) -> None:
        if not self._broken and not _same(self._original, self._snapshot):
            self._broken = "external"

    def _moved(self, elements: Iterable[Any]) -> None:
        """Note that elements lose their places, which matters if one of them is tracked."""
        if any(isinstance(element, Trackable) for element in elements):
            self._broken = self._broken or "mutation"

    def _trackable_children(self) -> Mapping[str, Trackable]:
        self._check()
        if self._broken == "mutation":
            raise ValueError(
                f"Unable to save the object {self} (a list wrapper constructed to track trackable "
                "TensorFlow objects). "
                "A list element was replaced (__setitem__, __setslice__), deleted (__delitem__, "
                "__delslice__), or moved "
                "(sort). In order to support restoration on object creation, tracking is exclusively for "
                "append-only "
                "data structures.\n\nIf you don't need this list checkpointed, wrap it in a non-trackable "
                "object; it "
                "will be subsequently ignored."
            )
        if self._broken:
            raise ValueError(
                f"Unable to save the object {self} (a list wrapper constructed to track trackable "
                "TensorFlow objects). "
                f"The wrapped list was modified outside the wrapper (its final value was {self._original}, "
                "its value "
                f"when a checkpoint dependency was added was {self._snapshot}), which breaks restoration "
                "on object "
                "creation.\n\nIf you don't need this list checkpointed, wrap it in a NoDependency object; "
                "it will be "
                "subsequently ignored."
            )
        return super()._trackable_children()

    def append(self, value: Any) -> None:
        self._check()
        list.append(self, track_attribute(self, str(len(self)), value))
        self._written()

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
            self.extend(list(self) * (times - 1))
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check()
        if isinstance(key, slice):
            self._moved(self[key])
            if any(isinstance(one, Trackable) for one in value):
                self._broken = self._broken or "mutation"
            list.__setitem__(self, key, value)
        else:
            index = range(len(self))[key]
            self._moved([self[index]])
            list.__setitem__(self, index, track_attribute(self, str(index), value))
        self._written()

    def __delitem__(self, key: Any) -> None:
        self._check()
        self._moved(self)
        list.__delitem__(self, key)
        self._written()

    def insert(self, index: SupportsIndex, value: Any) -> None:
        self._check()
        self._moved([*self, value])
        list.insert(self, index, wrap(value))
        self._written()

    def pop(self, index: SupportsIndex = -1) -> Any:
        value = self[index]
        del self[index]
        return value

    def remove(self, value: Any) -> None:
        del self[self.index(value)]

    def clear(self) -> None:
        del self[:]

    def reverse(self) -> None:
        self[:] = list(self)[::-1]

    def sort(self, **how: Any) -> None:
        self[:] = sorted(self, **how)

    def copy(self) -> ListWrapper:
        return ListWrapper(list(self))

    def __copy__(self) -> ListWrapper:
        return self.copy()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return ListWrapper, (list(self),)

    def __repr__(self) -> str:
        return f"ListWrapper({list.__repr__(self)})"

    __str__ = __repr__


class DictWrapper(Container, dict[Any, Any]):
    """A dict that tracks the values of its string keys."""

    def __init__(self, original: Mapping[Any, Any]) -> None:
        dict.__init__(self)
        self._original: Any = original
        self._broken = ""
        for key, value in list(original.items()):
            self._put(key, value)
        self._written()

    def _elements(self) -> list[Any]:
        if all(isinstance(key, str) for key in self):
            return [self[key] for key in sorted(self)]
        return list(self.values())

    def _put(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            value = track_attribute(self, key, value)
        elif isinstance(value, NoDependency):
            value = value.value
        else:
            value = wrap(value)
            if isinstance(value, Trackable):
                self._broken = self._broken or "key"
        super().__setitem__(key, value)

    def _written(self) -> None:
        self._original.clear()
        self._original.update(self)
        self._snapshot = dict(self)

    def _check(self) -> None:
        same = _same(self._original, self._snapshot) and _same(
            self._original.values(), self._snapshot.values()
        )
        if not self._broken and not same:
            self._broken = "external"

    def _trackable_children(self) -> Mapping[str, Trackable]:
        self._check()
        if self._broken == "key":
            raise ValueError(
                f"Unable to save the object {self} (a dictionary wrapper constructed automatically on "
                "attribute "
                "assignment). The wrapped dictionary contains a non-string key which maps to a trackable "
                "object or "
                "mutable data structure.\n\nIf you don't need this dictionary checkpointed, wrap it in a "
                "non-trackable "
                "object; it will be subsequently ignored."
            )
        if self._broken:
            raise ValueError(
                f"Unable to save the object {self} (a dictionary wrapper constructed automatically on "
                "attribute "
                f"assignment). The wrapped dictionary was modified outside the wrapper (its final value was "
                f"{self._original}, its value when a checkpoint dependency was added was "
                f"{self._snapshot}), which "
                "breaks restoration on object creation.\n\nIf you don't need this dictionary checkpointed, "
                "wrap it in "
                "a non-trackable object; it will be subsequently ignored."
            )
        return super()._trackable_children()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check()
        self._put(key, value)
        self._written()

    def __delitem__(self, key: Any) -> None:
        # As in TensorFlow, the edge of a deleted key stays: what was saved under it has not become another's.
        self._check()
        super().__delitem__(key)
        self._written()

    def update(self, *arguments: Any, **values: Any) -> None:
        for key, value in dict(*arguments, **values).items():
            self[key] = value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        if key not in self and default:
            return default[0]
        value = self[key]
        del self[key]
        return value

    def popitem(self, last: bool = True) -> tuple[Any, Any]:
        key = list(self)[-1 if last else 0]
        return key, self.pop(key)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def copy(self) -> dict[Any, Any]:
        return wrap(type(self._original)(self))

    def __copy__(self) -> dict[Any, Any]:
        return self.copy()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return wrap, (type(self._original)(self),)

    def __repr__(self) -> str:
        return f"DictWrapper({dict(self)!r})"

    __str__ = __repr__


class OrderedDictWrapper(DictWrapper, OrderedDict[Any, Any]):  # type: ignore[misc]
    """The wrapper of an OrderedDict, and one itself."""

    def __init__(self, original: Mapping[Any, Any]) -> None:
        OrderedDict.__init__(self)
        DictWrapper.__init__(self, original)


class TupleWrapper(Container):
    """What the wrappers of tuples have in common; `wrap` joins it with the tuple's own class."""

    def _elements(self) -> list[Any]:
        return list(self)  # type: ignore[call-overload]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _tuple_wrapper, (type(self).__bases__[1], tuple(self))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        plain: Any = type(self).__bases__[1]
        shown = plain.__repr__(self) if not hasattr(self, "_fields") else _shown(self, plain)
        return f"_TupleWrapper({shown})"

    __str__ = __repr__
    __hash__ = tuple.__hash__  # type: ignore[assignment]


def _shown(value: Any, plain: type) -> str:
    parts = (f"{name}={part!r}" for name, part in zip(value._fields, value, strict=True))
    return f"{plain.__name__}({', '.join(parts)})"


_tuple_classes: dict[type, type] = {}


def _tuple_wrapper(plain: type, elements: Iterable[Any]) -> Any:
    """Return a tuple of a class that is both the wrapper and `plain`."""
    cls = _tuple_classes.get(plain)
    if cls is None:
        cls = _tuple_classes[plain] = type("_TupleWrapper", (TupleWrapper, plain), {})
    parts = [one.value if isinstance(one, NoDependency) else wrap(one) for one in elements]
    wrapper: Any = tuple.__new__(cls, parts)
    tracked = [not isinstance(one, NoDependency) for one in elements]
    edges = [str(index) for index in range(len(parts))]
    for names in (getattr(plain, "_fields", ()), edges):
        for name, part, wanted in zip(names, parts, tracked, strict=False):
            if wanted and isinstance(part, Trackable):
                wrapper._track(part, name)
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
