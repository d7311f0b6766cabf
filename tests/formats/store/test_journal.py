"""Journals, and entries of journals that are not believed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from formats.errors import CheckpointError
from formats.location import parse_location
from formats.store import journal
from formats.store.journal import (
    JOURNAL,
    Claim,
    Claims,
    Moved,
    Sent,
    digest,
    header_of,
    line_of,
    lines_of,
    parse_journal,
)
from formats.store.local import staging_journal
from formats.store.local.staging_journal import StagingJournal, describe_leftover, read_journal

HEADER = {"journal": 1, "target": "out", "nbytes": 300}
FILLED = ["filled", "shard-0", 0, [[100, 7], [50, 8, 9]]]
CHANGED = ["changed", {"/a": 5, "/b": 0}]
RENAMED = ["renamed", "shard-0", "shard-1"]
MOVED = ["moved", "shard-0", "out.data", [1, 2, 3]]
LARGEST = (1 << 63) - 1


def written(directory: Path, *values: Any, end: bytes = b"") -> str:
    (directory / JOURNAL).write_bytes(b"".join(map(line_of, values)) + end)
    return str(directory)


def test_each_line_is_read(tmp_path: Path) -> None:
    found = read_journal(parse_location(written(tmp_path, HEADER, CHANGED, FILLED, RENAMED, MOVED)))
    assert found.header == HEADER
    assert found.claims == [line_of(FILLED)]
    assert found.changes == [("shard-0", "shard-1"), Moved("shard-0", "out.data", (1, 2, 3))]
    assert found.changed == {"/a": 5, "/b": 0}
    assert found.is_whole


STORED = b"""\
fafb2c9c {"journal":1,"nbytes":300,"options":{},"plan":"00","sources":{"/a":[1,"x"]},"target":"c-1","version":"0.2"}
4297e07b ["changed",{"/a":5}]
e3d204b5 ["filled","s.data",0,[[100,7],[50,8,9]]]
f6184a53 ["count",3]
7eb884e8 ["sent","c-1.data-00000-of-00003",["tag",120],120,[[0,64,1],[64,56,2]]]
19bfbab5 ["head",99,"d41d8"]
f1489f6d ["renamed","a","b"]
3b8f492c ["moved","b","b",[1,2,3]]
"""  # noqa: E501
"""Lines of journals as they have been stored since the first version."""


def test_stored_journals_are_resumed() -> None:
    stored = STORED.splitlines(keepends=True)
    found = parse_journal(iter(stored))
    assert found.is_whole
    assert found.header is not None
    assert digest(found.header) == "b6dc7985b8b32860f1c6214f99c4179b"
    assert found.changes == [("a", "b"), Moved("b", "b", (1, 2, 3))]
    assert found.sent == {"c-1.data-00000-of-00003": Sent(("tag", 120), 120, ((0, 64, 1), (64, 56, 2)))}
    assert [*found.lines()] == stored[:6]


def test_nothing_written_is_whole(tmp_path: Path) -> None:
    found = read_journal(parse_location(str(tmp_path)))
    assert (found.header, found.claims, found.is_whole) == (None, [], True)


@pytest.mark.parametrize(
    "header",
    [
        {**HEADER, "journal": 2},
        {**HEADER, "target": 5},
        {**HEADER, "nbytes": "300"},
        {**HEADER, "nbytes": -1},
        {**HEADER, "nbytes": True},
        {**HEADER, "nbytes": LARGEST + 1},
        {"journal": 1, "target": "out"},
        {"journal": 1, "nbytes": 3},
        [HEADER],
        None,
    ],
)
def test_headers_that_are_none(tmp_path: Path, header: Any) -> None:
    assert header_of(line_of(header)) is None
    found = read_journal(parse_location(written(tmp_path, header, FILLED)))
    assert (found.header, found.claims, found.is_whole) == (None, [], False)


def test_the_largest_number_is_one() -> None:
    assert header_of(line_of({**HEADER, "nbytes": LARGEST})) == {**HEADER, "nbytes": LARGEST}


BAD = [
    ["filled", "shard-0", 0],
    ["filled", "shard-0", 0, [[1, 2]], 5],
    ["fillet", "shard-0", 0, [[1, 2]]],
    ["filled", "../shard-0", 0, [[1, 2]]],
    ["filled", "", 0, [[1, 2]]],
    ["filled", ".", 0, [[1, 2]]],
    ["filled", "..", 0, [[1, 2]]],
    ["filled", JOURNAL, 0, [[1, 2]]],
    ["filled", "a\0", 0, [[1, 2]]],
    ["filled", 5, 0, [[1, 2]]],
    ["filled", "shard-0", -1, [[1, 2]]],
    ["filled", "shard-0", 1.5, [[1, 2]]],
    ["filled", "shard-0", 0, {"1": 2}],
    ["filled", "shard-0", 0, [[1]]],
    ["filled", "shard-0", 0, ["12"]],
    ["filled", "shard-0", 0, [[1, 2], [1, -2]]],
    ["filled", "shard-0", 0, [[1, 1 << 32]]],
    ["filled", "shard-0", 0, [[1, 2, 1 << 32]]],
    ["renamed", "shard-0"],
    ["renamed", "shard-0", "a/b"],
    ["renamed", "a/b", "shard-0"],
    ["renamed", "shard-0", "shard-1", "shard-2"],
    ["moved", "shard-0", "out.data", [1, 2]],
    ["moved", "shard-0", "out.data", [1, 2, 3, 4]],
    ["moved", "shard-0", "out.data", [1, 2, "3"]],
    ["moved", "shard-0", "out.data", {"1": 2}],
    ["moved", "a/b", "out.data", [1, 2, 3]],
    ["moved", "shard-0", "/etc/passwd", [1, 2, 3]],
    ["moved", "shard-0", "out.data"],
    ["changed", {"/a": -5}],
    ["changed", {"/a": "5"}],
    ["changed", [5]],
    ["changed"],
    ["changed", {}, {}],
    ["count", -1],
    ["count", "3"],
    ["sent", "a/b", ["tag", 3], 3, []],
    ["sent", "a", "tag", 3, []],
    ["sent", "a", [None, 3], 3, []],
    ["sent", "a", ["tag", 3], 3.5, []],
    ["sent", "a", ["tag", 3], 3, [[0, 3]]],
    ["sent", "a", ["tag", 3], 3, [[0, 3, -1]]],
    ["sent", "a", ["tag", 3], 3, {}],
    ["head", -1, "00"],
    ["head", 3, 5],
    [],
    {},
    "filled",
    None,
]


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_what_is_behind_a_line_that_is_none_is_forgotten(tmp_path: Path, bad: Any) -> None:
    found = read_journal(
        parse_location(written(tmp_path, HEADER, FILLED, RENAMED, CHANGED, bad, MOVED, FILLED))
    )
    assert (found.header, found.claims, found.is_whole) == (HEADER, [line_of(FILLED)], False)
    assert found.changes == [("shard-0", "shard-1")]
    assert found.changed == CHANGED[1]


@pytest.mark.parametrize(
    "value", [["filled", "s", 0, [[LARGEST, (1 << 32) - 1]]], ["filled", "s", 0, []], ["changed", {}]]
)
def test_extremes_are_believed(tmp_path: Path, value: Any) -> None:
    assert read_journal(parse_location(written(tmp_path, HEADER, value, RENAMED))).changes == [
        ("shard-0", "shard-1")
    ]


@pytest.mark.parametrize(
    "end",
    [
        line_of(MOVED)[:-1],
        line_of(MOVED)[:5],
        line_of(MOVED).replace(b"moved", b"Moved"),
        line_of(MOVED)[1:],
        b"\n",
        b"%08x [\n" % 0xD2_02_D2_77,
    ],
)
def test_a_line_that_is_not_whole_is_none(tmp_path: Path, end: bytes) -> None:
    found = read_journal(parse_location(written(tmp_path, HEADER, RENAMED, end=end)))
    assert (found.changes, found.is_whole) == ([("shard-0", "shard-1")], False)


def test_what_is_not_a_file_of_ours_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / JOURNAL)
    assert not read_journal(parse_location(str(tmp_path))).is_whole
    (tmp_path / JOURNAL).unlink()
    written(tmp_path, HEADER)
    monkeypatch.setattr(staging_journal, "LONGEST", len(line_of(HEADER)))
    assert read_journal(parse_location(str(tmp_path))).is_whole
    monkeypatch.setattr(staging_journal, "LONGEST", len(line_of(HEADER)) - 1)
    assert not read_journal(parse_location(str(tmp_path))).is_whole
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(CheckpointError, match="is not your own directory") as refused:
        read_journal(parse_location(str(tmp_path)))
    assert refused.value.hints == ("remove this directory, or leave out --resume",)


# Claims ------------------------------------------------------------------------------------


def test_a_claim_is_of_the_very_range() -> None:
    claims = Claims([line_of(FILLED), line_of(["filled", "shard-0", 150, [[10, 3]]])])
    assert claims.names == {"shard-0"}
    assert claims.at("shard-0", 0, 100) == Claim(100, 7)
    assert claims.at("shard-0", 100, 50) == Claim(50, 8, (9,))
    assert claims.at("shard-0", 150, 10) == Claim(10, 3)
    for name, offset, size in (
        ("shard-0", 0, 99),
        ("shard-0", 1, 99),
        ("shard-0", 100, 60),
        ("shard-0", 160, 1),
        ("shard-1", 0, 100),
    ):
        assert claims.at(name, offset, size) is None


def test_of_a_range_that_is_reported_twice_the_later_counts() -> None:
    again = ["filled", "shard-0", 100, [[50, 11]]]
    claims = Claims([line_of(FILLED), line_of(again)])
    assert claims.at("shard-0", 0, 100) == Claim(100, 7)
    assert claims.at("shard-0", 100, 50) == Claim(50, 11)
    assert [*claims.lines()] == [line_of(["filled", "shard-0", 0, [[100, 7]]]), line_of(again)]


def test_neighbours_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = [
        ("b", 0, Claim(5, 1)),
        ("a", 10, Claim(10, 3, (4, 5))),
        ("a", 0, Claim(10, 2)),
        ("a", 30, Claim(1, 6)),
        ("b", 5, Claim(5, 7)),
    ]
    lines = [
        line_of(["filled", "a", 0, [[10, 2], [10, 3, 4, 5]]]),
        line_of(["filled", "a", 30, [[1, 6]]]),
        line_of(["filled", "b", 0, [[5, 1], [5, 7]]]),
    ]
    assert [*lines_of(filled)] == lines
    assert [*lines_of([])] == []
    monkeypatch.setattr(journal, "_MOST_TOGETHER", 1)
    assert len([*lines_of(filled)]) == 5


def test_what_is_there_is_reported(tmp_path: Path) -> None:
    assert describe_leftover(parse_location(str(tmp_path))) is None
    more = ["filled", "shard-1", 0, [[1000, 1]]]
    assert (
        describe_leftover(parse_location(written(tmp_path, HEADER, FILLED, more, RENAMED, MOVED)))
        == "an interrupted conversion to out, 1,150 of 300 bytes done; to continue it, pass --resume"
    )
    last = ["moved", "out.index", "out.index", [1, 2, 3]]
    assert (
        describe_leftover(parse_location(written(tmp_path, HEADER, FILLED, last)))
        == "a conversion to out that was interrupted just before it finished"
    )
    assert (
        describe_leftover(parse_location(written(tmp_path, None)))
        == "an interrupted conversion whose journal is damaged"
    )


@pytest.mark.parametrize("new_file", [None, b"new"])
def test_a_renamed_shard_gets_its_name_back_if_that_is_free(tmp_path: Path, new_file: bytes | None) -> None:
    staged = StagingJournal(parse_location(str(tmp_path / "out")), {}, {})
    os.mkdir(staged.directory)
    shards = {"shard-1": b"filled"} if new_file is None else {"shard-0": new_file, "shard-1": b"filled"}
    for name, content in shards.items():
        Path(staged.path(name)).write_bytes(content)
    staged._undo([("shard-0", "shard-1")])
    found = {path.name: path.read_bytes() for path in Path(staged.directory).iterdir()}
    assert found == ({"shard-0": b"filled"} if new_file is None else shards)
