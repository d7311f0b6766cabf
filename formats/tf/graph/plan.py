"""Where the nodes of an object graph go when some of them are given other paths.

A path is spelled as in keys, edge names escaped and joined by `/`, so that it comes
apart in one way only.  A node that is given none goes where its parent goes, and

    net/l1/kernel -> net/a/kernel     net/l1 becomes net/a, where all its children say so
    net/l1/bias   -> net/a/bias       and there is no net/a: its other edges stay with it
    m/kernel      -> kernel           m dissolves, where all its children leave it for one
    m/bias        -> bias             node that is there: what else hangs on it goes along

Two nodes that end on one path are merged if they hold nothing themselves and have no other edges; otherwise
the plan is rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConversionError, DuplicateKeyError
from ...model.object_graph import ROOT
from ...model.object_keys import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...model.object_graph import ObjectGraph
    from ...wire.messages import TrackableObject


Tree = dict[int, tuple[int, str] | None]


class GraphRenamePlan(NamedTuple):
    """Each node's way from the root, its path before and after, and the nodes that dissolve into others."""

    tree: Tree
    old: dict[int, str]
    new: dict[int, str]
    dissolved: set[int]


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def _join(parent: str, name: str) -> str:
    return f"{parent}/{escape(name)}" if parent else escape(name)


def in_words(path: str) -> str:
    """Return an escaped path as people write it."""
    return unescape(path)  # No escape reaches across a `/`.


def escaped_paths(graph: ObjectGraph) -> dict[int, str]:
    """Return the path of each node that edges lead to, as keys spell it."""
    return _paths(graph, graph.reachable(), {})


def _paths(graph: ObjectGraph, tree: Tree, moves: Mapping[int, str]) -> dict[int, str]:
    paths = {ROOT: ""}
    # Paths of a long chain grow with its square: what has none in the graph, has none here.
    known = graph.paths
    for node, came_from in tree.items():
        if came_from is not None and node in known and came_from[0] in paths:
            path = moves[node] if node in moves else _join(paths[came_from[0]], came_from[1])
            paths[node] = known[node] if known[node] == path else path  # Most are the same text: kept once.
    return paths


def spell(path: str, old: str) -> str:
    """Return a path that a person wrote as keys spell it; `old` is the node's path so far, escaped.

    A `/` parts two edges, except within an edge name that had as many before.
    """
    if escape("/") not in old:  # Nearly always; a path is as long as a chain is deep.
        if "//" in f"/{path}/":
            raise _nameless(old, path)
        return path.replace(".", escape("."))
    edges = [unescape(part) for part in old.split("/")]
    parts: list[str] = []
    tail: list[str] = []
    if any("/" in edge for edge in edges):
        while len(edges) > 1 and path.startswith(edges[0] + "/"):
            parts.append(edges.pop(0))
            path = path[len(parts[-1]) + 1 :]
        while edges and (path == edges[-1] or path.endswith("/" + edges[-1])):
            tail.insert(0, edges.pop())
            path = path[: -len(tail[0]) - 1] if path != tail[0] else ""
    if path or not tail:
        whole = len(edges) == 1 and "/" in edges[0] and path.count("/") == edges[0].count("/")
        parts += [path] if whole else path.split("/")
    parts += tail
    if not all(parts):
        raise _nameless(old, "/".join(parts))
    return "/".join(map(escape, parts))


def _nameless(old: str, path: str) -> ConversionError:
    return ConversionError(f"{in_words(old)!r} cannot become {path!r}: an edge needs a name")


def make_plan(graph: ObjectGraph, moves: Mapping[int, str]) -> GraphRenamePlan:
    """Return where everything goes when the nodes of `moves` get these paths, escaped.

    Raises ConversionError for paths that are taken and for a node below itself,
    DuplicateKeyError where two tensors end on one path.
    """
    tree = graph.reachable()
    old = _paths(graph, tree, {})
    moves = {node: path for node, path in moves.items() if old.get(node) != path}
    if moves and any(not name for name, _ in graph.children(ROOT)):
        raise ConversionError("an edge of the root has no name, which makes paths below it ambiguous")
    for node, path in moves.items():
        if node == ROOT or node not in old:
            raise ConversionError(f"node {node} of the object graph has no path to change")
        if "//" in f"/{path}/":
            raise _nameless(old[node], path)
    moves, dissolved = _containers(graph, tree, old, moves)
    new = _paths(graph, tree, moves)
    _refuse_cycles(old, moves)
    _settle(graph, GraphRenamePlan(tree, old, new, dissolved))
    return GraphRenamePlan(tree, old, new, dissolved)


def holds_something(node: TrackableObject) -> bool:
    """Whether a node is more than a container of others."""
    return bool(node.attributes or node.slot_variables or node.registered_saver or node.unknown)


def _containers(
    graph: ObjectGraph, tree: Tree, old: Mapping[int, str], given: Mapping[int, str]
) -> tuple[dict[int, str], set[int]]:
    """Add the moves of containers whose children all go one way, and return those that dissolve."""
    moves, dissolved = dict(given), set[int]()
    children: dict[int, list[int]] = {}
    for node, came_from in tree.items():
        if came_from is not None and node in old:
            children.setdefault(came_from[0], []).append(node)
    at = {path: node for node, path in old.items()}
    taken = set[str]()
    led_to = in_degrees(graph, children)
    for node in reversed(list(children)):
        ways = {_way(old, moves, child) for child in children[node]}
        if node == ROOT or node in moves or len(ways) != 1 or graph.nodes[node].attributes:
            continue
        (way,) = ways
        if way is None or way == old[node] or way.startswith(old[node] + "/"):
            continue
        if way not in taken and (way not in at or at[way] in moves):
            taken.add(way)
            moves[node] = way
        elif led_to[node] == 1 and not holds_something(graph.nodes[node]):
            dissolved.add(node)
            moves[node] = way
    return moves, dissolved


def _way(old: Mapping[int, str], moves: Mapping[int, str], node: int) -> str | None:
    """Return the path of the parent that a node moves to under its old name; None if it does not."""
    if node not in moves:
        return None
    name = old[node].rpartition("/")[2]
    parent, _, moved = moves[node].rpartition("/")
    return parent if moved == name else None


def in_degrees(graph: ObjectGraph, nodes: Iterable[int]) -> dict[int, int]:
    """Return how many edges lead to each of these nodes."""
    counts = dict.fromkeys(nodes, 0)
    for number in range(len(graph.nodes)):
        for _, child in graph.children(number):
            if child in counts:
                counts[child] += 1
    return counts


def _refuse_cycles(old: Mapping[int, str], moves: Mapping[int, str]) -> None:
    """Refuse to hang a node up below one of those that go along with it."""
    at = {path: node for node, path in old.items()}
    for node, path in moves.items():
        above = parent_of(path)
        while above.startswith(old[node] + "/"):
            if above in at and at[above] not in moves:
                message = f"{in_words(old[node])!r} cannot become {in_words(path)!r}"
                raise ConversionError(f"{message}: {in_words(above)!r} is a part of it")
            above = parent_of(above)


def _settle(graph: ObjectGraph, plan: GraphRenamePlan) -> None:
    """Let containers that end on the path of another node dissolve in it; refuse what cannot be one."""
    _, old, new, dissolved = plan
    by_path: dict[str, list[int]] = {}
    for node, path in new.items():
        by_path.setdefault(path, []).append(node)
    crowded = [nodes for nodes in by_path.values() if len(nodes) > 1]
    led_to = in_degrees(graph, [node for nodes in crowded for node in nodes])
    for nodes in crowded:
        if len({old[node] for node in nodes}) == 1:
            continue  # Two edges of one name, as the file had them.
        keeper = min(nodes, key=lambda node: (node in dissolved, old[node] != new[node]))
        for node in nodes:
            if node == keeper:
                continue
            both = (old[keeper], old[node])
            if graph.nodes[node].attributes and graph.nodes[keeper].attributes:
                one, other, key = map(in_words, (*both, new[node]))
                raise DuplicateKeyError(f"{one!r} and {other!r} would both become {key!r}", key=key)
            if holds_something(graph.nodes[node]) or led_to[node] != 1:
                message = f"{in_words(both[1])!r} cannot become {in_words(new[node])!r}"
                raise ConversionError(f"{message}: {in_words(both[0])!r} already has this path")
            dissolved.add(node)
