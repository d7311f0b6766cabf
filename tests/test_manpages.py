"""The manual pages say what the program does today, in what man can show."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib

import pytest

from tests.manpages import DIRECTORY, files
from tests.readme import ROOT, commands


def test_pages_are_todays() -> None:
    assert sorted(os.listdir(DIRECTORY)) == sorted(map(os.path.basename, files()))
    for path, text in files().items():
        with open(path, encoding="utf-8") as file:
            assert file.read() == text, "python -m tests.manpages brings it up to date"


def test_every_command_has_a_page() -> None:
    expected = ["ckpt.1", *(f"ckpt-{name}.1" for name in commands())]
    assert sorted(map(os.path.basename, files())) == sorted(expected)


def test_pages_are_installed_where_man_looks() -> None:
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        settings = tomllib.load(file)["tool"]["setuptools"]
    assert settings["data-files"] == {"share/man/man1": ["man/*.1"]}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_pages_have_no_mistakes_and_can_be_pasted_from() -> None:
    shown = {}
    for path, text in files().items():
        command = ["groff", "-man", "-Tutf8", "-ww", "-P-c"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        assert done.stderr == "", path
        shown[os.path.basename(path)] = done.stdout
    assert "ckpt ls run/ckpt-10 --where 'size>1M and kind=variable'" in shown["ckpt-ls.1"]
    assert "--strip-prefix" in shown["ckpt-rename.1"]
