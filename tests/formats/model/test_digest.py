"""Digests: those of the manifest, in every format, however they are computed and by however many."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats.errors import ChecksumError, UnsupportedFeatureError
from formats.model.digest import digests, digests_like
from formats.store import ranges
from formats.store.work import workers
from formats.tf.bundle.slices import slice_key
from formats.wire.crc32c import crc32c, unmask
from formats.wire.messages import BundleHeaderProto
from tests.sampling import turn
from tests.support import (
    FORMAT_IDS,
    data_path,
    manifest,
    numbers,
    partitioned,
    shard_path,
    strings,
    variants,
    write_bundle,
)

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = [entry for entry in manifest()["checkpoints"] if entry["format"] in FORMAT_IDS]
SAMPLE = turn(RECORDED, 30, 0)


def unread(entry: dict) -> set[str]:
    """Return the keys without values in the truth: of a partitioned tensor not every slice was saved."""
    return {tensor["key"] for tensor in entry["tensors"] if tensor["sha256"] is None}


def found(path: object, algorithm: str, **settings: bool) -> dict[str, str | None]:
    with formats.open_checkpoint(str(path)) as reader:
        return dict(digests(reader, list(reader), algorithm, **settings))


@pytest.mark.parametrize("entry", SAMPLE, ids=lambda entry: entry["path"])
def test_sha256_is_the_manifests(entry: dict) -> None:
    """Of HDF5 files it has dataset paths for keys, and other datasets than weights."""
    recorded = {t["key"]: f"sha256:{t['sha256']}" for t in entry["tensors"] if t["sha256"] is not None}
    with formats.open_checkpoint(data_path(entry["path"])) as reader:
        computed = dict(digests(reader, [key for key in reader if key not in unread(entry)], "sha256"))
    if entry["format"].startswith(("h5", "keras3")):
        assert not Counter(computed.values()) - Counter(recorded.values())
    else:
        assert recorded == {key: computed[key] for key in recorded}


@pytest.mark.parametrize("entry", turn(RECORDED, 10, 0), ids=lambda entry: entry["path"])
def test_a_stored_crc32c_is_the_computed_one(entry: dict) -> None:
    with formats.open_checkpoint(data_path(entry["path"])) as reader:
        keys = [key for key in reader if key not in unread(entry)]
        stored, computed = (dict(digests(reader, keys, "crc32c", exact=exact)) for exact in (False, True))
    assert stored == computed


def test_crc32c_is_of_little_endian_bytes_and_of_strings_with_their_lengths(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    texts = [b"one", b"", b"three"]
    swapped = {
        "n": numbers(values, big_endian=True),
        "p": partitioned(values, [((0, 1), (0, -1)), ((1, 1), (0, -1))]),
    }
    write_bundle(
        str(tmp_path / "big"), {"n": swapped["n"]}, header=BundleHeaderProto(num_shards=1, endianness=1)
    )
    write_bundle(
        str(tmp_path / "little"),
        {"n": values, "p": swapped["p"], "s": strings(texts), "v": variants([b"ab"])},
    )
    number = f"crc32c:{crc32c(values.tobytes()):08x}"
    text = b"".join(struct.pack("<Q", len(each)) + each for each in texts)
    variant = f"crc32c:{crc32c(struct.pack('<Q', 2) + b'ab'):08x}"
    assert found(tmp_path / "big", "crc32c") == {"n": number}
    expected = {"n": number, "p": number, "s": f"crc32c:{crc32c(text):08x}", "v": variant}
    assert found(tmp_path / "little", "crc32c") == expected
    assert found(tmp_path / "little", "sha256")["s"] == f"sha256:{hashlib.sha256(text).hexdigest()}"


def test_digests_do_not_depend_on_who_computes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal((900, 7)).astype(np.float32)
    tensors = {"a": values, "b": values[:0], "c": values[3], "s": strings([b"x"]), "z": values[::-1].copy()}
    write_bundle(str(tmp_path / "many-1"), tensors)
    whole = {each: found(tmp_path / "many-1", each, exact=True) for each in ("crc32c", "sha256")}
    monkeypatch.setattr(ranges, "TASK_BYTES", 1 << 12)
    monkeypatch.setattr(workers, "TASK_BYTES", 1 << 12)
    for algorithm, expected in whole.items():
        with formats.open_checkpoint(tmp_path / "many-1") as reader, workers.workers(3) as pool:
            assert dict(digests(reader, list(reader), algorithm, pool, exact=True)) == expected


def test_an_index_without_shards_shows_what_it_has(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    extents = [((1, 1), (0, -1)), ((0, 1), (0, -1))]
    tensors = {"n": values, "p": partitioned(values, extents), "s": strings([b"ab"])}
    entries = write_bundle(str(tmp_path / "lone"), tensors)
    os.unlink(shard_path(str(tmp_path / "lone")))
    with formats.open_checkpoint(tmp_path / "lone.index") as reader:
        assert reader.is_index_alone
        told = dict(digests(reader, list(reader), "crc32c", of_index=True))
    keys = sorted(slice_key(b"p", each) for each in extents)
    sums = b"".join(key + struct.pack("<I", entries[key].crc32c) for key in keys)
    assert told == {
        "n": f"crc32c:{unmask(entries[b'n'].crc32c):08x}",
        "p": f"slices:{crc32c(sums):08x}",
        "s": f"stored:{entries[b's'].crc32c:08x}",
    }


def test_what_is_read_is_checked(tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "flipped"), {"n": np.ones(4, np.float32), "s": strings([b"ab"])})
    with open(shard_path(str(tmp_path / "flipped")), "r+b") as file:
        file.write(b"\1")
    for algorithm, settings in (("sha256", {}), ("crc32c", {"exact": True})):
        with pytest.raises(ChecksumError, match="checksum") as caught:
            found(tmp_path / "flipped", algorithm, **settings)
        assert caught.value.key == "n"


def test_bools_are_digested_as_they_are_stored(tmp_path: Path) -> None:
    import h5py

    header = b'{"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}'
    path = tmp_path / "odd.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\1\3")
    assert found(path, "crc32c") == {"b": f"crc32c:{crc32c(bytes((1, 3))):08x}"}
    with h5py.File(tmp_path / "odd.h5", "w") as file:
        file["b"] = np.array([True, False])
        place = file["b"].id.get_offset()
    with open(tmp_path / "odd.h5", "r+b") as raw:
        raw.seek(place)
        raw.write(b"\3")
    assert found(tmp_path / "odd.h5", "crc32c") == {"b": f"crc32c:{crc32c(bytes((3, 0))):08x}"}


def test_an_undecoded_entry_has_none(tmp_path: Path) -> None:
    shutil.copytree(data_path("corrupt", "entry_garbage"), tmp_path / "there")
    with formats.open_checkpoint(tmp_path / "there" / "ckpt") as reader:
        bad = next(key for key, spec in reader.specs.items() if spec.dtype.name == "invalid")
        assert dict(digests(reader, [bad], "sha256")) == {bad: None}
        with pytest.raises(formats.CheckpointError, match="cannot be decoded"):
            dict(digests_like(reader, {bad: "crc32c:00000000"}))


def test_what_only_an_index_knows_compares_with_an_index_alone() -> None:
    with formats.open_checkpoint(data_path("interop", "weights.npz")) as reader:
        key = next(iter(reader))
        with pytest.raises(UnsupportedFeatureError, match="comes from an index"):
            dict(digests_like(reader, {key: "stored:00000000"}))
