"""HDF5 files that name other files, have false sizes, or contain circles."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import h5py
import numpy as np
import pytest

import formats
from formats.h5.native.superblock import Superblock

SECRET = "/etc/passwd"


def keras_layout(path, fill) -> str:
    """Write a `.weights.h5` in whose group /layers/dense/vars `fill` puts what it likes."""
    with h5py.File(path, "w") as file:
        group = file.create_group("layers/dense/vars")
        group["0"] = np.zeros((2, 3), np.float32)
        fill(file, group)
    return str(path)


def external_link(file, group):
    group["1"] = h5py.ExternalLink(SECRET, "/x")


def external_link_to_a_group(file, group):
    file["layers/other"] = h5py.ExternalLink(SECRET, "/")


def soft_link(file, group):
    group["1"] = h5py.SoftLink("/layers/dense/vars/0")


def soft_link_through_an_external_one(file, group):
    file["out"] = h5py.ExternalLink(SECRET, "/")
    group["1"] = h5py.SoftLink("/out/x")


def external_storage(file, group):
    group.create_dataset("1", (4,), "f4", external=[(SECRET, 0, 16)])


def virtual(file, group):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(SECRET, "x", (4,))
    group.create_virtual_dataset("1", layout)


WAYS_OUT = (
    external_link,
    external_link_to_a_group,
    soft_link,
    soft_link_through_an_external_one,
    external_storage,
    virtual,
)


@pytest.mark.parametrize("way", WAYS_OUT)
def test_ways_out_of_a_file_are_rejected(tmp_path, way):
    path = keras_layout(tmp_path / "w.weights.h5", way)
    with pytest.raises(formats.UnsupportedFeatureError, match="not followed") as caught:
        formats.open_checkpoint(path)
    assert caught.value.path == path
    assert "h5repack" in caught.value.hints[0]


@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_is_next_to_a_way_out_is_listed_leniently(tmp_path, way):
    path = keras_layout(tmp_path / "w.weights.h5", way)
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert reader["layers/dense/vars/0"].read().shape == (2, 3)
        assert any("not followed" in finding.message for finding in reader.findings)
        if "layers/dense/vars/1" in reader.specs:  # a dataset whose values are elsewhere
            with pytest.raises(formats.UnsupportedFeatureError):
                reader["layers/dense/vars/1"].read()


def test_a_weight_name_does_not_lead_over_a_link_either(tmp_path):
    path = str(tmp_path / "w.h5")
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"d"]
        file.create_group("d").attrs["weight_names"] = [b"out/x"]
        file["d/out"] = h5py.ExternalLink(SECRET, "/")
    with pytest.raises(formats.UnsupportedFeatureError, match="external link"):
        formats.open_checkpoint(path)


def test_soft_links_within_the_file_are_names_in_plain_hdf5(tmp_path):
    path = str(tmp_path / "plain.h5")
    with h5py.File(path, "w") as file:
        file["data/x"] = np.arange(3)
        file["alias"] = h5py.SoftLink("/data/x")
        file["data/near"] = h5py.SoftLink("x")
        file["group"] = h5py.SoftLink("/data")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["round"] = h5py.SoftLink("/round")
        file["hard"] = file["data"]
    with pytest.raises(formats.UnsupportedFeatureError, match="'/round' is a soft link"):
        formats.open_checkpoint(path)
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert list(reader) == ["alias", "data/near", "data/x"]
        for key in reader:
            np.testing.assert_array_equal(reader[key].read(), [0, 1, 2])


def test_a_group_that_holds_itself_is_walked_once(tmp_path):
    path = str(tmp_path / "loop.h5")
    with h5py.File(path, "w") as file:
        file["a/x"] = 1.0
        file["a/again"] = file["a"]
        file["a/root"] = file["/"]
    with formats.open_checkpoint(path) as reader:
        assert "a/x" in reader.specs
        assert len(reader) < 4


def test_groups_too_deep_are_rejected(tmp_path):
    path = str(tmp_path / "deep.h5")
    with h5py.File(path, "w", libver="latest") as file:
        group = file
        for _ in range(400):
            group = group.create_group("g")
    with pytest.raises(formats.UnsupportedFeatureError, match="256 deep"):
        formats.open_checkpoint(path)


def test_a_filter_that_is_missing_is_named(tmp_path):
    path = str(tmp_path / "filtered.h5")
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4,))
        plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((4,)), plist)
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["x"].shape == (4,)
        with pytest.raises(formats.UnsupportedFeatureError, match="filter 32015"):
            reader["x"].read()


def test_a_truncated_file_says_how_much_is_missing(tmp_path):
    path = tmp_path / "cut.h5"
    for userblock, version in ((0, "earliest"), (512, "earliest"), (0, "latest"), (1024, "latest")):
        with h5py.File(path, "w", libver=version, userblock_size=userblock) as file:
            file["x"] = np.zeros(100)
        data = path.read_bytes()
        superblock = Superblock.find(data)
        assert (superblock.offset, superblock.end) == (userblock, len(data))
        with formats.open_checkpoint(str(path)) as reader:
            assert list(reader) == ["x"]
        path.write_bytes(data[:-1])
        with pytest.raises(
            formats.CorruptCheckpointError, match=f"has {len(data) - 1} bytes.* says {len(data)}"
        ):
            formats.open_checkpoint(str(path))


def test_every_truncation_is_rejected_or_says_so(tmp_path):
    path = tmp_path / "cut.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros(10)
    data = path.read_bytes()
    for size in range(1, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(formats.CheckpointError) as caught:
            formats.open_checkpoint(str(path))
        assert caught.value.path == str(path)


def bomb(path) -> None:
    """512 MB of zeros, compressed twice, and 512 MB that were never written, in a few KB."""
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = np.ones(3, np.float32)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((1 << 27,))
        plist.set_deflate(9)
        plist.set_deflate(9)
        group = file["layers/dense/vars"].id
        kind = h5py.h5t.NATIVE_FLOAT
        dataset = h5py.h5d.create(group, b"1", kind, h5py.h5s.create_simple((1 << 27,)), plist)
        one = h5py.h5s.create_simple((1,))
        space = dataset.get_space()
        space.select_hyperslab((0,), (1,))
        dataset.write(one, space, np.zeros(1, np.float32))
        file.create_dataset("layers/dense/vars/2", (1 << 27,), "f4", chunks=(1 << 20,))
        file.create_dataset("layers/dense/vars/3", (1 << 27,), "f4")


WITHIN = """
import resource, sys
import h5py, numpy, formats
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with formats.open_checkpoint(sys.argv[1]) as reader:
    assert len(reader.specs) == 4
    reader["layers/dense/vars/0"].read()
    steps = list(reader.verify())
    for key in list(reader)[2:]:
        assert reader[key].read_slice((slice(5, 9, 1),)).tolist() == [0, 0, 0, 0]
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) // 1024, [finding.message for step in steps for finding in step.findings])
"""


def test_a_bomb_costs_no_memory_until_it_is_read(tmp_path):
    path = tmp_path / "bomb.weights.h5"
    bomb(path)
    assert os.path.getsize(path) < 100_000
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    megabytes, _, findings = done.stdout.partition(" ")
    assert int(megabytes) < 100
    assert "one chunk expands to 536870912 bytes" in findings


def test_an_absurd_shape_is_listed_and_not_allocated(tmp_path):
    path = str(tmp_path / "absurd.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (1 << 40, 1 << 18), "f4", chunks=(1, 1024))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    assert limit  # the process may have any; what matters is the error
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["x"].shape == (1 << 40, 1 << 18)
        with pytest.raises(formats.UnsupportedFeatureError, match="implausible for weights"):
            reader["x"].read()
        assert [step.tensors for step in reader.verify()]


@pytest.mark.parametrize("dtype", ["<f8", ">f8"])  # the first is read natively, the second by the library
def test_contiguous_values_have_to_are_in_the_file(tmp_path, dtype):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(50, dtype=dtype)
        offset = file["x"].id.get_offset()
    data = bytearray(path.read_bytes())
    at = data.index(b"\3\1" + offset.to_bytes(8, "little")) + 2  # in the layout message
    data[at : at + 8] = (len(data) - 8).to_bytes(8, "little")
    path.write_bytes(data)
    with formats.open_checkpoint(str(path), lenient=True) as reader:
        findings = [finding for step in reader.verify() for finding in step.findings]
        assert findings
        assert {finding.code for finding in findings} <= {"tensor-size", "hdf5-read"}
        assert {finding.key for finding in findings} == {"x"}
