"""Sources that are cut, written to or replaced while they are read: noticed, and nothing is left."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.api import comparing
from formats.store.local.staging import Staging
from tests.writing import files, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ARRAYS = {name: np.arange(300.0) + number for number, name in enumerate("abc")}
SOURCES = {"-1": "tf-name", ".npz": "npz", ".safetensors": "safetensors"}


def cut(path: str) -> None:
    os.truncate(path, os.path.getsize(path) - 1000)


def write_into(path: str) -> None:
    with open(path, "r+b") as file:
        file.seek(-500, os.SEEK_END)
        file.write(b"\xff" * 8)


def replace(path: str) -> None:
    shutil.copy(path, path + ".new")
    os.replace(path + ".new", path)


CHANGES = {
    "cut before it is read": (cut, Staging, "__init__"),
    "replaced before it is read": (replace, Staging, "__init__"),
    "written to when all is read": (write_into, os, "fsync"),
}
"""The changes of the source, and the calls at which they happen."""

COMMANDS = {
    "convert": ("convert", "{source}", "out/v.hdf5", "--to", "hdf5"),
    "convert without a proof": ("convert", "{source}", "out/v-1", "--to", "name", "--no-verify"),
    "convert with links": ("convert", "{source}", "out/v-1", "--to", "name", "--link"),
    "extract": ("extract", "{source}", "-o", "out/v.json"),
    "extract to a directory": ("extract", "{source}", "-o", "out/parts/"),
    "rename": ("rename", "{source}", "out/r{suffix}", "--add-prefix", "model/"),
    "average": ("average", "{source}", "{other}", "-o", "out/m{suffix}"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", SOURCES)
def test_a_source_that_changes_is_noticed(
    suffix: str, command: str, change: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, other = f"in/w{suffix}", f"in/o{suffix}"
    monkeypatch.chdir(tmp_path)
    save(source, ARRAYS, SOURCES[suffix])
    save(other, ARRAYS, SOURCES[suffix])
    os.mkdir("out")
    act, owner, moment = CHANGES[change]
    data = f"{source}.data-00000-of-00001" if suffix == "-1" else source
    real = getattr(owner, moment)

    def call(*arguments: Any) -> None:
        monkeypatch.setattr(owner, moment, real)
        act(data)
        real(*arguments)

    monkeypatch.setattr(owner, moment, call)
    result = ckpt(*(part.format(source=source, other=other, suffix=suffix) for part in COMMANDS[command]))
    assert result.code == 3, result
    assert "Traceback" not in result.err
    assert f"hint: run this again when no program is writing to {source}" in result.err
    assert files("out") == {}


@pytest.mark.parametrize("suffix", SOURCES)
def test_no_answer_comes_of_comparing_what_changes(
    suffix: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, other = f"w{suffix}", f"o{suffix}"
    save(source, ARRAYS, SOURCES[suffix])
    save(other, {**ARRAYS, "a": ARRAYS["a"] + 1}, SOURCES[suffix])
    assert ckpt("diff", source, other).code == 1
    real = comparing.diff_pairs

    def compare(*arguments: Any, **options: Any) -> Any:
        found = real(*arguments, **options)
        replace(f"{source}.data-00000-of-00001" if suffix == "-1" else source)
        return found

    monkeypatch.setattr(comparing, "diff_pairs", compare)
    result = ckpt("diff", source, other)
    assert result.code == 3
    assert f"hint: run this again when no program is writing to {source}" in result.err
