"""Write the HDF5 files of Keras 1 and 2; formats.known.keras_h5 describes their layout.

Keras loads by order: of the layers, and of the weights in each. It comes from a target's facts
(`formats.keras.facts`).

Of keys that no layer speaks of, the first component is the layer, in the order of specs.
A file is one of a whole model where there is a configuration, or an optimizer's state.
`keras_version` is always written: without it Keras takes a file for one of version 1 and
transposes kernels.
keras/src/legacy/saving/legacy_h5_format.py: save_weights_to_hdf5_group
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ..core.spec import key_bytes
from ..errors import ConversionError
from ..keras.facts import (
    MODEL_WEIGHTS,
    OPTIMIZER_WEIGHTS,
    TOP_LEVEL,
    Weight,
    WeightGroup,
    keras_facts,
    weight_keys,
)
from .names import HDF5_OBJECT_HEADER_LIMIT
from .writer import H5Writer, check_paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..model.reader import Format
    from ..model.writer import WriteTarget
    from .writer import H5Skeleton


DEFAULT_VERSION = "2.15.0"
DEFAULT_BACKEND = "tensorflow"


class _FileLayout(NamedTuple):
    layers: tuple[WeightGroup, ...]
    top_level: WeightGroup
    optimizer: WeightGroup
    base: str

    def datasets(self) -> list[tuple[str, str]]:
        """Return (key, path of its dataset) of all weights."""
        out = []
        for group in (*self.layers, self.top_level):
            out += [(key, f"{self.base}{group.name}/{name}") for key, name in group.weights]
        return out + [(key, f"{self.optimizer.name}/{name}") for key, name in self.optimizer.weights]


def _held(group: WeightGroup, wanted: Mapping[str, object]) -> WeightGroup:
    return group._replace(weights=tuple(pair for pair in group.weights if pair[0] in wanted))


def _named_as_keyed(groups: Sequence[WeightGroup], base: str, path: str) -> list[WeightGroup]:
    """Return groups whose weights are stored under names that are read as their keys.

    A name is read as itself where no other weight has it; one that lost or found its
    double, or whose key has changed, is stored as its key.
    """
    for _ in range(3):
        weights = [
            Weight(group.name, name, f"{base}{group.name}/{name}")
            for group in groups
            for _, name in group.weights
        ]
        found = iter(weight_keys(weights))
        right = True
        changed = []
        for group in groups:
            named = []
            for key, name in group.weights:
                same = next(found) == key
                right = right and same
                named.append((key, name if same else key + (":0" if name.endswith(":0") else "")))
            changed.append(group._replace(weights=tuple(named)))
        if right:
            return list(groups)
        groups = changed
    first = next((key for group in groups for key, _ in group.weights), None)
    raise ConversionError("keras-h5 cannot store weights under these keys", path=path, key=first)


def _layout(target: WriteTarget) -> _FileLayout:
    """Return where everything goes."""
    facts = keras_facts(target.facts)
    left = {spec.key: None for spec in target.specs}
    layers = {group.name: _held(group, left) for group in facts.layers}
    optimizer = _held(facts.optimizer or WeightGroup(OPTIMIZER_WEIGHTS), left)
    for group in (*layers.values(), optimizer):
        for key, _ in group.weights:
            left.pop(key, None)
    for key in left:
        first, slash, rest = key.partition("/")
        if first == OPTIMIZER_WEIGHTS and slash:
            optimizer = WeightGroup(OPTIMIZER_WEIGHTS, (*optimizer.weights, (key, f"{rest}:0")))
            continue
        name = first if slash else TOP_LEVEL
        group = layers.get(name, WeightGroup(name))
        layers[name] = group._replace(weights=(*group.weights, (key, f"{key}:0")))
    whole_model = bool(facts.config or optimizer.weights)
    base = f"{MODEL_WEIGHTS}/" if whole_model else ""
    layers = {group.name: group for group in _named_as_keyed(list(layers.values()), base, target.path)}
    top_level = layers.pop(TOP_LEVEL, WeightGroup(TOP_LEVEL))
    return _FileLayout(tuple(layers.values()), top_level, _state_as_keyed(optimizer), base)


def _state_as_keyed(optimizer: WeightGroup) -> WeightGroup:
    """Return an optimizer's state under names that are read as its keys."""
    plain = Counter(name.removesuffix(":0") for _, name in optimizer.weights)
    weights = []
    for key, name in optimizer.weights:
        unique = name.removesuffix(":0")
        if key != f"{OPTIMIZER_WEIGHTS}/{unique if plain[unique] == 1 else name}":
            suffix = ":0" if name.endswith(":0") else ""
            name = key.removeprefix(f"{OPTIMIZER_WEIGHTS}/") + suffix  # noqa: PLW2901  as its key says
        weights.append((key, name))
    return optimizer._replace(weights=tuple(weights))


class LegacyWriter(H5Writer):
    """Writes weights, or a model with its configuration and its optimizer's state."""

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        self._layout = _layout(target)
        groups = (*self._layout.layers, self._layout.top_level)
        check_paths(target.path, [(group.name, f"{group.name}/w") for group in groups])
        check_paths(target.path, self._layout.datasets())
        self._check_names(target)
        super().__init__(format, target)
        if target.path.endswith(".weights.h5"):
            name = os.path.basename(target.path)
            self.notes.append(f"{name}: Keras expects the keras-weights layout in a file with this name")

    def _check_names(self, target: WriteTarget) -> None:
        groups = (*self._layout.layers, self._layout.top_level, self._layout.optimizer)
        names = [(group.name, None) for group in groups]
        names += [(name, key) for group in groups for key, name in group.weights]  # type: ignore[misc]
        for name, key in names:
            if len(key_bytes(name)) > HDF5_OBJECT_HEADER_LIMIT:
                message = f"the name has {len(key_bytes(name))} bytes; HDF5 allows {HDF5_OBJECT_HEADER_LIMIT}"
                hints = ("to change the name, pass --sub or --map",)
                raise ConversionError(message, path=target.path, key=key or name, hints=hints)

    def _lay_out(self, skeleton: H5Skeleton) -> None:
        layout, facts = self._layout, keras_facts(self.target.facts)
        versions = {
            "backend": facts.backend or DEFAULT_BACKEND,
            "keras_version": facts.version or DEFAULT_VERSION,
        }
        texts = {"model_config": facts.config, "training_config": facts.training_config}
        if layout.base:
            # Keras writes a model's versions as str and everything else as bytes.
            for name, value in versions.items():
                skeleton.text("", name, value)
            for name, text in texts.items():
                if text is not None:
                    skeleton.text("", name, key_bytes(text))
        base = layout.base.rstrip("/")
        skeleton.strings(base, "layer_names", [group.name for group in layout.layers])
        for name, value in versions.items():
            skeleton.text(base, name, key_bytes(value))
        # Keras makes the groups in the order of names, so that no group's name begins another's.
        for group in (*sorted(layout.layers, key=lambda group: group.name), layout.top_level):
            self._lay_out_group(skeleton, f"{layout.base}{group.name}", group)
        if layout.optimizer.weights:
            self._lay_out_group(skeleton, OPTIMIZER_WEIGHTS, layout.optimizer)

    def _lay_out_group(self, skeleton: H5Skeleton, path: str, group: WeightGroup) -> None:
        skeleton.strings(path, "weight_names", [name for _, name in group.weights])
        for key, name in group.weights:
            skeleton.dataset(self.specs[key], f"{path}/{name}")
