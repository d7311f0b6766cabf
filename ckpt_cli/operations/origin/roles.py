"""The role of a weight in its layer: by the words of its name, by the operation, or by Keras' numbers.

Keras reads the kernels of a recurrent layer in one order: `MatMul` and `Read` are those of the input,
`MatMul_1` and `Read_1` those of the state.  TFLite appends more digits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .flow import KERNEL, MEAN, OFFSET, SCALE, VARIANCE, Use

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from formats.core.spec import TensorSpec

    from .naming import LayerNames, Mention
    from .records import Derivation

_FAMILIES = {
    **dict.fromkeys(("gamma", "scale", "factor"), SCALE),
    **dict.fromkeys(("beta", "bias", "offset"), OFFSET),
    **dict.fromkeys(("moving_mean", "running_mean"), MEAN),
    **dict.fromkeys(("moving_variance", "running_var"), VARIANCE),
}
_RECURRENT = re.compile(r"(?:MatMul|Read|Cast)(?:_([12])?[0-9]*)?\Z|(?:MatMul|Read|Cast)[0-9]*\Z")
_FOLDED = re.compile(r"-folded-([01])\Z")
"""An output of an operation that TensorFlow computed while it optimized the graph."""

_NUMBERED = {"": "kernel", "1": "recurrent_kernel", "2": "bias"}
_ROWS = {"kernel": "0", "recurrent_kernel": "1"}
_ALONE = ("copy", "row")
"""Ways whose sources are one tensor."""


def family_of(way: Derivation, specs: Mapping[str, TensorSpec]) -> str:
    """Return what a way makes: a scale, an offset, a mean or a variance; nothing for other weights."""
    role = way.signature[1]
    if role == "weight":
        return SCALE if len(specs[way.sources[0]].shape) == 1 else ""
    return _FAMILIES.get(role, "")


def of_family(
    ways: Sequence[Derivation], use: Use | None, specs: Mapping[str, TensorSpec]
) -> list[Derivation]:
    """Return the ways that make what an operation uses."""
    family = use.family if use is not None else ""
    wanted = ("",) if family == KERNEL else ("", family)
    return [way for way in ways if not family or family_of(way, specs) in wanted]


def named_roles(mentions: Iterable[Mention]) -> set[str]:
    """Return the roles in a name, behind the names of layers."""
    found: set[str] = set()
    for layer, rest in mentions:
        mentioned_roles = {part for part in rest if part in layer.weights}
        if not mentioned_roles and "recurrent_kernel" in layer.weights:
            matches = (_RECURRENT.match(part) for part in rest)
            mentioned_roles = {_NUMBERED[match[1] or ""] for match in matches if match is not None}
        found |= mentioned_roles
    return found


def of_row(
    ways: Sequence[Derivation], name: str, beside: Iterable[str], names: LayerNames
) -> list[Derivation]:
    """Return the ways that make a weight; some of them may make one of the two biases of a GRU.

    One is added to the product with the kernel, the other to that with the recurrent kernel.  The names
    `beside` are those of the operation and of its other inputs.
    """
    if not any(way.signature[0] == "row" for way in ways):
        return list(ways)
    folded = _FOLDED.search(name)
    mentioned_roles = {role for each in beside for role in named_roles(names.mentioned(each))} & _ROWS.keys()
    rows = {folded[1]} if folded is not None else {_ROWS[role] for role in mentioned_roles}
    if len(rows) != 1:
        return list(ways)
    return [way for way in ways if way.signature[0] != "row" or way.signature[1] in rows]


def is_open(best: Derivation, ways: Iterable[Derivation]) -> set[str]:
    """Return the roles between which nothing decides: those of other copies from the same layer."""
    kind = best.signature[0]
    found = {way.signature[1] for way in ways if way.layer == best.layer and way.signature[0] == kind}
    return found - {best.signature[1]} if kind in _ALONE else set()
