"""The public members of readers and writers, and the hidden ones."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pytest

import formats
from tests.support import data_path

READER = {
    *("close", "facts", "files", "full_names", "has_changed", "kinds", "missing_files"),
    *("object_graph", "object_paths", "prove_specs", "specs", "verify"),
}
WRITER = {"abandon", "commit", "write", "write_slice"}


def _own(base: type) -> set[str]:
    """Return the public members of a class that a mapping does not have."""
    return {name for name in dir(base) if not name.startswith("_")} - set(dir(Mapping))


@pytest.mark.parametrize(
    ("base", "members"), [(formats.CheckpointReader, READER), (formats.CheckpointWriter, WRITER)]
)
def test_the_base_classes_show_what_is_promised_and_nothing_else(base: type, members: set[str]) -> None:
    assert _own(base) == members
    for name in members - {"object_graph"}:
        assert inspect.getdoc(getattr(base, name)), name


def test_what_the_functions_return_is_of_the_public_classes() -> None:
    with formats.open_checkpoint(data_path("pairs/object_based")) as reader:
        assert isinstance(reader, formats.CheckpointReader)
        assert all(hasattr(reader, name) for name in {*READER, "format", "findings"})
    for function, base in (
        ("open_checkpoint", "CheckpointReader"),
        ("create_checkpoint", "CheckpointWriter"),
    ):
        assert inspect.signature(getattr(formats, function)).return_annotation == base
    internal = {"rehearsal", "prove_sent", "journal", "is_shared"}
    assert not internal & set(inspect.signature(formats.create_checkpoint).parameters)
