"""`ckpt match` says of every pair of programs what TensorFlow's assertions say."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

from click.testing import CliRunner

import formats
from ckpt_cli.main import cli
from ckpt_cli.operations.compare.match import match
from ckpt_cli.operations.compare.match_fix import fix, likely_renames
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

PLAIN = ["pair", "other", "one", "shared", "shape", "dtype", "deep", "listed", "longer", "empty"]
OPTIMIZERS = ["weights", "sgd", "momentum", "adam", "untrained", "newer"]


def verdict(checkpoint: str, target: str) -> list[bool]:
    with formats.open_checkpoint(checkpoint) as one, formats.open_checkpoint(target) as other:
        found = match(one, other)
    return [found.consumed, found.existing_matched]


def compare(tensorflow: TensorFlow, names: list[str], directory: str) -> None:
    paths = tensorflow.ask("match", "save", names=names, directory=directory)
    theirs = tensorflow.ask("match", "verdicts", names=names, paths=paths)
    ours = [[one, other, *verdict(paths[one], paths[other])] for one, other, *_ in theirs]
    assert len(ours) == len(names) ** 2
    assert ours == theirs


def test_verdicts_on_objects_and_containers(tensorflow: TensorFlow, tmp_path: Path) -> None:
    compare(tensorflow, PLAIN, str(tmp_path))


def test_verdicts_on_optimizers(old_tensorflow: TensorFlow, tmp_path: Path) -> None:
    compare(old_tensorflow, OPTIMIZERS, str(tmp_path))


def test_verdicts_on_name_based_checkpoints(tensorflow: TensorFlow, tmp_path: Path) -> None:
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(data_path("name_based", "momentum", "model.ckpt-5" + suffix), tmp_path / ("m-5" + suffix))
    path = str(tmp_path / "m-5")
    with formats.open_checkpoint(path) as reader:
        shapes = {key: spec.shape for key, spec in reader.specs.items() if spec.dtype.name == "float32"}
    first = next(iter(shapes))
    for changed in (shapes, {first: shapes[first]}, shapes | {"nope": ()}, shapes | {first: (9, 9)}):
        target, *theirs = tensorflow.ask("match", "by_name", path=path, shapes=changed)
        assert verdict(path, target) == theirs


def test_tensorflow_restores_what_the_proposed_command_writes(tensorflow: TensorFlow, tmp_path: Path) -> None:
    paths = tensorflow.ask("match", "save", names=["pair", "other"], directory=str(tmp_path))
    with formats.open_checkpoint(paths["pair"]) as one, formats.open_checkpoint(paths["other"]) as other:
        found = match(one, other)
        command = fix(found, likely_renames(found, one, other), one, other)
    assert command is not None
    words = shlex.split(command)
    words[3] = fixed = str(tmp_path / words[3])
    assert CliRunner().invoke(cli, words[1:], standalone_mode=False).return_value == 0
    verdicts = tensorflow.ask("match", "verdicts", names=["other"], paths={"other": fixed})
    assert verdicts == [["other", "other", True, True]]
