"""Shuffling as TensorFlow does it, number by number.

The elements of a pass go into a ring of slots, each pass into a slice of it, one slice after another. An
element is drawn from the first slice: its slot is the next random number, modulo the slice's length, after
the slice's start. The element at the start takes its place, and the start moves on. A shuffle that repeats
fills up with the next pass while it still draws from the last, so two passes can be in the ring.

Random numbers are those of Philox with two seeds, in order. A pass that shuffles again takes its seeds from
two further numbers of a generator that all iterators of a dataset share.
tensorflow/core/kernels/data/shuffle_dataset_op.cc, tensorflow/core/kernels/data/random_seed_ops.cc
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .. import philox
from ..nest import flatten
from .cursors import Cursor
from .recipe import INFINITE, Shared
from .saved import Sections, UnfitStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .recipe import Step

__all__ = ["Seeds", "Shuffled", "ShuffledRepeatedly"]

_MOST_PASSES = 3
"""How many passes the ring may hold before it is emptied first."""
_BLOCK = 256
"""Random numbers made at a time."""
_MOST = 1 << 62


class Numbers:
    """The random numbers of two seeds, from one that is given on."""

    def __init__(self, seeds: tuple[int, int], count: int = 0) -> None:
        self.seeds, self.count = seeds, count
        self._made: list[int] = []
        self._first = count

    def next(self) -> int:
        if self.count - self._first >= len(self._made):
            self._first = self.count
            self._made = philox.samples(self.seeds[0], self.seeds[1] << 64, self.count, _BLOCK).tolist()
        self.count += 1
        return self._made[self.count - 1 - self._first]


class Seeds(Shared):
    """Where the passes of a dataset take their seeds from; `count` says how often they did."""

    def __init__(self, first: int, second: int, reshuffles: bool) -> None:
        self._seeds, self._reshuffles = (first, second), reshuffles
        self.count = 0

    def draw(self) -> tuple[int, int]:
        """Return the seeds of the next pass."""
        if not self._reshuffles:
            self.count += 1
            return self._seeds
        numbers = Numbers(self._seeds, self.count)
        self.count += 2
        return numbers.next(), numbers.next()

    def anew(self) -> Seeds:
        return Seeds(*self._seeds, self._reshuffles)


@dataclass
class Slice:
    """The slots of one pass, counted on around the ring."""

    start: int
    end: int
    has_ended: bool = False


class Shuffled(Cursor):
    """Elements drawn at random from a ring that is refilled in order."""

    name = "Shuffle"

    def __init__(self, inputs: Sequence[Step], size: int, seeds: Seeds, times: int = 1) -> None:
        self._source, self._size, self._seeds, self._times = inputs[0], size, seeds, times
        self._slots: list[Any] = [None] * size
        self._slices: deque[Slice] = deque()
        self._numbers = Numbers(seeds.draw())
        self._input: Cursor | None = None
        self._pass = self._count = 0
        self._has_produced = False

    def next(self) -> Any:
        self._fill()
        if not self._count:
            raise StopIteration
        while self._slices[0].start == self._slices[0].end:
            self._slices.popleft()
            self._numbers = Numbers(self._seeds.draw())
        current = self._slices[0]
        first = current.start % self._size
        place = (current.start + self._numbers.next() % (current.end - current.start)) % self._size
        element, self._slots[place] = self._slots[place], self._slots[first]
        self._slots[first] = None
        current.start += 1
        self._count -= 1
        return element

    def _fill(self) -> None:
        while self._is_to_be_filled():
            if self._input is None:
                self._begin_pass()
            try:
                element = self._input.next()  # type: ignore[union-attr]
            except StopIteration:
                self._slices[-1].has_ended = True
                self._input = None
                if not self._has_produced and self._times < 0:
                    return  # otherwise it would restart forever
                continue
            self._has_produced = True
            self._slots[self._slices[-1].end % self._size] = element
            self._slices[-1].end += 1
            self._count += 1

    def _is_to_be_filled(self) -> bool:
        if self._input is None and 0 <= self._times <= self._pass:
            return False
        if len(self._slices) > _MOST_PASSES and self._count:
            return False
        return self._count < self._size

    def _begin_pass(self) -> None:
        place = self._slices[-1].end if self._slices else 0
        self._slices.append(Slice(place, place))
        self._input = self._source.open()
        self._pass += 1

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        out.put(
            me,
            {
                "epoch_num_random_samples": self._seeds.count,
                "num_random_samples": self._numbers.count,
                "seed": self._numbers.seeds[0],
                "seed2": self._numbers.seeds[1],
                "end_of_input_sequence": int(self._input is None),
                "epoch": self._pass,
                "num_elements": self._count,
                "slices_size": len(self._slices),
            },
        )
        for number, one in enumerate(self._slices):
            out.put(me, {f"slices_start_{number}": one.start, f"slices_end_{number}": one.end})
            out.put(me, {f"slices_reached_end_of_sequence_{number}": int(one.has_ended)})
        if self._has_produced:
            out.put(me, {"data_produced": b""})
        out.put(f"{me}:buffer", {"num_elements": self._size})
        for number, element in enumerate(self._slots):
            place = f"{me}:buffer::{number}"
            out.put(place, {"num_components": 0 if element is None else len(flatten(element))})
            if element is not None:
                out.put_element(place, "component[{}]", element)
        if self._input is not None:
            self._input.save(out, me)

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        self._seeds.count = state.number(me, "epoch_num_random_samples", most=_MOST)
        seeds = state.number(me, "seed", least=-(1 << 63)), state.number(me, "seed2", least=-(1 << 63))
        self._numbers = Numbers(seeds, state.number(me, "num_random_samples", most=_MOST))
        self._pass = state.number(me, "epoch", most=_MOST)
        self._count = state.number(me, "num_elements", most=self._size)
        self._has_produced = state.has(me, "data_produced")
        self._slices = deque(self._restored_slices(state, me))
        self._restore_slots(state, f"{me}:buffer")
        self._check(me)
        self._input = None
        if not state.number(me, "end_of_input_sequence", most=1):
            self._input = self._source.open()
            self._input.restore(state, me)

    def _restored_slices(self, state: Sections, me: str) -> list[Slice]:
        return [
            Slice(
                state.number(me, f"slices_start_{number}", most=_MOST),
                state.number(me, f"slices_end_{number}", most=_MOST),
                bool(state.number(me, f"slices_reached_end_of_sequence_{number}", most=1)),
            )
            for number in range(state.number(me, "slices_size", most=self._size + _MOST_PASSES))
        ]

    def _restore_slots(self, state: Sections, prefix: str) -> None:
        size = state.number(prefix, "num_elements")
        if size != self._size:
            raise UnfitStateError(f"{prefix}: {size} slots, expected {self._size}")
        for number in range(size):
            place = f"{prefix}::{number}"
            components = state.number(place, "num_components")
            self._slots[number] = (
                state.element(place, "component[{}]", components, self._source.structure)
                if components
                else None
            )

    def _check(self, me: str) -> None:
        """Compare slices with slots: every slot of a slice has an element."""
        lengths = [one.end - one.start for one in self._slices]
        if min((0, *lengths)) < 0 or sum(lengths) != self._count:
            raise UnfitStateError(f"{me}: slices of {lengths} elements, {self._count} are there")
        for one in self._slices:
            if any(self._slots[place % self._size] is None for place in range(one.start, one.end)):
                raise UnfitStateError(f"{me}: a slot without its element")


class ShuffledRepeatedly(Shuffled):
    """A shuffle that begins the next pass while it draws from the last: `shuffle().repeat()`, made one."""

    name: ClassVar[str] = "ShuffleAndRepeat"

    @classmethod
    def length(cls, inputs: list[int], size: int, seeds: Seeds, times: int) -> int:
        if times < 0:
            return 0 if inputs[0] == 0 else INFINITE
        return inputs[0] * times if inputs[0] >= 0 else inputs[0]
