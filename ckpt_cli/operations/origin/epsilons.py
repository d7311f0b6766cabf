"""The epsilon of a normalization, computed from an export, if no configuration has it and no usual one fits.

It proves nothing: a variance that is off by the same amount in all channels looks the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .proving import Proof
    from .records import Derivation, Target
    from .rules import DerivationRules
    from .source import SourceLayer

_LEAST, _MOST = 1e-9, 1.0
_STEPS = 48
_DIGITS = (1, 2, 3, 4, 12)
_ROUND = tuple(float(f"{digit}e-{places}") for places in range(2, 9) for digit in (1, 2, 3, 5))
_RATIO = (math.sqrt(5) - 1) / 2


def with_epsilon(
    rules: DerivationRules, layers: Sequence[SourceLayer], way: Derivation, target: Target, epsilon: float
) -> list[Derivation]:
    """Return the ways of a layer like another way, with an epsilon for the normalization that is folded."""
    with_epsilon_rules = rules._replace(
        normalizations=[one._replace(epsilon=epsilon) for one in rules.normalizations]
    )
    layer = layers[way.layer]
    if layer.is_batch_normalization:
        layer = layer._replace(epsilon=epsilon)
    made = [
        *with_epsilon_rules.of_layer(layer, target, ()),
        *with_epsilon_rules.of_layer_behind(layer, target),
    ]
    return [one for one in made if (one.signature, one.partner) == (way.signature, way.partner)]


def fitted(
    ways_with: Callable[[float], list[Derivation]],
    prove: Callable[[list[Derivation]], list[Proof]],
    distance: Callable[[Derivation], float],
) -> tuple[float, Proof] | None:
    """Return the epsilon that gives a weight, and the proof; None if none does.

    Round numbers are tried first.  The `distance` grows on both sides of the right epsilon, so a search by
    sections finds any other one, unless the rounding of the weight hides it.
    """
    if not ways_with(_MOST):
        return None
    for epsilon in _ROUND:
        proof = _proved(prove(ways_with(epsilon)))
        if proof is not None:
            return epsilon, proof
    low, high = math.log(_LEAST), math.log(_MOST)
    for _ in range(_STEPS):
        places = high - _RATIO * (high - low), low + _RATIO * (high - low)
        first, last = (min(map(distance, ways_with(math.exp(place)))) for place in places)
        low, high = (low, places[1]) if first < last else (places[0], high)
    found = math.exp((low + high) / 2)
    for digits in _DIGITS:
        epsilon = float(f"{found:.{digits - 1}e}")
        proof = _proved(prove(ways_with(epsilon)))
        if proof is not None:
            return epsilon, proof
    return None


def _proved(proofs: Sequence[Proof]) -> Proof | None:
    return next((one for one in proofs if one.found.is_proved), None)
