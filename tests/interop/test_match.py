"""`ckpt match` says of every pair of programs what TensorFlow's assertions say."""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import formats
from ckpt_cli.cli.main import cli
from ckpt_cli.operations.compare.match import match
from ckpt_cli.operations.compare.match_fix import fix, likely_renames
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        remedy = fix(found, likely_renames(found, one, other), [], one, other)
    assert remedy is not None
    words = shlex.split(remedy.command)
    words[3] = fixed = str(tmp_path / words[3])
    assert CliRunner().invoke(cli, words[1:], standalone_mode=False).return_value == 0
    verdicts = tensorflow.ask("match", "verdicts", names=["other"], paths={"other": fixed})
    assert verdicts == [["other", "other", True, True]]


# Each value, and each slot ----------------------------------------

HOW = {
    "restore": [("save", "restore"), ("save_weights", "restore")],
    "read": [("write", "read"), ("save", "read"), ("save_weights", "load_weights")],
}
"""How a checkpoint is written and read; `save_weights` writes checkpoints in Keras 2 alone."""

PROGRAMS = {
    "2.15": ["bare-adam", "bare-legacy_sgd", "full-adam", "full-legacy_sgd"],
    "2.21": ["bare-none", "bare-adam", "full-adam", "full-sgd"],
}
"""Roots, which are a model or hold one next to its optimizer and a step, and optimizers, by release."""


def programs(tensorflow: TensorFlow, model: str) -> list[str]:
    return [name.replace("-", f"-{model}-") for name in PROGRAMS[tensorflow.release]]


def invoke(*words: str) -> Any:
    return CliRunner().invoke(cli, words, standalone_mode=False)


def cases(
    tensorflow: TensorFlow, model: str, how: str, directory: str
) -> Iterator[tuple[dict[str, Any], str, str, dict[str, Any], dict[str, Any]]]:
    """Yield what was saved, how it is read, by which program, what it had, and what `ckpt match` says."""
    names = programs(tensorflow, model)
    fresh = tensorflow.ask("restores", "save", names=names[::-1], how="save", directory=directory + "/fresh")
    for writer, reader in HOW[how]:
        if writer == "save_weights" and not tensorflow.is_old:
            continue
        saved = tensorflow.ask("restores", "save", names=names, how=writer, directory=directory)
        for one, other in itertools.product(names, names):
            if reader == "load_weights" and not other.startswith("bare"):
                continue
            options = ["--read"] if how == "read" else []
            done = invoke("match", "--json", saved[one]["path"], fresh[other]["path"], *options)
            yield saved[one], reader, other, fresh[other], json.loads(done.stdout)


def check_verdicts(found: dict[str, Any], theirs: dict[str, Any]) -> None:
    verdicts = [found["assert_consumed"], found["assert_existing_objects_matched"]]
    assert verdicts == theirs.get("verdicts", [False, False])


def check_values(found: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Every value that TensorFlow restored is where `match` says, and it says of no other that it is."""
    places = {pair["target"] for pair in found["restored"]} | set(found["unmatched_target"])
    unique = {key for _, key in theirs["restored"]}
    said = {
        (pair["target"], pair["checkpoint"]) for pair in found["restored"] if pair["checkpoint"] in unique
    }
    assert said == {(key if key in places else None, source) for key, source in theirs["restored"]}
    others = {pair["checkpoint"] for pair in found["restored"]} - unique
    rates = (
        "save_counter/",
        "/learning_rate/",
        "/_learning_rate/",
        "/decay/",
        "/beta_",
        "optimizer/momentum/",
    )
    assert [key for key in others if not any(rate in f"/{key}" for rate in rates)] == []


def check_slots(saved: dict[str, Any], found: dict[str, Any], theirs: dict[str, Any]) -> None:
    """As many slots are lost, or taken for others, as TensorFlow loses and mistakes."""
    places = {value: name for name, value in theirs["slots"].items()}
    lost = sum(value not in places for value in saved["slots"].values())
    mistaken = sum(places.get(value, name) != name for name, value in saved["slots"].items())
    said = [sum(fate[what] for fate in found["optimizers"]) for what in ("lost", "mistaken")]
    assert said == [lost, mistaken]


def by_map(checkpoint: str, target: str) -> list[str]:
    """Return a command with the pairs that `match` proposes where it knows no command.

    Names are shifted then, so that full names are those of other layers, and the optimizer rejects slots.
    """
    map_file = Path("map.tsv")
    map_file.unlink(missing_ok=True)
    invoke("match", checkpoint, target, "--save-map", str(map_file))
    options = ["--map", str(map_file), "--partial"]
    return ["ckpt", "convert", checkpoint, "fixed/by-map", "--like", target, *options]


def check_fix(
    words: list[str], saved: dict[str, Any], fresh: dict[str, Any], theirs: dict[str, Any], *, alike: bool
) -> None:
    """The command gives every weight its value, and its slots where optimizers are alike."""
    is_rename = words[1] == "rename"
    assert is_rename or theirs["verdicts"][1]
    assert theirs["weights"] == saved["weights"]
    if alike:
        assert (theirs["slots"], theirs["iterations"]) == (saved["slots"], saved["iterations"])
    elif not is_rename:
        assert theirs["slots"] == fresh["slots"]


def check(tensorflow: TensorFlow, model: str, how: str, directory: str) -> int:
    """Compare `ckpt match` with TensorFlow; return the number of printed commands that were run."""
    fixes = 0
    for saved, reader, other, fresh, found in cases(tensorflow, model, how, directory):
        ask = {"name": other, "how": reader, "directory": directory}
        theirs = tensorflow.ask("restores", "restore", path=saved["path"], **ask)
        check_verdicts(found, theirs)
        if "restored" in theirs:
            check_values(found, theirs)
            check_slots(saved, found, theirs)
        if reader == "load_weights" or not (found["fix"] or theirs["weights"] != saved["weights"]):
            continue
        shutil.rmtree("fixed", ignore_errors=True)
        words = shlex.split(found["fix"]) if found["fix"] else by_map(saved["path"], fresh["path"])
        assert invoke(*words[1:]).exit_code == 0, words
        kinds = [path.rpartition("-")[2].removeprefix("legacy_") for path in (saved["name"], other)]
        fixed = tensorflow.ask("restores", "restore", path=f"{directory}/{words[3]}", **ask)
        check_fix(words, saved, fresh, fixed, alike=kinds[0] == kinds[1])
        fixes += bool(found["fix"])
    return fixes


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("model", ["sequential", "subclassed"])
def test_it_says_what_a_restore_does_to_layers_of_one_shape(
    tensorflow: TensorFlow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, how: str
) -> None:
    """With optimizers of all generations, below one object or another, under equal and shifted names."""
    monkeypatch.chdir(tmp_path)
    assert check(tensorflow, model, how, str(tmp_path)) > 5
