"""Trackables: objects that can be nodes of an object graph.

A trackable knows its children by edge name, in the order in which they were first
attached; attaching another object under a name keeps the name's place.  A checkpoint
that was restored before a child existed has left a note under the child's name
(`Deferred`); attaching the child reads it.

    trackable
      children   edge name -> trackable
      deferred   edge name -> what a restore has for the child to come
      update_uid number of the newest restore that reached it

Plain Python values are stored and otherwise ignored.  Lists, tuples and dicts are
replaced by wrappers that are trackables (`containers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from . import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.core.dtypes import DType
    from formats.core.spec import TensorSpec

__all__ = ["AutoTrackable", "Deferred", "NoDependency", "Trackable", "track_attribute"]


class Deferred(Protocol):
    """The values that a restore keeps for a child that does not exist yet."""

    @property
    def restore_uid(self) -> int: ...

    def restore(self, trackable: Trackable) -> None:
        """Restore into the child that has arrived."""


class _Links:
    """A trackable's place in graphs; made when first needed, as subclasses may not call `__init__`."""

    __slots__ = ("by_name", "children", "deferred", "parts", "update_uid")

    def __init__(self) -> None:
        self.children: dict[str, Trackable] = {}
        self.deferred: dict[str, list[Deferred]] = {}
        self.by_name: list[Any] = []
        self.update_uid = -1
        self.parts: list[Any] | None = None
        """the tracked objects that a layer has found among the children; forgotten when they change"""


class Trackable:
    """Base of everything that can be saved."""

    _is_variable = False
    """Whether this is a leaf that holds a value itself; containers collect those."""

    @property
    def _links(self) -> _Links:
        try:
            return self.__dict__["_trackable_links"]
        except KeyError:
            links = self.__dict__["_trackable_links"] = _Links()
            return links

    @property
    def _update_uid(self) -> int:
        return self._links.update_uid

    @_update_uid.setter
    def _update_uid(self, uid: int) -> None:
        self._links.update_uid = uid

    def _trackable_children(self) -> Mapping[str, Trackable]:
        """Return the children by edge name; ValueError where they cannot be saved."""
        return self._links.children

    def _lookup_child(self, name: str) -> Trackable | None:
        """Return the child at an edge name, for a restore."""
        return self._links.children.get(name)

    def _track(self, child: Trackable, name: str) -> Trackable:
        """Attach a child, and restore what is waiting for it."""
        links = self._links
        links.children[name] = child
        links.parts = None
        self._settle(name, child)
        return child

    def _untrack(self, name: str) -> None:
        self._links.children.pop(name, None)
        self._links.parts = None

    def _defer(self, name: str, restoration: Deferred) -> None:
        """Keep a restoration for a child to come."""
        self._links.deferred.setdefault(name, []).append(restoration)

    def _settle(self, name: str, child: Trackable) -> None:
        """Restore what is waiting for a child: the newest first, and older ones leave it alone then."""
        links = self._links
        for restoration in sorted(links.deferred.pop(name, ()), key=lambda waiting: -waiting.restore_uid):
            restoration.restore(child)
        for coordinator in sorted(links.by_name, key=lambda restore: -restore.restore_uid):
            coordinator.restore(child)

    _key_suffix = ""
    """The suffix of this object's tensor keys after the key in the object graph."""

    _saved_dtype: DType | None = None
    """The dtype of this object's tensors, where their arrays do not tell it."""

    def _serialize(self) -> dict[str, Any]:
        """Return what is saved of this object itself: values by attribute name."""
        return {}

    def _restorable(self) -> tuple[str, ...]:
        """Return the names of the attributes that this object takes from a checkpoint."""
        return ()

    def _required(self) -> tuple[str, ...]:
        """Return the names that a checkpoint must have, if it has anything of this object's own."""
        return ()

    def _understands(self, attribute: str, spec: TensorSpec) -> bool:
        """Whether a stored attribute is of a kind that this object can take at all."""
        return True

    def _check_restored(self, attribute: str, spec: TensorSpec) -> None:
        """Raise ValueError or InvalidArgumentError where a stored value does not fit this object."""

    def _decode_restored(self, attribute: str, value: Any) -> Any:
        """Return a stored value as `_take_restored` takes it; raise where it makes no sense."""
        return value

    def _take_restored(self, attribute: str, value: Any) -> None:
        """Take a value that has been checked."""

    def _full_name(self) -> str:
        """Return the name-based name, or the empty text."""
        return ""


class NoDependency:
    """Wrap a value to assign it to an attribute without its being tracked."""

    def __init__(self, value: Any) -> None:
        self.value = value


def track_attribute(owner: Trackable, name: str, value: Any) -> Any:
    """Attach a value that is being assigned, if possible, and return its replacement."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, NoDependency):
        return value.value
    if not isinstance(value, Trackable):
        from .containers import wrap

        value = wrap(value)
    if isinstance(value, Trackable):
        owner._track(value, name)
    return value


_PLAIN = frozenset((int, float, bool, str, bytes, complex, type(None), set, frozenset))


class AutoTrackable(Trackable):
    """A trackable whose attributes are its children."""

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get(name, _MISSING) is value:
            return
        object.__setattr__(self, name, track_attribute(self, name, value))

    def __delattr__(self, name: str) -> None:
        self._untrack(name)
        object.__delattr__(self, name)


_MISSING = object()


def name_or_class(name: str | None, instance: object) -> str:
    """Return a given name, or the snake-cased name of the class."""
    return name if name is not None else names.to_snake_case(type(instance).__name__)
