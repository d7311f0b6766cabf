"""The benchmark over numbers of threads fails where more of them are slower."""

from __future__ import annotations

from functools import partial
from operator import truediv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.benchmarks import cores
from tests.benchmarks.cores import CoresRow, counts, rounds_of
from tests.benchmarks.picture import PAGE


def test_more_threads_may_not_be_slower_than_fewer() -> None:
    assert CoresRow("work", 1, {1: 2.0, 2: 1.0, 4: 1.05}).slower == []
    (said,) = CoresRow("work", 1, {1: 2.0, 2: 1.0, 4: 1.06, 8: 0.9}).slower
    assert said == "work: 4 threads took 1.060 s, 2 1.000 s"
    assert CoresRow("copying", 1, {1: 1.0, 2: 2.0}, is_ceiling=True).slower == []


@pytest.mark.parametrize(("share", "rounds"), [(0, 2), (5, 2), (6, 3), (8, 4), (60, 5)])
def test_a_row_keeps_to_its_share_of_the_time(
    share: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round takes two seconds, and there are at least two."""
    seen: list[int] = []
    monkeypatch.setattr(cores.time, "monotonic", lambda: float(len(seen)))

    def measure(count: int) -> float:
        seen.append(count)
        return 100.0 - len(seen)

    assert rounds_of(measure, [2, 4], 5, share) == {2: 101.0 - len(seen), 4: 100.0 - len(seen)}
    assert seen == [2, 4] * rounds


def test_rows_are_gigabytes_a_second() -> None:
    assert str(CoresRow("work", 3 * 10**9, {2: 1.0, 1: 2.0})) == "| work | 1.5 | 3.0 |"


def test_numbers_of_threads_go_beyond_a_small_machine() -> None:
    assert counts(2) == [1, 2, 4, 8]
    assert counts(16) == [1, 2, 4, 8, 16]


def test_a_full_run_writes_its_table_and_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice: the second run replaces what the first one wrote, and nothing else of the page."""
    before = Path(PAGE).read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(before, encoding="utf-8")
    monkeypatch.setattr(cores, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(cores, "PICTURE", tmp_path / "cores.svg")
    monkeypatch.setattr(cores, "counts", lambda _: [1, 2])
    for seconds in (1.0, 0.5):
        found = [("ceiling: <memory>", True, lambda _: 1.0), ("verify", False, partial(truediv, seconds))]
        monkeypatch.setattr(cores, "measures", lambda *_, found=found: found)
        assert cores.main([]) == 0
    after = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert after.count("| verify | 2.1 | 4.3 |") == after.count("cores.svg") == 1
    assert cores._BLOCK.sub("", after) == cores._BLOCK.sub("", before)
    bars = ElementTree.parse(tmp_path / "cores.svg").findall("{http://www.w3.org/2000/svg}rect")
    assert [bar.get("width") for bar in bars] == ["320.0", "320.0", "160.0", "320.0"]
    (tmp_path / "cores.svg").unlink()
    assert cores.main(["--row", "verify"]) == 0
    assert not (tmp_path / "cores.svg").exists(), "a part of the table is not published"
