"""What PyTorch saves, read by us: the same keys, dtypes, shapes and bytes, whatever the form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import formats
from formats import UnsupportedFeatureError
from formats.torch.objects import GLOBALS
from tests.support import digest, reads_alike

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


@pytest.mark.parametrize("seed", range(4))
def test_files_are_what_torch_saved(pytorch: TensorFlow, seed: int, tmp_path: Path) -> None:
    truth = pytorch.ask("pytorch", "written", folder=str(tmp_path), seed=seed)
    assert len(truth) == 15
    for name, expected in truth.items():
        with formats.open_checkpoint(tmp_path / name) as reader:
            found = {
                key: [spec.dtype.name, list(spec.shape), digest(reads_alike(reader[key]))]
                for key, spec in reader.specs.items()
            }
            assert found == expected, name
            assert [each for step in reader.verify() for each in step.findings] == [], name


def test_tensors_without_values_here_are_listed_by_shape(pytorch: TensorFlow, tmp_path: Path) -> None:
    shapes = pytorch.ask("pytorch", "without_values", path=str(tmp_path / "x.pt"))
    with formats.open_checkpoint(tmp_path / "x.pt") as reader:
        assert reader.specs.keys() == {*shapes, "nested", "plain"}
        assert {key: list(reader.specs[key].shape) for key in shapes} == shapes
        assert reader["plain"].read().tolist() == [1, 1]
        for key in (*shapes, "nested"):
            with pytest.raises(UnsupportedFeatureError, match=key.partition("_")[0]):
                reader[key]


def test_no_name_is_taken_that_torch_refuses(pytorch: TensorFlow) -> None:
    assert set(GLOBALS) - set(pytorch.ask("pytorch", "allowed")) == set()
