"""Reading lines, run on checkpoints of this machine, and again on checkpoints elsewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import zlib
from base64 import b64decode
from typing import TYPE_CHECKING

from formats import location
from formats.find.resolve import find
from formats.location import parse_location
from formats.model.checkpoint_files import data_shards
from formats.store import content_cache
from tests.cli.examples import examples
from tests.sampling import turn
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pytest

    from formats.store.remote.server import ServerStore
    from tests.cli.conftest import Result

READING = ("average", "convert", "diff", "extract", "graph", "log", "ls", "match")
READING += ("rename", "report", "rescue", "show", "stats", "verify")

WRITTEN = ("-o", "--save-map")
"""Options whose value is written."""

_LINES = [
    (command, line)
    for (command, option), (base, more) in examples().items()
    for line in (base, f"{base} {more}")
    if command in READING
    and option not in ("--jobs", "--executor", "--color", "--verbose", "--in-place", "--link")
]
_OF_PLACE = re.compile(r" -v( |$)| --format (gitlab|sarif)| -o there.html$")
"""Lines whose output depends on the location in other ways than its path: requests, fingerprints, URIs.

Also lines that are rejected before anything is read.
"""

_LINES = [each for each in _LINES if not _OF_PLACE.search(each[1])]
LINES = sorted({line for _, line in _LINES})
FIRST = sorted(dict(reversed(_LINES)).values())
"""A line of each command."""

KINDS = {
    "guide_adam_legacy/tf_ckpts": ("ls", "ls -R", "show", "verify", "state", "log", "graph", "stats"),
    "saved_model/keras_model": ("ls", "ls -l", "show", "verify", "graph"),
    "hf": ("ls", "ls -l", "show", "verify", "stats"),
    "pytorch/hf_bin": ("ls", "show", "verify"),
}
"""Directories of tests/data that are one thing, a run or a model, and commands that take them so."""

_PAGE_SIZE = re.compile(r"\b\d{5,6}\b")
_PACKED = re.compile(r'(?<=<script type="text/plain" id="data">)[^<]+')
_SUMS = re.compile(
    r"^note: .*( the checksums that the Hub lists: .*| stores no checksums, so values cannot be verified)\n?",
    re.MULTILINE,
)
"""Notes on files that store no checksums: the Hub has checksums of them."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?")


def some_lines(number: int, few: int) -> list[str]:
    """Return a line of each command, and a few of the others, other ones for each number and commit."""
    return sorted({*FIRST, *turn(LINES, few, number)})


def forget(stores: Iterable[ServerStore]) -> None:
    """Forget the listings of stores."""
    location._kept.clear()
    content_cache._kept.files.clear()
    for store in stores:
        store.forget()


def _in_order(text: str) -> str:
    """Return lines, and the items of a document's lists, in an order that follows from no dates."""
    if not text.startswith("{"):
        return "\n".join(sorted(text.splitlines()))
    document = json.loads(text)
    ordered = {
        name: sorted(value, key=json.dumps) if isinstance(value, list) else value
        for name, value in document.items()
    }
    return json.dumps(ordered)


def compare_kinds(kind: str, folder: str, ckpt: Callable[..., Result], anew: Callable[[], None]) -> None:
    """Assert that a directory of KINDS is the same in a folder elsewhere, which has it by its whole path."""
    here, there = data_path(kind), f"{folder}/{kind}"

    def told(text: str, path: str) -> str:
        text = _SUMS.sub("", text.replace(path, "PATH"))
        plain = _TIME.sub("", text.replace('"modified": null', '"modified": ""'))
        return re.sub(r'"timestamp": [\d.]+|"timestamp": null', "", _in_order(plain))

    for command in KINDS[kind]:
        for more in ((), ("--json",)):
            wanted = ckpt(*command.split(), here, *more)
            anew()
            found = ckpt(*command.split(), there, *more)
            assert wanted.code == 0, wanted.err
            assert (found.code, told(found.out, there)) == (wanted.code, told(wanted.out, here)), command
            assert told(found.err, there) == told(wanted.err, here)


def _unpacked(page: bytes) -> str:
    """Return a page of `ckpt report` with what its script draws as text."""
    return _PACKED.sub(lambda packed: zlib.decompress(b64decode(packed[0])).decode(), page.decode())


class Place:
    """A directory of this machine, made by `lay_out`; each line runs in a copy of it."""

    def __init__(
        self, laid_out: Path, tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
        self._laid_out, self._away, self._place = laid_out, tmp_path, tmp_path / "place"
        self._ckpt, self._monkeypatch = ckpt, monkeypatch
        self.is_of_usage = False

    def run(self, words: list[str]) -> tuple[Result, dict[str, bytes]]:
        """Run a line in a fresh copy; return what it printed and the files there."""
        place = self._place
        shutil.copytree(self._laid_out, place)
        self._monkeypatch.chdir(place)
        done = self._ckpt(*words)
        files = {
            os.path.relpath(path, place): path.read_bytes() for path in place.rglob("*") if path.is_file()
        }
        self._monkeypatch.chdir(self._away)
        shutil.rmtree(place)
        return done, files

    def compare(self, line: str, folder: str, anew: Callable[[], None], *, dates: bool = True) -> None:
        """Assert that a line has the same result if its input is in a folder elsewhere.

        `dates` says whether files have the same dates there; some servers tell none.
        """
        words = shlex.split(line)
        here, written = self.run(words)
        anew()
        there = _moved(words, folder)
        assert there != words
        anew()
        found, files = self.run(there)
        self.is_of_usage = found.code == 2

        def plain(text: str) -> str:
            """Return what was printed with paths as they are called from the directory."""
            text = _SUMS.sub("", text.replace(f"{folder}/", "").replace(folder, ".").replace("./", ""))
            if words[0] == "report":  # A page is as much larger as paths are longer.
                text = _PAGE_SIZE.sub("0", text)
            if dates:
                return text
            return _in_order(_TIME.sub("", text).replace('"modified": null', '"modified": ""'))

        assert (found.code, plain(found.out), plain(found.err)) == (here.code, *map(plain, here[1:]))
        assert files.keys() == written.keys()
        for name, data in written.items():
            if name.endswith(".html"):
                assert plain(_unpacked(files[name])) == plain(_unpacked(data)), name
            else:
                assert files[name] == data, name


def _moved(words: list[str], folder: str) -> list[str]:
    """Return a line with what it reads in a folder elsewhere."""
    found = []
    for at, word in enumerate(words):
        path = folder if word == "." else f"{folder}/{word}"
        is_target = words[at - 1] in WRITTEN or (words[0] in ("convert", "rename", "rescue") and at == 2)
        is_read = (
            at
            and not is_target
            and (
                parse_location(path).entry()
                or find(parse_location(path))
                or data_shards(parse_location(path))
            )
        )
        found.append(path if is_read else word)
    return found
