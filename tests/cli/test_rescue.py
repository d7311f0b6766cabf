"""`ckpt rescue`: what is intact is saved as it was, what is lost is named, the damaged one is left alone."""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import signal
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.tf.bundle.index import OBJECT_GRAPH_KEY
from tests.support import data_path, numbers, partitioned, same, shard_path, strings, write_bundle
from tests.writing import files, read_all, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GRAPH = OBJECT_GRAPH_KEY.decode()
GOOD = data_path("corrupt", "good", "ckpt")
SAVED, LOST, NOTHING = 0, 1, 3

# Fixture -> exit code, tensors proved, not proved, lost (the object graph among them where it is kept).
BUNDLES: dict[str, tuple[int, int, int, int]] = {
    "data_cut": (LOST, 14, 0, 1),
    "data_flip": (LOST, 13, 0, 1),
    "entry_crc": (LOST, 13, 0, 1),
    "entry_dtype_other": (LOST, 13, 0, 1),
    "entry_dtype_unknown": (LOST, 13, 0, 1),
    "entry_garbage": (LOST, 13, 0, 1),
    "entry_offset_negative": (LOST, 13, 0, 1),
    "entry_offset_past_end": (LOST, 13, 0, 1),
    "entry_shape_huge": (LOST, 13, 0, 1),
    "entry_shape_negative": (LOST, 13, 0, 1),
    "entry_shape_overflow": (LOST, 13, 0, 1),
    "entry_shard_out_of_range": (LOST, 13, 0, 1),
    "entry_size_absurd": (LOST, 13, 0, 1),
    "entry_size_small": (LOST, 13, 0, 1),
    "good": (SAVED, 15, 0, 0),
    "graph_absent": (SAVED, 13, 0, 0),
    "graph_child_far": (SAVED, 13, 0, 0),
    "graph_child_negative": (SAVED, 13, 0, 0),
    "graph_cut": (LOST, 13, 0, 1),
    "graph_cycle": (SAVED, 14, 0, 0),
    "graph_empty": (LOST, 13, 0, 1),
    "graph_key_missing": (SAVED, 13, 0, 0),
    "graph_name_twice": (SAVED, 14, 0, 0),
    "graph_slot_far": (SAVED, 13, 0, 0),
    "handle_past_end": (LOST, 0, 0, 0),
    "header_big_endian": (SAVED, 15, 0, 0),
    "header_missing": (SAVED, 15, 0, 0),
    "header_newer": (SAVED, 15, 0, 0),
    "header_shards_huge": (SAVED, 15, 0, 0),
    "index_cut_footer": (SAVED, 15, 0, 0),
    "index_cut_half": (LOST, 0, 6, 8),
    "index_flip": (LOST, 0, 14, 1),
    "index_flip_footer": (SAVED, 15, 0, 0),
    "index_magic": (SAVED, 15, 0, 0),
    "keys_unsorted": (SAVED, 15, 0, 0),
    "shard_missing": (LOST, 4, 0, 2),
    "shard_swapped": (LOST, 2, 0, 4),
    "state_empty": (SAVED, 15, 0, 0),
    "state_garbage": (SAVED, 15, 0, 0),
    "state_no_path": (SAVED, 15, 0, 0),
    "state_unknown_field": (SAVED, 15, 0, 0),
}
NOTHING_LEFT = ("data_empty", "data_missing", "index_cut_tiny", "index_empty", "index_missing", "index_text")
OTHERS = {
    "h5_cut": "weights.h5",
    "h5_cut_end": "weights.h5",
    "h5_empty": "weights.h5",
    "h5_flip": "weights.h5",
    "h5_signature": "weights.h5",
    "h5_text": "weights.h5",
    "v1_cut": "model.ckpt",
    "v1_empty": "model.ckpt",
    "v1_flip": "model.ckpt",
    "v1_shard_missing": "model.ckpt-1",
    "varint_huge": "ckpt",
}


def test_every_damaged_fixture_is_tried() -> None:
    names = set(os.listdir(data_path("corrupt"))) - {"facts.json"}
    assert names == {*BUNDLES, *NOTHING_LEFT, *OTHERS}


def counts(document: dict[str, Any]) -> tuple[int, int, int]:
    proved = sum(row["proof"] is not None for row in document["tensors"])
    return proved, len(document["tensors"]) - proved, len(document["lost"])


def check_output(ckpt: Callable[..., Any], out: Path, expected: dict[str, Any]) -> None:
    """Compare the output with the expected values, bit for bit, and run `ckpt verify`."""
    found = read_all(out)
    for key, array in found.items():
        if key != GRAPH and key in expected:
            assert same(array, expected[key]), key
    verified = ckpt("verify", out, "--json")
    assert verified.code == 0, verified.out


@pytest.mark.parametrize("name", sorted(BUNDLES))
def test_damaged_bundles(name: str, tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    code, *expected = BUNDLES[name]
    before = files(data_path("corrupt", name))
    done = ckpt("rescue", data_path("corrupt", name, "ckpt"), tmp_path / "out", "--json")
    assert files(data_path("corrupt", name)) == before
    if name == "handle_past_end":  # its block is found, and its data are another checkpoint's
        code, expected = LOST if done.json["lost"] else SAVED, list(counts(done.json))
        assert expected[0] == 4
    assert (done.code, *counts(done.json)) == (code, *expected)
    assert done.json["verified"]
    source = read_all(GOOD) if "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE" in done.out else {}
    if name != "graph_name_twice":  # verify rightly reports it
        check_output(ckpt, tmp_path / "out", source if not name.startswith("graph_") else {})


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_nothing_left(name: str, tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    done = ckpt("rescue", data_path("corrupt", name, "ckpt"), tmp_path / "out")
    assert done.code == NOTHING
    assert done.err.startswith("ckpt: error:") or "ckpt: error:" in done.err
    assert ("--sibling" in done.err) == name.startswith("index_")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["corrupt/index_text/ckpt", "corrupt/h5_text/weights.h5", "there/is/none"])
def test_a_source_that_cannot_be_opened_is_a_document_too(
    path: str, tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    told = ckpt("rescue", data_path(path), tmp_path / "out")
    done = ckpt("rescue", data_path(path), tmp_path / "out", "--json")
    assert (done.code, told.code) == (NOTHING, NOTHING)
    assert (done.err, told.out) == (told.err, "")
    (lost,) = done.json["lost"]
    assert lost["key"] is None
    assert lost["reason"][:20] in done.err
    empty = {"format": None, "tensors": [], "unproved": [], "graph": None}
    empty |= {"verified": False, "verification": "none"}
    assert {name: done.json[name] for name in empty} == empty
    assert done.json["schema"] == 1


@pytest.mark.parametrize(
    "name", sorted(name for name in (*BUNDLES, *NOTHING_LEFT) if name.startswith("index_"))
)
def test_index_rebuilt_by_a_sibling(name: str, tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    done = ckpt("rescue", data_path("corrupt", name, "ckpt"), tmp_path / "out", "--sibling", GOOD, "--json")
    assert (done.code, *counts(done.json)) == (SAVED, 15, 0, 0), done.err
    assert done.json["graph"] == "kept"
    check_output(ckpt, tmp_path / "out", read_all(GOOD))


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_other_formats(name: str, tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    source = data_path("corrupt", name, OTHERS[name])
    out = tmp_path / ("out.h5" if name.startswith("h5_") else "out")
    before = files(data_path("corrupt", name))
    done = ckpt("rescue", source, out)
    assert files(data_path("corrupt", name)) == before
    if name in ("h5_cut_end", "h5_flip", "h5_signature"):
        assert done.code == SAVED
        assert [row[0] for row in done.rows] == ["unproved"] * 4
        intact = read_all(data_path("corrupt", "h5_flip", "weights.h5"))
        differing = [key for key, array in read_all(out).items() if not same(array, intact[key])]
        assert len(differing) <= 1  # h5_flip has another value in one
    elif name == "v1_shard_missing":
        assert done.code == LOST
        assert [row[0] for row in done.rows] == ["saved", "lost"]
        assert "is missing; its tensors are unknown" in done.rows[1][4]
    else:
        assert done.code == NOTHING
        assert done.err.startswith("ckpt: error:")
        assert not out.exists()


# An index in part ------------------------------------------------------------------


def many(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {f"layer_{at:03d}/w": rng.standard_normal((3, 4)) for at in range(60)}
    return {"frozen": np.arange(7), **arrays, "layer_000/steps": np.arange(5) + seed}


def flip(path: str, offset: int, bit: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes((byte ^ 1 << bit,)))


def test_other_blocks_are_used(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    arrays = many(1)
    write_bundle(str(tmp_path / "c"), arrays, block_size=400)
    flip(str(tmp_path / "c.index"), 20)
    done = ckpt("rescue", tmp_path / "c", tmp_path / "out", "--json")
    proved, doubted, _ = counts(done.json)
    assert done.code == LOST
    assert proved > 40
    assert 0 < proved + doubted < len(arrays)
    (unknown,) = (row for row in done.json["lost"] if row["key"] is None)
    assert "this block holds the keys" in unknown["reason"]
    check_output(ckpt, tmp_path / "out", arrays)


@pytest.mark.parametrize("compress", [False, True])
def test_blocks_before_a_cut_are_used(compress: bool, tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    arrays = many(1)
    write_bundle(str(tmp_path / "c"), arrays, block_size=400, compress=compress)
    os.truncate(tmp_path / "c.index", os.path.getsize(tmp_path / "c.index") // 2)
    done = ckpt("rescue", tmp_path / "c", tmp_path / "out", "--json")
    proved, _, _ = counts(done.json)
    assert done.code == LOST
    assert 15 < proved < len(arrays)
    check_output(ckpt, tmp_path / "out", arrays)


@pytest.mark.parametrize("footer", [True, False])
@pytest.mark.parametrize("compress", [False, True])
def test_a_key_too_long_to_be_read_is_lost_alone(
    footer: bool, compress: bool, tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    """Rescue failed for all tensors, since nothing reads such a key back from what it had written."""
    arrays = {"a": np.arange(3.0), b"k" * 2_000_000: np.arange(4.0), "z": np.arange(5.0)}
    write_bundle(str(tmp_path / "c"), arrays, compress=compress)
    if not footer:
        os.truncate(tmp_path / "c.index", os.path.getsize(tmp_path / "c.index") - 48)
    done = ckpt("rescue", tmp_path / "c", tmp_path / "out", "--json")
    assert (done.code, *counts(done.json)) == (LOST, 2, 0, 1)
    (lost,) = done.json["lost"]
    assert (lost["key"], lost["code"], lost["file"]) == (None, "entry", str(tmp_path / "c.index"))
    assert "a key of 2000000 bytes, but at most 1048576 are supported: 'kkkkkkkk" in lost["reason"]
    assert len(done.out) < 2000
    check_output(ckpt, tmp_path / "out", {"a": arrays["a"], "z": arrays["z"]})


def test_a_key_too_long_to_be_read_is_lost_next_to_a_sibling_and_a_graph(
    tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    good = {key: array for key, array in read_all(GOOD).items() if key != GRAPH}
    with formats.open_checkpoint(GOOD) as reader:
        stored = {GRAPH: strings([reader[GRAPH].read()[()]], ())}
    numeric = {key: array for key, array in good.items() if array.dtype != object}
    write_bundle(str(tmp_path / "c"), {**stored, **numeric, b"k" * 2_000_000: np.arange(4.0)})
    for more in ((), ("--sibling", GOOD)):
        out = tmp_path / f"out{len(more)}"
        done = ckpt("rescue", tmp_path / "c", out, "--json", *more)
        assert done.code == LOST
        assert [row["code"] for row in done.json["lost"] if row["key"] is None] == ["entry"]
        assert set(numeric) <= set(read_all(out))


def test_keys_of_a_megabyte_are_saved(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    arrays = {"a": np.arange(3.0), "k" * (1 << 20): np.arange(4.0)}
    write_bundle(str(tmp_path / "c"), arrays)
    done = ckpt("rescue", tmp_path / "c", tmp_path / "out", "--json")
    assert (done.code, *counts(done.json)) == (SAVED, 2, 0, 0)
    check_output(ckpt, tmp_path / "out", arrays)


def test_more_long_keys_than_are_read_are_lost_and_counted(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    arrays = {f"{number:02}" + "k" * 1_000_000: np.arange(3.0) + number for number in range(12)}
    write_bundle(str(tmp_path / "c"), arrays)
    listed = ckpt("ls", tmp_path / "c")
    assert listed.code == NOTHING
    assert "more than is supported" in listed.err or "keys of" in listed.err
    done = ckpt("rescue", tmp_path / "c", tmp_path / "out", "--json")
    assert (done.code, *counts(done.json)[:2]) == (LOST, 8, 0)
    assert any("entries are left out" in row["reason"] for row in done.json["lost"])
    check_output(ckpt, tmp_path / "out", arrays)


def test_an_index_of_nothing_has_nothing_to_save(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    """It was a traceback: no finding says why there is nothing."""
    write_bundle(str(tmp_path / "c"), {})
    done = ckpt("rescue", tmp_path / "c", tmp_path / "out")
    assert done.code == NOTHING
    assert done.err == f"ckpt: error: {tmp_path / 'c.index'}: the index is intact, but lists no tensors\n"


def test_sibling_proves_what_did_not_change_and_says_what_it_cannot_prove(
    tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    old, new = many(1), many(2)
    write_bundle(str(tmp_path / "c-1"), old)
    write_bundle(str(tmp_path / "c-2"), new)
    os.unlink(tmp_path / "c-2.index")
    before = files(tmp_path)
    done = ckpt("rescue", tmp_path / "c-2", tmp_path / "out" / "c", "--sibling", tmp_path / "c-1", "--json")
    assert (done.code, *counts(done.json)) == (SAVED, 1, len(old) - 1, 0)
    proofs = {row["to"]: row["proof"] for row in done.json["tensors"]}
    assert proofs["frozen"] == "sibling"
    assert {row["key"] for row in done.json["unproved"]} == set(old) - {"frozen"}
    assert "its checksum is unknown" in done.json["unproved"][0]["reason"]
    check_output(ckpt, tmp_path / "out" / "c", new)
    assert {name: data for name, data in files(tmp_path).items() if not name.startswith("out")} == before


def test_blocks_that_are_left_prove_next_to_a_sibling(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    old, new = many(1), many(2)
    write_bundle(str(tmp_path / "c-1"), old, block_size=400)
    write_bundle(str(tmp_path / "c-2"), new, block_size=400)
    os.truncate(tmp_path / "c-2.index", os.path.getsize(tmp_path / "c-2.index") // 2)
    done = ckpt("rescue", tmp_path / "c-2", tmp_path / "out", "--sibling", tmp_path / "c-1", "--json")
    proved, doubted, lost = counts(done.json)
    assert (done.code, proved + doubted, lost) == (SAVED, len(new), 0)
    assert proved > 15
    check_output(ckpt, tmp_path / "out", new)


def test_sibling_whose_strings_have_other_lengths(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    """An iterator's state grows; later data has moved, and stores its own length."""
    sizes = {"c-1": (b"a", b"bc"), "c-2": (b"a" * 300, b"")}
    for name, texts in sizes.items():
        arrays = {"a": np.arange(4), "s": strings(texts), "z": np.arange(9) + len(texts[0])}
        write_bundle(str(tmp_path / name), arrays)
    expected = read_all(tmp_path / "c-2")
    os.unlink(tmp_path / "c-2.index")
    done = ckpt("rescue", tmp_path / "c-2", tmp_path / "out", "--sibling", tmp_path / "c-1", "--json")
    assert (done.code, *counts(done.json)) == (SAVED, 1, 2, 0)
    found = read_all(tmp_path / "out")
    assert all(same(found[key], expected[key]) for key in expected)


def test_layout_that_does_not_end_with_the_file_proves_nothing(
    tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    write_bundle(str(tmp_path / "c-1"), many(1))
    write_bundle(str(tmp_path / "c-2"), many(2))
    os.unlink(tmp_path / "c-2.index")
    os.truncate(shard_path(str(tmp_path / "c-2")), 2000)
    done = ckpt("rescue", tmp_path / "c-2", tmp_path / "out", "--sibling", tmp_path / "c-1", "--json")
    assert (done.code, *counts(done.json)) == (LOST, 1, 0, len(many(1)) - 1)
    assert done.json["tensors"][0]["proof"] == "sibling"
    reasons = {row["reason"] for row in done.json["lost"]}
    assert reasons == {
        "its checksum is unknown, and this shard does not end where the sibling's does",
        "its bytes are inconsistent or truncated",
    }


def test_partitioned_tensors_come_back_in_slices(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    whole = np.arange(24.0).reshape(6, 4)
    tensors = {"w": partitioned(whole, [((0, 2), (0, -1)), ((2, 4), (0, -1))]), "b": numbers(np.arange(3))}
    for name in ("c-1", "c-2"):
        write_bundle(str(tmp_path / name), tensors)
    os.unlink(tmp_path / "c-2.index")
    done = ckpt("rescue", tmp_path / "c-2", tmp_path / "out", "--sibling", tmp_path / "c-1", "--json")
    assert (done.code, *counts(done.json)) == (SAVED, 2, 0, 0)
    with formats.open_checkpoint(tmp_path / "out") as reader:
        assert len(reader["w"].pieces()) == 2
        assert same(reader["w"].read(), whole)
    flip(shard_path(str(tmp_path / "c-1")), 100)
    lost = ckpt("rescue", tmp_path / "c-1", tmp_path / "less", "--json")
    assert [row["key"] for row in lost.json["lost"]] == ["w"]


# Other formats ------------------------------------------------------------------------


def test_npz_without_its_directory(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    arrays = {name: np.arange(500.0) + at for at, name in enumerate("abcd")}
    np.savez(tmp_path / "w.npz", **arrays)
    os.truncate(tmp_path / "w.npz", os.path.getsize(tmp_path / "w.npz") * 3 // 5)
    done = ckpt("rescue", tmp_path / "w.npz", tmp_path / "out.npz", "--json")
    assert done.code == LOST
    assert [row["key"] for row in done.json["lost"]] == ["c", None]
    assert {row["proof"] for row in done.json["tensors"]} == {"checksum"}
    found = read_all(tmp_path / "out.npz")
    assert list(found) == ["a", "b"]
    assert all(same(found[key], arrays[key]) for key in found)


def test_npz_member_with_a_wrong_checksum(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    np.savez(tmp_path / "w.npz", a=np.arange(500.0), b=np.arange(3))
    flip(str(tmp_path / "w.npz"), 1000)
    done = ckpt("rescue", tmp_path / "w.npz", tmp_path / "out.npz", "--json")
    assert (done.code, *counts(done.json)) == (LOST, 1, 0, 1)
    assert "CRC-32" in done.json["lost"][0]["reason"]


def test_safetensors_cut_short(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    arrays = {name: np.arange(100.0) + at for at, name in enumerate("abc")}
    save(tmp_path / "w.safetensors", arrays, "safetensors")
    os.truncate(tmp_path / "w.safetensors", os.path.getsize(tmp_path / "w.safetensors") - 900)
    done = ckpt("rescue", tmp_path / "w.safetensors", tmp_path / "out.safetensors", "--json")
    assert (done.code, *counts(done.json)) == (LOST, 0, 1, 2)
    assert same(read_all(tmp_path / "out.safetensors")["a"], arrays["a"])
    assert done.json["unproved"] == [{"key": "a", "reason": "safetensors stores no checksums"}]


def test_v1_file_without_its_end(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    arrays = {f"w{at}": rng.standard_normal(40_000) for at in range(3)}
    save(tmp_path / "model.ckpt", arrays, "tf-v1")
    os.truncate(tmp_path / "model.ckpt", os.path.getsize(tmp_path / "model.ckpt") * 3 // 4)
    done = ckpt("rescue", tmp_path / "model.ckpt", tmp_path / "out", "--json")
    assert done.code == LOST
    assert [row["key"] for row in done.json["lost"]] == ["w2"]
    check_output(ckpt, tmp_path / "out", arrays)


def test_v1_file_of_small_numbers_without_its_footer(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    """Every eight bytes of them look like the end of a block: the search was given up, and all was lost."""
    arrays = {f"w{at}": np.arange(20_000.0, dtype=np.float32) + at for at in range(3)}
    arrays["n"] = np.frombuffer(b"\5\0\0\0\0\0\0\0" * 40_000, np.float32)
    save(tmp_path / "model.ckpt", arrays, "tf-v1")
    os.truncate(tmp_path / "model.ckpt", os.path.getsize(tmp_path / "model.ckpt") - 48)
    done = ckpt("rescue", tmp_path / "model.ckpt", tmp_path / "out", "--json")
    assert (done.code, *counts(done.json)) == (SAVED, 4, 0, 0)
    check_output(ckpt, tmp_path / "out", arrays)


def test_safetensors_metadata_that_is_too_long_is_left_out(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    path = tmp_path / "w.safetensors"
    save(path, {"a": np.arange(3.0)}, "safetensors")
    length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + length])
    text = json.dumps({"__metadata__": {"x": "y" * (17 << 20)}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + path.read_bytes()[8 + length :])
    listed = ckpt("ls", path)
    assert listed.code == NOTHING
    assert "hint: to save the tensors without it, run: ckpt rescue" in listed.err
    done = ckpt("rescue", path, tmp_path / "out.safetensors", "--json")
    assert (done.code, *counts(done.json)) == (SAVED, 0, 1, 0)
    assert "__metadata__ has 17825793 characters, over the limit of 16777216" in done.err
    assert same(read_all(tmp_path / "out.safetensors")["a"], np.arange(3.0))


def test_hdf5_cut_off_gives_what_is_before(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    arrays = {f"w{at}": np.arange(5000.0) + at for at in range(4)}
    save(tmp_path / "w.h5", arrays, "hdf5")
    os.truncate(tmp_path / "w.h5", os.path.getsize(tmp_path / "w.h5") - 30_000)
    done = ckpt("rescue", tmp_path / "w.h5", tmp_path / "out.h5", "--json")
    assert done.code == LOST
    assert {row["reason"] for row in done.json["lost"]} == {
        "a part of the tensor is missing, because the file is truncated"
    }
    found = read_all(tmp_path / "out.h5")
    assert 1 <= len(found) <= 3
    assert all(same(found[key], arrays[key]) for key in found)


def test_keras_archive_whose_weights_fail_their_checksum(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    path = tmp_path / "m.keras"
    shutil.copy(data_path("keras3_mlp", "mlp.keras"), path)
    with formats.open_checkpoint(path) as reader:
        key = next(key for key, spec in reader.specs.items() if (spec.nbytes or 0) > 100)
        value = reader[key].read().tobytes()
    with zipfile.ZipFile(path) as archive:
        stored = all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    assert stored
    with open(path, "rb") as file:
        at = file.read().index(value)
    flip(str(path), at + 1)
    done = ckpt("rescue", path, tmp_path / "out.keras", "--json")
    assert done.code == LOST
    assert [(row["key"], row["code"]) for row in done.json["lost"]] == [(None, "tensor-checksum")]
    assert {row["proof"] for row in done.json["tensors"]} == {None}
    assert "CRC-32" in done.json["unproved"][0]["reason"]


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGKILL])
def test_library_that_crashes_costs_the_tensor_it_was_reading(
    number: int, tmp_path: Path, ckpt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal from outside says nothing about the tensor; the system kills processes when memory is
    short.
    """
    save(tmp_path / "w.h5", {"a": np.arange(4), "b": np.arange(5), "c": np.arange(6)}, "hdf5")
    from formats.h5.tensors import H5Tensor

    real = H5Tensor.chunks

    def chunks(self: Any, *arguments: Any) -> Any:
        if self.spec.key == "b":
            faulthandler.disable()  # of pytest's, which would tell of it
            os.kill(os.getpid(), number)
        return real(self, *arguments)

    monkeypatch.setattr(H5Tensor, "chunks", chunks)
    done = ckpt("rescue", tmp_path / "w.h5", tmp_path / "out.h5", "--json")
    if number == signal.SIGKILL:
        assert done.code == 3
        assert (
            "tensor 'b': the process that read this checkpoint was killed, perhaps because memory ran out"
            in done.err
        )
        assert not (tmp_path / "out.h5").exists()
        return
    assert done.code == LOST
    assert [(row["key"], row["reason"]) for row in done.json["lost"]] == [
        ("b", "the HDF5 library crashed with signal 6")
    ]
    assert list(read_all(tmp_path / "out.h5")) == ["a", "c"]


# The command ---------------------------------------------------------------------------


def test_target_that_is_there_is_rejected(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    save(tmp_path / "out", {"other": np.arange(3)})
    before = files(tmp_path)
    done = ckpt("rescue", data_path("corrupt", "data_flip", "ckpt"), tmp_path / "out")
    assert done.code == 3
    assert "already exists" in done.err
    assert "--overwrite" in done.err
    assert files(tmp_path) == before
    assert ckpt("rescue", data_path("corrupt", "good", "ckpt"), tmp_path / "out", "--overwrite").code == 0
    assert GRAPH in read_all(tmp_path / "out")


def test_the_damaged_checkpoint_and_its_sibling_are_never_the_target(
    tmp_path: Path, ckpt: Callable[..., Any]
) -> None:
    shutil.copytree(data_path("corrupt", "index_missing"), tmp_path / "run")
    shutil.copytree(data_path("corrupt", "good"), tmp_path / "good")
    before = files(tmp_path)
    for out in ("run/ckpt", "run/ckpt.index", "good/ckpt"):
        done = ckpt(
            *("rescue", tmp_path / "run" / "ckpt", tmp_path / out),
            *("--sibling", tmp_path / "good" / "ckpt", "--overwrite"),
        )
        assert done.code == 3
        assert "one of the inputs" in done.err
    assert files(tmp_path) == before


def test_dry_run_shows_the_same_and_writes_nothing(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    source = data_path("corrupt", "data_flip", "ckpt")
    told = ckpt("rescue", source, tmp_path / "out", "--json", "-n")
    assert os.listdir(tmp_path) == []
    done = ckpt("rescue", source, tmp_path / "out", "--json")
    assert (told.code, {**told.json, "verified": True, "verification": "full"}) == (done.code, done.json)
    assert done.json["schema"] == 1
    (lost,) = done.json["lost"]
    assert lost["key"] == "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE"
    assert (lost["code"], lost["dtype"], lost["shape"]) == ("tensor-checksum", "float32", [5])
    assert done.json["dropped"] == [{"key": lost["key"], "reason": lost["reason"]}]


def test_sibling_of_another_kind_is_rejected(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    source = data_path("corrupt", "index_missing", "ckpt")
    np.savez(tmp_path / "w.npz", a=np.arange(3))
    done = ckpt("rescue", source, tmp_path / "out", "--sibling", tmp_path / "w.npz")
    assert done.code == 3
    assert "expected another TensorFlow checkpoint of the same run" in done.err
    other = data_path("corrupt", "shard_missing", "ckpt")
    done = ckpt("rescue", source, tmp_path / "out", "--sibling", other)
    assert done.code == 3
    assert "has 3 data shards" in done.err


def test_terminal_lists_what_is_lost(tmp_path: Path, terminal: Callable[..., Any]) -> None:
    done = terminal("rescue", data_path("corrupt", "data_flip", "ckpt"), tmp_path / "out")
    assert done.code == LOST
    assert "LOST" in done.out
    assert "net/l1/bias" in done.out
    assert "13 of 14 tensors" in done.err or "14 of 15 tensors" in done.err


def test_lost_variable_keeps_its_slots(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    assert ckpt("rescue", data_path("corrupt", "data_flip", "ckpt"), tmp_path / "out").code == LOST
    listed = ckpt("ls", tmp_path / "out", "-l", "--json").json["tensors"]
    slots = [row["object_path"] for row in listed if row["kind"] == "slot"]
    assert "net/l1/bias (m of optimizer)" in slots


def test_graph_made_again_from_keys_names_the_same_objects(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    shutil.copytree(data_path("corrupt", "good"), tmp_path / "run")
    with formats.open_checkpoint(tmp_path / "run" / "ckpt") as reader:
        offset = reader[GRAPH].stored.offset
        paths = dict(reader.object_paths)
    assert offset is not None
    flip(shard_path(str(tmp_path / "run" / "ckpt")), offset + 50)
    done = ckpt("rescue", tmp_path / "run" / "ckpt", tmp_path / "out", "--json")
    assert (done.code, done.json["graph"]) == (LOST, "rebuilt")
    assert "the object graph was rebuilt from the keys" in done.err
    with formats.open_checkpoint(tmp_path / "out") as reader:
        assert dict(reader.object_paths) == paths


@pytest.mark.parametrize(
    "path",
    [
        "name_based/partitioned/model.ckpt-4",
        "keras_mlp/mlp.full.h5",
        "keras_mlp/mlp.with_optimizer.h5",
        "keras3_mlp/mlp.keras",
        "keras3_mlp/mlp.weights.h5",
        "interop/weights.npz",
        "interop/weights.safetensors",
        "dtypes/all",
        "saved_model/module",
        "v1_format/partitioned/model.ckpt-1",
    ],
)
def test_a_sound_checkpoint_is_saved_whole(path: str, tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    out = tmp_path / f"out{os.path.splitext(path)[1] if '.ckpt' not in path else ''}"
    done = ckpt("rescue", data_path(path), out)
    assert done.code == SAVED, done.err
    assert {row[0] for row in done.rows} <= {"saved", "unproved"}
    assert ckpt("diff", data_path(path), out, "--exact", "-q").code == 0


def test_a_directory_is_its_latest_checkpoint(tmp_path: Path, ckpt: Callable[..., Any]) -> None:
    done = ckpt("rescue", data_path("guide_adam_legacy", "tf_ckpts"), tmp_path / "out", "-v")
    assert done.code == SAVED
    assert "ckpt-10" in done.err


# Hints --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damaged",
    [
        ("corrupt", "v1_flip", "model.ckpt"),
        ("corrupt", "data_empty", "ckpt"),
        ("corrupt", "data_missing", "ckpt"),
        ("orbax", "new", "pytree"),
    ],
)
def test_no_hint_leads_back_where_nothing_can_be_saved(
    damaged: tuple[str, ...], ckpt: Callable, tmp_path: Path
) -> None:
    path = data_path(*damaged)
    if damaged[0] == "orbax":
        path = shutil.copytree(path, tmp_path / "orbax")
        manifest = bytearray((path / "manifest.ocdbt").read_bytes())
        manifest[20] ^= 1
        (path / "manifest.ocdbt").write_bytes(manifest)
    verified, rescued = ckpt("verify", path), ckpt("rescue", path, tmp_path / "out")
    assert verified.code != 0
    assert "ckpt verify" not in verified.err
    assert rescued.code == NOTHING
    last = "hint: copy the checkpoint again from its source\n"
    assert rescued.err.endswith(last)
    assert "ckpt verify" not in rescued.err
    assert not (tmp_path / "out").exists()
