"""`diff --fail-on 'value>1e-3,l2>5%'` lets noise pass, `--baseline` what was there before."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.operations.compare import measure
from ckpt_cli.operations.compare.measure import norms
from ckpt_cli.operations.compare.thresholds import FailOn
from formats.core.dtypes import from_numpy
from formats.store import ranges
from formats.store.work import workers
from formats.store.work.task_context import TASK_FILES
from tests.support import numbers, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def pair(tmp_path: Path, left: dict, right: dict) -> tuple[str, str]:
    write_bundle(str(tmp_path / "left-1"), left)
    write_bundle(str(tmp_path / "right-1"), right)
    return str(tmp_path / "left-1"), str(tmp_path / "right-1")


BASE = np.array([3.0, 4.0, 0.0], np.float32)
NOISE = np.array([3.0, 4.0, 0.25], np.float32)  # largest |a-b| 0.25, l2 5 %


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ("value", 1),
        ("value>0.2", 1),
        ("value>.25", 0),
        ("value>1e-3", 1),
        ("l2>4.9%", 1),
        ("l2>5.1%", 0),
        ("rel_l2>4.9%", 1),
        ("rel_l2>5.1%", 0),
        ("cosine<0.9999", 1),
        ("cosine<0.99", 0),
        ("rel_l2>1,cosine<0.9999", 1),
        ("l2>0.049", 1),
        ("l2>0.06", 0),
        ("added,value>1,l2>1%", 1),
        ("added,removed,dtype,shape,value>1", 0),
    ],
)
def test_a_bound_decides(tmp_path: Path, ckpt: Callable, fail_on: str, code: int) -> None:
    sides = pair(tmp_path, {"k": NOISE}, {"k": BASE})
    assert ckpt("diff", *sides, "--fail-on", fail_on).code == code
    assert ckpt("diff", *sides, "--fail-on", fail_on, "--quiet").code == code


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.array([0.0, math.nan], np.float32), np.array([0.0, 1.0], np.float32)),
        (np.array([0.0, 1.0], np.float32), np.array([0.0, math.nan], np.float32)),
        (np.array([1.0, math.inf], np.float32), np.array([1.0, 1.0], np.float32)),
        (np.array([1.0, 1.0], np.float32), np.array([1.0, -math.inf], np.float32)),
        (
            np.array([1e-30], np.float32),
            np.array([0.0], np.float32),
        ),  # of nothing everything is infinitely far
        (strings([b"a"], ()), strings([b"b"], ())),
    ],
    ids=str,
)
def test_what_has_gone_bad_is_beyond_every_bound(
    tmp_path: Path, ckpt: Callable, left: object, right: object
) -> None:
    sides = pair(tmp_path, {"k": left}, {"k": right})
    assert ckpt("diff", *sides, "--fail-on", "l2>1000000%").code == 1


def test_what_is_bad_on_both_sides_hides_nothing(tmp_path: Path, ckpt: Callable) -> None:
    left, right = (np.array([math.nan, math.inf, value], np.float32) for value in (2.0, 1.0))
    sides = pair(tmp_path, {"k": left}, {"k": right})
    assert ckpt("diff", *sides, "--fail-on", "l2>99%").code == 1
    assert ckpt("diff", *sides, "--fail-on", "l2>101%").code == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint64, np.complex64])
def test_norms_are_those_of_float64(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch, dtype: type
) -> None:
    monkeypatch.setattr(ranges, "TASK_BYTES", 1 << 10)
    monkeypatch.setattr(workers, "TASK_BYTES", 1 << 10)
    generator = np.random.default_rng(0)
    left, right = ((generator.standard_normal(3000) * 50).astype(dtype) for _ in range(2))
    wide = "c16" if dtype is np.complex64 else "f8"
    delta = np.linalg.norm(left.astype(wide) - right.astype(wide))
    expected = delta / np.linalg.norm(right.astype(wide))
    for stored in (numbers(right), numbers(right, big_endian=False)):
        sides = pair(tmp_path, {"k": left}, {"k": stored})
        for jobs in ("1", "3"):
            done = ckpt("diff", *sides, "--fail-on", "l2>1%", "--json", "-j", jobs)
            assert done.json["entries"][0]["l2"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "cosine"),
    [
        ([3.0, 4.0], [4.0, 3.0], 0.96),
        ([3e200, 4e200], [4e200, 3e200], 0.96),
        ([3e-200, 4e-200], [4e200, 3e200], 0.96),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1.0, math.nan], [2.0, math.nan], 1.0),
        ([1.0, math.nan], [2.0, 1.0], math.nan),
        ([0.0, 0.0], [0.0, 1.0], math.nan),
        ([0.0, -0.0], [0.0, 0.0], None),
    ],
)
def test_the_cosine(left: list[float], right: list[float], cosine: float | None) -> None:
    dtype = from_numpy(np.dtype("f8"))
    assert dtype is not None
    found = norms(np.array(left).tobytes(), np.array(right).tobytes(), dtype)
    assert found.cosine == pytest.approx(cosine, nan_ok=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.complex64])
def test_norms_are_the_same_bits_for_any_number_of_threads(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks grow with the number of threads; rows, which are summed, do not."""
    generator = np.random.default_rng(7)
    left, right = ((generator.standard_normal(300_001) * 50).astype(dtype) for _ in range(2))
    right[10_000:40_000] = left[10_000:40_000]
    right[50_000:90_000] = 0
    if dtype in (np.float32, np.float64):
        left[100_000:100_003] = right[100_000:100_003] = np.nan, np.inf, -np.inf
    known = from_numpy(np.dtype(dtype))
    assert known is not None
    found = []
    for threads in (1, 2, 3, 8):
        monkeypatch.setattr(TASK_FILES, "threads", threads)
        found.append(norms(left.tobytes(), right.tobytes(), known))
    assert len(set(found)) == 1
    wide = np.complex128 if dtype is np.complex64 else np.float64
    one, other = (np.nan_to_num(each.astype(wide), posinf=0, neginf=0) for each in (left, right))
    assert found[0].relative == pytest.approx(np.linalg.norm(one - other) / np.linalg.norm(other), rel=1e-12)


def test_rows_that_did_not_change_are_summed_as_fast_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A distance of zero was taken for one whose squares float64 cannot hold."""
    left = np.random.default_rng(7).standard_normal(300_001).astype(np.float32)
    right = left.copy()
    right[-1] += 1
    dtype = from_numpy(left.dtype)
    assert dtype is not None
    monkeypatch.setattr(measure, "_careful_norms", None)
    assert norms(left.tobytes(), right.tobytes(), dtype).distance == pytest.approx(1.0, rel=1e-6)


def test_squares_may_be_too_large() -> None:
    left, right = np.array([3e200, 0.0]), np.array([1e200, 0.0])
    dtype = from_numpy(left.dtype)
    assert dtype is not None
    assert norms(left.tobytes(), right.tobytes(), dtype).relative == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ([5e-324, 1e300], [0.0, 1e300], 5e-324),  # the quotient is below all of float64
        ([1.0, *[1.7e308] * 4], [1.7e308] * 5, "nan"),  # the norm is beyond
        ([1.7e308], [-1.7e308], "nan"),
    ],
)
def test_norms_out_of_range_let_nothing_pass(
    tmp_path: Path, ckpt: Callable, left: list, right: list, found: object
) -> None:
    """They came to a distance of 0, which no bound is below."""
    sides = pair(tmp_path, {"k": np.array(left)}, {"k": np.array(right)})
    done = ckpt("diff", *sides, "--fail-on", "l2>0", "--json")
    assert done.code == 1
    assert done.json["entries"][0]["l2"] == found


@pytest.mark.parametrize("text", ["value>1e999", "l2>1e400%"])
def test_a_bound_that_nothing_is_beyond_is_rejected(tmp_path: Path, ckpt: Callable, text: str) -> None:
    done = ckpt("diff", *pair(tmp_path, {"k": BASE}, {"k": NOISE}), "--fail-on", text)
    assert (done.code, "can never be reached" in done.err) == (2, True)


@pytest.mark.parametrize(
    "text", ["value>", "value>x", "value>5%", "l2", "l2>-1", "value>1.2.3", "shape>1", "nan", ""]
)
def test_what_is_not_a_bound_is_rejected(tmp_path: Path, ckpt: Callable, text: str) -> None:
    done = ckpt("diff", *pair(tmp_path, {"k": BASE}, {"k": BASE}), "--fail-on", text)
    assert (done.code, "is not a kind of change; expected added" in done.err) == (2, True)


def test_the_default_is_every_change() -> None:
    assert FailOn.parse("added,removed,dtype,shape,value") == FailOn()


# What is new since ----------------------------------------------------------------------


def test_a_baseline_lets_pass_what_it_shows(tmp_path: Path, ckpt: Callable) -> None:
    left = {"gone": BASE, "k": BASE, "still": BASE, "text": strings([b"a"], ())}
    right = {"k": NOISE, "new": BASE, "still": BASE, "text": strings([b"b"], ())}
    sides = pair(tmp_path, left, right)
    result = tmp_path / "result.json"
    result.write_text(ckpt("diff", *sides, "--json").out)
    for options in ((), ("--quiet",), ("--json",)):
        assert ckpt("diff", *sides, "--baseline", result, *options).code == 0
    for worse in (
        {**right, "k": NOISE * 2},
        {**right, "still": NOISE},
        {**right, "k": BASE.astype(np.float64)},
        {**right, "more": BASE},
        {key: value for key, value in right.items() if key != "still"},
    ):
        sides = pair(tmp_path, left, worse)
        for options in ((), ("--quiet",)):
            assert ckpt("diff", *sides, "--baseline", result, *options).code == 1, worse.keys()


def test_a_baseline_of_directories(tmp_path: Path, ckpt: Callable) -> None:
    for side, names in (("left", ("a-1", "b-1")), ("right", ("a-1", "c-1"))):
        (tmp_path / side).mkdir()
        for name in names:
            write_bundle(str(tmp_path / side / name), {"k": np.float32(len(side))})
    line = ("diff", "--each", tmp_path / "left", tmp_path / "right")
    (tmp_path / "result.json").write_text(ckpt(*line, "--json").out)
    assert ckpt(*line).code == 1
    assert ckpt(*line, "--baseline", tmp_path / "result.json").code == 0
    write_bundle(str(tmp_path / "right" / "d-1"), {"k": np.float32(0)})
    assert ckpt(*line, "--baseline", tmp_path / "result.json").code == 1


@pytest.mark.parametrize("form", ["text", "junit"])
def test_what_is_known_of_a_pair_excuses_no_other(tmp_path: Path, ckpt: Callable, form: str) -> None:
    """A change of `k` in a-1 was taken for one of `k` in b-1, too."""
    for side, names in (("left", ("a-1", "b-1")), ("right", ("a-1", "b-1"))):
        (tmp_path / side).mkdir()
        for name in names:
            write_bundle(str(tmp_path / side / name), {"k": NOISE if name[0] + side[0] == "ar" else BASE})
    line = ("diff", "--each", tmp_path / "left", tmp_path / "right", "--format", form)
    result = tmp_path / "result.json"
    result.write_text(ckpt(*line[:-2], "--json").out)
    assert ckpt(*line, "--baseline", result).code == 0
    write_bundle(str(tmp_path / "right" / "b-1"), {"k": NOISE})
    assert ckpt(*line, "--baseline", result).code == 1
    write_bundle(str(tmp_path / "right" / "b-1"), {"k": BASE})
    single = ckpt("diff", tmp_path / "left" / "a-1", tmp_path / "right" / "a-1", "--json")
    result.write_text(single.out)
    assert ckpt(*line, "--baseline", result).code == 1


def test_what_cannot_be_measured_is_known_no_better_than_before(tmp_path: Path, ckpt: Callable) -> None:
    """Changes of strings and of listings, which have no largest difference, always counted as known."""
    text = [strings([b"a", b"b"], (2,)), strings([b"a", b"x"], (2,)), strings([b"y", b"x"], (2,))]
    result = tmp_path / "result.json"
    result.write_text(ckpt("diff", *pair(tmp_path, {"k": text[0]}, {"k": text[1]}), "--json").out)
    assert ckpt("diff", *pair(tmp_path, {"k": text[0]}, {"k": text[1]}), "--baseline", result).code == 0
    assert ckpt("diff", *pair(tmp_path, {"k": text[0]}, {"k": text[2]}), "--baseline", result).code == 1
    left, right = pair(tmp_path, {"k": BASE}, {"k": NOISE})
    result.write_text(ckpt("diff", left, right, "--json").out)
    (tmp_path / "left.lock").write_text(ckpt("ls", "--json", "-l", left).out)
    assert ckpt("diff", tmp_path / "left.lock", right, "--baseline", result).code == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 1}',
        '{"schema": true, "entries": []}',
        '{"schema": 1, "entries": [{"key": 1}]}',
        '{"schema": 1, "pairs": 3}',
    ],
)
def test_another_file_is_not_a_baseline(tmp_path: Path, ckpt: Callable, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    sides = pair(tmp_path, {"k": BASE}, {"k": NOISE})
    done = ckpt("diff", *sides, "--baseline", tmp_path / "result.json")
    assert (done.code, done.out) == (3, "")
    assert "not the output of ckpt diff --json" in done.err
    assert ckpt("diff", *sides, "--baseline", tmp_path / "absent.json").code == 3


def test_a_baseline_may_hold_what_is_not_finite(tmp_path: Path, ckpt: Callable) -> None:
    sides = pair(tmp_path, {"k": BASE}, {"k": np.array([math.nan, 4, 0], np.float32)})
    (tmp_path / "result.json").write_text(ckpt("diff", *sides, "--json").out)
    assert json.loads((tmp_path / "result.json").read_text())["entries"][0]["max_abs"] == "nan"
    assert ckpt("diff", *sides, "--baseline", tmp_path / "result.json").code == 0
