"""The meaning of a key's spelling, for files without an object graph."""

from __future__ import annotations

import pytest

from formats.model.object_keys import VARIABLE_VALUE
from formats.model.object_names import _MOST_PARTS, ObjectName, _is_below, object_name


@pytest.mark.parametrize("attribute", ["VARIABLE_VALUE", "ITERATOR_STATE", "TFG_2", "table-keys", "py_state"])
def test_what_objects_save_under_is_an_attribute(attribute: str) -> None:
    assert object_name(f"net/w/.ATTRIBUTES/{attribute}") == ObjectName("net/w", "", "", attribute)


@pytest.mark.parametrize("part", [".S", "..S", "S/T", "", " S", "-S", "1", "x"])
def test_parts_of_a_path_are_not_attributes(part: str) -> None:
    """A slash within an edge is spelled `.S`, which has no small letter, either."""
    key = f"optimizer/.ATTRIBUTES/{part}"
    assert object_name(key) == ObjectName(key, "", "", VARIABLE_VALUE)


@pytest.mark.parametrize("path", ["a", "a/b", "a/b/c/d"])
def test_a_key_is_below_a_path_of_any_number_of_parts(path: str) -> None:
    paths = frozenset({path})
    assert _is_below(paths, f"{path}/x")
    assert _is_below(paths, f"{path}/x/y/z")
    assert not _is_below(paths, path)
    assert not _is_below(paths, f"{path}x/y")
    assert not _is_below(paths, f"z/{path}/x")
    assert not _is_below(frozenset(), f"{path}/x")


def test_of_a_very_long_key_the_first_parts_are_compared() -> None:
    longest = "/".join("p" * _MOST_PARTS)
    assert _is_below(frozenset({longest}), f"{longest}/x/y")
    assert _is_below(frozenset({f"{longest}/p"}), f"{longest}/p/x/y")
    assert not _is_below(frozenset({f"{longest}/p/p"}), f"{longest}/p/p/x/y")
