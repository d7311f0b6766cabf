"""`ckpt graph`: the object graph, as a tree or as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted
from formats.store.paths import is_there

from ..helping import subcommand
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

    from ..operations.graph.tree import GraphNode, Span


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
@overwrite_option("Replace FILE where it is there already.")
@dry_run_option("Say what would be drawn and write nothing.")
@json_option
@color_option
@option_rules(
    needs("--overwrite", "--output"),
    needs("--dry-run", "--output"),
    excludes("--depth", "--json", unless="--output"),
)
def command(path: str, depth: int | None, target: str | None, **options: Any) -> int:
    """Show the object graph of a checkpoint, or draw it.

    The tree takes the shortest way to each object; where an object is shared, or an edge
    goes back, -> says where it is shown.  Optimizers are red, variables blue, slot
    variables orange with dashed edges.  Pictures collapse what is too deep to be read,
    unless --depth says how deep they go.  In a pipe: a line for each edge.

    \b
      ckpt graph run/ckpt-10
      ckpt graph run/ckpt-10 --depth 2 -o model.svg
    """
    from ..operations.compare.match import graph_of
    from ..operations.graph.pictures import WRITERS
    from ..operations.graph.tree import draw, graph_nodes, readable_depth, span

    suffix = os.path.splitext(target)[1].lower() if target is not None else ""
    if target is not None and suffix not in WRITERS:
        message = f"{target!r} does not end in {', '.join(WRITERS)}"
        raise click.BadParameter(message, click.get_current_context(), param_hint="--output")
    with opened(path) as reader:
        nodes = graph_nodes(reader, graph_of(reader, "PATH"))
        name, where = reader.location.name, reader.location.path
    tree = span(nodes)
    unreached = len(nodes) - len(tree.level)
    if unreached:
        render.warning(f"{counted(unreached, 'node')} cannot be reached from the root; --json has them")
    if target is not None:
        drawing = draw(name, nodes, tree, depth or readable_depth(tree))
        hidden = len(tree.level) - len(drawing.nodes)
        if hidden and depth is None:
            render.note(
                f"collapsed below depth {drawing.depth}, {counted(hidden, 'node')}; --depth N draws more"
            )
        _write(target, WRITERS[suffix](drawing), options)
    if options["as_json"]:
        render.long_document({"path": where}, "nodes", (node.row() for node in nodes), dict)
    elif target is None and render.is_terminal():
        render.lines(_tree_lines(name, nodes, tree, depth or _DEEPEST))
    elif target is None:
        render.tsv(_edge_rows(nodes, tree, depth))
    return 0


def _write(output: str, text: str, options: dict[str, Any]) -> None:
    from formats.errors import CheckpointExistsError
    from formats.store.staging import replace_file

    if is_there(output) and not options["overwrite"]:
        raise CheckpointExistsError("is there already", path=output, hints=("to replace it: --overwrite",))
    if options["dry_run"]:
        render.note(f"would write {output}, {len(text):,} characters")
    else:
        replace_file(output, text.encode())


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
