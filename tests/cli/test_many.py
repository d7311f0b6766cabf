"""Many checkpoints: processes share them, and what is printed is the same for any -j."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli import ls, verify
from tests.cli.conftest import ROOT
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = 40


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty directories of four checkpoints: bundles, HDF5, zips; some damaged, some linked, one empty."""
    top = tmp_path_factory.mktemp("many")
    h5 = data_path("keras_mlp", "mlp.with_optimizer.h5")
    for number in range(FOLDERS):
        folder = top / f"run {number}"
        folder.mkdir()
        for step in (1, 2):
            write_bundle(str(folder / f"ckpt-{step}"), {"w": np.float32([step, number]), "b": np.zeros(3)})
        np.savez(folder / "arrays.npz", a=np.arange(number + 1))
        shutil.copyfile(h5, folder / "model.h5")
    (top / "empty").mkdir()
    os.truncate(top / "run 3" / "model.h5", 5000)
    os.truncate(top / "run 7" / "ckpt-2.index", 10)
    (top / "run 8" / "ckpt-1.data-00000-of-00001").unlink()
    (top / "run 9" / "<script>.npz").write_bytes(b"PK\3\4 nothing")
    shard = top / "run 20" / "ckpt-1.data-00000-of-00001"
    shard.write_bytes(b"\1" + shard.read_bytes()[1:])
    (top / "run 21" / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    os.link(top / "run 22" / "arrays.npz", top / "run 22" / "copy.npz")
    return top


def run(*words: object) -> tuple[int, bytes, bytes]:
    """Run `ckpt` in a process of its own, which has no threads of tests."""
    line = [sys.executable, "-m", "ckpt_cli", *map(str, words)]
    done = subprocess.run(line, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": ROOT})
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words", [("verify", "-R"), ("verify", "-R", "--json"), ("ls", "-R"), ("ls", "-R", "--json")]
)
def test_the_result_is_the_same_for_any_number_of_processes(many: Path, words: tuple[str, ...]) -> None:
    expected = run(*words, "-j", 1, many)
    assert expected[0] == (1 if words[0] == "verify" else 0)
    assert len(expected[1]) > 10_000
    for jobs in (2, 3, 8):
        assert run(*words, "-j", jobs, many) == expected
    if words[0] == "verify":
        assert run(*words, "--executor", "processes:2", many)[:2] == expected[:2]


def test_of_a_large_directory_processes_open_the_checkpoints(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", a=np.arange(5))
    for number in range(1, 600):
        os.link(tmp_path / "0.npz", tmp_path / f"{number}.npz") if number % 2 else shutil.copyfile(
            tmp_path / "0.npz", tmp_path / f"{number}.npz"
        )
    os.truncate(tmp_path / "2.npz", 100)
    expected = run("ls", "-R", "--json", "-j", 1, tmp_path)
    assert run("ls", "-R", "--json", "-j", 3, tmp_path) == expected
    assert run("ls", "--json", tmp_path)[2] == expected[2]
    assert b"2.npz" in expected[2]


def test_reads_of_every_process_are_counted(many: Path) -> None:
    def reads(jobs: int) -> dict[bytes, int]:
        """Return the bytes that are read of each file; two processes may read an index, or its start."""
        lines = run("verify", "-R", "-v", "-j", jobs, many)[2].splitlines()
        found = (line.removeprefix(b"read ").rsplit(b": ", 1) for line in lines if line.startswith(b"read "))
        return {path: int(told.split()[0].replace(b",", b"")) for path, told in found}

    one, three = reads(1), reads(3)
    assert one.keys() == three.keys()
    assert len(one) > 3 * FOLDERS
    assert all(nbytes <= three[path] <= 2 * nbytes for path, nbytes in one.items() if b".index" in path)


def test_the_functions_do_it_too(many: Path) -> None:
    assert [one.path for one in verify(many, recursive=True, jobs=3)] == [
        one.path for one in verify(many, recursive=True, jobs=1)
    ]
    assert [one.directory for one in ls(many, recursive=True, jobs=3)] == [
        one.directory for one in ls(many, recursive=True, jobs=1)
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_processes_quietly(tmp_path: Path, number: int, code: int) -> None:
    for at in range(40):
        (tmp_path / f"run-{at}").mkdir()
        for step in range(20):
            np.savez(tmp_path / f"run-{at}" / f"ckpt-{step}.npz", a=np.zeros(200_000))
    line = [sys.executable, "-m", "ckpt_cli", "verify", "-R", "-j3", str(tmp_path)]
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    until = time.monotonic() + 60
    found: list[str] = []
    while len(found) < 3 and time.monotonic() < until:
        with open(children) as file:
            found = file.read().split()
        time.sleep(0.002)
    assert len(found) == 3, "it was over before there were processes"
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (code, b"", b"")
    until = time.monotonic() + 30
    while any(map(is_running, found)):
        assert time.monotonic() < until
        time.sleep(0.01)


def is_running(process: str) -> bool:
    """Whether a process has not ended; its end may not have been collected yet."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
