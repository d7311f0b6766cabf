"""tf-object: TensorFlow 2's object-based checkpoints, a bundle with an object graph in it.

bundle                          see formats.tf.bundle
_CHECKPOINTABLE_OBJECT_GRAPH    string scalar, see formats.tf.object_graph
<path>/.ATTRIBUTES/<name>       tensors that the graph's attributes name
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from .dtypes import STRING
from .errors import CheckpointError, CorruptCheckpointError
from .model import Finding, Format
from .tf.bundle import OBJECT_GRAPH_KEY
from .tf.bundle_reader import BundleReader
from .tf.kinds import name_kinds, object_kinds
from .tf.object_graph import ObjectGraph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .probe import Probe

__all__ = ["FORMAT", "ObjectReader"]

GRAPH_KEY = OBJECT_GRAPH_KEY.decode()


class ObjectReader(BundleReader):
    """An object-based checkpoint."""

    @property
    def format(self) -> Format:  # type: ignore[override]
        return FORMAT

    def load_object_graph(self) -> ObjectGraph:
        """Return the object graph; CheckpointError where it cannot be read or decoded."""
        spec = self[GRAPH_KEY].spec
        if spec.dtype is not STRING or spec.shape:
            message = f"{spec.dtype} of shape {list(spec.shape)}, expected one string"
            raise CorruptCheckpointError(message, path=self.index.path, key=GRAPH_KEY, code="graph-decode")
        data = self[GRAPH_KEY].read()
        try:
            return ObjectGraph.decode(data.item())
        except ValueError as error:
            message = f"object graph: {error}"
            raise CorruptCheckpointError(
                message, path=self.index.path, key=GRAPH_KEY, code="graph-decode"
            ) from error

    @cached_property
    def object_graph(self) -> ObjectGraph | None:  # type: ignore[override]
        """The object graph; None where it is damaged, which `findings` then say."""
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
    def object_paths(self) -> Mapping[str, str]:
        paths = self.object_graph.paths if self.object_graph else {}
        return {key: paths[node] for key, (node, _, _) in self._owners.items() if node in paths}

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        return {key: full_name for key, (_, _, full_name) in self._owners.items() if full_name}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        if self.object_graph is None:
            return name_kinds(self.specs)
        return object_kinds(self.object_graph, self.specs)


def _sniff(probe: Probe) -> bool:
    return probe.is_bundle and probe.has_key(OBJECT_GRAPH_KEY)


def _open(probe: Probe, lenient: bool) -> ObjectReader:
    return ObjectReader(probe, lenient=lenient)


FORMAT = Format("tf-object", "TensorFlow 2 object-based checkpoint", (".index",), _sniff, _open)
