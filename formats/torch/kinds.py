"""The kinds of tensors in a PyTorch file, by its keys.

An optimizer's dictionary has `state` and `param_groups`: below `state`, by the number of a
parameter, are tensors of that parameter's shape, and counts of steps.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..model.object_names import ObjectNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.spec import TensorSpec

GROUPS = "param_groups"
"""The key in an optimizer's dictionary for the numbers and switches of its parameters."""

_OF_OPTIMIZER = re.compile(r"(?:.*/)?(?:state/[^/]+|" + GROUPS + r"/\d+)/(?P<name>.+)", re.DOTALL)
_COUNTED = re.compile(r"(?:.*[./])?num_batches_tracked", re.DOTALL)


def kinds_of(specs: Mapping[str, TensorSpec]) -> dict[str, str]:
    """Return the kind of each key.

    In a file that holds only an optimizer, every tensor of more than one number belongs to a parameter.
    """
    states = {key: match for key in specs if (match := _OF_OPTIMIZER.fullmatch(key))}
    objects = ObjectNames({key: spec for key, spec in specs.items() if key not in states})
    shapes = {spec.shape for key, spec in specs.items() if key not in states}
    found = {}
    for key, spec in specs.items():
        if key in states:
            is_count = states[key]["name"] == "step"
            is_like_one = spec.shape in shapes if shapes else spec.rank > 0
            found[key] = "slot" if is_like_one and not is_count else "optimizer"
        else:
            counts = _COUNTED.fullmatch(key)
            found[key] = "state" if counts else objects.kind(key, spec) or "variable"
    return found
