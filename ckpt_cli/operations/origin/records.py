"""The records of an origin: what a weight was made of, by which rule, and how far it is off."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import counted, first_of
from formats.model.verification import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from .values import Rows, Values

    Array = np.ndarray[Any, Any]

EQUAL, WITHIN, OTHER, UNPAIRED = "equal", "within", "other", "unpaired"
PROVED = (EQUAL, WITHIN)


class Target(NamedTuple):
    """A weight of an export: its shape, the operation that uses it, and as which input."""

    shape: tuple[int, ...]
    operation: str = ""
    position: int = -1

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Expected(NamedTuple):
    """The result of a rule: values, and how much arithmetic in float32 may change each."""

    values: Array
    slack: Array | float = 0.0


class Derivation(NamedTuple):
    """One way to make a weight of source tensors."""

    sources: tuple[str, ...]
    rule: str
    layer: int
    """The number of the layer that it is a weight of."""

    signature: tuple[str, ...]
    """The operations on which weights of a layer: equal for the weights of similar layers."""

    compute: Callable[[Values, Rows | None], Expected]
    """Computes all of the weight, or some of its rows, from tensors of the source."""

    granule: int | None = None
    """The number of rows that are computed together; None if all are."""

    partner: int = -1
    """The number of the layer that is folded into it."""


class Closeness(NamedTuple):
    """How far a weight is from what a rule gives, and how far it may be."""

    is_proved: bool
    is_equal: bool
    max_error: float
    allowed: float
    step: float = 0.0
    """The largest step of a quantization; differences below half of it do not show."""

    words: str = ""
    """The comparison in words, if it was not each element with its bound."""

    is_coarse: bool = False
    """Whether all values are below the step of the quantization, so that nothing can be proved."""


class WeightOrigin(NamedTuple):
    """The verdict on one weight of an export."""

    key: str
    sources: tuple[str, ...]
    rule: str
    verdict: str
    max_error: float | None = None
    allowed: float | None = None

    def document(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "from": list(self.sources),
            "rule": self.rule,
            "verdict": self.verdict,
            "max_error": self.max_error,
            "allowed": self.allowed,
        }

    def finding(self, file: str) -> Finding | None:
        """Return the finding of a weight that is not proved."""
        if self.verdict in PROVED:
            return None
        if self.verdict == OTHER:
            made = " and ".join(map(repr, self.sources))
            off = (
                ""
                if self.max_error is None
                else f": the values differ by up to {self.max_error:.3g}, and {self._limit}"
            )
            message = f"the weight was not made from {made} (rule: {self.rule}){off}"
        else:
            message = f"the source of the weight is unknown: {self.rule}"
        return Finding("error", "origin", message, self.key, file)

    @property
    def _limit(self) -> str:
        return f"at most {self.allowed:.3g} is allowed" if self.allowed else "no difference is allowed"


class Origins(NamedTuple):
    """The verdicts on all weights of an export, and the source tensors that nothing was made of."""

    source: str
    weights: tuple[WeightOrigin, ...]
    unused: tuple[str, ...]
    constants: int
    """Numbers of the graph that are not weights and were not compared."""

    def document(self) -> dict[str, Any]:
        return {"source": self.source, "weights": [one.document() for one in self.weights]}

    def findings(self, file: str) -> Sequence[Finding]:
        """Return an error for each weight that is not proved, and a warning of what the export lacks."""
        found = [finding for one in self.weights if (finding := one.finding(file)) is not None]
        if not self.weights:
            found.append(Finding("error", "origin", "this file has no weights to compare", None, file))
        if self.unused:
            tensors = counted(len(self.unused), "tensor of the source is", "tensors of the source are")
            message = f"{tensors} in no weight of this file: {first_of(self.unused)}"
            found.append(Finding("warning", "origin", message, None, file))
        return found

    @property
    def summary(self) -> str:
        """What is proved, for a note."""
        text = f"{counted(len(self.weights), 'weight was', 'weights were')} made from {self.source}"
        skipped = counted(self.constants, "constant")
        return text + (
            f"; {skipped} of the graph {'was' if self.constants == 1 else 'were'} not compared"
            if self.constants
            else ""
        )
