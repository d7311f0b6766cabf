"""`ckpt extract`: every target, slices, hostile keys, refusals that say what to do."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import h5py
import ml_dtypes
import numpy as np
import pytest

from formats import open_checkpoint
from formats.core.chunks import PIECE
from formats.core.dtypes import BY_NAME
from formats.store.local.files import LocalFile
from tests.cli.conftest import ROOT
from tests.support import data_path, numbers, partitioned, same, strings, variants, write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CKPT = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
KERNEL = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
NAMED = data_path("pairs", "name_based")

TENSORS = {
    "w/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "w/bias": np.array([1.5, np.nan, -np.inf]),
    "count": np.int64(7),
    "flags": np.array([True, False]),
    "empty": np.zeros((2, 0), np.int8),
    "waves": np.array([1 + 2j, 3j], np.complex64),
}


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    path = str(tmp_path / "in" / "ckpt-1")
    os.mkdir(tmp_path / "in")
    write_bundle(path, {**TENSORS, "text": strings([b"ab", b"\xc3\xbc", b"\xff"])})
    return path


def read_all(path: object) -> dict[str, np.ndarray]:
    with open_checkpoint(str(path)) as reader:
        return {key: reader[key].read() for key in reader}


# Targets --------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".h5"])
def test_a_file_holds_the_chosen_tensors_under_their_keys(
    suffix: str, prefix: str, tmp_path: Path, ckpt: Callable
) -> None:
    out = tmp_path / ("out" + suffix)
    result = ckpt("extract", "--json", prefix, "--exclude", "text", "-o", out)
    assert result.code == 0
    assert result.err.startswith(f"wrote {out} (")
    assert result.err.endswith(", 6 tensors, 98 B), verified\n")
    found = read_all(out)
    assert set(found) == set(TENSORS)
    assert all(same(found[key], np.asarray(value)) for key, value in TENSORS.items())
    document = result.json
    assert list(document) == [
        "schema",
        "source",
        "target",
        "format",
        "tensors",
        "dropped",
        "verified",
        "verification",
    ]
    assert (document["source"], document["target"], document["verified"]) == (prefix, str(out), True)
    assert {tensor["from"]: tensor["to"] for tensor in document["tensors"]} == {key: key for key in TENSORS}


def test_npz_is_numpys(prefix: str, tmp_path: Path, ckpt: Callable) -> None:
    ckpt("extract", prefix, "-o", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        assert same(found["w/kernel"], TENSORS["w/kernel"])
        assert found["text"].tolist() == [b"ab", b"\xc3\xbc", b"\xff"]


def test_npy_holds_one_tensor(prefix: str, tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("extract", prefix, "w/kernel", "-o", tmp_path / "k.npy").code == 0
    assert same(np.load(tmp_path / "k.npy"), TENSORS["w/kernel"])
    several = ckpt("extract", prefix, "w/*", "-o", tmp_path / "w.npy")
    assert (several.code, several.out) == (3, "")
    assert "this output takes one tensor, but 2 are selected: 'w/bias', 'w/kernel'" in several.err
    assert sorted(os.listdir(tmp_path)) == ["in", "k.npy"]


def test_a_directory_has_a_npy_file_for_each(prefix: str, tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("extract", "--json", prefix, "-o", f"{tmp_path}/out/")
    assert result.json["format"] == "npy"
    for tensor in result.json["tensors"]:
        found = np.load(tmp_path / "out" / tensor["to"], allow_pickle=False)
        if tensor["from"] != "text":
            assert same(found, np.asarray(TENSORS[tensor["from"]]))
    assert len(result.json["tensors"]) == len(TENSORS) + 1


def test_json_holds_nested_lists_by_key(prefix: str, tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("extract", prefix, "-o", tmp_path / "out.json").code == 0
    found = json.loads((tmp_path / "out.json").read_text(), parse_constant=pytest.fail)
    assert found == {
        "count": 7,
        "empty": [[], []],
        "flags": [True, False],
        "text": ["ab", "\u00fc", {"base64": "/w=="}],
        "w/bias": [1.5, "nan", "-inf"],
        "w/kernel": TENSORS["w/kernel"].tolist(),
        "waves": [[1.0, 2.0], [0.0, 3.0]],
    }


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4), (1, 1), (3, 0, 2), (0,), (2, 40_000)])
def test_json_nests_every_shape_as_numpy_does(shape: tuple[int, ...], tmp_path: Path, ckpt: Callable) -> None:
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    write_bundle(str(tmp_path / "b"), {"t": value})
    ckpt("extract", tmp_path / "b", "-o", tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text()) == {"t": value.tolist()}


def test_lists_without_end_that_hold_nothing_are_rejected(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "b"), {"t": np.zeros((1 << 40, 0))})
    result = ckpt("extract", tmp_path / "b", "-o", tmp_path / "t.json")
    assert result.code == 3
    assert "has no elements, but needs" in result.err
    assert not (tmp_path / "t.json").exists()


def test_a_dash_is_one_tensor_on_stdout(prefix: str) -> None:
    command = [sys.executable, "-m", "ckpt_cli", "extract", prefix, "w/kernel[1:,::2]", "-o", "-"]
    result = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    assert same(np.load(io.BytesIO(result.stdout)), np.ascontiguousarray(TENSORS["w/kernel"][1:, ::2]))
    assert result.stderr == b""


def test_bytes_are_not_written_to_a_terminal(prefix: str, terminal: Callable) -> None:
    result = terminal("extract", prefix, "w/kernel", "-o", "-")
    assert result.code == 2
    assert "redirect it" in result.err


@pytest.mark.parametrize("target", ["out", "out.pt", "out.csv"])
def test_a_target_that_says_nothing_is_usage(
    target: str, prefix: str, tmp_path: Path, ckpt: Callable
) -> None:
    result = ckpt("extract", prefix, "-o", tmp_path / target)
    assert result.code == 2
    assert ".npz, .safetensors, .h5" in result.err
    assert ckpt("extract", "--json", prefix, "count", "-o", "-").code == 2


# Slices and choosing ----------------------------------------------------------------


@pytest.mark.parametrize("text", ["[0]", "[-1]", "[1:]", "[:,1]", "[..., ::2]", "[2,3]", "[0:0]"])
def test_a_slice_is_numpys_in_every_target(text: str, prefix: str, tmp_path: Path, ckpt: Callable) -> None:
    expected = eval(f"x{text}", {"x": TENSORS["w/kernel"]})
    for target in ("o.npy", "o.npz", "o.h5", "o.safetensors", "o.json"):
        assert ckpt("extract", prefix, "w/kernel" + text, "-o", tmp_path / target).code == 0
    assert same(np.load(tmp_path / "o.npy"), np.ascontiguousarray(expected).reshape(expected.shape))
    assert json.loads((tmp_path / "o.json").read_text()) == {"w/kernel": expected.tolist()}
    for target in ("o.npz", "o.h5", "o.safetensors"):
        assert same(read_all(tmp_path / target)["w/kernel"], np.array(expected))


@pytest.mark.parametrize(("name", "least", "most"), [("b", 1 << 23, 1 << 23), ("b.safetensors", 1, 1 << 14)])
def test_a_slice_is_read_once_and_alone_where_no_checksum_covers_more(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch, name: str, least: int, most: int
) -> None:
    value = np.arange(1 << 20, dtype=np.float64).reshape(1 << 10, 1 << 10)
    if name == "b":
        write_bundle(str(tmp_path / name), {"t": value})
    else:
        save(tmp_path / name, {"t": value}, "safetensors")
    sizes: list[int] = []
    read = LocalFile.read
    monkeypatch.setattr(LocalFile, "read", lambda self, at, size: sizes.append(size) or read(self, at, size))
    ckpt("extract", tmp_path / name, "t[7]", "-o", tmp_path / "t.npy")
    assert least <= sum(size for size in sizes if size >= 8192) <= most


@pytest.mark.parametrize("name", ["b", "b.npz"])
@pytest.mark.parametrize("key", ["t", "t[0,:3]", "t[1:,::2]", "t[:,:]"])
def test_a_damaged_tensor_is_neither_shown_nor_written_not_even_in_part(
    tmp_path: Path, ckpt: Callable, name: str, key: str
) -> None:
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    save(tmp_path / name, {"t": value}, "npz" if name == "b.npz" else "tf-name")
    file = tmp_path / (name if name == "b.npz" else "b.data-00000-of-00001")
    data = bytearray(file.read_bytes())
    data[data.index(value[0].tobytes()) + 4] ^= 1
    file.write_bytes(data)
    lines: list[list[object]] = [["show", tmp_path / name, key], ["show", "--json", tmp_path / name, key]]
    for target in ("o.npy", "o.npz", "o.safetensors", "o.h5", "o.json", "o/"):
        lines.append(["extract", tmp_path / name, key, "-o", f"{tmp_path}/{target}"])
    lines.append(["extract", tmp_path / name, key, "-o", "-"])
    for line in lines:
        code, out, err = ckpt(*line)
        assert (code, out) == (3, ""), line
        assert "t: " in err
    assert {path.name for path in tmp_path.iterdir()} <= {"b.index", "b.data-00000-of-00001", "b.npz"}


def test_a_large_part_passes_in_pieces(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = np.arange(PIECE).reshape(4, -1)
    extents = [((0, 2), (0, -1)), ((2, 2), (0, -1))]
    write_bundle(str(tmp_path / "b"), {"t": value, "p": partitioned(value, extents)})
    for key in ("t", "p"):
        ckpt("extract", tmp_path / "b", f"{key}[1:,1::3]", "-o", tmp_path / f"{key}.npy")
        assert same(np.load(tmp_path / f"{key}.npy"), np.ascontiguousarray(value[1:, 1::3]))


def test_an_existing_key_wins_over_a_slice_and_a_slice_over_a_pattern(tmp_path: Path, ckpt: Callable) -> None:
    tensors = {"k": [0, 1], "k[0]": [2, 3], "k1": [4, 5], "k5": [6, 7], "j3": [8, 9]}
    write_bundle(str(tmp_path / "b"), {key: np.array(value) for key, value in tensors.items()})

    def chosen(*keys: str) -> Any:
        result = ckpt("extract", tmp_path / "b", *keys, "-o", tmp_path / "o.json", "--overwrite")
        assert result.code == 0, result.err
        return json.loads((tmp_path / "o.json").read_text())

    assert chosen("k[0]") == {"k[0]": [2, 3]}
    assert chosen("k[1]") == {"k": 1}
    assert chosen("k[1-9]") == {"k1": [4, 5], "k5": [6, 7]}
    assert chosen("j[3]") == {"j3": [8, 9]}
    assert chosen("k[1]", "j3") == {"j3": [8, 9], "k": 1}
    assert chosen("k[1]", "k") == {"k": [0, 1], "k[1]": 1}
    assert chosen("k[1]", "*", "--exclude", "k") == {"j3": [8, 9], "k1": [4, 5], "k5": [6, 7], "k[0]": [2, 3]}


@pytest.mark.parametrize(
    ("keys", "code", "message"),
    [
        (["w/kernl"], 1, "did you mean w/kernel"),
        (["w/kernel[9]"], 3, "index 9 is out of range for dimension 0"),
        (["w/kernel[0,0,0]"], 3, "3 dimensions, but the tensor has 2; the shape is [3, 4]"),
        (["w/kernel[0]", "--exclude", "*"], 1, "no tensor is selected"),
        (["--regex", "w[", "x"], 2, "regular expression"),
    ],
)
def test_what_is_missing_is_reported(
    keys: list[str], code: int, message: str, prefix: str, tmp_path: Path, ckpt: Callable
) -> None:
    result = ckpt("extract", prefix, *keys, "-o", tmp_path / "o.npz")
    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_object_paths_name_tensors_and_everything_leaves_out_what_a_target_cannot_hold(
    tmp_path: Path, ckpt: Callable
) -> None:
    result = ckpt("extract", "--json", CKPT, "-o", tmp_path / "o.safetensors")
    assert {dropped["key"]: dropped["reason"] for dropped in result.json["dropped"]} == {
        "_CHECKPOINTABLE_OBJECT_GRAPH": "safetensors cannot store string tensors",
        "iterator/.ATTRIBUTES/ITERATOR_STATE": "safetensors cannot store variant tensors",
    }
    assert len(result.json["tensors"]) == 13
    named = ckpt("extract", "--json", CKPT, "net/l1/kernel", "-o", tmp_path / "k.npy").json
    assert named["tensors"][0]["from"] == KERNEL
    asked = ckpt("extract", CKPT, "iterator", "-o", tmp_path / "i.npz")
    assert (asked.code, asked.out) == (3, "")
    assert "npz cannot store variant tensors" in asked.err


# What targets cannot hold -------------------------------------------------------------


EXOTIC = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float4_e2m1fn"]


@pytest.mark.parametrize("target", ["o.npy", "o.npz", "d/"])
@pytest.mark.parametrize("name", EXOTIC)
def test_types_that_numpy_has_not_are_rejected_with_a_cast_as_the_hint(
    name: str, target: str, tmp_path: Path, ckpt: Callable
) -> None:
    value = np.array([0, 1, 2]).astype(getattr(ml_dtypes, name))
    write_bundle(str(tmp_path / "b"), {"t": numbers(value, dtype=name)})
    out = f"{tmp_path}/{target}"
    refused = ckpt("extract", tmp_path / "b", "-o", out)
    assert (refused.code, refused.out) == (3, "")
    assert f"tensor 't': {'npz' if target == 'o.npz' else 'npy'} cannot store {name} tensors" in refused.err
    assert "hint: to write another dtype, pass --cast float32" in refused.err
    assert not os.path.lexists(out)
    assert ckpt("extract", tmp_path / "b", "-o", out, "--cast", "float32").code == 0
    found = np.load(f"{out}t.npy" if target == "d/" else out)
    found = found["t"] if target == "o.npz" else found
    assert same(found, np.float32([0, 1, 2]))


def test_safetensors_and_hdf5_hold_bfloat16(tmp_path: Path, ckpt: Callable) -> None:
    value = np.array([0.5, -1], ml_dtypes.bfloat16)
    write_bundle(str(tmp_path / "b"), {"t": value})
    for target in ("o.safetensors", "o.h5"):
        assert ckpt("extract", tmp_path / "b", "-o", tmp_path / target).code == 0
        assert same(read_all(tmp_path / target)["t"], value)


def test_a_cast_leaves_integers_alone_and_is_a_floating_type(
    prefix: str, tmp_path: Path, ckpt: Callable
) -> None:
    ckpt("extract", prefix, "w/kernel", "count", "-o", tmp_path / "o.npz", "--cast", "float16")
    found = read_all(tmp_path / "o.npz")
    assert (found["w/kernel"].dtype, found["count"].dtype) == (np.float16, np.int64)
    assert ckpt("extract", prefix, "-o", tmp_path / "p.npz", "--cast", "int8").code == 2


@pytest.mark.parametrize("line", ["extract {} -o {}", "convert {} {}"])
def test_a_cast_to_a_type_without_zero_is_rejected(
    line: str, prefix: str, tmp_path: Path, ckpt: Callable
) -> None:
    """It made NaN of every zero and every negative number, and exited with 0."""
    target = tmp_path / "o.safetensors"
    done = ckpt(*line.format(prefix, target).split(), "--cast", "float8_e8m0fnu")
    assert (done.code, target.exists()) == (2, False)
    rejected, _, allowed = done.err.partition("; use one of ")
    assert rejected.endswith("'float8_e8m0fnu' has no zero and no negative numbers")
    for name in allowed.split("\n")[0].rstrip(".").split(", "):
        values = np.array([0, -1], BY_NAME[name].numpy).astype(np.float64)
        assert values.tolist() == [0, -1], name


@pytest.mark.parametrize("target", ["o.npy", "o.npz", "d/", "o.h5"])
def test_strings_that_end_in_nul_are_rejected_where_they_would_be_cut(
    target: str, tmp_path: Path, ckpt: Callable
) -> None:
    write_bundle(str(tmp_path / "b"), {"s": strings([b"ok", b"cut\0"])})
    result = ckpt("extract", tmp_path / "b", "-o", f"{tmp_path}/{target}")
    assert (result.code, result.out) == (3, "")
    assert f"{tmp_path}/b: tensor 's': an element ends in NUL" in result.err
    assert sorted(os.listdir(tmp_path)) == ["b.data-00000-of-00001", "b.index"]
    assert ckpt("extract", tmp_path / "b", "-o", tmp_path / "s.json").code == 0
    assert json.loads((tmp_path / "s.json").read_text()) == {"s": ["ok", "cut\0"]}


def test_variants_are_never_written(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "b"), {"v": variants([b"x"]), "w": np.zeros(1)})
    for target in ("o.npz", "o.json", "o.h5"):
        assert ckpt("extract", tmp_path / "b", "v", "-o", tmp_path / target).code == 3


def test_v_and_v_adam_are_distinguished_in_hdf5(tmp_path: Path, ckpt: Callable) -> None:
    keys = ["v", "v/Adam", "v/Adam_1", "a/w", "a/w/Adam", "a/w/Adam/x"]
    write_bundle(str(tmp_path / "b"), {key: np.array([n]) for n, key in enumerate(keys)})
    result = ckpt("extract", "--json", tmp_path / "b", "-o", tmp_path / "o.h5")
    assert result.code == 0
    note, wrote = result.err.splitlines()
    assert note == "note: a/w/Adam is written as a/w.Adam, and 3 more tensors in the same way"
    assert wrote == f"wrote {tmp_path / 'o.h5'} (hdf5, 6 tensors, 48 B), verified"
    with h5py.File(tmp_path / "o.h5") as found:
        names = ["v", "v.Adam", "v.Adam_1", "a/w", "a/w.Adam", "a/w.Adam.x"]
        assert [found[name][0] for name in names] == list(range(6))
    clash = {"v": np.zeros(1), "v/Adam": np.zeros(1), "v.Adam": np.zeros(1)}
    write_bundle(str(tmp_path / "c"), clash)
    refused = ckpt("extract", tmp_path / "c", "-o", tmp_path / "p.h5")
    assert refused.code == 3
    assert "would also be written under this key" in refused.err


# Hostile keys and targets that are there ------------------------------------------------

HOSTILE = [
    "../../escaped",
    "/tmp/ckpt-absolute",
    "a/../../b",
    "ctl\x1b\n",
    "~/home",
    "A",
    "a",
    "x" * 400,
    "..",
    "%2E%2E",
]


def test_no_key_leaves_the_directory(tmp_path: Path, ckpt: Callable) -> None:
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    write_bundle(str(inner / "b"), {key: np.array([n]) for n, key in enumerate(HOSTILE)})
    result = ckpt("extract", "--json", inner / "b", "-o", f"{inner}/out/")
    assert result.code == 0, result.err
    paths = {tensor["from"]: tensor["to"] for tensor in result.json["tensors"]}
    for number, key in enumerate(HOSTILE):
        assert os.path.realpath(inner / "out" / paths[key]).startswith(f"{os.path.realpath(inner)}/out/")
        assert np.load(inner / "out" / paths[key]).tolist() == [number]
    assert sorted(os.listdir(inner)) == ["b.data-00000-of-00001", "b.index", "out"]
    assert (os.listdir(tmp_path), os.listdir(tmp_path / "one")) == (["one"], ["two"])
    assert not os.path.exists("/tmp/ckpt-absolute.npy")


def test_a_link_in_a_directory_that_is_there_leads_nowhere(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "b"), {"sub/x": np.zeros(1)})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "out" / "sub")
    result = ckpt("extract", tmp_path / "b", "-o", tmp_path / "out", "--overwrite")
    assert result.code == 3
    assert "a symbolic link" in result.err
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("target", ["o.npy", "o.npz", "o.safetensors", "o.h5", "o.json"])
def test_a_file_that_is_there_is_kept_unless_overwrite(
    target: str, prefix: str, tmp_path: Path, ckpt: Callable
) -> None:
    (tmp_path / target).write_bytes(b"mine")
    result = ckpt("extract", prefix, "count", "-o", tmp_path / target)
    assert (result.code, result.out) == (3, "")
    assert "already exists" in result.err
    assert "hint: pass --overwrite to replace it" in result.err
    assert (tmp_path / target).read_bytes() == b"mine"
    assert ckpt("extract", prefix, "count", "-o", tmp_path / target, "--overwrite").code == 0
    assert (tmp_path / target).read_bytes() != b"mine"
    assert sorted(os.listdir(tmp_path)) == ["in", target]


def test_a_directory_that_is_there_keeps_its_other_files(prefix: str, tmp_path: Path, ckpt: Callable) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert ckpt("extract", prefix, "count", "-o", out).code == 0  # it was empty
    (out / "notes.txt").write_text("mine")
    assert ckpt("extract", prefix, "w/*", "-o", out).code == 3
    assert sorted(os.listdir(out)) == ["count.npy", "notes.txt"]
    assert ckpt("extract", prefix, "w/*", "count", "-o", out, "--overwrite").code == 0
    assert sorted(os.listdir(out)) == ["count.npy", "notes.txt", "w"]
    (tmp_path / "file").write_text("x")
    assert "is a file" in ckpt("extract", prefix, "-o", f"{tmp_path}/file/").err


def test_a_dry_run_prints_the_plan_and_writes_nothing(prefix: str, tmp_path: Path, ckpt: Callable) -> None:
    for target in ("o.npz", "o.json", "d/"):
        planned = ckpt("extract", "-n", "--json", prefix, "-o", f"{tmp_path}/{target}").json
        assert os.listdir(tmp_path) == ["in"]
        done = ckpt("extract", "--json", prefix, "-o", f"{tmp_path}/{target}").json
        assert planned == {**done, "verified": False, "verification": "none"}
        subprocess.run(["rm", "-r", f"{tmp_path}/{target}"], check=True)
    assert ckpt("extract", "-n", prefix, "count", "-o", "-").out == "count\tcount\tint64\t\n"


def test_damage_leaves_nothing(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "b"), {"a": np.zeros(3), "z": np.arange(4.0)})
    data = bytearray((tmp_path / "b.data-00000-of-00001").read_bytes())
    data[-1] ^= 1
    (tmp_path / "b.data-00000-of-00001").write_bytes(data)
    for target in ("o.npz", "o.json", "o.h5", "o.safetensors", "d/"):
        result = ckpt("extract", tmp_path / "b", "-o", f"{tmp_path}/{target}")
        assert (result.code, result.out) == (3, "")
        assert "tensor 'z'" in result.err
    assert sorted(os.listdir(tmp_path)) == ["b.data-00000-of-00001", "b.index"]


def test_a_listing_has_nothing_to_extract(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "l.json").write_text(ckpt("ls", "-l", "--json", NAMED).out)
    result = ckpt("extract", tmp_path / "l.json", "-o", tmp_path / "o.npz")
    assert result.code == 3
    assert "a listing has no values" in result.err


def test_a_tensor_without_elements_is_written_as_up_to_100_000_lists(ckpt: Callable, tmp_path: Path) -> None:
    prefix, out = str(tmp_path / "c-1"), tmp_path / "out.json"
    write_bundle(prefix, {"most": np.zeros((1000, 100, 0)), "more": np.zeros((100_001, 0, 5))})
    assert ckpt("extract", prefix, "most", "-o", out).code == 0
    assert json.loads(out.read_text())["most"] == [[[]] * 100] * 1000
    result = ckpt("extract", prefix, "more", "-o", tmp_path / "more.json")
    assert result.code == 3
    assert "shape [100001, 0, 5] has no elements, but needs 100001 nested lists" in result.err
