"""The verdicts of `verify --made-from`, weight by weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.core.words import counted, first_of

from . import base as render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..operations.look.verify import Result

_STYLES = {"other": "red", "unpaired": "red"}


def rows(result: Result) -> Iterator[tuple[object, ...]]:
    """Yield TSV of the weights that are proved; the others are findings."""
    made = result.computed.get("made_from", {})
    for one in made.get("weights", ()):
        if one["verdict"] not in _STYLES:
            message = " <- ".join((one["rule"], " + ".join(one["from"])))
            yield result.path, one["verdict"], "origin", one["key"], made["source"], None, message


def show(result: Result) -> None:
    """Show each weight, its sources, the rule, the verdict, and the error next to its bound."""
    weights = result.computed.get("made_from", {}).get("weights", ())
    if not weights:
        return
    columns = [
        render.Column("WEIGHT", fold=True),
        render.Column("MADE FROM", fold=True),
        render.Column("RULE", prose=True),
        render.Column("VERDICT"),
        render.Column("ERROR", right=True),
        render.Column("ALLOWED", right=True),
    ]
    texts = [[render.escape(text) for text in _texts(one)] for one in weights]
    render.table(columns, texts, [_STYLES.get(one["verdict"], "") for one in weights])


def _texts(one: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a row; several sources follow the rule, because a name that is cut hides some."""
    made, rule = one["from"], one["rule"]
    if len(made) > 1:
        made, rule = [counted(len(made), "tensor")], f"{rule}; from {first_of(made, 5)}"
    error, allowed = (_number(one[name]) for name in ("max_error", "allowed"))
    return one["key"], "".join(made), rule, one["verdict"], error, allowed


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
