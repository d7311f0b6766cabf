"""We read PyTorch's files of every form: the same keys, dtypes, shapes and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import formats
from formats import UnsupportedFeatureError
from formats.torch.objects import GLOBALS
from tests.cli.running import run_ckpt
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
        assert reader["float8_e8m0fnu"].read().dtype == "float8_e8m0fnu", "which ml_dtypes knows"
        for key in (*shapes.keys() - {"float8_e8m0fnu"}, "nested"):
            with pytest.raises(UnsupportedFeatureError, match=key.partition("_")[0]):
                reader[key].read()


def test_no_name_is_taken_that_torch_refuses(pytorch: TensorFlow) -> None:
    assert set(GLOBALS) - set(pytorch.ask("pytorch", "allowed")) == set()


def convert(*arguments: object) -> None:
    done = run_ckpt("convert", *arguments)
    assert done.code == 0, done.err


@pytest.mark.parametrize("seed", range(2))
def test_what_we_write_is_what_torch_saved(pytorch: TensorFlow, seed: int, tmp_path: Path) -> None:
    truth = pytorch.ask("pytorch", "written", folder=str(tmp_path), seed=seed)
    for name in set(truth) - {"dtypes.pth"}:  # torch itself writes these and does not load them
        convert(tmp_path / name, tmp_path / "ours.bin", "--overwrite")
        found = pytorch.ask("pytorch", "same", ours=str(tmp_path / "ours.bin"), theirs=str(tmp_path / name))
        assert found == [], name
    convert(tmp_path / "views.pt", tmp_path / "ours.pt")
    assert pytorch.ask("pytorch", "aliases", path=str(tmp_path / "ours.pt")) == ["tied", "tied_again"]


@pytest.mark.parametrize("seed", range(3))
def test_training_continues_from_what_we_write(pytorch: TensorFlow, seed: int, tmp_path: Path) -> None:
    pytorch.ask("pytorch", "written", folder=str(tmp_path), seed=seed)
    convert(tmp_path / "training.pth", tmp_path / "ours.pt")
    losses = [
        pytorch.ask("pytorch", "goes_on", path=str(tmp_path / name), seed=seed)
        for name in ("training.pt", "ours.pt")
    ]
    assert losses[0] == losses[1]


def test_other_formats_come_to_torch_and_safetensors_bit_for_bit(pytorch: TensorFlow, tmp_path: Path) -> None:
    truth = pytorch.ask("pytorch", "written", folder=str(tmp_path), seed=5)["dtypes.pt"]
    convert(tmp_path / "dtypes.pt", tmp_path / "x.safetensors", "--exclude", "complex128")
    found = pytorch.ask("pytorch", "told_by_safetensors", path=str(tmp_path / "x.safetensors"))
    assert found == {key: told for key, told in truth.items() if key != "complex128"}
    for into in ("tf-object", "tf-name"):
        convert(tmp_path / "dtypes.pt", tmp_path / into, "--to", into)
        convert(tmp_path / into, tmp_path / f"{into}.pt", "--exclude", "save_counter*")
        found = pytorch.ask("pytorch", "told", path=str(tmp_path / f"{into}.pt"))
        assert {key.partition("/.ATTRIBUTES")[0]: told for key, told in found.items()} == truth
    convert(tmp_path / "dtypes.pt", tmp_path / "out" / "pytorch_model.bin", "--shard-size", "100")
    found = {}
    for name in (tmp_path / "out").glob("*.bin"):
        found |= pytorch.ask("pytorch", "told", path=str(name))
    assert found == truth


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_distributed_checkpoint_is_what_its_ranks_saved(
    pytorch: TensorFlow, ranks: int, tmp_path: Path
) -> None:
    path = tmp_path / "dcp"
    truth = pytorch.ask("pytorch", "distributed", folder=str(path), ranks=ranks, seed=7)
    with formats.open_checkpoint(path) as reader:
        found = {
            key: [spec.dtype.name, list(spec.shape), digest(reads_alike(reader[key]))]
            for key, spec in reader.specs.items()
        }
        assert found == truth
        assert [each for step in reader.verify() for each in step.findings] == []
        kinds = {key: kind for key, kind in reader.kinds.items() if kind != "variable"}
    if ranks > 1:
        assert len(list(path.glob("*.distcp"))) == ranks
        assert kinds == {"optimizer.state.rows.exp_avg": "slot", "optimizer.state.rows.step": "optimizer"}
    convert(path, tmp_path / "x.pt", "--kind", "variable")
    found = pytorch.ask("pytorch", "told", path=str(tmp_path / "x.pt"))
    assert found == {key: told for key, told in truth.items() if key.startswith("model.")}
