"""keras-h5: the HDF5 files of Keras 1 and 2, weights alone or a whole model; Keras 3 reads them, too.

    /                        the weights group itself, or of a whole model:
    /model_weights           the weights group
    /optimizer_weights       datasets by name; attribute weight_names: their order
    attributes of /          model_config, training_config: JSON; keras_version, backend

    weights group:           attribute layer_names: the layers in order, those without weights, too
      /<layer>               attribute weight_names: the layer's weights in order
        /<weight name>       a dataset; `d1/kernel:0` of layer `d1` is /d1/d1/kernel:0
      /top_level_model_weights   what belongs to no layer

    tf_model.h5.index.json          Hugging Face's index and shards, see `formats.model.shards`; the index has
    tf_model-00001-of-00002.h5      full names, and `layer_names` are the paths of the datasets

A key is the weight's name without `:0`. Names that occur twice get their layer, `<layer>/<name>`; optimizer
weights are `optimizer_weights/<name>`. The order of names is the model's, and loading by topology uses only
that; HDF5's own order is alphabetical and has no meaning. Configurations are text here: nothing in them is
run. A file without `keras_version` comes from Keras 1. keras/src/legacy/saving/legacy_h5_format.py
"""

from __future__ import annotations

from collections import ChainMap, Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import CorruptCheckpointError, UnsupportedFeatureError
from ..h5.facts import h5_facts
from ..h5.legacy_writer import LegacyWriter
from ..h5.names import strings, text
from ..h5.reader import KerasFileReader, read_attribute
from ..h5.writer import H5_DTYPES, MOST_DIMENSIONS
from ..keras.config import LayerWeights, check_shapes, layers_of
from ..keras.facts import (
    IN_H5,
    MODEL_WEIGHTS,
    OPTIMIZER_WEIGHTS,
    TOP_LEVEL,
    KerasFacts,
    Weight,
    WeightGroup,
    weight_keys,
)
from ..model.checkpoint_files import H5_INDEX_SUFFIX
from ..model.reader import Family, Format
from ..model.shards import ShardedReader, broken_index, refuse_without_index
from ..model.verification import Finding
from ..model.weight_map import H5, shard_path, shard_suffix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..core.spec import TensorSpec
    from ..errors import CheckpointError
    from ..h5.node import Node
    from ..model.probe import Probe
    from ..model.reader import FormatReader
    from ..model.writer import FormatWriter, WriteTarget


_OPTIMIZER_SCALARS = frozenset(("iter", "iteration", "iterations", "learning_rate"))


class KerasH5Reader(KerasFileReader):
    """A Keras HDF5 file, of weights or of a model with its optimizer."""

    def __init__(self, probe: Probe, *, lenient: bool, called: Mapping[str, str] | None = None) -> None:
        """Open a file; `called` has the full names of datasets that are not in a layer, by their paths."""
        facts = probe.result_of(h5_facts)
        assert facts is not None
        assert facts.model_group is not None
        self._file = facts.file
        super().__init__(probe.location, [self._file], lenient=lenient)
        self.format = FORMAT
        self._group = facts.model_group
        self._whole_model = self._group is not self._file.root
        self._optimizer = WeightGroup(OPTIMIZER_WEIGHTS)
        self._optimizer_keys: frozenset[str] = frozenset()
        self._layers: dict[str, WeightGroup] = {}
        self._bare = WeightGroup("")
        self._called = called or {}
        self._add_weights()
        self._add_optimizer()
        self.seal()

    def _strings(self, holder: Node, name: str, path: str) -> tuple[str, ...]:
        try:
            found: tuple[str, ...] | None = read_attribute(self._file, holder, name, strings)
        except CorruptCheckpointError as error:
            self.flaw(
                CorruptCheckpointError(f"{path or '/'!r}: {error.message}", path=error.path, code=error.code)
            )
            return ()
        return found or ()

    def _add_weights(self) -> None:
        base = f"{MODEL_WEIGHTS}/" if self._whole_model else ""
        layers = list(dict.fromkeys(self._strings(self._group, "layer_names", base)))
        weights: list[Weight] = []
        groups: dict[str, Node] = {}
        bare: list[str] = []
        for layer in (*layers, TOP_LEVEL):
            group = self._file.find(layer, self._group)
            if group is not None and group.is_dataset and layer != TOP_LEVEL:
                bare.append(layer)  # as in a shard of Hugging Face's
                continue
            if group is None or not group.is_group:
                if layer != TOP_LEVEL:
                    message = f"layer_names lists {layer!r}, but there is no such group"
                    self.flaw(CorruptCheckpointError(message, path=self._file.path, code="hdf5-read"))
                continue
            groups[layer] = group
            names = dict.fromkeys(self._strings(group, "weight_names", base + layer))
            weights += [Weight(layer, name, f"{base}{layer}/{name}") for name in names]
        self._add_bare(bare, base)
        within: dict[tuple[str, str], Node | None] = {}
        held: dict[str, list[tuple[str, str]]] = {layer: [] for layer in groups}
        for key, weight in zip(weight_keys(weights), weights, strict=True):
            held[weight.layer].append((key, weight.name))
            # A layer's weights are in one group below it, which is looked up once.
            head, _, last = weight.name.rpartition("/")
            place = (weight.layer, head)
            if place not in within:
                within[place] = self._find(head, groups[weight.layer])
            self.add(key, self._file, weight.path, self._dataset(last, within[place]))
        self._layers = {layer: WeightGroup(layer, tuple(found)) for layer, found in held.items()}

    def _add_bare(self, paths: list[str], base: str) -> None:
        """Add the datasets that `layer_names` lists as if they were layers."""
        names = [self._called.get(path.removesuffix(":0"), path) for path in paths]
        keys = weight_keys([Weight("", name, base + path) for name, path in zip(names, paths, strict=True)])
        for key, path in zip(keys, paths, strict=True):
            self.add(key, self._file, base + path, self._dataset(path, self._group))
        self._bare = WeightGroup("", tuple(zip(keys, names, strict=True)))

    def _add_optimizer(self) -> None:
        group = self._file.find(OPTIMIZER_WEIGHTS)
        if not self._whole_model or group is None or not group.is_group:
            return
        names = list(dict.fromkeys(self._strings(group, "weight_names", OPTIMIZER_WEIGHTS)))
        weights = [Weight(OPTIMIZER_WEIGHTS, name, f"{OPTIMIZER_WEIGHTS}/{name}") for name in names]
        plain = Counter(name.removesuffix(":0") for name in names)
        held: list[tuple[str, str]] = []
        for weight in weights:
            unique = weight.name.removesuffix(":0")
            key = f"{OPTIMIZER_WEIGHTS}/{unique if plain[unique] == 1 else weight.name}"
            held.append((key, weight.name))
            self.add(key, self._file, weight.path, self._dataset(weight.name, group))
        self._optimizer = WeightGroup(OPTIMIZER_WEIGHTS, tuple(held))
        self._optimizer_keys = frozenset(key for key, _ in held)

    def _dataset(self, name: str, group: Node | None) -> Node | None:
        found = self._find(name, group) if group is not None else None
        return found if found is not None and found.is_dataset else None

    def _find(self, name: str, group: Node) -> Node | None:
        try:
            return self._file.find(name, group)
        except CorruptCheckpointError:
            return None
        except UnsupportedFeatureError as error:
            self.flaw(error)
            return None

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        """The names of weights, which in Keras 2 are those of the variables."""
        groups = (*self._layers.values(), self._bare, self._optimizer)
        return {key: name for group in groups for key, name in group.names}

    def kind(self, key: str, spec: TensorSpec) -> str:
        if key not in self._optimizer_keys:
            return super().kind(key, spec)
        return "optimizer" if key.rpartition("/")[2] in _OPTIMIZER_SCALARS else "slot"

    @cached_property
    def _attributes(self) -> dict[str, str | None]:
        """The file's texts about its model; keras_version is an attribute of the weights group, too."""
        out: dict[str, str | None] = {}
        for name in ("keras_version", "backend", "model_config", "training_config"):
            for holder in (self._file.root, self._group):
                try:
                    out[name] = out.get(name) or read_attribute(self._file, holder, name, text)
                except CorruptCheckpointError as error:
                    self.unread(Finding.of(error))
                    out.setdefault(name, None)
        return out

    @cached_property
    def facts(self) -> KerasFacts:
        found = self._attributes
        classes = {layer.name: layer.class_name for layer in layers_of(found["model_config"])[0]}
        layers = [
            group._replace(class_name=classes.get(name))
            for name, group in self._layers.items()
            if name != TOP_LEVEL or group.weights
        ]
        return KerasFacts(
            IN_H5,
            found["keras_version"],
            found["backend"],
            config=found["model_config"],
            training_config=found["training_config"],
            layers=tuple(layers),
            optimizer=self._optimizer if self._optimizer.weights else None,
        )

    def shape_findings(self) -> list[Finding]:
        layers, problem = layers_of(self._attributes["model_config"])
        if problem is not None:
            return [Finding("error", "config-shape", f"model_config: {problem}", file=self._file.path)]
        held = {
            name: [
                LayerWeights(key, self._place_name(key), self._specs[key].shape)
                for key, _ in group.weights
                if key in self._specs
            ]
            for name, group in self._layers.items()
        }
        return check_shapes(layers, held, self._file.path)

    def _place_name(self, key: str) -> str:
        return self._places[key].path.removesuffix(":0")


class KerasH5Shards(ShardedReader):
    """Shards in such files, and the index that names them."""

    has_checksums = False

    def _mapped(self, document: dict[str, Any]) -> dict[str, str]:
        """Return the file of each key, which is a full name, as in a model in one file."""
        found = super()._mapped(document)
        # By shard: names that differ in their first part alone are one path, each in a file of its own.
        self._called: dict[str, dict[str, str]] = {}
        for name, file in found.items():
            called = self._called.setdefault(shard_path(self._path, file), {})
            called[stored_name(name).removesuffix(":0")] = name
        # A name that the index assigns to another shard is known here too, for the error message.
        self._anywhere = {path: name for called in self._called.values() for path, name in called.items()}
        return {name.removesuffix(":0"): file for name, file in found.items()}

    def open_shard(self, probe: Probe, *, lenient: bool) -> KerasH5Reader | None:
        facts = probe.result_of(h5_facts)
        is_one = facts is not None and facts.is_keras_h5
        called = ChainMap(self._called.get(probe.location.head, {}), self._anywhere)
        return KerasH5Reader(probe, lenient=lenient, called=called) if is_one else None

    def index_size(self, shard: FormatReader) -> int:
        return sum(len(key) for key in shard.specs)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        held = (shard.kinds for shard in self.shards())
        return dict.fromkeys(self.specs, "variable") | {
            key: kind for kinds in held for key, kind in kinds.items()
        }

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        """The names of variables."""
        return {key: name for shard in self.shards() for key, name in shard.full_names.items()}

    @cached_property
    def facts(self) -> KerasFacts:
        """The layers of the model, as the file of a model in one file has them."""
        layers: dict[str, list[tuple[str, str]]] = {}
        for called in self._called.values():
            for path, name in called.items():
                layers.setdefault(path.partition("/")[0], []).append((name.removesuffix(":0"), name))
        return KerasFacts(
            IN_H5, layers=tuple(WeightGroup(name, tuple(held)) for name, held in layers.items())
        )


def stored_name(name: str) -> str:
    """Return the dataset's path of a variable as transformers makes it out of its full name."""
    return name if "model." in name or "/" not in name else name.partition("/")[2]


def _sniff(probe: Probe) -> bool:
    facts = probe.result_of(h5_facts)
    if facts is not None and facts.is_keras_h5:
        refuse_without_index(probe.location)
        return True
    return shard_suffix(probe.json, probe.location.head) == H5


def _open(probe: Probe, lenient: bool) -> FormatReader:
    facts = probe.result_of(h5_facts)
    if facts is None:
        return KerasH5Shards(probe, FORMAT, lenient=lenient)
    return KerasH5Reader(probe, lenient=lenient)


def _refusal(probe: Probe) -> CheckpointError | None:
    return broken_index(probe.location.head, H5_INDEX_SUFFIX)


def _salvage(probe: Probe, finding: Finding) -> FormatReader | None:  # noqa: ARG001  any damage is alike
    from ..h5.salvage import read_h5_remains

    return read_h5_remains(probe, FORMAT)


def _create(target: WriteTarget) -> FormatWriter:
    return LegacyWriter(FORMAT, target)


FORMAT = Format(
    "keras-h5",
    "Keras HDF5 weights or model (.h5)",
    Family.KERAS,
    (".h5", ".hdf5", H5_INDEX_SUFFIX),
    _sniff,
    _open,
    _create,
    H5_DTYPES,
    _salvage,
    most_dimensions=MOST_DIMENSIONS,
    names_layers=True,
    refusal=_refusal,
)
