"""Writers reject the impossible before the first byte, and everything written reads back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import formats
from formats import (
    CheckpointExistsError,
    ConversionError,
    DuplicateKeyError,
    TensorNotFoundError,
    UnknownFormatError,
    UnsupportedDtypeError,
    open_checkpoint,
)
from formats.core.dtypes import BY_NAME, BY_NUMBER, INVALID
from formats.core.spec import TensorSpec
from formats.find.registry import all_formats
from formats.location import parse_location
from formats.model.object_graph import ObjectGraph
from formats.tf.bundle.index import BundleIndex
from formats.tf.bundle.slices import slice_key
from formats.wire.messages import BundleEntryProto
from tests.support import data_path, recorded, same, shard_path
from tests.writing import (
    decoded,
    files,
    narrow_specimen,
    read_all,
    save,
    slices_of,
    spec_of,
    specimen,
    strings,
)

if TYPE_CHECKING:
    from pathlib import Path

WRITABLE = ("tf-object", "tf-name", "tf-v1")
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
GRAPHS = [golden["path"] for golden in recorded("tf-v2-object")]


def specs_of(arrays: dict[str, Any]) -> list[TensorSpec]:
    return [spec_of(key, array) for key, array in arrays.items()]


# What comes back ---------------------------------------------------------------------


@pytest.mark.parametrize("format", ["tf-name", "tf-v1"])
def test_specimen_reads_back(format: str, tmp_path: Path) -> None:  # noqa: A002
    arrays = specimen() if format == "tf-v1" else {**specimen(), **narrow_specimen()}
    save(tmp_path / "c", arrays, format)
    found = read_all(tmp_path / "c")
    assert sorted(found) == sorted(arrays)
    assert all(same(found[key], arrays[key]) for key in arrays)
    with open_checkpoint(tmp_path / "c") as reader:
        assert reader.format.name == format
        assert [finding for step in reader.verify() for finding in step.findings] == []


@pytest.mark.parametrize("size", [1, 40, 100, 10**9])
def test_shards_are_filled_up_to_their_size(size: int, tmp_path: Path) -> None:
    arrays = {f"v{number}": np.full(5, number, np.float32) for number in range(7)}
    save(tmp_path / "c", arrays, shard_size=size)
    per_shard = max(1, size // 20)
    count = -(-7 // per_shard)
    sizes = [os.path.getsize(shard_path(str(tmp_path / "c"), shard, count)) for shard in range(count)]
    assert sizes == [20 * min(per_shard, 7 - per_shard * shard) for shard in range(count)]
    assert len(files(tmp_path)) == count + 1
    assert all(same(array, arrays[key]) for key, array in read_all(tmp_path / "c").items())


def test_more_shards_than_may_be_open_at_a_time(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Files that this process already has open (test runner, uncollected files) do not count.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 100, hard))
    try:
        save(tmp_path / "c", {f"v{number:03d}": np.array(number) for number in range(300)}, shard_size=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(files(tmp_path)) == 301


def test_no_tensors_at_all_are_a_bundle(tmp_path: Path) -> None:
    save(tmp_path / "c", {})
    assert read_all(tmp_path / "c") == {}
    assert os.path.getsize(shard_path(str(tmp_path / "c"))) == 0


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint16", "quint16", "qint32"])
@pytest.mark.parametrize("format", ["tf-name", "tf-v1"])
def test_quantized_types_are_identified_by_their_spec(dtype: str, format: str, tmp_path: Path) -> None:  # noqa: A002
    spec = TensorSpec("v", BY_NAME[dtype], (3,))
    array = np.array([1, 2, 100], spec.dtype.numpy)
    with formats.create_checkpoint(tmp_path / "c", format=format, specs=[spec]) as writer:
        writer.write("v", array)
    with open_checkpoint(tmp_path / "c") as reader:
        assert reader.specs["v"].dtype.name == dtype
        assert same(reader["v"].read(), array)


@pytest.mark.parametrize("format", ["tf-name", "tf-v1"])
def test_slices_read_back_and_keep_their_spelling(format: str, tmp_path: Path) -> None:  # noqa: A002
    """Trap 7: a whole dimension is an empty extent or a spelled one, and the slice key follows it."""
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    slices = {
        "empty": [((0, 2), (0, -1)), ((2, 1), (0, -1))],
        "spelled": [((2, 1), (0, 4)), ((0, 2), (0, 4))],
    }
    save(tmp_path / "c", dict.fromkeys(slices, array), format, slices=slices)
    assert all(same(found, array) for found in read_all(tmp_path / "c").values())
    with open_checkpoint(tmp_path / "c") as reader:
        assert slices_of(reader) == slices
    if format == "tf-name":
        keys = BundleIndex(parse_location(str(tmp_path / "c"))).keys
        assert slice_key(b"empty", ((0, 2), (0, -1))).endswith(bytes.fromhex("80 82 80 7f"))
        assert {slice_key(key.encode(), extents) for key in slices for extents in slices[key]} < set(keys)


@pytest.mark.parametrize("format", ["tf-name", "tf-v1"])
def test_slices_that_hold_nothing_are_written(format: str, tmp_path: Path) -> None:  # noqa: A002
    arrays = {"empty": np.zeros((0, 4), np.float32), "ends": np.arange(8, dtype=np.int32).reshape(2, 4)}
    slices = {
        "empty": [((0, 0), (0, 2)), ((0, 0), (2, 2))],
        "ends": [((0, 0), (0, 4)), ((0, 2), (0, 4)), ((2, 0), (0, 4))],
    }
    save(tmp_path / "c", arrays, format, slices=slices)
    found = read_all(tmp_path / "c")
    assert all(same(found[key], arrays[key]) for key in arrays)
    with open_checkpoint(tmp_path / "c") as reader:
        assert slices_of(reader) == slices


def test_slices_that_cover_a_part_are_written_one_by_one(tmp_path: Path) -> None:
    spec = spec_of("v", np.zeros((4, 2), np.float32))
    extents = ((0, 2), (0, 2))
    options: dict[str, Any] = {"format": "tf-name", "specs": [spec], "slices": {"v": [extents]}}
    with formats.create_checkpoint(tmp_path / "c", **options) as writer:
        writer.write_slice("v", extents, np.ones((2, 2), np.float32))
    with open_checkpoint(tmp_path / "c") as reader:
        assert [piece.read().tolist() for _, piece in reader["v"].pieces()] == [[[1, 1], [1, 1]]]
    with (
        pytest.raises(ValueError, match="write its slices one by one"),
        formats.create_checkpoint(tmp_path / "d", **options) as writer,
    ):
        writer.write("v", np.ones((4, 2), np.float32))


# Object graphs -----------------------------------------------------------------------


@pytest.mark.parametrize("path", GRAPHS)
def test_object_graph_encodes_to_the_bytes_it_was_decoded_from(path: str) -> None:
    with open_checkpoint(data_path(path)) as reader:
        stored = reader[GRAPH].read().item()
    assert ObjectGraph.decode(stored).encode() == stored


@pytest.mark.parametrize("path", GRAPHS)
def test_has_checkpoint_values_is_what_tensorflow_says(path: str) -> None:
    """Trap 14: a subtree that is wrongly said to hold no values loses them on deferred restore."""
    with open_checkpoint(data_path(path)) as reader:
        stored = decoded(reader.object_graph)
        graph = decoded(reader.object_graph)
    assert stored is not None
    assert graph is not None
    graph.mark_checkpoint_values()
    assert graph.encode() == stored.encode()


def test_unknown_fields_of_the_object_graph_are_kept(tmp_path: Path) -> None:
    with open_checkpoint(data_path("guide_adam_legacy/tf_ckpts/ckpt-10")) as reader:
        graph = decoded(reader.object_graph)
        assert graph is not None
        graph.proto.unknown = bytes.fromhex("c2 3e 03 61 62 63")
        graph.nodes[0].unknown = bytes.fromhex("c8 3e 01")
        with formats.create_checkpoint(
            tmp_path / "c", format="tf-object", specs=reader.specs, object_graph=graph
        ) as writer:
            assert GRAPH not in writer.specs
            for key in writer.specs:
                writer.write(key, reader[key].chunks())
    with open_checkpoint(tmp_path / "c") as reader:
        stored = reader[GRAPH].read().item()
        assert stored.endswith(graph.proto.unknown)
        assert graph.nodes[0].unknown in stored
        assert max(reader[key].stored.offset for key in reader) == reader[GRAPH].stored.offset


def test_object_graph_may_be_one_of_the_tensors(tmp_path: Path) -> None:
    with open_checkpoint(data_path(GRAPHS[0])) as reader:
        with formats.create_checkpoint(tmp_path / "c", format="tf-object", specs=reader.specs) as writer:
            for key in reader:
                writer.write(key, reader[key].chunks())
        expected = {key: reader[key].read() for key in reader}
    assert all(same(array, expected[key]) for key, array in read_all(tmp_path / "c").items())


def test_keys_that_tensorflow_cannot_restore_by_are_reported(tmp_path: Path) -> None:
    """Trap 13: a key must contain `.ATTRIBUTES/`; trap 10: a checkpoint_key may be what keys begin with."""
    with open_checkpoint(data_path("guide_adam_legacy/tf_ckpts/ckpt-10")) as reader:
        graph = decoded(reader.object_graph)
        specs = {key: spec for key, spec in reader.specs.items() if key != GRAPH}
    assert graph is not None
    writer = formats.create_checkpoint(tmp_path / "c", format="tf-object", specs=specs, object_graph=graph)
    assert writer.notes == []  # Although an iterator's checkpoint_key is in no index.
    writer.abandon()
    attributes = [attribute for node in graph.nodes for attribute in node.attributes]
    attribute = next(attribute for attribute in attributes if attribute.checkpoint_key in specs)
    old, attribute.checkpoint_key = attribute.checkpoint_key, "plain"
    renamed = [spec._replace(key="plain") if key == old else spec for key, spec in specs.items()]
    writer = formats.create_checkpoint(tmp_path / "c", format="tf-object", specs=renamed, object_graph=graph)
    assert writer.notes == ["1 key has no '.ATTRIBUTES', such as 'plain'; TensorFlow ignores such keys"]
    writer.abandon()


# What is rejected ---------------------------------------------------------------------


def refused(error: type[formats.CheckpointError], tmp_path: Path, **options: Any) -> formats.CheckpointError:
    """Return the error of a writer that is not made, and leaves no trace."""
    before = files(tmp_path)
    options.setdefault("format", "tf-name")
    options.setdefault("specs", [])
    with pytest.raises(error) as caught:
        formats.create_checkpoint(options.pop("path", tmp_path / "c"), **options)
    assert files(tmp_path) == before
    return caught.value


def test_two_tensors_of_one_key(tmp_path: Path) -> None:
    found = refused(DuplicateKeyError, tmp_path, specs=[spec_of("v", 1), spec_of("v", 2.0)])
    assert (found.key, found.path) == ("v", str(tmp_path / "c"))


def test_key_that_is_the_slice_key_of_another(tmp_path: Path) -> None:
    """Trap 8: keys are bytes; a slice key is not UTF-8, and a tensor can have it for its name."""
    extents = ((0, 100), (0, 2))
    key = slice_key(b"v", extents).decode("utf-8", "surrogateescape")
    specs = [spec_of("v", np.zeros((200, 2))), spec_of(key, 1)]
    refused(DuplicateKeyError, tmp_path, specs=specs, slices={"v": [extents]})


@pytest.mark.parametrize("format_name", ["tf-name", "tf-v1", "npz", "hdf5", "safetensors", "pytorch"])
def test_key_that_is_not_utf8_is_rejected_before_anything_is_written(
    format_name: str, tmp_path: Path
) -> None:
    """Each of them has readers that list nothing, or other keys, where one is not."""
    with pytest.raises(ConversionError, match="not UTF-8") as caught:
        formats.create_checkpoint(tmp_path / "c", format=format_name, specs=[spec_of("a\udcff", 1.0)])
    assert "a\\udcff" in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_empty_key_is_the_headers(tmp_path: Path) -> None:
    """Trap 9: the first key is empty and is the header, so no tensor can have it."""
    found = refused(ConversionError, tmp_path, specs=[spec_of("", 1)])
    assert "empty key" in found.message


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "uint32", "uint64", "variant"]
)
def test_dtypes_that_v1_files_lack(dtype: str, tmp_path: Path) -> None:
    spec = TensorSpec("net/v", BY_NAME[dtype], (2,))
    found = refused(UnsupportedDtypeError, tmp_path, format="tf-v1", specs=[spec_of("a", 1), spec])
    assert found.key == "net/v"
    assert found.message == f"tf-v1 cannot store {dtype} tensors"
    assert any("--cast" in hint for hint in found.hints) is BY_NAME[dtype].is_floating
    assert any("--exclude" in hint for hint in found.hints)


def test_bundles_have_every_dtype_that_can_be_determined(tmp_path: Path) -> None:
    for found in all_formats():
        if found.name in ("tf-object", "tf-name"):
            assert found.dtypes == {dtype.name for dtype in BY_NUMBER.values()}
    refused(formats.CorruptCheckpointError, tmp_path, specs=[TensorSpec("v", INVALID, ())])


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 4), ("float64", 8), ("int8", 10), ("int64", 10), ("uint8", 2), ("float16", 3)],
)
def test_v1_slices_that_could_be_too_large(dtype: str, size: int, tmp_path: Path) -> None:
    """TensorFlow counts 10 bytes for an integer: above 214 million elements an int8 tensor is too large."""
    most = ((1 << 31) - (1 << 10) - 1) // size
    specs = [TensorSpec("v", BY_NAME[dtype], (most,))]
    formats.create_checkpoint(tmp_path / "c", format="tf-v1", specs=specs).abandon()
    too_many = [TensorSpec("v", BY_NAME[dtype], (2, most))]
    found = refused(ConversionError, tmp_path, format="tf-v1", specs=too_many)
    assert "one message would have" in found.message
    assert "tf-name" in found.hints[0]
    slices = {"v": [((0, 1), (0, -1)), ((1, 1), (0, -1))]}
    formats.create_checkpoint(tmp_path / "c", format="tf-v1", specs=too_many, slices=slices).abandon()


def test_targets_that_are_there(tmp_path: Path) -> None:
    save(tmp_path / "c", {"v": np.array(1)})
    found = refused(CheckpointExistsError, tmp_path)
    assert (found.path, found.hints) == (f"{tmp_path}/c.index", ("pass --overwrite to replace it",))
    for path in ("c.index", "c.data-00000-of-00001"):
        refused(CheckpointExistsError, tmp_path, path=tmp_path / path)
    os.unlink(tmp_path / "c.index")
    assert refused(CheckpointExistsError, tmp_path).path == shard_path(str(tmp_path / "c"))
    save(tmp_path / "old", {"v": np.array(1)}, "tf-v1")
    refused(CheckpointExistsError, tmp_path, path=tmp_path / "old", format="tf-v1")
    refused(CheckpointExistsError, tmp_path, path=tmp_path / "old", format="tf-name")


def test_v1_file_that_a_bundle_would_hide(tmp_path: Path) -> None:
    save(tmp_path / "c", {"v": np.array(1)})
    for overwrite in (False, True):
        found = refused(CheckpointExistsError, tmp_path, format="tf-v1", overwrite=overwrite)
        assert "would read it instead" in found.message


def test_v1_files_have_no_shards_and_no_objects(tmp_path: Path) -> None:
    for options in (
        {"shard_size": 100},
        {"path": tmp_path / "c-00000-of-00002"},
        {"path": tmp_path / "c-?????-of-00002"},
    ):
        found = refused(ConversionError, tmp_path, format="tf-v1", **options)
        assert found.message == "writing V1 checkpoints in shards is not supported"
    graph = ObjectGraph.decode(bytes.fromhex("0a 00"))
    found = refused(ConversionError, tmp_path, format="tf-v1", object_graph=graph)
    assert found.message == "V1 checkpoints cannot have an object graph"
    (tmp_path / "c-00000-of-00001").write_bytes(b"")
    refused(CheckpointExistsError, tmp_path, format="tf-v1")


def test_names_of_directories(tmp_path: Path) -> None:
    found = refused(ConversionError, tmp_path, path=f"{tmp_path}/run/")
    assert found.hints == (f"name the checkpoint, for example {tmp_path}/run/ckpt-1",)


def test_object_graphs_where_they_belong(tmp_path: Path) -> None:
    found = refused(ConversionError, tmp_path, format="tf-object", specs=[spec_of("v", 1)])
    assert any("--like" in hint for hint in found.hints)
    graph = spec_of(GRAPH, strings(b"").reshape(()))
    refused(ConversionError, tmp_path, format="tf-name", specs=[graph])
    refused(ConversionError, tmp_path, format="tf-object", specs=[graph._replace(shape=(1,))])


def test_slices_that_do_not_fit(tmp_path: Path) -> None:
    spec = spec_of("v", np.zeros((2, 3)))
    for slices in ({"v": [((0, 3), (0, 3))]}, {"v": [((0, 2),)]}):
        for name in ("tf-name", "tf-v1"):
            assert refused(ConversionError, tmp_path, specs=[spec], slices=slices, format=name).key == "v"
    refused(TensorNotFoundError, tmp_path, specs=[spec], slices={"w": []})


def test_formats_that_are_not_known(tmp_path: Path) -> None:
    refused(UnknownFormatError, tmp_path, format="tf-v3")
    for found in all_formats():
        assert found.dtypes or found.writer is None, found.name


def test_prefix_that_tensorflow_takes_for_a_pattern_is_reported(tmp_path: Path) -> None:
    """Trap 21: TensorFlow globs for a prefix, so one that contains `[` does not find its own index."""
    for name in ("tf-name", "tf-v1"):
        writer = save(tmp_path / f"{name}[1]", {"v": np.array(1)}, name)
        assert "as a glob pattern" in writer.notes[0]
        assert list(read_all(tmp_path / f"{name}[1]")) == ["v"]


def test_slices_that_tensorflow_does_not_join_are_reported(tmp_path: Path) -> None:
    """Trap 18: TensorFlow writes slices of half, uint16, float8 and strings, and cannot restore them."""
    halves = np.ones((2, 2), np.float16)
    slices = {"v": [((0, 1), (0, 2)), ((1, 1), (0, 2))]}
    writer = save(tmp_path / "c", {"v": halves}, slices=slices)
    assert writer.notes == ["TensorFlow cannot restore slices of float16; to join them, pass --merge-slices"]
    assert save(tmp_path / "d", {"v": halves.astype(ml_dtypes.bfloat16)}, slices=slices).notes == []


# Misuse ------------------------------------------------------------------------------


def test_tensors_are_written_once_each(tmp_path: Path) -> None:
    specs = [spec_of("a", 1), spec_of("b", 1)]
    writer = formats.create_checkpoint(tmp_path / "c", format="tf-name", specs=specs)
    writer.write("b", np.array(1))
    with pytest.raises(ValueError, match="has already been written"):
        writer.write("b", np.array(1))
    with pytest.raises(TensorNotFoundError, match="this tensor was not declared"):
        writer.write("x", np.array(1))
    with pytest.raises(ValueError, match="1 tensors have not been written, for example 'a'"):
        writer.commit()
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write("a", np.array(1))


def test_interrupted_tensor_cannot_be_committed(tmp_path: Path) -> None:
    writer = formats.create_checkpoint(tmp_path / "c", format="tf-name", specs=[spec_of("a", 1)])
    with pytest.raises(ValueError, match="0 bytes"):
        writer.write("a", b"")
    with pytest.raises(ValueError, match="the writer is interrupted"):
        writer.write("a", np.array(1))
    with pytest.raises(ValueError, match="the writer is interrupted"):
        writer.commit()
    assert os.listdir(tmp_path) == []


def test_v1_tensors_come_in_any_order_and_are_written_in_that_of_their_keys(tmp_path: Path) -> None:
    arrays = {
        "b": np.arange(2),
        "a": strings(b"\0", b"", b"long" * 100),
        "a/b": np.zeros((0, 3)),
        "c": np.array(1),
    }
    specs = [spec_of(key, array) for key, array in arrays.items()]
    for path in (tmp_path / "given", tmp_path / "sorted"):
        with formats.create_checkpoint(path, format="tf-v1", specs=specs) as writer:
            assert writer.order == ("a", "a/b", "b", "c")
            for key in writer.order if path.name == "sorted" else arrays:
                writer.write(key, arrays[key])
    assert (tmp_path / "given").read_bytes() == (tmp_path / "sorted").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["given", "sorted"]


def test_what_waits_for_its_turn_is_checked_and_not_taken_for_written(tmp_path: Path) -> None:
    specs = [spec_of("a", 1), spec_of("b", 1), spec_of("c", 1)]
    writer = formats.create_checkpoint(tmp_path / "c", format="tf-v1", specs=specs)
    writer.write("b", np.array(1))
    with pytest.raises(ValueError, match="'b' has already been written"):
        writer.write("b", np.array(1))
    with pytest.raises(ValueError, match="array has shape"):
        writer.write("c", np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="the writer is interrupted"):
        writer.write("a", np.array(1))
    writer.abandon()
    with (
        pytest.raises(ValueError, match="1 tensors have not been written, for example 'a'"),
        formats.create_checkpoint(tmp_path / "c", format="tf-v1", specs=specs[:2]) as writer,
    ):
        writer.write("b", np.array(1))
    assert os.listdir(tmp_path) == []


def test_dtypes_may_be_given_by_name_or_as_numpys(tmp_path: Path) -> None:
    given = {"a": "float32", "b": np.int16, "c": np.dtype(ml_dtypes.bfloat16), "d": "string"}
    specs = [TensorSpec(key, dtype, [0]) for key, dtype in given.items()]  # type: ignore[arg-type]
    with formats.create_checkpoint(tmp_path / "c", format="tf-name", specs=specs) as writer:
        for key in given:
            writer.write(key, b"" if key != "d" else np.empty(0, object))
    found = {key: array.dtype for key, array in read_all(tmp_path / "c").items()}
    assert found == {"a": np.float32, "b": np.int16, "c": ml_dtypes.bfloat16, "d": object}
    for wrong in ("double", np.datetime64):
        with pytest.raises(ValueError, match="is not a dtype"):
            formats.create_checkpoint(tmp_path / "x", format="npz", specs=[TensorSpec("a", wrong, ())])  # type: ignore[arg-type]


def test_slices_are_written_once_each(tmp_path: Path) -> None:
    first, second = ((0, 1),), ((1, 1),)
    specs, slices = [spec_of("v", np.zeros(2))], {"v": [first, second]}
    with formats.create_checkpoint(tmp_path / "c", format="tf-name", specs=specs, slices=slices) as writer:
        writer.write_slice("v", second, np.array([2.0]))
        with pytest.raises(ValueError, match="was not declared"):
            writer.write_slice("v", second, np.array([2.0]))
        with pytest.raises(ValueError, match="some of its slices have already been written"):
            writer.write("v", np.zeros(2))
        writer.write_slice("v", first, np.array([1.0]))
    assert read_all(tmp_path / "c")["v"].tolist() == [1, 2]


def test_what_was_written_can_be_compared_before_it_is_moved_in(tmp_path: Path) -> None:
    for name in ("tf-name", "tf-v1"):
        specs = [spec_of("v", 1.0)]
        with formats.create_checkpoint(tmp_path / name, format=name, specs=specs) as writer:
            writer.write("v", np.array(1.0))
            with writer.reopen() as reader:
                assert reader["v"].read() == 1
                assert not writer.existing(parse_location(str(tmp_path / name)))
            with pytest.raises(ValueError, match="the writer is finished"):
                writer.write("v", np.array(1.0))
        assert read_all(tmp_path / name)["v"] == 1


def test_missing_directories_are_made_and_unmade(tmp_path: Path) -> None:
    save(tmp_path / "x" / "y" / "c", {"v": np.array(1)})
    assert list(read_all(tmp_path / "x" / "y" / "c")) == ["v"]
    writer = formats.create_checkpoint(tmp_path / "x" / "z" / "w" / "c", format="tf-name", specs=[])
    writer.abandon()
    assert os.listdir(tmp_path / "x") == ["y"]


# Bytes -------------------------------------------------------------------------------


def test_index_is_the_worked_example(tmp_path: Path) -> None:
    """Traps 2, 3 and 6: the checksum is masked and a fixed32 (tag 35); section 19.1 of the format's facts."""
    save(tmp_path / "c", {"v": np.array([1, 2], np.float32)})
    expected = (
        "00 00 06 08 01 1a 02 08 01 00 01 0f 76 08 01 12 04 12 02 08 02 28 08 35 59 3c e5 35 00 00 00 00"
        "01 00 00 00 00 30 55 93 58 00 00 00 00 01 00 00 00 00 c0 f2 a1 b0 00 01 02 77 00 24 00 00 00 00"
        "01 00 00 00 00 94 60 b2 cd 29 08 36 0e" + "00" * 36 + "57 fb 80 8b 24 75 47 db"
    )
    assert files(tmp_path)["c.index"] == bytes.fromhex(expected)
    assert files(tmp_path)["c.data-00000-of-00001"] == bytes.fromhex("00 00 80 3f 00 00 00 40")


def test_strings_are_the_worked_example(tmp_path: Path) -> None:
    """Trap 4: the checksums cover the lengths as 4-byte integers; section 19.3."""
    save(tmp_path / "c", {"v": strings(b"ab", b"", b"c")})
    assert files(tmp_path)["c.data-00000-of-00001"] == bytes.fromhex("02 00 01 65 14 8e 11 61 62 63")
    index = BundleIndex(parse_location(str(tmp_path / "c")))
    assert [*index.values] == [bytes.fromhex("08 07 12 04 12 02 08 03 28 0a 35 1c d3 36 ed")]


def test_scalars_and_empty_dimensions_are_present_messages(tmp_path: Path) -> None:
    """Trap 6: a scalar's shape is an empty message, a dimension of 0 an empty Dim."""
    save(tmp_path / "c", {"save_counter": np.array(1, np.int64), "z": np.zeros((3, 0), np.float32)})
    values = BundleIndex(parse_location(str(tmp_path / "c"))).values
    assert values[0] == bytes.fromhex("08 09 12 00 28 08 35 01 75 de 41")
    assert BundleEntryProto.decode(values[1]).offset == 8
    assert values[1] == bytes.fromhex("08 01 12 06 12 02 08 03 12 00 20 08 35 d8 ea 82 a2")


def test_narrow_types_take_a_byte_each(tmp_path: Path) -> None:
    """Trap 19: 4-bit and 2-bit types are not packed."""
    arrays = {name: np.array([-1, 1], getattr(ml_dtypes, name)) for name in ("int4", "int2")}
    arrays |= {name: np.array([3, 1], getattr(ml_dtypes, name)) for name in ("uint4", "uint2")}
    save(tmp_path / "c", arrays)
    assert files(tmp_path)["c.data-00000-of-00001"] == bytes.fromhex("0f 01 03 01 03 01 03 01")


def test_v1_records_are_the_worked_examples(tmp_path: Path) -> None:
    """Trap 24, and section 19.5: sign-extended varints, halves as varints of their bits."""
    arrays = {
        "half": np.array([1.5], np.float16),
        "scalar": np.array(7, np.float32),
        "v_int32": np.array([-1, 300], np.int32),
        "zero": np.zeros((0, 3), np.float32),
    }
    save(tmp_path / "c", arrays, "tf-v1")
    content = files(tmp_path)["c"]
    for record in (
        "12 12 0a 06 73 63 61 6c 61 72 12 00 1a 06 2a 04 00 00 e0 40",
        "12 1d 0a 07 76 5f 69 6e 74 33 32 12 02 0a 00 1a 0e 3a 0c ff ff ff ff ff ff ff ff ff 01 ac 02",
        "0a 04 7a 65 72 6f 12 06 12 00 12 02 08 03 18 01 22 04 0a 00 0a 00",
        "1a 04 6a 02 80 7c",
        "12 02 08 01",
    ):
        assert bytes.fromhex(record) in content, record


@pytest.mark.parametrize("format_name", ["tf-name", "tf-v1"])
@pytest.mark.parametrize("shape", [(1 << 40, 1 << 40, 0), (1,) * 255])
def test_a_shape_that_tensorflow_has_not_is_rejected_before_the_first_byte(
    tmp_path: Path, format_name: str, shape: tuple[int, ...]
) -> None:
    specs = [formats.TensorSpec("a", BY_NAME["float32"], shape)]
    with pytest.raises(ConversionError, match=r"2\*\*63 elements|255 dimensions") as caught:
        formats.create_checkpoint(str(tmp_path / "c-1"), format=format_name, specs=specs)
    assert caught.value.key == "a"
    assert not [*tmp_path.iterdir()]
