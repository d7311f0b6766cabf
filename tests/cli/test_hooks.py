"""The hooks of .pre-commit-hooks.yaml: their lines, with the files that they would be given."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support import shard_path, write_bundle
from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def hooks() -> dict[str, tuple[str, str]]:
    """Return the command line of each hook, and the pattern of the files that it takes."""
    with open(os.path.join(ROOT, ".pre-commit-hooks.yaml"), encoding="utf-8") as file:
        rows = re.findall(
            r"- id: (.*)\n  name: .*\n  entry: (.*)\n  language: python\n  args: \[\"--\"\]\n  files: (.*)\n",
            file.read(),
        )
    return {name: (entry, files) for name, entry, files in rows}


@pytest.fixture
def run(tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    monkeypatch.chdir(tmp_path)
    write_bundle("good-1", {"k": np.ones(3, np.float32)})

    def hook(name: str) -> int:
        entry, files = hooks()[name]
        taken = [each for each in sorted(os.listdir(".")) if re.search(files, each)]
        program, *words = shlex.split(entry)
        assert program == "ckpt"
        code: int = ckpt(*words, "--", *taken).code if taken else 0
        return code

    return hook


def test_there_are_three() -> None:
    assert list(hooks()) == ["ckpt-verify", "ckpt-finite", "ckpt-lock"]


def test_damage_is_found(run: Callable[[str], int]) -> None:
    assert run("ckpt-verify") == 0
    with open(shard_path("good-1"), "r+b") as file:
        file.write(b"x")
    assert run("ckpt-verify") == 1


@pytest.mark.parametrize(
    "name", ["good-1.data-00000-of-00001", "good-1.lock", "good-1.index.lock", "m.h5.lock"]
)
def test_what_changes_alone_is_checked(name: str) -> None:
    """A hook gets the changed files of a commit: a damaged shard next to its old index was accepted."""
    taking = {hook: bool(re.search(files, name)) for hook, (_, files) in hooks().items()}
    is_lock = name.endswith(".lock")
    assert taking == {"ckpt-verify": not is_lock, "ckpt-finite": not is_lock, "ckpt-lock": True}


@pytest.mark.parametrize(
    "name", ["poetry.lock", "package-lock.json", "yarn.lock", "index.html", "x.index.md"]
)
def test_other_files_are_none_of_theirs(name: str) -> None:
    assert not any(re.search(files, name) for _, files in hooks().values())


def test_what_has_gone_bad_is_found(run: Callable[[str], int]) -> None:
    assert run("ckpt-finite") == 0
    write_bundle("bad-1", {"k": np.array([np.nan])})
    assert run("ckpt-finite") == 1


def test_names_may_look_like_options(run: Callable[[str], int]) -> None:
    write_bundle("--color-1", {"k": np.ones(3, np.float32)})
    write_bundle("é b-1", {"k": np.ones(3, np.float32)})
    assert [run(name) for name in hooks()] == [0, 0, 0]


def test_what_has_gone_bad_is_shown_alone(run: Callable[[str], int], ckpt: Callable) -> None:
    write_bundle("bad-1", {"fine": np.ones(3), "k": np.array([np.nan])})
    line = ("stats", "--fail-on", "nan,inf", "--files", "bad-1.index", "good-1.index")
    done = ckpt(*line)
    assert [row[:2] for row in done.rows] == [["bad-1", "k"]]
    assert len(ckpt(*line, "--json").json["results"][0]["tensors"]) == 2
    assert ckpt(*line[:2], "inf", *line[3:]).out == ""


@pytest.mark.parametrize("lock", ["good-1.lock", "good-1.index.lock"])
def test_a_lock_is_held(run: Callable[[str], int], ckpt: Callable, lock: str) -> None:
    write_bundle("free-1", {"k": np.zeros(1)})  # without a lock file
    with open(lock, "w", encoding="utf-8") as file:
        file.write(ckpt("ls", "good-1", "--json", "-l", "--digest", "sha256").out)
    assert run("ckpt-lock") == 0
    write_bundle("good-1", {"k": np.zeros(3, np.float32)})
    assert run("ckpt-lock") == 1
    os.unlink(lock)
    assert run("ckpt-lock") == 0
