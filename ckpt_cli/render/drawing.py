"""The page of an object graph: a tree that unfolds to everything, with search; without script, a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.words import counted

from ..operations.graph.folding import foldable
from ..operations.graph.pictures import STYLE, svg
from .page import page, text

if TYPE_CHECKING:
    from ..operations.graph.folding import Drawing
    from ..operations.graph.tree import Span


def html(drawing: Drawing, tree: Span, path: str, version: str, **made: str) -> bytes:
    """Return the page of a graph; without its script it is the picture.

    `made` and `command` say when the page was made, and by which command.
    """
    document = {
        "what": "graph",
        "name": drawing.title,
        "path": path,
        **made,
        "graph": {**foldable(drawing.nodes, tree), "keys": [list(node.keys) for node in drawing.nodes]},
    }
    still = (
        f"<h1>{text(drawing.title)}</h1>\n<p>{text(path)}: {counted(len(tree.level), 'object')}, "
        f'drawn to depth {drawing.depth}</p>\n<div class="wide">{svg(drawing)}</div>'
    )
    return page(document, version, still=still, styles=(STYLE,))
