"""`ckpt ls`: contract sections 1 to 3 and 5, on files that TensorFlow wrote."""

from __future__ import annotations

import json
import math
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.core import dtypes
from formats.tf.bundle import reader
from formats.wire.messages import BundleEntryProto, BundleHeaderProto, TensorShapeProto
from formats.wire.sstable import encode_block
from tests.support import FORMAT_IDS, data_path, manifest, recorded, table_of, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")
CKPT = os.path.join(GUIDE, "ckpt-10")
ONE_OF_EACH = {
    entry["format"]: data_path(entry["path"])
    for entry in manifest()["checkpoints"]
    if entry["format"] in FORMAT_IDS
}
TENSORFLOW = recorded("tf-v2-object", "tf-v2-name", "tf-v1")


@pytest.mark.parametrize("entry", TENSORFLOW, ids=lambda entry: entry["path"])
def test_every_tensorflow_checkpoint_is_listed_as_recorded(entry: dict, ckpt: Callable) -> None:
    result = ckpt("ls", "-l", "--json", data_path(entry["path"]))
    assert (result.code, result.err) == (0, "")
    found = result.json
    assert (found["schema"], found["format"]) == (1, FORMAT_IDS[entry["format"]])
    expected = sorted(entry["tensors"], key=lambda tensor: tensor["key"].encode())
    assert [(t["key"], t["dtype"], t["shape"]) for t in found["tensors"]] == [
        (t["key"], t["dtype"], t["shape"]) for t in expected
    ]
    for tensor, truth in zip(found["tensors"], expected, strict=True):
        if truth["dtype"] not in ("string", "variant"):
            itemsize = np.dtype(dtypes.BY_NAME[truth["dtype"]].numpy).itemsize
            assert tensor["nbytes"] == math.prod(truth["shape"]) * itemsize
        elif "size_on_disk" in truth:
            assert tensor["nbytes"] == truth["size_on_disk"]
        if "crc32c" in truth:
            place = [None] * 3 if "slices" in truth else [truth["shard"], truth["offset"], truth["crc32c"]]
            assert [tensor["shard"], tensor["offset"], tensor["crc32c"]] == place
    assert found["total"]["tensors"] == len(expected)
    assert found["total"]["nbytes"] == sum(t["nbytes"] for t in found["tensors"])


@pytest.mark.parametrize("path", ONE_OF_EACH.values(), ids=list(ONE_OF_EACH))
def test_a_document_says_of_each_tensor_what_a_document_of_several_does(path: str, ckpt: Callable) -> None:
    """Rows of one checkpoint are put together as text, those of several are not."""
    alone = ckpt("ls", "-l", "--json", path).json
    several = ckpt("ls", "-l", "--json", path, CKPT).json["results"]
    assert alone["tensors"]
    assert several[0] == alone


def test_object_paths_full_names_and_kinds_of_an_object_based_checkpoint(ckpt: Callable) -> None:
    tensors = {t["key"]: t for t in ckpt("ls", "-l", "--json", CKPT).json["tensors"]}
    slot = tensors["net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"]
    assert slot["object_path"] == "net/l1/kernel (m of optimizer)"
    assert slot["full_name"] == "net/dense/kernel/m"
    assert slot["kind"] == "slot"
    kinds = {key.split("/.")[0]: tensor["kind"] for key, tensor in tensors.items() if "SLOT" not in key}
    assert kinds == {
        "_CHECKPOINTABLE_OBJECT_GRAPH": "graph",
        "iterator": "state",
        "net/l1/bias": "variable",
        "net/l1/kernel": "variable",
        "optimizer/beta_1": "optimizer",
        "optimizer/beta_2": "optimizer",
        "optimizer/decay": "optimizer",
        "optimizer/iter": "optimizer",
        "optimizer/learning_rate": "optimizer",
        "save_counter": "state",
        "step": "state",
    }


def test_parameters_count_floating_weights_only(ckpt: Callable) -> None:
    assert ckpt("ls", "--json", CKPT).json["total"] == {"tensors": 15, "parameters": 10, "nbytes": 2600}


def test_tsv_has_key_dtype_shape_and_bytes(ckpt: Callable) -> None:
    result = ckpt("ls", CKPT, "net/l1/kernel", "step")
    assert result.out == (
        "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE\tfloat32\t1,5\t20\nstep/.ATTRIBUTES/VARIABLE_VALUE\tint32\t\t4\n"
    )
    long = ckpt("ls", "-l", CKPT, "net/l1/kernel").rows
    assert long == [
        [
            "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE",
            *(
                "float32",
                "1,5",
                "20",
                "variable",
                "0",
                "1029",
                "2627679943",
                "net/l1/kernel",
                "net/dense/kernel",
            ),
        ]
    ]


def test_a_directory_lists_its_checkpoints_oldest_first(ckpt: Callable) -> None:
    result = ckpt("ls", "--json", GUIDE)
    assert result.code == 0
    found = result.json
    assert (found["directory"], found["latest"]) == (GUIDE, "ckpt-10")
    rows = [(c["name"], c["format"], c["step"], c["tensors"], c["nbytes"]) for c in found["checkpoints"]]
    assert rows == [(f"ckpt-{step}", "tf-object", step, 15, 2600) for step in (8, 9, 10)]
    assert all(c["path"] == os.path.join(GUIDE, c["name"]) for c in found["checkpoints"])
    assert all(c["modified"].endswith("Z") for c in found["checkpoints"])
    names = [row[0] for row in ckpt("ls", GUIDE).rows]
    assert names == ["ckpt-8", "ckpt-9", "ckpt-10"]


def test_a_long_listing_has_the_step_that_a_checkpoint_holds(ckpt: Callable, terminal: Callable) -> None:
    plain, long = (ckpt("ls", GUIDE, "--json", *more).json["checkpoints"] for more in ([], ["-l"]))
    assert [(row["step"], row.pop("stored_step")) for row in long] == [(8, 80), (9, 90), (10, 100)]
    assert long == plain
    head, *rows = terminal("ls", GUIDE, "-l", NO_COLOR="1").out.splitlines()
    assert head.split()[:5] == ["NAME", "FORMAT", "STEP", "STORED", "STEP"]
    assert [row.split()[2:4] for row in rows] == [["8", "80"], ["9", "90"], ["10", "100"]]
    assert [row[6] for row in ckpt("ls", GUIDE, "-l").rows] == ["80", "90", "100"]


@pytest.mark.parametrize("option", ["--tree", "--depth=2"])
def test_options_for_tensors_say_what_to_ask_of_a_directory(option: str, ckpt: Callable) -> None:
    asked = option.replace("=", " ")
    result = ckpt("ls", GUIDE, option)
    assert result.out == ckpt("ls", GUIDE).out
    assert (
        f"{asked} applies only to the tensors of one checkpoint, as in ckpt ls {asked} {GUIDE}/ckpt-10\n"
        in result.err
    )


def test_a_second_path_is_not_taken_for_a_pattern_silently(ckpt: Callable) -> None:
    result = ckpt("stats", GUIDE, GUIDE)
    assert result.code == 1
    assert (
        f"hint: pass one checkpoint; {GUIDE} is a path, and the arguments after a checkpoint are KEYs\n"
        in result.err
    )


def test_recursive_lists_every_directory_that_has_checkpoints(ckpt: Callable) -> None:
    found = ckpt("ls", "-R", "--json", data_path("guide_adam_legacy")).json
    assert [os.path.basename(d["directory"]) for d in found["directories"]] == [
        "tf_ckpts",
        "tf_ckpts_after_first_run",
    ]
    assert all("schema" not in directory for directory in found["directories"])
    names = [row[0] for row in ckpt("ls", "-R", data_path("guide_adam_legacy")).rows]
    assert names[0] == os.path.join(GUIDE, "ckpt-8")


@pytest.mark.parametrize(
    ("directory", "latest", "names"),
    [
        ("absolute", "model-2", ["model-1", "model-2"]),
        ("crash", "ckpt-1", ["ckpt-1"]),
        ("no_state_file", "model-1", ["model-1"]),
        ("relative", "sub/model-7", ["sub/model-7"]),
        ("spaces and.dots", "my model v1.2-3", ["my model v1.2-3"]),
        ("stale", None, ["here-3"]),
        ("two_prefixes", "beta-2", ["alpha-1", "beta-1", "alpha-2", "beta-2"]),
    ],
)
def test_directories_as_people_have_them(
    directory: str, latest: str | None, names: list, ckpt: Callable
) -> None:
    found = ckpt("ls", "--json", data_path("state_files", directory)).json
    assert found["latest"] == latest
    assert sorted(c["name"] for c in found["checkpoints"]) == sorted(names)


def test_the_note_says_which_checkpoint_was_chosen(ckpt: Callable) -> None:
    result = ckpt("ls", data_path("state_files", "absolute"), "--match", "*")
    assert result.code == 0
    assert (
        "model-2: it was found next to the state file, which names /data/run1/absolute/model-2" in result.err
    )


def test_a_directory_without_checkpoints_exits_1(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("ls", tmp_path)
    assert (result.code, result.out) == (1, "")
    assert result.err == f"ckpt: error: {tmp_path}: this directory contains no checkpoints\n"
    result = ckpt("ls", "--json", tmp_path)
    assert (result.code, result.json["checkpoints"], result.json["latest"]) == (1, [], None)
    assert ckpt("ls", "-R", tmp_path).code == 1


def test_a_damaged_member_is_listed_with_a_warning(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copytree(GUIDE, tmp_path / "run")
    (tmp_path / "run" / "ckpt-9.index").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    )
    result = ckpt("ls", "--json", tmp_path / "run")
    assert result.code == 0
    assert {c["name"]: c["format"] for c in result.json["checkpoints"]} == {
        "ckpt-8": "tf-object",
        "ckpt-9": None,
        "ckpt-10": "tf-object",
    }
    assert "ckpt-9.index: this is a Git LFS pointer, not the file" in result.err


def test_missing_shards_are_a_warning(ckpt: Callable) -> None:
    result = ckpt("ls", data_path("corrupt", "shard_missing", "ckpt"))
    assert result.code == 0
    assert len(result.rows) == 6
    assert "ckpt.data-00001-of-00003 is missing, so its tensors are listed, but cannot be read" in result.err


def test_an_entry_that_cannot_be_decoded_has_no_dtype(ckpt: Callable) -> None:
    result = ckpt("ls", "--json", data_path("corrupt", "entry_dtype_unknown", "ckpt"))
    assert result.code == 0
    odd = [t for t in result.json["tensors"] if t["dtype"] is None]
    assert [t["key"] for t in odd] == ["net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE"]
    assert len(result.json["tensors"]) == 15
    assert "the dtype number 77 is unknown (tensor net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE)" in result.err


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["net/l1/*"], ["net/l1/bias", "net/l1/kernel"]),
        (["--match", "*kernel*", "--kind", "variable"], ["net/l1/kernel"]),
        (
            ["--kind", "optimizer", "--exclude", "*beta*"],
            ["optimizer/decay", "optimizer/iter", "optimizer/learning_rate"],
        ),
        (["--regex", "^net/.*bias/.A"], ["net/l1/bias"]),
        (["--dtype", "int64"], ["optimizer/iter", "save_counter"]),
        (["net/l1/kernel (m of optimizer)"], ["net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"]),
    ],
)
def test_choosing(options: list[str], keys: list[str], ckpt: Callable) -> None:
    result = ckpt("ls", "-1", CKPT, *options)
    if "net/l1/*" in options:
        assert len(result.out.splitlines()) == 6
    else:
        assert result.out.splitlines() == [f"{key}/.ATTRIBUTES/VARIABLE_VALUE" for key in keys]


def test_what_matches_nothing_exits_1_and_names_close_keys(ckpt: Callable) -> None:
    result = ckpt("ls", CKPT, "net/l1/kernal")
    assert (result.code, result.out) == (1, "")
    assert f"ckpt: error: {CKPT}: no tensor matches 'net/l1/kernal'" in result.err
    assert "hint: did you mean net/l1/kernel" in result.err
    assert ckpt("ls", CKPT, "--kind", "slot", "--dtype", "int64").code == 1


@pytest.mark.parametrize(
    "options", [["--dtype", "float23"], ["--kind", "weights"], ["--regex", "("], ["--sort", "age"]]
)
def test_options_that_make_no_sense_exit_2(options: list[str], ckpt: Callable) -> None:
    result = ckpt("ls", CKPT, *options)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("ckpt: error: ")
    assert "hint: see ckpt ls --help" in result.err


def test_sorting(ckpt: Callable) -> None:
    sizes = [int(row[3]) for row in ckpt("ls", CKPT, "--sort", "size").rows]
    assert sizes == sorted(sizes, reverse=True)
    assert [int(row[3]) for row in ckpt("ls", CKPT, "--sort", "size", "-r").rows] == sizes[::-1]
    dtypes = [row[1] for row in ckpt("ls", CKPT, "--sort", "dtype").rows]
    assert dtypes == sorted(dtypes)


def test_keys_alone_end_in_newlines_or_nul_bytes(ckpt: Callable) -> None:
    odd = data_path("containers", "odd_names")
    plain = ckpt("ls", "-1", odd).out.splitlines()
    exact = ckpt("ls", "-0", odd).out.split("\0")
    assert exact.pop() == ""
    assert len(plain) == len(exact) == 18
    tabbed = next(key for key in exact if "\t" in key)
    assert tabbed.replace("\t", "\\x09") in plain


def test_depth_gives_totals(ckpt: Callable) -> None:
    groups = {row[0]: row[1:] for row in ckpt("ls", "--depth", "1", CKPT).rows}
    assert groups["net"] == ["6", "10", "120"]
    found = ckpt("ls", "--depth", "1", "--json", CKPT).json
    assert {"prefix": "net", "tensors": 6, "parameters": 10, "nbytes": 120} in found["prefixes"]


def test_depth_counts_slots_with_their_layer_on_a_terminal(terminal: Callable) -> None:
    newer = data_path("guide_adam_new", "tf_ckpts", "ckpt-10")
    layers = terminal("ls", "--depth", "1", newer, NO_COLOR="1").out.splitlines()
    assert [line.split() for line in layers if line.startswith(("net", "optimizer"))] == [
        ["net", "6", "10", "120", "B"],
        ["optimizer", "2", "0", "12", "B"],
    ]
    leaves = terminal("ls", "--depth", "3", newer, NO_COLOR="1").out
    assert "net/l1/kernel (m of optimizer)  " in leaves


def test_tree_shows_branches(ckpt: Callable) -> None:
    out = ckpt("ls", "--tree", data_path("name_based", "adam", "model.ckpt-5")).out
    assert out.startswith("model.ckpt-5\n├── ")
    assert "└── " in out


def test_every_name_of_a_checkpoint_lists_the_same(ckpt: Callable) -> None:
    names = [CKPT, CKPT + ".index", CKPT + ".data-00000-of-00001"]
    assert len({ckpt("ls", name).out for name in names}) == 1
    state_file = ckpt("ls", os.path.join(GUIDE, "checkpoint"))
    assert state_file.out == ckpt("ls", CKPT).out
    model = data_path("saved_model", "module")
    assert ckpt("ls", model).out == ckpt("ls", os.path.join(model, "variables", "variables")).out


def test_names_with_glob_characters_are_taken_literally(tmp_path: Path, ckpt: Callable) -> None:
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(CKPT + suffix, tmp_path / f"g[1]*-3{suffix}")
    assert ckpt("ls", tmp_path / "g[1]*-3").out == ckpt("ls", CKPT).out
    assert [row[0] for row in ckpt("ls", tmp_path).rows] == ["g[1]*-3"]


def test_a_thousand_checkpoints_are_listed_without_their_data(tmp_path: Path, ckpt: Callable) -> None:
    with open(CKPT + ".index", "rb") as file:
        index = file.read()
    for step in range(1000):
        (tmp_path / f"ckpt-{step}.index").write_bytes(index)  # no data shards at all
    result = ckpt("ls", tmp_path)
    assert result.code == 0
    assert [int(row[2]) for row in result.rows] == list(range(1000))


def test_a_listing_on_a_terminal_fits_and_shows_object_paths(terminal: Callable) -> None:
    result = terminal("ls", CKPT, columns=80)
    assert result.code == 0
    assert "KEY" in result.out
    assert "net/l1/kernel (m of optimizer)" in result.out
    assert "15 tensors, 10 parameters, 2.6 kB" in result.out
    assert "\x1b[" in result.out
    plain = terminal("ls", CKPT, columns=80, NO_COLOR="1").out
    assert "\x1b[" not in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "\x1b[" not in terminal("ls", CKPT, "--color", "never").out
    assert "latest" in terminal("ls", GUIDE).out


def test_a_narrow_terminal_cuts_no_number(terminal: Callable) -> None:
    """A column is shown whole or reported as left out: a step of 10 must not show as 1."""
    out = terminal("ls", GUIDE, columns=30, NO_COLOR="1").out
    assert out.splitlines()[0].split() == ["NAME", "STEP", "SIZE"]
    assert out.splitlines()[3].split() == ["ckpt-10", "10", "2.6", "kB", "latest"]
    assert "columns that do not fit: FORMAT, TENSORS, MODIFIED" in out


def test_keys_reach_no_terminal_raw(tmp_path: Path, terminal: Callable, ckpt: Callable) -> None:
    from tests.support import write_bundle

    hostile = "a\x1b[31mred\n\u202eb\\c"
    prefix = str(tmp_path / "odd-1")
    write_bundle(prefix, {hostile: np.ones(1, np.float32)})
    shown = "a\\x1b[31mred\\x0a\\xe2\\x80\\xaeb\\\\c"
    assert ckpt("ls", prefix).rows == [[shown, "float32", "1", "4"]]
    out = terminal("ls", prefix, NO_COLOR="1").out
    assert shown in out
    assert "\x1b" not in out
    assert json.loads(ckpt("ls", "--json", prefix).out)["tensors"][0]["key"] == hostile


def test_no_key_is_a_command_of_github_actions(
    tmp_path: Path, ckpt: Callable, terminal: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a step, where the runner reads along; what is for programs alone stays as it is."""
    keys = ["  ::error::x", "::add-mask::x", "a ##[add-mask]x", "b::c"]
    prefix = str(tmp_path / "odd-1")
    write_bundle(prefix, {key: np.ones(1, np.float32) for key in keys})
    forms = [("-1",), ("-0",), ("--json",), ("--json", "-l")]
    before = [ckpt("ls", *form, prefix) for form in forms]
    assert [row[0] for row in ckpt("ls", prefix).rows] == keys
    escaped = [r"  \x3a:error::x", r"\x3a:add-mask::x", r"a \x23#[add-mask]x", "b::c"]
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("GITHUB_ACTIONS", "false")
        assert [row[0] for row in ckpt("ls", prefix).rows] == keys
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert [row[0] for row in ckpt("ls", prefix).rows] == escaped
    assert [row[0] for row in ckpt("ls", "-l", prefix).rows] == escaped
    assert [ckpt("ls", *form, prefix) for form in forms] == before
    shown = terminal("ls", prefix, NO_COLOR="1").out
    assert all(key in shown for key in escaped)
    assert ckpt("ls", tmp_path / "##[group]x").err.startswith(f"ckpt: error: {tmp_path}/\\x23#[group]x: ")


def test_a_long_table_names_nothing_twice(terminal: Callable) -> None:
    by_name = terminal("ls", "-l", data_path("name_based", "adam", "model.ckpt-5"), columns=120, NO_COLOR="1")
    assert "CRC32C" in by_name.out
    assert "FULL NAME" not in by_name.out
    assert "OBJECT PATH" not in by_name.out
    by_object = terminal("ls", "-l", CKPT, columns=200, NO_COLOR="1")
    assert "OBJECT PATH" in by_object.out
    assert "FULL NAME" in by_object.out


def test_an_exclusion_that_matches_nothing_is_noted(tmp_path: Path, ckpt: Callable) -> None:
    path = str(tmp_path / "ckpt-1")
    write_bundle(path, {"v": np.ones(1), "w": np.ones(1)})
    note = f"note: {path}: no tensor matches --exclude 'x*'\n"
    listed = ckpt("ls", "-1", path, "--exclude", "x*", "--exclude", "v")
    assert (listed.code, listed.out, listed.err) == (0, "w\n", note)
    assert ckpt("stats", path, "--exclude", "x*").err == note
    assert ckpt("diff", path, path, "--exclude", "x*").err == note
    assert note in ckpt("convert", path, tmp_path / "out.npz", "--exclude", "x*").err
    assert note in ckpt("extract", path, "-o", tmp_path / "new.npz", "--exclude", "x*").err


def test_a_large_index_is_printed_as_it_is_read(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_MANY_BLOCKS", 0)
    value = BundleEntryProto(dtype=1, shape=TensorShapeProto(), size=4).encode()
    first = [(b"", BundleHeaderProto(num_shards=1).encode()), (b"a\x1b", value), (b"b", value)]
    (tmp_path / "c.index").write_bytes(table_of([encode_block(first), b"\5" + bytes(20)]))
    (tmp_path / "c.data-00000-of-00001").touch()
    for option, lines in (
        ("-1", "a\\x1b\nb\n"),
        ("-0", "a\x1b\0b\0"),
        ("-q", "a\\x1b\tfloat32\t\t4\nb\tfloat32\t\t4\n"),
    ):
        result = ckpt("ls", option, tmp_path / "c")
        assert (result.code, result.out) == (3, lines)
        assert "restart points" in result.err
    assert ckpt("ls", "--json", tmp_path / "c").out == ""


def test_a_checkpoint_that_lacks_a_shard_is_incomplete(
    tmp_path: Path, ckpt: Callable, terminal: Callable
) -> None:
    for name in os.listdir(data_path("shards")):
        if name.startswith("merged."):
            shutil.copy(data_path("shards", name), tmp_path)
    assert ckpt("ls", "--json", tmp_path).json["checkpoints"][0]["incomplete"] is False
    os.remove(tmp_path / "merged.data-00001-of-00002")
    found = ckpt("ls", "--json", tmp_path).json
    assert (found["latest"], found["checkpoints"][0]["incomplete"]) == ("merged", True)
    assert "latest, incomplete" in terminal("ls", tmp_path, NO_COLOR="1").out


def test_a_table_sorts_numbers_as_numbers_and_lines_by_bytes(
    tmp_path: Path, ckpt: Callable, terminal: Callable
) -> None:
    names = [f"layer_{number}/kernel" for number in (1, 2, 10, 100)]
    path = str(tmp_path / "c-1")
    write_bundle(path, {name: np.zeros(1, np.float32) for name in names})
    shown = terminal("ls", path, NO_COLOR="1").out
    assert [line.split()[0] for line in shown.splitlines() if "layer" in line] == names
    shown = terminal("ls", path, "-r", NO_COLOR="1").out
    assert [line.split()[0] for line in shown.splitlines() if "layer" in line] == names[::-1]
    assert [row[0] for row in ckpt("ls", path).rows] == sorted(names)
    assert [row["key"] for row in ckpt("ls", "--json", path).json["tensors"]] == sorted(names)
    shown = terminal("ls", path, "--depth", "1", NO_COLOR="1").out
    assert [line.split()[0] for line in shown.splitlines() if "layer" in line] == [n[:-7] for n in names]


@pytest.mark.parametrize(
    ("run", "kernel", "slots"),
    [("guide_adam_new", "kernel", ("m", "v")), ("guide_adam_keras3", "_kernel", ("momentum", "velocity"))],
)
def test_slots_in_lists_are_called_by_their_variables(
    run: str, kernel: str, slots: tuple[str, str], ckpt: Callable, terminal: Callable
) -> None:
    """TSV and JSON keep the keys; a KEY is either name."""
    path = data_path(run, "tf_ckpts", "ckpt-10")
    names = [f"net/l1/{at} ({slot} of optimizer)" for at in (kernel, "bias") for slot in slots]
    shown = terminal("ls", path, "--kind", "slot", NO_COLOR="1").out
    assert [name in shown for name in names] == [True] * 4
    assert "_variables" not in shown
    long = ckpt("ls", path, "--kind", "slot", "--json", "-l").json["tensors"]
    assert [row["object_path"] for row in long] == names
    assert all(row["key"].startswith("optimizer/_variables/") for row in long)
    for row in long:
        found = [ckpt("ls", "--json", path, row[name]).json["tensors"] for name in ("key", "object_path")]
        assert found[0] == found[1]
        assert len(found[0]) == 1
    for command in ("show", "stats"):
        assert names[0] in terminal(command, path, names[0], NO_COLOR="1").out
    assert (
        names[0].partition("/l1/")[2] in terminal("diff", path.replace("-10", "-9"), path, NO_COLOR="1").out
    )


KERNELS = [
    "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE",
    *(f"net/l1/kernel/.OPTIMIZER_SLOT/optimizer/{slot}/.ATTRIBUTES/VARIABLE_VALUE" for slot in "mv"),
]


def test_a_word_that_is_not_a_key_means_the_keys_that_contain_it(ckpt: Callable, terminal: Callable) -> None:
    for command in ("ls", "stats"):
        done = ckpt(command, CKPT, "kernel")
        assert (done.code, done.err) == (0, "note: 3 keys contain 'kernel'\n")
        assert [row[0] for row in done.rows] == KERNELS
    shown = ckpt("show", CKPT, "l1/kernel (m")
    assert (shown.code, shown.err) == (0, "note: 1 key contains 'l1/kernel (m'\n")
    assert shown.rows[0][1] == KERNELS[1]
    several = ckpt("show", CKPT, "kernel")
    assert (several.code, "3 tensors match 'kernel'; expected one" in several.err) == (1, True)
    assert ckpt("show", CKPT, "save_count[...]").rows[0][1].startswith("save_counter/")
    differing = ckpt("diff", CKPT.replace("-10", "-9"), CKPT, "kernel")
    assert (differing.code, differing.err) == (1, "note: 3 keys contain 'kernel'\n")


def test_a_word_is_a_key_where_scripts_rely_on_it(tmp_path: Path, ckpt: Callable) -> None:
    """In options, with --fail-on, in an expression and where something is written."""
    older = CKPT.replace("-10", "-9")
    for line in (
        ("ls", CKPT, "--match", "kernel"),
        ("stats", CKPT, "kernel", "--fail-on", "nan"),
        ("diff", older, CKPT, "kernel", "--fail-on", "value"),
        ("convert", CKPT, tmp_path / "x.npz", "kernel"),
        ("extract", CKPT, "kernel", "-o", tmp_path / "x.npz"),
        ("ls", CKPT, "[kernel"),
    ):
        done = ckpt(*line)
        assert (done.code, done.out) == (1, ""), line
        if "[kernel" not in line:
            assert "hint: did you mean '*kernel*'?" in done.err, line
    assert list(tmp_path.iterdir()) == []


def test_case_is_ignored_on_request(ckpt: Callable) -> None:
    assert ckpt("ls", CKPT, "--match", "*KERNEL*").code == 1
    for words in (("-i", "--match", "*KERNEL*"), ("-i", "KERNEL"), ("-i", "--regex", "KERNEL")):
        assert [row[0] for row in ckpt("ls", CKPT, *words).rows] == KERNELS
    kept = ckpt("ls", CKPT, "-i", "--exclude", "*KERNEL*").rows
    assert len(kept) == 15 - len(KERNELS)
    assert not any("kernel" in row[0] for row in kept)
    assert ckpt("show", CKPT, "-i", "NET/L1/BIAS").rows[0][1].startswith("net/l1/bias/")


@pytest.mark.parametrize("command", ["ls", "stats", "diff"])
def test_slots_of_keras_files_are_shown_by_their_variables(
    command: str, ckpt: Callable, terminal: Callable
) -> None:
    path, key = data_path("keras3_mlp", "mlp.keras"), "optimizer/vars/2"
    name = "layers/dense/vars/0 (momentum of optimizer)"
    several = [path, path, "--all"] if command == "diff" else [path]
    shown = terminal(command, *several, columns=250, NO_COLOR="1").out
    assert (name.rpartition("/")[2] if command == "diff" else name) in shown  # diff heads lines by layer
    assert f"\n{key} " not in shown
    assert key in ckpt(command, *several).out
    assert name not in ckpt(command, *several).out
    one = ckpt("show", path, name, "--json").json
    assert one["key"] == key


def test_statistics_are_sorted_as_people_count(tmp_path: Path, terminal: Callable) -> None:
    write_bundle(str(tmp_path / "m-1"), {f"layer_{number}/kernel": np.ones(2) for number in (1, 2, 10)})
    lines = terminal("stats", tmp_path / "m-1", columns=150, NO_COLOR="1").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [f"layer_{number}/kernel" for number in (1, 2, 10)]


@pytest.mark.parametrize("line", [("-R", data_path("several_optimizers")), (CKPT, GUIDE)])
def test_headings_are_below_an_empty_line(terminal: Callable, line: tuple[str, ...]) -> None:
    shown = terminal("ls", *line, NO_COLOR="1").out.splitlines()
    assert not any(r"\x0a" in text for text in shown)
    assert "" in shown
    assert shown[0]


def test_a_directory_says_which_checkpoints_are_copies(
    ckpt: Callable, terminal: Callable, tmp_path: Path
) -> None:
    for name in ("one.npz", "two.safetensors"):
        assert ckpt("convert", CKPT, tmp_path / name, "-q").code == 0
    assert ckpt("convert", CKPT, tmp_path / "half.npz", "--cast", "float16", "-q").code == 0
    shutil.copy(data_path("corrupt", "h5_cut", "weights.h5"), tmp_path / "cut.h5")
    listed = ckpt("ls", tmp_path, "--digest", "sha256", "-j", "2")
    assert listed.code == 0
    identity = ckpt("show", CKPT, "--digest").out.strip()
    assert {row[0]: row[-1] for row in listed.rows if row[0] in ("one.npz", "two.safetensors", "cut.h5")} == {
        "one.npz": identity,
        "two.safetensors": identity,
        "cut.h5": "",
    }
    members = {
        row["name"]: row for row in ckpt("ls", tmp_path, "--digest", "sha256", "--json").json["checkpoints"]
    }
    assert members["one.npz"]["copies"] == ["two.safetensors"]
    assert members["half.npz"]["copies"] == []
    assert members["half.npz"]["identity"] not in (None, identity)
    assert (members["cut.h5"]["identity"], members["cut.h5"]["copies"]) == (None, [])
    assert "same tensors as two.safetensors" in terminal("ls", tmp_path, "--digest", "sha256").out
    assert "identity" not in ckpt("ls", tmp_path, "--json").json["checkpoints"][0]
