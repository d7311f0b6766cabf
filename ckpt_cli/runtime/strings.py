"""tf.strings: functions of the elements of a tensor of strings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidArgumentError
from .tensor import OPERATIONS, Tensor, as_tensor, define
from .unknown import absent

if TYPE_CHECKING:
    from collections.abc import Callable

_length = len
__all__ = ["join", "length", "lower", "regex_replace", "strip", "substr", "upper"]


def _each(function: Callable[..., Any], *arrays: Any, dtype: Any = object) -> Any:
    """Return what a function makes of the elements of arrays, which are broadcast."""
    arrays = np.broadcast_arrays(*arrays)
    out = np.empty(arrays[0].shape, dtype)
    for at in np.ndindex(out.shape):
        out[at] = function(*(one[at] for one in arrays))
    return out


define("strings", lambda *arrays, function, dtype=object: _each(function, *arrays, dtype=dtype), each=None)


def _strings(function: Callable[..., Any], *inputs: Any, dtype: Any = object) -> Tensor:
    tensors = [one if isinstance(one, Tensor) else as_tensor(one, np.dtype(object)) for one in inputs]
    if any(one._value.dtype != object for one in tensors):
        raise InvalidArgumentError("a tensor of strings was expected")
    return OPERATIONS["strings"](*tensors, function=function, dtype=dtype)


def join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    between = separator.encode()
    return _strings(lambda *parts: between.join(parts), *inputs)


def _unit(unit: str) -> Callable[[bytes], Any]:
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise InvalidArgumentError(
            f"Value for attr 'unit' of \"{unit}\" is not in the list of allowed values"
        )
    return bytes if unit == "BYTE" else lambda text: text.decode("utf-8", "replace")


def length(input: Any, unit: str = "BYTE", name: str | None = None) -> Tensor:
    characters = _unit(unit)
    return _strings(lambda one: len(characters(one)), input, dtype=np.int32)


def _case(method: str) -> Callable[..., Tensor]:
    def function(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
        if encoding not in ("", "utf-8"):
            raise InvalidArgumentError(f"only utf8 or '' are supported as encodings, got {encoding}")

        def changed(one: bytes) -> bytes:
            text: Any = one.decode("utf-8", "surrogateescape") if encoding else one
            text = getattr(text, method)()
            return text.encode("utf-8", "surrogateescape") if encoding else text

        return _strings(changed, input)

    function.__name__ = function.__qualname__ = method
    return function


lower, upper = _case("lower"), _case("upper")


def strip(input: Any, name: str | None = None) -> Tensor:
    return _strings(lambda one: one.strip(), input)


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    try:
        compiled = re.compile(as_tensor(pattern).numpy())
    except re.error as error:
        raise InvalidArgumentError(f"Invalid pattern: {pattern}, error: {error}") from error
    text = as_tensor(rewrite).numpy()
    return _strings(lambda one: compiled.sub(text, one, 0 if replace_global else 1), input)


def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None) -> Tensor:
    characters = _unit(unit)

    def part(text: bytes, start: Any, count: Any) -> bytes:
        found = characters(text)
        if not -_length(found) <= start <= _length(found):
            raise InvalidArgumentError(f"pos {start} out of range for string b'{text!r}' [Op:Substr]")
        start = start + _length(found) if start < 0 else start
        cut = found[start : start + count if count >= 0 else None]
        return cut if unit == "BYTE" else cut.encode()

    strings = as_tensor(input)
    if strings._value.dtype != object:
        raise InvalidArgumentError("substr: a tensor of strings was expected")
    places = (as_tensor(one) for one in (pos, len))
    return OPERATIONS["strings"](strings, *places, function=part)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
