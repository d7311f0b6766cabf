"""tf.Module: a trackable that finds the variables in its attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import names
from .containers import Container
from .trackable import AutoTrackable, Trackable, name_or_class
from .variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Module"]


class Module(AutoTrackable):
    """Base of objects that own variables and other modules."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name_or_class(name, self)
        if not self._name.isidentifier():
            raise ValueError(
                f"{self._name!r} is not a valid module name. Module names must be valid Python identifiers "
                "(e.g. a valid class name)."
            )
        self._scope_name = names.scoped(self._name) + "/"

    @property
    def name(self) -> str:
        return self._name

    @property
    def name_scope(self) -> names.name_scope:
        return names.name_scope(self._scope_name)

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a method to run within the module's name scope."""

        def wrapped(self: Module, *arguments: Any, **keywords: Any) -> Any:
            with self.name_scope:
                return method(self, *arguments, **keywords)

        wrapped.__name__, wrapped.__doc__ = method.__name__, method.__doc__
        return wrapped

    def _found(self, wanted: Callable[[Any], bool]) -> list[Any]:
        """Return everything reachable that is wanted, each once, attributes in the order of their names."""
        found: list[Any] = []
        seen: set[int] = set()

        def visit(value: Any, wanted_itself: bool) -> None:
            if isinstance(value, Trackable | list | tuple | dict):
                if id(value) in seen:
                    return
                seen.add(id(value))
            if wanted_itself and wanted(value):
                found.append(value)
            for part in _parts(value):
                visit(part, True)

        visit(self, False)
        return found

    @property
    def variables(self) -> tuple[Any, ...]:
        return tuple(self._found(lambda value: isinstance(value, Variable)))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        return tuple(variable for variable in self.variables if not variable.trainable)

    @property
    def submodules(self) -> tuple[Any, ...]:
        return tuple(self._found(lambda value: isinstance(value, Module)))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Module):
        attributes = vars(value)
        yield from (attributes[name] for name in sorted(attributes) if name not in _IGNORED)
    elif isinstance(value, dict):
        yield from (value[key] for key in sorted(value, key=str))
    elif isinstance(value, list | tuple) or (
        isinstance(value, Container) and not isinstance(value, Variable)
    ):
        yield from value  # type: ignore[misc]


_IGNORED = frozenset(("_trackable_links", "_name", "_scope_name"))
