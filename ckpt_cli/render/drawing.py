"""The page of an object graph: a tree that unfolds to everything, with search; without script, a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.core.words import counted

from ..operations.graph.folding import hang, remark
from ..operations.graph.pictures import STYLE, svg
from .page import page, text

if TYPE_CHECKING:
    from ..operations.graph.folding import Drawing
    from ..operations.graph.tree import Span


def html(drawing: Drawing, tree: Span, path: str, version: str) -> bytes:
    """Return the page of a graph; without its script it is the picture."""
    hanging, nodes = hang(drawing.nodes, tree), drawing.nodes
    palette = sorted({node.color for node in nodes})
    document: dict[str, Any] = {
        "what": "graph",
        "name": drawing.title,
        "path": path,
        "reached": len(tree.level),
        "palette": palette,
        "colors": [palette.index(node.color) for node in nodes],
        "told": [remark(node, hanging, slots=True) for node in nodes],
        "keys": [list(node.keys) for node in nodes],
        "below": {
            number: [[name, *members] for name, members in rows] for number, rows in hanging.below.items()
        },
        "slots": {number: [*map(list, rows)] for number, rows in hanging.slots.items()},
        "aliases": {number: [*map(list, rows)] for number, rows in hanging.aliases.items()},
    }
    still = (
        f"<h1>{text(drawing.title)}</h1>\n<p>{text(path)}: {counted(len(tree.level), 'object')}, "
        f'drawn to depth {drawing.depth}</p>\n<div class="wide">{svg(drawing)}</div>'
    )
    return page(document, version, still=still, styles=(STYLE,))
