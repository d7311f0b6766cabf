"""README.md says what the program does today."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import ckpt_cli.runtime as tf
from tests.estimators import NAMES, Program
from tests.readme import README, ROOT, commands, rendered
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path


def _readme() -> str:
    with open(README, encoding="utf-8") as file:
        return file.read()


def test_help_formats_and_session_are_todays() -> None:
    assert rendered(_readme()) == _readme(), "python -m tests.readme brings it up to date"


def test_every_command_is_described() -> None:
    text = _readme()
    assert [name for name in commands() if f"<!-- help: {name} -->" not in text] == []


def _lay_out(directory: Path) -> None:
    """Put what the tasks speak of where they look for it."""
    for name in os.listdir(data_path("bert_tiny")):
        shutil.copy(data_path("bert_tiny", name), directory)
    shutil.copytree(data_path("bert_template", "other_names", "model"), directory / "fresh")
    shutil.copy(data_path("bert_template", "gold_map.tsv"), directory / "names.tsv")
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), directory / "run")
    shutil.copytree(data_path("keras_mlp"), directory / "keras_mlp")
    shutil.copytree(data_path("estimator_iris", "models", "iris"), directory / "model_dir")
    shutil.copytree(data_path("estimator_iris", "models", "iris_20_20"), directory / "model_dir_20_20")
    Program(tf.keras.optimizers.legacy.Adagrad).checkpoint.save(directory / "fresh_iris" / "ckpt")
    (directory / "iris_names.tsv").write_text("".join(f"{old}\t{new}\n" for old, new in NAMES.items()))


def test_the_commands_of_the_tasks_do_what_they_say(tmp_path: Path) -> None:
    _lay_out(tmp_path)
    blocks = re.findall(r"<!-- run -->\n```sh\n(.*?)```", _readme(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    assert len(lines) >= 12
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    script = bin_directory / "ckpt"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m ckpt_cli "$@"\n')
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_directory}:{os.environ['PATH']}"}
    for line in lines:
        done = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        expected = re.search(r"# exits (\d)", line)
        assert done.returncode == (int(expected[1]) if expected else 0), f"{line}\n{done.stderr}"
