"""`ckpt verify`: sound checkpoints, every damage of tests/data/corrupt, and what it says of them."""

from __future__ import annotations

import faulthandler
import os
import resource
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

from ckpt_cli.operations.look import verify
from tests.support import FORMAT_IDS, data_path, recorded, shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TENSORFLOW = recorded("tf-v2-object", "tf-v2-name", "tf-v1")
BIAS = "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE"
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

# Path below corrupt/: exit code, (code, key, file, offset) of the first error, tensors found sound.
DAMAGE = {
    "good/ckpt": (0, None, 15),
    "graph_cycle/ckpt": (0, None, 14),
    "index_cut_half/ckpt": (3, ("footer", None, "ckpt.index", 460), 0),
    "index_cut_footer/ckpt": (3, ("footer", None, "ckpt.index", 918), 0),
    "index_cut_tiny/ckpt": (3, ("footer", None, "ckpt.index", 12), 0),
    "index_empty/ckpt": (3, ("footer", None, "ckpt.index", None), 0),
    "index_magic/ckpt": (3, ("footer", None, "ckpt.index", 928), 0),
    "index_flip/ckpt": (3, ("block-checksum", None, "ckpt.index", 0), 0),
    "index_flip_footer/ckpt": (3, ("footer", None, "ckpt.index", 9060), 0),
    "index_text/ckpt": (3, ("footer", None, "ckpt.index", 512), 0),
    "index_missing/ckpt": (3, ("shard-missing", None, "ckpt", None), 0),
    "varint_huge/ckpt": (3, ("block-checksum", None, "ckpt.index", 0), 0),
    "handle_past_end/ckpt": (3, ("block-checksum", None, "ckpt.index", 10000000), 0),
    "header_missing/ckpt": (1, ("header", None, "ckpt.index", 0), 15),
    "header_newer/ckpt": (1, ("header", None, "ckpt.index", 0), 15),
    "header_big_endian/ckpt": (1, ("tensor-checksum", GRAPH, "ckpt.data-00000-of-00001", 1149), 14),
    "header_shards_huge/ckpt": (1, ("shard-missing", None, "ckpt.data-00000-of-2147483647", None), 0),
    "keys_unsorted/ckpt": (1, ("key-order", "save_counter/.ATTRIBUTES/VARIABLE_VALUE", "ckpt.index", 0), 15),
    "data_cut/ckpt": (1, ("shard-short", GRAPH, "ckpt.data-00000-of-00001", 1149), 14),
    "data_empty/ckpt": (1, ("shard-short", GRAPH, "ckpt.data-00000-of-00001", 1149), 0),
    "data_flip/ckpt": (1, ("tensor-checksum", BIAS, "ckpt.data-00000-of-00001", 1049), 14),
    "data_missing/ckpt": (1, ("shard-missing", None, "ckpt.data-00000-of-00001", None), 0),
    "shard_missing/ckpt": (1, ("shard-missing", None, "ckpt.data-00001-of-00003", None), 4),
    "shard_swapped/ckpt": (1, ("tensor-checksum", "b0", "ckpt.data-00000-of-00003", 0), 2),
    "entry_crc/ckpt": (1, ("tensor-checksum", BIAS, "ckpt.data-00000-of-00001", 1049), 14),
    "entry_dtype_other/ckpt": (1, ("tensor-size", BIAS, "ckpt.index", 0), 14),
    "entry_dtype_unknown/ckpt": (1, ("dtype", BIAS, "ckpt.index", 0), 14),
    "entry_garbage/ckpt": (1, ("entry", BIAS, "ckpt.index", 0), 14),
    "entry_offset_negative/ckpt": (1, ("entry", BIAS, "ckpt.index", 0), 14),
    "entry_offset_past_end/ckpt": (1, ("shard-short", BIAS, "ckpt.data-00000-of-00001", 1 << 40), 14),
    "entry_shape_huge/ckpt": (1, ("tensor-size", BIAS, "ckpt.index", 0), 14),
    "entry_shape_negative/ckpt": (1, ("shape", BIAS, "ckpt.index", 0), 14),
    "entry_shape_overflow/ckpt": (1, ("shape", BIAS, "ckpt.index", 0), 14),
    "entry_shard_out_of_range/ckpt": (1, ("entry", BIAS, "ckpt.index", 0), 14),
    "entry_size_absurd/ckpt": (1, ("tensor-size", BIAS, "ckpt.index", 0), 14),
    "entry_size_small/ckpt": (1, ("tensor-size", BIAS, "ckpt.index", 0), 14),
    "graph_absent/ckpt": (1, ("graph-decode", None, "ckpt.index", None), 13),
    "graph_child_far/ckpt": (1, ("graph-node", None, "ckpt.data-00000-of-00001", 0), 14),
    "graph_child_negative/ckpt": (1, ("graph-node", None, "ckpt.data-00000-of-00001", 0), 14),
    "graph_cut/ckpt": (1, ("graph-decode", GRAPH, "ckpt.data-00000-of-00001", 0), 14),
    "graph_empty/ckpt": (1, ("graph-decode", GRAPH, "ckpt.data-00000-of-00001", 0), 14),
    "graph_key_missing/ckpt": (
        1,
        ("graph-key", "nowhere/.ATTRIBUTES/VARIABLE_VALUE", "ckpt.data-00000-of-00001", 0),
        14,
    ),
    "graph_name_twice/ckpt": (1, ("graph-duplicate", None, "ckpt.data-00000-of-00001", 0), 14),
    "graph_slot_far/ckpt": (1, ("graph-node", None, "ckpt.data-00000-of-00001", 0), 14),
    "v1_cut/model.ckpt": (3, ("footer", None, "model.ckpt", 482), 0),
    "v1_empty/model.ckpt": (3, ("footer", None, "model.ckpt", None), 0),
    "v1_flip/model.ckpt": (3, ("block-checksum", None, "model.ckpt", 0), 0),
    "v1_shard_missing/model.ckpt-1-?????-of-?????": (
        1,
        ("shard-missing", None, "model.ckpt-1-00001-of-00002", None),
        1,
    ),
    "state_empty/ckpt": (0, None, 15),
    "state_garbage/ckpt": (0, None, 15),
    "state_no_path/ckpt": (0, None, 15),
    "state_unknown_field/ckpt": (0, None, 15),
}


@pytest.mark.parametrize("entry", TENSORFLOW, ids=lambda entry: entry["path"])
def test_every_tensorflow_checkpoint_is_sound(entry: dict, ckpt: Callable) -> None:
    result = ckpt("verify", "--json", data_path(entry["path"]))
    assert (result.code, result.err) == (0, "")
    (found,) = result.json["results"]
    assert (found["ok"], found["format"]) == (True, FORMAT_IDS[entry["format"]])
    assert found["checked"]["tensors"] == len(entry["tensors"])
    gaps = "two_parts" in entry["path"]
    assert [f["code"] for f in found["findings"]] == (["slice"] * 4 if gaps else [])


@pytest.mark.parametrize("path", [path for path, (code, *_) in DAMAGE.items() if code == 3])
def test_a_hint_says_so_if_something_can_be_rescued(path: str, ckpt: Callable, tmp_path: Path) -> None:
    """`verify` cannot list a key of these files; `rescue` saves some of them."""
    damaged = data_path("corrupt", path)
    said = ckpt("verify", damaged).err
    saves = ckpt("rescue", damaged, tmp_path / "out").code < 3
    assert ("to save what can be read: ckpt rescue" in said) == saves, said


def test_a_cut_archive_can_be_rescued(ckpt: Callable, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.npz", tmp_path / "cut.npz"
    np.savez(whole, a=np.arange(1000.0), b=np.ones(1000))
    cut.write_bytes(whole.read_bytes()[:12_000])
    said = ckpt("verify", cut)
    assert (said.code, f"hint: to save what can be read: ckpt rescue {cut} OUT\n" in said.err) == (3, True)
    assert ckpt("rescue", cut, tmp_path / "saved.npz").code == 1
    cut.write_bytes(whole.read_bytes()[:100])  # not one member is whole
    assert "ckpt rescue" not in ckpt("verify", cut).err


@pytest.mark.parametrize("path", DAMAGE)
def test_damage_is_named(path: str, ckpt: Callable) -> None:
    code, first, sound = DAMAGE[path]
    result = ckpt("verify", "--json", data_path("corrupt", path))
    assert result.code == code
    assert "Traceback" not in result.err
    if code == 3:
        assert result.err.startswith("ckpt: error: ")
    else:
        # If some of it is intact, the next step is printed.
        assert (": ckpt rescue" in result.err) == (code == 1 and sound > 0)
    (found,) = result.json["results"]
    assert found["ok"] == result.json["ok"] == (code == 0)
    assert found["checked"]["tensors"] == sound
    errors = [f for f in found["findings"] if f["severity"] == "error"]
    if first is None:
        assert errors == []
    else:
        error = errors[0]
        assert (error["code"], error["key"], os.path.basename(error["file"]), error["offset"]) == first


def test_every_damaged_tensorflow_file_is_in_the_table() -> None:
    folders = {name for name in os.listdir(data_path("corrupt")) if not name.startswith("h5_")}
    assert folders == {path.split("/")[0] for path in DAMAGE}


def test_a_directory_stands_for_all_its_checkpoints(ckpt: Callable) -> None:
    found = ckpt("verify", "--json", data_path("guide_adam_legacy", "tf_ckpts")).json
    assert [os.path.basename(r["path"]) for r in found["results"]] == ["ckpt-8", "ckpt-9", "ckpt-10"]


def test_several_paths_continue_after_the_first_that_fails(ckpt: Callable) -> None:
    paths = [data_path("corrupt", name, "ckpt") for name in ("index_flip", "data_flip", "good")]
    result = ckpt("verify", "--json", *paths)
    assert result.code == 1
    assert [r["ok"] for r in result.json["results"]] == [False, False, True]
    rows = ckpt("verify", *paths).rows
    assert [row[1] for row in rows] == ["damaged", "error", "damaged", "error", "ok"]


def test_the_result_does_not_depend_on_jobs(ckpt: Callable) -> None:
    paths = [data_path(name) for name in ("corrupt/shard_swapped/ckpt", "max_shard_size/split", "dtypes/all")]
    assert ckpt("verify", "--json", "-j2", *paths).out == ckpt("verify", "--json", *paths).out


def test_what_does_not_exist_exits_3(ckpt: Callable) -> None:
    result = ckpt("verify", data_path("nowhere"))
    assert result.code == 3
    assert "nowhere: no such file, prefix or directory" in result.err
    assert result.rows[1][2] == "missing"


def test_a_directory_without_checkpoints_lacks_no_shard(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "empty").mkdir()
    result = ckpt("verify", tmp_path / "empty")
    assert (result.code, result.rows[1][2]) == (1, "missing")


def without_a_tensorflow_shard(tmp_path: Path) -> tuple[Path, Path, int]:
    shutil.copytree(data_path("max_shard_size"), tmp_path / "run")
    return tmp_path / "run" / "split", tmp_path / "run" / "split.data-00001-of-00003", 2


def without_a_v1_shard(tmp_path: Path) -> tuple[Path, Path, int]:
    shutil.copytree(data_path("v1_format", "sharded"), tmp_path / "run")
    return tmp_path / "run" / "model.ckpt-1", tmp_path / "run" / "model.ckpt-1-00001-of-00002", 0


def without_a_safetensors_shard(tmp_path: Path) -> tuple[Path, Path, int]:
    shutil.copytree(data_path("hf"), tmp_path / "run")
    return tmp_path / "run", tmp_path / "run" / "model-00002-of-00003.safetensors", 3


def without_a_dcp_file(tmp_path: Path) -> tuple[Path, Path, int]:
    shutil.copytree(data_path("pytorch", "dcp"), tmp_path / "run")
    return tmp_path / "run", tmp_path / "run" / "__0_0.distcp", 27


@pytest.mark.parametrize(
    "without",
    [without_a_tensorflow_shard, without_a_v1_shard, without_a_safetensors_shard, without_a_dcp_file],
)
def test_a_missing_shard_is_one_finding(without: Callable, tmp_path: Path, ckpt: Callable) -> None:
    path, shard, tensors = without(tmp_path)
    shard.unlink()
    result = ckpt("verify", path, "--json")
    (finding,) = result.json["results"][0]["findings"]
    assert (result.code, finding["code"], finding["file"]) == (1, "shard-missing", str(shard))
    count = f"it should contain {tensors} tensors, for example '" if tensors else "its tensors are unknown"
    assert finding["message"].startswith(f"shard {shard.name} is missing; {count}")


def test_an_aliased_tensor_and_unused_bytes_are_not_findings(tmp_path: Path, ckpt: Callable) -> None:
    def alias(entries: dict) -> None:
        entries[b"b"] = entries[b"a"]

    prefix = str(tmp_path / "m-1")
    write_bundle(prefix, {"a": np.arange(4.0), "c": np.ones(3)}, edit=alias)
    with open(shard_path(prefix), "ab") as file:
        file.write(b"unused")
    result = ckpt("verify", "--json", prefix)
    assert (result.code, result.json["results"][0]["findings"]) == (0, [])


def test_partly_shared_bytes_and_stray_shards_are_warnings(tmp_path: Path, ckpt: Callable) -> None:
    def overlap(entries: dict) -> None:
        whole = entries[b"a"]
        half = type(whole).decode(whole.encode())
        half.shape.dim[0].size, half.offset, half.size = 2, 8, 16
        half.crc32c = 0
        entries[b"b"] = half

    prefix = str(tmp_path / "m-1")
    write_bundle(prefix, {"a": np.arange(4.0)}, edit=overlap)
    shutil.copy(shard_path(prefix), shard_path(prefix, 1, 7))
    findings = ckpt("verify", "--json", prefix).json["results"][0]["findings"]
    assert [(f["severity"], f["code"]) for f in findings] == [
        ("warning", "shard-surplus"),
        ("warning", "overlap"),
        ("error", "tensor-checksum"),
    ]


def test_slices_that_tensorflow_cannot_join_are_a_warning(tmp_path: Path, ckpt: Callable) -> None:
    from tests.support import partitioned

    prefix = str(tmp_path / "m-1")
    write_bundle(
        prefix, {"h": partitioned(np.ones((4, 2), np.float16), [((0, 3), (0, 2)), ((3, 1), (0, 2))])}
    )
    result = ckpt("verify", "--json", prefix)
    (finding,) = result.json["results"][0]["findings"]
    assert (result.code, finding["severity"], finding["code"]) == (0, "warning", "slice")
    assert "--merge-slices" in finding["message"]


def test_a_terminal_says_once_that_nothing_is_there(tmp_path: Path, terminal: Callable) -> None:
    result = terminal("verify", str(tmp_path / "gone"), columns=120, NO_COLOR="1")
    assert result.code == 3
    assert (result.out + result.err).count("no such file") == 1
    assert "DAMAGED" not in (result.out + result.err)


def test_the_table_of_findings_fits_a_terminal_of_80_columns(terminal: Callable) -> None:
    result = terminal("verify", data_path("corrupt", "data_flip", "ckpt"), columns=80, NO_COLOR="1")
    _, *table = result.out.splitlines()
    assert "tensor-checksum" in result.out
    assert max(map(len, table)) <= 80


def test_a_terminal_shows_a_table(terminal: Callable) -> None:
    result = terminal("verify", data_path("corrupt", "data_flip", "ckpt"), columns=120, NO_COLOR="1")
    assert result.code == 1
    assert "DAMAGED  tf-object  14 of 15 tensors intact" in result.out
    assert "tensor-checksum" in result.out


@pytest.mark.parametrize(
    "name", ["entry_size_absurd", "entry_shape_huge", "header_shards_huge", "varint_huge"]
)
def test_numbers_from_a_file_take_no_memory(name: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    command = [sys.executable, "-m", "ckpt_cli", "verify", data_path("corrupt", name, "ckpt")]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr


def _abort() -> None:
    faulthandler.disable()  # of pytest's, which would tell of it
    os.abort()


@pytest.mark.parametrize(
    ("ends", "seconds", "message"),
    [
        (_abort, 30, "the HDF5 library crashed with signal 6"),
        (lambda: time.sleep(30), 0.2, "reading took longer than 0 s, so ckpt stopped it"),
    ],
    ids=["crash", "hang"],
)
def test_what_the_hdf5_library_does_to_itself_is_a_finding(
    ends: Callable, seconds: float, message: str, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_verify_here", lambda *_: ends())
    monkeypatch.setattr(verify, "_FEWEST_SECONDS", seconds)
    result = ckpt("verify", "--json", data_path("keras_mlp", "mlp.full.h5"))
    assert result.code == 3
    (finding,) = result.json["results"][0]["findings"]
    assert (finding["severity"], finding["code"], finding["message"]) == ("error", "hdf5-read", message)


def test_hdf5_tensor_that_cannot_be_read_is_not_sound(tmp_path: Path, ckpt: Callable) -> None:
    path = tmp_path / "elsewhere.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (4,), "f4", external=str(tmp_path / "values.raw"))
    result = ckpt("verify", "--json", path)
    (found,) = result.json["results"]
    assert (result.code, found["ok"], found["checked"]["tensors"]) == (1, False, 0)
    assert ("error", "x") in {(one["severity"], one["key"]) for one in found["findings"]}


def test_a_weight_of_no_numbers_is_not_sound(tmp_path: Path, ckpt: Callable) -> None:
    """`verify` said ok of 0 of 1 tensors."""
    path = tmp_path / "w.weights.h5"
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
    result = ckpt("verify", "--json", path)
    (finding,) = result.json["results"][0]["findings"]
    assert (result.code, finding["severity"], finding["code"]) == (1, "error", "dtype")
    assert finding["key"] == "layers/dense/vars/0"


def test_a_file_whose_tensors_are_all_left_out_is_not_called_sound(tmp_path: Path, ckpt: Callable) -> None:
    path = str(tmp_path / "o.h5")
    with h5py.File(path, "w") as file:
        file["pairs"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
    done = ckpt("verify", path)
    assert (done.code, "left out 'pairs'" in done.err) == (3, True)


@pytest.mark.parametrize("beside", [True, False])
def test_what_every_command_rejects_is_not_sound(tmp_path: Path, ckpt: Callable, beside: bool) -> None:
    """`verify` said ok of a file that leads to another, which nothing else opens."""
    path = tmp_path / "w.h5"
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink("other.h5", "x")
        if beside:
            file["y"] = 1.0
    result = ckpt("verify", path)
    assert ckpt("ls", path).code == 3
    assert result.code == (1 if beside else 3)
    assert "'x' is an external link, which is not followed" in result.out


def test_what_is_not_a_checkpoint_is_not_called_damaged(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "empty").mkdir()
    (tmp_path / "w.npz").write_text("no zip")
    np.savez(tmp_path / "x.npz", a=np.ones(1))
    (tmp_path / "c-1.index").touch()
    names = ["a.json", "empty", "gone", "w.npz", "c-1.index", "x.npz"]
    result = ckpt("verify", *(tmp_path / name for name in names))
    found = [row[1] for row in result.rows if not row[2]]
    assert found == ["none", "none", "none", "damaged", "damaged", "ok"]
    assert (result.code, result.err.splitlines()[-1]) == (
        1,
        "note: 1 checkpoint is intact, 2 are damaged, 3 paths have no checkpoint",
    )
