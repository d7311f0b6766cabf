"""Pairing the weights of two checkpoints of one Keras model, as Keras 2 and as Keras 3 save it.

    Keras 2    layer_with_weights-K            kernel         full name d0/kernel
    Keras 3    _functional/_operations/N       _kernel        full name net/d0/kernel

A layer is its position among the layers with weights, counting those of nested models at their positions; a
weight is its name in the layer. If both models have the same layer names, these identify layers; otherwise
their order does, as when Keras loads a file by topology, and a note says so. If layers of equal shapes could
be swapped, the order decides only between names that Keras generated, which count: only the user can say that
`a` is `x` and not `y`. It is all or nothing: both models have the same number of layers with weights, and
each the same weights of the same shapes. Objects that are no such models are equal if the edge names that
lead to them are, except for Keras 3's underscore before the last.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import ConversionError
from formats.keras.layers import WEIGHTS
from formats.model.object_graph import ROOT, optimizer_nodes
from formats.model.object_keys import VARIABLE_VALUE

from ..accounting import look_at_names

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader


_COUNTED = re.compile(r"(?P<base>.*?)(?:_(?P<number>[0-9]{1,9}))?", re.DOTALL)
"""A name that Keras makes up, of the class, and a number from the second of it on."""

_MOST_NAMED = 5


class _LayerKeys(NamedTuple):
    """A layer: its name by the full names of its weights, where they tell, and their keys by name."""

    name: str
    weights: dict[str, str]


def pairs_between_models(
    source: FormatReader,
    here: Container[str],
    template: FormatReader,
    there: Container[str],
    notes: list[str],
    *,
    called: Sequence[Mapping[str, str]],
) -> dict[str, str]:
    """Return the key in `source` for each weight in `template` of a model that both have.

    `called` are the full names of both by their keys. Raises ConversionError if nothing distinguishes several
    layers.
    """
    found = _by_names(_names(source, here, called[0]), _names(template, there, called[1]))
    if not found and source.object_graph is not None and template.object_graph is not None:
        mine, theirs = (
            _ModelObjects(source.object_graph, source),
            _ModelObjects(template.object_graph, template),
        )
        try:
            found = _by_layers(mine, theirs, notes) or _by_paths(mine, theirs)
        except ConversionError as error:
            error.path = source.location.path
            raise
    return {
        key: other
        for key, other in found.items()
        if key in there and other in here and source.specs[other].shape == template.specs[key].shape
    }


class _FullNames(NamedTuple):
    """The keys of a model's weights by their full names, less what all of these begin with; scalars apart."""

    weights: dict[str, str]
    scalars: dict[str, str]


def _by_names(mine: _FullNames, theirs: _FullNames) -> dict[str, str]:
    """Pair by full names, less that of the model, which Keras 3 and TensorFlow 1's scopes put first."""
    if not mine.weights or mine.weights.keys() != theirs.weights.keys():
        return {}
    scalars = {key: mine.scalars[name] for name, key in theirs.scalars.items() if name in mine.scalars}
    return {key: mine.weights[name] for name, key in theirs.weights.items()} | scalars


def _names(reader: FormatReader, keys: Container[str], called: Mapping[str, str]) -> _FullNames:
    """Return the keys of weights by name; nothing where names do not tell weights apart.

    Of scalars, those of layers: others are counters and rates of a program.
    """
    split = {
        key: called.get(key, "").split("/")
        for key, kind in reader.kinds.items()
        if kind == "variable" and key in keys
    }
    arrays = {key: parts for key, parts in split.items() if reader.specs[key].shape}
    shared = itertools.takewhile(
        lambda parts: len(set(parts)) == 1, zip(*(p[:-2] for p in arrays.values()), strict=False)
    )
    above = [parts[0] for parts in shared]
    length = len(above)
    names = {"/".join(parts[length:]): key for key, parts in arrays.items()}
    if len(names) != len(arrays) or "" in names:
        return _FullNames({}, {})
    of_layers = [
        ("/".join(parts[length:]), key)
        for key, parts in split.items()
        if key not in arrays and parts[:length] == above and len(parts) > length + 1
    ]
    times = Counter(name for name, _ in of_layers)
    return _FullNames(names, {name: key for name, key in of_layers if times[name] == 1})


def _by_layers(mine: _ModelObjects, theirs: _ModelObjects, notes: list[str]) -> dict[str, str]:
    """Pair layers of models of one name, as of a generator and a discriminator, or of the only ones."""
    models, others = mine.models(), theirs.models()
    if len(models) == len(others) == 1:
        both = [(*models.values(), *others.values())]
    else:
        both = [(models[name], others[name]) for name in models if name in others]
    found: dict[str, str] = {}
    for layers, wanted in both:
        found |= _of_layers(mine, layers, theirs, wanted, notes)
    return found


def _of_layers(
    mine: _ModelObjects,
    layers: list[_LayerKeys],
    theirs: _ModelObjects,
    wanted: list[_LayerKeys],
    notes: list[str],
) -> dict[str, str]:
    names, others = [layer.name for layer in layers], [layer.name for layer in wanted]
    if len(set(names)) == len(names) and set(names) == set(others):
        layers = [layers[names.index(name)] for name in others]
    if len(layers) != len(wanted) or any(
        mine.shapes(one) != theirs.shapes(other) for one, other in zip(layers, wanted, strict=True)
    ):
        return {}
    pairs = list(zip(layers, wanted, strict=True))
    differing = [(one.name, other.name) for one, other in pairs if one.name != other.name]
    if differing:
        _refuse_ambiguous(pairs, mine, theirs)
        more = f" and {len(differing) - _MOST_NAMED} more" if len(differing) > _MOST_NAMED else ""
        rows = ", ".join(f"{one!r} is {other!r}" for one, other in differing[:_MOST_NAMED])
        notes.append(f"layers are paired by their order, because their names differ: {rows}{more}")
    return {key: one.weights[name] for one, other in pairs for name, key in other.weights.items()}


def _refuse_ambiguous(
    pairs: list[tuple[_LayerKeys, _LayerKeys]], mine: _ModelObjects, theirs: _ModelObjects
) -> None:
    """Raise ConversionError where layers of the same shapes could as well be each other's."""
    alike: defaultdict[object, list[tuple[_LayerKeys, _LayerKeys]]] = defaultdict(list)
    for one, other in pairs:
        alike[tuple(sorted(mine.shapes(one).items()))].append((one, other))
    for group in alike.values():
        names, others = [one.name for one, _ in group], [other.name for _, other in group]
        if len(group) > 1 and names != others and _made_up(names) != _made_up(others):
            first, second = (" and ".join(map(repr, side[:2])) for side in (names, others))
            message = (
                f"layers {first} of SRC have the shapes of {second} of TEMPLATE, "
                "and their names do not identify them"
            )
            hints = (
                look_at_names(mine.reader, theirs.reader),
                "to pair the layers by hand, pass a map with --map FILE",
            )
            raise ConversionError(message, hints=hints)


def _made_up(names: list[str]) -> list[tuple[str, int]]:
    """Return the base of each name, and which it is of that by its number."""
    split = [_COUNTED.fullmatch(name) for name in names]
    counted = [(found["base"], int(found["number"] or 0)) for found in split if found is not None]
    ranks = {name: at for at, name in enumerate(sorted(set(counted)))}
    return [(base, ranks[base, number]) for base, number in counted]


def _by_paths(mine: _ModelObjects, theirs: _ModelObjects) -> dict[str, str]:
    paths = mine.paths()
    return {key: paths[path] for path, key in theirs.paths().items() if path in paths}


def _in_any_keras(path: str) -> str:
    """Return the path to a weight by one name for it: Keras 3 has some under private or other names."""
    above, slash, name = path.replace("/_", "/").lstrip("_").rpartition("/")
    row = WEIGHTS.get(name)
    return f"{above}{slash}{(row and row.in_keras_3) or name}"


class _ModelObjects:
    """An object graph without its optimizers."""

    def __init__(self, graph: ObjectGraph, reader: FormatReader) -> None:
        self.graph = graph
        self.reader = reader
        self.optimizers = optimizer_nodes(graph)
        owners = graph.tensors(reader.specs)
        self.keys = {node: key for key, (node, name, _) in owners.items() if name == VARIABLE_VALUE}

    def shapes(self, layer: _LayerKeys) -> dict[str, tuple[int, ...]]:
        return {name: self.reader.specs[key].shape for name, key in layer.weights.items()}

    def paths(self) -> dict[str, str]:
        """Return the key of each variable by the names of the edges that lead to it."""
        return {_in_any_keras(path): key for path, key in self._below(ROOT)}

    def _below(self, node: int) -> Iterator[tuple[str, str]]:
        """Yield the variables below a node, each once, with the shortest path from there."""
        paths: dict[int, str] = {}
        for at, came_from in self.graph.reachable((node,), without=self.optimizers).items():
            parent, name = came_from or (at, "")
            above = paths.get(parent, "")
            paths[at] = f"{above}/{name}" if above else name
            if at in self.keys and at != node:
                yield paths[at], self.keys[at]

    def models(self) -> dict[str, list[_LayerKeys]]:
        """Return the layers with weights of each model in its order, by the root's edge to it."""
        found: dict[str, list[_LayerKeys]] = {}
        bare: set[int] = set()
        for node in self.graph.reachable(without=self.optimizers):
            name = self.graph.paths.get(node, "").partition("/")[0]
            # A model within one that is there is a part of it.
            if "" in found or name in found or node in bare:
                continue
            seen: set[int] = set()
            layers = [layer for at in self._layer_nodes(node, seen) if (layer := self._layer(at)).weights]
            if layers:
                found[name] = layers
            else:
                bare |= seen
        return found

    def _layer_nodes(self, node: int, seen: set[int]) -> Iterator[int]:
        """Yield a model's layers, including those of nested models at their positions; nothing if it is not
        a model.
        """
        seen.add(node)
        waiting = self._members(node)[::-1]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            members = self._members(at)
            waiting += reversed(members)
            if not members:
                yield at

    def _members(self, node: int) -> list[int]:
        """Return a model's layers and models, all or those with weights; none if a node is not a model."""
        edges = dict(self.graph.children(node))
        if "_functional" in edges:  # as Sequential of Keras 3 has
            edges = dict(self.graph.children(edges["_functional"]))
        if "_operations" in edges:
            edges, prefix = dict(self.graph.children(edges["_operations"])), ""
        else:
            prefix = "layer_with_weights-"
        numbered = [name for name in edges if name.startswith(prefix)]
        return [edges[name] for name in sorted(numbered, key=lambda name: (len(name), name))]

    def _layer(self, node: int) -> _LayerKeys:
        weights = {_in_any_keras(path): key for path, key in self._below(node)}
        names = [self.reader.full_names.get(key, "").split("/")[:-1] for key in weights.values()]
        shared = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False))
        above = [parts[0] for parts in shared]
        return _LayerKeys(above[-1] if above else "", weights)
