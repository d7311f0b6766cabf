"""The columns of tables, which --where, --sort and --csv know by the names that JSON has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.core.words import natural_order

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ALIASES",
    "FLAG",
    "NUMBER",
    "OF_CHECKPOINTS",
    "OF_TENSORS",
    "SHAPE",
    "TEXT",
    "order_by",
    "sortable",
]

NUMBER, TEXT, SHAPE, FLAG = "number", "text", "shape", "flag"
"""What columns hold."""

ALIASES = {"size": "nbytes"}
"""Names that people have for columns."""

OF_TENSORS = {
    "key": TEXT,
    "dtype": TEXT,
    "shape": SHAPE,
    "nbytes": NUMBER,
    "kind": TEXT,
    "object_path": TEXT,
    "full_name": TEXT,
    "shard": NUMBER,
    "offset": NUMBER,
    "crc32c": NUMBER,
    "trainable": FLAG,
    "digest": TEXT,
}
"""The columns of a checkpoint's listing."""

OF_CHECKPOINTS = {
    "name": TEXT,
    "format": TEXT,
    "step": NUMBER,
    "tensors": NUMBER,
    "nbytes": NUMBER,
    "modified": TEXT,
    "stored_step": NUMBER,
    "identity": TEXT,
}
"""The columns of a directory's listing."""

_ASCENDING = frozenset({"shard", "offset", "crc32c", "step", "stored_step"})
"""Numbers that say where or when something is, rather than how large."""


def sortable(*tables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the columns by which tables can be sorted, and their aliases."""
    names = dict.fromkeys(name for table in tables for name in table)
    return (*names, *(alias for alias, name in ALIASES.items() if name in names))


def order_by(column: str, value: Any) -> tuple[Any, ...]:
    """Return what a row is sorted by: text in its order, the largest number first, the unknown last.

    NaN goes before all numbers, for it is what to look at first.
    """
    if value is None:
        return (2,)
    if isinstance(value, str):
        return (1, natural_order(value))
    if isinstance(value, list | tuple):
        return (1, tuple(value))
    if value != value:  # noqa: PLR0124  NaN
        return (0,)
    return (1, value if column in _ASCENDING else -value)
