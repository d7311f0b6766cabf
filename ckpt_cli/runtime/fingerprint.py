"""Fingerprint64 of FarmHash: the hash of texts that TensorFlow puts into buckets.

github.com/google/farmhash, farmhashna::Hash64; tensorflow/core/platform/fingerprint.h
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["fingerprint", "joined"]

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_JOIN = 0xC6A4A7935BD1E995
_ALL = (1 << 64) - 1


def _turned(x: int, by: int) -> int:
    x &= _ALL
    return (x >> by | x << (64 - by)) & _ALL


def _mixed(x: int) -> int:
    x &= _ALL
    return x ^ x >> 47


def _of_two(u: int, v: int, factor: int) -> int:
    a = _mixed((u ^ v) * factor)
    return _mixed((v ^ a) * factor) * factor & _ALL


def _number(text: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(text[at : at + size], "little")


def _to_16(s: bytes) -> int:
    n, factor = len(s), _K2 + len(s) * 2
    if n >= 8:
        a, b = _number(s, 0) + _K2, _number(s, n - 8)
        c, d = _turned(b, 37) * factor + a, (_turned(a, 25) + b) * factor
        return _of_two(c & _ALL, d & _ALL, factor)
    if n >= 4:
        return _of_two(n + (_number(s, 0, 4) << 3), _number(s, n - 4, 4), factor)
    if n:
        return _mixed((s[0] + (s[n >> 1] << 8)) * _K2 ^ (n + (s[-1] << 2)) * _K0) * _K2 & _ALL
    return _K2


def _to_64(s: bytes) -> int:
    n, factor = len(s), _K2 + len(s) * 2
    first = _K1 if n <= 32 else _K2
    a, b = _number(s, 0) * first, _number(s, 8)
    c, d = _number(s, n - 8) * factor, _number(s, n - 16) * _K2
    y, z = _turned(a + b, 43) + _turned(c, 30) + d & _ALL, a + _turned(b + _K2, 18) + c & _ALL
    if n <= 32:
        return _of_two(y, z, factor)
    z = _of_two(y, z, factor)
    e, f = _number(s, 16) * factor, _number(s, 24)
    g, h = (y + _number(s, n - 32)) * factor, (z + _number(s, n - 24)) * factor
    y, z = _turned(e + f, 43) + _turned(g, 30) + h & _ALL, e + _turned(f + a, 18) + g & _ALL
    return _of_two(y, z, factor)


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_number(s, at + 8 * index) for index in range(4))
    a += w
    b, c = _turned(b + a + z, 21), a
    a += x + y
    return a + z & _ALL, b + _turned(a, 44) + c & _ALL


_State = tuple[int, int, int, tuple[int, int], tuple[int, int]]


def _round(s: bytes, at: int, state: _State, factor: int, times: int) -> _State:
    x, y, z, v, w = state
    x = _turned(x + y + v[0] + _number(s, at + 8), 37) * factor
    y = _turned(y + v[1] + _number(s, at + 48), 42) * factor
    x, y = (x ^ w[1] * times) & _ALL, y + v[0] * times + _number(s, at + 40) & _ALL
    z = _turned(z + w[0], 33) * factor & _ALL
    v = _weak(s, at, v[1] * factor, x + w[0])
    w = _weak(s, at + 32, z + w[1], y + _number(s, at + 16))
    return z, y, x, v, w


@lru_cache(1 << 16)
def fingerprint(s: bytes) -> int:
    """Return Fingerprint64 of a text."""
    n = len(s)
    if n <= 64:
        return _to_16(s) if n <= 16 else _to_64(s)
    y = 81 * _K1 + 113
    state: _State = (81 * _K2 + _number(s, 0), y, _mixed(y * _K2 + 113) * _K2, (0, 0), (0, 0))
    for at in range(0, (n - 1) // 64 * 64, 64):
        state = _round(s, at, state, _K1, 1)
    x, y, z, v, w = state
    factor = _K1 + ((z & 0xFF) << 1)
    w = w[0] + (n - 1 & 63), w[1]
    v = v[0] + w[0], v[1]
    x, y, z, v, w = _round(s, n - 64, (x, y, z, v, (w[0] + v[0], w[1])), factor, 9)
    one = _of_two(v[0], w[0], factor) + _mixed(y) * _K0 + z
    return _of_two(one & _ALL, _of_two(v[1], w[1], factor) + x & _ALL, factor)


def joined(one: int, other: int) -> int:
    """Return FingerprintCat64 of two fingerprints."""
    x = (one ^ _JOIN ^ _mixed(other * _JOIN) * _JOIN) * _JOIN
    return _mixed(_mixed(x) * _JOIN)
