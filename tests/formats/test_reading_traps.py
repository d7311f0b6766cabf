"""The traps of formats.md section 18 that concern reading, beyond bundles' bytes (test_bundle_traps).

On files that TensorFlow and Keras wrote, or on the smallest that shows the trap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

from formats import CorruptCheckpointError, open_checkpoint
from formats.location import parse_location
from formats.model.object_graph import ObjectGraph
from formats.tf.run.state_file import StateFile
from formats.wire.messages import ObjectReference, SerializedTensor, TrackableObject, TrackableObjectGraph
from tests.support import data_path, recorded_at, same

if TYPE_CHECKING:
    from pathlib import Path

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def graph_of(*nodes: TrackableObject) -> ObjectGraph:
    return ObjectGraph.decode(TrackableObjectGraph(nodes=list(nodes)).encode())


def holding(key: str, name: str = "VARIABLE_VALUE") -> TrackableObject:
    return TrackableObject(attributes=[SerializedTensor(name=name, full_name="", checkpoint_key=key)])


def test_trap_11_keys_of_custom_savers_are_escaped_twice_and_taken_as_they_are() -> None:
    key = "m/.ATTRIBUTES/a..Sb....c"
    root = TrackableObject(children=[ObjectReference(node_id=1, local_name="m")])
    graph = graph_of(root, holding(key, name="a.Sb..c"))
    assert graph.tensors({key: None}) == {key: (1, "a.Sb..c", "")}
    assert list(graph.flaws({key: None})) == []


def test_trap_12_edges_say_which_object_a_tensor_belongs_to_not_its_key() -> None:
    key = f"old/name{VALUE}"
    root = TrackableObject(children=[ObjectReference(node_id=1, local_name="new.name")])
    graph = graph_of(root, holding(key))
    number, _, _ = graph.tensors({key: None})[key]
    assert graph.paths[number] == "new.name"


def test_trap_15_full_names_need_not_be_unique() -> None:
    with open_checkpoint(data_path("pairs", "object_based")) as reader:
        names = list(reader.full_names.values())
        assert len(names) > len(set(names))
        paths = [reader.object_paths[key] for key in reader.full_names]
        assert len(paths) == len(set(paths))


def test_trap_16_keras_3_weights_under_the_optimizer_are_variables_all_the_same() -> None:
    with open_checkpoint(data_path("keras3_mlp", "mlp_both-1")) as reader:
        weights = {key for key in reader if key.startswith("optimizer/_trainable_variables/")}
        assert len(weights) == 8
        assert {reader.kinds[key] for key in weights} == {"variable"}
        slots = {key for key, kind in reader.kinds.items() if kind == "slot"}
        assert slots == {f"optimizer/_variables/{number}{VALUE}" for number in range(2, 18)}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'model_checkpoint_path: "a"\ncomment: "ours"\n', "the field"),
        (
            b'model_checkpoint_path: "a"\nall_model_checkpoint_timestamps: "x"\n',
            "all_model_checkpoint_timestamps",
        ),
    ],
)
def test_trap_23_state_files_are_parsed_as_strictly_as_tensorflow_does(
    tmp_path: Path, text: bytes, what: str
) -> None:
    (tmp_path / "checkpoint").write_bytes(text)
    with pytest.raises(CorruptCheckpointError, match=what):
        StateFile.read(parse_location(str(tmp_path / "checkpoint")))


def test_trap_23_absolute_paths_outlive_a_move() -> None:
    folder = data_path("state_files", "absolute")
    assert StateFile.read(parse_location(f"{folder}/checkpoint")).latest.startswith("/")
    with open_checkpoint(folder) as reader:
        assert reader.location.path == f"{folder}/model-2"


def test_trap_24_numbers_of_v1_are_varints_of_64_bits_and_halves_varints_of_their_bits() -> None:
    from formats.core.dtypes import BY_NAME
    from formats.tf.v1.values import decode_values

    for name in ("int8", "int16", "int32"):
        assert decode_values(bytes.fromhex("3a0a ffffffff ffffffff ff01"), BY_NAME[name]).tolist() == [-1]
    negative = bytes.fromhex("3a0c ffffffff ffffffff ff01 ac02")
    assert decode_values(negative, BY_NAME["int32"]).tolist() == [-1, 300]
    assert decode_values(bytes.fromhex("6a02807c"), BY_NAME["float16"]).tolist() == [1.5]


def test_trap_24_sharded_v1_is_found_by_prefix_pattern_and_shard() -> None:
    folder = data_path("v1_format", "sharded")
    names = ("model.ckpt-1", "model.ckpt-1-?????-of-00002", "model.ckpt-1-00001-of-00002", "")
    for name in names:
        with open_checkpoint(f"{folder}/{name}") as reader:
            assert reader.location.path == f"{folder}/model.ckpt-1-?????-of-00002"
            assert len(reader) == len(recorded_at("v1_format/sharded/model.ckpt-1-?????-of-?????")["tensors"])


def test_trap_25_order_is_that_of_the_names_not_of_the_links() -> None:
    path = "keras_mlp/mlp.weights_only.h5"
    with open_checkpoint(data_path(path)) as reader:
        layers = [[layer["name"], layer["weight_names"]] for layer in reader.facts.document()["layers"]]
    assert layers == recorded_at(path)["keras2_layers"]
    assert [name for name, _ in layers] != sorted(name for name, _ in layers)


def test_trap_25_names_beyond_64_kilobytes_are_cut_in_chunks() -> None:
    path = data_path("keras_long_attrs", "many_weights.h5")
    with h5py.File(path) as file:
        assert {"weight_names0", "weight_names1"} <= set(file["many_weights_in_one_layer"].attrs)
    with open_checkpoint(path) as reader:
        (_, layer) = reader.facts.document()["layers"]
        assert len(layer["weights"]) == len(reader) == 700


def test_trap_25_without_a_version_it_is_keras_1_and_says_so(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.attrs["layer_names"] = [b"dense_1"]
        layer = file.create_group("dense_1")
        layer.attrs["weight_names"] = [b"dense_1_W", b"dense_1_b"]
        layer["dense_1_W"], layer["dense_1_b"] = np.ones((2, 3), "f4"), np.zeros(3, "f4")
    with open_checkpoint(tmp_path / "old.h5") as reader:
        assert (reader.format.name, reader.facts.document()["version"]) == ("keras-h5", None)
        assert list(reader) == ["dense_1_W", "dense_1_b"]
        assert same(reader["dense_1_W"].read(), np.ones((2, 3), "f4"))


def test_trap_26_bfloat16_is_opaque_bytes_with_an_attribute(tmp_path: Path) -> None:
    import ml_dtypes

    values = np.array([1.5, -2, 0], ml_dtypes.bfloat16)
    with h5py.File(tmp_path / "m.weights.h5", "w") as file:
        dataset = file.create_dataset("layers/dense/vars/0", data=values.view("V2"))
        dataset.attrs["dtype"] = "bfloat16"
    with open_checkpoint(tmp_path / "m.weights.h5") as reader:
        spec = reader.specs["layers/dense/vars/0"]
        assert (spec.dtype.name, spec.shape, spec.nbytes) == ("bfloat16", (3,), 6)
        assert same(reader[spec.key].read(), values)


def test_trap_28_a_saved_model_is_the_bundle_of_its_variables() -> None:
    for folder in ("module", "keras_model"):
        path = data_path("saved_model", folder)
        with open_checkpoint(path) as reader, open_checkpoint(f"{path}/variables/variables") as bundle:
            assert reader.format.name == "tf-object"
            assert reader.location.path == bundle.location.path
            assert dict(reader.specs) == dict(bundle.specs)
