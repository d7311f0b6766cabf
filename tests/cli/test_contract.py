"""A listing with digests is a contract, to which `verify --against` and `diff` hold a checkpoint."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats.location import reachable
from formats.store.memory import MemoryStore
from formats.tf.run.state_file import StateFile
from tests.formats.test_contract import GOLDENS
from tests.sampling import turn
from tests.support import data_path, numbers, same, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable

FLIPS = 4
"""Bits that are flipped in each fixture, one at a time."""


@pytest.fixture
def lock(tmp_path: Path, ckpt: Callable) -> Callable[..., Path]:
    def make(path: object, *options: str) -> Path:
        done = ckpt("ls", "--json", "-l", "--digest", "sha256", path, *options)
        assert done.code == 0, done.err
        (tmp_path / "model.lock").write_text(done.out)
        return tmp_path / "model.lock"

    return make


def contract_findings(done: object) -> list[tuple[str, str]]:
    """Return key and message of what is another than listed."""
    (result,) = done.json["results"]  # type: ignore[attr-defined]
    assert all(found["code"] == "contract" for found in result["findings"])
    return [(found["key"], found["message"]) for found in result["findings"]]


TENSORS = {
    "a": np.zeros(3, np.float32),
    "b": np.zeros(3, np.float32),
    "c": np.zeros((2, 3), np.float32),
    "d": np.arange(4),
}
CHANGED = {**TENSORS, "b": np.ones(3, np.float32), "c": np.zeros((3, 2), np.float32), "d": np.arange(4.0)}


@pytest.fixture
def locked(tmp_path: Path, ckpt: Callable) -> Path:
    """Two folders of different weights, with the same lock file, which is newer than the model."""
    for name, value in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "model.npz", w=np.full(3, value, np.float32))
        os.utime(tmp_path / name / "model.npz", (1000, 1000))
        shown = ckpt("ls", "--json", "-l", tmp_path / "a" / "model.npz").out
        (tmp_path / name / "model.npz.lock").write_text(shown)
    return tmp_path


def test_a_folder_is_never_its_lock(locked: Path, ckpt: Callable) -> None:
    """Locks were compared, and called equal."""
    done = ckpt("diff", locked / "a", locked / "b")
    assert (done.code, done.rows[0][:2]) == (1, ["value", "w"])
    assert ckpt("diff", "--each", locked / "a", locked / "b").code == 1
    assert ckpt("show", locked / "b", "w").out.endswith("[2. 2. 2.]\n")
    assert [row[:2] for row in ckpt("ls", locked / "b").rows] == [["model.npz", "npz"]]
    assert [row[0] for row in ckpt("verify", locked / "b").rows] == [f"{locked}/b/model.npz"]
    assert [row[0] for row in ckpt("log", locked / "b").rows] == ["model.npz"]
    for command in ("ls", "log", "verify"):
        assert ".lock" not in ckpt(command, "-R", locked).out
    assert ckpt("convert", locked / "b", locked / "c.npz").code == 0
    assert ckpt("extract", locked / "b", "w", "-o", locked / "w.npy").code == 0
    assert np.array_equal(np.load(locked / "w.npy"), np.full(3, 2, np.float32))
    assert ckpt("average", "--last", "2", locked / "b", locked / "mean.npz").code != 0


def test_a_lock_is_read_where_it_is_named(locked: Path, ckpt: Callable) -> None:
    lock = locked / "b" / "model.npz.lock"
    assert ckpt("diff", lock, locked / "b", "--no-values").code == 0
    assert ckpt("ls", lock).rows[0][0] == "w"
    (locked / "b" / "model.npz").unlink()
    done = ckpt("diff", locked / "a", locked / "b")
    assert done.code == 1
    assert f"hint: to read a saved listing, pass its name: {lock}" in done.err
    assert ckpt("state", "--set", "model.npz.lock", locked / "b").code == 3


def test_keep_deletes_no_lock(locked: Path, ckpt: Callable) -> None:
    """It was the newest, and the one that was kept."""
    run = locked / "run"
    run.mkdir()
    for at, name in enumerate(("older", "newer")):
        write_bundle(str(run / name), {"w": np.float32(at)})
        os.utime(run / f"{name}.index", (1000 + at, 1000 + at))
        (run / f"{name}.lock").write_text((locked / "a" / "model.npz.lock").read_text())
    assert ckpt("state", "--keep", "1", run).code == 0
    assert {path.name for path in run.iterdir()} >= {"newer.index", "newer.lock", "older.lock"}
    assert not (run / "older.index").exists()


def test_fix_takes_a_listing_off_the_list(locked: Path, ckpt: Callable) -> None:
    run = locked / "run"
    run.mkdir()
    write_bundle(str(run / "c-1"), {"w": np.float32(1)})
    (run / "c-2.lock").write_text((locked / "a" / "model.npz.lock").read_text())
    (run / "checkpoint").write_bytes(StateFile("c-2.lock", ("c-1", "c-2.lock")).text())
    done = ckpt("state", "--fix", run)
    assert ["drop", "c-2.lock", "is a saved listing", "0"] in done.rows
    assert ["set", "c-1", "the latest was c-2.lock, which is a saved listing", "0"] in done.rows


def test_what_was_changed_is_found_by_name(tmp_path: Path, ckpt: Callable, lock: Callable) -> None:
    write_bundle(str(tmp_path / "left-1"), {**TENSORS, "gone": np.int64(1)})
    write_bundle(str(tmp_path / "right-1"), {**CHANGED, "new": np.int64(1)})
    model = lock(tmp_path / "left-1")
    assert ckpt("verify", tmp_path / "left-1", "--against", model).code == 0
    done = ckpt("verify", tmp_path / "right-1", "--against", model, "--json")
    assert done.code == 1
    (values,) = (message for key, message in contract_findings(done) if key == "b")
    assert values.startswith("the values have digest sha256:")
    assert [found for found in contract_findings(done) if found[0] != "b"] == [
        ("c", f"the shape is [3, 2], but {model} has [2, 3]"),
        ("d", f"the dtype is float64, but {model} has int64"),
        ("gone", f"the tensor is missing: {model} lists it as int64 of shape []"),
        ("new", f"the tensor is new: {model} does not list it"),
    ]
    rows = {row[1]: row[0] for row in ckpt("diff", model, tmp_path / "right-1").rows}
    assert rows == {"b": "value", "c": "shape", "d": "dtype", "gone": "removed", "new": "added"}
    shown = ckpt("verify", tmp_path / "right-1", "--against", model)
    assert shown.rows[0][1] == "other"  # sound, but not what was listed
    assert "rescue" not in shown.err


@pytest.mark.parametrize("name", ["out.safetensors", "out.npz", "out.json", "run-1"])
def test_the_same_values_in_another_format_keep_the_contract(
    tmp_path: Path, ckpt: Callable, lock: Callable, name: str
) -> None:
    write_bundle(str(tmp_path / "left-1"), TENSORS)
    model = lock(tmp_path / "left-1")
    to = ["--to", "listing"] if name.endswith(".json") else []
    assert ckpt("convert", tmp_path / "left-1", tmp_path / name, *to).code == 0
    if to:
        assert ckpt("diff", model, tmp_path / name).code == 0  # two listings, by their checksums
        return
    done = ckpt("verify", tmp_path / name, "--against", model)
    assert (done.code, done.err) == (0, "")
    assert ckpt("diff", model, tmp_path / name).code == 0


@pytest.mark.parametrize(("name", "path"), GOLDENS, ids=lambda text: text)
def test_a_flipped_bit_is_found_in_every_format(
    tmp_path: Path, ckpt: Callable, lock: Callable, name: str, path: str
) -> None:
    """Anywhere in the file: if it is not found, no value has changed."""
    folder = tmp_path / "there"
    shutil.copytree(os.path.dirname(data_path(path)), folder)
    place = folder / os.path.basename(path)
    model = lock(place)
    with formats.open_checkpoint(place) as reader:
        truth = {key: reader[key].read() for key in reader}
        files = reader.files()
    chance = random.Random(path)
    for file in (chance.choice(files) for _ in range(FLIPS)):
        with open(file, "r+b") as raw:
            data = raw.read()
            bit = chance.randrange(8 * len(data))
            raw.seek(bit // 8)
            raw.write(bytes((data[bit // 8] ^ 1 << bit % 8,)))
        if ckpt("verify", place, "--against", model).code == 0:
            with formats.open_checkpoint(place) as reader:
                assert all(same(reader[key].read(), value) for key, value in truth.items()), (file, bit)
        with open(file, "wb") as raw:
            raw.write(data)


UNCHECKED = turn(["safetensors", "h5", "pth"], 2, 0)


@pytest.mark.parametrize("suffix", UNCHECKED)
def test_every_bit_of_a_value_counts_where_nothing_stores_a_checksum(
    tmp_path: Path, ckpt: Callable, lock: Callable, suffix: str
) -> None:
    values = np.frombuffer(b"\1\2\3\4\5\6\7\xfe", np.uint8)
    place = tmp_path / f"model.{suffix}"
    if suffix == "pth":
        data = bytearray(Path(data_path("pytorch", "legacy.pth")).read_bytes())
        with formats.open_checkpoint(data_path("pytorch", "legacy.pth")) as reader:
            key = next(key for key, spec in reader.specs.items() if (spec.nbytes or 0) >= 8)
            values = reader[key].read().reshape(-1).view(np.uint8)[:8]
    else:
        write_bundle(str(tmp_path / "one"), {"v": values, "w": np.ones(2, np.float32)})
        assert ckpt("convert", tmp_path / "one", place, "--to", {"h5": "hdf5"}.get(suffix, suffix)).code == 0
        data = bytearray(place.read_bytes())
    place.write_bytes(data)
    model = lock(place)
    at = data.index(values.tobytes())
    for bit in range(0, 64, 7):
        data[at + bit // 8] ^= 1 << bit % 8
        place.write_bytes(data)
        done = ckpt("verify", place, "--against", model, "--json")
        assert (done.code, len(contract_findings(done))) == (1, 1), bit
        data[at + bit // 8] ^= 1 << bit % 8


def test_a_checkpoint_in_a_store_is_held_to_it(tmp_path: Path, ckpt: Callable, lock: Callable) -> None:
    write_bundle(str(tmp_path / "left-1"), TENSORS)
    model = lock(tmp_path / "left-1")
    store = MemoryStore()
    with reachable(store):
        for name in ("left-1.index", "left-1.data-00000-of-00001"):
            store.put(f"mem://run/{name}", (tmp_path / name).read_bytes())
        assert ckpt("verify", "mem://run/left-1", "--against", model).code == 0
        assert (
            ckpt("ls", "--digest", "sha256", "mem://run/left-1").out
            == ckpt("ls", "--digest", "sha256", tmp_path / "left-1").out
        )


@pytest.mark.parametrize("suffix", ["", ".npz", ".h5", ".safetensors"])
def test_damage_hides_no_other_difference(
    tmp_path: Path, ckpt: Callable, lock: Callable, suffix: str
) -> None:
    """After damage, nothing was compared with the lock file."""
    many = {"hit": np.arange(500, dtype=np.float32), **TENSORS}
    write_bundle(str(tmp_path / "left-1"), {**many, "gone": np.int64(1)})
    model = lock(tmp_path / "left-1")
    write_bundle(str(tmp_path / "right-1"), {**many, **CHANGED, "new": np.int64(1)})
    place = tmp_path / f"right-1{suffix}"
    if suffix:
        to = ("--to", "hdf5") if suffix == ".h5" else ()
        assert ckpt("convert", tmp_path / "right-1", place, *to).code == 0
    file = Path(f"{place}.data-00000-of-00001") if not suffix else place
    data = bytearray(file.read_bytes())
    data[data.index(np.arange(100, 104, dtype=np.float32).tobytes())] ^= 1
    file.write_bytes(data)
    done = ckpt("verify", place, "--against", model, "--json")
    assert done.code == 1
    (result,) = done.json["results"]
    told = {(found["key"], found["code"]) for found in result["findings"]}
    hit = "tensor-checksum" if suffix in ("", ".npz") else "contract"  # as far as there are checksums
    assert told == {("hit", hit), *((key, "contract") for key in ("b", "c", "d", "gone", "new"))}


def test_what_a_damaged_index_lost_is_named(tmp_path: Path, ckpt: Callable, lock: Callable) -> None:
    many = {f"k{number:03}": np.float32(number) for number in range(400)}
    write_bundle(str(tmp_path / "left-1"), many, block_size=512)
    model = lock(tmp_path / "left-1")
    write_bundle(str(tmp_path / "left-1"), {**many, "k399": np.float32(0)}, block_size=512)
    with open(tmp_path / "left-1.index", "r+b") as file:
        file.write(b"\xff" * 8)
    done = ckpt("verify", tmp_path / "left-1", "--against", model, "--json")
    (result,) = done.json["results"]
    told = {found["key"]: found["message"] for found in result["findings"] if found["code"] == "contract"}
    assert done.code == 1
    assert "block-checksum" in {found["code"] for found in result["findings"]}
    assert told["k000"].startswith("the tensor is missing: ")
    assert told["k399"].startswith("the values have digest ")
    assert 1 < len(told) < 100


def test_what_is_not_a_contract_is_rejected(tmp_path: Path, ckpt: Callable) -> None:
    prefix = str(tmp_path / "left-1")
    write_bundle(prefix, TENSORS)
    (tmp_path / "bare.json").write_text(ckpt("ls", "--json", "-l", prefix).out)
    done = ckpt("verify", prefix, "--against", tmp_path / "bare.json")
    assert (done.code, done.out) == (3, "")
    assert "'a': the listing has no digest" in done.err
    assert "--digest" in done.err
    done = ckpt("verify", prefix, "--against", prefix)
    assert done.code == 3
    assert "expected a saved listing" in done.err
    document = json.loads((tmp_path / "bare.json").read_text())
    document["tensors"][0]["digest"] = "crc32c:12345"
    (tmp_path / "bad.json").write_text(json.dumps(document))
    done = ckpt("verify", prefix, "--against", tmp_path / "bad.json")
    assert (done.code, "digest 'crc32c:12345'" in done.err) == (3, True)


def test_a_sha256_counts_more_than_an_equal_checksum(tmp_path: Path, ckpt: Callable, lock: Callable) -> None:
    write_bundle(str(tmp_path / "left-1"), TENSORS)
    path = lock(tmp_path / "left-1")
    document = json.loads(path.read_text())
    document["tensors"][1]["digest"] = "sha256:" + "0" * 64
    path.write_text(json.dumps(document))
    assert ckpt("diff", path, tmp_path / "left-1").rows[0][:2] == ["value", "b"]


def test_a_contract_of_an_index_alone_is_held_by_the_index(tmp_path: Path, ckpt: Callable) -> None:
    os.mkdir(tmp_path / "lone")
    write_bundle(str(tmp_path / "left-1"), {"s": strings([b"a"]), "n": numbers(np.ones(2))})
    shutil.copy(tmp_path / "left-1.index", tmp_path / "lone")
    done = ckpt("ls", "--json", "--digest", "crc32c", tmp_path / "lone" / "left-1.index")
    assert done.code == 0
    (tmp_path / "lone.json").write_text(done.out)
    assert ckpt("verify", tmp_path / "left-1", "--against", tmp_path / "lone.json").code == 0
    assert ckpt("diff", tmp_path / "lone.json", tmp_path / "left-1").code == 0
    write_bundle(str(tmp_path / "left-1"), {"s": strings([b"b"]), "n": numbers(np.ones(2))})
    done = ckpt("verify", tmp_path / "left-1", "--against", tmp_path / "lone.json", "--json")
    assert [key for key, _ in contract_findings(done)] == ["s"]


def test_a_pointer_of_git_lfs_is_one_line(tmp_path: Path, ckpt: Callable) -> None:
    pointer = tmp_path / "model.h5"
    pointer.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0a' * 32}\nsize 12345\n")
    done = ckpt("ls", "--digest", "crc32c", pointer)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"(Git LFS pointer)\t\t\t12345\tsha256:{'0a' * 32}\n"
    done = ckpt("ls", "--digest", "crc32c", "--json", pointer)  # a contract of a pointer would hold nothing
    assert (done.code, done.out) == (3, "")


def test_a_lock_has_a_line_for_each_tensor_and_is_the_same_each_time(
    tmp_path: Path, ckpt: Callable, lock: Callable
) -> None:
    write_bundle(str(tmp_path / "left-1"), TENSORS)
    text = lock(tmp_path / "left-1").read_text()
    assert text == lock(tmp_path / "left-1", "-j", "3").read_text()
    lines = text.splitlines()
    assert [json.loads(line.rstrip(","))["key"] for line in lines[1:-1]] == sorted(TENSORS)


@pytest.mark.parametrize("turned", [False, True])
def test_digests_for_diff_are_found_in_parallel(
    tmp_path: Path, ckpt: Callable, lock: Callable, *, turned: bool
) -> None:
    """They were computed one by one, by the process that compares."""
    np.savez(tmp_path / "left.npz", **{f"k{n}": np.full(1 << 19, n, np.float64) for n in range(8)})
    assert ckpt("convert", tmp_path / "left.npz", tmp_path / "left.safetensors").code == 0
    sides = [lock(tmp_path / "left.safetensors"), tmp_path / "left.safetensors"]
    line = ("diff", *(reversed(sides) if turned else sides), "--executor", "threads:2", "-v")
    done = ckpt(*line)
    assert (done.code, done.out) == (0, "")
    assert f"{8 << 22:,} bytes" in done.err.partition("sent to workers: ")[2], done.err
