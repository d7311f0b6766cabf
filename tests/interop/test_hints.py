"""The hints of `convert --like` work, and every weight that stays untrained is reported."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

import formats
from tests.cli.running import Finished, run_ckpt
from tests.sampling import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

TOLERANCE = 1e-5
MODELS = ["convolutions", "transformer", "over_time", "subclassed"]
_COMMAND = re.compile(r"^hint: (?:.*[:;] )?(ckpt .*)$", re.MULTILINE)
_OPTIONS = re.compile(r"^hint: .*: (--[a-z-]+(?: [^A-Z;]+)?)$", re.MULTILINE)
"""Options to be added to the command line; one that wants a FILE is for a person to complete."""


@pytest.mark.parametrize("model", MODELS)
def test_no_weight_stays_untrained_unsaid(model: str, tensorflow: TensorFlow, tmp_path: Path) -> None:
    told = {"folder": str(tmp_path), "model": model}
    pairs = list(itertools.product(tensorflow.ask("hints", "make", **told), repeat=2))
    for number in seeds(3, len(pairs)):
        mine, theirs = pairs[number]
        line = [tmp_path / "trained" / mine, "--like", tmp_path / "fresh" / theirs, "-q", "--json"]
        tried: list[list[str]] = [[], ["--weights-only", "--partial"]]
        for attempt, options in enumerate(tried):  # and what the hints of each add
            path = tmp_path / f"{number}-{attempt}" / theirs
            done = run_ckpt("convert", line[0], path, *line[1:], *options)
            assert done.code in (0, 3), done.err
            if done.code == 0 and not kept_of_template(done, path):
                far = tensorflow.ask("hints", "far_from_trained", **told, path=str(path))
                assert far <= TOLERANCE, (mine, theirs, options)
            found = [[*options, *shlex.split(text)] for text in _OPTIONS.findall(done.err)]
            tried += [words for words in found if words not in tried]
            for command in _COMMAND.findall(done.err):
                shown = run_ckpt(*shlex.split(command)[1:])
                assert shown.code in (0, 1), shown.err


def kept_of_template(done: Finished, path: Path) -> list[Any]:
    """Return the weights that a conversion kept of TEMPLATE; all of them are named, by a warning."""
    with formats.open_checkpoint(str(path)) as reader:
        kinds, paths = dict(reader.kinds), dict(reader.object_paths)
    rows = json.loads(done.out)["tensors"]
    kept = [row["to"] for row in rows if row["from"] is None and kinds[row["to"]] == "variable"]
    warned = re.findall(r"^warning: (\d+) weights? of TEMPLATE keeps? .*$", done.err, re.MULTILINE)
    assert warned == ([str(len(kept))] if kept else [])
    assert all(repr(paths.get(key) or key) in done.err for key in kept)
    return kept
