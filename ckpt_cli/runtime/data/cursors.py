"""Cursors: a place in a pass over a dataset, its state as TensorFlow writes it, and being put there.

A cursor draws from the cursors of its input steps, and its state is followed by theirs. Its prefix is its
path: that of the cursor that draws from it, `::`, and its own name. Names and keys are TensorFlow's, of both
releases where those differ.

    sections of a cursor at PREFIX
      PREFIX::NAME           its own values
      PREFIX::NAME::...      those of what it draws from; `PREFIX::NAME[i]::...` where that changes

A cursor that has ended stays so, and many have dropped what they drew from by then.
tensorflow/core/kernels/data/*_dataset_op.cc
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from .saved import UnfitStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor import Tensor
    from .recipe import Element, Step
    from .saved import Sections

__all__ = ["Cursor", "Derived", "refuse_error"]


class Cursor(ABC):
    """A place in a pass over a dataset; its classes are the kinds of steps that there are."""

    name: ClassVar[str]
    """TensorFlow's name of the iterator."""
    can_be_sampled: ClassVar[bool] = True
    """Whether a sample can be had without drawing from something that is not drawn from again."""

    @abstractmethod
    def __init__(self, inputs: Sequence[Step]) -> None:
        """Start at the beginning; a step's own arguments follow the inputs."""

    @abstractmethod
    def next(self) -> Element:
        """Return the next element; StopIteration at the end, and ever after."""

    @abstractmethod
    def save(self, out: Sections, prefix: str) -> None:
        """Write what `restore` needs to be here again."""

    @abstractmethod
    def restore(self, state: Sections, prefix: str) -> None:
        """Go from the beginning to where a state was saved; UnfitStateError where it is of something else."""

    @classmethod
    def length(cls, inputs: list[int], *settings: Any) -> int:
        """Return how many elements there are of inputs of given lengths."""
        return inputs[0]

    @classmethod
    def sample(cls, inputs: list[Element], more: int, *settings: Any) -> Element:
        """Return what an element looks like, from samples of the inputs."""
        return inputs[0]

    @classmethod
    def held(cls, *settings: Any) -> Sequence[Tensor] | None:
        """Return the elements of a window; None of everything else."""
        return None


class Derived(Cursor):
    """A cursor that draws from another until that ends, and then drops it."""

    ended = "input_impl_empty"
    """The key that says whether the input has been dropped."""

    def __init__(self, inputs: Sequence[Step]) -> None:
        self._source = inputs[0]
        self._input: Cursor | None = self._source.open()

    def draw(self) -> Element:
        """Return the input's next element; StopIteration at its end."""
        if self._input is None:
            raise StopIteration
        try:
            return self._input.next()
        except StopIteration:
            self._input = None
            raise

    def inner(self, me: str) -> str:
        """Return the prefix of the input."""
        return me

    def own(self, me: str) -> dict[str, int]:
        """Return the values of this cursor alone."""
        return {}

    def take(self, state: Sections, me: str) -> None:
        """Take what `own` wrote."""

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        out.put(me, {self.ended: int(self._input is None), **self.own(me)})
        if self._input is not None:
            self._input.save(out, self.inner(me))

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        has_ended = bool(state.number(me, self.ended, most=1))
        self._input = None if has_ended else self._source.open()
        self.take(state, me)
        if self._input is not None:
            self._input.restore(state, self.inner(me))


def refuse_error(state: Sections, prefix: str, key: str) -> None:
    """Reject an element that is an error, because its number does not identify it."""
    if code := state.number(prefix, key):
        raise UnfitStateError(f"{prefix}: an element that could not be made, error {code}")
