"""Connections between the layers of a Keras model, by its configuration.

A functional model lists the inputs of each call of a layer.  Keras 2 writes them as `[NAME, CALL, OUTPUT]`,
Keras 3 as `{"keras_history": [NAME, CALL, OUTPUT]}`.  The layers of a sequential model follow each other.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .source import SourceLayer

_PASSES = frozenset(
    (
        *("InputLayer", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
        *("GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization", "Flatten"),
        *("Reshape", "Permute", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D"),
    )
)
"""Classes of layers that change no values in inference."""

_DEEPEST = 32
_MOST = 1 << 16


class Connections:
    """The layers of a model by name, and the connections between them."""

    def __init__(self, config: str) -> None:
        self._edges: dict[str, set[str]] = {}
        self._passes: set[str] = set()
        self._ends: dict[str, tuple[list[str], list[str]]] = {}
        self._take(json.loads(config), 0)

    def behind(self, name: str) -> frozenset[str]:
        """Return the layers that use what a layer computes, past those that change no values."""
        found: set[str] = set()
        waiting, seen = [name], {name}
        while waiting and len(seen) < _MOST:
            for each in self._edges.get(waiting.pop(), ()):
                if each not in seen:
                    seen.add(each)
                    if each in self._passes:
                        waiting.append(each)
                    else:
                        found.add(each)
        return frozenset(found)

    def _take(self, item: Any, depth: int) -> None:
        """Take a model, and the models in it first."""
        config = item.get("config") if isinstance(item, dict) else None
        ends_of = config if isinstance(config, dict) else {}
        layers = ends_of.get("layers", config)
        if depth > _DEEPEST or not isinstance(layers, list):
            return
        known = [layer for layer in layers if isinstance(layer, dict)]
        names = [_name(layer) for layer in known]
        for layer, name in zip(known, names, strict=True):
            self._take(layer, depth + 1)
            if layer.get("class_name") in _PASSES:
                self._passes.add(name)
        own = _name(item)
        if any("inbound_nodes" in layer for layer in known):
            for layer, name in zip(known, names, strict=True):
                for before in _histories(layer.get("inbound_nodes"), set(names), 0):
                    self._connect(before, name)
            ends = (
                [*_histories(ends_of.get(part), set(names), 0)] for part in ("input_layers", "output_layers")
            )
            self._ends[own] = (next(ends), next(ends))
        elif names:
            for before, name in pairwise(names):
                self._connect(before, name)
            self._ends[own] = (names[:1], names[-1:])

    def _connect(self, before: str, name: str) -> None:
        """Connect two layers; of a model within the model, its last layers and its first."""
        for first in self._last(before, 1, 0):
            self._edges.setdefault(first, set()).update(self._last(name, 0, 0))

    def _last(self, name: str, end: int, depth: int) -> list[str]:
        if name not in self._ends or depth > _DEEPEST:
            return [name]
        return [each for inner in self._ends[name][end] for each in self._last(inner, end, depth + 1)]


def _name(layer: Any) -> str:
    config = layer.get("config")
    name = layer.get("name") or (config.get("name") if isinstance(config, dict) else None)
    return name if isinstance(name, str) else ""


def _histories(item: Any, names: set[str], depth: int) -> Iterator[str]:
    """Yield the names of the layers whose outputs some arguments are."""
    if depth > _DEEPEST:
        return
    if isinstance(item, dict):
        for each in item.values():
            yield from _histories(each, names, depth + 1)
    elif isinstance(item, list):
        first = item[0] if item and isinstance(item[0], str) else ""
        if first in names and len(item) in (3, 4) and all(type(each) is int for each in item[1:3]):
            yield first
            return
        for each in item:
            yield from _histories(each, names, depth + 1)


# Without a configuration --------------------------------------------------------------------

_WORDS = re.compile(r"conv[123]d|[a-z]+|[0-9]+")
_KINDS = frozenset(
    (
        *("conv", "conv1d", "conv2d", "conv3d", "depthwise", "dense", "linear", "kernel"),
        *("bn", "batch", "norm", "normalization", "batchnorm"),
    )
)
"""Words in the names of layers that say what kind of layer they are."""


def folded_by_names(
    layer: SourceLayer, others: Sequence[SourceLayer], layers: Sequence[SourceLayer]
) -> list[SourceLayer]:
    """Return the normalizations that names allow behind a layer.

    `conv1` and `bn1` belong to each other, and so do `0` and `1` of a sequence.  A layer of another name may
    have any normalization that belongs to no layer.
    """
    named = [one for one in others if _belongs(layer, one)]
    if named:
        return named
    kernels = [one for one in layers if not one.is_batch_normalization]
    return [one for one in others if not any(_belongs(kernel, one) for kernel in kernels)]


def _belongs(layer: SourceLayer, normalization: SourceLayer) -> bool:
    one, other = layer.path, normalization.path
    if not one or not other or one[:-1] != other[:-1]:
        return False
    if one[-1].isdecimal() and other[-1].isdecimal():
        return int(other[-1]) == int(one[-1]) + 1
    words = [
        [word for word in _WORDS.findall(each[-1].lower()) if word not in _KINDS] for each in (one, other)
    ]
    return words[0] == words[1] != []
