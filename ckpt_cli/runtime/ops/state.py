"""Operations that do more than return something: reading variables, assigning to them, printing.

The variable is an attribute, not an input: what is fed in is the value, what is
changed is the variable's array, replaced by a new one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import define

__all__: list[str] = []


def _read(variable: Any) -> Any:
    return variable._value


def _assign(value: Any, variable: Any) -> Any:
    variable._set(value)
    return variable._value


def _assign_add(value: Any, variable: Any) -> Any:
    variable._set(variable._value + value)
    return variable._value


def _assign_sub(value: Any, variable: Any) -> Any:
    variable._set(variable._value - value)
    return variable._value


def _scatter(value: Any, indices: Any, variable: Any, how: str) -> Any:
    out = variable._value.copy()
    if how == "update":
        out[indices] = value
    else:
        np.add.at(out, indices, value if how == "add" else -value)
    variable._set(out)
    return out


define("read", _read)
define("assign", _assign, None)
define("assign_add", _assign_add, None)
define("assign_sub", _assign_sub, None)
define("scatter", _scatter, None, None)
define("print", lambda: np.zeros(0))  # Whoever records is told; what is printed is no tensor's business.
