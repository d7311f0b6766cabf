"""Values that are stored as another type: big-endian, bool, several in a byte, quantized with a scale."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..core.dtypes import DType
    from ..core.spec import StoredType


class CastCodec:
    """Elements of one numpy type, read as another: big-endian ones, and bytes that are bools."""

    block = 1

    def __init__(self, stored: np.dtype[Any], dtype: np.dtype[Any]) -> None:
        self.nbytes = stored.itemsize
        self._stored = stored
        self._dtype = dtype

    def decode(self, raw: bytes, first: int) -> np.ndarray[Any, Any]:  # noqa: ARG002  each element is alike
        import numpy as np

        return np.frombuffer(raw, self._stored).astype(self._dtype)


def bool_codec() -> CastCodec:
    """Return the codec of bools: each byte but 0 is true."""
    import numpy as np

    return CastCodec(np.dtype(np.uint8), np.dtype(np.bool_))


def swapped_codec(dtype: DType) -> CastCodec:
    """Return the codec of big-endian elements; those of ml_dtypes have no such form in numpy."""
    import numpy as np

    if dtype.native_numpy:
        return CastCodec(dtype.numpy.newbyteorder(">"), dtype.numpy)
    return _SwappedBits(np.dtype(f">u{dtype.itemsize}"), dtype.numpy)


class _SwappedBits(CastCodec):
    """Big-endian elements of a type that is known by its bits alone."""

    def decode(self, raw: bytes, first: int) -> np.ndarray[Any, Any]:  # noqa: ARG002  each element is alike
        import numpy as np

        return np.frombuffer(raw, self._stored).astype(self._stored.newbyteorder("<")).view(self._dtype)


class PackedCodec:
    """Elements of 4 or 2 bits, low ones first."""

    nbytes = 1

    def __init__(self, bits: int, dtype: DType) -> None:
        self.block = 8 // bits
        self._bits = bits
        self._dtype = dtype

    def decode(self, raw: bytes, first: int) -> np.ndarray[Any, Any]:  # noqa: ARG002  each element is alike
        import numpy as np

        shifts = np.arange(0, 8, self._bits, dtype=np.uint8)
        found = (np.frombuffer(raw, np.uint8)[:, None] >> shifts & ((1 << self._bits) - 1)).reshape(-1)
        if self._dtype.family == "float":
            return found.view(self._dtype.numpy)
        sign = 1 << (self._bits - 1) if self._dtype.family == "int" else 0
        signed: np.ndarray[Any, Any] = (found ^ sign).view(np.int8) - np.int8(sign)
        return signed.astype(self._dtype.numpy)


class AffineCodec:
    """Integers that a scale makes float32: `scale * (q - zero_point)`, or `scale * q + minimum`."""

    def __init__(self, codec: CastCodec | PackedCodec, stored: StoredType, shape: tuple[int, ...]) -> None:
        self.block = codec.block
        self.nbytes = codec.nbytes
        self._codec = codec
        self._stored = stored
        axis = stored.axis or 0
        self._inner = math.prod(shape[axis + 1 :])

    @cached_property
    def _numbers(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The scales and zero points."""
        import numpy as np

        zero = self._stored.zero_point or (0,) * len(self._stored.scale)
        return np.array(self._stored.scale, np.float64), np.array(zero, np.float64)

    def decode(self, raw: bytes, first: int) -> np.ndarray[Any, Any]:
        """Return the values, computed in float64 and rounded once, as TensorFlow's interpreter does."""
        import numpy as np

        stored, (scale, zero) = self._stored, self._numbers
        values: np.ndarray[Any, Any] = self._codec.decode(raw, first).astype(np.float64)
        if stored.axis is not None:
            channel = np.arange(first, first + values.size) // self._inner % len(stored.scale)
            scale, zero = scale[channel], zero[channel]
        with np.errstate(over="ignore", invalid="ignore"):  # scales come from the file
            values -= zero
            values *= scale
            if stored.minimum is not None:
                values += stored.minimum
            return values.astype(np.float32)
