"""Tables on terminals of any width: dropped columns, shortened names, names on their own line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.render import base as render
from ckpt_cli.render.tables import Column, cut, lay_out, pad, shorten, width, wrapped
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BERT = data_path("bert_tiny", "bert_model.ckpt-2")
OBJECTS = data_path("bert_template", "same_names", "with_adam", "ckpt-1")
DAMAGED = data_path("corrupt", "data_flip", "ckpt")


def lines_of(columns: list[Column], rows: list[list[str]], room: int) -> list[str]:
    laid = lay_out(columns, rows, room)
    return [laid.heading or "", *(line for row in laid.rows for line in row)]


@pytest.mark.parametrize(
    ("columns", "command"),
    [(80, ["ls", OBJECTS]), (80, ["ls", "-l", BERT])]
    + [(columns, ["stats", OBJECTS]) for columns in (80, 120)]
    + [(columns, ["ls", "-l", OBJECTS]) for columns in (80, 200)],
)
def test_no_row_wraps_twice(columns: int, command: list[str], terminal: Callable) -> None:
    """A name that cannot be shortened precedes its row, and only there does the terminal wrap."""
    found = terminal(*command, columns=columns, NO_COLOR="1")
    _, *rows = found.out.splitlines()
    assert found.code == 0
    assert max(map(width, rows)) <= 2 * columns
    wide = [line for line in rows if width(line) > columns]
    assert all(re.fullmatch(r"\S+( \(.* of .*\))?", line) for line in wide)  # a name and nothing else


def test_a_dumb_terminal_shows_names(terminal: Callable) -> None:
    """rich assumed 80 columns for every dumb terminal, and left the names out."""
    out = terminal("stats", OBJECTS, columns=80, TERM="dumb").out
    assert out.startswith("KEY ")
    assert "model/embeddings/norm/beta" in out


@pytest.mark.parametrize("command", [["stats", OBJECTS], ["ls", "-l", OBJECTS]])
def test_what_is_left_out_is_reported_below(command: list[str], terminal: Callable) -> None:
    narrow, wide = (terminal(*command, columns=columns, NO_COLOR="1").out for columns in (80, 300))
    (below,) = [line for line in narrow.splitlines() if line.startswith("columns that do not fit: ")]
    gone = below.partition(": ")[2].split(", ")
    heading = narrow.splitlines()[0]
    assert gone
    assert not any(re.search(rf"\b{name}\b", heading) for name in gone)
    assert all(name in wide.splitlines()[0] for name in gone)
    assert "left out" not in wide


def test_columns_of_least_worth_go_first() -> None:
    columns = [Column("KEY", fold=True), Column("AAAA", worth=2), Column("BBBB", worth=1), Column("CCCC")]
    rows = [["k", "1", "2", "3"]]
    assert lay_out(columns, rows, 21).left_out == []
    assert lay_out(columns, rows, 20).left_out == ["BBBB"]
    assert lay_out(columns, rows, 14).left_out == ["AAAA", "BBBB"]
    assert lay_out(columns, rows, 1).left_out == ["AAAA", "BBBB"]


def test_names_are_shortened_by_whole_components() -> None:
    name = "model/encoder/layer_0/attention/kernel"
    assert shorten(name, 38) == name
    assert shorten(name, 37) == "model/encoder/.../attention/kernel"
    assert shorten(name, 26) == "model/.../attention/kernel"
    assert shorten(name, 25) == "model/.../kernel"
    assert shorten(name, 15) is None
    assert shorten("no_components_at_all", 10) is None


def test_a_name_that_would_read_like_another_is_on_its_own_line() -> None:
    names = ["m/first/one/kernel", "m/second/one/kernel", "m/third/one/bias"]
    assert lines_of([Column("KEY", fold=True), Column("N")], [[n, "1"] for n in names], 17) == [
        "KEY             N",
        "m/first/one/kernel",
        "                1",
        "m/second/one/kernel",
        "                1",
        "m/.../one/bias  1",
    ]
    columns = [Column("FROM", fold=True), Column("TO", fold=True)]
    assert lines_of(columns, [[str(at), n] for at, n in enumerate(names)], 18)[1:] == [
        "0",
        "    m/first/one/kernel",
        "1",
        "    m/second/one/kernel",
        "2     m/.../bias",
    ]


def test_shortened_names_keep_the_components_that_tell_them_apart() -> None:
    names = [f"bert/encoder/layer_{at}/attention/output/{last}" for at in range(12) for last in ("w", "b")]
    lines = lines_of([Column("KEY", fold=True), Column("N")], [[name, "1"] for name in names], 30)[1:]
    assert len(lines) == len({*lines}) == 24
    assert lines[0] == "bert/.../layer_0/.../w       1"
    assert lines[23] == "bert/.../layer_11/.../b      1"


def test_spare_columns_go_before_a_name_gets_a_line_of_its_own() -> None:
    bar = Column("BAR", worth=0, spare=True)
    columns = [Column("KEY", fold=True), Column("FAR"), bar]
    cells = [["a_long_name_of_one_component", "1%", "#" * 12], ["short", "2%", "#" * 6]]
    assert lines_of(columns, cells, 50)[1] == "a_long_name_of_one_component  1%   ############"
    assert lines_of(columns, cells, 40)[1] == "a_long_name_of_one_component  1%"
    assert lay_out(columns, cells, 40).left_out == ["BAR"]
    # No column gives a name room that is longer than the terminal is wide.
    cells[0][0] *= 2
    assert lay_out(columns, cells, 44).left_out == []
    unspared = [*columns[:2], bar._replace(spare=False)]
    assert lay_out(unspared, cells, 44).left_out == []


def test_prose_is_never_cut() -> None:
    told = "a sentence of so many words that it stands below the row to which it belongs"
    columns = [Column("KEY", fold=True), Column("WHAT", prose=True)]
    _, row, *below = lines_of(columns, [["k", told]], 40)
    assert row == "k"
    assert " ".join(line.strip() for line in below) == told
    assert all(width(line) <= 40 for line in below)
    assert "".join(wrapped("x" * 95, 40)) == "x" * 95


def test_a_finding_is_reported_whole(terminal: Callable, ckpt: Callable) -> None:
    (finding,) = ckpt("verify", "--json", DAMAGED).json["results"][0]["findings"]
    out = terminal("verify", DAMAGED, columns=80, NO_COLOR="1").out
    assert finding["message"] in out
    assert finding["key"] in out


def test_wide_characters_are_counted_as_two_cells() -> None:
    assert [*map(width, ("abc", "权重", "\uff57", "e\u0301", "가"))] == [3, 4, 2, 1, 2]
    assert pad("权", 4) == "权  "
    assert pad("权", 4, right=True) == "  权"
    assert cut("权重权重权重", 7) == "权...重"
    assert width(cut("权重权重权重", 8)) <= 8


@pytest.mark.parametrize("count", [2, 3_000])
def test_long_tables_look_as_short_ones_do(
    count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beyond 2,000 rows tables lost their colours, and wide characters their columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(render, "_color", "always")
    rows = [["权重", "1"], ["ab", "22"]] * (count // 2)
    render.table([Column("KEY", fold=True), Column("N", right=True)], rows, ["red", ""] * (count // 2))
    heading, *shown = capsys.readouterr().out.splitlines()
    assert heading == "\x1b[1mKEY    N\x1b[0m"
    assert shown == ["\x1b[31m权重   1\x1b[0m", "ab    22"] * (count // 2)


def test_names_of_two_scripts_line_up_on_a_terminal(tmp_path: Path, terminal: Callable) -> None:
    prefix = str(tmp_path / "ckpt-1")
    write_bundle(prefix, {"模型/权重": np.ones(1, np.float32), "model/kernel": np.ones(1, np.float32)})
    for command in ("ls", "stats"):
        _, *rows = terminal(command, prefix, columns=80, NO_COLOR="1").out.splitlines()
        assert {width(row[: row.index("[1]")]) for row in rows if "[1]" in row} == {
            width(next(row for row in rows if "model/kernel" in row).partition("[1]")[0])
        }


def test_what_a_restore_would_do_fits(tmp_path: Path, terminal: Callable) -> None:
    other = str(tmp_path / "other-1")
    name = "encoder/layer_with_a_long_name/attention/self/query/kernel"
    write_bundle(other, {name: np.ones((2, 3), np.float32), "b": np.ones(1, np.float32)})
    target = str(tmp_path / "target-1")
    write_bundle(target, {name: np.ones((3, 2), np.float32), "b": np.ones(1, np.float32)})
    found = terminal("match", other, target, columns=80, NO_COLOR="1")
    assert found.code == 1
    rows = found.out.partition("needs attention\n")[2].splitlines()
    assert name in rows[0]
    assert rows[1].startswith("    ")
    assert "[2, 3] in CHECKPOINT" in rows[1]
    assert max(map(width, rows)) <= 80


def test_changes_by_layer_fit(terminal: Callable) -> None:
    """A row was wrapped in its bar of 12 cells."""
    run = data_path("guide_adam_legacy", "tf_ckpts")
    sides = [f"{run}/ckpt-9", f"{run}/ckpt-10"]
    _, *rows = terminal("diff", *sides, columns=80, NO_COLOR="1").out.splitlines()
    assert max(map(width, rows)) <= 80
    assert rows[-2] == "columns that do not fit: bars, max, max rel, differing"
    assert "█" * 12 in terminal("diff", *sides, columns=120, NO_COLOR="1").out


def test_stat_fits(terminal: Callable) -> None:
    run = data_path("guide_adam_legacy", "tf_ckpts")
    out = terminal("diff", f"{run}/ckpt-9", f"{run}/ckpt-10", "--stat", columns=40, NO_COLOR="1").out
    assert max(map(width, out.splitlines()[1:])) <= 40


def test_a_column_without_a_name_is_not_said_to_be_left_out() -> None:
    """A narrow `diff` said `columns that do not fit:` and named none: the bars of layers have no heading."""
    columns = (Column("LAYER"), Column("", worth=0))
    assert lay_out(columns, [["x" * 20, "#" * 12]], 30).left_out == []
