"""One tensor of a type that is not mapped closes no file: every command with every format that can hold one.

`odd` is that tensor, and `w` one of float32 next to it. Formats differ in what they know of `odd`: a type
whose bytes are copied, one whose bytes are read and not written, and one that is not read at all.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, NamedTuple

import h5py
import numpy as np
import pytest

import formats
from tests.torch_files import Call, Named, storage, tensor, untyped, written, zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WEIGHTS = np.arange(6, dtype=np.float32)


class Made(NamedTuple):
    """How a file is made: its suffix, what the format calls the type, and what becomes of the bytes."""

    suffix: str
    type_name: str
    write: Callable[[Path, int], object]
    has_bytes: bool = True
    is_carried: bool = True


def _safetensors(code: str, shape: list[int]) -> Callable[[Path, int], object]:
    def write(path: Path, first: int) -> None:
        odd = bytes(range(first, first + 12))
        header = {
            "odd": {"dtype": code, "shape": shape, "data_offsets": [0, 12]},
            "w": {"dtype": "F32", "shape": [6], "data_offsets": [12, 36]},
        }
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + odd + WEIGHTS.tobytes())

    return write


def _torch(name: str) -> Callable[[Path, int], object]:
    def write(path: Path, first: int) -> None:
        odd = untyped(name, "0", 12, (3 if name == "complex32" else 12,))
        storages = {"0": bytes(range(first, first + 12)), "1": WEIGHTS.tobytes()}
        written(path, zipped({"odd": odd, "w": tensor(storage("1"))}, storages))

    return write


def _quantized(path: Path, first: int) -> None:
    scheme = (Named("torch.per_tensor_affine"), 0.1, 3)
    hooks = Call("collections.OrderedDict")
    of = storage("0", 6, "torch.QInt8Storage")
    odd = Call("torch._utils._rebuild_qtensor", (of, 0, (2, 3), (3, 1), scheme, False, hooks))
    storages = {"0": bytes(range(first, first + 6)), "1": WEIGHTS.tobytes()}
    written(path, zipped({"odd": odd, "w": tensor(storage("1"))}, storages))


def _npz(array: np.ndarray) -> Callable[[Path, int], object]:
    def write(path: Path, first: int) -> None:
        changed = array.copy()
        changed.reshape(-1).view(np.uint8)[0] = first
        np.savez(path, odd=changed, w=WEIGHTS)

    return write


def _pickled(path: Path, first: int) -> None:
    np.savez(path, odd=np.array([first, None], object), w=WEIGHTS)


def _hdf5(path: Path, first: int) -> None:
    with h5py.File(path, "w") as file:
        file["odd"] = np.arange(4, dtype=np.longdouble) + first
        file["w"] = WEIGHTS


def _keras(name: str | None) -> Callable[[Path, int], object]:
    def write(path: Path, first: int) -> None:
        with h5py.File(path, "w") as file:
            group = file.create_group("layers/dense/vars")
            group["0"] = WEIGHTS
            if name is None:
                group["1"] = np.full(3, first, [("a", "i4"), ("b", "f8")])
            else:
                values = np.arange(first, first + 12, dtype=np.uint8).view("V1")
                group.create_dataset("1", data=values).attrs["dtype"] = name

    return write


FILES = {
    "safetensors F4": Made(".safetensors", "F4", _safetensors("F4", [24])),
    "safetensors F6_E2M3": Made(".safetensors", "F6_E2M3", _safetensors("F6_E2M3", [16])),
    "safetensors F6_E3M2": Made(".safetensors", "F6_E3M2", _safetensors("F6_E3M2", [16])),
    "safetensors, later": Made(".safetensors", "F9_NEW", _safetensors("F9_NEW", [5]), is_carried=False),
    "pytorch complex32": Made(".pt", "complex32", _torch("complex32")),
    "pytorch float4": Made(".pt", "float4_e2m1fn_x2", _torch("float4_e2m1fn_x2")),
    "pytorch bits8": Made(".pt", "bits8", _torch("bits8")),
    "pytorch uint3": Made(".pt", "uint3", _torch("uint3")),
    "pytorch, quantized": Made(".pt", "qint8", _quantized, has_bytes=False, is_carried=False),
    "npz long double": Made(".npz", "<f16", _npz(np.arange(4, dtype=np.longdouble))),
    "npz raw": Made(".npz", "|V2", _npz(np.arange(4, dtype="<u2").view("V2"))),
    "npz time": Made(".npz", "<M8[D]", _npz(np.array(["2020-01-01", "2021-01-01"], "M8[D]"))),
    "npz fields": Made(
        ".npz", "[('a', '<i4'), ('b', '<f8')]", _npz(np.array([(1, 2.0)], [("a", "<i4"), ("b", "<f8")]))
    ),
    "npz, pickled": Made(".npz", "|O", _pickled, has_bytes=False, is_carried=False),
    "hdf5 long double": Made(".h5", "float128_e15m64", _hdf5, is_carried=False),
    "keras float4": Made(".weights.h5", "float4_e2m1fn", _keras("float4_e2m1fn"), is_carried=False),
    "keras compound": Made(".weights.h5", "compound", _keras(None), has_bytes=False, is_carried=False),
}


class Files(NamedTuple):
    """Two files that differ in `odd` alone, and how they were made."""

    left: Path
    right: Path
    made: Made
    tmp: Path

    def out(self, name: str = "out") -> Path:
        return self.tmp / (name + self.made.suffix)

    @property
    def odd(self) -> str:
        return "layers/dense/vars/1" if self.made.suffix == ".weights.h5" else "odd"

    @property
    def weights(self) -> str:
        return "layers/dense/vars/0" if self.made.suffix == ".weights.h5" else "w"


@pytest.fixture(params=FILES)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made = FILES[request.param]
    left, right = tmp_path / f"left{made.suffix}", tmp_path / f"right{made.suffix}"
    made.write(left, 1)
    made.write(right, 2)
    return Files(left, right, made, tmp_path)


def bytes_of(path: Path, key: str) -> bytes:
    with formats.open_checkpoint(str(path)) as reader:
        return b"".join(map(bytes, reader[key].chunks()))


def test_it_is_listed_by_the_name_that_the_format_has_for_it(files: Files, ckpt: Callable) -> None:
    done = ckpt("ls", "--json", "-l", "--digest", "sha256", files.left)
    assert done.code == 0, done.err
    rows = {row["key"]: row for row in done.json["tensors"]}
    odd = rows[files.odd]
    assert odd["dtype"] is None
    assert odd["stored"]["dtype"] == files.made.type_name
    assert odd["stored"]["nbytes"] == odd["nbytes"]
    assert (odd["digest"] is not None) == files.made.has_bytes
    assert "stored" not in rows[files.weights]
    assert done.json["total"]["nbytes"] == sum(row["nbytes"] or 0 for row in rows.values())
    if files.made.has_bytes:
        assert odd["nbytes"] == len(bytes_of(files.left, files.odd))
    plain = ckpt("ls", "--json", files.left)
    assert all("stored" not in row for row in plain.json["tensors"])
    assert [files.odd, ""] in [row[:2] for row in ckpt("ls", files.left).rows]


def test_show_has_no_values_of_it(files: Files, ckpt: Callable) -> None:
    assert files.made.type_name in ckpt("show", "--json", files.left).json["dtypes"]
    done = ckpt("show", "--json", files.left, files.odd)
    assert done.code == 0, done.err
    found = done.json
    assert (found["dtype"], found["stats"], found["values"]) == (None, None, None)
    assert found["stored"]["dtype"] == files.made.type_name
    told = ckpt("show", files.left, files.odd)
    assert (told.code, ["stored", files.made.type_name] in told.rows) == (0, True)
    sliced = ckpt("show", files.left, f"{files.odd}[0:1]")
    assert sliced.code == 3
    assert "ckpt: error:" in sliced.err


def test_stats_leaves_it_alone_and_says_so(files: Files, ckpt: Callable) -> None:
    done = ckpt("stats", "--json", files.left)
    assert done.code == 0, done.err
    assert [row["key"] for row in done.json["tensors"]] == [files.weights]
    why = "ckpt cannot read values of this type"
    named = f"1 tensor is left out, because {why}: '{files.odd}' ({files.made.type_name})"
    assert f"note: {files.left}: {named}" in done.err
    failing = ckpt("stats", "-q", "--fail-on", "nan,inf", files.left)
    assert failing.code == 0
    assert f"warning: {files.left}: {named}" in failing.err


def test_diff_compares_its_bytes(files: Files, ckpt: Callable) -> None:
    same, other = ckpt("diff", files.left, files.left), ckpt("diff", "--json", files.left, files.right)
    if not files.made.has_bytes:
        assert (same.code, other.code) == (3, 3)
        assert f"--exclude {files.odd}" in same.err
        assert ckpt("diff", "--exclude", files.odd, files.left, files.right).code == 0
        return
    assert (same.code, same.out) == (0, "")
    assert other.code == 1, other.err
    (entry,) = other.json["entries"]
    assert (entry["key"], entry["change"]) == (files.odd, "value")
    assert (entry["differing"], entry["max_abs"]) == (None, None)
    assert entry["left"]["dtype"] is None
    assert entry["left"]["stored"]["dtype"] == files.made.type_name
    assert "bytes differ" in ckpt("diff", "--format", "github", files.left, files.right).out
    for more in ("--exact", "--rtol=1", "--stat", "--find-renames"):
        assert ckpt("diff", more, files.left, files.right).code == 1
        assert ckpt("diff", more, files.left, files.left).code == 0
    assert ckpt("diff", "--no-values", files.left, files.right).code == 0


def test_two_types_of_the_same_bytes_differ_in_dtype(tmp_path: Path, ckpt: Callable) -> None:
    _safetensors("F6_E2M3", [16])(tmp_path / "a.safetensors", 1)
    _safetensors("F6_E3M2", [16])(tmp_path / "b.safetensors", 1)
    done = ckpt("diff", "--json", tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    (entry,) = done.json["entries"]
    assert (done.code, entry["change"]) == (1, "dtype")
    assert [entry[side]["stored"]["dtype"] for side in ("left", "right")] == ["F6_E2M3", "F6_E3M2"]


def test_verify_finds_no_damage(files: Files, ckpt: Callable) -> None:
    done = ckpt("verify", "--json", files.left)
    (result,) = done.json["results"]
    is_known = files.made.type_name not in ("F9_NEW", "compound")  # no program has written such a file
    assert (done.code, result["ok"]) == ((0, True) if is_known else (1, False))
    assert all(finding["code"] == "dtype" for finding in result["findings"])


def test_a_listing_holds_it(files: Files, tmp_path: Path, ckpt: Callable) -> None:
    listed = ckpt("ls", "--json", "-l", "--digest", "sha256", files.left)
    (tmp_path / "model.json").write_text(listed.out)
    again = ckpt("ls", "--json", "-l", tmp_path / "model.json")
    row = next(row for row in again.json["tensors"] if row["key"] == files.odd)
    assert (row["dtype"], row["stored"]["dtype"]) == (None, files.made.type_name)
    if files.made.has_bytes:
        assert ckpt("diff", tmp_path / "model.json", files.left).code == 0
        assert ckpt("diff", tmp_path / "model.json", files.right).code == 1
        if files.made.type_name != "F9_NEW":
            assert ckpt("verify", "--against", tmp_path / "model.json", files.left).code == 0
        assert ckpt("verify", "--against", tmp_path / "model.json", files.right).code == 1


def _check_that_the_others_can_be_renamed(
    files: Files, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the hint as printed, of a renaming to another place and of one in place."""
    monkeypatch.chdir(files.tmp)
    left = files.left.name
    for words in ((left, files.out().name), (left, "--in-place")):
        refused = ckpt("rename", "--add-prefix", "x/", *words)
        assert refused.code == 3
        hint = refused.err.splitlines()[-1]
        said, _, line = hint.partition(": ckpt ")
        assert said == "hint: to save the other tensors and rename the result"
        saved = ckpt(*shlex.split(line))
        assert (saved.code, "ckpt: error" in saved.err) == (1, False), saved.err
        assert ckpt("rename", "--in-place", "--add-prefix", "x/", "OUT").code == 0
        assert ckpt("ls", "-1", "OUT").out == f"x/{files.weights}\n"
        (files.tmp / "OUT").unlink()


def test_rename_carries_its_bytes_or_names_it(
    files: Files, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ckpt("rename", "--add-prefix", "x/", files.left, files.out())
    if not files.made.is_carried:
        assert done.code == 3
        assert f"tensor {files.odd!r}" in done.err
        assert not files.out().exists()
        _check_that_the_others_can_be_renamed(files, ckpt, monkeypatch)
        return
    assert done.code == 0, done.err
    assert bytes_of(files.out(), f"x/{files.odd}") == bytes_of(files.left, files.odd)
    back = ckpt("rename", "--in-place", files.out(), "--strip-prefix", "x/")
    assert back.code == 0, back.err
    assert ckpt("diff", files.left, files.out()).code == 0


def test_convert_carries_what_the_target_holds(files: Files, ckpt: Callable) -> None:
    own = ckpt("convert", "--json", files.left, files.out()) if files.made.suffix != ".weights.h5" else None
    if own is not None and files.made.is_carried:
        assert own.code == 0, own.err
        moved = next(row for row in own.json["tensors"] if row["to"] == files.odd)
        assert (moved["dtype"], moved["stored"]["dtype"]) == (None, files.made.type_name)
        assert bytes_of(files.out(), files.odd) == bytes_of(files.left, files.odd)
    elif own is not None:
        assert own.code == 3
        assert not files.out().exists()
    for name in ("o.npz", "o.safetensors", "o.pt", "o.h5", "ckpt-1"):
        target = files.tmp / name
        if target.suffix == files.made.suffix:
            continue
        refused = ckpt("convert", files.left, target, *(["--to", "tf-name"] if name == "ckpt-1" else []))
        assert refused.code == 3, refused.err
        assert f"hint: to leave this tensor out, pass --exclude {files.odd}" in refused.err
        assert list(files.tmp.glob("o.*")) == [], "nothing is left behind"
    done = ckpt("convert", "--exclude", files.odd, files.left, files.tmp / "rest.npz")
    assert done.code == 0, done.err
    assert list(np.load(files.tmp / "rest.npz")) == [files.weights]


def test_extract_average_and_the_rest(files: Files, ckpt: Callable) -> None:
    assert ckpt("extract", files.left, files.weights, "-o", files.tmp / "w.npy").code == 0
    refused = ckpt("extract", files.left, "-o", files.tmp / "all.json")
    assert refused.code == 3
    assert files.odd in refused.err
    mean = ckpt("average", files.left, files.right, "-o", files.out("mean"))
    if files.made.is_carried:
        assert mean.code == 0, mean.err
        assert bytes_of(files.out("mean"), files.odd) == bytes_of(files.right, files.odd)
    else:
        assert mean.code == 3
        assert f"tensor {files.odd!r}" in mean.err
    assert ckpt("report", files.left, "-o", files.tmp / "r.html").code == 0
    both = ckpt("report", files.left, files.right, "-o", files.tmp / "rr.html")
    assert both.code == (0 if files.made.has_bytes else 3)
    log = ckpt("log", "--json", files.tmp)
    assert log.code == 0, log.err
    assert ckpt("ls", files.tmp).code == 0
    assert ckpt("match", files.left, files.right).code in (0, 1, 3)


def test_rescue_saves_what_can_be_written(files: Files, ckpt: Callable) -> None:
    done = ckpt("rescue", "--json", files.left, files.out("saved"))
    lost = [row["key"] for row in done.json["lost"]]
    if files.made.is_carried:
        assert (done.code, lost) == (0, [])
        assert bytes_of(files.out("saved"), files.odd) == bytes_of(files.left, files.odd)
    else:
        assert lost == [files.odd]
        assert ckpt("ls", "-1", files.out("saved")).out.splitlines() == [files.weights]


@pytest.mark.parametrize("executor", ["threads:2", "processes:2"])
@pytest.mark.parametrize("name", ["safetensors F4", "pytorch complex32", "npz long double"])
def test_every_executor(name: str, executor: str, tmp_path: Path, ckpt: Callable) -> None:
    made = FILES[name]
    left, right, out = (tmp_path / f"{side}{made.suffix}" for side in ("left", "right", "out"))
    made.write(left, 1)
    made.write(right, 2)
    assert ckpt("diff", "--executor", executor, left, right).code == 1
    assert ckpt("diff", "--executor", executor, left, left).code == 0
    assert ckpt("stats", "--executor", executor, left).code == 0
    assert ckpt("convert", "--executor", executor, left, out).code == 0
    assert ckpt("diff", left, out).code == 0
