"""The classes of layers in an object graph, by the names of their weights, in artificial graphs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.errors import ConversionError
from formats.keras.classes import model_in
from formats.keras.model import ModelError
from formats.model.object_graph import ObjectGraph
from formats.wire.messages import ObjectReference, SerializedTensor, TrackableObject, TrackableObjectGraph

if TYPE_CHECKING:
    from pathlib import Path

Edges = list[tuple[str, int]]


def saved(path: Path, edges: dict[int, Edges], weights: dict[int, tuple[int, ...]], *full_names: str) -> str:
    """Write a checkpoint of a graph: edges by node; of variables shapes by node, and full names in order."""
    count = 1 + max(child for children in edges.values() for _, child in children)
    nodes = [TrackableObject() for _ in range(count)]
    for node, children in edges.items():
        nodes[node].children += [ObjectReference(node_id=child, local_name=name) for name, child in children]
    for node, name in zip(weights, full_names or [""] * len(weights), strict=True):
        attribute = SerializedTensor(name="VARIABLE_VALUE", full_name=name, checkpoint_key=f"v{node}")
        nodes[node].attributes.append(attribute)
    specs = [TensorSpec(f"v{node}", BY_NAME["float32"], shape) for node, shape in weights.items()]
    graph = ObjectGraph(TrackableObjectGraph(nodes=nodes))
    target = str(path / "ckpt")
    options = {"object_graph": graph, "overwrite": True}
    with formats.create_checkpoint(target, format="tf-object", specs=specs, **options) as writer:
        for spec in specs:
            writer.write(spec.key, np.zeros(spec.shape, "f"))
    return target


def told(path: str, *wanted: str) -> list[tuple[str, str]]:
    with formats.open_checkpoint(path) as reader:
        model, _ = model_in(reader, wanted or list(reader))
    return [(layer.class_name, layer.name) for layer in model.layers]


def test_a_weight_of_two_layers_is_rejected(tmp_path: Path) -> None:
    shared = {0: [("a", 1), ("b", 2)], 1: [("kernel", 3), ("bias", 4)], 2: [("kernel", 3), ("bias", 5)]}
    path = saved(tmp_path, shared, {3: (2, 3), 4: (3,), 5: (3,)})
    with pytest.raises(ConversionError, match="belongs to two layers, 'a' and 'b'") as refused:
        told(path)
    assert refused.value.key == "v3"


def test_what_lists_the_weights_of_layers_is_none(tmp_path: Path) -> None:
    edges = {0: [("weights", 1), ("a", 2), ("again", 2)], 1: [("0", 3)], 2: [("kernel", 3), ("bias", 4)]}
    path = saved(tmp_path, edges, {3: (2, 3), 4: (3,)})
    assert told(path) == [("Dense", "a")]


def test_objects_in_a_circle_end(tmp_path: Path) -> None:
    edges = {
        0: [("self", 0), ("a", 1)],
        1: [("above", 0), ("me", 1), ("d", 2)],
        2: [("kernel", 3), ("bias", 4)],
    }
    path = saved(tmp_path, edges, {3: (2, 3), 4: (3,)})
    assert told(path) == [("Dense", "a.d")]


def test_objects_that_are_too_deep_are_rejected(tmp_path: Path) -> None:
    chain: dict[int, Edges] = {node: [("next", node + 1)] for node in range(400)}
    path = saved(tmp_path, chain, {400: (2,)})
    with pytest.raises(ModelError, match="more than 128 deep"):
        told(path)


def test_unneeded_facts_may_be_missing(tmp_path: Path) -> None:
    edges = {0: [("a", 1), ("b", 2)], 1: [("w", 3)], 2: [("embeddings", 4)]}
    path = saved(tmp_path, edges, {3: (2, 3), 4: (5, 2)})
    assert told(path, "v4") == [("Embedding", "b")]
    with pytest.raises(ConversionError, match=r"no Keras layer has weights with these .*: w \[2, 3\]"):
        told(path)


def test_the_name_of_one_layer_shows_its_class(tmp_path: Path) -> None:
    edges = {0: [("a", 1), ("b", 2)], 1: [("_kernel", 3)], 2: [("_kernel", 4)]}
    weights = {3: (2, 2), 4: (2, 2)}
    path = saved(tmp_path, edges, weights, "net/dense/kernel", "net/dense_7/kernel")
    assert told(path) == [("Dense", "a"), ("Dense", "b")]
    path = saved(tmp_path, edges, weights, "net/dense/kernel", "net/einsum_dense/kernel")
    assert told(path) == [("Dense", "a"), ("EinsumDense", "b")]


def test_a_name_that_all_layers_have_shows_nothing(tmp_path: Path) -> None:
    """Keras 3 gives the weights of a subclassed model its name, for every layer."""
    edges = {0: [("a", 1), ("b", 2)], 1: [("_kernel", 3)], 2: [("_kernel", 4)]}
    path = saved(tmp_path, edges, {3: (2, 2), 4: (2, 2)}, "dense/kernel", "dense/kernel")
    with pytest.raises(ConversionError, match="is Dense or EinsumDense; 1 more tensor has the same problem"):
        told(path)


RECURRENT = {"kernel": (3, 8), "recurrent_kernel": (2, 8), "bias": (8,)}
"""An LSTM's."""


def test_layers_of_layers_are_called_as_their_weights_say(tmp_path: Path) -> None:
    """The weight is below its cell, or its projection, or the direction and its cell; then the layer."""
    edges: dict[int, Edges] = {0: [("layer-0", 1), ("layer-1", 2), ("layer-2", 3)]}
    weights: dict[int, tuple[int, ...]] = {}
    names: list[str] = []

    count = itertools.count(13)

    def weigh(node: int, above: str, shapes: dict[str, tuple[int, ...]]) -> None:
        for (edge, shape), number in zip(shapes.items(), count, strict=False):
            edges.setdefault(node, []).append((edge, number))
            weights[number] = shape
            names.append(f"net/{above}/{edge}")

    edges[1] = [("cell", 4)]
    edges[2] = [("forward_layer", 5), ("backward_layer", 6)]
    edges[5], edges[6] = [("cell", 7)], [("cell", 8)]
    projections = ("_query_dense", "_key_dense", "_value_dense", "_output_dense")
    edges[3] = [(name, 9 + at) for at, name in enumerate(projections)]
    weigh(4, "one/lstm_cell", RECURRENT)
    weigh(7, "both/forward_lstm/lstm_cell", RECURRENT)
    weigh(8, "both/backward_lstm/lstm_cell", RECURRENT)
    for at, name in enumerate(projections):
        weigh(9 + at, f"seen/{name[1:-6]}", {"kernel": (2, 4, 6) if "output" in name else (6, 2, 4)})
    assert told(saved(tmp_path, edges, weights, *names)) == [
        ("LSTM", "one"),
        ("Bidirectional", "both"),
        ("MultiHeadAttention", "seen"),
    ]
