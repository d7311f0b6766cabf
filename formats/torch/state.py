"""An optimizer's state in a file of PyTorch: a training checkpoint as its programs save one.

    model/fc.weight              a parameter, which `param_names` of its group names
    optimizer/state/0/exp_avg    m of it, with the axes of its parameter
    optimizer/state/0/step       steps, of each parameter the same
    optimizer/param_groups       what `keras.optimizers_in_pytorch` says, and `param_names`

PyTorch counts parameters in the order in which its optimizer was given them, and has no names;
`param_names` are there for the program to give them in this order.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConversionError
from ..keras.optimizers import BY_NAME, PYTORCH
from ..keras.optimizers_in_pytorch import NO_STEP, group_of, optimizer_of_group
from ..keras.training_state import ITERATIONS, LEARNING_RATE, TrainingState
from .facts import TorchFacts
from .keys import escaped, in_dictionary
from .objects import TensorPosition
from .optimizer import KeptTensor, optimizers_in
from .structure import NestedStructure
from .values import Pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model.reader import FormatReader
    from .optimizer import TorchOptimizer


MOST_STEPS = 1 << 24
"""The largest count that float32, in which PyTorch counts, holds exactly."""

_NAMED = (
    "in the program that saves it: create torch.optim.Adam(model.named_parameters()), or set "
    'group["param_names"] = [name for name, _ in model.named_parameters()]'
)


class NamedOptimizer:
    """An optimizer whose groups have one class and one set of settings, and name their parameters.

    Its properties raise ConversionError if that is not so.
    """

    def __init__(self, reader: FormatReader, optimizer: TorchOptimizer) -> None:
        self._reader = reader
        self._optimizer = optimizer

    @property
    def title(self) -> str:
        path = self._optimizer.path
        return f"the optimizer at {path!r}" if path else "the optimizer"

    @cached_property
    def class_and_settings(self) -> tuple[str, dict[str, Any]]:
        """The class in Keras and the settings, which all groups have in common."""
        if not self._optimizer.groups:
            raise ConversionError(f"{self.title} has no parameter groups")
        try:
            found = [optimizer_of_group(group) for group in self._optimizer.groups]
        except ValueError as error:
            raise ConversionError(f"{self.title} has {error}") from error
        if any(one != found[0] for one in found):
            raise ConversionError(
                f"{self.title} has parameter groups with different settings, which Keras does not support"
            )
        name, settings = found[0]
        odd = next(
            (each for each, value in settings.items() if not isinstance(value, bool | int | float)), None
        )
        if odd is not None:
            raise ConversionError(
                f"the setting {odd!r} of {self.title} is {settings[odd]!r:.60}; expected a number"
            )
        if not 0 < settings[LEARNING_RATE] < float("inf"):
            rate = settings[LEARNING_RATE]
            raise ConversionError(
                f"the learning rate of {self.title} is {rate!r}; expected a positive number"
            )
        return name, {**settings, LEARNING_RATE: float(settings[LEARNING_RATE])}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each parameter, by its name."""
        found: dict[str, int] = {}
        taken: set[int] = set()
        for group in self._optimizer.groups:
            numbers, names = group.get("params"), group.get("param_names")
            if type(names) is not list:
                message = f"{self.title} has no param_names, so the parameters of its slots are unknown"
                raise ConversionError(message, hints=(_NAMED,))
            if type(numbers) is not list or len(numbers) != len(names):
                raise ConversionError(
                    f"{self.title} has a different number of param_names than of parameters"
                )
            for number, name in zip(numbers, names, strict=True):
                if type(name) is not str or type(number) is not int or name in found or number in taken:
                    raise ConversionError(
                        f"{self.title} has parameter {name!r:.60} twice, or has no number for this parameter"
                    )
                found[name] = number
                taken.add(number)
        return found

    def steps(self) -> int:
        """Return how many steps all parameters have taken."""
        steps = {name: self._step(name, number) for name, number in self.numbers.items()}
        first = next(iter(steps), None)
        odd = (
            next((name for name in steps if steps[name] != steps[first]), None) if first is not None else None
        )
        if first is None or odd is not None:
            differing = f"{steps[odd]} for {odd!r}, {steps[first]} for {first!r}" if odd and first else "none"
            raise ConversionError(f"{self.title} has different step counts: {differing}")
        return steps[first]

    def _step(self, name: str, number: int) -> int:
        found = self._optimizer.states.get(number, {}).get("step")
        if isinstance(found, KeptTensor):
            spec = self._reader.specs[found.key]
            if spec.shape:
                raise ConversionError(
                    f"this tensor has shape {list(spec.shape)}; expected one number", key=found.key
                )
            found = float(self._reader[found.key].read())
        if not isinstance(found, int | float) or found != found // 1 or not 0 <= found <= MOST_STEPS:
            raise ConversionError(
                f"the step count of {name!r} is {found!r:.60}; expected an integer up to {MOST_STEPS}"
            )
        return int(found)

    def state(self, *, by_name: bool = False) -> TrainingState:
        """Return its state without the count of steps, by the names of the parameters, or by their keys."""
        name, settings = self.class_and_settings
        row = BY_NAME[name]
        keys = dict(zip(self.numbers, self.numbers, strict=True)) if by_name else self._parameters()
        slots: dict[tuple[str, str], str] = {}
        steps: list[str] = []
        for parameter, number in self.numbers.items():
            for kept, value in self._optimizer.states.get(number, {}).items():
                if not isinstance(value, KeptTensor):
                    continue
                if kept == "step":
                    steps.append(value.key)
                elif kept in row.meanings(PYTORCH):
                    slots[keys[parameter], kept] = value.key
                else:
                    message = f"{self.title} has {kept!r:.60}, which is not a slot of {name}"
                    raise ConversionError(message, key=value.key)
        values = {LEARNING_RATE: settings[LEARNING_RATE]}
        numbers = {ITERATIONS: tuple(steps)} if steps else {}
        path = self._optimizer.path
        return TrainingState(PYTORCH, path, name, (row,), slots, numbers, values=values, settings=settings)

    def _parameters(self) -> dict[str, str]:
        """Return the key of each parameter by its name: of the one dictionary that has them all."""
        names, specs = list(self.numbers), self._reader.specs
        last = in_dictionary("/", names[0])[1:] if names else ""
        prefixes = {key.removesuffix(last) for key in specs if key.endswith(f"/{last}")} | {""}
        found = [
            prefix
            for prefix in sorted(prefixes)
            if names and all(in_dictionary(prefix, name) in specs for name in names)
        ]
        if len(found) != 1:
            message = f"{len(found)} dictionaries have the parameters that {self.title} names; expected one"
            raise ConversionError(message)
        return {name: in_dictionary(found[0], name) for name in names}


def read(reader: FormatReader) -> TrainingState | None:
    """Return the state of the optimizer in a PyTorch file; None if it has none."""
    facts = reader.facts
    if not isinstance(facts, TorchFacts) or facts.structure is None:
        return None
    try:
        every = optimizers_in(facts.structure.root)
        found = [one for one in every if one.keys()] or every
        if not found:
            return None
        if len(found) > 1:
            raise ConversionError(f"it has {len(found)} optimizers; expected one")
        one = NamedOptimizer(reader, found[0])
        state = one.state()
        if state.called != NO_STEP:
            state = state._replace(values={**state.values, ITERATIONS: one.steps()})
            if len(state.numbers.get(ITERATIONS, ())) != len(one.numbers):
                raise ConversionError(f"{one.title} has a step count that is not a tensor")
    except (ValueError, ConversionError) as error:
        why = "; ".join((error.message, *error.hints)) if isinstance(error, ConversionError) else str(error)
        return TrainingState(PYTORCH, "", "", (), {}, {}, flaw=why)
    return state


class TrainingFile(NamedTuple):
    """The step counts of a training checkpoint by key, and its structure."""

    steps: dict[str, float]
    facts: TorchFacts


def write(state: TrainingState, weights: Sequence[str], trained: Sequence[str]) -> TrainingFile:
    """Return a training checkpoint of an optimizer of `trained`, some of the weights, in their order.

    Its settings are complete, and its slots are PyTorch's, at `slot_key`, or have such names.
    """
    row = state.known[0]
    meanings = row.meanings(state.generation)
    kept = {meanings[name] for name in state.slot_names}
    slots = [slot.pytorch for slot in row.slots if slot.meaning in kept]
    slots = slots if row.name == NO_STEP else ["step", *slots]
    states = [
        (number, Pairs([(slot, TensorPosition(slot_key(number, slot))) for slot in slots]))
        for number in range(len(trained))
        if slots
    ]
    group = group_of(row.name, state.settings)
    group |= {"params": [*range(len(trained))], "param_names": [*trained]}
    optimizer = Pairs([("state", Pairs(states)), ("param_groups", [Pairs([*group.items()])])])
    model = Pairs([(name, TensorPosition(weight_key(name))) for name in weights])
    root = Pairs([("model", model), ("optimizer", optimizer)])
    steps = range(len(trained) if "step" in slots else 0)
    counts = {slot_key(number, "step"): state.values[ITERATIONS] for number in steps}
    return TrainingFile(counts, TorchFacts(structure=NestedStructure(root)))


def weight_key(name: str) -> str:
    """Return the key of a weight in a training checkpoint."""
    return f"model/{escaped(name)}"


def slot_key(number: int, slot: str) -> str:
    """Return the key of a slot of the parameter of a number."""
    return f"optimizer/state/{number}/{slot}"
