"""The kind of a tensor of an object-based checkpoint: variable, slot, optimizer, state or graph.

The edges of the object graph decide. `formats.model.name_kinds` decides by names alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.dtypes import STRING, VARIANT
from ...model.object_graph import ROOT, optimizer_nodes
from ...model.object_keys import GRAPH_KEY, SAVE_COUNTER, VARIABLE_VALUE
from ...model.object_names import is_lone_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...core.spec import TensorSpec
    from ...model.object_graph import ObjectGraph


NOWHERE = -1  # no node: a key that no attribute stands for
_LISTS = ("_variables", "_trainable_variables")
_MOST_LISTED = 4_000_000
"""Nodes that optimizers list, all together: a hostile graph has many optimizers share one long list."""

_STATE_EDGES = frozenset(("metrics", SAVE_COUNTER, "keras_api"))


def _node_specs(graph: ObjectGraph, specs: Mapping[str, TensorSpec]) -> dict[int, TensorSpec]:
    """Return the spec of each node that is a variable."""
    return {
        number: specs[attribute.checkpoint_key]
        for number, node in enumerate(graph.nodes)
        for attribute in node.attributes
        if attribute.name == VARIABLE_VALUE and attribute.checkpoint_key in specs
    }


def listed_slots(
    graph: ObjectGraph, optimizer: int, weights: Iterable[int], specs: Mapping[int, TensorSpec]
) -> Iterator[int]:
    """Yield the slot variables of an optimizer that keeps them in a list.

    Since Keras 2.11 there are no triples: `_variables` lists the iteration (and in
    Keras 3 the learning rate), then for each trainable variable all its slots, which
    have its shape.  Numbers have edges of their own.  They are among the
    `weights`: those of the model, and those that optimizers of Keras 3 list.
    """
    edges = dict(graph.children(optimizer))
    shapes = {specs[node].shape for node in weights}
    numbers = set(edges.values())
    for _, node in graph.children(edges["_variables"]) if "_variables" in edges else ():
        if node in specs and node not in numbers and specs[node].shape in shapes:
            yield node


def object_kinds(graph: ObjectGraph, specs: Mapping[str, TensorSpec]) -> dict[str, str]:
    """Return the kind of each key of an object-based checkpoint."""
    optimizers = optimizer_nodes(graph)
    node_specs = _node_specs(graph, specs)
    state_roots = {
        child
        for node in range(len(graph.nodes))
        for name, child in graph.children(node)
        if name in _STATE_EDGES
    }
    model = graph.reachable((ROOT,), without=optimizers | state_roots)
    groups = {
        group
        for optimizer in optimizers
        for name, group in graph.children(optimizer)
        if name == "_trainable_variables"
    }
    trainable = {node for group in groups for _, node in graph.children(group)}
    kinds_of_nodes = dict.fromkeys(graph.reachable(optimizers), "optimizer")
    kinds_of_nodes.update(dict.fromkeys(graph.reachable(state_roots, without=optimizers), "state"))
    kinds_of_nodes.update(dict.fromkeys([*model, *trainable], "variable"))
    weights = [
        node for node in (*model, *trainable) if node in node_specs and node_specs[node].dtype.is_floating
    ]
    left = _MOST_LISTED
    for optimizer in optimizers:
        lists = [group for name, group in graph.children(optimizer) if name in _LISTS]
        left -= sum(len(graph.nodes[group].children) for group in lists) + (len(weights) if lists else 0)
        if not lists or left < 0:
            continue
        for node in listed_slots(graph, optimizer, weights, node_specs):
            if kinds_of_nodes.get(node) != "variable":
                kinds_of_nodes[node] = "slot"
    kinds_of_nodes.update((slot.node, "slot") for slot in graph.slots)
    kinds = {}
    of_root = {node for _, node in graph.children(ROOT)}
    owners = graph.tensors(specs)
    for key, spec in specs.items():
        owner, attribute, _ = owners.get(key, (NOWHERE, "", ""))
        kind = kinds_of_nodes.get(owner, "variable") if owner != NOWHERE else "state"
        counts = owner in of_root and is_lone_integer(spec)
        if kind == "variable" and (counts or attribute != VARIABLE_VALUE or spec.dtype in (STRING, VARIANT)):
            kind = "state"
        kinds[key] = "graph" if key == GRAPH_KEY else kind
    return kinds
