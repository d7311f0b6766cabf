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


def _scatter_nd(value: Any, indices: Any, variable: Any, how: str) -> Any:
    outside = ((indices < 0) | (indices >= variable._value.shape[: indices.shape[-1]])).any(axis=-1)
    if outside.any():
        found = indices[outside][0].tolist()
        raise ValueError(f"indices = {found} does not index into shape {list(variable._value.shape)}")
    return _scatter(value, tuple(np.moveaxis(indices, -1, 0)), variable, how)


def _assign_slice(value: Any, index: Any, variable: Any) -> Any:
    return _scatter(np.broadcast_to(value, variable._value[index].shape), index, variable, "update")


define("read", _read)
define("assign", _assign, None)
define("assign_add", _assign_add, None)
define("assign_sub", _assign_sub, None)
define("scatter", _scatter, None, None)
define("scatter_nd", _scatter_nd, None, None)
define("assign_slice", _assign_slice, None)
define("print", lambda: np.zeros(0))  # Recording code is notified; printing uses no tensor.
