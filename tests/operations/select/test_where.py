"""Expressions of --where: what they choose, and where they say that a mistake is."""

from __future__ import annotations

import math

import pytest

from ckpt_cli.operations.select.columns import FLAG, NUMBER, SHAPE, TEXT, order_by
from ckpt_cli.operations.select.where import WhereError, parse_where

COLUMNS = {"key": TEXT, "dtype": TEXT, "shape": SHAPE, "nbytes": NUMBER, "std": NUMBER, "trainable": FLAG}
ROW = {
    "key": "net/l1/kernel",
    "dtype": "float32",
    "shape": (3, 4),
    "nbytes": 1_500_000,
    "std": 0.25,
    "trainable": True,
}

HOLD = [
    "size>1M",
    "size>=1.5M and size<=1500k",
    "size=1500000",
    "nbytes!=1G and size<1G",
    "std>20%",
    "std=25%",
    "std>2.4e-1",
    "std > -1",
    "size>1M and std>0.1 and dtype=float32",
    "dtype==float32",
    "dtype='float32'",
    'key="net/l1/kernel"',
    "key=net/l1/kernel",
    "key>net/l1 and key<'net/l2'",
    "not dtype=float16",
    "not not dtype=float32",
    "dtype=float16 or dtype=float32",
    "size<1 and size<1 or dtype=float32",
    "dtype=float32 or size<1 and size<1",
    "(size<1 or dtype=float32) and std<1",
    "not (size<1 or dtype=float16)",
    "shape=3,4",
    "shape=[3,4]",
    "shape='3, 4'",
    "shape!=3",
    "trainable=true",
    "std<inf",
    "  size\t>\n1M  ",
]


@pytest.mark.parametrize("text", HOLD)
def test_an_expression_that_holds(text: str) -> None:
    where = parse_where(text, COLUMNS)
    assert where.holds(ROW)
    assert where.may_hold(ROW)
    assert not parse_where(f"not ({text})", COLUMNS).holds(ROW)


@pytest.mark.parametrize("value", [None, math.nan])
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "=", "==", "!="])
def test_null_and_nan_compare_false(sign: str, value: float | None) -> None:
    where = parse_where(f"std{sign}1", COLUMNS)
    assert not where.holds({"std": value})
    assert parse_where(f"not std{sign}1", COLUMNS).holds({"std": value})


def test_nothing_compares_with_nan() -> None:
    assert not parse_where("std=nan", COLUMNS).holds({"std": math.nan})
    assert not parse_where("std!=nan", COLUMNS).holds({"std": 1.0})


def test_numbers_are_exact() -> None:
    assert not parse_where("size=9007199254740993", COLUMNS).holds({"nbytes": 9007199254740992})
    assert parse_where("size=1.001k", COLUMNS).holds({"nbytes": 1001})


def test_what_is_not_known_yet_may_hold() -> None:
    known = {"nbytes": 10}
    assert not parse_where("size>1M and std>0.5", COLUMNS).may_hold(known)
    assert parse_where("size>1M or std>0.5", COLUMNS).may_hold(known)
    assert parse_where("not std>0.5", COLUMNS).may_hold(known)
    assert not parse_where("not (size<1M or std>0.5)", COLUMNS).may_hold(known)
    assert not parse_where("std>0.5", COLUMNS).holds(known)


MISTAKES = [
    ("", 0, "expected a column, 'not' or '(', found the end"),
    ("  ", 2, "found the end"),
    ("shap>1M", 0, "there is no column 'shap'; did you mean shape?"),
    ("size", 4, "expected an operator (< <= > >= = !=) after 'size', found the end"),
    ("size>", 5, "expected a value after '>', found the end"),
    ("size>1M and", 11, "found the end"),
    ("size>1M and and", 12, "there is no column 'and'"),
    ("size>1M std>1", 8, "expected 'and', 'or' or the end, found 'std'"),
    ("size>1M AND std>1", 8, "found 'AND'"),
    ("size>1MB", 5, "expected a number for size, found '1MB'"),
    ("size>1K", 5, "expected a number for size"),
    ("size>'1'", 5, "expected a number for size"),
    ("std>1e999", 4, "expected a number for std"),
    ("std>" + "9" * 500, 4, "expected a number for std"),
    ("std>float32", 4, "expected a number for std"),
    ("1M<size", 0, "there is no column '1M'"),
    ("'dtype'=float32", 0, "expected a column"),
    ("0<std<1", 0, "there is no column '0'"),
    ("std<1<2", 5, "expected 'and', 'or' or the end, found '<'"),
    ("(size>1", 7, "expected 'and', 'or' or ')', found the end"),
    ("size>1)", 6, "found ')'"),
    ("key='a", 4, "this quote is not closed"),
    ("key='a' \"", 8, "this quote is not closed"),
    ("size ! 1", 5, "'!' is not an operator"),
    ("shape<3", 5, "shape can only be compared with = and !="),
    ("shape=3x4", 6, "'3x4' is not a shape such as 3,4"),
    ("trainable=yes", 10, "trainable is true or false"),
    ("trainable>true", 9, "trainable can only be compared with = and !="),
    ("not", 3, "found the end"),
    ("(" * 5000, 101, "nested more than 100 deep"),
    ("not " * 5000, 404, "nested more than 100 deep"),
    ("__import__('os')=1", 0, "there is no column '__import__'"),
]


@pytest.mark.parametrize(("text", "position", "message"), MISTAKES)
def test_a_mistake_is_pointed_at(text: str, position: int, message: str) -> None:
    with pytest.raises(WhereError) as found:
        parse_where(text, COLUMNS)
    assert message in str(found.value)
    assert found.value.position == position


def test_a_quoted_value_may_hold_quotes() -> None:
    assert parse_where(r"key='it\'s (a) \\ b'", COLUMNS).holds({"key": "it's (a) \\ b"})
    assert parse_where(r'''key="it's"''', COLUMNS).holds({"key": "it's"})


def test_rows_are_sorted_with_nan_first_and_the_unknown_last() -> None:
    values = [None, 1.0, math.nan, 3, -math.inf, math.inf]
    ordered = sorted(values, key=lambda value: order_by("std", value))
    assert repr(ordered) == repr([math.nan, math.inf, 3, 1.0, -math.inf, None])
    assert sorted([3, 1, 2], key=lambda value: order_by("offset", value)) == [1, 2, 3]
    assert sorted(["l10", "l2"], key=lambda value: order_by("key", value)) == ["l2", "l10"]
