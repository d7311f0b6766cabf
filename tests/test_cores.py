"""The benchmark over numbers of threads fails where more of them are slower."""

from __future__ import annotations

from tests.benchmarks.cores import CoresRow, counts


def test_more_threads_may_not_be_slower_than_fewer() -> None:
    assert CoresRow("work", 1, {1: 2.0, 2: 1.0, 4: 1.05}).slower == []
    (said,) = CoresRow("work", 1, {1: 2.0, 2: 1.0, 4: 1.06, 8: 0.9}).slower
    assert said == "work: 4 threads took 1.060 s, 2 1.000 s"
    assert CoresRow("copying", 1, {1: 1.0, 2: 2.0}, is_ceiling=True).slower == []


def test_rows_are_gigabytes_a_second() -> None:
    assert str(CoresRow("work", 3 * 10**9, {2: 1.0, 1: 2.0})) == "| work | 1.5 | 3.0 |"


def test_numbers_of_threads_go_beyond_a_small_machine() -> None:
    assert counts(2) == [1, 2, 4, 8]
    assert counts(16) == [1, 2, 4, 8, 16]
