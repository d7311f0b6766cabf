"""A disk that fails below Python: each write of libhdf5 and of zip files in turn answers EIO.

The C library's calls are interposed by a small one, built here (`failing_io.c`).
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import Starter
from tests.counts import count
from tests.faults.operations import SOURCE, debris, look, prepare
from tests.faults.test_writes_below_python import TARGETS
from tests.sampling import turn
from tests.writing import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.cli.running import Finished

CALLS = ("write", "pwrite", "ftruncate", "fsync", "close")
FIRST = (1, 2)
"""Points of a call of which `make test` tries one, another one for another commit; `make fuzz` tries all."""

INTERPOSED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "failing_io.c")
KINDS = {"old.hdf5": ["--to", "hdf5"]}


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """Return what starts `ckpt` with the library that fails, which is built."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler to build the library that lets writes fail")
    path = str(tmp_path_factory.mktemp("failing") / "failing_io.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, INTERPOSED, "-ldl"], check=True)
    with Starter(env={**os.environ, "LD_PRELOAD": path}) as found:
        yield found


def convert(name: str, starter: Starter, call: str, at: int) -> Finished:
    """Convert over a file while call number `at` fails, of those to staged files."""
    return starter.run(
        *("convert", TARGETS[name], f"run/{name}", "--overwrite", "--weights-only", "--no-verify"),
        *KINDS.get(name, ()),
        FAILING_CALL=call,
        FAILING_AT=str(at),
        FAILING_IN="_temp_",
    )


every_call = pytest.mark.parametrize("call", CALLS)
every_target = pytest.mark.parametrize("name", TARGETS)


@every_call
@every_target
def test_some_writes_that_fail_below_python_leave_the_old_file(
    name: str, call: str, starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    number = list(TARGETS).index(name) + CALLS.index(call)
    fail_in_turn(name, call, starter, turn(FIRST, 1, number))


@pytest.mark.fuzz
@every_call
@every_target
def test_every_write_that_fails_below_python_leaves_the_old_file(
    name: str, call: str, starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fail_in_turn(name, call, starter, itertools.count(1))


def fail_in_turn(name: str, call: str, starter: Starter, points: Iterable[int]) -> None:
    """Convert again and again, another call failing each time, until all have."""
    before, old = files("run"), look("run").checkpoints[name]
    for at in points:
        done = convert(name, starter, call, at)
        if done.code == 0:
            # There are no more of these calls.
            assert look("run").checkpoints[name] != old
            assert debris("run") == []
            break
        assert done.code == 3, done.err
        assert f"ckpt: error: run/{name}: " in done.err
        assert "input/output error" in done.err
        assert "Traceback" not in done.err
        assert files("run") == before
        count("points at which the disk failed below Python")


def test_the_interposed_library_counts(
    starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this the tests above would hold for a library that does nothing."""
    prepare(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert TARGETS["old.npz"] == SOURCE
    assert convert("old.npz", starter, "write", 1).code == 3
    assert convert("old.npz", starter, "write", 100_000).code == 0
