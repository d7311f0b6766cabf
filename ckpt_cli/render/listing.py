"""The format options of `ls`, for directories and checkpoints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from . import base as render

if TYPE_CHECKING:
    from collections.abc import Iterable


class Look(NamedTuple):
    """The options of `ls` about its output.

    Of several paths each has a `prefix`, with which its lines begin, and puts its document
    into `documents`.  CSV has its header before the first of them.
    """

    as_json: bool
    null: bool
    keys_only: bool
    as_tree: bool
    long: bool
    depth: int | None
    digest: str | None
    sort: str
    reverse: bool
    as_csv: bool
    top: int | None
    prefix: tuple[str, ...] = ()
    documents: list[dict[str, Any]] | None = None
    has_header: bool = True

    @property
    def in_columns(self) -> bool:
        """Whether all that is shown of a tensor is its key, or its spec on a line that is for programs."""
        if self.as_csv or self.top:
            return False
        if self.null or self.keys_only:
            return True
        return not (
            self.as_json or self.as_tree or self.long or self.depth or self.digest or render.is_terminal()
        )

    @classmethod
    def of(cls, options: dict[str, Any]) -> Look:
        return cls(*(options[name] for name in cls._fields[:11]))


def write_null(names: Iterable[str]) -> None:
    """Write keys or names byte for byte as they are stored, which not every encoding of text can."""
    from formats.core.spec import key_bytes

    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(key_bytes(name) + b"\0" for name in names))


def write_names(names: Iterable[str]) -> None:
    """Write keys or names, one per line."""
    render.lines(map(render.escape, names), for_programs=True)


def escaped(names: list[str]) -> list[str]:
    """Return names that are safe in a line; they nearly always are, and are looked at together."""
    text = "".join(names)
    return names if text.isprintable() and "\\" not in text else [*map(render.escape, names)]


def cell(value: object) -> str:
    """Return what a table's cell shows; nothing for what is not known."""
    return "" if value is None else render.escape(str(value))
