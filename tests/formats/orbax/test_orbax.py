"""Orbax checkpoints: what two versions of Orbax wrote, and what is damaged."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.location import parse_location
from formats.orbax.files import TreeFiles
from formats.orbax.ocdbt import StoredRange
from formats.orbax.values import TreeValues
from formats.store.local.files import LocalFile
from tests.orbax_samples import SAMPLES, digest_of, summed
from tests.support import data_path, reads_alike, same

if TYPE_CHECKING:
    from pathlib import Path

ORBAX = [name for name in SAMPLES if "flax" not in name and SAMPLES[name]["tensors"]]


def sample(name: str) -> str:
    return data_path("orbax", SAMPLES[name]["path"])


@pytest.fixture
def copied(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a sample, to be damaged."""
    path = tmp_path / "copy"
    shutil.copytree(sample(request.param), path)
    return path


@pytest.mark.parametrize("name", ORBAX)
def test_what_orbax_wrote_is_read_to_the_bit(name: str) -> None:
    with formats.open_checkpoint(sample(name)) as reader:
        assert (reader.format.name, reader.findings) == ("orbax", [])
        expected = SAMPLES[name]["tensors"]
        assert set(reader) == set(expected)
        for key, tensor in reader.items():
            if tensor.spec.dtype.is_mapped:
                assert summed(reads_alike(tensor)) == expected[key]
                assert b"".join(map(bytes, tensor.chunks(64))) == tensor.read().tobytes()
            else:  # float8_e3m4
                assert [tensor.spec.type_name, list(tensor.spec.shape)] == expected[key][:2]
                assert len(b"".join(map(bytes, tensor.chunks()))) == tensor.spec.size


def test_what_keras_wrote_is_read_by_item() -> None:
    with np.load(data_path("orbax", "new/keras_orbax.npz")) as truth:
        expected = {key: truth[key] for key in truth.files}
    with formats.open_checkpoint(data_path("orbax", "new/keras_orbax/0")) as reader:
        assert {key.partition("/")[0] for key in reader} == {"pytree"}
        arrays = {key: reader[key].read() for key in reader}
        assert json.loads(reader.facts.document()["values"]["model_config/config"])
        kinds = dict(reader.kinds)
    for key, value in expected.items():
        assert any(name.endswith(key) and same(array, value) for name, array in arrays.items()), key
    found = {kinds[key] for key in kinds if "_momentum" in key}
    assert found == {"slot"}


def test_what_is_not_a_tensor_is_shown() -> None:
    for version in ("new", "old"):
        with formats.open_checkpoint(sample(f"{version}/odd_names")) as reader:
            shown = reader.facts.document()
            assert shown["values"] == {"s": "text é"}
            assert shown["empty"] == {"empty": "Dict", "t/1": "None"}
            assert list(reader) == ["a.b/c", "b", "f", "i", "lst/0", "lst/1/k", "t/0"]
            assert (reader["i"].read(), reader["f"].read(), reader["b"].read()) == (3, 0.5, True)
    with formats.open_checkpoint(sample("new/prng_keys")) as reader:
        assert reader.facts.document()["random_keys"] == {"key": "threefry2x32"}
        assert dict(reader.kinds) == {"key": "state", "raw": "variable"}
    with formats.open_checkpoint(sample("new/sharded_zarr3")) as reader:
        shown = reader.facts.document()
        assert shown["meshes"] == {"NamedSharding x=2 x y=2": 3}
        assert json.loads(shown["partitions"]["w"]) == ["x", "y"]


@pytest.mark.parametrize(
    "name", ["new/pytree", "new/pytree/_METADATA", "new/unfinished/2", "new/unfinished/2/state"]
)
def test_a_checkpoint_is_named_by_its_folder_or_its_metadata(name: str) -> None:
    path = data_path("orbax", name)
    with formats.open_checkpoint(path) as reader:
        assert len(reader) == 18
        assert reader.location.path == path.removesuffix("/_METADATA")
        assert all(key.startswith("state/") for key in reader) == name.endswith("2")
        kinds = {key.removeprefix("state/"): kind for key, kind in reader.kinds.items()}
    assert kinds["opt_state/1/0/mu/dense_0/kernel"] == "slot"
    assert kinds["opt_state/1/0/count"] == "optimizer"
    assert (kinds["step"], kinds["params/dense_0/kernel"]) == ("state", "variable")


def test_two_keys_of_one_stored_name_are_an_error() -> None:
    with formats.open_checkpoint(data_path("orbax", "new/clash")) as reader:
        (finding,) = reader.findings
        assert (finding.severity, finding.code) == ("error", "overlap")
        for key in ("a/b.c", "a.b/c"):
            with pytest.raises(formats.CorruptCheckpointError, match="so one overwrote the other"):
                reader[key].read()


def test_a_tall_tree_of_nodes_is_scanned() -> None:
    """tensorstore wrote it with nodes of few keys, without compression."""
    with open(data_path("orbax", "ocdbt_small.truth.json"), encoding="utf-8") as file:
        truth = json.load(file)
    folder = parse_location(data_path("orbax", "ocdbt_small"))
    files = TreeFiles(folder, folder / "manifest.ocdbt")
    values = TreeValues(files)
    found = {}
    for key in truth:
        value = values.find(key)
        assert value is not None
        found[key] = digest_of(values.read(value))
    assert found == truth
    assert values.count == len(truth)
    files.close()


@pytest.mark.parametrize(("offset", "expected"), [(160, [("x", 100, 80)]), (161, [])])
def test_ranges_of_one_file_are_expected_as_one_if_they_are_near(
    offset: int, expected: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Near: from the first byte to the last are at most four times the bytes of the values."""
    folder = parse_location(data_path("orbax", "ocdbt_small"))
    files = TreeFiles(folder, folder / "manifest.ocdbt")
    asked: list[tuple[str, int, int]] = []
    monkeypatch.setattr(files, "expect", lambda *range_: asked.append(range_))
    values = [StoredRange("x", offset, 20), b"stored in the node", None, StoredRange("x", 100, 0)]
    TreeValues(files).expect(values)
    assert asked == expected
    files.close()


def test_a_chunk_that_orbax_04_left_out_is_the_fill_value_with_a_warning() -> None:
    with formats.open_checkpoint(sample("old/zarr3")) as reader:
        assert not reader["dense_0/bias"].read().any()
        findings = [finding for step in reader.verify() for finding in step.findings]
    assert [(each.severity, each.key) for each in findings] == [("warning", "dense_0/bias")]


def opened(path: Path) -> Any:
    """Return what all tensors are, or the error's class."""
    with formats.open_checkpoint(path) as reader:
        return {key: summed(tensor.read()) for key, tensor in reader.items() if tensor.spec.dtype.is_mapped}


@pytest.mark.parametrize("copied", ["new/zarr3_files", "old/zarr2_files", "new/chunked_zarr2"], indirect=True)
def test_every_file_of_values_that_is_missing_or_cut_is_an_error(copied: Path) -> None:
    truth = opened(copied)
    for folder, _, names in os.walk(copied):
        for name in names:
            path = os.path.join(folder, name)
            if "/ocdbt.process_0/manifest" in path or name in (
                "commit_success.txt",
                "process_0",
                "_sharding",
            ):
                continue
            with open(path, "rb") as file:
                data = file.read()
            for damaged in (None, data[: len(data) // 2]):
                os.unlink(path)
                if damaged is not None:
                    with open(path, "wb") as file:
                        file.write(damaged)
                try:
                    assert opened(copied) == truth, path
                    # The tree of Orbax 0.4 is in `checkpoint`, too; nodes of a process are not used.
                    assert "/d/" in path or "METADATA" in name or name == "checkpoint", path
                except formats.CheckpointError:
                    pass
                with open(path, "wb") as file:
                    file.write(data)


@pytest.mark.parametrize("copied", ["new/prng_keys", "old/zero_size"], indirect=True)
def test_a_flipped_bit_in_a_manifest_or_a_node_is_an_error(copied: Path) -> None:
    """Values inline in nodes, too; other values have no checksum."""
    truth = opened(copied)
    files = [copied / "manifest.ocdbt", *(path for path in (copied / "d").iterdir())]
    unchecked = 0
    for path in files:
        data = path.read_bytes()
        for at in range(len(data)):
            flipped = bytearray(data)
            flipped[at] ^= 1 << at % 8
            path.write_bytes(flipped)
            try:
                found = opened(copied)
            except formats.CheckpointError:
                continue
            if found != truth or b"zarr_format" in data:
                unchecked += 1
                assert b"zarr_format" in data  # what 0.4.8 keeps outside nodes
        path.write_bytes(data)
    assert (unchecked > 0) == (files[1].read_bytes()[:2] == b'{"')


def rewritten(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def renamed(part: str) -> Any:
    def change(document: dict[str, Any]) -> None:
        entry = next(iter(document["tree_metadata"].values()))
        entry["key_metadata"] = [{"key": part, "key_type": 2}]

    return change


@pytest.mark.parametrize("part", ["..", "/etc", "a/../../b", "a\0b", "", "x" * 5000])
@pytest.mark.parametrize("copied", ["new/zarr3_files"], indirect=True)
def test_a_name_that_leads_out_of_the_folder_is_an_error(copied: Path, part: str) -> None:
    rewritten(copied / "_METADATA", renamed(part))
    with pytest.raises(formats.CheckpointError):
        opened(copied)


@pytest.mark.parametrize("copied", ["new/zarr3_files"], indirect=True)
def test_a_link_out_of_the_folder_is_rejected_but_not_those_of_the_hub(copied: Path) -> None:
    truth = opened(copied)
    blobs = copied.parent / "blobs"
    blobs.mkdir()
    chunk = next(path for path in copied.rglob("0") if path.is_file())
    shutil.move(chunk, blobs / "1")
    chunk.symlink_to(blobs / "1")
    with pytest.raises(formats.UnsupportedFeatureError, match="link to another folder"):
        opened(copied)
    shutil.move(copied / "_METADATA", blobs / "2")
    (copied / "_METADATA").symlink_to(blobs / "2")
    assert opened(copied) == truth


def array_changed(**fields: Any) -> Any:
    return lambda document: document.update(fields)


HUGE = {
    "a shape far beyond what is stored": array_changed(shape=[1 << 40, 8]),
    "dimensions without end": array_changed(shape=[1] * 300, chunks=[1] * 300),
    "chunks of nothing": array_changed(chunks=[0, 8]),
    "another rank": array_changed(chunks=[8]),
    "an unknown dtype": array_changed(dtype="<M8[ns]"),
    "an unknown compressor": array_changed(compressor={"id": "blosc"}),
    "filters": array_changed(filters=[{"id": "delta"}]),
    "a huge chunk": array_changed(chunks=[1 << 36, 8]),
    "another version": array_changed(zarr_format=4),
}


@pytest.mark.parametrize("what", HUGE)
@pytest.mark.parametrize("copied", ["old/zarr2_files"], indirect=True)
def test_an_array_that_requests_too_much_is_an_error(copied: Path, what: str) -> None:
    rewritten(copied / "dense_0.kernel" / ".zarray", HUGE[what])
    with pytest.raises(formats.CheckpointError):
        opened(copied)
    if what not in ("a shape far beyond what is stored", "a huge chunk"):
        with formats.open_checkpoint(copied, lenient=True) as reader:
            assert reader["dense_1/kernel"].read().any()


def test_listing_reads_manifest_node_and_metadata_alone() -> None:
    read: list[str] = []
    plain = LocalFile.read

    def noted(self: LocalFile, offset: int, size: int) -> bytes:
        read.append(os.path.basename(self.path))
        return plain(self, offset, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFile, "read", noted)
        with formats.open_checkpoint(sample("new/pytree")) as reader:
            assert len(reader) == 18
    nodes = [name for name in read if len(name) == 32]
    assert (len(nodes), read.count("manifest.ocdbt")) == (1, 1)
    assert set(read) - {*nodes} <= {"manifest.ocdbt", "_METADATA", "_CHECKPOINT_METADATA", "process_0"}


def test_databases_that_were_not_merged_are_named(tmp_path: Path) -> None:
    shutil.copytree(sample("new/two_processes"), tmp_path / "copy")
    (tmp_path / "copy" / "manifest.ocdbt").unlink()
    with pytest.raises(formats.CorruptCheckpointError, match="2 processes were not merged"):
        formats.open_checkpoint(tmp_path / "copy")
