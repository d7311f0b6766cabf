"""A `model_fn` that was called once and is run again for every batch.

    graph      the variables the call made, and what each began with
    spec       what it returned, tensors of the recording
    fetch      computes some of these tensors for a batch, with the changes a mode makes:
               TRAIN    variables that are saved, all changes that the call made; a metric
                        counts the batches that it is asked about
               EVAL     variables that are not saved, which are those of metrics
               PREDICT  none

TensorFlow runs of a graph what `train_op` needs.  Here a change is done by the time
it has been called for, so TRAIN makes every change of the call, in its order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..keras.metrics import Metric
from ..program import Program
from ..tape import GradientTape
from ..tensor import Tensor, as_tensor, observers
from .spec import EstimatorSpec, ModeKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..graphs import Graph
    from .inputs import Batch

__all__ = ["Recording"]


class _Guard:
    """An observer that refuses variables from elsewhere: they would be neither restored nor saved."""

    records_shapes = False

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def observe(self, operation: Any, inputs: Any, outputs: Any, attributes: dict[str, Any]) -> None:
        variable = attributes.get("variable")
        if variable is not None:
            self.observe_read(variable, None)

    def observe_read(self, variable: Any, output: Any) -> None:
        if not self._graph.holds(variable):
            raise ValueError(
                f"model_fn uses variable '{variable.name}', which was made outside of it and would be "
                "neither restored nor saved; make it within model_fn"
            )


class Recording:
    """One call of a model_fn, in a graph that is open."""

    def __init__(self, graph: Graph, mode: str, call: Callable[..., EstimatorSpec], batch: Batch) -> None:
        self.graph = graph
        self._mode = mode
        self._call = call
        self._programs: dict[tuple[int, ...], Program] = {}
        guard = _Guard(graph)
        observers.append(guard)
        try:
            self._program = Program(self._record, *batch.arguments())
        finally:
            observers[:] = [observer for observer in observers if observer is not guard]
        graph.rewind()

    def _record(self, features: Any, labels: Any = None) -> None:
        with GradientTape(persistent=True) as tape:
            self.graph.tape = tape
            spec = self._call(features, labels)
        self.graph.tape = None
        self.spec = spec
        self.metrics: dict[str, Tensor] = {}
        for name, metric in spec.eval_metric_ops.items():
            if isinstance(metric, Metric):
                self.graph.make_local(list(metric.variables))
                self.metrics[name] = metric.result()
            else:
                self.metrics[name] = as_tensor(metric[0])

    def _is_changed(self, variable: Any, is_read: bool) -> bool:
        if self._mode == ModeKeys.PREDICT:
            return False
        if self._mode == ModeKeys.EVAL:
            return self.graph.is_local(variable)
        return is_read or not self.graph.is_local(variable)

    def fetch(self, tensors: list[Tensor], batch: Batch, *, changes: bool = True) -> list[Tensor]:
        """Return the values of tensors of the recording for a batch, and change what the mode changes."""
        key = (changes, *map(id, tensors))
        program = self._programs.get(key)
        if program is None:
            wanted = self._is_changed if changes else lambda *_: False
            program = self._programs[key] = self._program.narrowed(tensors, wanted)
        return program(*batch.arguments())
