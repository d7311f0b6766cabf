"""Values of tensors as JSON and people read them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from formats.core.dtypes import DType


def as_json(array: np.ndarray[Any, Any], dtype: DType) -> Any:
    """Return an array as nested lists: UTF-8 as text, other bytes as base64; complex numbers as pairs."""
    if dtype.itemsize is None:
        return _nested(array, _text_or_base64)
    if dtype.family == "complex":
        return _nested(array, lambda number: [number.real, number.imag])
    if not dtype.native_numpy:
        return array.astype("f8" if dtype.is_floating else "i8").tolist()
    return array.tolist()


def _nested(array: np.ndarray[Any, Any], convert: Any) -> Any:
    if array.ndim == 0:
        return convert(array.item())
    return [_nested(part, convert) if part.ndim else convert(part.item()) for part in _rows(array)]


def _rows(array: np.ndarray[Any, Any]) -> Any:
    import numpy as np

    return (np.asarray(array[number : number + 1]).reshape(array.shape[1:]) for number in range(len(array)))


def _text_or_base64(value: bytes) -> Any:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def as_text(array: np.ndarray[Any, Any], dtype: DType, width: int) -> str:
    """Return an array as numpy prints it, long ones with their middle left out."""
    import numpy as np

    if dtype.itemsize is None:
        listed = [
            repr(value if len(value) <= width else value[:width] + b"...") for value in array.reshape(-1)[:20]
        ]
        return "\n".join(listed + (["..."] if array.size > 20 else []))
    if not dtype.native_numpy:
        array = array.astype("f8" if dtype.is_floating else "i8")
    return np.array2string(array, max_line_width=width, threshold=200, edgeitems=3, precision=6)
