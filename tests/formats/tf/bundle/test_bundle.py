"""Every bundle that TensorFlow wrote for the tests, against what TensorFlow says is in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import formats
from formats import CorruptCheckpointError, open_checkpoint
from formats.tf.bundle.reader import BundleReader
from formats.wire.crc32c import MASKED_EMPTY
from tests.support import BUNDLES, FORMAT_IDS, data_path, digest, reads_alike, recorded, recorded_at, same

GOLDENS = recorded(*BUNDLES)
IDS = [golden["path"] for golden in GOLDENS]


def test_the_manifest_has_bundles_of_both_kinds() -> None:
    assert len(recorded("tf-v2-object")) >= 65
    assert len(recorded("tf-v2-name")) >= 105


@pytest.mark.parametrize("golden", GOLDENS, ids=IDS)
def test_listing_agrees_with_tensorflow(golden: dict[str, Any]) -> None:
    with open_checkpoint(data_path(golden["path"])) as reader:
        assert reader.format.name == FORMAT_IDS[golden["format"]]
        listed = [(spec.key, spec.dtype.name, list(spec.shape)) for spec in reader.specs.values()]
        expected = [(tensor["key"], tensor["dtype"], tensor["shape"]) for tensor in golden["tensors"]]
        assert listed == sorted(expected, key=lambda row: row[0].encode())
        assert reader.findings == []
        assert {path.rpartition("/")[2] for path in reader.files()} == {
            path.rpartition("/")[2] for path in golden["files"] if not path.endswith(".meta")
        }


@pytest.mark.parametrize("golden", GOLDENS, ids=IDS)
def test_values_agree_with_tensorflow(golden: dict[str, Any]) -> None:
    with open_checkpoint(data_path(golden["path"])) as reader:
        for tensor in golden["tensors"]:
            if "checkpoint_reader_says" in tensor and tensor["dtype"] != "variant":
                with pytest.raises(CorruptCheckpointError, match="its slices contain only") as caught:
                    reader[tensor["key"]].read()
                assert (caught.value.key, caught.value.code) == (tensor["key"], "slice")
                continue
            lazy = reader[tensor["key"]]
            array = reads_alike(lazy)
            if tensor["sha256"] is not None:
                assert digest(array) == tensor["sha256"], tensor["key"]
            if lazy.spec.dtype.itemsize is not None:
                assert lazy.spec.nbytes == array.nbytes


@pytest.mark.parametrize("golden", GOLDENS, ids=IDS)
def test_places_and_checksums_agree_with_tensorflow(golden: dict[str, Any]) -> None:
    with open_checkpoint(data_path(golden["path"])) as reader:
        for tensor in golden["tensors"]:
            stored = reader[tensor["key"]].stored
            if "slices" in tensor:
                assert stored[:3] == (None, None, None)
            else:
                assert stored[:3] == (tensor["shard"], tensor["offset"], tensor["crc32c"])
            if tensor["dtype"] in ("string", "variant") and "slices" not in tensor:
                assert reader.specs[tensor["key"]].nbytes == tensor["size_on_disk"]


@pytest.mark.parametrize("golden", GOLDENS, ids=IDS)
def test_slices_agree_with_tensorflow(golden: dict[str, Any]) -> None:
    with open_checkpoint(data_path(golden["path"])) as reader:
        assert isinstance(reader, BundleReader)
        for tensor in golden["tensors"]:
            entry = reader.index.entry(reader.index.tensors[tensor["key"]])
            assert [[list(extent) for extent in piece] for piece in entry.slices] == tensor.get("slices", [])


def test_opening_and_listing_touches_no_data_shard(tmp_path: Any) -> None:
    golden = recorded_at("shards/merged")
    index = tmp_path / "merged.index"
    with open(data_path("shards/merged.index"), "rb") as file:
        index.write_bytes(file.read())
    with open_checkpoint(tmp_path / "merged") as reader:
        assert [spec.key for spec in reader.specs.values()] == [tensor["key"] for tensor in golden["tensors"]]
        for key in reader:
            with pytest.raises(formats.CheckpointNotFoundError, match="no such file") as caught:
                reader[key].read()
            assert caught.value.path is not None
            assert caught.value.path.startswith(str(tmp_path / "merged.data-"))


def test_partitioned_tensors_are_one_array() -> None:
    for path, key in [("max_shard_size/split", "w1/.ATTRIBUTES/VARIABLE_VALUE"), ("shards/merged", "split")]:
        name = {"max_shard_size/split": "max_shard_size/w1.npy", "shards/merged": "shards/merged.split.npy"}[
            path
        ]
        with open_checkpoint(data_path(path)) as reader:
            expected = np.load(data_path(name))
            assert same(reader[key].read(), expected)
            assert same(reader[key].read_slice((slice(1, 4, 2), slice(2, 5, 1))), expected[1:4:2, 2:5])


def test_trap_5_tensors_without_elements_store_the_empty_checksum() -> None:
    found = 0
    for golden in GOLDENS:
        for tensor in golden["tensors"]:
            if 0 in tensor["shape"] and tensor["dtype"] != "string" and "slices" not in tensor:
                found += 1
                assert tensor["crc32c"] == MASKED_EMPTY
    assert found


def test_trap_19_narrow_types_take_a_byte_an_element() -> None:
    for name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float8_e4m3fn"):
        with open_checkpoint(data_path(f"dtypes_221/one_{name}")) as reader:
            (spec,) = reader.specs.values()
            assert spec.dtype.name == name
            assert spec.nbytes == spec.size == reader[spec.key].read().nbytes


def test_variants_are_opaque_bytes() -> None:
    with open_checkpoint(data_path("guide_adam_legacy/tf_ckpts/ckpt-10")) as reader:
        states = reader["iterator/.ATTRIBUTES/ITERATOR_STATE"].read()
    assert states.shape == (5,)
    assert states.dtype == object
    assert all(state.startswith(b"\x0a\x14tensorflow::Iterator") for state in states)
