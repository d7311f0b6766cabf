"""Pictures of an object graph: SVG and HTML drawn here, DOT and Mermaid for other programs.

    SVG      a tree from left to right, a row a leaf, every node a dot with its name before
             it and its dtype and shape behind; edges beyond the tree are arcs
    HTML     the SVG in a page of its own; no script, nothing is fetched
    DOT      for Graphviz
    Mermaid  for Markdown that shows diagrams

Optimizers are red, variables blue, slot variables orange with dashed edges, the rest
black, as TensorFlow's checkpoint guide draws them.  Edge names come from a file and can
be anything: what is not printable is spelled out, the rest quoted as each language asks.
"""

from __future__ import annotations

from html import escape as escape_markup
from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tree import Drawing, GraphNode


_ROW, _RADIUS, _CHARACTER, _MARGIN = 24, 6, 7, 20
"""Pixels: a row, a dot, a character of the 12 pixel monospace font, the border."""

_WIDEST_ARC = 200

_LONGEST = 40
"""Characters of a name that are shown; the title of its node has all of them."""


def visible(text: str) -> str:
    """Return text in which what cannot be seen is spelled as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _hidden(drawing: Drawing, node: GraphNode) -> int:
    """Return how many nodes below one are not drawn."""
    return drawing.tree.below[node.id] if drawing.tree.level[node.id] == drawing.depth else 0


def _remark(drawing: Drawing, node: GraphNode) -> str:
    hidden = _hidden(drawing, node)
    parts = [node.remark, f"+{counted(hidden, 'node')}" if hidden else ""]
    return " ".join(part for part in parts if part)


def _name(node: GraphNode) -> str:
    return "(root)" if node.object_path == "" else node.object_path or f"node {node.id}"


# SVG ------------------------------------------------------------------------------


class _Place(NamedTuple):
    x: float
    y: float


def _layout(drawing: Drawing) -> tuple[dict[int, _Place], dict[int, str], float, float]:
    """Return places, names at the nodes, width and height: leaves in rows, parents amid their children."""
    tree, depth = drawing.tree, drawing.depth
    names = {0: "(root)"}
    for parent, branches in tree.branches.items():
        if tree.level[parent] < depth:
            names.update((child, _short(name)) for name, child in branches)
    wide: dict[int, int] = {}
    for node in drawing.nodes:
        level = tree.level[node.id]
        # A parent has its remark above the edges, so only its name takes room.
        wide[level] = max(wide.get(level, 0), len(names[node.id]))
    left, at = {}, float(_MARGIN)
    for level in sorted(wide):
        at += wide[level] * _CHARACTER + 2 * _RADIUS
        left[level] = at
        at += 5 * _RADIUS
    rows: dict[int, float] = {}
    stack, row = [0], 0
    while stack:
        number = stack.pop()
        children = tree.branches.get(number, []) if tree.level[number] < depth else []
        if not children:
            rows[number] = row
            row += 1
        stack += [child for _, child in reversed(children)]
    for node in reversed(drawing.nodes):
        if node.id not in rows:
            below = tree.branches[node.id]
            rows[node.id] = (rows[below[0][1]] + rows[below[-1][1]]) / 2
    places = {n: _Place(left[tree.level[n]], _MARGIN + _ROW * (rows[n] + 0.5)) for n in rows}
    remarks = max((len(visible(_remark(drawing, node))) for node in drawing.nodes), default=0)
    right = at + remarks * _CHARACTER
    for edge in drawing.edges:
        right = max(right, _bend(places[edge.start], places[edge.end]) + len(_short(edge.name)) * _CHARACTER)
    return places, names, right + _MARGIN, 2 * _MARGIN + _ROW * row


_STYLE = (
    "text{font:12px ui-monospace,monospace;fill:black;paint-order:stroke;stroke:white;stroke-width:3px}"
    ".remark{fill:#666}"
    ".edge{fill:none;stroke:#999;stroke-width:1.2}.slot{stroke:orange}.more{stroke:#bbb}"
)


def svg(drawing: Drawing) -> str:
    """Return the picture as SVG."""
    places, names, width, height = _layout(drawing)
    tree = drawing.tree
    in_tree = {
        (parent, child): name for parent, branches in tree.branches.items() for name, child in branches
    }
    size = f'width="{width:.0f}" height="{height:.0f}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape_markup(visible(drawing.title))}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect {size} fill="white"/>',
    ]
    seen: set[tuple[int, int]] = set()
    for edge in drawing.edges:
        start, end = places[edge.start], places[edge.end]
        pair = (edge.start, edge.end)
        is_branch = pair in in_tree and pair not in seen and (edge.dashed or in_tree[pair] == edge.name)
        seen |= {pair} if is_branch else set()
        kind = "edge slot" if edge.dashed else "edge" if is_branch else "edge more"
        dashes = ' stroke-dasharray="4 3"' if edge.dashed else ""
        out.append(
            f'<path class="{kind}" data-from="{edge.start}" data-to="{edge.end}"{dashes}'
            f' d="{_curve(start, end, len(names[edge.end]), branch=is_branch)}">'
            f"<title>{escape_markup(visible(edge.name))}</title></path>"
        )
        if not is_branch and not edge.dashed:
            out.append(_arc_label(start, end, edge.name))
    for node in drawing.nodes:
        out.append(_svg_node(drawing, node, places[node.id], names[node.id]))
    return "\n".join([*out, "</svg>", ""])


def _curve(start: _Place, end: _Place, characters: int, *, branch: bool) -> str:
    if branch:  # to where the child's name begins
        end = _Place(end.x - 2 * _RADIUS - characters * _CHARACTER, end.y)
        bend, sway = (start.x + end.x) / 2, 0
    else:
        bend, sway = _bend(start, end), _ROW if start == end else 0
    points = ((bend, start.y - sway), (bend, end.y + sway), end)
    return f"M{start.x:.1f} {start.y:.1f}C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _bend(start: _Place, end: _Place) -> float:
    """Return how far to the right an arc is pulled that is no branch of the tree."""
    return max(start.x, end.x) + 30 + min(abs(end.y - start.y) / 6, _WIDEST_ARC)


def _arc_label(start: _Place, end: _Place, name: str) -> str:
    x = (start.x + end.x + 6 * _bend(start, end)) / 8  # the middle of the curve
    y = (start.y + end.y) / 2 + 4
    text = escape_markup(_short(name))
    return f'<text class="remark" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{text}</text>'


def _svg_node(drawing: Drawing, node: GraphNode, place: _Place, name: str) -> str:
    what = [
        _name(node),
        *node.keys,
        counted(node.nbytes, "byte") if node.keys else "",
        _remark(drawing, node),
    ]
    title = escape_markup(visible("; ".join(text for text in what if text)))
    remark = escape_markup(visible(_remark(drawing, node)))
    lower = place.y + 4
    return (
        f'<g class="node" id="n{node.id}" data-path="{escape_markup(visible(node.object_path or ""))}">'
        f"<title>{title}</title>"
        f'<text x="{place.x - _RADIUS - 3:.1f}" y="{lower:.1f}" text-anchor="end">'
        f"{escape_markup(name)}</text>"
        f'<circle cx="{place.x:.1f}" cy="{place.y:.1f}" r="{_RADIUS}" fill="{node.color}"/>'
        + (f'<text class="remark" x="{place.x + 10:.1f}" y="{lower:.1f}">{remark}</text>' if remark else "")
        + "</g>"
    )


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html(drawing: Drawing) -> str:
    """Return the picture as a page of its own."""
    title = escape_markup(visible(drawing.title))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{title}</title>\n"
        "<style>body{font:14px sans-serif;margin:1em}.node:hover text{font-weight:bold}</style>\n"
        f"</head>\n<body>\n<h1>{title}</h1>\n{svg(drawing)}</body>\n</html>\n"
    )


# For other programs ---------------------------------------------------------------


def _quoted(text: str) -> str:
    return '"' + visible(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot(drawing: Drawing) -> str:
    """Return the graph in Graphviz's language."""
    out = [
        f"digraph {_quoted(drawing.title)} {{",
        "  rankdir=LR;",
        "  node [shape=ellipse, fontname=monospace];",
    ]
    for node in drawing.nodes:
        label = " ".join(filter(None, (_name(node), _remark(drawing, node))))
        out.append(f"  n{node.id} [label={_quoted(label)}, color={node.color}];")
    for edge in drawing.edges:
        style = ", style=dashed, color=orange" if edge.dashed else ""
        out.append(f"  n{edge.start} -> n{edge.end} [label={_quoted(edge.name)}{style}];")
    return "\n".join([*out, "}", ""])


def _entities(text: str) -> str:
    """Return a Mermaid string: what could mean something to it is a numbered entity."""
    plain = frozenset(" _-/.,[]():+")
    return '"' + "".join(c if c.isalnum() or c in plain else f"#{ord(c)};" for c in visible(text)) + '"'


def mermaid(drawing: Drawing) -> str:
    """Return the graph as a Mermaid flowchart."""
    out = ["flowchart LR"]
    for node in drawing.nodes:
        label = " ".join(filter(None, (_name(node), _remark(drawing, node))))
        out.append(f"  n{node.id}([{_entities(label)}]):::{node.color}")
    for edge in drawing.edges:
        arrow = "-.->" if edge.dashed else "-->"
        label = f"|{_entities(edge.name)}|" if edge.name else ""
        out.append(f"  n{edge.start} {arrow}{label} n{edge.end}")
    out += [f"  classDef {color} stroke:{color}" for color in ("red", "blue", "orange", "black")]
    return "\n".join([*out, ""])


WRITERS: dict[str, Callable[[Drawing], str]] = {".svg": svg, ".dot": dot, ".mmd": mermaid, ".html": html}
"""What writes a file, by suffix."""
