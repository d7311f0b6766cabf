"""The output of --json is exactly what docs/schemas describes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from ckpt_cli.cli.main import cli
from tests import schemas
from tests.cli.examples import examples, lay_out

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jsonschema import Draft202012Validator

MORE = [
    "explain --json",
    "explain exit-codes --json",
    "explain nothing.txt --json",
    "ls run other --json",
    "ls run/ckpt-9 run/ckpt-10 --json",
    "ls flipped-10 -l --json",
    "ls broken-1 run/ckpt-10 --json",
    "match bert-2 bert-2 --json",
    "match run/ckpt-10 fewer --json",
    "match pairs/object_based pairs/object_based_other --json",
    "rescue lost-10 new/s-10 --json",
    "rescue broken-1 new/s-1 --json",
    "show full.h5 --json",
    "show run/ckpt-10 'net/l1/kernel[0:1]' --json",
    "show run/ckpt-10 save_counter --json",
    "show run/ckpt-10 _CHECKPOINTABLE_OBJECT_GRAPH --json",
    "stats pairs/name_based_nan --json",
    "verify broken-1 flipped-10 run/ckpt-10 full.h5 --json",
    "verify nothing --json",
]
"""Lines beyond the examples: several paths, what is damaged, values of every sort."""


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("laid") / "out"
    directory.mkdir()
    lay_out(directory)
    (directory / "nothing.txt").write_text("all is well\n")
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(directory / f"bert-2{suffix}", directory / f"broken-1{suffix}")
    data = bytearray((directory / "broken-1.index").read_bytes())
    data[20] ^= 1
    (directory / "broken-1.index").write_bytes(data)
    return directory


@cache
def validator(command: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    with open(schemas.path(command), encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def lines(command: str) -> list[str]:
    """Return the command's lines of the examples, without and with their option, as JSON."""
    shown = [lines for (name, _), lines in examples().items() if name == command]
    found = [*(line for line, _ in shown), *(f"{line} {added}" for line, added in shown), *MORE]
    return sorted(
        {line if "--json" in line else f"{line} --json" for line in found if line.split()[0] == command}
    )


def test_every_command_has_a_schema() -> None:
    assert sorted(schemas.SCHEMAS) == sorted(cli.list_commands(None))  # type: ignore[arg-type]
    assert sorted(os.listdir(schemas.FOLDER)) == sorted(f"{name}.schema.json" for name in schemas.SCHEMAS)


@pytest.mark.parametrize("command", schemas.SCHEMAS)
def test_schemas_are_those_of_today(command: str) -> None:
    with open(schemas.path(command), encoding="utf-8") as file:
        assert file.read() == schemas.text(command), "python -m tests.schemas"


@pytest.mark.parametrize("command", schemas.SCHEMAS)
def test_documents_fit_their_schema(
    command: str, laid_out: Path, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = 0
    for line in lines(command):
        place = tmp_path / "place"
        shutil.copytree(laid_out, place)
        monkeypatch.chdir(place)
        done = ckpt(*shlex.split(line))
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)
        assert done.out or done.code in (1, 2, 3), line
        if done.out:
            errors = [
                f"{line}: {error.json_path}: {error.message[:300]}" for error in _errors(command, done.out)
            ]
            assert errors == []
            fit += 1
    assert fit >= 1


def _errors(command: str, out: str) -> list[Any]:
    return list(validator(command).iter_errors(json.loads(out)))


def test_what_does_not_fit_is_noticed(
    laid_out: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(laid_out)
    document = ckpt("ls", "--json", "run/ckpt-10").json
    assert _errors("ls", json.dumps(document)) == []
    for change in ({"more": 1}, {"schema": 2}, {"total": None}, {"tensors": [{"key": "a"}]}):
        assert _errors("ls", json.dumps(document | change)), change
    del document["total"]
    assert _errors("ls", json.dumps(document))
