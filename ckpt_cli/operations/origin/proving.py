"""Proofs: compare a weight of an export, part by part, with the result of a rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .blocks import BlockComparison, is_known
from .bounds import SAME, closeness, worse
from .records import Closeness, Derivation
from .values import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader
    from formats.model.tensor import LazyTensor

    from .values import Values

_PART = 1 << 22
"""Elements that are compared at a time."""

_SAMPLE = 1 << 14
"""Elements that are compared first, where there are several ways to make a weight."""


class Proof(NamedTuple):
    """A derivation with what comparing it gave."""

    way: Derivation
    found: Closeness


class Prover:
    """Compares weights of an export with what rules give."""

    def __init__(self, export: FormatReader, values: Values) -> None:
        self._export = export
        self._values = values

    def proofs(self, key: str, ways: Sequence[Derivation]) -> list[Proof]:
        """Compare each way; one that a sample refutes is compared no further, unless it is the nearest."""
        tensor = self._export[key]
        if len(ways) == 1 or tensor.spec.size <= 2 * _SAMPLE:
            return [Proof(way, self._compare(tensor, way)) for way in ways]
        sampled = [Proof(way, self._compare(tensor, way, is_sample=True)) for way in ways]
        left = [proof.way for proof in sampled if proof.found.is_proved]
        if not left:
            nearest = min(sampled, key=lambda proof: proof.found.max_error)
            left = [nearest.way]
        whole = {id(way): self._compare(tensor, way) for way in left}
        return [proof._replace(found=whole.get(id(proof.way), proof.found)) for proof in sampled]

    def distance(self, key: str, way: Derivation) -> float:
        """Return the mean square of the differences between a weight and what a rule gives."""
        found = self._export[key].read().astype(np.float64).reshape(-1)
        with np.errstate(invalid="ignore", over="ignore"):
            return float(np.square(way.compute(self._values, None).values.reshape(-1) - found).mean())

    def _compare(self, tensor: LazyTensor, way: Derivation, *, is_sample: bool = False) -> Closeness:
        spec = tensor.spec
        blocks = _blocks_of(spec)
        if blocks is not None:
            for rows in _parts(spec, way, is_sample=is_sample):
                first, last = rows or Rows(0, spec.shape[0])
                blocks.add(tensor.stored_rows(first, last)[0], way.compute(self._values, rows).values)
            return blocks.result()
        found = SAME
        for rows in _parts(spec, way, is_sample=is_sample):
            expected = way.compute(self._values, rows)
            if expected.values.size != (_size_of(spec, rows)):
                return Closeness(is_proved=False, is_equal=False, max_error=math.inf, allowed=0.0)
            found = worse(found, closeness(spec, _read(tensor, rows), expected))
        return found


def _size_of(spec: TensorSpec, rows: Rows | None) -> int:
    return spec.size if rows is None else math.prod(spec.shape[1:]) * (rows.stop - rows.start)


def _read(tensor: LazyTensor, rows: Rows | None) -> np.ndarray[Any, Any]:
    if rows is None:
        return tensor.read()
    index = (slice(*rows, 1), *(slice(0, size, 1) for size in tensor.spec.shape[1:]))
    return tensor.read_region(index)


def _blocks_of(spec: TensorSpec) -> BlockComparison | None:
    """Return what compares a tensor of a block type; None for others."""
    stored = spec.stored_as
    if stored is None or stored.scale or not spec.shape or not spec.size or not is_known(stored.name):
        return None
    return BlockComparison(stored.name, spec.shape[-1])


def _parts(spec: TensorSpec, way: Derivation, *, is_sample: bool) -> Iterator[Rows | None]:
    """Yield the rows that are compared together; None if a rule computes all of a weight at once."""
    granule = way.granule
    if granule is None or not spec.size or not spec.shape or (not is_sample and spec.size <= _PART):
        yield None
        return
    size = math.prod(spec.shape[1:]) * granule
    step = max(1, (_SAMPLE if is_sample else _PART) // size) * granule
    if is_sample:
        yield Rows(0, min(step, spec.shape[0]))
        return
    for at in range(0, spec.shape[0], step):
        yield Rows(at, min(at + step, spec.shape[0]))
