"""No memory and no stack are one line and exit 3, in every command; 1 would say that something differs.

Some tests take the memory away from a process of its own (RLIMIT_AS), others raise what Python would.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import resource
import signal
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, NoReturn

import h5py
import numpy as np
import pytest

import formats
from ckpt_cli.operations.look import verify
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.errors import MEMORY, CorruptCheckpointError, ResourceError, exhausted, is_exhausted
from formats.find import directory, opening, salvage
from formats.h5.library.damage import damage
from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from formats.model.probe import Probe

VALUES = np.random.default_rng(0).normal(size=(512, 1024)).astype(np.float32)
NAMES = {
    "tf-name": "ckpt-1",
    "tf-v1": "model-1",
    "npz": "model.npz",
    "safetensors": "model.safetensors",
    "pytorch": "model.pt",
    "hdf5": "model.h5",
    "keras-weights": "model.weights.h5",
}


@pytest.fixture(scope="module", params=NAMES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two checkpoints of a format, of 2 MB each."""
    paths = []
    for side in ("left", "right"):
        path = tmp_path_factory.mktemp(side) / NAMES[request.param]
        values = VALUES if side == "left" else VALUES + 1
        if request.param == "keras-weights":
            with h5py.File(path, "w") as file:
                file.create_dataset("layers/dense/vars/0", data=values, compression="gzip")
        else:
            spec = TensorSpec("w", BY_NAME["float32"], values.shape)
            with formats.create_checkpoint(str(path), format=request.param, specs=[spec]) as writer:
                writer.write("w", values)
        paths.append(str(path))
    return paths[0], paths[1]


def limited(megabytes: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `ckpt` with so much address space."""

    def take_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    return subprocess.run(
        [sys.executable, "-m", "ckpt_cli", *words],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "CKPT_DEBUG"},
        capture_output=True,
        text=True,
        preexec_fn=take_memory,
        timeout=120,
        check=False,
    )


COMMANDS = {
    "ls": ("ls", "--digest", "sha256", "LEFT"),
    "show": ("show", "--json", "LEFT"),
    "stats": ("stats", "-j", "2", "LEFT"),
    "diff": ("diff", "-j", "2", "LEFT", "RIGHT"),
    "verify": ("verify", "LEFT"),
    "match": ("match", "LEFT", "RIGHT"),
    "log": ("log", "FOLDER"),
    "convert": ("convert", "LEFT", "OUT.npz"),
    "convert by processes": ("convert", "--executor", "processes:2", "LEFT", "OUT.safetensors"),
    "average": ("average", "LEFT", "RIGHT", "-o", "OUT"),
    "extract": ("extract", "LEFT", "-o", "OUT.json"),
    "rename": ("rename", "--add-prefix", "x/", "LEFT", "OUT"),
    "report": ("report", "LEFT", "-o", "OUT.html"),
    "rescue": ("rescue", "LEFT", "OUT"),
}
LIMITS = (100, 180)
"""Megabytes in which numpy cannot be imported, and in which little else fits."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_process_without_memory_says_so_in_a_line(
    command: str, pair: tuple[str, str], tmp_path: Path
) -> None:
    left, right = pair
    suffix = os.path.basename(left)
    if (list(NAMES.values()).index(suffix) + list(COMMANDS).index(command)) % 3:
        return  # every command, every format, and of both together a third
    words = {"LEFT": left, "RIGHT": right, "FOLDER": os.path.dirname(left), "OUT": str(tmp_path / suffix)}
    made = [words.get(word, word.replace("OUT", str(tmp_path / "out"))) for word in COMMANDS[command]]
    enough = {"diff": {1}, "match": {0, 1}}.get(command, {0})
    for limit in LIMITS:
        done = limited(limit, *made)
        assert "Traceback" not in done.stderr, (limit, done.stderr)
        assert "OpenBLAS" not in done.stderr, (limit, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ckpt: error:")]
        if done.returncode == 3:
            assert len(errors) == 1, done.stderr
            assert list(tmp_path.iterdir()) == []
        else:
            assert done.returncode in enough, (limit, done.stderr)
            for path in tmp_path.iterdir():
                path.unlink()


def test_numpy_is_not_imported_where_it_would_end_the_process(tmp_path: Path) -> None:
    """OpenBLAS called exit(1), which said that the two differ."""
    np.savez(tmp_path / "a.npz", w=np.asfortranarray(VALUES))
    done = limited(100, "diff", str(tmp_path / "a.npz"), str(tmp_path / "a.npz"))
    assert done.returncode == 3
    first, hint = done.stderr.splitlines()
    assert first.startswith("ckpt: error: ")
    assert first.endswith("there is not enough memory: importing numpy needs 128 MB of memory")
    assert hint == "hint: free some memory, or raise the memory limit of this process (ulimit -v)"


# What Python raises -----------------------------------------------------------------


RAISED = {
    "memory": (
        MemoryError("Unable to allocate 3 GiB"),
        "there is not enough memory: Unable to allocate 3 GiB",
    ),
    "stack": (
        RecursionError("maximum recursion depth exceeded"),
        "this is nested too deeply for Python's stack",
    ),
    "thread": (RuntimeError("can't start new thread"), "there is not enough memory"),
    "library": (ImportError("x.so: failed to map segment from shared object"), "there is not enough memory"),
    "fork": (OSError(12, "Cannot allocate memory"), "there is not enough memory"),
}


@pytest.fixture(params=RAISED)
def failing(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str]:
    """A run of three checkpoints, and the message of the second, which cannot be opened."""
    error, said = RAISED[request.param]
    for step in (1, 2, 3):
        spec = TensorSpec("w", BY_NAME["float32"], (2, 2))
        path = str(tmp_path / f"m-{step}.safetensors")
        with formats.create_checkpoint(path, format="safetensors", specs=[spec]) as writer:
            writer.write("w", np.full((2, 2), step, np.float32))
    detect = opening.detect

    def detect_or_fail(probe: Probe) -> formats.model.reader.Format:
        if probe.location.name == "m-2.safetensors":
            raise error
        return detect(probe)

    monkeypatch.setattr(opening, "detect", detect_or_fail)
    monkeypatch.setattr(directory, "detect", detect_or_fail)
    monkeypatch.setattr(salvage, "detect", detect_or_fail)
    return tmp_path, said


def test_one_such_file_is_a_warning_and_the_others_are_listed(
    failing: tuple[Path, str], ckpt: Callable
) -> None:
    run, said = failing
    bad = f"{run}/m-2.safetensors"
    listed = ckpt("ls", run)
    assert (listed.code, [row[1] for row in listed.rows]) == (0, ["safetensors", "", "safetensors"])
    assert f"warning: {bad}: {said}\n" in listed.err
    log = ckpt("log", run)
    assert (log.code, len(log.rows)) == (0, 3)
    assert f"warning: {bad}: {said}\n" in log.err
    stats = ckpt("stats", "-R", run)
    assert (stats.code, len(stats.rows)) == (3, 2)
    assert f"ckpt: error: {bad}: {said}\n" in stats.err
    verified = ckpt("verify", "--json", run)
    assert verified.code == 3
    assert [result["ok"] for result in verified.json["results"]] == [True, False, True]
    assert verified.json["results"][1]["findings"][0]["code"] == MEMORY
    for words in (
        ("diff", bad, bad),
        ("show", bad),
        ("convert", bad, run / "o.npz"),
        ("match", bad, bad),
        ("rescue", bad, run / "o.safetensors"),
    ):
        done = ckpt(*words)
        assert done.code == 3
        assert done.err.startswith(f"ckpt: error: {bad}: {said}\n")


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_is_raised_while_values_are_read_or_written(
    kind: str, jobs: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, said = RAISED[kind]
    source = tmp_path / "m.safetensors"
    spec = TensorSpec("w", BY_NAME["float32"], VALUES.shape)
    with formats.create_checkpoint(str(source), format="safetensors", specs=[spec]) as writer:
        writer.write("w", VALUES)

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr("formats.store.local.staged_file.StagedFile.write_at", fail)
    done = ckpt("convert", "-j", jobs, source, tmp_path / "o.safetensors")
    assert done.code == 3
    assert done.err.startswith("ckpt: error: ")
    assert said in done.err
    rescued = ckpt("rescue", "-j", jobs, source, tmp_path / "o.safetensors")
    assert (rescued.code, rescued.err.splitlines()[0]) == (3, f"ckpt: error: {source}: {said}")
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]
    monkeypatch.setattr("formats.store.ranges.FileRange.read", fail)
    monkeypatch.setattr("formats.safetensors.reader.SafetensorsTensor.chunks", fail)
    for words in (
        ("stats", "-j", jobs),
        ("ls", "--digest", "sha256", "-j", jobs),
        ("diff", source, "-j", jobs),
    ):
        done = ckpt(words[0], source, *words[1:])
        assert (done.code, done.err.splitlines()[0]) == (3, f"ckpt: error: {source}: {said}"), words


def test_what_no_file_is_to_blame_for(ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr("ckpt_cli.commands.ls.selection_of", fail)
    done = ckpt("ls", "nothing")
    assert done.code == 3
    assert done.err.splitlines()[0] == "ckpt: error: there is not enough memory"


def test_other_errors_are_not_taken_for_these() -> None:
    for error in (
        RuntimeError("no"),
        ImportError("no module"),
        OSError(5, "Input/output error"),
        KeyError("k"),
        SystemError("bad argument to internal function"),
    ):
        assert not is_exhausted(error)
    # Python's words for a lack of memory for the exception itself.
    for text in ("error return without exception set", "<method> returned NULL without setting an exception"):
        assert is_exhausted(SystemError(text))
    assert isinstance(exhausted(MemoryError()), ResourceError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), ResourceError),
        (RecursionError("maximum recursion depth exceeded"), ResourceError),
        (OSError("Can't read data (memory allocation failed for raw data chunk)"), ResourceError),
        (RuntimeError("Unable to open (can't allocate chunk)"), ResourceError),
        (RuntimeError("Unable to open (bad heap)"), CorruptCheckpointError),
        (OSError("Can't read data (inflate() failed)"), CorruptCheckpointError),
    ],
)
def test_what_the_hdf5_library_has_no_memory_for_is_not_damage(error: Exception, kind: type) -> None:
    with pytest.raises(formats.CheckpointError) as caught, damage("x.h5", "dataset 'w'"):
        raise error
    assert type(caught.value) is kind
    assert caught.value.path == "x.h5"


# A process of its own ---------------------------------------------------------------


def _raise_memory_error(*_: object) -> NoReturn:
    raise MemoryError("Unable to allocate 3 GiB")


def _end_by(number: int) -> Callable[..., None]:
    def end(*_: object) -> None:
        faulthandler.disable()  # of pytest's, which would tell of it
        os.kill(os.getpid(), number)

    return end


ENDS = {
    "memory": (_raise_memory_error, 3, "there is not enough memory: Unable to allocate 3 GiB"),
    "killed": (
        _end_by(signal.SIGKILL),
        3,
        "the process that read this checkpoint was killed, perhaps because",
    ),
    "crash": (_end_by(signal.SIGSEGV), 3, "crashed with signal 11"),
    "exit": (lambda *_: os._exit(7), 3, "the process that read this checkpoint ended with exit code 7"),
}


@pytest.mark.parametrize("name", ["a.h5", "a.keras"])
@pytest.mark.parametrize("end", ENDS)
def test_what_became_of_the_process_that_verifies(
    end: str, name: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zip was reported as `the HDF5 library crashed on it: signal -1`, when Python had no memory."""
    work, code, said = ENDS[end]
    path = tmp_path / name
    if name == "a.keras":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.weights.h5", b"")
    else:
        with h5py.File(path, "w") as file:
            file["w"] = VALUES[:2]
    monkeypatch.setattr(verify, "_verify_here", work)
    done = ckpt("verify", "--json", path)
    (finding,) = done.json["results"][0]["findings"]
    assert (done.code, said in finding["message"]) == (code, True), finding
    assert ("HDF5" in finding["message"]) == (end == "crash" and name == "a.h5")
    assert finding["code"] == ("hdf5-read" if end == "crash" else MEMORY)


# Git --------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def git(*words: str, megabytes: int | None = None) -> subprocess.CompletedProcess[str]:
        def take_memory() -> None:
            if megabytes is not None:
                resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

        return subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": ROOT, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            preexec_fn=take_memory,
            check=False,
        )

    git("init", "-q", ".")
    (tmp_path / ".gitattributes").write_text("*.npz diff=ckpt\n")
    git("config", "diff.ckpt.textconv", f"{sys.executable} -m ckpt_cli ls --digest crc32c")
    np.savez(tmp_path / "a.npz", w=np.asfortranarray(VALUES))
    (tmp_path / "b.npz").write_text("no checkpoint\n")
    np.savez(tmp_path / "c.npz", w=np.zeros(2))
    git("add", ".")
    assert git("commit", "-q", "-m", "Add").returncode == 0
    np.savez(tmp_path / "a.npz", w=np.asfortranarray(VALUES + 1))
    (tmp_path / "b.npz").write_text("nothing yet\n")
    np.savez(tmp_path / "c.npz", w=np.ones(2))
    return git


def test_a_file_that_cannot_be_read_never_ends_git_diff(repository: Callable) -> None:
    done = repository("diff")
    assert done.returncode == 0, done.stderr
    lines = [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("+", "-")) and line[:3] not in ("+++", "---")
    ]
    assert [line[:2] for line in lines] == ["-w", "+w", "-(", "+(", "-w", "+w"]
    assert lines[3].startswith("+(cannot be read: ")
    assert "\t12\tcrc32c:" in lines[3]
    assert "git-blob" not in done.stdout
    assert "fatal" not in done.stderr


def test_a_textconv_without_memory_never_ends_git_diff(repository: Callable) -> None:
    done = repository("diff", megabytes=110)
    assert done.returncode == 0, done.stderr
    assert "+(cannot be read: there is not enough memory" in done.stdout
    assert "Traceback" not in done.stderr


def test_outside_git_the_exit_code_shows(repository: Callable, tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("ls", "--digest", "crc32c", tmp_path / "b.npz")
    assert (done.code, done.out) == (3, "")


_BLOCKS = """
import sys
from ckpt_cli.memory import return_freed_blocks
if sys.argv[1] == "yes":
    return_freed_blocks()
del [bytes([1]) * (8 << 20)][0]
blocks = [bytes([1]) * (8 << 20) for _ in range(20)]
del blocks[:-1]
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * 4096)
"""


def test_freed_blocks_go_back_to_the_system() -> None:
    """The GNU C library would keep them below a block that is still in use, as threads leave them."""
    if platform.libc_ver()[0] != "glibc":
        return  # another library has its own ways
    held = [
        int(subprocess.run([sys.executable, "-c", _BLOCKS, answer], capture_output=True, check=True).stdout)
        for answer in ("no", "yes")
    ]
    assert held[1] < 80 << 20
    assert held[0] > held[1] + (100 << 20)
