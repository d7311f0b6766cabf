"""The rules: what exporters make of the weights of a layer.

copied       the weight, its axes arranged otherwise
folded       kernel * f and (bias - mean) * f + beta, where f = gamma / sqrt(variance + epsilon)
factor       f of a BatchNormalization that was not folded, and its offset beta - mean * f
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .arrangements import Arrangement, arrangements, open_arrangements
from .gates import RECURRENT, gates
from .records import Derivation, Expected, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.core.spec import TensorSpec

    from .source import SourceLayer
    from .values import Rows, Values

    Array = np.ndarray[Any, Any]

_EPSILONS = (1e-3, 1e-5, 1e-6, 1e-12)
"""The defaults of Keras, PyTorch and others, tried if no configuration has one."""

ROUNDINGS = 8 * 2.0**-24
"""How far float32 arithmetic may be off, relative to the terms of a sum: a few roundings."""


class DerivationRules(NamedTuple):
    """Makes derivations from the layers of a source."""

    specs: Mapping[str, TensorSpec]
    normalizations: Sequence[SourceLayer]
    scales: Sequence[SourceLayer] = ()
    """Layers with a gamma and a beta alone, as LayerNormalization."""

    biased: Sequence[SourceLayer] = ()
    """Layers with a kernel and a bias; here they have the bias alone."""

    def of_layer(
        self, layer: SourceLayer, target: Target, named: Sequence[SourceLayer]
    ) -> Iterator[Derivation]:
        """Yield the ways to make a weight from one layer, and from BatchNormalization behind it.

        Only those are folded that a configuration says to be behind the layer.  Without a configuration it
        is the normalizations among the `named` layers, or else all.
        """
        yield from gates(self.specs, layer, target)
        if target.operation in RECURRENT:
            return
        yield from self._copies(layer, target)
        if layer.is_batch_normalization:
            yield from self._factors(layer, target)
            return
        if layer.behind is not None:
            behind = [other for other in self.normalizations if layer.leads_to(other)]
        else:
            behind = [other for other in named if other.is_batch_normalization] or [*self.normalizations]
        for normalization in behind:
            for way in self._folds(layer, normalization, target):
                yield way._replace(partner=normalization.number)

    def of_layer_behind(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        """Yield the ways to make a weight from a layer, and from what is in front of it or behind."""
        if target.operation in RECURRENT:
            return
        if not layer.is_batch_normalization:
            yield from self._fronts(layer, target)
        yield from self._variants(layer, target)

    def _variants(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        """Yield copies that are scaled, negated or cut off."""
        for way in self._copies(layer, target):
            if way.signature[1] == "alpha":
                yield _changed(way, "negated", np.negative)
        ways = [*self._copies(layer, target), *self._fronts(layer, target)]
        dimensions = _head_size(layer, self.specs)
        if dimensions:
            for way in ways:
                divide = partial(np.multiply, 1 / math.sqrt(dimensions))
                yield _changed(way, f"divided by the square root of {dimensions}", divide, slack=ROUNDINGS)

    def of_key(self, key: str, shape: tuple[int, ...]) -> Iterator[Derivation]:
        """Yield the orders of axes that give the tensor `key` the shape of a weight."""
        before = self.specs[key].shape
        if before == shape:
            ways = [Arrangement(tuple(range(len(shape))), shape)]
        else:
            ways = arrangements(before, shape, "", "")
        for way in ways:
            axis = way.leading(before)
            compute, granule = partial(_copied, key, way, axis), None if axis is None else 1
            yield Derivation((key,), way.words(before) or "unchanged", 0, ("named", key), compute, granule)

    def _fronts(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        """Yield what becomes of a Dense layer behind a layer that normalizes."""
        key, bias = layer.first(("kernel",)), layer.first(("bias",))
        if key is None or len(shape := self.specs[key].shape) not in (2, 3):
            return
        ways = arrangements(shape, target.shape, target.operation, "kernel", layer.path)
        is_bias = target.size == math.prod(shape[1:])
        fronts = (one for one in self._scales_of(shape[0]) if one[0].layer.leads_to(layer))
        for front, with_epsilon in fronts:
            for way in ways if front.factors else ():
                words = _joined(way.words(shape), f"times the factor of {front.layer.name}{with_epsilon}")
                sources, compute = (key, *front.factors), partial(front.scaled, key, way)
                yield Derivation(
                    sources, words, layer.number, ("front", "kernel"), compute, partner=front.layer.number
                )
            if is_bias and front.layer is not layer:
                sources = (*((bias,) if bias else ()), key, *front.offsets)
                words = f"plus the offset of {front.layer.name}{with_epsilon} times the kernel"
                shifted = partial(front.shifted, key, bias, target.shape)
                yield Derivation(
                    sources, words, layer.number, ("front", "bias"), shifted, partner=front.layer.number
                )

    def _scales_of(self, size: int) -> Iterator[tuple[Fold, str]]:
        """Yield the layers that normalize so many channels, with the epsilons that they may have."""
        for layer in self.scales:
            if self.specs[layer.weights["gamma"]].shape == (size,):
                yield Fold(layer, 0.0), ""
        for layer in self.normalizations:
            if self._channels(layer) == size:
                yield from (
                    (Fold(layer, epsilon), with_epsilon) for epsilon, with_epsilon in _epsilons(layer)
                )
        for layer in self.biased:
            if self.specs[layer.weights["bias"]].shape == (size,):
                yield Fold(layer, 0.0), ""

    def _copies(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        for role, key in layer.weights.items():
            shape = self.specs[key].shape
            for way in arrangements(shape, target.shape, target.operation, role, layer.path):
                rule = way.words(shape) or "unchanged"
                axis = way.leading(shape)
                compute = partial(_copied, key, way, axis)
                granule = None if axis is None else 1
                yield Derivation((key,), rule, layer.number, ("copy", role), compute, granule)

    def turned(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        """Yield copies in orders of axes that no operation excludes or demands."""
        for role, key in layer.weights.items():
            shape = self.specs[key].shape
            for way in open_arrangements(shape, target.shape, target.operation, role):
                compute = partial(_copied, key, way, None)
                yield Derivation((key,), way.words(shape), layer.number, ("copy", role), compute)

    def _factors(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        if self._channels(layer) != target.size:
            return
        for epsilon, with_epsilon in _epsilons(layer):
            fold = Fold(layer, epsilon)
            for word, sources, compute in (
                ("factor", fold.factors, partial(fold.factor, target.shape)),
                ("offset", fold.sources, partial(fold.bias, None, target.shape)),
            ):
                rule = f"{word} of {layer.name}{with_epsilon}"
                yield Derivation(sources, rule, layer.number, ("factor", word), compute)

    def _channels(self, layer: SourceLayer) -> int:
        return self.specs[layer.variance or ""].size

    def _folds(self, layer: SourceLayer, behind: SourceLayer, target: Target) -> Iterator[Derivation]:
        channels = self._channels(behind)
        for epsilon, with_epsilon in _epsilons(behind):
            fold = Fold(behind, epsilon)
            rule = f"folded with {behind.name}{with_epsilon}"
            yield from self._folded_kernels(layer, fold, target, rule)
            if target.size == channels and self._has_channels(layer, channels):
                bias = layer.first(("bias",))
                sources = (*((bias,) if bias else ()), *fold.sources)
                words = rule if bias else f"{rule}, without a bias"
                compute = partial(fold.bias, bias, target.shape)
                yield Derivation(sources, words, layer.number, ("fold", "bias"), compute)

    def _folded_kernels(
        self, layer: SourceLayer, fold: Fold, target: Target, rule: str
    ) -> Iterator[Derivation]:
        channels = self._channels(fold.layer)
        for role, key in layer.weights.items():
            shape = self.specs[key].shape
            if len(shape) < 2:
                continue
            for way in arrangements(shape, target.shape, target.operation, role, layer.path):
                for axes in _channel_axes(shape, channels):
                    compute = partial(fold.kernel, key, way, axes)
                    sources, words = (key, *fold.factors), _joined(way.words(shape), rule)
                    yield Derivation(sources, words, layer.number, ("fold", role), compute)

    def _has_channels(self, layer: SourceLayer, channels: int) -> bool:
        """Whether a BatchNormalization of so many channels may be behind a layer."""
        bias = layer.first(("bias",))
        if bias is not None and self.specs[bias].size != channels:
            return False
        shapes = [self.specs[key].shape for key in layer.weights.values()]
        return any(len(shape) > 1 and _channel_axes(shape, channels) for shape in shapes)


class Fold(NamedTuple):
    """A normalization in inference: a factor and an offset for each channel.

    LayerNormalization has its factor and its offset alone.
    """

    layer: SourceLayer
    epsilon: float

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(key for key in (self.layer.scale, self.layer.variance) if key)

    @property
    def sources(self) -> tuple[str, ...]:
        layer = self.layer
        return tuple(key for key in (layer.scale, layer.offset, layer.mean, layer.variance) if key)

    @property
    def offsets(self) -> tuple[str, ...]:
        """The tensors that the offset is made of: without a mean, these are not the factors."""
        return self.sources if self.layer.mean else tuple(key for key in (self.layer.offset,) if key)

    def _factor(self, read: Values) -> Array | float:
        gamma = _wide(read(self.layer.scale)) if self.layer.scale else 1.0
        if self.layer.variance is None:
            return gamma
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Array = gamma / np.sqrt(_wide(read(self.layer.variance)) + self.epsilon)
        return found

    def _terms(self, read: Values, bias: Array | float) -> tuple[Array, Array]:
        """Return (bias - mean) * factor + beta, and how large its terms are."""
        mean = _wide(read(self.layer.mean)) if self.layer.mean else 0.0
        beta = _wide(read(self.layer.offset)) if self.layer.offset else 0.0
        factor = self._factor(read)
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.asarray((bias - mean) * factor + beta)
            terms = np.asarray((np.abs(bias) + np.abs(mean)) * np.abs(factor) + np.abs(beta))
        return values, terms

    def kernel(
        self, key: str, way: Arrangement, axes: tuple[int, int], read: Values, rows: Rows | None = None
    ) -> Expected:
        """Return a kernel times the factor on its output channels: the first of their axes, and how many."""
        del rows  # all of it is computed
        at, count = axes
        kernel = _wide(read(key))
        shape = [1] * kernel.ndim
        shape[at : at + count] = kernel.shape[at : at + count]
        return _product(way.apply(kernel * np.reshape(self._factor(read), shape)))

    def bias(
        self, key: str | None, shape: tuple[int, ...], read: Values, rows: Rows | None = None
    ) -> Expected:
        """Return the bias of a layer in front, or without one the offset."""
        del rows
        values, terms = self._terms(read, _wide(read(key)) if key else 0.0)
        return Expected(values.reshape(shape), (terms * ROUNDINGS).reshape(shape))

    def factor(self, shape: tuple[int, ...], read: Values, rows: Rows | None = None) -> Expected:
        """Return the factor of a layer that is not folded."""
        del rows
        return _product(np.reshape(self._factor(read), shape))

    def scaled(self, key: str, way: Arrangement, read: Values, rows: Rows | None = None) -> Expected:
        """Return the kernel of a Dense layer behind, times the factor on its inputs."""
        del rows
        kernel = _wide(read(key))
        return _product(way.apply(kernel * np.reshape(self._factor(read), (-1, *[1] * (kernel.ndim - 1)))))

    def shifted(
        self, key: str, bias: str | None, shape: tuple[int, ...], read: Values, rows: Rows | None = None
    ) -> Expected:
        """Return the bias of a Dense layer behind, plus the offset times its kernel."""
        del rows
        kernel, (offset, sizes) = _wide(read(key)), self._terms(read, 0.0)
        kernel = kernel.reshape(len(kernel), -1)
        start = _wide(read(bias)).reshape(-1) if bias else np.zeros(kernel.shape[1])
        terms = sizes @ np.abs(kernel) + np.abs(start)
        return Expected((offset @ kernel + start).reshape(shape), (terms * ROUNDINGS).reshape(shape))


def _product(values: Array) -> Expected:
    return Expected(values, np.abs(values) * ROUNDINGS)


def _copied(key: str, way: Arrangement, axis: int | None, read: Values, rows: Rows | None = None) -> Expected:
    return Expected(way.apply(read.part(key, axis, rows)))


def _head_size(layer: SourceLayer, specs: Mapping[str, TensorSpec]) -> int:
    """Return the size of the heads of a layer that makes queries, which are scaled by it; otherwise 0."""
    key = layer.first(("kernel",))
    is_query = any("query" in part for part in layer.path)
    return specs[key].shape[-1] if key and is_query and len(specs[key].shape) == 3 else 0


def _changed(way: Derivation, words: str, change: Callable[[Array], Array], slack: float = 0.0) -> Derivation:
    """Return a way whose result is changed, element by element."""
    rule = words if way.rule == "unchanged" else f"{way.rule}, {words}"
    return way._replace(rule=rule, compute=partial(_change, way, change, slack))


def _change(
    way: Derivation, change: Callable[[Array], Array], slack: float, read: Values, rows: Rows | None = None
) -> Expected:
    found = way.compute(read, rows)
    values = change(found.values)
    if not slack and isinstance(found.slack, float):
        return Expected(values)
    return Expected(values, np.abs(change(np.asarray(found.slack))) + np.abs(values) * slack)


def cut_off(way: Derivation, least: float, most: float) -> Derivation:
    """Return a way whose result is cut off at the range of a quantization."""
    words = f"clipped to the calibrated range from {least:.3g} to {most:.3g}"
    return _changed(way, words, partial(np.clip, a_min=least, a_max=most))


def _joined(*words: str) -> str:
    return ", ".join(each for each in words if each)


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


def _epsilons(layer: SourceLayer) -> list[tuple[float, str]]:
    """Return the epsilons that a layer may have, each with words about it."""
    if layer.epsilon is not None:
        return [(layer.epsilon, f" (epsilon {layer.epsilon:g})")]
    return [(each, f" (epsilon {each:g}, assumed)") for each in _EPSILONS]


def _channel_axes(shape: tuple[int, ...], channels: int) -> list[tuple[int, int]]:
    """Return the axes that may be output channels: the first of them, and how many they are."""
    rank = len(shape)
    found = [(at, 1) for at in (rank - 1, 0) if shape[at] == channels]
    found += [(rank - 2, 2)] if rank > 2 and shape[-1] * shape[-2] == channels and shape[-1] > 1 else []
    found += [(at, 1) for at in {rank - 2, 1} - {0, rank - 1} if shape[at] == channels]
    return found
