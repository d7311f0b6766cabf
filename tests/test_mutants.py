"""`make mutants`: what is changed of a program, and what notes to which changes the tests come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tests.mutants.__main__ import sample_of
from tests.mutants.points import mutated, points_of, probed

if TYPE_CHECKING:
    import pytest

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
