"""The state of an iterator as a pipeline: the position of each step, and the elements that it holds.

A state names the steps of the pipeline, not what they were made with: how many elements
there are, and how many make a batch, is not in it.  So positions are counted in the
elements of one step, the first from the end that counts them, and in passes over it:

    Prefetch(BatchV2(ForeverRepeat(TensorSlice)))     pass 19, element 8 of TensorSlice

Elements that later steps hold have been counted, but not delivered; they are subtracted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.words import counted
from .iterator_state import State, short_key

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Pipeline", "Position", "Step", "apart", "pipeline"]

_ROOT = "Iterator::Root"
_HELD = re.compile(
    r"(?:60d899aa0d8ce4351e7c3b419e92d25b\|)?"
    r"(?P<step>.*?)(?:::(?:current_elements::|future_elements::)?\d+|:buffer(?:::\d+)?"
    r"|_invocation_results\[\d+\]|:batch_results_\d+)$"
)
"""The prefix of a section that has what a step holds."""

_COUNTS: dict[str, tuple[str, ...]] = {
    "TensorSlice": ("index",),
    "FromTensor": ("produced",),
    "FiniteTake": ("i",),
    "Filter": ("filtered_elements",),
    "Shuffle": ("slices_start_0", "slices_size"),
    "ShuffleAndRepeat": ("slices_start_0", "slices_size"),
    "MemoryCacheImpl": ("index", "num_elements"),
}
"""By step, the keys that may count the elements it has delivered; the first existing one does."""
_PASSES = ("FiniteRepeat", "ForeverRepeat")
"""Steps whose `i` says which pass their input is in."""
_COMPONENT = re.compile(
    r"^(?P<element>(?:\.?inputs|tensors|component|buffer|args_list_\[\d+\]|buffer\[\d+\]|\.results\[\d+\])?"
    r"\[|output_)\d+\]?$"
)
"""The key of a component of an element, and which element of a section it is of."""
_BATCHES = ("BatchV2", "ParallelBatch", "PaddedBatchV2", "MapAndBatch")
_AHEAD = ("Prefetch", "ParallelBatch", "ParallelMapV2", "MapAndBatch")
"""Steps that hold what has not been given out; what others hold, they have given or choose from."""
_THROUGH = {*_PASSES, *_BATCHES, *_AHEAD, "FiniteSkip", "Map", "MemoryCache", "Zip"}
"""Steps that give all that their first input does, in its order."""
_AS_GIVEN = {"Prefetch", "BatchV2", "ParallelBatch", "FiniteSkip", "Zip"}
"""Steps whose first element begins with what their first input gave, in one pass."""
_ENDED = ("input_impl_empty", "input_impls_empty", "exhausted")


class Step(NamedTuple):
    """One step: its name behind those of the steps that draw from it, its numbers, elements that it holds.

    An element is its components.
    """

    path: tuple[str, ...]
    numbers: dict[str, int]
    held: list[list[np.ndarray[Any, Any]]]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def depth(self) -> int:
        return len(self.path) - 1

    @property
    def has_ended(self) -> bool:
        return any(self.numbers.get(key) for key in _ENDED)


class Position(NamedTuple):
    """The next element of a step, in passes counted from 0.

    `element` is counted from 0, and before 0 if in the pass before; of a `Range`, it is the value.
    """

    passes: tuple[int, ...]
    element: int
    step: str

    @property
    def unit(self) -> str:
        return "value" if self.step == "Range" else "element"

    def __str__(self) -> str:
        passes = "".join(f"pass {number + 1}, " for number in self.passes)
        if self.unit == "element" and self.element < 0:
            return f"{passes}{counted(-self.element, 'element')} before the first of {self.step}"
        return f"{passes}{self.unit} {self.element} of {self.step}"


class Pipeline(NamedTuple):
    """A state's steps, those that draw before those that are drawn from."""

    steps: list[Step]

    def __str__(self) -> str:
        """Return the pipeline in a line: `Prefetch(BatchV2(Range))`."""
        text = ""
        for at, step in enumerate(self.steps):
            following = self.steps[at + 1].depth if at + 1 < len(self.steps) else 0
            text += step.name
            text += "(" if following > step.depth else ")" * (step.depth - following)
            text += ", " if following and following <= step.depth else ""
        return text

    @property
    def has_ended(self) -> bool:
        """Whether a step's inputs have ended, and no step holds elements."""
        return any(step.has_ended for step in self.steps) and not any(step.held for step in self.steps)

    @property
    def place(self) -> str:
        """Return in words what is next."""
        if self.has_ended:
            return "at the end"
        return str(self.position or "unknown")

    @property
    def position(self) -> Position | None:
        """Return what is next; None if the state does not tell."""
        passes: tuple[int, ...] = ()
        ahead: list[tuple[list[np.ndarray[Any, Any]], int]] = []
        for step in self.steps:
            if step.name == "Range":
                return self._value(step, passes, ahead)
            if step.name in _COUNTS:
                count = next((step.numbers[key] for key in _COUNTS[step.name] if key in step.numbers), None)
                held = sum(_rows(element, batches) for element, batches in ahead)
                return None if count is None else Position(passes, count - held, step.name)
            if step.name not in _THROUGH or step.has_ended:
                return None
            if step.name in _AHEAD:
                ahead += [(element, 0) for element in step.held]
            if step.name in _PASSES:
                passes += (step.numbers.get("i", 0),)
            if step.name in _BATCHES:
                ahead = [(element, batches + 1) for element, batches in ahead]
        return None

    def _value(self, step: Step, passes: tuple[int, ...], ahead: list[Any]) -> Position | None:
        """Return the value that a range gives next: the first that is held, which must be as it was given."""
        if not ahead:
            return Position(passes, step.numbers.get("next", 0), step.name)
        above = {one.name for one in self.steps[: self.steps.index(step)]}
        first = ahead[0][0][0]
        if not above <= _AS_GIVEN or not first.size or first.dtype.kind != "i":
            return None
        return Position(passes, int(first.reshape(-1)[0]), step.name)


def _rows(element: list[np.ndarray[Any, Any]], batches: int) -> int:
    """Return how many elements became one, in so many batches of batches."""
    rows = 1
    for size in element[0].shape[:batches]:
        rows *= size
    return rows


def pipeline(state: State) -> Pipeline:
    """Return the pipeline that a state is of."""
    steps: dict[str, Step] = {}
    for prefix, values in state.items():
        found = _HELD.match(prefix)
        step = _step(steps, found["step"] if found else prefix)
        numbers, elements = _parted({short_key(prefix, key): value for key, value in values.items()})
        if found is None:
            step.numbers.update(numbers)
        step.held.extend(elements)
    return Pipeline(list(steps.values()))


def _step(steps: dict[str, Step], prefix: str) -> Step:
    """Return the step at a prefix; those without values of their own are only in others' prefixes."""
    parts = prefix.removeprefix(f"{_ROOT}::").split("::")
    path: tuple[str, ...] = ()
    for depth, part in enumerate(parts):
        path = (*path, part.partition("[")[0])
        place = "::".join([*parts[:depth], path[-1]])
        steps.setdefault(place, Step(path, {}, []))
    return steps[place]


def _parted(
    values: dict[str, np.ndarray[Any, Any]],
) -> tuple[dict[str, int], list[list[np.ndarray[Any, Any]]]]:
    """Return a section's numbers, and the elements in it; a name without a value is 1."""
    numbers: dict[str, int] = {}
    elements: dict[str, list[np.ndarray[Any, Any]]] = {}
    for key, value in values.items():
        if component := _COMPONENT.search(key):
            elements.setdefault(component["element"], []).append(value)
        elif value.dtype.kind == "i" and not value.shape:
            numbers[key] = int(value)
        elif value.dtype == object and value.size == 1 and not value.item():
            numbers[key] = 1
    return numbers, list(elements.values())


def apart(one: State, other: State) -> str:
    """Return how far two iterators are apart, in words."""
    left, right = pipeline(one), pipeline(other)
    if _contradict(left, right):
        return f"different pipelines: {left} and {right}"
    mine, its = left.position, right.position
    if mine is not None and its is not None and mine.step == its.step:
        if len(mine.passes) == 1 and mine.element == its.element and mine.passes != its.passes:
            return f"{counted(abs(mine.passes[0] - its.passes[0]), 'pass', 'passes')} apart"
        if mine.passes != its.passes:
            return f"at {mine} and at {its}"
        distance = abs(mine.element - its.element)
        return f"{counted(distance, mine.unit)} apart" if distance else f"at the same {mine.unit}"
    if left.has_ended or right.has_ended:
        return "both have ended" if left.has_ended and right.has_ended else "one has ended"
    return "at different positions"


def _contradict(left: Pipeline, right: Pipeline) -> bool:
    """Whether a step draws from different inputs in the two. Inputs that have ended are absent."""
    mine, its = _inputs(left), _inputs(right)
    return any(not mine[path] & its[path] for path in mine.keys() & its.keys())


def _inputs(found: Pipeline) -> dict[tuple[str, ...], set[str]]:
    """Return the names of what each step draws from, by the step's path."""
    inputs: dict[tuple[str, ...], set[str]] = {}
    for step in found.steps:
        inputs.setdefault(step.path[:-1], set()).add(step.name)
    return inputs
