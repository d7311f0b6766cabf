"""Hints that need more than their words: what they say to do is done, and does what they promise."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import data_path, same
from tests.writing import read_all

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

STEP_1, STEP_2 = data_path("pairs", "step1"), data_path("pairs", "step2")
SHAPES = data_path("pairs", "shape_change")
LEGACY = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")


def hints_in(text: str) -> list[str]:
    return re.findall("^hint: (.*)$", text, re.MULTILINE)


def test_shapes_that_differ_are_reported_before_slots_without_values(ckpt: Callable, tmp_path: Path) -> None:
    said = ckpt("convert", SHAPES, tmp_path / "new", "--like", STEP_1)
    assert said.code == 3
    assert "3 pairs differ in shape" in said.err
    (hint,) = hints_in(said.err)
    options = re.search("pass (--partial .*) to keep", hint)
    assert options is not None
    done = ckpt("convert", SHAPES, tmp_path / "new", "--like", STEP_1, *shlex.split(options[1]))
    assert done.code == 0, done.err


def test_a_name_in_a_map_is_not_answered_with_a_pattern(ckpt: Callable, tmp_path: Path) -> None:
    names = tmp_path / "m.tsv"
    names.write_text("-0/kernel\tb\n")
    said = ckpt("diff", STEP_1, STEP_2, "--map", names)
    assert said.code == 1
    meant = re.search(r"did you mean (\S+)", hints_in(said.err)[0])
    assert meant is not None
    names.write_text(f"{meant[1].rstrip('?')}\tb\n")
    done = ckpt("diff", STEP_1, STEP_2, "--map", names)
    assert "matches no" not in done.err
    assert "b/.ATTRIBUTES/VARIABLE_VALUE" in {row[1] for row in done.rows}


def test_a_revision_outside_a_repository_has_no_history_to_fetch(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    outside = hints_in(ckpt("ls", "HEAD:foo").err)
    assert outside == ["run ckpt inside a git repository to use REV:PATH"]
    subprocess.run(["git", "init", "-q"], check=True)
    (inside,) = hints_in(ckpt("ls", "HEAD~3:foo").err)
    command = inside.partition("; to list commits: ")[2]
    assert subprocess.run(shlex.split(command), check=False).returncode == 0


def test_an_index_is_rebuilt_by_the_whole_command_of_the_hint(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ckpt("convert", data_path("corrupt", "index_missing", "ckpt"), tmp_path / "x.npz")
    assert hints_in(said.err)[-1].endswith(
        " with --sibling OTHER to rebuild the index; OTHER is another checkpoint of the same run"
    )
    good = data_path("corrupt", "good", "ckpt")
    monkeypatch.chdir(tmp_path)
    lost = data_path("corrupt", "index_missing", "ckpt")
    assert ckpt("rescue", lost, "OUT", "--sibling", good).code == 0
    saved, wanted = read_all(tmp_path / "OUT"), read_all(good)
    assert saved.keys() == wanted.keys()
    assert all(same(saved[key], wanted[key]) for key in wanted)


def test_a_configuration_that_does_not_fit_is_not_requested_as_if_none_was_given(
    ckpt: Callable, tmp_path: Path
) -> None:
    config = data_path("keras_mlp", "mlp.full.h5")
    said = ckpt("convert", LEGACY, tmp_path / "a.h5", "--config", config)
    assert said.code == 3
    hints = hints_in(said.err)
    assert hints[0] == "pass the configuration of the model that wrote SRC with --config FILE"
    assert hints[-1].startswith("to write the tensors by key, pass --to hdf5 ")
    assert ckpt("convert", LEGACY, tmp_path / "a.h5", "--to", "hdf5").code == 0


def test_a_generation_is_given_by_a_template(ckpt: Callable, tmp_path: Path) -> None:
    said = ckpt("convert", STEP_1, tmp_path / "new", "--generation", "keras3")
    hint = "to convert for another program, pass a checkpoint of it with --like TEMPLATE"
    assert (said.code, hints_in(said.err)) == (3, ["remove --generation", hint])
    assert ckpt("convert", STEP_1, tmp_path / "new", "--like", STEP_2).code == 0


def test_a_url_of_no_repository_is_named(ckpt: Callable) -> None:
    said = ckpt("ls", "hf://foo")
    assert said.code == 3
    assert said.err.startswith("ckpt: error: hf://foo: this is not a repository of the Hub")


def follow(ckpt: Callable, hint: str) -> Any:
    """Run the command at the end of a hint."""
    return ckpt(*shlex.split(hint[hint.index("ckpt ") :])[1:])


def test_dtypes_that_differ_are_cast(ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wide, narrow = data_path("pairs", "name_based"), data_path("pairs", "name_based_f16")
    said = ckpt("match", wide, narrow)
    assert said.code == 1
    assert "--map" not in said.err
    assert follow(ckpt, said.err.strip()).code == 0
    assert ckpt("match", "DST", narrow).code == 0


def test_what_is_saved_of_a_format_that_is_only_read_has_a_suffix(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cut.gguf").write_bytes(Path(data_path("exports", "gguf", "plain.gguf")).read_bytes()[:-200])
    said = ckpt("verify", "cut.gguf")
    assert said.code == 1
    done = follow(ckpt, said.err.strip())
    assert done.code == 1, done.err  # one tensor is lost
    assert {row[0] for row in done.rows} == {"unproved", "lost"}
    assert (tmp_path / "OUT.safetensors").exists()


def test_a_lost_object_graph_is_marked_as_lost(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = ckpt("graph", data_path("corrupt", "graph_absent", "ckpt"))
    assert said.code == 3
    assert "the keys of this checkpoint are object-based, but the object graph is missing" in said.err
    assert "name-based" not in said.err
    (hint,) = hints_in(said.err)
    assert follow(ckpt, hint).code == 0
    assert ckpt("graph", "OUT").code == 0


def test_a_file_that_is_not_a_key_needs_no_other_mode(ckpt: Callable, tmp_path: Path) -> None:
    text = tmp_path / "README.md"
    text.write_text("# A model\n")
    text.chmod(0o644)
    said = ckpt("sign", STEP_1, "--key", text, "-o", tmp_path / "s.sig")
    assert said.code == 3
    assert "private key: its mode" not in said.err
    assert "chmod" not in said.err


def test_a_step_count_that_an_option_gives_is_left_out_for_that(ckpt: Callable, tmp_path: Path) -> None:
    said = ckpt("convert", STEP_1, tmp_path / "new", "--like", STEP_2, "--iterations", "7")
    assert said.code == 0
    left = next(line for line in said.err.splitlines() if "left out optimizer/_iterations" in line)
    assert left.endswith(": --iterations 7 replaces the step count of SRC")


def test_formats_that_differ_are_made_one_before_averaging(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    h5 = data_path("pairs", "step1.h5")
    said = ckpt("average", STEP_2, h5, "-o", "mean.h5")
    assert said.code == 3
    (hint,) = hints_in(said.err)
    done = follow(ckpt, hint)
    assert done.code == 0, done.err
    assert ckpt("average", "DST", h5, "-o", "mean.h5").code == 0


def test_an_integer_is_not_called_a_range(ckpt: Callable) -> None:
    said = ckpt("ls", STEP_1, "--depth", "x")
    assert said.code == 2
    assert said.err.startswith("ckpt: error: Invalid value for '--depth': 'x' is not an integer.")


def test_ls_names_the_command_that_chooses_by_values(ckpt: Callable) -> None:
    for words in (
        ("--where", "std>0.5"),
        ("--where=std>0.5 and kind=variable", "-l", "--sort", "dtype", "--digest", "crc32c"),
    ):
        said = ckpt("ls", STEP_1, "kernel", "--kind", "variable", *words)
        assert said.code == 2
        command = hints_in(said.err)[-1].removeprefix("stats reads values: ")
        assert shlex.split(command)[:6] == ["ckpt", "stats", STEP_1, "kernel", "--kind", "variable"]
        done = ckpt(*shlex.split(command)[1:], "--json")
        assert (done.code, done.err.count("error")) == (0, 0)
        assert len(done.json["tensors"]) == 1
    assert "stats reads values" not in ckpt("ls", STEP_1, "--where", "rel_l2>1").err
