"""A disk that fails below Python: each write in turn answers EIO, or every one from some point on.

The C library's calls are interposed by a small one, built here (`failing_io.c`).  A disk that is sick or full
stays so: what tidies up finds it as it is.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import Starter
from tests.counts import count
from tests.faults.operations import GUIDE, SOURCE, debris, look, prepare
from tests.faults.test_writes_below_python import TARGETS
from tests.sampling import turn
from tests.writing import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.cli.running import Finished

CALLS = ("write", "pwrite", "ftruncate", "fsync", "close")
FIRST = (1, 2)
"""Numbers of calls; `make test` tries one of them, depending on the commit, and `make fuzz` all."""

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


# A disk that stays as it is -------------------------------------------------------------------

STAYING = {
    "every fsync": ("fsync", errno.EIO),
    "every close": ("close", errno.EIO),
    "every fsync and close": ("fsync,close", errno.EIO),
    "all that writes": ("write,pwrite,ftruncate,fsync,close", errno.EIO),
    "no room": ("write,pwrite,ftruncate", errno.ENOSPC),
    "no quota": ("write,pwrite,ftruncate,close", errno.EDQUOT),
}
"""The calls that fail from some point on, and their error."""

SAID = {
    errno.EIO: "input/output error",
    errno.ENOSPC: "no space left on device",
    errno.EDQUOT: "disk quota exceeded",
}

PLAIN = ("--weights-only", "--no-verify", "--overwrite")
WRITERS: dict[str, tuple[str, ...]] = {
    "new bundle": ("convert", SOURCE, "run/new-1"),
    "bundle": ("convert", SOURCE, "run/odd-1", "--overwrite"),
    "bundle of shards": ("convert", SOURCE, "run/odd-1", "--overwrite", "--shard-size", "100"),
    "bundle of other shards": ("convert", SOURCE, "run/ckpt-9", "--overwrite", "--shard-size", "64"),
    "bundle in a new directory": ("convert", SOURCE, "run/a/b/new-1"),
    "bundle with links": ("convert", "run/ckpt-8", "run/ckpt-10", "--overwrite", "--link"),
    "bundle by processes": ("convert", SOURCE, "run/odd-1", "--overwrite", "--executor", "processes:1"),
    "bundle going on": ("convert", SOURCE, "run/ckpt-10", "--overwrite", "--resume"),
    "bundle and state file": ("convert", SOURCE, "run/ckpt-11", "--update-state"),
    "V1": ("convert", SOURCE, "run/old.v1", "--to", "v1", *PLAIN),
    "npz": ("convert", SOURCE, "run/old.npz", *PLAIN),
    "safetensors": ("convert", SOURCE, "run/old.safetensors", *PLAIN),
    "safetensors in shards": ("convert", SOURCE, "run/parts.safetensors.index.json", "--shard-size", "64"),
    "pytorch": ("convert", SOURCE, "run/new.pt", *PLAIN),
    "hdf5": ("convert", SOURCE, "run/old.hdf5", "--to", "hdf5", *PLAIN),
    "listing": ("convert", SOURCE, "run/old.json", "--to", "listing", "--overwrite"),
    "Keras 2": ("convert", TARGETS["old.h5"], "run/old.h5", "--overwrite"),
    "Keras 3": ("convert", TARGETS["old.h5"], "run/old.weights.h5", "--overwrite"),
    "Keras 3 going on": ("convert", TARGETS["old.h5"], "run/old.weights.h5", "--overwrite", "--resume"),
    "Keras archive": ("convert", TARGETS["old.keras"], "run/old.keras", "--overwrite"),
    "each checkpoint": ("convert", GUIDE, "run", "--each", "--to", "name", "--overwrite"),
    "rename in place": ("rename", "--in-place", "run/ckpt-10", "--sub", "^net/=>model/"),
    "rename with a graph": ("rename", "run/ckpt-8", "run/ckpt-12", "--sub", "^net/=>model/", "--link"),
    "average": ("average", "--last", "3", "run", "-o", "run/mean-1"),
    "extract to npz": ("extract", SOURCE, "*kernel*", "-o", "run/old.npz", "--overwrite"),
    "extract to npy": ("extract", SOURCE, "net/l1/kernel", "-o", "run/one.npy"),
    "extract to HDF5": ("extract", SOURCE, "*kernel*", "-o", "run/new.h5"),
    "extract to JSON": ("extract", SOURCE, "*kernel*", "-o", "run/old.json", "--overwrite"),
    "extract to a directory": ("extract", SOURCE, "*kernel*", "-o", "run/parts/"),
    "report": ("report", SOURCE, "-o", "run/page.html"),
    "graph": ("graph", SOURCE, "-o", "run/graph.svg"),
    "state": ("state", "run", "--set", "ckpt-9"),
}
"""Everything that writes, except deletions."""

TURNS = (1, 2, 3, 5, 8, 13)
"""First calls that fail, with all later ones; `make test` tries one, `make fuzz` more until all succeed."""


@pytest.mark.parametrize("disk", STAYING)
@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_stays_sick_leaves_nothing(
    name: str, disk: str, starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = list(WRITERS).index(name) + list(STAYING).index(disk)
    stay_sick(name, disk, starter, turn(TURNS, 1, number), tmp_path, monkeypatch)


@pytest.mark.fuzz
@pytest.mark.parametrize("disk", STAYING)
@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_stays_sick_from_any_point_on_leaves_nothing(
    name: str, disk: str, starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_sick(name, disk, starter, itertools.count(1), tmp_path, monkeypatch)


def stay_sick(
    name: str,
    disk: str,
    starter: Starter,
    points: Iterable[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Run a command again and again, calls failing from another point on each time, until none does."""
    calls, number = STAYING[disk]
    for at in points:
        directory = tmp_path / str(at)
        prepare(str(directory))
        monkeypatch.chdir(directory)
        before, seen = files("run"), look("run")
        done = starter.run(
            *WRITERS[name],
            FAILING_CALL=calls,
            FAILING_AT=str(at),
            FAILING_IN=str(directory),
            FAILING_FOREVER="1",
            FAILING_ERRNO=str(number),
        )
        assert "Traceback" not in done.err
        assert "Exception ignored" not in done.err
        if done.code == 0:
            assert debris("run") == []
            break
        assert done.code == 3, done.err
        assert next(line for line in done.err.splitlines() if "error: " in line).endswith(SAID[number])
        count("points from which on the disk was sick")
        if "--resume" in WRITERS[name]:
            finish(name, starter, directory)
            continue
        assert debris("run") == []
        now = look("run")
        # a file that could not be synced after its move exists, with any exit code
        if now == seen:
            assert files("run") == before
        else:
            assert set(now.checkpoints) >= set(seen.checkpoints)


def finish(name: str, starter: Starter, directory: Path) -> None:
    """Let a conversion continue once the disk works again; nothing is left of it then."""
    assert starter.run(*WRITERS[name]).code == 0
    assert starter.run("state", "--fix", directory / "run").code == 0
    assert debris("run") == []
