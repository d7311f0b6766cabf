"""A reader of what is made of another reader's tensors asks that one what it says of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.operations.select.name_map import parse_map
from ckpt_cli.operations.select.relations import relate
from ckpt_cli.operations.select.view import Relaid
from formats import CheckpointError, open_checkpoint
from tests.support import write_bundle

if TYPE_CHECKING:
    from pathlib import Path


def test_a_view_has_the_files_of_its_source_and_changes_with_them(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c-1")
    write_bundle(prefix, {"a": np.ones((2, 3), np.float32)})
    with open_checkpoint(prefix) as reader:
        shapes = {key: spec.shape for key, spec in reader.specs.items()}
        view = Relaid(reader, relate(parse_map(b"a\tb\tT", "names.tsv"), shapes).relations)
        assert view.specs["b"].shape == (3, 2)
        assert view.files() == reader.files()
        assert sum(step.tensors for step in view.verify()) == 1
        assert view.has_changed() is False
        view.check_unchanged()
        write_bundle(prefix, {"a": np.zeros((2, 3), np.float32), "b": np.ones(4)})
        assert view.has_changed() is True
        with pytest.raises(CheckpointError, match="changed"):
            view.check_unchanged()
