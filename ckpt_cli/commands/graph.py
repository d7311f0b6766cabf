"""`ckpt graph`: the object graph, as a tree or as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from formats.core.version import VERSION
from formats.core.words import counted
from formats.store.paths import is_there

from ..helping import subcommand
from ..operations.graph.folding import draw
from ..operations.graph.pictures import WRITERS
from ..option_rules import excludes, needs, option_rules
from ..options import (
    color_option,
    depth_option,
    dry_run_option,
    json_option,
    output_option,
    overwrite_option,
    path_argument,
)
from ..render import base as render
from ..render.report import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..operations.graph.folding import Drawing
    from ..operations.graph.tree import GraphNode, Span


_PAGE = ".html"

_DEEPEST = 100
"""Edges below the root that a tree shows unless told; programs are flatter, and lines grow with depth."""

_STYLES: dict[str, dict[str, Any]] = {
    "red": {"fg": "red"},
    "blue": {"fg": "blue"},
    "orange": {"fg": "yellow"},
    "black": {},
}


@subcommand("graph", paged=True)
@path_argument()
@depth_option("Collapse what is deeper than N edges.")
@output_option("FILE", "Draw to a .svg, .dot, .mmd or .html file.")
@click.option("--slots", is_flag=True, help="Draw slot variables, too, below their variables.")
@click.option("--engine", type=click.Choice(["ckpt", "dot"]), help="Have Graphviz's dot lay out a .svg.")
@overwrite_option("Replace FILE where it is there already.")
@dry_run_option("Say what would be drawn and write nothing.")
@json_option
@color_option
@option_rules(
    needs("--overwrite", "--output"),
    needs("--dry-run", "--output"),
    needs("--slots", "--output"),
    needs("--engine", "--output"),
    excludes("--depth", "--json", unless="--output"),
)
def command(path: str, depth: int | None, target: str | None, **options: Any) -> int:
    """Show the object graph of a checkpoint, or draw it.

    The tree takes the shortest way to each object; where an object is shared, or an edge
    goes back, -> says where it is shown.  Optimizers are red, variables blue, slot
    variables orange with dashed edges.  In a pipe: a line for each edge.

    Pictures have a row for each object, and one for many that are alike, as layer_{0..11}.
    Slots are counted at their variables, unless --slots shows them.  What is more than a screen
    is collapsed, unless --depth says how deep to go.  A page (.html) unfolds to everything,
    and can be searched.

    \b
      ckpt graph run/ckpt-10
      ckpt graph run/ckpt-10 -o model.html
      ckpt graph run/ckpt-10 --depth 2 --slots -o model.svg
    """
    from ..operations.compare.match import graph_of
    from ..operations.graph.tree import graph_nodes, span

    _check(target, options["engine"])
    with opened(path) as reader:
        nodes = graph_nodes(reader, graph_of(reader, "PATH"))
        name, where = reader.location.name, reader.location.path
    tree = span(nodes)
    unreached = len(nodes) - len(tree.level)
    if unreached:
        render.warning(f"{counted(unreached, 'node')} cannot be reached from the root; --json has them")
    if target is not None:
        drawing = draw(name, nodes, tree, depth, slots=options["slots"])
        hidden = sum(row.hidden * len(row.members) for row in drawing.rows)
        if hidden and depth is None and not target.lower().endswith(_PAGE):
            render.note(
                f"collapsed below depth {drawing.depth}, {counted(hidden, 'node')}; --depth N draws more"
            )
        _write(target, _drawn(drawing, tree, where, target, options["engine"]), options)
    if options["as_json"]:
        render.long_document({"path": where}, "nodes", (node.row() for node in nodes), dict)
    elif target is None and render.is_terminal():
        render.lines(_tree_lines(name, nodes, tree, depth or _DEEPEST))
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
        raise click.UsageError(f"--engine dot draws .svg, {target!r} is none", context)


def _drawn(drawing: Drawing, tree: Span, path: str, target: str, engine: str | None) -> bytes:
    """Return a picture in the language that its file's suffix asks for."""
    if engine == "dot":
        from ..operations.graph.graphviz import laid_out

        return laid_out(drawing)
    if target.lower().endswith(_PAGE):
        from ..render.drawing import html

        return html(drawing, tree, path, VERSION)
    return WRITERS[os.path.splitext(target)[1].lower()](drawing).encode()


def _write(output: str, data: bytes, options: dict[str, Any]) -> None:
    from formats.errors import CheckpointExistsError
    from formats.store.staging import replace_file

    if is_there(output) and not options["overwrite"]:
        raise CheckpointExistsError("is there already", path=output, hints=("to replace it: --overwrite",))
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


def _tree_lines(title: str, nodes: list[GraphNode], tree: Span, depth: int) -> Iterator[str]:
    yield render.styled(render.escape(title), bold=True)
    shared = _incoming(nodes)
    stack = [("", iter(_lines_of(nodes, tree, 0)), len(_lines_of(nodes, tree, 0)))]
    while stack:
        indent, items, left = stack.pop()
        item = next(items, None)
        if item is None:
            continue
        name, child, is_here = item
        stack.append((indent, items, left - 1))
        node = nodes[child]
        branch = "└── " if left == 1 else "├── "
        label = render.styled(render.escape(name), **_STYLES[node.color])
        if not is_here:
            yield f"{indent}{branch}{label}  -> {render.escape(node.object_path or '(root)')}"
            continue
        collapsed = tree.level[child] >= depth and tree.below[child] > 0
        remark = _remark(node, tree, collapsed=collapsed, shared=shared.get(child, 0) > 1)
        yield f"{indent}{branch}{label}{remark}"
        if not collapsed:
            below = _lines_of(nodes, tree, child)
            if below:
                stack.append((indent + ("    " if left == 1 else "│   "), iter(below), len(below)))


def _incoming(nodes: list[GraphNode]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for node in nodes:
        for _, child in node.children:
            counts[child] = counts.get(child, 0) + 1
    return counts


def _lines_of(nodes: list[GraphNode], tree: Span, number: int) -> list[tuple[str, int, bool]]:
    """Return the edges of a node: name, where to, and whether the tree goes on there."""
    branches = tree.branches.get(number, [])
    here = {child: name for name, child in branches}
    lines = []
    for name, child in nodes[number].children:
        is_here = here.get(child) == name
        if is_here:
            del here[child]
        lines.append((name, child, is_here))
    return lines + [(name, child, True) for name, child in branches if child in here]


def _remark(node: GraphNode, tree: Span, *, collapsed: bool, shared: bool) -> str:
    parts = [node.remark, render.human_size(node.nbytes) if node.keys else ""]
    if collapsed:
        parts.append(f"… {counted(tree.below[node.id], 'node')}, {render.human_size(tree.nbytes[node.id])}")
    if shared:
        parts.append("(shared)")
    return "".join(f"  {part}" for part in parts if part)
