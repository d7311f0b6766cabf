"""Saving live objects: their object graph and their values, as an object-based checkpoint.

Values are written in node order, the object graph after them, as TensorFlow lays them
out; the writer moves all of it into place at once, the index last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import formats
from formats.core import dtypes
from formats.core.spec import TensorSpec
from formats.model.object_graph import ObjectGraph
from formats.model.object_keys import ATTRIBUTES, escape
from formats.wire.messages import (
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)

from .custom_state import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .graph_view import LiveGraph

__all__ = ["NamedArray", "save_arrays", "save_graph", "serialize"]


class NamedArray(NamedTuple):
    """A tensor to be written: numbers, or an object array of bytes, strings unless `dtype` says otherwise."""

    key: str
    value: np.ndarray[Any, Any]
    dtype: dtypes.DType | None = None


def serialize(live: LiveGraph) -> tuple[list[NamedArray], ObjectGraph]:
    """Return the values of a graph in node order, and the graph as TensorFlow stores it."""
    proto = TrackableObjectGraph(nodes=[])
    tensors: list[NamedArray] = []
    for trackable, edges, path in zip(live.objects, live.edges, live.paths, strict=True):
        children = [ObjectReference(node_id=child, local_name=name) for name, child in edges]
        node = TrackableObject(children=children)
        state = state_of(trackable)
        for name, value in state._serialize().items():
            local = escape(name)  # TensorFlow escapes it once more for the key.
            key = f"{path}/{ATTRIBUTES}/{escape(local)}"
            tensors.append(NamedArray(key + state._key_suffix, np.asarray(value), state._saved_dtype))
            full_name = state._full_name()
            node.attributes.append(SerializedTensor(name=local, full_name=full_name, checkpoint_key=key))
        proto.nodes.append(node)
    for slot in live.slots:
        reference = SlotVariableReference(
            original_variable_node_id=slot.variable, slot_name=slot.name, slot_variable_node_id=slot.node
        )
        proto.nodes[slot.optimizer].slot_variables.append(reference)
    graph = ObjectGraph(proto)
    graph.mark_checkpoint_values()
    return tensors, graph


def _spec(tensor: NamedArray) -> TensorSpec:
    dtype = tensor.dtype or dtypes.from_numpy(tensor.value.dtype)
    if dtype is None:
        raise TypeError(f"{tensor.key}: {tensor.value.dtype} cannot be saved")
    return TensorSpec(tensor.key, dtype, tensor.value.shape)


def save_arrays(path: str, format: str, tensors: Sequence[NamedArray], **more: Any) -> None:
    """Write tensors as a checkpoint; one that is there is replaced, and whole at every instant.

    All other arguments go to `formats.create_checkpoint`.
    """
    specs = list(map(_spec, tensors))
    with formats.create_checkpoint(path, format=format, specs=specs, overwrite=True, **more) as writer:
        for tensor in tensors:
            writer.write(tensor.key, tensor.value)


def save_graph(prefix: str, live: LiveGraph) -> None:
    """Write a live graph at a prefix."""
    tensors, graph = serialize(live)
    save_arrays(prefix, "tf-object", tensors, object_graph=graph)
