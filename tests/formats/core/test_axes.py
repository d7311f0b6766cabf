"""Operations on axes: what each does, that its inverse undoes it, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from formats.core.axes import parse_steps

FORWARD = [
    ("T", [(2, 3)]),
    ("T", [(4, 4)]),
    ("T", [(2, 3, 4)]),
    ("perm(3,2,0,1)", [(3, 3, 3, 3)]),
    ("perm(2,3,0,1) reshape(*,2,3,5 -> *,1,3,5)", [(3, 5, 4, 2)]),
    ("reshape(4,2,3 -> 4,6) T", [(4, 2, 3)]),
    ("gates(1,0,2) T", [(4, 6)]),
    ("gates(2,0,1)", [(9,)]),
    ("unstack(0) gates(1,0,2)", [(2, 6)]),
    ("split(1,3) T", [(4, 6)]),
    ("T concat(0,3)", [(4, 4)] * 3),
    ("concat(-1,2) T", [(2, 3)] * 2),
    ("stack(1)", [(2, 3)] * 4),
    ("addends(2)", [(5,)]),
    ("", [(2, 2)]),
]


@pytest.mark.parametrize(("text", "shapes"), FORWARD)
def test_the_inverse_undoes(text: str, shapes: list[tuple[int, ...]]) -> None:
    random = np.random.default_rng(3)
    arrays = [random.normal(size=shape).astype("f") for shape in shapes]
    steps = parse_steps(text)
    made = steps.apply(arrays)
    assert [array.shape for array in made] == steps.shapes(shapes)
    inverse = steps.inverse()
    assert parse_steps(str(steps)) == steps
    assert str(parse_steps(str(inverse))) == str(inverse)
    back = inverse.apply(made)
    assert [array.tobytes() for array in back] == [array.tobytes() for array in arrays]


def test_what_operations_do() -> None:
    array = np.arange(12).reshape(2, 6)
    assert parse_steps("gates(1,0,2)").apply([array])[0][0].tolist() == [2, 3, 0, 1, 4, 5]
    assert parse_steps("reshape(3,4)").apply([array])[0].shape == (3, 4)
    first, second = parse_steps("addends(2)").apply([array])
    assert (first.tolist(), second.any()) == (array.tolist(), np.False_)
    assert parse_steps("stack(0) perm(1,0,2)").apply([array, array])[0].shape == (2, 2, 6)


def test_a_sum_with_zeros_is_the_tensor_bit_for_bit() -> None:
    array = np.array([-0.0, np.nan, 1], "f")
    for parts in ([array, np.zeros_like(array)], [np.zeros_like(array), array]):
        assert parse_steps("sum").apply(parts)[0].tobytes() == array.tobytes()
    assert parse_steps("sum").apply([array, array])[0].tolist()[2] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("transpose", "'transpose' is not an operation; expected one of T, perm"),
        ("T(1)", "is not an operation"),
        ("perm", "is not an operation"),
        ("perm(0,0)", "expected each number from 0 to 1 once"),
        ("perm(0,1", "is not an operation"),
        ("perm(a,b)", "numbers separated by commas"),
        ("gates(1,2)", "expected each number from 0 to 1 once"),
        ("reshape(*,* -> 4)", "at most one [*]"),
        ("reshape(2,3 -> 4)", "the same number of elements"),
        ("reshape(-1,3)", "not a valid tensor shape"),
        ("reshape(9999999999,9999999999)", "not a valid tensor shape"),
        ("split(0)", "an axis and a number of parts"),
        ("split(0,0)", "expected 1 to"),
        ("split(0,99999999)", "expected 1 to"),
        ("stack(0,2)", "expected an axis"),
        ("addends(3)", "the number of addends"),
        ("concat(0) split(0,2)", "expected only one operation that joins or splits"),
        (" ".join(["T"] * 17), "more than 16"),
        (f"perm({','.join(map(str, range(100)))})", "at most 64 numbers"),
        ("perm(" + "9" * 5000 + ")", "numbers separated by commas"),
    ],
)
def test_what_is_not_an_operation(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_steps(text)


@pytest.mark.parametrize(
    ("text", "shapes", "words"),
    [
        ("perm(1,0)", [(2, 3, 4)], "needs 2 dimensions, found 3"),
        ("reshape(2,3 -> 6)", [(3, 2)], "does not fit shape"),
        ("reshape(5,*)", [(4, 2)], "does not fit shape"),
        ("reshape(0,*)", [(0, 2)], "does not fit shape"),
        ("gates(1,0,2)", [(4,)], "does not fit shape"),
        ("split(0,3)", [(4,)], "does not fit shape"),
        ("split(2,2)", [(4,)], "needs an axis"),
        ("unstack(0)", [(1 << 40, 0)], "at most 65536 are supported"),
        ("concat(0)", [(4,), (5,)], "parts of the same shape"),
        ("concat(3)", [(4,), (4,)], "needs an axis"),
    ],
)
def test_what_does_not_fit(text: str, shapes: list[tuple[int, ...]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_steps(text).shapes(shapes)


def test_one_shape_alone_has_no_way_back() -> None:
    with pytest.raises(ValueError, match="does not give the original shape; write for example reshape"):
        parse_steps("reshape(3,4)").inverse()
    with pytest.raises(ValueError, match="does not give the number of parts"):
        parse_steps("concat(0)").inverse()
