"""Specs in columns are those that a dictionary would have, and take less."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import open_checkpoint
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.core.spec_table import Ascending, SpecRows, SpecTable, places_of
from tests.support import partitioned, write_bundle

if TYPE_CHECKING:
    from pathlib import Path

FLOAT = TensorSpec("", BY_NAME["float32"], (2, 3))
TEXT = TensorSpec("", BY_NAME["string"], (), 12)


def table(*keys: str) -> tuple[SpecTable, dict[str, TensorSpec]]:
    numbers = [number % 2 for number in range(len(keys))]
    wanted = {key: (FLOAT, TEXT)[number]._replace(key=key) for key, number in zip(keys, numbers, strict=True)}
    return SpecTable(SpecRows([*keys], numbers, [FLOAT, TEXT]), places_of([*keys])), wanted


@pytest.mark.parametrize("keys", [(), ("a",), ("a", "b/c", "b/d", "é"), ("b", "a", "c"), ("￿", "\udc80")])
def test_a_table_is_the_dictionary(keys: tuple[str, ...]) -> None:
    found, wanted = table(*keys)
    assert found == wanted
    assert [*found] == [*wanted]
    assert [*found.values()] == [*wanted.values()]
    assert [*found.items()] == [*wanted.items()]
    assert all(found[key] == wanted[key] and key in found for key in keys)
    for missing in ("", "aa", "zz", None):
        assert missing not in found
    assert found.get("zz") is None
    assert found.rows[:1].columns.keys == [*keys][:1]


def test_keys_that_ascend_are_searched_and_others_looked_up() -> None:
    assert isinstance(places_of(["a", "b"]), Ascending)
    assert places_of(["b", "a", "b"]) == {"b": 0, "a": 1}
    assert [*places_of(["a", "b"]).items()] == [("a", 0), ("b", 1)]


def test_slices_are_not_tensors_and_those_that_follow_are_themselves(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    whole = partitioned(np.zeros((4, 3), np.float32), [((0, 2), (0, -1)), ((2, 2), (0, -1))])
    write_bundle(prefix, {"a": whole, "b": np.arange(2.0), "c": np.arange(3)})
    with open_checkpoint(prefix) as reader:
        assert [spec.shape for spec in reader.specs.values()] == [(4, 3), (2,), (3,)]
        assert reader["b"].read().tolist() == [0.0, 1.0]
        assert reader["c"].spec == reader.specs["c"]
        assert sum(step.tensors for step in reader.verify()) == 3


def test_an_open_index_takes_little_more_than_its_keys(tmp_path: Path) -> None:
    prefix, count = str(tmp_path / "c"), 5_000
    write_bundle(prefix, {f"layer_{number:06}/kernel": np.zeros(1, np.float32) for number in range(count)})
    time.sleep(0.1)  # A file read within a clock tick after it was written is read, and kept, again.
    with open_checkpoint(prefix):  # imports are none of it, and neither are the bytes of the index
        pass
    tracemalloc.start()
    try:
        with open_checkpoint(prefix) as reader:
            assert sum(spec.size for spec in reader.specs.values()) == count
            taken = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    assert taken < 150, f"{taken:.0f} bytes a tensor"


def test_keys_are_found_in_any_order() -> None:
    keys = [f"{number:03d}" for number in range(200)]
    places = Ascending(keys)
    for at in (0, 1, 2, 2, 3, 1, 199, 199, 0, 198, 100, 101):
        assert places[keys[at]] == at
        assert "999" not in places
        assert f"{at:03d}x" not in places
    with pytest.raises(KeyError, match="001x"):
        places["001x"]
