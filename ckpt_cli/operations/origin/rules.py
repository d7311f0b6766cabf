"""The rules: what exporters make of the weights of a layer.

copied       the weight, its axes arranged otherwise
folded       kernel * f and (bias - mean) * f + beta, where f = gamma / sqrt(variance + epsilon)
factor       f of a BatchNormalization that was not folded, and its offset beta - mean * f
gate         one gate of a recurrent kernel, or all of them in another order
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .arrangements import Arrangement, arrangements
from .records import Derivation, Expected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.core.spec import TensorSpec

    from .source import SourceLayer

    Array = np.ndarray[Any, Any]
    Read = Callable[[str], Array]

_EPSILONS = (1e-3, 1e-5, 1e-6, 1e-12)
"""The defaults of Keras, PyTorch and others, tried where no configuration tells one."""

ROUNDINGS = 8 * 2.0**-24
"""How far float32 arithmetic may be off, relative to the terms of a sum: a few roundings."""

_GATES = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {
        **{number: (number - 1, "kernel") for number in (1, 2, 3, 4)},
        **{number: (number - 5, "recurrent_kernel") for number in (5, 6, 7, 8)},
        **{number: (number - 12, "bias") for number in (12, 13, 14, 15)},
    }
}
"""The gate that an input has: Keras' order is input, forget, cell, output."""


class Target(NamedTuple):
    """A weight of an export: its shape, the operation that uses it, and as which input."""

    shape: tuple[int, ...]
    operation: str = ""
    position: int = -1

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class DerivationRules(NamedTuple):
    """Makes derivations from the layers of a source."""

    specs: Mapping[str, TensorSpec]
    normalizations: Sequence[SourceLayer]
    scales: Sequence[SourceLayer] = ()
    """Layers with a gamma and a beta alone, as LayerNormalization."""

    def of_layer(
        self, layer: SourceLayer, target: Target, named: Sequence[SourceLayer]
    ) -> Iterator[Derivation]:
        """Yield the ways to make a weight from one layer, and from BatchNormalization behind it.

        Where `named` layers normalize, only these are folded.
        """
        yield from self._copies(layer, target)
        yield from self._gates(layer, target)
        if layer.is_batch_normalization:
            yield from self._factors(layer, target)
            return
        behind = [other for other in named if other.is_batch_normalization] or self.normalizations
        for normalization in behind:
            yield from self._folds(layer, normalization, target)
        yield from self._fronts(layer, target)

    def _fronts(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        """Yield what becomes of a Dense layer behind a LayerNormalization."""
        key, bias = layer.first(("kernel",)), layer.first(("bias",))
        if key is None or len(shape := self.specs[key].shape) != 2:
            return
        ways = arrangements(shape, target.shape, target.operation, "kernel")
        for front in (one for one in self.scales if self.specs[one.weights["gamma"]].shape == shape[:1]):
            gamma, beta = front.weights["gamma"], front.weights["beta"]
            for way in ways:
                words = ", ".join(each for each in (way.words(shape), f"times gamma of {front.name}") if each)
                compute = partial(_scaled, key, gamma, way)
                yield Derivation((key, gamma), words, layer.number, ("front", "kernel"), compute)
            if target.size == shape[1]:
                sources = (*((bias,) if bias else ()), key, beta)
                words = f"plus beta of {front.name} times the kernel"
                compute = partial(_shifted, key, beta, bias, target.shape)
                yield Derivation(sources, words, layer.number, ("front", "bias"), compute)

    def _copies(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        for role, key in layer.weights.items():
            shape = self.specs[key].shape
            for way in arrangements(shape, target.shape, target.operation, role):
                rule = way.words(shape) or "as it is"
                yield Derivation((key,), rule, layer.number, ("copy", role), partial(_copied, key, way))

    def _gates(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        told = _GATES.get(target.operation, {}).get(target.position)
        if told is None or told[1] not in layer.weights:
            return
        number, role = told
        key = layer.weights[role]
        shape = self.specs[key].shape
        part = (*shape[:-1], shape[-1] // 4)
        order = tuple(reversed(range(len(shape))))
        if len(shape) > 2 or tuple(part[axis] for axis in order) != target.shape:
            return
        compute = partial(_gate, key, number, Arrangement(order, target.shape))
        rule = f"gate {number + 1} of 4" + (", transposed" if len(shape) == 2 else "")
        yield Derivation((key,), rule, layer.number, ("gate", role), compute)

    def _factors(self, layer: SourceLayer, target: Target) -> Iterator[Derivation]:
        if self._channels(layer) != target.size:
            return
        for epsilon, told in _epsilons(layer):
            for is_offset in (False, True):
                rule = f"{'offset' if is_offset else 'factor'} of {layer.name}{told}"
                fold = Fold(layer, epsilon)
                compute = partial(fold.affine, target.shape, is_offset=is_offset)
                yield Derivation(fold.sources, rule, layer.number, ("factor", str(is_offset)), compute)

    def _channels(self, layer: SourceLayer) -> int:
        return self.specs[layer.variance or ""].size

    def _folds(self, layer: SourceLayer, behind: SourceLayer, target: Target) -> Iterator[Derivation]:
        channels = self._channels(behind)
        for epsilon, told in _epsilons(behind):
            fold = Fold(behind, epsilon)
            rule = f"folded with {behind.name}{told}"
            for role, key in layer.weights.items():
                shape = self.specs[key].shape
                if len(shape) < 2:
                    continue
                for way in arrangements(shape, target.shape, target.operation, role):
                    for at, count in _channel_axes(shape, channels):
                        words = ", ".join(each for each in (way.words(shape), rule) if each)
                        compute = partial(fold.kernel, key, way, at, count)
                        sources = (key, *fold.factors)
                        yield Derivation(sources, words, layer.number, ("fold", role), compute)
            if target.size == channels and self._has_channels(layer, channels):
                bias = layer.first(("bias",))
                sources = (*((bias,) if bias else ()), *fold.sources)
                words = rule if bias else f"{rule}, without a bias"
                compute = partial(fold.bias, bias, target.shape)
                yield Derivation(sources, words, layer.number, ("fold", "bias"), compute)

    def _has_channels(self, layer: SourceLayer, channels: int) -> bool:
        """Whether a layer has a kernel whose outputs a BatchNormalization of so many channels takes."""
        shapes = [self.specs[key].shape for key in layer.weights.values()]
        return any(len(shape) > 1 and _channel_axes(shape, channels) for shape in shapes)


class Fold(NamedTuple):
    """A BatchNormalization in inference: a factor and an offset for each channel."""

    layer: SourceLayer
    epsilon: float

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(key for key in (self.layer.scale, self.layer.variance) if key)

    @property
    def sources(self) -> tuple[str, ...]:
        layer = self.layer
        return tuple(key for key in (layer.scale, layer.offset, layer.mean, layer.variance) if key)

    def _factor(self, read: Read) -> Array:
        gamma = _wide(read(self.layer.scale)) if self.layer.scale else 1.0
        variance = _wide(read(self.layer.variance or ""))
        return gamma / np.sqrt(variance + self.epsilon)

    def kernel(self, key: str, way: Arrangement, at: int, count: int, read: Read) -> Expected:
        """Return a kernel times the factor on its output channels: `count` axes from axis `at`."""
        kernel = _wide(read(key))
        shape = [1] * kernel.ndim
        shape[at : at + count] = kernel.shape[at : at + count]
        values = way.apply(kernel * self._factor(read).reshape(shape))
        return Expected(values, np.abs(values) * ROUNDINGS)

    def bias(self, key: str | None, shape: tuple[int, ...], read: Read) -> Expected:
        """Return the bias of a layer in front."""
        factor, mean = self._factor(read), _wide(read(self.layer.mean or ""))
        beta = _wide(read(self.layer.offset)) if self.layer.offset else np.zeros_like(mean)
        bias = _wide(read(key)) if key else np.zeros_like(mean)
        values = (bias - mean) * factor + beta
        terms = (np.abs(bias) + np.abs(mean)) * np.abs(factor) + np.abs(beta)
        return Expected(values.reshape(shape), (terms * ROUNDINGS).reshape(shape))

    def affine(self, shape: tuple[int, ...], read: Read, *, is_offset: bool) -> Expected:
        """Return the factor or the offset of a layer that is not folded."""
        if is_offset:
            return self.bias(None, shape, read)
        values = self._factor(read).reshape(shape)
        return Expected(values, np.abs(values) * ROUNDINGS)


def _copied(key: str, way: Arrangement, read: Read) -> Expected:
    return Expected(way.apply(read(key)))


def _gate(key: str, number: int, way: Arrangement, read: Read) -> Expected:
    return Expected(way.apply(np.split(read(key), 4, axis=-1)[number]))


def _scaled(key: str, gamma: str, way: Arrangement, read: Read) -> Expected:
    values = way.apply(_wide(read(key)) * _wide(read(gamma))[:, None])
    return Expected(values, np.abs(values) * ROUNDINGS)


def _shifted(key: str, beta: str, bias: str | None, shape: tuple[int, ...], read: Read) -> Expected:
    kernel, offset = _wide(read(key)), _wide(read(beta))
    start = _wide(read(bias)) if bias else np.zeros(kernel.shape[1])
    terms = np.abs(offset) @ np.abs(kernel) + np.abs(start)
    return Expected((offset @ kernel + start).reshape(shape), (terms * ROUNDINGS).reshape(shape))


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
