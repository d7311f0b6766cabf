"""The meaning of a key's spelling, for files without an object graph."""

from __future__ import annotations

import pytest

from formats.model.object_keys import VARIABLE_VALUE
from formats.model.object_names import ObjectName, object_name


@pytest.mark.parametrize("attribute", ["VARIABLE_VALUE", "ITERATOR_STATE", "TFG_2", "table-keys", "py_state"])
def test_what_objects_save_under_is_an_attribute(attribute: str) -> None:
    assert object_name(f"net/w/.ATTRIBUTES/{attribute}") == ObjectName("net/w", "", "", attribute)


@pytest.mark.parametrize("part", [".S", "..S", "S/T", "", " S", "-S", "1", "x"])
def test_parts_of_a_path_are_no_attributes(part: str) -> None:
    """A slash within an edge is spelled `.S`, which has no small letter, either."""
    key = f"optimizer/.ATTRIBUTES/{part}"
    assert object_name(key) == ObjectName(key, "", "", VARIABLE_VALUE)
