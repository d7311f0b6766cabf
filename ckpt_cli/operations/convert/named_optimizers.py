"""Make TensorFlow 1's optimizers continue as Keras', in an object graph that is made of names.

    beta1_power     optimizer/iter, the count of steps that follows of it
    w/Momentum      SGD/w/momentum, -learning_rate times that, and SGD/iter, where a rate is given

The slot of legacy Keras' SGD has the same name as that of TensorFlow 1's Momentum, but another meaning.
With the learning rate, names and values become Keras'. Without it, the sums of gradients stay as
tf.compat.v1.train keeps them, and no step count is added: a program that restores the slots then reports that
the count is missing.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.keras.optimizers import TF1
from formats.keras.step_count import StepCount, steps_taken
from formats.keras.training_state import ITERATIONS, training_states
from formats.tf.graph.invent import add_count

from .lazy import scaled
from .optimizers import changes_nothing
from .plan import Move

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from formats.keras.training_state import TrainingState
    from formats.model.reader import FormatReader
    from formats.tf.graph.invent import Invented

    from .optimizers import OptimizerOptions


_SUM_OF_GRADIENTS = (
    "momentum is written as the sum of gradients, as in TensorFlow 1; to convert it for SGD "
    "of legacy Keras, which multiplies it by -learning_rate, pass --learning-rate R"
)
_NO_STEPS = StepCount(0, "")


class _Optimizer(NamedTuple):
    """An optimizer of an invented graph, and its state, whose numbers are keys of the source."""

    state: TrainingState
    alone: bool

    @property
    def keeps_sums(self) -> bool:
        """Whether it keeps sums of gradients, which Keras' SGD multiplies into a step."""
        turning = {slot.tf1 for row in self.state.known for slot in row.slots if slot.turns}
        return bool(self.state.slot_names & turning)


class NamedOptimizers:
    """The optimizers among names; `origins` are the source's keys by name."""

    def __init__(self, source: FormatReader, given: OptimizerOptions, origins: Mapping[str, str]) -> None:
        self.source = source
        self.given = given
        self.origins = origins
        self.notes: list[str] = []
        self._names: dict[str, str] = {}
        self._counts: dict[str, StepCount] = {}

    def name(self, name: str) -> str:
        """Return the new name of a tensor, which differs if its value is converted."""
        return self._names.get(name, name)

    def converted_names(self, named: Mapping[str, TensorSpec], invented: Invented) -> dict[str, TensorSpec]:
        """Return the names from which the graph is made again, or none if it stays unchanged."""
        sums = [one for one in self._optimizers(invented) if one.keeps_sums]
        if self.given.learning_rate is None:
            self.notes += [f"{one.state.path}: {_SUM_OF_GRADIENTS}" for one in sums]
            return {}
        if not sums:
            why = "SRC has no momentum of TensorFlow 1 to convert"
            raise changes_nothing(self.source, "--learning-rate", why)
        full_names = {key: name for name, key in invented.keys.items()}
        for one in sums:
            above = _free_prefix("SGD", {*named, *self._names.values()})
            for (variable, _), key in one.state.slots.items():
                self._names[full_names[key]] = f"{above}/{full_names[variable]}/momentum"
            self._counts[f"{above}/iter"] = self._steps(one) or _NO_STEPS
        again = {self.name(name): spec._replace(key=self.name(name)) for name, spec in named.items()}
        return again | {name: _count_spec(name) for name in self._counts}

    def scaled_move(self, name: str, move: Move) -> Move:
        """Return the move of a tensor, multiplied by -learning_rate if its name is converted."""
        if name not in self._names or move.tensor is None or self.given.learning_rate is None:
            return move
        scaled_move = scaled(move.tensor, -self.given.learning_rate)
        return move._replace(spec=move.spec._replace(stored=None), tensor=scaled_move)

    def counts(self, invented: Invented) -> list[Move]:
        """Return step counts, with which Keras' optimizers continue; the graph gets those that it lacks."""
        moves = [self._count(invented.keys[name], name, steps) for name, steps in self._counts.items()]
        for one in self._optimizers(invented):
            # a tensor that has the name of a count is kept, even if its content is another one
            if not one.state.known or one.keeps_sums or ITERATIONS in one.state.numbers:
                continue
            steps = self._steps(one)
            if steps is not None:
                key = add_count(invented.graph, one.state.path)
                moves.append(self._count(key, f"{one.state.path}/iter", steps))
        if self.given.iterations is not None and not self.given.allows_missing and not moves:
            why = "no optimizer among these names gets a step count"
            raise changes_nothing(self.source, "--iterations", why)
        return moves

    def _optimizers(self, invented: Invented) -> list[_Optimizer]:
        """Return the optimizers of TensorFlow 1 in an invented graph."""
        origins = {invented.keys[self.name(name)]: key for name, key in self.origins.items()}
        specs = {key: self.source.specs[origin] for key, origin in origins.items()}
        names = {key: name for name, key in invented.keys.items()}
        states = training_states(invented.graph, specs, names)
        return [
            _Optimizer(state._replace(numbers=_at_origins(state, origins)), len(states) == 1)
            for state in states
            if state.generation == TF1
        ]

    def _steps(self, one: _Optimizer) -> StepCount | None:
        return steps_taken(self.source, one.state, alone=one.alone, requested=self.given.iterations)

    def _count(self, key: str, called: str, steps: StepCount) -> Move:
        import numpy as np

        self.notes.append(steps.sentence(called))
        return Move(_count_spec(key), None, None, np.array(steps.taken, np.int64))


def _at_origins(state: TrainingState, origins: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(origins[key] for key in keys) for name, keys in state.numbers.items()}


def _count_spec(name: str) -> TensorSpec:
    return TensorSpec(name, BY_NAME["int64"], ())


def _free_prefix(first: str, names: Container[str]) -> str:
    """Return `first`, or the first of `first_1`, ... below which no name has a count."""
    return next(
        prefix
        for number in count()
        if f"{(prefix := f'{first}_{number}' if number else first)}/iter" not in names
    )
