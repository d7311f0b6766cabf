"""Each command that continues with the rest of a checkpoint reports its damage."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli.commands
from tests.support import write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HIDDEN = "member '`.npy' has another name in its local header"

COMMANDS = {
    "average": "average {bad} {bad} -o {new}.npz",
    "convert": "convert {bad} {new}.safetensors --match a",
    "diff": "diff {good} {bad}",
    "extract": "extract {bad} a -o {new}.npy",
    "graph": "graph {bad}",
    "log": "log {run}",
    "ls": "ls {bad}",
    "match": "match {bad} {names}",
    "rename": "rename {bad} {new}.npz --sub a=>z",
    "report": "report {bad} -o {new}.html",
    "rescue": "rescue {bad} {new}.npz",
    "show": "show {bad}",
    "stats": "stats {bad} --match a",
    "verify": "verify {bad}",
}
OTHERS = {
    "convert of a template": "convert {good} {new}.npz --like {bad}",
    "convert of a directory": "convert {run} {new} --each --to name --match a",
    "diff without a word": "diff {good} {bad} --quiet",
    "extract of what is not there": "extract {bad} b -o {new}.npy",
    "ls of a directory": "ls {run}",
    "ls as JSON": "ls --json -l {bad}",
    "show of a tensor": "show {bad} a",
}
READ_NONE = {"completion", "demo", "explain", "help", "sign", "state"}
"""Commands that look into no checkpoint, or at its index alone to tell whether it is one.

`sign` has tests of its own in tests/cli/test_sign.py."""


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Make an archive, and one in whose directory a bit of a member's name is flipped."""
    run = tmp_path / "run"
    run.mkdir()
    good, bad = str(tmp_path / "good.npz"), str(run / "bad-1.npz")
    np.savez(good, a=np.zeros(4, np.float32), b=np.ones(4, np.float32))
    with open(good, "rb") as file:
        data = bytearray(file.read())
    data[data.rindex(b"PK\1\2") + 46] ^= 2
    with open(bad, "wb") as file:
        file.write(data)
    names = str(tmp_path / "names")
    write_bundle(names, {"a": np.zeros(4, np.float32)})
    return {"good": good, "bad": bad, "run": str(run), "names": names, "new": str(tmp_path / "new")}


@pytest.mark.parametrize("command", [*COMMANDS.items(), *OTHERS.items()], ids=lambda command: command[0])
def test_hidden_damage_is_reported(places: dict[str, str], ckpt: Callable, command: tuple[str, str]) -> None:
    done = ckpt(*command[1].format(**places).split())
    told = done.err + done.out
    assert HIDDEN in told
    assert done.err.count(HIDDEN) == 1 or HIDDEN in done.out


def test_no_command_is_left_out() -> None:
    (directory,) = ckpt_cli.commands.__path__
    names = {name.removesuffix(".py") for name in os.listdir(directory) if name[0] not in "_."}
    assert names == {*COMMANDS, *READ_NONE}


@pytest.mark.parametrize(("count", "more"), [(20, None), (21, "1 more finding"), (50, "30 more findings")])
def test_many_findings_are_counted(tmp_path: Path, ckpt: Callable, count: int, more: str | None) -> None:
    def damage(entries: dict) -> None:
        for key in entries:
            entries[key] = b"\x08\x7f"  # a dtype that there is not

    prefix = str(tmp_path / "many")
    write_bundle(prefix, {f"v{number:02d}": np.float32(1) for number in range(count)}, edit=damage)
    lines = ckpt("show", prefix).err.splitlines()
    assert len(lines) == 20 + (more is not None)
    if more is not None:
        assert lines[-1] == f"warning: {prefix}: {more}; to see all: ckpt verify"
