"""Recipes: what a dataset is made of, step by step, before anything is drawn.

A step is a kind of cursor, its input steps, and its arguments. Opening a step makes a cursor at its
beginning. Facts about a dataset before it runs come from the kinds: the number of elements, and their spec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .cursors import Cursor

__all__ = ["INFINITE", "UNKNOWN", "Element", "Shared", "Step", "call"]

Element: TypeAlias = Any
"""A tensor, a dataset, or a structure of them."""

INFINITE = -1
UNKNOWN = -2


class Shared(ABC):
    """The mutable state that all iterators of a dataset share."""

    @abstractmethod
    def anew(self) -> Shared:
        """Return one at its beginning."""


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a pipeline."""

    kind: type[Cursor]
    inputs: tuple[Step, ...] = ()
    settings: tuple[Any, ...] = ()

    def open(self) -> Cursor:
        """Return a cursor at the beginning."""
        return self.kind(self.inputs, *self.settings)

    def length(self) -> int:
        """Return how many elements there are, INFINITE or UNKNOWN."""
        return self.kind.length([one.length() for one in self.inputs], *self.settings)

    def sample(self, more: int = 0) -> Any:
        """Return what an element looks like; axes whose size varies are `more` longer.

        Nothing is drawn for it, but the functions of the pipeline are called.
        """
        return self.kind.sample([one.sample(more) for one in self.inputs], more, *self.settings)

    @cached_property
    def structure(self) -> Any:
        """An element, for its structure."""
        return self.sample()

    @property
    def can_be_sampled(self) -> bool:
        """Whether a sample can be had without a look at what a generator yields."""
        return all(step.kind.can_be_sampled for step in self.walk())

    def walk(self) -> Iterator[Step]:
        """Yield this step and all below it."""
        yield self
        for one in self.inputs:
            yield from one.walk()

    def rebuilt(self, rule: Callable[[Step], Step]) -> Step:
        """Return what a rule makes of every step, the innermost first."""
        return rule(replace(self, inputs=tuple(one.rebuilt(rule) for one in self.inputs)))

    def anew(self) -> Step:
        """Return the same pipeline, sharing nothing with the iterators of this one."""

        def rule(step: Step) -> Step:
            settings = tuple(one.anew() if isinstance(one, Shared) else one for one in step.settings)
            return replace(step, settings=settings)

        return self.rebuilt(rule)

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.inputs))
        return f"{self.kind.name}({inner})" if inner else self.kind.name


def call(function: Callable[..., Any], element: Any) -> Any:
    """Call a function with an element; a tuple is spread over its arguments."""
    return function(*element) if isinstance(element, tuple) else function(element)
