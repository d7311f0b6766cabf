"""Rows of a map compared with the tensors that there are, and back again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.operations.select import name_map
from ckpt_cli.operations.select.name_map import NameMap, parse_map
from ckpt_cli.operations.select.relations import inverted, relate
from ckpt_cli.render.name_map import map_lines
from formats.errors import CheckpointError, ConversionError, DuplicateKeyError
from formats.location import parse_location

if TYPE_CHECKING:
    from pathlib import Path


def rows(*lines: str) -> NameMap:
    return parse_map("\n".join(lines).encode(), "names.tsv")


def made(names: NameMap, **shapes: tuple[int, ...]) -> dict[tuple[str, ...], tuple[str, ...]]:
    found = relate(names, {key.replace("__", "/"): shape for key, shape in shapes.items()})
    assert found.left == []
    return {relation.targets: relation.sources for relation in found.relations}


def test_captures_are_all_digits_and_the_first_row_wins() -> None:
    names = rows("b_1/w\tfirst.w", "b_{n}/w\tblocks.{n}.w\tT", "b_{n}/{m}\tblocks.{n}.x{m}")
    found = made(names, b_1__w=(2, 2), b_12__w=(2, 2), b_3__7=(1,))
    assert found == {("first.w",): ("b_1/w",), ("blocks.12.w",): ("b_12/w",), ("blocks.3.x7",): ("b_3/7",)}
    assert made(rows("{a}/{b}\t{b}.{a}"), **{"3__04": ()}) == {("04.3",): ("3/04",)}
    assert made(rows("{a}/{a}\tx{a}"), **{"3__3": ()}) == {("x3",): ("3/3",)}
    assert relate(rows("{a}/{a}\tx{a}"), {"3/31": (), "31/3": ()}).left == ["3/31", "31/3"]


def test_a_brace_of_a_name_is_escaped() -> None:
    names = rows(r"a\x7bn}" + "\tb")
    assert made(names, **{"a{n}": ()}) == {("b",): ("a{n}",)}
    assert map_lines(names.rows) == [r"a\x7bn}" + "\tb"]
    assert parse_map(b'{"a{n}": "b"}', "m").find("a{n}") == (0, {})


def test_rows_that_join_are_one_group_in_their_order() -> None:
    names = rows("l{n}/q\tl.{n}.qkv\tT concat(0)", "l{n}/k\tl.{n}.qkv\tT concat(0)")
    shapes = {f"l{n}/{part}": (2, 2) for n in (0, 11) for part in "kq"}
    found = relate(names, shapes).relations
    assert [(one.sources, one.targets) for one in found] == [
        (("l0/q", "l0/k"), ("l.0.qkv",)),
        (("l11/q", "l11/k"), ("l.11.qkv",)),
    ]
    back = inverted(names)
    assert map_lines(back.rows) == ["l.{n}.qkv\tl{n}/q\tsplit(0,2) T", "l.{n}.qkv\tl{n}/k\tsplit(0,2) T"]
    (only,) = relate(back, {"l.0.qkv": (4, 2)}).relations
    assert (only.sources, only.targets) == (("l.0.qkv",), ("l0/q", "l0/k"))


def test_a_capture_of_one_side_numbers_the_parts() -> None:
    names = rows("b_{n}/w\tblocks\tstack(0)")
    shapes = {f"b_{n}/w": (2, 3) for n in range(12)}
    (only,) = relate(names, shapes).relations
    assert only.sources == tuple(f"b_{n}/w" for n in range(12))
    (back,) = relate(inverted(names), {"blocks": (12, 2, 3)}).relations
    assert back.targets == only.sources


@pytest.mark.parametrize(
    ("lines", "shapes", "words"),
    [
        (["a\tx", "b\tx"], {"a": (), "b": ()}, "'a' and 'b' would both become this key"),
        (["a\tx", "{n}\tx"], {}, "occurs in only one of the two names"),
        (["a\tx", "a\ty"], {}, "'a' has two new names, 'x' and 'y'"),
        (["a\tx\tT", "a\tx\tT"], {}, None),
        (["a\tx\tT", "a\tx"], {}, "with two different operations: T and "),
        (
            ["a\tqkv\tconcat(0)", "b\tqkv\tconcat(0)"],
            {"a": (2,)},
            "needs 2 source tensors, but 1 of them are missing",
        ),
        (
            ["a\tqkv\tconcat(0)", "b\tqkv\tT concat(0)"],
            {"a": (2,), "b": (2,)},
            "this tensor contradict each other",
        ),
        (["a\tqkv\tconcat(0)", "b\tqkv\tconcat(0)"], {"a": (2,), "b": (3,)}, "parts of the same shape"),
        (["a\tqkv\tconcat(0)", "b\tqkv"], {"a": (2,), "b": (2,)}, "both become this key"),
        (["a\tx\tsplit(0,2)"], {"a": (4,)}, "cut into 2 parts, but the map names 1"),
        (["a\tx\tsplit(0,2)", "a\ty\tunstack(0)"], {"a": (2,)}, "has two new names, 'x' and 'y'"),
        (["b{n}\tx\tstack(0)"], {"b0": (), "b2": ()}, "parts 0 to 2; found 0, 2"),
        (
            ["b{n}\tx\tstack(0)"],
            {"b0": (), "b00": ()},
            "'b0' and 'b00' would become the same part of this tensor",
        ),
        (["b{n}\tx\tstack(0)"], {f"b{n}": () for n in range(1, 9)}, "parts 0 to 8; found 1, 2, 3, 4, 5$"),
        (["b{n}\tx\tconcat(0)"], {"b0": (1,)}, "does not give the number of parts"),
        (["a\tx\tperm(1,0)"], {"a": (2,)}, "needs 2 dimensions"),
        (["l_0\tfirst.0", "l_{n}\tfirst.{n}"], {"l_1": (), "l_0": ()}, None),
        (
            ["l_{n}\tfirst.{n}", "other\tfirst.3"],
            {"other": ()},
            "the inverse map would match",
        ),
        (["a\t"], {"a": ()}, "the new key of this tensor would be empty"),
    ],
)
def test_what_contradicts_is_rejected_with_its_rows(
    lines: list[str], shapes: dict[str, tuple[int, ...]], words: str | None
) -> None:
    if words is None:
        assert relate(rows(*lines), shapes).left == []
        return
    with pytest.raises(CheckpointError, match=words) as caught:
        relate(rows(*lines), shapes)
    if isinstance(caught.value, ConversionError | DuplicateKeyError) or "is to become" in words:
        assert any("line " in hint for hint in caught.value.hints)


@pytest.mark.parametrize(
    ("lines", "shapes", "words"),
    [
        (["x\tb{n}\tsplit(0,3)"], {"b0": (2,)}, "parts 0 to 2; found 0$"),
        (["x\tb{n}\tsplit(0,3)"], {"b1": (2,), "b2": (2,)}, "parts 0 to 2; found 1, 2$"),
        (["x\tb{n}\tsplit(0,3)"], {"b5": (2,), "b1": (2,)}, "parts 0 to 5; found 1, 5$"),
        (["x\ta\tsplit(0,2)", "x\tb\tsplit(0,2)"], {"b": (2,)}, "1 of them are missing"),
    ],
)
def test_parts_that_are_missing_on_the_way_back_are_named(
    lines: list[str], shapes: dict[str, tuple[int, ...]], words: str
) -> None:
    with pytest.raises(ConversionError, match=words):
        relate(inverted(rows(*lines)), shapes)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{a}{b}\t{a}.{b}", "a capture matches all digits"),
        ("{a}7\tx{a}", "a capture matches all digits"),
        ("{a}\t{b}", "{a} occurs in only one of the two names"),
        (".".join(f"{{n{i}}}" for i in range(9)) + "\tx", "a name has 9 captures"),
        ("{*a}{*b}\t{*a}.{*b}", "a capture matches all digits"),
        ("{*a}/{*b}\t{*a}.{*b}", "two captures of any text"),
        ("{*a}\tx\tstack(0)", r"\{\*a\} occurs in only one of the two names"),
        ("a\tb\tx", "line 1: 'x' is not an operation"),
        ("a\tb\t\udcff", "line 1: "),
    ],
)
def test_lines_that_say_nothing(line: str, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        parse_map(line.encode("utf-8", "surrogateescape"), "names.tsv")


def test_hostile_maps_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of digits alone, and thousands of lines that are alike except for a number."""
    monkeypatch.setattr(name_map, "_MOST_TRIED", 100_000)
    begun = time.perf_counter()
    names = rows("{a}.{b}.{c}.{d}\tx{a}.{b}.{c}.{d}")
    digits = "1" * 100_000
    assert names.find(digits) is None
    assert names.find(".".join([digits] * 4)) is None
    many = rows(*(f"{{n}}/a{number}\t{{n}}.a{number}" for number in range(20_000)))
    with pytest.raises(CheckpointError, match="too many lines with captures"):
        [many.find(f"{number}/a99999") for number in range(10)]
    assert time.perf_counter() - begun < 20


@pytest.mark.parametrize("name", name_map.packs())
def test_maps_of_our_own_go_both_ways(name: str) -> None:
    names = name_map.read_map(parse_location(name))
    filled = {row.old.fill(dict.fromkeys(row.old.captures, "7")): row for row in names.rows}
    assert len(filled) == len(names.rows)
    back = inverted(names)
    for old, row in filled.items():
        if row.free is not None:
            continue
        new = row.new.fill(dict.fromkeys(row.new.captures, "7"))
        assert (names[old], back[new]) == (new, old)


def test_stacked_layers_become_single_ones_and_the_reverse() -> None:
    names = name_map.read_map(parse_location("maxtext-scan"))
    single = {f"params/params/decoder/layers_{n}/mlp/wi/kernel": (4, 8) for n in range(3)}
    single |= {f"params/params/decoder/layers_{n}/norm/scale": (4,) for n in range(3)}
    state = "opt_state/0/mu/params/decoder"
    single |= {f"{state}/layers_{n}/norm/scale": (4,) for n in range(3)}
    single["params/params/decoder/logits/kernel"] = (4, 9)
    stacked = {
        "params/params/decoder/layers/mlp/wi/kernel": (4, 3, 8),
        "params/params/decoder/layers/norm/scale": (4, 3),
        f"{state}/layers/norm/scale": (4, 3),
        "params/params/decoder/logits/kernel": (4, 9),
    }
    for shapes, others in ((single, stacked), (stacked, single)):
        related = relate(names, shapes)
        assert not related.left
        made = {
            target: shape
            for relation in related.relations
            for target, shape in zip(
                relation.targets,
                relation.steps.shapes([shapes[name] for name in relation.sources]),
                strict=True,
            )
        }
        assert made == others


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a/b/c", {"*path": "b/c"}),
        ("a/b\n", {"*path": "b\n"}),
        ("a/", None),
        ("b/c", None),
    ],
)
def test_a_capture_of_any_text(name: str, found: dict[str, str] | None) -> None:
    assert name_map.Name.parse(b"a/{*path}").match(name) == found


def test_lines_with_any_text_take_their_turn() -> None:
    names = rows("a/{*rest}\tx/{*rest}", "a/b\ty", "c/{n}/d\tz/{n}", "c/{*rest}\tw/{*rest}")
    assert (names["a/b"], names["a/q"]) == ("x/b", "x/q")
    assert (names["c/7/d"], names["c/7/e"]) == ("z/7", "w/7/e")
    assert names.get("d") is None


def test_a_file_is_meant_before_a_map_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(name_map.read_map(parse_location("bert")).rows) > 20
    (tmp_path / "bert").write_text("a\tb\n")
    assert map_lines(name_map.read_map(parse_location("bert")).rows) == ["a\tb"]
    with pytest.raises(CheckpointError) as caught:
        name_map.read_map(parse_location("berd"))
    assert any("ckpt explain maps" in hint for hint in caught.value.hints)
