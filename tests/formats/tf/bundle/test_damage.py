"""Damaged bundles that TensorFlow was shown: what it cannot read, this says so of.

All truncations, flipped bits and mutations are in tests/hostile.
"""

from __future__ import annotations

from typing import Any

import pytest

from formats import CheckpointError, open_checkpoint
from tests.support import data_path, manifest

# Files that TensorFlow was shown ------------------------------------------------------

CORRUPT = [entry for entry in manifest()["corrupt"] if entry["kind"] == "tf"]


@pytest.mark.parametrize("entry", CORRUPT, ids=[entry["path"] for entry in CORRUPT])
def test_damaged_fixtures(entry: dict[str, Any]) -> None:
    """Intact files have no errors; a file that TensorFlow cannot read has one, raised or found."""
    path = data_path(entry["path"].replace("-?????-of-?????", ""))
    try:
        with open_checkpoint(path, lenient=True) as reader:
            errors = [
                finding
                for step in reader.verify()
                for finding in step.findings
                if finding.severity == "error"
            ]
            listed = len(reader)
    except CheckpointError as error:
        errors, listed = [error], 0
    if entry["what"] in ("an unharmed copy", "a cycle back to the root (legal)"):
        assert (errors, listed > 0) == ([], True)
    elif entry["verdict"] != "ok" and "graph_absent" not in entry["path"]:
        assert errors, entry["what"]
