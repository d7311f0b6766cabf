"""Pairing the weights of two checkpoints of one Keras model, as Keras 2 and as Keras 3 save it.

    Keras 2    layer_with_weights-K            kernel         full name d0/kernel
    Keras 3    _functional/_operations/N       _kernel        full name net/d0/kernel

A layer is its place among those that have weights, a weight its name in the layer.  Layers'
names tell which is which where both have the same ones; else their order does, as it does
where Keras loads a file by topology.  It is all or nothing: both models have the same
number of layers with weights, and each the same weights of the same shapes.  Objects that
are no such models are the same where the names of the edges that lead to them are, but
for the underscore before the last, which Keras 3 has.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from formats.keras.training_state import optimizer_nodes
from formats.model.object_graph import ROOT
from formats.model.object_keys import VARIABLE_VALUE

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import CheckpointReader


class _Layer(NamedTuple):
    """A layer: its name by the full names of its weights, where they tell, and their keys by name."""

    name: str
    weights: dict[str, str]


def pairs_between_models(
    source: CheckpointReader, here: Container[str], template: CheckpointReader, there: Container[str]
) -> dict[str, str]:
    """Return the key in `source` for each weight in `template` of a model that both have."""
    found = _by_names(source, here, template, there)
    if not found and source.object_graph is not None and template.object_graph is not None:
        mine, theirs = _Objects(source.object_graph, source), _Objects(template.object_graph, template)
        found = _by_layers(mine, theirs) or _by_paths(mine, theirs)
    return {
        key: other
        for key, other in found.items()
        if key in there and other in here and source.specs[other].shape == template.specs[key].shape
    }


def _by_names(
    source: CheckpointReader, here: Container[str], template: CheckpointReader, there: Container[str]
) -> dict[str, str]:
    """Pair by full names, less that of the model, which Keras 3 and TensorFlow 1's scopes put first."""
    mine, theirs = _names(source, here), _names(template, there)
    if not mine or mine.keys() != theirs.keys():
        return {}
    return {theirs[name]: mine[name] for name in theirs}


def _names(reader: CheckpointReader, keys: Container[str]) -> dict[str, str]:
    """Return the keys of weights by their full names, less what all of these begin with.

    Scalars are counters and rates of a program.  Nothing where names do not tell weights apart.
    """
    full = {
        key: reader.full_names.get(key, "")
        for key, kind in reader.kinds.items()
        if kind == "variable" and key in keys and reader.specs[key].shape
    }
    split = {key: name.split("/") for key, name in full.items()}
    shared = itertools.takewhile(
        lambda parts: len(set(parts)) == 1, zip(*(p[:-2] for p in split.values()), strict=False)
    )
    length = sum(1 for _ in shared)
    names = {"/".join(parts[length:]): key for key, parts in split.items()}
    return names if len(names) == len(full) and "" not in names else {}


def _by_layers(mine: _Objects, theirs: _Objects) -> dict[str, str]:
    layers, wanted = mine.layers(), theirs.layers()
    names = [layer.name for layer in layers]
    if len(set(names)) == len(names) and set(names) == {layer.name for layer in wanted}:
        layers = [layers[names.index(layer.name)] for layer in wanted]
    if len(layers) != len(wanted) or any(
        mine.shapes(one) != theirs.shapes(other) for one, other in zip(layers, wanted, strict=True)
    ):
        return {}
    return {
        key: one.weights[name]
        for one, other in zip(layers, wanted, strict=True)
        for name, key in other.weights.items()
    }


def _by_paths(mine: _Objects, theirs: _Objects) -> dict[str, str]:
    paths = mine.paths()
    return {key: paths[path] for path, key in theirs.paths().items() if path in paths}


class _Objects:
    """An object graph without its optimizers."""

    def __init__(self, graph: ObjectGraph, reader: CheckpointReader) -> None:
        self.graph = graph
        self.reader = reader
        self.optimizers = optimizer_nodes(graph)
        owners = graph.tensors(reader.specs)
        self.keys = {node: key for key, (node, name, _) in owners.items() if name == VARIABLE_VALUE}

    def shapes(self, layer: _Layer) -> dict[str, tuple[int, ...]]:
        return {name: self.reader.specs[key].shape for name, key in layer.weights.items()}

    def paths(self) -> dict[str, str]:
        """Return the key of each variable by the names of the edges that lead to it."""
        return {path.replace("/_", "/").lstrip("_"): key for path, key in self._below(ROOT)}

    def _below(self, node: int) -> Iterator[tuple[str, str]]:
        """Yield the variables below a node, each once, with the shortest path from there."""
        paths: dict[int, str] = {}
        for at, came_from in self.graph.reachable((node,), without=self.optimizers).items():
            parent, name = came_from or (at, "")
            above = paths.get(parent, "")
            paths[at] = f"{above}/{name}" if above else name
            if at in self.keys and at != node:
                yield paths[at], self.keys[at]

    def layers(self) -> list[_Layer]:
        """Return the layers with weights of the only model that there is, in its order."""
        reached = self.graph.reachable(without=self.optimizers)
        models = [found for node in reached if (found := self._layer_nodes(node))]
        return [layer for node in models[0] if (layer := self._layer(node)).weights] if models else []

    def _layer_nodes(self, node: int) -> list[int]:
        """Return a model's layers, all or those with weights; none where a node is no model."""
        edges = dict(self.graph.children(node))
        if "_operations" in edges:
            listed = sorted(
                self.graph.children(edges["_operations"]), key=lambda edge: (len(edge[0]), edge[0])
            )
            return [child for _, child in listed]
        prefix = "layer_with_weights-"
        numbered = [name for name in edges if name.startswith(prefix)]
        return [edges[name] for name in sorted(numbered, key=lambda name: (len(name), name))]

    def _layer(self, node: int) -> _Layer:
        weights = {path.replace("/_", "/").lstrip("_"): key for path, key in self._below(node)}
        names = {self.reader.full_names.get(key, "").rpartition("/")[0] for key in weights.values()}
        only = names.pop() if len(names) == 1 else ""
        return _Layer(only.rpartition("/")[2], weights)
