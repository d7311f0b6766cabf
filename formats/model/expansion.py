"""How large tensors may be together that are made of few bytes: a file can name the same ones again."""

from __future__ import annotations

MOST_EXPANSION = 100
MOST_UNEXPLAINED = 64 << 20
"""Bytes that tensors may have together: so many times those that are stored, and so many more."""


def expansion_flaw(total: int, stored: int) -> str | None:
    """Return what is wrong with tensors of so many bytes together, made of so many."""
    is_much = total > MOST_EXPANSION * stored + MOST_UNEXPLAINED
    return (
        f"{stored} stored bytes expand to tensors of {total} bytes, which is over the limit"
        if is_much
        else None
    )
