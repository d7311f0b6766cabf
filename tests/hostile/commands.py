"""Every command of `ckpt` on a hostile file: what it prints, and how it ends.

`run_command` runs one within this process, its output a terminal as far as the program
can tell, without colour: so every escape sequence that appears came out of a file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import unicodedata
import xml.etree.ElementTree as ET
from typing import NamedTuple
from unittest import mock

from ckpt_cli.cli.main import main
from tests.pages import PageSource
from tests.support import data_path

__all__ = ["COMMANDS", "SOUND", "Ended", "Terminal", "run_command", "unsafe"]

SOUND = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
"""A checkpoint that the damaged one is compared, matched and averaged with."""

# {} is the damaged checkpoint, @ its directory, + a path where nothing is yet, = the sound one.
COMMANDS = tuple(
    line.split()
    for line in """
    ls {}
    ls -l {}
    ls --json -l {}
    ls --tree {}
    ls --depth 1 {}
    ls --sort shape -r {}
    ls {} k*
    ls -1 {}
    ls @
    sign {} -n --key nosuch.pem -o +.sig
    ls --json @
    ls -R @
    log @
    rescue {} +
    rescue {} + --sibling =
    rescue = + --sibling {}
    log --json @
    show {}
    show --json {}
    show {} k*
    stats {}
    stats --json --fail-on nan,inf {}
    diff {} =
    diff = {} -M --json
    diff {} = --by object-path --all
    diff {} = --by full-name --stat
    diff {} {} --exact
    explain {}
    diff {} = --sub a=>b
    extract {} -o +.npz
    extract {} -o +.safetensors
    extract {} -o +.h5
    extract {} -o +.json
    extract {} -o +/
    rename {} + --add-prefix x/
    rename {} + --strip-prefix a --full-names
    convert {} + --to tf-object
    convert {} + --to tf-name
    convert {} + --to tf-v1
    convert {} +.npz
    convert {} +.safetensors
    convert {} +.h5 --to hdf5
    convert {} +.weights.h5
    convert {} +.h5 --to keras-h5
    convert {} +.keras
    convert {} + --like =
    convert = + --like {}
    convert {} + --merge-slices --shard-size 100
    convert {} + --to tf-name --link
    convert {} + --to tf-object --link --merge-slices
    convert @ + --each
    average {} = -o +
    average {} {} -o +
    average --last 2 @ -o +
    verify {}
    verify --json @
    verify --roundtrip tf-name {}
    verify --roundtrip npz {}
    verify --outputs-like {} {}
    verify --trains-like {} {}
    match {} =
    match = {}
    match --json {} {}
    graph {}
    graph --depth 2 {}
    graph --json {}
    graph {} -o +.svg
    graph {} -o +.dot
    graph {} -o +.mmd
    graph {} -o +.html
    report {} -o +.html
    report {} = -o +.html
    report @ -o +.html
    state @
    state --json @
    state @ --fix -n
    state @ --keep 1 -n
    """.splitlines()
    if line.strip()
)

_KEPT = frozenset("\n\t")
_UNSAFE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


class Ended(NamedTuple):
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def unsafe(text: str) -> str:
    """Return the characters of a text that a terminal obeys instead of showing."""
    return "".join(
        sorted({c for c in text if c not in _KEPT and unicodedata.category(c) in _UNSAFE_CATEGORIES})
    )


def arguments(command: list[str], path: str, new: str) -> list[str]:
    """Return a command line about the checkpoint at `path`, writing to `new`."""
    places = {"{}": path, "@": os.path.dirname(path), "=": SOUND}
    return [places.get(word, new + word[1:] if word.startswith("+") else word) for word in command]


def run_command(line: list[str], color: str = "never", *, piped: bool = False) -> Ended:
    """Run `ckpt` with these arguments, on a terminal or `piped`."""
    stream = io.TextIOWrapper if piped else Terminal
    out, err = (stream(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    # A dumb terminal, so that a bar that moves, where a machine is slow, moves nothing.
    dumb = mock.patch.dict(os.environ, TERM="dumb")
    with dumb, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(["--color", color, *line])
        except SystemExit as ended:
            code = ended.code
    sys.stdout.flush()
    assert isinstance(code, int), code
    texts = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Ended(code, *texts)


def check(line: list[str], ended: Ended, new: str) -> None:
    """Check what every command promises; raises AssertionError."""
    assert ended.code in (0, 1, 3), (ended.code, ended.err)
    printed = ended.out + ended.err
    assert not unsafe(printed), (unsafe(printed), printed)
    assert "Traceback" not in ended.err, ended.err
    if ended.code == 3:
        assert ended.err.startswith(("ckpt: error: ", "note: ", "warning: ")) or ended.out, ended
    if "--json" in line and ended.code in (0, 1) and ended.out:
        assert json.loads(ended.out)["schema"] == 1
        assert ended.out.isascii()
    for suffix in (".svg", ".html", ".dot", ".mmd"):
        if os.path.exists(new + suffix):
            if suffix == ".html":  # of `report`, and of `graph`
                PageSource(new + suffix).assert_closed()
            else:
                _check_drawing(new + suffix)


def _check_drawing(path: str) -> None:
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    assert not unsafe(text), (unsafe(text), path)
    if path.endswith(".svg"):
        assert "<script>" not in text
        ET.fromstring(text)
    if path.endswith(".dot"):
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', text)) % 2 == 0
