"""`make mutants`: what is changed of a program, and what notes to which changes the tests come."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.mutants import running
from tests.mutants.__main__ import sample_of
from tests.mutants.points import mutated, points_of, probed
from tests.mutants.stages import stages_of

if TYPE_CHECKING:
    from pathlib import Path

TEXT = '''
"""Words."""
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING and 1:
    pass

def f(a: int | None, b: int = 2) -> int | None:
    assert a < 5
    if a == 3 and not b:
        return a << 1
    rows = [n for n in range(a + 1) if n]
    return sum(map(max, zip(rows, rows, strict=True))) if b > 1 else None
'''

CHANGES = """
8: constant: 2  ->  3
10: boolean: a == 3 and (not b)  ->  a == 3 or not b
10: negated: a == 3 and (not b)  ->  not (a == 3 and (not b))
10: comparison: a == 3  ->  a != 3
10: constant: 3  ->  4
11: arithmetic: a << 1  ->  a >> 1
11: return: a << 1  ->  None
11: constant: 1  ->  2
12: arithmetic: a + 1  ->  a - 1
12: constant: 1  ->  2
12: negated: n  ->  not n
13: return: sum(map(max, zip(rows, rows, strict=True))) if b > 1 else None  ->  None
13: comparison: b > 1  ->  b >= 1
13: negated: b > 1  ->  not b > 1
13: constant: 1  ->  2
"""


def run(text: str, *arguments: Any) -> Any:
    scope: dict[str, Any] = {}
    exec(compile(text, "f.py", "exec"), scope)
    return scope["f"](*arguments)


def test_what_a_program_computes_is_changed_and_not_what_it_says_or_assumes() -> None:
    points = points_of("f.py", TEXT)
    assert sorted(str(point) for point in points) == sorted(
        f"f.py:{line}" for line in CHANGES.split("\n") if line
    )


def test_one_change_is_made() -> None:
    by_text = {str(point): point.number for point in points_of("f.py", TEXT)}
    assert run(TEXT, 3, 0) == 6
    assert run(mutated(TEXT, by_text["f.py:11: arithmetic: a << 1  ->  a >> 1"]), 3, 0) == 1
    assert run(mutated(TEXT, by_text["f.py:11: return: a << 1  ->  None"]), 3, 0) is None
    assert run(mutated(TEXT, by_text["f.py:12: negated: n  ->  not n"]), 4) == 0
    assert run(TEXT, 4) == 10


def test_a_sample_stays_when_a_program_changes_elsewhere() -> None:
    points = points_of("f.py", TEXT)
    sample = {str(point) for point in sample_of(points, 0, 5)}
    assert len(sample) == 5
    assert sample != {str(point) for point in sample_of(points, 1, 5)}
    more = points_of("a.py", "def g(q):\n    return q % 97 - 98\n")
    assert len(sample & {str(point) for point in sample_of([*more, *points], 0, 5)}) >= 5 - len(more)


def test_probes_tell_what_is_come_to_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()
    monkeypatch.setattr(sys, "_mutants_seen", seen, raising=False)
    points = points_of("f.py", TEXT)
    text = probed(TEXT, {point.number: point.number for point in points})
    assert run(text, 3, 0) == run(TEXT, 3, 0)
    assert {point.line for point in points if point.number in seen} == {8, 10, 11}
    seen.clear()
    assert run(text, 4) == run(TEXT, 4)
    assert {point.line for point in points if point.number in seen} == {8, 10, 12, 13}
    assert run(text, 4, 1) is None


COUNTING = """
import subprocess
import sys
import time

def wait(seconds):
    time.sleep(seconds if seconds < 9 else 0)

def count(n):
    while n > 0:
        n = n - 1
    return n

def count_in_child(n):
    subprocess.run([sys.executable, "-c", f"while {n - 1}: pass"], check=True)

def count_again(n):
    return count(n << 60)
"""

MEETING = """
import os
import counting

def test_count():
    assert counting.count(1) == 0

def test_count_in_child():
    counting.count_in_child(1)

def test_wait_longer_than_the_cpu_seconds():
    counting.wait(1.5)

def test_do_not_wait():
    counting.wait(60)

def test_pass_once():
    counting.count_again(os.path.exists("begun"))
    open("begun", "w").close()
"""


@pytest.fixture(scope="module")
def counting_tests(tmp_path_factory: pytest.TempPathFactory) -> running.Tests:
    """Tests of a module that counts and waits, which have passed once."""
    folder = tmp_path_factory.mktemp("copy")
    (folder / "tests" / "mutants").mkdir(parents=True)
    shutil.copy(os.path.join(running.ROOT, "tests", "mutants", "plugin.py"), folder / "tests" / "mutants")
    (folder / "counting.py").write_text(COUNTING)
    (folder / "test_counting.py").write_text(MEETING)
    copied = running.Copy.__new__(running.Copy)
    copied.folder, copied._texts = str(folder), {}
    tests = running.Tests(copied, str(tmp_path_factory.mktemp("work")))
    copied.probe(dict(enumerate(POINTS)))
    tests.record(["test_counting.py"])
    copied.restore(POINTS)
    return tests


POINTS = points_of("counting.py", COUNTING)


@pytest.fixture(autouse=True)
def limits_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "limits", lambda _: (1, 10))


@pytest.mark.parametrize(
    ("change", "what", "test"),
    [
        ("n - 1  ->  n + 1", "hangs", "test_count"),
        ("n - 1  ->  n + 1 in child", "killed", "test_count_in_child"),
        ("negated: seconds < 9", "hangs", "test_do_not_wait"),
        ("9  ->  10", "survived", ""),
    ],
)
def test_cpu_seconds_decide_what_hangs(
    counting_tests: running.Tests, change: str, what: str, test: str
) -> None:
    found = [told for told, point in enumerate(POINTS) if change.removesuffix(" in child") in str(point)]
    told = found[change.endswith(" in child")]
    met = counting_tests.meet(told, POINTS[told])
    assert met == running.Met(what, test and f"test_counting.py::{test}")
    assert met.is_noticed == (what != "survived")


def test_what_does_not_end_without_a_mutant_either_is_left_out(counting_tests: running.Tests) -> None:
    (told,) = [told for told, point in enumerate(POINTS) if "constant: 60  ->  61" in str(point)]
    assert counting_tests.meet(told, POINTS[told]).what == "survived"
    assert counting_tests.left_out == ["test_counting.py::test_pass_once"]
    assert counting_tests.meet(told, POINTS[told]).what == "unseen"  # it has met all


def test_tests_of_a_room_come_first_and_each_file_once(tmp_path: Path) -> None:
    names = (
        "formats/h5/test_a",
        "formats/tf/test_b",
        "formats/tf/v1/test_c",
        "operations/test_d",
        "cli/test_e",
    )
    for name in names:
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / f"{name}.py").touch()
    modules = ("formats/tf/a.py", "ckpt_cli/operations/none/b.py", "formats/tf/v1/c.py", "formats/tf/d.py")
    sample = [point for path in modules for point in points_of(path, "a = 1")]
    found = [(stage.name, stage.files, stage.points) for stage in stages_of(str(tmp_path), sample)]
    assert found == [
        ("tests/formats/tf", ["tests/formats/tf/test_b.py"], {0, 3}),
        ("tests/formats/tf/v1", ["tests/formats/tf/v1/test_c.py"], {2}),
        ("other rooms", ["tests/formats/h5/test_a.py", "tests/operations/test_d.py"], {0, 1, 2, 3}),
        ("tests/cli", ["tests/cli/test_e.py"], {0, 1, 2, 3}),
    ]
