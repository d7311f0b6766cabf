"""Functions that write: each option of convert, rename, extract and average does what the command does."""

from __future__ import annotations

import filecmp
import inspect
import os
import shlex
import shutil
import time
from typing import TYPE_CHECKING, Any

import click
import pytest

import ckpt_cli as ckpt
from ckpt_cli.cli.main import cli
from ckpt_cli.cli.options import GENERAL
from tests.api.test_commands import documents, place  # noqa: F401  fixtures
from tests.cli.conftest import ckpt as run_ckpt  # noqa: F401
from tests.cli.conftest import laid_out  # noqa: F401
from tests.cli.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COMMANDS = ("average", "convert", "extract", "rename")
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "iterations": int,
    "jobs": int,
    "last": int,
    "learning_rate": float,
    "shard_size": int,
}
"""Keywords that are numbers."""


def call_of(line: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the function, its arguments and keywords that say what a command line says."""
    name, *rest = shlex.split(line)
    context = click.Context(cli, **cli.context_settings)
    command = cli.get_command(context, name)
    assert command is not None
    given, _, _ = command.make_parser(click.Context(command, parent=context)).parse_args(
        [w for w in rest if w != "--json"]
    )
    args: list[Any] = []
    named: dict[str, Any] = {}
    for param in command.params:
        value = given.get(param.name)
        if not isinstance(value, str | list | tuple | bool):
            continue  # not given
        if isinstance(param, click.Argument):
            args += [value] if isinstance(value, str) else value
        else:
            keyword = max(param.opts, key=len).strip("-").replace("-", "_")
            keyword = "key_names" if keyword == "keys" else keyword
            named[keyword] = NUMBERS.get(keyword, lambda text: text)(value)
    return name, args, named


def lines() -> Iterator[str]:
    """Yield the examples of all options of the commands that write."""
    general = {name for option in GENERAL for name in option.opts}
    for (name, option), (line, more) in examples().items():
        if name in COMMANDS and option not in {*general, "--json", "--color", "--resume"}:
            yield f"{line} {more}"


def _files(folder: str) -> set[str]:
    found = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(path, folder) for path in found}


@pytest.mark.parametrize("line", sorted(set(lines())))
def test_each_option_does_what_the_command_does(
    line: str,
    place: Path,  # noqa: F811
    run_ckpt: Callable,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, args, named = call_of(line)
    if named.get("output") == "-":
        pytest.fail("an example writes to stdout")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)  # which state files hold
    shutil.copytree(place, place.parent / "theirs", symlinks=True)
    monkeypatch.chdir(place.parent / "theirs")
    done = run_ckpt(*shlex.split(line), *["--json"] * ("--json" not in line))
    monkeypatch.chdir(place)
    if done.code:
        with pytest.raises((ckpt.CheckpointError, ValueError)) as caught:
            getattr(ckpt, name)(*args, **named)
        assert " ".join(str(caught.value).split()) in done.err
    else:
        found = getattr(ckpt, name)(*args, **named)
        assert documents(found) == done.json
        assert repr(found)
    files = _files("../theirs")
    assert _files(".") == files
    _, changed, broken = filecmp.cmpfiles(".", "../theirs", sorted(files), shallow=False)
    assert (changed, broken) == ([], [])


@pytest.mark.parametrize("command", COMMANDS)
def test_keywords_are_the_options_of_the_command(command: str) -> None:
    params = cli.get_command(click.Context(cli), command).params
    options = {max(param.opts, key=len).strip("-") for param in params if isinstance(param, click.Option)}
    keywords = {
        name
        for name, param in inspect.signature(getattr(ckpt, command)).parameters.items()
        if param.kind is param.KEYWORD_ONLY
    }
    # The choice of names cannot be called as the tensors that are chosen are.
    expected = {"key-names" if name == "keys" else name for name in options}
    assert keywords == {name.replace("-", "_") for name in expected - {"json", "color", "quiet", "verbose"}}


def test_what_was_written_is_reported(place: Path) -> None:  # noqa: F811
    done = ckpt.convert("run", "new.npz", weights_only=True)
    assert (done.target, done.format, done.verified, done.verification) == ("new.npz", "npz", True, "full")
    assert done.source == "run/ckpt-10"
    assert {tensor.source.partition("/.")[0] for tensor in done.tensors} >= {"net/l1/kernel", "net/l1/bias"}
    with pytest.raises(FileExistsError):
        ckpt.convert("run", "new.npz", weights_only=True)
    rehearsed = ckpt.convert("run", "other.npz", weights_only=True, dry_run=True)
    assert (rehearsed.verified, os.path.exists("other.npz")) == (False, False)
    assert "would write other.npz" in repr(rehearsed)


def test_a_conversion_is_resumed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    done = ckpt.convert("run/ckpt-10", "new.safetensors", weights_only=True, resume=True)
    assert done.verified
    assert [name for name in os.listdir() if name.startswith(".")] == []


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("convert", ("run", "new"), {"partial": True}, "--partial does nothing without --like"),
    ("convert", ("run", "new"), {"to": "nothing"}, "the format 'nothing' is unknown"),
    ("convert", ("run", "new"), {"cast": "int32"}, "is not a floating-point dtype"),
    ("convert", ("run", "new"), {"verify": "sent"}, "--verify sent needs a URL as the target"),
    ("convert", ("run", "new"), {"verify": "maybe"}, "--verify: 'maybe' is not one of"),
    ("convert", ("run", "new"), {"iterations": -1}, "--iterations: -1"),
    ("convert", ("run", "new"), {"iterations": 1 << 63}, "--iterations: "),
    ("convert", ("run", "new"), {"learning_rate": 0.0}, "--learning-rate: 0.0"),
    ("convert", ("run", "new"), {"shard_size": 0}, "--shard-size: 0"),
    ("convert", ("run", "new"), {"layout": "caffe"}, "--layout: 'caffe'"),
    ("convert", ("full.h5", "new"), {"each": True}, "--each needs a directory"),
    ("rename", ("run",), {"sub": "a=>b"}, "missing argument DST"),
    ("rename", ("run", "new"), {}, "nothing to change"),
    ("rename", ("run", "new"), {"in_place": True, "sub": "a=>b"}, "DST cannot be passed"),
    ("extract", ("run",), {"output": "new.txt"}, "has no known suffix"),
    ("extract", ("run",), {"output": "-"}, "stdout are not supported here"),
    ("average", ("run",), {"output": "new"}, "expected several checkpoints; found one"),
    ("average", ("full.h5",), {"output": "new", "last": 2}, "--last needs exactly one directory"),
    ("average", ("run",), {"output": "new", "last": 0}, "--last: 0"),
]


@pytest.mark.parametrize(("command", "args", "named", "message"), WRONG)
def test_arguments_that_make_no_sense(
    command: str,
    args: tuple[Any, ...],
    named: dict[str, Any],
    message: str,
    place: Path,  # noqa: F811
) -> None:
    before = _files(".")
    with pytest.raises(ValueError) as caught:
        getattr(ckpt, command)(*args, **named)
    assert message in str(caught.value)
    assert _files(".") == before


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_keyword_is_a_type_error(command: str) -> None:
    args = {"convert": ("a", "b"), "rename": ("a", "b")}.get(command, ("a",))
    output = {} if command in ("convert", "rename") else {"output": "c"}
    with pytest.raises(TypeError, match="no_such_option"):
        getattr(ckpt, command)(*args, **output, no_such_option=True)
