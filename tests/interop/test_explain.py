"""The table of `ckpt explain` is compared with what the real programs say when they are provoked."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.cli.main import main
from ckpt_cli.operations.look.complaints import complaints
from ckpt_cli.operations.look.explain import explain

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

PROVOKED = sorted({name for row in complaints() for name in row.provoked})
OF_TENSORFLOW = [name for name in PROVOKED if name.partition("@")[2] not in ("torch", "packs")]


@pytest.mark.parametrize("name", OF_TENSORFLOW)
def test_what_a_program_says_is_explained(name: str, tensorflow: TensorFlow, tmp_path: Path) -> None:
    function, _, release = name.partition("@")
    if release not in ("", tensorflow.release):
        return
    _check(name, tensorflow.ask("explain", "text", name=function, directory=str(tmp_path)))


@pytest.mark.parametrize("name", [name for name in PROVOKED if name.endswith("@torch")])
def test_what_pytorch_says_is_explained(name: str, pytorch: TensorFlow, tmp_path: Path) -> None:
    function = name.removesuffix("@torch")
    _check(name, pytorch.ask("explain_torch", "text", name=function, directory=str(tmp_path)))


def _check(name: str, said: str) -> None:
    found = {match.title for match in explain(said)}
    assert {row.title for row in complaints() if name in row.provoked} <= found, said


READABLE = (
    "model_of_other_generation@2.15",
    "functional_of_other_generation",
    "model_of_newer_keras",
    "own_class_without_arguments@2.21",
    "lambda_layer",
    "loss_by_short_name@2.21",
    "state_dict_of_other_names@torch",
    "tensors_of_a_gpu@torch",
)
"""Complaints about sound files: every command that needs no other file must run on them."""


@pytest.mark.parametrize("name", READABLE)
def test_commands_run_as_printed(
    name: str,
    new_tensorflow: TensorFlow,
    old_tensorflow: TensorFlow,
    pytorch: TensorFlow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function, _, release = name.partition("@")
    asked = {"2.15": old_tensorflow, "torch": pytorch}.get(release, new_tensorflow)
    module = "explain_torch" if release == "torch" else "explain"
    said = asked.ask(module, "text", name=function, directory=str(tmp_path))
    (match,) = explain(said)
    monkeypatch.chdir(tmp_path)
    runnable = [line for line in match.commands if "FRESH" not in line]
    assert len(runnable) > 1
    for line in runnable:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line)[1:])
        assert ended.value.code == 0, line


def test_everything_that_can_be_provoked_is_in_the_table(tensorflow: TensorFlow) -> None:
    provoked = {name.partition("@")[0] for name in OF_TENSORFLOW}
    known = set(tensorflow.ask("explain", "names"))
    assert known <= provoked
    assert {name for name in provoked - known if f"{name}@2.21" not in PROVOKED} == set()


def test_everything_that_pytorch_can_be_made_to_say_is_in_the_table(pytorch: TensorFlow) -> None:
    assert {f"{name}@torch" for name in pytorch.ask("explain_torch", "names")} <= set(PROVOKED)
