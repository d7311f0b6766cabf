"""TensorFlow's files, decoded and written by our writers, are the same byte for byte.

Nothing is copied: every entry is encoded, every checksum computed, every block built again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats import open_checkpoint
from formats.tf.bundle.reader import BundleReader
from formats.wire.crc32c import MASKED_EMPTY
from tests.support import BUNDLES, data_path, recorded, shard_path
from tests.writing import decoded, files, in_file_order, save, slices_of, strings

if TYPE_CHECKING:
    from pathlib import Path

SINGLE = [
    golden["path"] for golden in recorded(*BUNDLES) if sum(".data-" in name for name in golden["files"]) == 1
]
V1_SINGLE = [golden["path"] for golden in recorded("tf-v1") if len(golden["files"]) == 1]


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_there_are_bundles_to_be_written_again() -> None:
    assert len(SINGLE) >= 165
    assert len(V1_SINGLE) >= 2


@pytest.mark.parametrize("how", ["chunks", "arrays"])
@pytest.mark.parametrize("path", SINGLE)
def test_bundle_is_written_as_tensorflow_wrote_it(path: str, how: str, tmp_path: Path) -> None:
    """Trap 1: blocks of 262,144 bytes, shortened separators; trap 11: keys are taken, never made of paths."""
    source, target = data_path(path), str(tmp_path / "ckpt-1")
    with open_checkpoint(source) as reader:
        writer = formats.create_checkpoint(
            target,
            format=reader.format.name,
            specs=reader.specs,
            object_graph=decoded(reader.object_graph),
            slices=slices_of(reader),
        )
        with writer:
            for key, extents, tensor in in_file_order(reader):
                if key not in writer.specs:
                    continue
                data = tensor.chunks(24) if how == "chunks" else tensor.read()
                if extents is None:
                    writer.write(key, data)
                else:
                    writer.write_slice(key, extents, data)
    assert content(target + ".index") == content(source + ".index")
    assert content(shard_path(target)) == content(shard_path(source))
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize("how", ["chunks", "arrays"])
@pytest.mark.parametrize("path", V1_SINGLE)
def test_v1_file_is_written_as_tensorflow_wrote_it(path: str, how: str, tmp_path: Path) -> None:
    """Trap 24: integers are sign-extended varints, halves are varints of their bits."""
    source, target = data_path(path), str(tmp_path / "ckpt-1")
    with open_checkpoint(source) as reader:
        slices = slices_of(reader)
        assert bool(slices) == path.startswith("v1_format/partitioned")
        with formats.create_checkpoint(target, format="tf-v1", specs=reader.specs, slices=slices) as writer:
            for key in writer.order:
                tensor = reader[key]
                writer.write(key, tensor.chunks(24) if how == "chunks" else tensor.read())
    assert content(target) == content(source)
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("path", [path for path in SINGLE if path.startswith("name_based/partitioned")])
def test_whole_tensor_is_cut_as_its_slices_were(path: str, tmp_path: Path) -> None:
    source, target = data_path(path), str(tmp_path / "ckpt-1")
    with open_checkpoint(source) as reader:
        slices = slices_of(reader)
        assert slices
        keys = list(dict.fromkeys(key for key, _, _ in in_file_order(reader)))
        with formats.create_checkpoint(target, format="tf-name", specs=reader.specs, slices=slices) as writer:
            for key in keys:
                writer.write(key, reader[key].chunks(12))
    assert content(target + ".index") == content(source + ".index")
    assert content(shard_path(target)) == content(shard_path(source))


def test_empty_tensors_store_the_checksum_of_nothing(tmp_path: Path) -> None:
    """Trap 5: without elements the checksum is still there, and strings are still four bytes."""
    save(tmp_path / "c", {"numbers": np.zeros((3, 0), np.float32), "strings": strings()})
    with open_checkpoint(str(tmp_path / "c")) as reader:
        assert isinstance(reader, BundleReader)
        assert reader["numbers"].stored.crc32c == MASKED_EMPTY
        assert reader["strings"].stored.crc32c == 0x640CC1F6
    assert os.path.getsize(shard_path(str(tmp_path / "c"))) == 4
