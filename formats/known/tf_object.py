"""tf-object: TensorFlow 2's object-based checkpoints, a bundle with an object graph in it.

bundle                          see formats.tf.bundle.index
_CHECKPOINTABLE_OBJECT_GRAPH    string scalar, see formats.model.object_graph
<path>/.ATTRIBUTES/<name>       tensors that the graph's attributes name
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from ..core.dtypes import STRING
from ..core.words import counted
from ..errors import CheckpointError, ConversionError, CorruptCheckpointError
from ..model.foreign import CUT_OFF, Foreign
from ..model.object_keys import ATTRIBUTES, GRAPH_KEY
from ..model.reader import Family, Format
from ..model.verification import Finding
from ..tf.bundle.index import BUNDLE_DTYPES, OBJECT_GRAPH_KEY
from ..tf.bundle.reader import BundleReader
from ..wire.sstable import MAGIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..model.object_graph import ObjectGraph
    from ..model.probe import Probe
    from ..model.writer import FormatWriter, WriteTarget


class ObjectReader(BundleReader):
    """An object-based checkpoint."""

    @property
    def format(self) -> Format:  # type: ignore[override]
        return FORMAT

    def load_object_graph(self) -> ObjectGraph:
        """Return the object graph; CheckpointError if it cannot be read or decoded."""
        from ..model.object_graph import ObjectGraph  # not needed for a listing of keys

        if GRAPH_KEY not in self.specs:
            self[GRAPH_KEY]  # says that it is missing
        tensor = self.tensor(GRAPH_KEY)
        spec = tensor.spec
        path, offset = self.data_place(GRAPH_KEY, tensor.entry)
        if spec.dtype is not STRING or spec.shape:
            message = f"the object graph is {spec.dtype} of shape {list(spec.shape)}; expected one string"
            raise CorruptCheckpointError(
                message, path=path, key=GRAPH_KEY, offset=offset, code="graph-decode"
            )
        data = tensor.read()
        try:
            return ObjectGraph.decode(data.item())
        except ValueError as error:
            message = f"the object graph cannot be decoded: {error}"
            raise CorruptCheckpointError(
                message, path=path, key=GRAPH_KEY, offset=offset, code="graph-decode"
            ) from error

    @cached_property
    def object_graph(self) -> ObjectGraph | None:  # type: ignore[override]
        """The object graph; None if it is damaged, which `findings` then say."""
        try:
            return self.load_object_graph()
        except CheckpointError as error:
            self.findings.append(
                Finding("error", error.code, error.message, GRAPH_KEY, error.path, error.offset)
            )
            return None

    @cached_property
    def _owners(self) -> Mapping[str, tuple[int, str, str]]:
        return self.object_graph.tensors(self.specs) if self.object_graph else {}

    @cached_property
    def edge_paths(self) -> Mapping[str, str]:
        paths = self.object_graph.paths if self.object_graph else {}
        return {key: paths[node] for key, (node, _, _) in self._owners.items() if node in paths}

    @cached_property
    def object_paths(self) -> Mapping[str, str]:
        """Object path by key; a slot in a list of Keras' newer optimizers is called by its variable."""
        from ..model.object_graph import optimizer_nodes

        paths, graph = dict(self.edge_paths), self.object_graph
        if graph is None or not any(
            name == "_variables" for node in optimizer_nodes(graph) for name, _ in graph.children(node)
        ):
            return paths
        from ..keras.optimizers import KERAS2, KERAS3
        from ..keras.training_state import training_states

        for state in training_states(graph, self.specs, self.full_names):
            for key, variable, slot in state.slot_paths if state.generation in (KERAS2, KERAS3) else ():
                paths[key] = f"{paths[variable]} ({slot})"
        return paths

    @property
    def paths_flaw(self) -> Finding | None:
        if self.object_graph is not None:
            return None
        return next(found for found in self.findings if found.key == GRAPH_KEY)

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        return {key: full_name for key, (_, _, full_name) in self._owners.items() if full_name}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        if self.object_graph is None:
            from ..model.name_kinds import name_kinds

            return name_kinds(self.specs)
        from ..tf.graph.object_kinds import object_kinds

        return object_kinds(self.object_graph, self.specs)


def _sniff(probe: Probe) -> bool:
    return probe.is_bundle and probe.has_key(OBJECT_GRAPH_KEY)


def _open(probe: Probe, lenient: bool) -> ObjectReader:
    return ObjectReader(probe, lenient=lenient)


def _refusal(probe: Probe) -> CheckpointError | None:
    """Describe a lone file of a bundle, object-based or not, and an index that was cut off."""
    path = probe.location.head
    if probe.is_renamed_index:
        hint = "rename it to NAME.index, next to NAME.data-00000-of-00001, which has the values"
        what = "this is the index file of a TensorFlow checkpoint under another name"
        return Foreign(what, hint).error(path)
    if probe.zip is not None:
        return None
    prefix, suffix = os.path.splitext(path)
    if suffix.lower() == ".meta":
        hint = f"the values are in {prefix}.index and its data files, which are missing"
        return Foreign("this is a graph, which has no values", hint).error(path)
    if suffix != ".index":
        return None
    found, expected = probe.tail[-8:].hex(" "), MAGIC.hex(" ")
    message = (
        "the file is not the index of a TensorFlow checkpoint, or it is truncated: "
        f"the last 8 bytes are {found}; expected {expected}"
    )
    offset = max(0, probe.size - 8)
    return CorruptCheckpointError(message, path=path, offset=offset, code="footer", hints=CUT_OFF)


def _create(target: WriteTarget) -> FormatWriter:
    """Return a writer; the object graph is the target's, or else one of the tensors."""
    from ..tf.bundle.writer import BundleWriter, bundle_target

    target = bundle_target(target)
    given = next((spec for spec in target.specs if spec.key == GRAPH_KEY), None)
    if target.object_graph is not None:
        target = target._replace(specs=tuple(spec for spec in target.specs if spec.key != GRAPH_KEY))
    elif given is None:
        hints = (
            "to use the graph of another checkpoint, pass --like TEMPLATE",
            "to write without objects, pass --to tf-name",
        )
        message = "an object-based checkpoint needs an object graph"
        raise ConversionError(message, path=target.path, hints=hints)
    elif given.dtype is not STRING or given.shape:
        message = f"the object graph is {given.dtype} of shape {list(given.shape)}; expected a string scalar"
        raise ConversionError(message, path=target.path, key=GRAPH_KEY)
    writer = BundleWriter(FORMAT, target)
    writer.notes += _graph_notes(target)
    return writer


def _graph_notes(target: WriteTarget) -> list[str]:
    """Return what of the object graph TensorFlow will not restore."""
    if target.object_graph is None:
        return []
    keys = {spec.key: None for spec in target.specs}
    notes = [flaw.message for flaw in target.object_graph.flaws(keys) if flaw.severity == "error"]
    odd = sorted(key for key in target.object_graph.tensors(keys) if f"{ATTRIBUTES}/" not in key)
    if odd:
        notes.append(
            f"{counted(len(odd), 'key has', 'keys have')} no "
            f"{ATTRIBUTES!r}, such as {odd[0]!r}; TensorFlow ignores such keys"
        )
    return notes


FORMAT = Format(
    "tf-object",
    "TensorFlow 2 object-based checkpoint",
    Family.TENSORFLOW,
    (".index",),
    _sniff,
    _open,
    _create,
    BUNDLE_DTYPES,
    refusal=_refusal,
    has_object_graph=True,
    is_bundle=True,
    index_last=True,
)
