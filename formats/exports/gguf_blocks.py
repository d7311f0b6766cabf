"""The block types of GGUF: how many elements and bytes a block has, and how it is decoded.

    type     block                                                       value
    Q4_0     d, 16 q                                                     d * (q - 8)
    Q4_1     d, m, 16 q                                                  d * q + m
    Q5_0     d, u32 h, 16 q                                              d * (q - 16)
    Q5_1     d, m, u32 h, 16 q                                           d * q + m
    Q8_0     d, 32 i8                                                    d * q
    Q2_K     16 s, 64 q, d, m                                            d * low(s) * q - m * high(s)
    Q3_K     32 h, 64 q, 12 s, d                                         d * (s - 32) * (q - (0 if h else 4))
    Q4_K     d, m, 12 s, 128 q                                           d * s * q - m * minimum
    Q5_K     d, m, 12 s, 32 h, 128 q                                     the same with a fifth bit
    Q6_K     128 ql, 64 qh, 16 i8 s, d                                   d * s * (q - 32)
    IQ4_NL   d, 16 q                                                     d * K[q]
    IQ4_XS   d, u16 h, 4 l, 128 q                                        d * (s - 32) * K[q]
    TQ1_0    48 bytes of 5 digits to base 3, 4 bytes of 4, d             d * (t - 1)
    TQ2_0    64 q, d                                                     d * (q - 1)
    MXFP4    u8 e, 16 q                                                  2**(e - 128) * M[q]
    NVFP4    4 s (unsigned e4m3), 32 q                                   s / 2 * M[q]

d and m are float16; low nibbles come first, then the high ones.  Products are taken in float32
and in this order: another order differs in the last bit.
https://github.com/ggml-org/llama.cpp, gguf-py/gguf/quants.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, np.dtype[Any]]

_K = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
MXFP4_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)
_DIGITS = np.array([1, 3, 9, 27, 81], np.uint8)


def _as(block: Array, dtype: npt.DTypeLike) -> Array:
    return np.ascontiguousarray(block).view(dtype)


def _half(block: Array) -> Array:
    """Return float16 numbers as float32."""
    return _as(block, "<f2").astype(np.float32)


def _nibbles(block: Array, run: int = 16) -> Array:
    """Return 4-bit numbers: of each `run` bytes the low ones, then the high ones."""
    runs = block.reshape(len(block), -1, run)
    return np.stack([runs & 15, runs >> 4], 2).reshape(len(block), -1)


def _pairs(block: Array) -> Array:
    """Return 2-bit numbers: of each 32 bytes the lowest ones, then the next ones."""
    runs = block.reshape(len(block), -1, 32)
    return np.stack([runs >> shift & 3 for shift in (0, 2, 4, 6)], 2).reshape(len(block), -1)


def _bits(block: Array) -> Array:
    """Return single bits: the lowest ones of all bytes, then the next ones."""
    return np.stack([block >> shift & 1 for shift in range(8)], 1).reshape(len(block), -1)


def _each(scale: Array, count: int) -> Array:
    return np.repeat(scale, count, 1)


def _fifth(low: Array, high: Array) -> Array:
    """Return nibbles with a fifth bit of each from a 32-bit number."""
    bits = _as(high, "<u4") >> np.arange(32, dtype=np.uint32) & 1
    found: Array = _nibbles(low) | bits.astype(np.uint8) << 4
    return found


def _scales_and_minima(packed: Array) -> tuple[Array, Array]:
    """Return 8 scales and 8 minima of 6 bits, which are packed into 12 bytes."""
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, (third & 15) | first >> 6 << 4], 1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], 1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _q8_0(b: Array) -> Array:
    found: Array = _half(b[:, :2]) * b[:, 2:].view(np.int8)
    return found


def _q2_k(b: Array) -> Array:
    scale, minimum = _half(b[:, 80:82]) * (b[:, :16] & 15), _half(b[:, 82:84]) * (b[:, :16] >> 4)
    return _each(scale, 16) * _pairs(b[:, 16:80]) - _each(minimum, 16)


def _q3_k(b: Array) -> Array:
    low, high = b[:, 96:104], b[:, 104:108]
    upper = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], 1)
    scale = np.concatenate([low & 15, low >> 4], 1) | upper << 4
    q: Array = _pairs(b[:, 32:96]).astype(np.float32) - 4 * (1 - _bits(b[:, :32]).astype(np.float32))
    factor: Array = _half(b[:, 108:110]) * (scale.astype(np.float32) - 32)
    return _each(factor, 16) * q


def _with_minima(b: Array, q: Array) -> Array:
    scales, minima = _scales_and_minima(b[:, 4:16])
    return _each(_half(b[:, :2]) * scales, 32) * q - _each(_half(b[:, 2:4]) * minima, 32)


def _q4_k(b: Array) -> Array:
    return _with_minima(b, _nibbles(b[:, 16:144], 32))


def _q5_k(b: Array) -> Array:
    return _with_minima(b, _nibbles(b[:, 48:176], 32) | _bits(b[:, 16:48]) << 4)


def _q6_k(b: Array) -> Array:
    q: Array = (_nibbles(b[:, :128], 64) | _pairs(b[:, 128:192]) << 4).astype(np.float32) - 32
    scale: Array = _half(b[:, 208:210]) * _as(b[:, 192:208], np.int8)
    return _each(scale, 16) * q


def _iq4_xs(b: Array) -> Array:
    low = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> 4], 2).reshape(len(b), 8)
    high = (_as(b[:, 2:4], "<u2") >> 2 * np.arange(8, dtype=np.uint16) & 3).astype(np.uint8)
    scale = _half(b[:, :2]) * ((low | high << 4).astype(np.float32) - 32)
    return _each(scale, 32) * _K[_nibbles(b[:, 8:])]


def _tq1_0(b: Array) -> Array:
    parts = (b[:, :32], _DIGITS), (b[:, 32:48], _DIGITS), (b[:, 48:52], _DIGITS[:4])
    digits = [(part[:, None] * powers[:, None]).reshape(len(b), -1) for part, powers in parts]
    ternary = np.concatenate(digits, 1).astype(np.uint16) * 3 >> 8
    return _half(b[:, 52:54]) * (ternary.astype(np.float32) - 1)


def mxfp4_scale(exponent: Array) -> Array:
    """Return half the scale that an exponent stands for."""
    wide = exponent.astype(np.uint32)
    small, usual = np.uint32(0x200000) << wide % 2, wide - np.uint32(1) << np.uint32(23)
    return np.where(wide < 2, small, usual).astype(np.uint32).view(np.float32)


def _mxfp4(b: Array) -> Array:
    return mxfp4_scale(b[:, :1]) * MXFP4_VALUES[_nibbles(b[:, 1:])]


def _nvfp4(b: Array) -> Array:
    scales = b[:, :4]
    exponent, mantissa = (scales >> 3 & 15).astype(np.float32), (scales & 7).astype(np.float32)
    scale = np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7)) * 0.5
    scale[(scales == 0) | (scales == 127)] = 0
    return _each(scale.astype(np.float32), 16) * MXFP4_VALUES[_nibbles(b[:, 4:], 8)]


DECODERS: dict[str, Callable[[Array], Array]] = {
    "Q4_0": lambda b: _half(b[:, :2]) * (_nibbles(b[:, 2:]).astype(np.float32) - 8),
    "Q4_1": lambda b: _half(b[:, :2]) * _nibbles(b[:, 4:]) + _half(b[:, 2:4]),
    "Q5_0": lambda b: _half(b[:, :2]) * (_fifth(b[:, 6:], b[:, 2:6]).astype(np.float32) - 16),
    "Q5_1": lambda b: _half(b[:, :2]) * _fifth(b[:, 8:], b[:, 4:8]) + _half(b[:, 2:4]),
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
    "IQ4_NL": lambda b: _half(b[:, :2]) * _K[_nibbles(b[:, 2:])],
    "IQ4_XS": _iq4_xs,
    "TQ1_0": _tq1_0,
    "TQ2_0": lambda b: _half(b[:, 64:66]) * (_pairs(b[:, :64]).astype(np.float32) - 1),
    "MXFP4": _mxfp4,
    "NVFP4": _nvfp4,
}


class BlockCodec:
    """One of these types."""

    def __init__(self, name: str, block: int, nbytes: int) -> None:
        self.block = block
        self.nbytes = nbytes
        self._decoder = DECODERS[name]

    def decode(self, raw: bytes, first: int) -> Array:  # noqa: ARG002  each block is alike
        with np.errstate(over="ignore", invalid="ignore"):  # scales of hostile files: infinite, or NaN
            found = self._decoder(np.frombuffer(raw, np.uint8).reshape(-1, self.nbytes))
        return found.reshape(-1)
