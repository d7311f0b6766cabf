"""--where and `where=`: expressions, checked against the columns of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operations.select.columns import ALIASES
from .rules import OptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..operations.select.where import Where, WhereError

__all__ = ["parsed", "require_columns"]


def parsed(
    text: str | None, columns: Mapping[str, str], aliases: Mapping[str, str] = ALIASES
) -> Where | None:
    """Return the expression of an argument, if there is one; OptionError for one that makes no sense."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise OptionError(f"--where: expected text, found {type(text).__name__}")
    from ..operations.select.where import WhereError, parse_where  # needed by few command lines

    try:
        return parse_where(text, columns, aliases)
    except WhereError as error:
        raise _as_option_error(error) from error


def require_columns(where: Where, known: Collection[str], what: str) -> None:
    """Raise OptionError if an expression names an unknown column."""
    from ..operations.select.where import WhereError

    try:
        where.require(known, what)
    except WhereError as error:
        raise _as_option_error(error) from error


def _as_option_error(error: WhereError) -> OptionError:
    return OptionError(f"--where, character {error.position + 1} of {error.excerpt[0]!r}: {error}")
