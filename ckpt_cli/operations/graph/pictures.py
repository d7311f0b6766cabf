"""Pictures of an object graph: SVG drawn here, DOT and Mermaid for other programs.

        SVG      a row for each object, below and to the right of its parent: a dot, its name, its dtype
             and shape; no edge goes through a name, and no picture is wider than a screen
    DOT      for Graphviz
    Mermaid  for Markdown that shows diagrams

Optimizers are red, variables blue, slot variables orange with dashed edges, the rest
black, as TensorFlow's checkpoint guide draws them.  Edge names come from a file and can
be anything: what is not printable is spelled out, the rest quoted as each language asks.
"""

from __future__ import annotations

from html import escape as escape_markup
from typing import TYPE_CHECKING

from formats.core.words import counted

from .folding import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .folding import Drawing, TreeRow


_ROW, _RADIUS, _CHARACTER, _MARGIN = 22, 5, 7, 16
"""Pixels: a row, a dot, a character of the 12 pixel monospace font, the border."""

_STEP, _WIDEST = 24, 720
"""The indentation of a level in pixels, and the most for all levels together."""

_LONGEST_NAME, _LONGEST = 60, 110
"""The most characters of a name, and of a row; the title of its node has all of them."""


def visible(text: str) -> str:
    """Return text in which what cannot be seen is spelled as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    letter, digits = next(each for each in (("x", 2), ("u", 4), ("U", 8)) if not code >> 4 * each[1])
    return f"\\{letter}{code:0{digits}x}"


def _short(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return a text with the middle left out where it is long: both ends of a path tell something."""
    text = visible(text)
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"


# SVG ------------------------------------------------------------------------------

STYLE = (
    "text{font:12px ui-monospace,monospace;fill:#000;user-select:text}"
    ".remark{fill:#666}"
    ".edge{fill:none;stroke:#999;shape-rendering:crispEdges}.slot{stroke:orange}"
    ".alias circle{fill:#fff;stroke:#999}"
)


def svg(drawing: Drawing) -> str:
    """Return the picture as SVG."""
    step = min(_STEP, _WIDEST / max(1, drawing.depth))
    labels = [_label(row) for row in drawing.rows]
    width = max(
        _left(row, step) + (len(name) + len(more) + 4) * _CHARACTER
        for row, (name, more) in zip(drawing.rows, labels, strict=True)
    )
    size = f'width="{width + _MARGIN:.0f}" height="{2 * _MARGIN + _ROW * len(drawing.rows)}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape_markup(visible(drawing.title))}</title>",
        f"<style>{STYLE}</style>",
        f'<rect {size} fill="white"/>',
    ]
    tops: dict[tuple[int, int], int] = {}
    for at, row in enumerate(drawing.rows):
        if at:
            out.append(_edge(row, tops[row.level - 1, row.parent], at, step))
        if not row.is_alias:
            tops[row.level, row.id] = at
    for at, (row, label) in enumerate(zip(drawing.rows, labels, strict=True)):
        out.append(_svg_row(drawing, row, label, _left(row, step), _middle(at)))
    return "\n".join([*out, "</svg>", ""])


def _left(row: TreeRow, step: float) -> float:
    return _MARGIN + _RADIUS + row.level * step


def _middle(at: int) -> float:
    return _MARGIN + _ROW * (at + 0.5)


def _label(row: TreeRow) -> tuple[str, str]:
    """Return the text of a row: its name, and its details."""
    name = _short(row.name)
    more = f"→ {row.text}" if row.is_alias and row.text else row.text
    return name, _short(more, max(20, _LONGEST - len(name)))


def _edge(row: TreeRow, top: int, at: int, step: float) -> str:
    """Return the line from the parent of a row: down, and to the right."""
    x, end = _left(row, step) - step, _left(row, step) - _RADIUS
    start = _middle(top) + _RADIUS
    kind = 'class="edge slot" stroke-dasharray="4 3"' if row.is_slot else 'class="edge"'
    ends = f'data-from="{row.parent}" data-to="{row.id}"'
    return (
        f'<path {kind} {ends} d="M{x:.1f} {start:.1f}V{_middle(at):.1f}H{end:.1f}">'
        f"<title>{escape_markup(visible(row.name))}</title></path>"
    )


def _svg_row(drawing: Drawing, row: TreeRow, label: tuple[str, str], x: float, y: float) -> str:
    node = drawing.nodes[row.id]
    name, more = (escape_markup(text) for text in label)
    title_parts = [
        row.name,
        path_of(node),
        *node.keys,
        counted(node.nbytes, "byte") if node.keys else "",
        row.text,
    ]
    title = escape_markup(visible("; ".join(text for text in title_parts if text)))
    own = (
        f'class="node" id="n{row.id}" data-path="{escape_markup(visible(node.object_path or ""))}"'
        if not row.is_alias
        else 'class="alias"'
    )
    behind = f'  <tspan class="remark">{more}</tspan>' if more else ""
    return (
        f"<g {own}><title>{title}</title>"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" fill="{node.color}"/>'
        f'<text xml:space="preserve" x="{x + _RADIUS + 5:.1f}" y="{y + 4:.1f}">{name}{behind}</text></g>'
    )


# For other programs ---------------------------------------------------------------


def _quoted(text: str) -> str:
    return '"' + visible(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _linked(drawing: Drawing) -> list[TreeRow]:
    """Return the rows whose edges lead to drawn nodes; the target of an alias may not be drawn."""
    drawn = {row.id for row in drawing.rows if not row.is_alias}
    return [row for row in drawing.rows[1:] if row.id in drawn and (row.text or not row.is_alias)]


def _edge_name(row: TreeRow) -> str:
    """Return the label of an edge: the name of an alias; other names are at the objects."""
    return _short(row.name) if row.is_alias else ""


def dot(drawing: Drawing) -> str:
    """Return the graph in Graphviz's language."""
    out = [
        f"digraph {_quoted(drawing.title)} {{",
        "  rankdir=LR;",
        "  node [shape=ellipse, fontname=monospace];",
    ]
    for row in drawing.rows:
        if not row.is_alias:
            label = "  ".join(filter(None, (_short(row.name), _short(row.text, _LONGEST))))
            color = drawing.nodes[row.id].color
            out.append(f"  n{row.id} [label={_quoted(label)}, color={color}];")
    for row in _linked(drawing):
        style = ", style=dashed, color=orange" if row.is_slot else ""
        out.append(f"  n{row.parent} -> n{row.id} [label={_quoted(_edge_name(row))}{style}];")
    return "\n".join([*out, "}", ""])


def _entities(text: str) -> str:
    """Return a Mermaid string: what could mean something to it is a numbered entity."""
    plain = frozenset(" _-/.,[]():+")
    return '"' + "".join(c if c.isalnum() or c in plain else f"#{ord(c)};" for c in visible(text)) + '"'


def mermaid(drawing: Drawing) -> str:
    """Return the graph as a Mermaid flowchart."""
    out = ["flowchart LR"]
    for row in drawing.rows:
        if not row.is_alias:
            label = "  ".join(filter(None, (_short(row.name), _short(row.text, _LONGEST))))
            out.append(f"  n{row.id}([{_entities(label)}]):::{drawing.nodes[row.id].color}")
    for row in _linked(drawing):
        arrow = "-.->" if row.is_slot else "-->"
        label = f"|{_entities(_edge_name(row))}|" if _edge_name(row) else ""
        out.append(f"  n{row.parent} {arrow}{label} n{row.id}")
    out += [f"  classDef {color} stroke:{color}" for color in ("red", "blue", "orange", "black")]
    return "\n".join([*out, ""])


WRITERS: dict[str, Callable[[Drawing], str]] = {".svg": svg, ".dot": dot, ".mmd": mermaid}
"""What writes a file, by suffix."""
