"""--where, --sort, --top and --csv of `ls`, `stats` and `diff`: which rows are printed, and how."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli as api
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")
CKPT = os.path.join(GUIDE, "ckpt-10")
LEFT, RIGHT = data_path("pairs", "step1"), data_path("pairs", "step2")


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """Return an archive of tensors that differ in size, dtype and values."""
    path = tmp_path / "a.npz"
    np.savez(
        path,
        **{
            "large": np.full(600, 2.0, np.float32),
            "small": np.array([0.5, 1.5], np.float32),
            "whole": np.arange(700, dtype=np.int32),
            'bad,"one"': np.array([1.0, np.nan], np.float32),
        },
    )
    return path


def keys(ckpt: Callable, *words: object) -> list[str]:
    done = ckpt(*words)
    assert (done.code, done.err) == (0, "")
    return [row[0] for row in done.rows]


def table(text: str) -> list[list[str]]:
    """Return the rows of CSV; each line of it ends as RFC 4180 says."""
    assert text.count("\r\n") == text.count("\n")
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


# --where ----------------------------------------------------------------------------


def test_ls_lists_what_an_expression_chooses(arrays: Path, ckpt: Callable) -> None:
    assert keys(ckpt, "ls", arrays, "--where", "size>2k") == ["large", "whole"]
    assert keys(ckpt, "ls", arrays, "--where", "size>2k and dtype=float32") == ["large"]
    assert keys(ckpt, "ls", arrays, "l*", "--where", "size>2k") == ["large"]
    found = ckpt("ls", arrays, "--json", "--where", "not dtype=int32").json
    assert [row["key"] for row in found["tensors"]] == ['bad,"one"', "large", "small"]
    assert found["total"] == {"tensors": 3, "parameters": 604, "nbytes": 2416}


def test_ls_knows_the_columns_of_its_long_form(ckpt: Callable) -> None:
    found = keys(ckpt, "ls", CKPT, "--where", "object_path='net/l1/kernel' and kind=variable")
    assert found == ["net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"]
    every = ckpt("ls", CKPT, "--json", "-l", "--digest", "crc32c").json["tensors"]
    by_offset = sorted((row["offset"], row["key"]) for row in every)
    assert keys(ckpt, "ls", CKPT, "--sort", "offset") == [key for _, key in by_offset]
    one = every[3]
    where = f"digest='{one['digest']}' and offset={one['offset']}"
    assert keys(ckpt, "ls", CKPT, "--digest", "crc32c", "--where", where) == [one["key"]]


def test_ls_of_a_directory_chooses_checkpoints(ckpt: Callable) -> None:
    assert keys(ckpt, "ls", GUIDE, "--where", "step>=9") == ["ckpt-9", "ckpt-10"]
    assert keys(ckpt, "ls", GUIDE, "--sort", "name", "-r") == ["ckpt-10", "ckpt-9", "ckpt-8"]
    assert ckpt("ls", GUIDE, "--where", "step>100").code == 1
    assert len(keys(ckpt, "ls", "-R", GUIDE, "--where", "step=9")) == 1


def test_a_column_of_tensors_means_the_latest_checkpoint(ckpt: Callable) -> None:
    done = ckpt("ls", GUIDE, "--where", "dtype=int64")
    assert done.code == 0
    assert done.out == ckpt("ls", CKPT, "--dtype", "int64").out


def test_stats_choose_by_values_and_so_does_the_exit_code(arrays: Path, ckpt: Callable) -> None:
    assert keys(ckpt, "stats", arrays, "--where", "size>2k and std>0") == ["whole"]
    assert keys(ckpt, "stats", arrays, "--where", "nan>0") == ['bad,"one"']
    assert ckpt("stats", arrays, "--fail-on", "nan").code == 1
    assert ckpt("stats", arrays, "--fail-on", "nan", "--where", "size>1k").code == 0
    assert keys(ckpt, "stats", arrays, "--where", "max>1", "--sort", "size") == ["whole", "large", "small"]


def test_stats_do_not_read_what_size_and_dtype_leave_out(ckpt: Callable) -> None:
    def read(*words: str) -> int:
        told = ckpt("stats", CKPT, "-v", *words).err
        data = next(line for line in told.splitlines() if ".data-" in line)
        return int(data.partition(": ")[2].split()[0].replace(",", ""))

    assert read("--where", "kind=variable and shape=5 and std>=0") < read("--where", "std>=0")


def test_diff_chooses_entries_and_counts_them(ckpt: Callable) -> None:
    every = ckpt("diff", LEFT, RIGHT, "--json", "--kind", "variable").json
    far = [row["key"] for row in every["entries"] if row["rel_l2"] > 0.15]
    assert 0 < len(far) < len(every["entries"])
    words = ("diff", LEFT, RIGHT, "--json", "--kind", "variable", "--where")
    some = ckpt(*words, "rel_l2>15%").json
    assert [row["key"] for row in some["entries"]] == far
    assert some["summary"] == {"same": 0, "changed": len(far), "added": 0, "removed": 0, "renamed": 0}
    assert ckpt(*words, "rel>0.15").json == some
    shaped = ckpt("diff", LEFT, RIGHT, "--all", "--json", "--where", "kind=variable and shape=4").json
    assert {tuple(row["right"]["shape"]) for row in shaped["entries"]} == {(4,)}


def test_the_exit_code_of_diff_is_that_of_what_was_chosen(ckpt: Callable) -> None:
    same = "change=same"
    assert ckpt("diff", LEFT, RIGHT, "--where", same).code == 0
    assert ckpt("diff", LEFT, RIGHT, "-q", "--where", same).code == 0
    assert ckpt("diff", LEFT, RIGHT, "-q", "--where", "change=value").code == 1
    removed = data_path("pairs", "shape_change")
    rows = ckpt(
        "diff", LEFT, removed, "--where", "left_dtype=float32 and change=removed or change=shape"
    ).rows
    assert {row[0] for row in rows} <= {"removed", "shape"}


@pytest.mark.parametrize("command", [("ls", CKPT), ("stats", CKPT), ("diff", LEFT, RIGHT)])
def test_what_chooses_nothing_says_so(command: tuple[str, ...], ckpt: Callable) -> None:
    done = ckpt(*command, "--where", "size>1G")
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("no tensor satisfies --where 'size>1G'\n")


@pytest.mark.parametrize("command", [("ls", CKPT), ("stats", CKPT), ("diff", LEFT, RIGHT)])
def test_a_mistake_is_a_usage_error_that_points_at_it(command: tuple[str, ...], ckpt: Callable) -> None:
    done = ckpt(*command, "--where", "size>1M and and")
    assert (done.code, done.out) == (2, "")
    lines = done.err.splitlines()
    assert lines[0].startswith(
        "ckpt: error: --where, character 13 of 'size>1M and and': there is no column 'and'"
    )
    assert lines[1] == "hint: correct the expression at the mark:"
    assert lines[2:4] == ["      size>1M and and", "                  ^"]
    deep = ckpt(*command, "--where", "(" * 10_000 + "size>1" + ")" * 10_000)
    assert (deep.code, deep.out) == (2, "")
    lines = deep.err.splitlines()
    assert "nested more than 100 deep" in lines[0]
    assert max(map(len, lines)) < 250
    assert lines[3].index("^") - len("hint: ") == 33


def test_a_column_that_is_missing_is_a_usage_error(ckpt: Callable) -> None:
    for words, said in (
        ((CKPT, "--where", "step>1"), "a checkpoint has no column 'step'"),
        ((CKPT, "--where", "digest=x"), "without --digest a checkpoint has no column 'digest'"),
        ((CKPT, "--sort", "step"), "--sort: 'step' is not one of 'key'"),
        ((CKPT, "--sort", "digest"), "--sort: 'digest' is not one of"),
        ((GUIDE, "--where", "stored_step>1"), "this listing of a directory has no column 'stored_step'"),
    ):
        done = ckpt("ls", *words)
        assert (done.code, done.out) == (2, "")
        assert said in done.err


# --sort, --top, --csv ---------------------------------------------------------------


def test_stats_are_sorted_by_any_column(arrays: Path, ckpt: Callable) -> None:
    assert keys(ckpt, "stats", arrays, "--sort", "max") == ["whole", "large", "small", 'bad,"one"']
    assert keys(ckpt, "stats", arrays, "--sort", "nan")[0] == 'bad,"one"'
    assert keys(ckpt, "stats", arrays, "--sort", "dtype")[-1] == "whole"


@pytest.mark.parametrize("column", ["rel_l2", "max_abs", "right_dtype", "left_shape", "nbytes", "differing"])
def test_diff_is_sorted_by_any_column(column: str, ckpt: Callable) -> None:
    done = ckpt("diff", LEFT, RIGHT, "--sort", column)
    assert done.code == 1
    assert sorted(done.rows) == sorted(ckpt("diff", LEFT, RIGHT).rows)


@pytest.mark.parametrize(
    "command", [("ls", CKPT), ("ls", CKPT, "-l"), ("ls", GUIDE), ("stats", CKPT), ("diff", LEFT, RIGHT)]
)
def test_top_shows_the_first_rows_and_json_stays_whole(command: tuple[str, ...], ckpt: Callable) -> None:
    every = ckpt(*command)
    assert ckpt(*command, "--top", "2").rows == every.rows[:2]
    assert ckpt(*command, "--top", "2").code == every.code
    assert ckpt(*command, "--top", "2", "--json").out == ckpt(*command, "--json").out


def test_the_exit_code_is_of_all_rows(arrays: Path, ckpt: Callable) -> None:
    done = ckpt("stats", arrays, "--fail-on", "nan", "--top", "1", "--sort", "size")
    assert done.code == 1
    assert len(done.rows) == 1


def test_csv_has_a_header_and_quotes(arrays: Path, ckpt: Callable) -> None:
    rows = table(ckpt("ls", arrays, "--csv").out)
    assert rows[0] == ["key", "dtype", "shape", "nbytes"]
    assert rows[1] == ['bad,"one"', "float32", "2", "8"]
    assert ckpt("ls", arrays, "--csv").out.splitlines()[1] == '"bad,""one""",float32,2,8'
    rows = table(ckpt("stats", arrays, "--csv", "--top", "1").out)
    assert rows[0][:5] == ["key", "dtype", "shape", "min", "max"]
    assert len(rows) == 2


@pytest.mark.parametrize(
    "command",
    [
        ("ls", CKPT),
        ("ls", CKPT, "-l", "--digest", "crc32c"),
        ("ls", CKPT, "--depth", "1"),
        ("ls", GUIDE),
        ("ls", GUIDE, "-l"),
        ("ls", "-R", GUIDE),
        ("ls", CKPT, RIGHT),
        ("stats", CKPT),
        ("stats", "-R", GUIDE),
        ("diff", LEFT, RIGHT),
        ("diff", GUIDE, GUIDE, "--each", "--all"),
    ],
)
def test_csv_has_the_cells_of_tsv_below_one_header(command: tuple[str, ...], ckpt: Callable) -> None:
    plain, done = ckpt(*command), ckpt(*command, "--csv")
    assert (done.code, done.err) == (plain.code, plain.err)
    header, *rows = table(done.out)
    assert all(len(row) == len(header) == len(set(header)) for row in rows)
    assert [row[: len(tsv)] for row, tsv in zip(rows, plain.rows, strict=True)] == plain.rows


def test_csv_is_the_same_on_a_terminal(terminal: Callable, ckpt: Callable) -> None:
    for command in (("ls", CKPT), ("stats", CKPT), ("diff", LEFT, RIGHT), ("ls", GUIDE)):
        shown = terminal(*command, "--csv").out
        assert shown.split() == ckpt(*command, "--csv").out.split()


def test_a_terminal_says_how_many_rows_top_leaves_out(terminal: Callable) -> None:
    assert "and 13 more tensors" in terminal("ls", CKPT, "--top", "2").out
    assert "and 1 more checkpoint\n" in terminal("ls", GUIDE, "--top", "2", "--color", "never").out
    assert "more tensors" in terminal("stats", CKPT, "--top", "2").out
    assert "more tensors" in terminal("diff", LEFT, RIGHT, "--top", "2").out


def test_a_key_without_text_is_escaped_in_csv(tmp_path: Path, ckpt: Callable) -> None:
    np.savez(tmp_path / "a.npz", **{"a\nb\\": np.zeros(2, np.float32)})
    assert table(ckpt("ls", tmp_path / "a.npz", "--csv").out)[1][0] == "a\\x0ab\\\\"


@pytest.mark.parametrize("other", ["--json", "--tree", "-1", "-0"])
def test_csv_is_alone(other: str, ckpt: Callable) -> None:
    assert ckpt("ls", CKPT, "--csv", other).code == 2


def test_the_old_key_of_a_renamed_tensor_chooses(tmp_path: Path, ckpt: Callable) -> None:
    weights = np.arange(6, dtype=np.float32)
    np.savez(tmp_path / "old.npz", a=weights, gone=np.float32([9]))
    np.savez(tmp_path / "new.npz", b=weights, c=np.float32([1, 2]))
    line = ("diff", tmp_path / "old.npz", tmp_path / "new.npz", "-M", "--json")
    for where in ("from=a", "key=b", "left_dtype=float32 and right_dtype=float32", "change=renamed"):
        entries = ckpt(*line, "--where", where).json["entries"]
        assert [(entry["key"], entry["change"], entry["from"]) for entry in entries] == [
            ("b", "renamed", "a")
        ]
    assert ckpt(*line, "--where", "key=a").code == ckpt(*line, "--where", "from=gone").code == 1


def test_several_paths_share_one_header_in_csv(arrays: Path, tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK")
    done = ckpt("ls", tmp_path / "bad.npz", arrays, "--csv")
    assert done.code != 0
    header, *cells = csv.reader(io.StringIO(done.out, newline=""))
    assert header[:2] == ["path", "key"]
    assert {row[0] for row in cells} == {str(arrays)}
    done = ckpt("ls", arrays, tmp_path, "--csv")
    assert (done.code, done.out) == (2, "")
    assert "--csv cannot list both tensors and directories" in done.err


def test_a_number_is_not_nan(arrays: Path, ckpt: Callable) -> None:
    for words in (
        ("log", ".", "--follow", "--interval"),
        ("diff", arrays, arrays, "--rtol"),
        ("diff", arrays, arrays, "--atol"),
    ):
        done = ckpt(*words, "nan")
        assert done.code == 2
        assert "'nan' is not a number" in done.err


def test_a_column_of_checkpoints_is_not_a_question_of_digests(arrays: Path, ckpt: Callable) -> None:
    assert ": a checkpoint has no column 'step'" in ckpt("ls", arrays, "--where", "step=5 and key=a").err
    assert "without --digest a checkpoint has no column" in ckpt("ls", arrays, "--where", "digest=1").err


def test_expressions_in_python_are_text(arrays: Path, tmp_path: Path) -> None:
    for where in (5, ["size>1"], b"size>1"):
        with pytest.raises(ValueError, match="--where: expected text, found"):
            api.ls(arrays, where=where)  # type: ignore[arg-type]
    with pytest.raises(api.CheckpointError, match="no checkpoint satisfies --where"):
        api.ls(tmp_path, recursive=True, where="size>1G")


def test_stats_of_files_have_no_hint_to_take_files(arrays: Path, ckpt: Callable) -> None:
    done = ckpt("stats", "--files", arrays, arrays, "--where", "size>1G")
    assert done.code == 1
    assert "--files" not in done.err


@pytest.mark.parametrize("column", ["std", "l2", "zeros", "mean"])
def test_the_column_that_rows_are_sorted_by_stays_on_a_narrow_terminal(
    column: str, terminal: Callable
) -> None:
    tiny = data_path("bert_tiny")
    shown = terminal("stats", tiny, "--sort", column, "--top", "2", columns=60, NO_COLOR="1").out
    assert column.upper() in shown.splitlines()[0].split()
