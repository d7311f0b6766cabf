"""`ckpt graph`: the object graph, as a tree or as a picture."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from formats.core.version import VERSION
from formats.core.words import command_line, counted

from ..api.moment import moment
from ..cli.help import subcommand
from ..cli.option_rules import excludes, needs, option_rules
from ..cli.options import (
    color_option,
    depth_option,
    dry_run_option,
    json_option,
    output_option,
    overwrite_option,
    path_argument,
)
from ..operations.graph.folding import draw
from ..operations.graph.pictures import WRITERS
from ..render import base as render
from ..render.report import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.location import Location

    from ..operations.graph.folding import Drawing, TreeRow
    from ..operations.graph.tree import GraphNode, Span


_PAGE = ".html"

_LEVEL = 4
"""The indentation of each level of the tree, in cells."""

_FEWEST_ROWS = 20
"""Rows of a tree on the smallest terminal."""

_OTHER_LINES = 3
"""The lines of a terminal besides the rows: the command, the note and the prompt."""

_LEFT_OUT = (
    (re.compile(r"(\+[0-9,]+ slots?) \([^()]*\)"), r"\1"),
    (re.compile(r"  \+[0-9,]+ slots?"), ""),
)
"""A line drops these in order until it fits: the names of slots, then their count."""

_STYLES: dict[str, dict[str, Any]] = {
    "red": {"fg": "red"},
    "blue": {"fg": "blue"},
    "orange": {"fg": "yellow"},
    "black": {},
}


@subcommand("graph", paged=True)
@path_argument()
@depth_option("Collapse objects more than N edges deep.")
@output_option("FILE", "Draw to a .svg, .dot, .mmd or .html file.")
@click.option("--slots", is_flag=True, help="Also show slot variables, below their variables.")
@click.option(
    "--engine",
    type=click.Choice(["ckpt", "dot"]),
    help="Choose what places the nodes of an .svg: ckpt or Graphviz's dot.",
)
@overwrite_option("Replace FILE if it exists.")
@dry_run_option("Print what would be drawn and write nothing.")
@json_option
@color_option
@option_rules(
    needs("--overwrite", "--output"),
    needs("--dry-run", "--output"),
    needs("--engine", "--output"),
    excludes("--depth", "--json", unless="--output"),
    excludes("--slots", "--json", unless="--output"),
)
def command(path: Location, depth: int | None, target: Location | None, **options: Any) -> int:
    """Show or draw the object graph or tree of a checkpoint.

    Each object has a row. Similar objects share a row, as in layer_{0..11}. An object is shown
    once, at its shortest path. Other edges to it, also in cycles, end in -> and that path. The row of
    a variable shows the number of its slots; --slots shows them. A graph that does not fit on a
    screen is collapsed unless you pass --depth: a tree to the height of the terminal, and a drawing
    to 40 rows. Optimizers are red, variables blue, slot variables orange.

    In a pipe, prints one line per edge. In an .html page, you can search, and unfold the whole graph.

    \b
      ckpt graph run/ckpt-10
      ckpt graph run/ckpt-10 -o model.html
      ckpt graph run/ckpt-10 --depth 2 --slots -o model.svg
    """
    from ..operations.compare.match import graph_of
    from ..operations.graph.tree import graph_nodes, span
    from ..operations.graph.trees import tree_nodes

    _check(target, options["engine"])
    with opened(path) as reader:
        is_tree = reader.format.is_tree
        nodes = tree_nodes(reader) if is_tree else graph_nodes(reader, graph_of(reader, "PATH"))
        name, where = reader.location.name, reader.location.path
    tree = span(nodes)
    unreached = len(nodes) - len(tree.level)
    if unreached:
        render.warning(f"{counted(unreached, 'node')} cannot be reached from the root; --json lists them")
    if target is not None:
        drawing = draw(name, nodes, tree, depth, slots=options["slots"])
        if depth is None and not target.lower().endswith(_PAGE):
            _note_collapsed(drawing)
        made = {"made": moment(), "command": _command(path, target, depth, options)}
        _write(target, _rendered(drawing, tree, target, options["engine"], {"path": where, **made}), options)
    if options["as_json"]:
        render.long_document({"path": where}, "nodes", (node.row() for node in nodes), dict)
    elif target is None and render.is_terminal():
        screen = max(_FEWEST_ROWS, render.height() - _OTHER_LINES)
        drawing = draw(name, nodes, tree, depth, slots=options["slots"], drawable=sys.maxsize, screen=screen)
        render.lines(_tree_lines(drawing, tree, render.room()))
        if depth is None:
            _note_collapsed(drawing)
    elif target is None:
        render.tsv(_edge_rows(nodes, tree, depth))
    return 0


def _check(target: str | None, engine: str | None) -> None:
    """Refuse to draw what no file of that name is."""
    suffixes = (*WRITERS, _PAGE)
    context = click.get_current_context()
    if target is None:
        return
    if not target.lower().endswith(suffixes):
        message = f"{target!r} does not end in {', '.join(suffixes)}"
        raise click.BadParameter(message, context, param_hint="--output")
    if engine == "dot" and not target.lower().endswith(".svg"):
        raise click.UsageError(f"--engine dot only draws .svg files, not {target!r}", context)


def _command(path: Location, target: Location, depth: int | None, options: dict[str, Any]) -> str:
    """Return the command line that makes the file, with its name alone and without secrets of URLs."""
    limits = [] if depth is None else ["--depth", str(depth)]
    slots = ["--slots"] if options["slots"] else []
    return command_line("graph", path, *limits, *slots, "-o", target.name)


def _rendered(drawing: Drawing, tree: Span, target: str, engine: str | None, head: dict[str, str]) -> bytes:
    """Return a picture in the language of its file's suffix; a page has a head."""
    if engine == "dot":
        from ..operations.graph.graphviz import laid_out

        return laid_out(drawing)
    if target.lower().endswith(_PAGE):
        from ..render.drawing import html

        return html(drawing, tree, version=VERSION, **head)
    return WRITERS[os.path.splitext(target)[1].lower()](drawing).encode()


def _note_collapsed(drawing: Drawing) -> None:
    """Say how much is collapsed, and which option expands it."""
    hidden = drawing.hidden
    if hidden:
        verb = "is" if hidden == 1 else "are"
        render.note(f"{counted(hidden, 'node')} {verb} not shown; --depth {drawing.deeper} shows more")
    elif any(row.is_rest for row in drawing.rows):
        render.note("only the first children of large objects are shown; --depth N shows all")


def _write(output: Location, data: bytes, options: dict[str, Any]) -> None:
    from formats.errors import CheckpointExistsError
    from formats.store.local.staging import replace_file

    if output.exists() and not options["overwrite"]:
        hints = ("pass --overwrite to replace it",)
        raise CheckpointExistsError("this path already exists", path=output, hints=hints)
    if options["dry_run"]:
        render.note(f"would write {output}, {len(data):,} bytes")
    else:
        replace_file(output, data)


def _edge_rows(nodes: list[GraphNode], tree: Span, depth: int | None) -> Iterator[list[object]]:
    """Yield an edge a row: from, name, to, the kind of what it leads to, dtype, shape and bytes.

    With a depth, only those of the nodes that the tree does not collapse.
    """
    for node in nodes:
        if depth is not None and tree.level.get(node.id, depth) >= depth:
            continue
        edges = [*node.children]
        edges += [(f"{name} of {variable}", slot) for variable, name, slot in node.slots]
        for name, child in edges:
            spec = nodes[child].spec
            what = (
                [spec.dtype.name, ",".join(map(str, spec.shape)), nodes[child].nbytes] if spec else [None] * 3
            )
            yield [node.id, name, child, nodes[child].kind, *what]


# The tree -------------------------------------------------------------------------


def _tree_lines(drawing: Drawing, tree: Span, room: int) -> Iterator[str]:
    """Yield the rows of a drawing as lines that a terminal of `room` cells does not wrap."""
    rows = drawing.rows
    shared = {row.id for row in rows if row.is_alias and not row.is_rest}
    yield render.styled(render.short(render.escape(drawing.title), room), bold=True)
    if rows[0].text:
        yield render.short(render.escape(rows[0].text), room)
    most = max(1, room // 2 // _LEVEL)
    ended: list[bool] = []  # of each level above a row, whether nothing follows there
    for row, is_last in zip(rows[1:], _are_last(rows[1:]), strict=True):
        del ended[row.level - 1 :]
        # The end of a deep path is kept: its neighbours matter, not its distance from the root.
        lead = "".join("    " if end else "│   " for end in ended[-most:])
        begin = lead + ("└── " if is_last else "├── ")
        name, more = _fitted(
            render.escape(row.name), _row_text(row, drawing, tree, shared), room - len(begin)
        )
        style = _STYLES["black" if row.is_rest else drawing.nodes[row.id].color]
        yield f"{begin}{render.styled(name, **style)}{more}"
        ended.append(is_last)


def _are_last(rows: list[TreeRow]) -> list[bool]:
    """Return of each row whether no other follows it below the same object."""
    found = []
    followed: set[int] = set()
    for row, above in zip(reversed(rows), [*reversed(rows[:-1]), None], strict=True):
        found.append(row.level not in followed)
        followed.add(row.level)
        if above is not None and above.level < row.level:
            followed.discard(row.level)
    return found[::-1]


def _row_text(row: TreeRow, drawing: Drawing, tree: Span, shared: set[int]) -> str:
    """Return the text after a name: the target of an alias, or what is stored, and its size."""
    remark = render.escape(row.text)
    if row.is_alias:
        return f"-> {remark}" if remark else ""
    nbytes = tree.nbytes[row.id] if row.hidden else drawing.nodes[row.id].nbytes
    size = f"{render.human_size(nbytes)}{' each' if len(row.members) > 1 else ''}" if nbytes else ""
    return "  ".join(filter(None, (remark, size, "(shared)" if row.id in shared else "")))


def _fitted(name: str, more: str, room: int) -> tuple[str, str]:
    """Return a name and the text after it, with two blanks between them, cut to fit a line."""
    for pattern, kept in _LEFT_OUT:
        if render.width(name) + render.width(more) + 2 > room:
            more = pattern.sub(kept, more)
    name = render.short(name, max(room - render.width(more) - 2, room // 2))
    more = render.short(more, room - render.width(name) - 2)
    return name, f"  {more}" if more else ""
