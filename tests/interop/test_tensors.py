"""TensorFlow reads our writers' files: by each of its functions, both releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.model.object_graph import ObjectGraph
from formats.model.object_keys import escape
from formats.wire.messages import ObjectReference, SerializedTensor, TrackableObject, TrackableObjectGraph
from tests.support import data_path, digest
from tests.writing import files, narrow_specimen, save, slices_of, specimen

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

WHOLE = -1


def told(array: Any) -> list[Any]:
    """Return an array in the oracle's form."""
    array = np.asarray(array)
    return [formats.core.dtypes.from_numpy(array.dtype).name, list(array.shape), digest(array)]


def all_told(arrays: dict[str, Any]) -> dict[str, list[Any]]:
    return {key: told(array) for key, array in arrays.items()}


@pytest.mark.parametrize("shard_size", [None, 1, 100])
def test_every_dtype_is_read_as_it_was_written(
    tensorflow: TensorFlow, shard_size: int | None, tmp_path: Path
) -> None:
    arrays = {**specimen(), **narrow_specimen()}
    save(tmp_path / "ckpt-1", arrays, shard_size=shard_size)
    assert (len(files(tmp_path)) > 2) is (shard_size is not None)
    assert tensorflow.ask("tensors", "by_reader", path=str(tmp_path / "ckpt-1")) == all_told(arrays)


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz", "int2", "uint2", "float4_e2m1fn"])
def test_recent_dtypes_are_read_by_the_release_that_has_them(
    tensorflow: TensorFlow, name: str, tmp_path: Path
) -> None:
    """Trap 19: four-bit types take a byte each; trap 20: types that abort an old release are reported."""
    array = np.array([1, 0, 1], formats.core.dtypes.BY_NAME[name].numpy)
    writer = save(tmp_path / "ckpt-1", {"v": array})
    assert writer.notes == [f"TensorFlow 2.15 crashes when it reads {name}; 2.21 reads it"]
    if not tensorflow.is_old:
        found = tensorflow.ask("tensors", "by_reader", path=str(tmp_path / "ckpt-1"))
        assert found == {"v": [name, [3], digest(array)]}


def cuts(rows: int, columns: int) -> dict[str, list[tuple[tuple[int, int], ...]]]:
    """Return ways to cut a matrix: by rows, by columns, in tiles, spelled in both ways."""
    return {
        "rows": [((0, 2), (0, WHOLE)), ((2, rows - 2), (0, WHOLE))],
        "rows_spelled": [((2, rows - 2), (0, columns)), ((0, 2), (0, columns))],
        "columns": [((0, WHOLE), (0, 1)), ((0, WHOLE), (1, columns - 1))],
        "tiles": [
            ((0, 3), (0, 2)),
            ((3, rows - 3), (0, 2)),
            ((0, 1), (2, columns - 2)),
            ((1, rows - 1), (2, columns - 2)),
        ],
    }


@pytest.mark.parametrize("shard_size", [None, 40])
def test_slices_are_joined_by_tensorflow(
    tensorflow: TensorFlow, shard_size: int | None, tmp_path: Path
) -> None:
    """Trap 7: a slice key is made of the extents as they are spelled in the entry."""
    rng = np.random.default_rng(0)
    arrays, slices = {}, {}
    for dtype in ("float32", "int64", "bfloat16", "complex64"):
        for name, extents in cuts(5, 4).items():
            key = f"{dtype}/{name}"
            array = rng.integers(-100, 100, (5, 4))
            arrays[key] = array.astype(formats.core.dtypes.BY_NAME[dtype].numpy)
            slices[key] = extents
    path = str(tmp_path / "ckpt-1")
    save(path, arrays, slices=slices, shard_size=shard_size)
    assert tensorflow.ask("tensors", "by_reader", path=path) == all_told(arrays)
    wanted = [[key, "5 4 1,3:1,2", key.partition("/")[0]] for key in arrays]
    parts = [told(array[1:4, 1:3]) for array in arrays.values()]
    assert tensorflow.ask("tensors", "by_restore", path=path, wanted=wanted) == parts


def test_saver_restores_names_whole_and_in_parts(tensorflow: TensorFlow, tmp_path: Path) -> None:
    arrays = {
        "net/w": np.arange(20, dtype=np.float32).reshape(5, 4),
        "net/w/Adam": np.ones((5, 4), np.float32),
        "cut": np.arange(20, dtype=np.float32).reshape(5, 4) * 2,
        "global_step": np.array(7, np.int64),
    }
    path = str(tmp_path / "model.ckpt-7")
    save(path, arrays, slices={"cut": cuts(5, 4)["rows_spelled"]})
    variables = {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()}
    expected = all_told(arrays)
    assert tensorflow.ask("tensors", "by_saver", path=path, variables=variables) == expected
    parts = {"net/w": 2, "cut": 3}
    assert tensorflow.ask("tensors", "by_saver", path=path, variables=variables, parts=parts) == expected


def object_checkpoint(path: str, tree: dict[str, Any], **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Write nested dicts of arrays as objects, and return the arrays by object path."""
    nodes: list[TrackableObject] = [TrackableObject()]
    arrays: dict[str, Any] = {}
    found: dict[str, Any] = {}
    queue: list[tuple[int, str, str, Any]] = [(0, "", "", tree)]
    for number, key_path, object_path, node in queue:
        if isinstance(node, np.ndarray):
            key = f"{key_path}/.ATTRIBUTES/VARIABLE_VALUE"
            attribute = SerializedTensor(name="VARIABLE_VALUE", full_name="Variable", checkpoint_key=key)
            nodes[number].attributes.append(attribute)
            arrays[key] = found[object_path] = node
            continue
        for name, child in node.items():
            nodes[number].children.append(ObjectReference(node_id=len(nodes), local_name=name))
            below = f"{key_path}/{escape(name)}" if key_path else escape(name)
            queue.append((len(nodes), below, f"{object_path}/{name}" if object_path else name, child))
            nodes.append(TrackableObject())
    graph = ObjectGraph(TrackableObjectGraph(nodes=nodes))
    graph.mark_checkpoint_values()
    writer = save(path, arrays, format="tf-object", object_graph=graph, **options)
    assert writer.notes == []
    return found


TREE = {
    "net": {
        "l1": {"kernel": np.ones((3, 2), np.float32), "bias": np.zeros(2, np.float32)},
        "we/ird.na.me": np.arange(4, dtype=np.int32),
        "ключ.": {"v": np.array(3.5)},
        "empty": np.zeros((0, 2), np.float32),
    },
    "step": np.array(12, np.int64),
    "save_counter": np.array(3, np.int64),
}


def shapes(tree: Any) -> Any:
    if isinstance(tree, np.ndarray):
        return [tree.dtype.name, list(tree.shape)]
    return {name: shapes(child) for name, child in tree.items()}


@pytest.mark.parametrize("shard_size", [None, 30])
def test_objects_are_restored_and_nothing_is_left_over(
    tensorflow: TensorFlow, shard_size: int | None, tmp_path: Path
) -> None:
    path = str(tmp_path / "ckpt-1")
    arrays = object_checkpoint(path, TREE, shard_size=shard_size)
    assert tensorflow.ask("tensors", "by_objects", path=path, tree=shapes(TREE)) == all_told(arrays)


def test_objects_made_after_restoring_get_their_values(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """Trap 14: where has_checkpoint_values were wrong, these would stay zero."""
    path = str(tmp_path / "ckpt-1")
    arrays = object_checkpoint(path, TREE)
    found = tensorflow.ask("tensors", "by_objects", path=path, tree=shapes(TREE), later=True)
    assert found == all_told(arrays)


def test_edges_alone_decide_what_is_restored(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """Trap 12: an edge is renamed and every key stays, and TensorFlow restores into the renamed object."""
    object_checkpoint(str(tmp_path / "ckpt-1"), TREE)
    with formats.open_checkpoint(tmp_path / "ckpt-1") as reader:
        graph = reader.object_graph
        assert graph is not None
        (edge,) = (child for node in graph.nodes for child in node.children if child.local_name == "l1")
        edge.local_name = "renamed"
        with formats.create_checkpoint(
            tmp_path / "ckpt-2", format="tf-object", specs=reader.specs, object_graph=graph
        ) as writer:
            for key in writer.specs:
                writer.write(key, reader[key].chunks())
    tree = {**TREE, "net": {**TREE["net"], "renamed": TREE["net"]["l1"]}}
    del tree["net"]["l1"]
    found = tensorflow.ask("tensors", "by_objects", path=str(tmp_path / "ckpt-2"), tree=shapes(tree))
    assert found["net/renamed/kernel"] == told(TREE["net"]["l1"]["kernel"])
    assert "net/l1/kernel" not in found


@pytest.mark.parametrize("links", [True, False])
def test_replaced_bundle_is_restored(
    tensorflow: TensorFlow, links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "ckpt-1")
    object_checkpoint(path, {"other": np.ones(100)})
    if not links:
        monkeypatch.setattr("os.link", refused)
    arrays = object_checkpoint(path, TREE, overwrite=True)
    assert len(files(tmp_path)) == (2 if links else 3)
    assert tensorflow.ask("tensors", "by_objects", path=path, tree=shapes(TREE)) == all_told(arrays)


def refused(*arguments: Any, **options: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_variants_written_again_in_shards_are_restored(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """Trap 4: of variants the checksum covers 8-byte lengths, and the checksum behind each element."""
    path = str(tmp_path / "ckpt-1")
    with formats.open_checkpoint(data_path("guide_adam_new/tf_ckpts/ckpt-10")) as reader:
        variants = [key for key, spec in reader.specs.items() if spec.dtype.name == "variant"]
        assert variants
        graph = reader.object_graph
        with formats.create_checkpoint(
            path, format="tf-object", specs=reader.specs, object_graph=graph, shard_size=50
        ) as writer:
            for key in writer.specs:
                writer.write(key, reader[key].chunks())
        expected = {key: told(reader[key].read()) for key in writer.specs if key not in variants}
        listed = {key: [spec.dtype.name, list(spec.shape)] for key, spec in reader.specs.items()}
    assert tensorflow.ask("tensors", "listed", path=path) == listed
    wanted = [[key, "", "variant"] for key in variants]
    assert tensorflow.ask("tensors", "by_restore", path=path, wanted=wanted) == [None] * len(variants)
    wanted = [[key, "", dtype] for key, (dtype, _, _) in expected.items()]
    assert tensorflow.ask("tensors", "by_restore", path=path, wanted=wanted) == list(expected.values())


V1_READER = ("float32", "float64", "int32", "uint8", "int16", "int8", "int64", "string", "bool")
"""dtypes that TensorFlow's reader of V1 files hands out; its operations know the others, too."""


def v1_specimen() -> dict[str, Any]:
    arrays = specimen()
    rng = np.random.default_rng(1)
    arrays["large"] = rng.integers(-(2**62), 2**62, 300_000)  # More than a block, more than a chunk.
    return arrays


def test_v1_file_is_read(tensorflow: TensorFlow, tmp_path: Path) -> None:
    arrays = v1_specimen()
    path = str(tmp_path / "model.ckpt-1")
    save(path, arrays, format="tf-v1")
    expected = all_told(arrays)
    assert tensorflow.ask("tensors", "listed", path=path) == {k: v[:2] for k, v in expected.items()}
    wanted = [[key, dtype] for key, (dtype, _, _) in expected.items()]
    assert tensorflow.ask("tensors", "by_old_restore", path=path, wanted=wanted) == list(expected.values())
    wanted = [[key, "", dtype] for key, (dtype, _, _) in expected.items()]
    assert tensorflow.ask("tensors", "by_restore", path=path, wanted=wanted) == list(expected.values())


def test_v1_file_is_read_by_the_reader_as_far_as_that_goes(tensorflow: TensorFlow, tmp_path: Path) -> None:
    arrays = {key: array for key, array in v1_specimen().items() if told(array)[0] in V1_READER}
    path = str(tmp_path / "model.ckpt-1")
    save(path, arrays, format="tf-v1")
    assert tensorflow.ask("tensors", "by_reader", path=path) == all_told(arrays)


def test_v1_slices_are_joined_by_tensorflow(tensorflow: TensorFlow, tmp_path: Path) -> None:
    arrays, slices = {}, {}
    for dtype in ("float32", "int32", "bool", "int64"):
        for name, extents in cuts(5, 4).items():
            arrays[f"{dtype}/{name}"] = (np.arange(20).reshape(5, 4) % 7 - 3).astype(dtype)
            slices[f"{dtype}/{name}"] = extents
    path = str(tmp_path / "model.ckpt-1")
    save(path, arrays, format="tf-v1", slices=slices)
    wanted = [[key, "", array.dtype.name] for key, array in arrays.items()]
    assert tensorflow.ask("tensors", "by_restore", path=path, wanted=wanted) == list(
        all_told(arrays).values()
    )
    variables = {name: [array.dtype.name, list(array.shape)] for name, array in arrays.items()}
    parts = {"float32/rows": 2, "int64/tiles": 3}
    found = tensorflow.ask("tensors", "by_saver", path=path, variables=variables, parts=parts)
    assert found == all_told(arrays)


def test_multi_shard_bundle_of_tensorflow_is_kept(tensorflow: TensorFlow, tmp_path: Path) -> None:
    path = str(tmp_path / "ckpt-1")
    with formats.open_checkpoint(data_path("shards/merged")) as reader:
        slices = slices_of(reader)
        assert slices
        with formats.create_checkpoint(path, format="tf-name", specs=reader.specs, slices=slices) as writer:
            for key in reader:
                writer.write(key, reader[key].chunks(16))
        expected = {key: told(reader[key].read()) for key in reader}
    assert tensorflow.ask("tensors", "by_reader", path=path) == expected


def test_a_missing_interpreter_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, tensorflow: TensorFlow
) -> None:
    monkeypatch.setattr(tensorflow, "python", "/nowhere/bin/python")
    monkeypatch.setattr(tensorflow, "_process", None)
    said = tensorflow.refuses("tensors", "listed", path="x")
    assert said.startswith(f"TensorFlow {tensorflow.release} is not at /nowhere/bin/python: make interop")
    assert "\n" not in said
