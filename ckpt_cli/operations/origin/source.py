"""The layers of the source: their names, their order, and the role of each weight in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.keras.exported import variable_copies
from formats.keras.facts import keras_facts
from formats.keras.match import fill
from formats.keras.model import ModelError, Unit, from_config
from formats.model.object_names import plain_key

from .connections import Connections

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.model.reader import FormatReader

_MEANS = ("moving_mean", "running_mean")
_VARIANCES = ("moving_variance", "running_var")
_SCALES = ("gamma", "weight", "scale")
_OFFSETS = ("beta", "bias")
_WAYS = ("forward", "backward")


_NUMBERED_ROLE = re.compile(r"_(l[0-9]{1,6})(?:_reverse)?\Z")
"""The number of a layer in the name of a weight of PyTorch's recurrent modules, which have several."""


class SourceLayer(NamedTuple):
    """A layer with its weights by role, such as `kernel`; `epsilon` is known from a configuration."""

    number: int
    path: tuple[str, ...]
    weights: Mapping[str, str]
    epsilon: float | None = None
    parts: tuple[SourceLayer, ...] = ()
    """The layers of both directions, where this is all of a bidirectional layer."""

    behind: frozenset[str] | None = None
    """The names of the layers that use its output; None if no configuration says so."""

    def leads_to(self, other: SourceLayer) -> bool:
        """Whether another layer may use its output."""
        return self.behind is None or bool(other.path and other.path[0] in self.behind)

    def first(self, roles: tuple[str, ...]) -> str | None:
        """Return the key of the first of these roles that the layer has."""
        return next((self.weights[role] for role in roles if role in self.weights), None)

    @property
    def is_batch_normalization(self) -> bool:
        return self.mean is not None and self.variance is not None

    @property
    def mean(self) -> str | None:
        return self.first(_MEANS)

    @property
    def variance(self) -> str | None:
        return self.first(_VARIANCES)

    @property
    def scale(self) -> str | None:
        return self.first(_SCALES)

    @property
    def offset(self) -> str | None:
        return self.first(_OFFSETS)

    @property
    def name(self) -> str:
        return "/".join(self.path)


def source_layers(reader: FormatReader) -> list[SourceLayer]:
    """Return the layers of a checkpoint in order, by its configuration, or else by its names."""
    found = _configured(reader)
    return [*found, *_bidirectional(found)]


def _configured(reader: FormatReader) -> list[SourceLayer]:
    config = keras_facts(reader.facts).config
    if config is not None:
        try:
            model = from_config(config)
            fill(model, reader)
        except ModelError:
            return _by_names(reader)
        connections = Connections(config)
        found = [
            layer._replace(behind=connections.behind(layer.path[0]) if layer.path else None)
            for layer in _of_unit(model, ())
            if layer.weights
        ]
        known = {key for layer in found for key in layer.weights.values()}
        rest = [layer for layer in _by_names(reader) if not known.intersection(layer.weights.values())]
        return [layer._replace(number=number) for number, layer in enumerate([*found, *rest])]
    return _by_names(reader)


def _bidirectional(layers: Sequence[SourceLayer]) -> Iterator[SourceLayer]:
    """Yield each pair of recurrent layers that run forward and backward as a layer of their own."""
    pairs: dict[tuple[str, ...], dict[str, SourceLayer]] = {}
    for layer in layers:
        for at, part in enumerate(layer.path):
            way = next((word for word in _WAYS if part.startswith(word)), "")
            if way and "recurrent_kernel" in layer.weights:
                pairs.setdefault(layer.path[:at], {})[way] = layer
    both = [(path, found) for path, found in pairs.items() if len(found) == len(_WAYS)]
    for number, (path, found) in enumerate(both, len(layers)):
        yield SourceLayer(number, path, {}, None, tuple(found[way] for way in _WAYS))


def _of_unit(unit: Unit, above: tuple[str, ...]) -> Iterator[SourceLayer]:
    weights = {one.name: one.key for one in unit.variables() if one.key is not None}
    epsilon = unit.config.get("epsilon")
    yield SourceLayer(0, above, weights, epsilon if isinstance(epsilon, float) else None)
    for child in unit.children():
        yield from _of_unit(child, above if child.is_model else (*above, child.name))


def _by_names(reader: FormatReader) -> list[SourceLayer]:
    copies = variable_copies(reader)
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for key, kind in reader.kinds.items():
        if kind != "variable" or key in copies:
            continue
        name = reader.full_names.get(key) or reader.object_paths.get(key) or plain_key(key)
        *path, role = parts_of(name)
        numbered = _NUMBERED_ROLE.search(role)
        path += [numbered[1]] if numbered else []
        weights = found.setdefault(tuple(path), {})
        weights[role if role not in weights else name] = key
    return [SourceLayer(number, path, weights) for number, (path, weights) in enumerate(_ordered(found))]


def _ordered(
    found: Mapping[tuple[str, ...], dict[str, str]],
) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Return layers by their names, numbers in them as numbers."""

    def order(item: tuple[tuple[str, ...], dict[str, str]]) -> list[list[tuple[int, int | str]]]:
        return [
            [
                (0, int(word)) if word.isdigit() else (1, word)
                for word in re.split(r"([0-9]{1,18})", part)
                if word
            ]
            for part in item[0]
        ]

    return sorted(found.items(), key=order)


def parts_of(name: str) -> tuple[str, ...]:
    """Return the components of a name of TensorFlow's or PyTorch's."""
    return tuple(part for part in re.split(r"[/.:]", name) if part)
