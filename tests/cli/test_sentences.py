"""Messages on stderr: hints that can be pasted, suggested names, one line for each reason."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.api.writing import report_dropped
from ckpt_cli.operations.convert.plan import Dropped
from ckpt_cli.render.report import SCREEN
from formats.core.words import counted
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = data_path("guide_adam_legacy", "tf_ckpts")
NPZ = data_path("interop", "weights.npz")
SLOTS = data_path("name_based", "adam", "model.ckpt-5")


@pytest.mark.parametrize("name", ["ckpt-10", "ckpt-10.index", "ckpt-10.data-00000-of-00001"])
@pytest.mark.parametrize("command", ["log", "state"])
def test_a_checkpoint_where_a_directory_is_wanted_is_named_as_one(
    command: str, name: str, ckpt: Callable
) -> None:
    result = ckpt(command, os.path.join(RUN, name))
    assert result.code == 3
    assert f"{name}: this is one checkpoint; expected a directory of checkpoints\n" in result.err
    assert f"hint: pass the directory of this checkpoint: {RUN}\n" in result.err


def test_a_directory_that_is_missing_is_still_guessed(ckpt: Callable, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    result = ckpt("log", tmp_path / "trainings")
    assert f"no such directory\nhint: did you mean {tmp_path}/training?" in result.err


def test_hints_name_the_checkpoint_and_can_be_pasted(ckpt: Callable, tmp_path: Path) -> None:
    path = tmp_path / "two words.npz"
    np.savez(path, a=np.zeros(2))
    for command in (("graph", path), ("match", path, RUN)):
        result = ckpt(*command)
        assert "PATH" not in result.err
    assert (
        f"hint: to make an object graph from the keys: ckpt convert '{path}' DST --to object"
        in ckpt("graph", path).err
    )


@pytest.mark.parametrize(
    ("shown", "command"),
    [
        (
            r"'a=>\\9' is not a valid rule: invalid group reference 9",
            ("convert", RUN, "x", "--sub", r"a=>\9"),
        ),
        ("expected the bytes 89 48 44 46 0d 0a 1a 0a", ("ls", "w.h5")),
        (r"no tensor matches 'a\\b'", ("show", RUN, r"a\b")),
    ],
)
def test_nothing_is_escaped_twice(
    shown: str, command: tuple[str, ...], tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.h5").write_bytes(b"no HDF5 at all")
    assert shown in ckpt(*command).err


@pytest.mark.parametrize(
    ("short", "name"), [("f16", "float16"), ("bf16", "bfloat16"), ("f32", "float32"), ("f64", "float64")]
)
def test_short_names_of_dtypes(short: str, name: str, tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", RUN, tmp_path / "x.safetensors", "--weights-only", "--cast", short, "--json")
    assert {row["dtype"] for row in result.json["tensors"] if "l1" in row["to"]} == {name}
    assert ckpt("ls", tmp_path / "x.safetensors", "--dtype", short).code == 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("float", "did you mean float32 or float64?"),
        ("half", "did you mean float16?"),
        ("F32", "did you mean float32?"),
        ("BF16", "did you mean bfloat16?"),
        ("flaot32", "did you mean float32"),
        ("xyz", "expected one of float32, "),
    ],
)
def test_what_is_not_a_dtype_is_met_with_what_was_meant(given: str, meant: str, ckpt: Callable) -> None:
    for command in (("ls", RUN, "--dtype", given), ("convert", RUN, "x", "--cast", given)):
        result = ckpt(*command)
        assert result.code == 2
        assert f"'{given}' is not a dtype; {meant}" in result.err


def test_a_full_name_where_a_key_is_wanted(tmp_path: Path, ckpt: Callable) -> None:
    said = "name the key instead of the full name: 'net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE'"
    for command in (
        ("show", RUN, "net/dense/bias"),
        ("ls", RUN, "net/dense/bias"),
        ("stats", RUN, "--match", "net/dense/bias"),
        ("extract", RUN, "net/dense/bias", "-o", tmp_path / "x.npy"),
        ("rename", RUN, tmp_path / "x", "--strip-prefix", "net/dense/bias"),
    ):
        result = ckpt(*command)
        assert result.code == 1
        assert f"hint: {said}\n" in result.err


def test_counts_agree_with_their_nouns() -> None:
    assert [counted(n, "tensor") for n in (0, 1, 2, 1000)] == [
        "0 tensors",
        "1 tensor",
        "2 tensors",
        "1,000 tensors",
    ]
    assert counted(2, "entry", "entries") == "2 entries"


def test_one_tensor_is_not_a_plural(tmp_path: Path, terminal: Callable) -> None:
    write_bundle(str(tmp_path / "b"), {"a": np.zeros(1, np.float32)})
    for command in (
        ("ls", tmp_path / "b"),
        ("show", tmp_path / "b"),
        ("verify", tmp_path / "b"),
        ("convert", tmp_path / "b", tmp_path / "x.npz"),
        ("rescue", tmp_path / "b", tmp_path / "c"),
    ):
        shown = terminal(*command)
        text = shown.out + shown.err
        assert "1 tensor" in text, command
        assert "1 tensors" not in text, command
        assert "1 parameters" not in text, command


def test_what_is_left_out_for_one_reason_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    some = [
        Dropped("g", "npz cannot store an object graph"),
        *(Dropped(f"k{n}", "the object graph stores no full name") for n in range(9)),
    ]
    report_dropped([*some, Dropped("a\\b", "it is twice"), Dropped("c", "it is twice")], SCREEN)
    assert capsys.readouterr().err.splitlines() == [
        "note: left out g: npz cannot store an object graph",
        "note: left out 9 tensors, such as k0: the object graph stores no full name",
        r"note: left out a\\b and c: it is twice",
    ]


def test_convert_writes_the_names_in_hdf5_that_extract_writes(tmp_path: Path, ckpt: Callable) -> None:
    converted = ckpt("convert", SLOTS, tmp_path / "x.h5", "--to", "hdf5")
    extracted = ckpt("extract", SLOTS, "-o", tmp_path / "y.h5")
    assert (converted.code, extracted.code) == (0, 0)
    note, wrote = converted.err.splitlines()
    assert wrote == extracted.err.splitlines()[1].replace("y.h5", "x.h5")
    assert note == extracted.err.splitlines()[0]
    assert (
        "model/dense_1/bias/Adam is written as model/dense_1/bias.Adam, and 5 more tensors" in converted.err
    )
    assert ckpt("diff", tmp_path / "x.h5", tmp_path / "y.h5", "--exact").code == 0


def test_hdf5_by_keys_is_offered_where_a_configuration_is_missing(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", SLOTS, tmp_path / "x.h5")
    assert result.code == 3
    assert "pass --to hdf5" in result.err


def test_an_error_of_usage_is_one_line_without_tabs(ckpt: Callable) -> None:
    result = ckpt("completion")
    assert result.code == 2
    assert result.err.splitlines()[0].endswith("Choose from: bash, zsh, fish")


def test_nothing_is_suggested_that_is_hardly_alike(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "go.sh").touch()
    assert ckpt("ls", tmp_path / "nosuch").err.endswith(f"hint: to see which files exist: ls {tmp_path}\n")


def test_a_directory_of_data_without_an_index_says_so(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "ckpt-1.data-00000-of-00001").write_bytes(b"12345678")
    hint = "hint: copy ckpt-1.index to this directory, or save again; ckpt-1.data-00000-of-00001 has no index"
    for command in ("ls", "show", "verify", "stats", "log"):
        result = ckpt(command, tmp_path)
        assert result.code == 1
        assert hint in result.err


def test_a_command_in_a_hint_can_be_pasted(tmp_path: Path, ckpt: Callable) -> None:
    folder = tmp_path / "my runs"
    folder.mkdir()
    write_bundle(str(folder / "ckpt-1"), {"w": np.ones(1)})
    for arguments in (("show", folder / "ckpt-1", "zzz"), ("ls", folder / "nothing-like-it")):
        line = ckpt(*arguments).err.splitlines()[-1].partition(": ckpt ")[2]
        assert ckpt(*shlex.split(line)).code == 0


@pytest.mark.parametrize(
    "arguments",
    [("convert", "{}", "-"), ("rename", "{}", "-", "--sub", "a=>b"), ("ls", "-"), ("rescue", "{}", "-")],
)
def test_a_dash_is_not_a_prefix(arguments: tuple[str, ...], tmp_path: Path, ckpt: Callable) -> None:
    path = str(tmp_path / "ckpt-1")
    write_bundle(path, {"a": np.ones(1)})
    result = ckpt(*(word.format(path) for word in arguments))
    assert (result.code, result.out) == (2, "")
    assert "stdin and stdout are not supported here; to name a file called -, write ./-\n" in result.err
