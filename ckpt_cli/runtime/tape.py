"""GradientTape: what was computed from what, and the way back.

A tape keeps, in order, every operation that one of its watched values flowed into.
The gradient is the walk back over that list: each record's rules are called with the
gradient of its output, and what they return is added up by input.  Rules are made
of operations, so a tape around a tape sees the inner one's walk as more computing,
and differentiates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .indexed_slices import IndexedSlices, dense
from .nest import flatten, map_structure, pack_sequence_as
from .tensor import OPERATIONS, Operation, Tensor, TensorLike, as_tensor, identity, observers

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["GradientTape", "UnconnectedGradients"]


class UnconnectedGradients:
    NONE = "none"
    ZERO = "zero"


Record = tuple[Operation, tuple[Any, ...], tuple[Tensor, ...], dict[str, Any]]
"""An operation that was run, its inputs, outputs and attributes.

Keeping its tensors keeps their identities from being used again.
"""


class GradientTape:
    """Record what is computed within, to differentiate it; trainable variables are watched when read."""

    records_shapes = False

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watches_variables = watch_accessed_variables
        self._recording = self._entered = self._used = False
        self._forget()

    def _forget(self) -> None:
        self._records: list[Record] = []
        self._watched: list[Any] = []
        self._variables: dict[int, Any] = {}
        self._tracked: set[int] = set()

    def __enter__(self) -> GradientTape:
        if self._recording:
            raise ValueError(
                "Tape is still recording, This can happen if you try to re-enter an already-active tape."
            )
        self._recording = self._entered = True
        observers.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._recording:
            self._stop()

    def _stop(self) -> None:
        self._recording = False
        observers[:] = [observer for observer in observers if observer is not self]

    def stop_recording(self) -> _Paused:
        """Return a context in which nothing is recorded."""
        return _Paused(self)

    def reset(self) -> None:
        self._forget()

    def watch(self, tensor: Any) -> None:
        """Follow what is computed from a tensor, a variable, or a structure of them."""
        for one in flatten(tensor):
            if not isinstance(one, TensorLike):
                raise ValueError(  # noqa: TRY004  TensorFlow's
                    f"Passed in object {one!r} of type {type(one).__name__!r}, not tf.Tensor or tf.Variable."
                )
            self._watched.append(one)
            self._tracked.add(id(one))

    def watched_variables(self) -> tuple[Any, ...]:
        return tuple(self._variables.values())

    def observe(self, operation: Operation, inputs: Any, outputs: Any, attributes: dict[str, Any]) -> None:
        """Note an operation that was run."""
        tracked = self._tracked
        for tensor in inputs:
            if id(tensor) in tracked:
                break
        else:
            return
        self._records.append((operation, inputs, outputs, attributes))
        for output in outputs:
            tracked.add(id(output))

    def observe_read(self, variable: Any, output: Tensor) -> None:
        """Note that a variable was read."""
        key = id(variable)
        if key not in self._tracked:
            if not (self._watches_variables and variable.trainable and variable.dtype.is_floating):
                return
            self._watched.append(variable)
            self._tracked.add(key)
        self._variables[key] = variable
        self._records.append((identity, (variable,), (output,), {}))
        self._tracked.add(id(output))

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str = UnconnectedGradients.NONE,
    ) -> Any:
        """Return d(sum of target)/d(source) for each source, None where there is no path.

        A tape that is not persistent can be asked once.
        """
        if unconnected_gradients not in (UnconnectedGradients.NONE, UnconnectedGradients.ZERO):
            raise ValueError(f"Unknown value for unconnected_gradients: {unconnected_gradients!r}")
        if (self._used and not self._persistent) or not self._entered:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients "
                "(or jacobians)"
            )
        if self._recording and not self._persistent:
            self._stop()
        self._used = True
        flat = flatten(sources)
        targets = [one.values if isinstance(one, IndexedSlices) else one for one in flatten(target)]
        gradients = self._walk_back(targets, flat, output_gradients)
        found = [gradients.get(id(source)) for source in flat]
        if not self._persistent:
            self._forget()
        if unconnected_gradients == UnconnectedGradients.ZERO:
            zeros = OPERATIONS["zeros_like"]
            found = [
                zeros(one) if gradient is None else gradient
                for one, gradient in zip(flat, found, strict=True)
            ]
        return pack_sequence_as(sources, found)

    def _walk_back(self, targets: list[Any], sources: list[Any], output_gradients: Any) -> dict[int, Any]:
        gradients: dict[int, Any] = {}
        given: list[Any] = [None] * len(targets)
        if output_gradients is not None:
            given = [as_tensor(one) for one in flatten(output_gradients)]
        for target, gradient in zip(targets, given, strict=True):
            key = id(target)
            if key not in self._tracked and not any(target is source for source in sources):
                continue
            seed = OPERATIONS["ones_like"](target) if gradient is None else gradient
            gradients[key] = gradients[key] + seed if key in gradients else seed
        kept = {id(source) for source in sources}
        for record in reversed(self._records):
            outputs = record[2]
            if len(outputs) == 1:
                key = id(outputs[0])
                gradient = gradients.get(key)
                if gradient is None:
                    continue
                if key not in kept:
                    del gradients[key]
                self._send_back(record, gradient, outputs[0], gradients)
            elif any(id(output) in gradients for output in outputs):
                parts = [dense(gradients.get(id(output))) for output in outputs]
                zeros = OPERATIONS["zeros_like"]
                whole = tuple(zeros(o) if g is None else g for g, o in zip(parts, outputs, strict=True))
                self._send_back(record, whole, outputs, gradients)
        return gradients

    def _send_back(self, record: Record, gradient: Any, output: Any, gradients: dict[int, Any]) -> None:
        operation, inputs, _, attributes = record
        if operation is identity:  # of every variable that is read
            self._add(inputs[0], gradient, gradients)
            return
        if gradient.__class__ is IndexedSlices:
            gradient = dense(gradient)
        tracked, rules = self._tracked, operation.rules
        if operation.joint:
            (rule,) = rules
            assert rule is not None
            parts = rule(gradient, output, *inputs, **attributes)
            for tensor, part in zip(inputs, parts, strict=True):
                self._add(tensor, part, gradients)
        elif operation.variadic:
            (rule,) = rules
            assert rule is not None
            for position, tensor in enumerate(inputs):
                if id(tensor) in tracked:
                    part = rule(gradient, output, *inputs, position=position, **attributes)
                    self._add(tensor, part, gradients)
        else:
            for tensor, rule in zip(inputs, rules, strict=False):  # further inputs have no rules
                if rule is not None and id(tensor) in tracked:
                    self._add(tensor, rule(gradient, output, *inputs, **attributes), gradients)

    def _add(self, tensor: Any, part: Any, gradients: dict[int, Any]) -> None:
        """Add what an operation sends back to an input; None is nothing."""
        key = id(tensor)
        if part is not None and key in self._tracked:
            gradients[key] = gradients[key] + part if key in gradients else part

    def batch_jacobian(
        self, target: Any, source: Any, unconnected_gradients: str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """Return d(target element)/d(source) for each example by itself."""
        if target.shape[:1] != source.shape[:1]:
            raise ValueError(
                f"The first dimensions of target and source differ: {target.shape}, {source.shape}"
            )
        whole = self.jacobian(target, source, unconnected_gradients)
        if whole is None:
            return None
        rest = (slice(None),) * (len(target.shape) - 1)
        examples = [whole[(at, *rest, at)] for at in range(len(target))]
        return OPERATIONS["stack"](*examples, axis=0)

    def jacobian(
        self, target: Any, sources: Any, unconnected_gradients: str = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """Return d(target element)/d(source), shape target.shape + source.shape, for each source."""
        flat = flatten(sources)
        rows: list[list[Any]] = []
        for number in range(int(np.prod(target.shape))):
            seed = np.zeros(int(np.prod(target.shape)), target._value.dtype)
            seed[number] = 1
            found = self._walk_back([target], flat, [Tensor(seed.reshape(target.shape))])
            rows.append([dense(found.get(id(source))) for source in flat])
        self._used = True
        if not self._persistent:
            self._forget()
        columns = iter(zip(*rows, strict=True))

        def answer(source: Any) -> Any:
            column = next(columns)
            if all(row is None for row in column):
                wanted = unconnected_gradients == UnconnectedGradients.ZERO
                return Tensor(np.zeros(target.shape + source.shape, source._value.dtype)) if wanted else None
            stacked = OPERATIONS["stack"](*column, axis=0)
            return OPERATIONS["reshape"](stacked, shape=tuple(target.shape + source.shape))

        return map_structure(answer, sources)


class _Paused:
    """What `stop_recording` returns."""

    def __init__(self, tape: GradientTape) -> None:
        self._tape = tape

    def __enter__(self) -> None:
        if not self._tape._recording:
            raise RuntimeError("Tape is not recording")
        self._tape._stop()

    def __exit__(self, *exception: object) -> None:
        self._tape._recording = True
        observers.append(self._tape)
