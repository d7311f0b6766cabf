"""`ckpt convert --each`: processes share small checkpoints, and nothing else depends on -j."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from ckpt_cli import convert
from tests.cli.conftest import ROOT
from tests.cli.test_many import is_running, run
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 9


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of bundles of odd sizes, with NaN and infinities, and a few other files."""
    folder = tmp_path_factory.mktemp("run")
    for step in range(STEPS):
        values = np.random.default_rng(step).standard_normal((step + 1, 37))
        values.flat[::7], values.flat[1::11] = np.nan, -np.inf
        write_bundle(
            str(folder / f"ckpt-{step}"), {"w": values, "b": np.float32([step]), "step": np.int64(step)}
        )
    shutil.copyfile(data_path("keras_mlp", "mlp.with_optimizer.h5"), folder / "model.h5")
    np.savez(folder / "arrays.npz", a=np.arange(5))
    listed = "".join(f'all_model_checkpoint_paths: "ckpt-{step}"\n' for step in range(4, STEPS))
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "ckpt-{STEPS - 1}"\n{listed}')
    return folder


@pytest.fixture
def source(steps: Path, tmp_path: Path) -> Path:
    """Return a copy of the run, which a test may damage."""
    return shutil.copytree(steps, tmp_path / "run")


def damage(path: Path) -> None:
    """Change the first value of a bundle."""
    shard = path.with_name(path.name + ".data-00000-of-00001")
    shard.write_bytes(b"\1" + shard.read_bytes()[1:])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def converted(source: Path, jobs: int, *options: str) -> tuple[int, bytes, bytes, dict[str, bytes]]:
    """Convert a run to a new directory next to it: exit code, messages, and files."""
    target = source.parent / "out"
    code, out, err = run("convert", "--each", "-j", jobs, *options, source, target)
    files = contents(target) if target.exists() else {}
    shutil.rmtree(target, ignore_errors=True)
    return code, out, err, files


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--json"],
        ["--to", "safetensors", "--cast", "float16"],
        ["--to", "npz", "--json", "--no-verify"],
        ["--dry-run"],
        ["--quiet", "--shard-size", "200"],
        ["--add-prefix", "x/"],
    ],
    ids=" ".join,
)
def test_files_and_messages_do_not_depend_on_the_number_of_processes(
    options: list[str], source: Path
) -> None:
    (source / "model.h5").unlink()
    os.truncate(source / "ckpt-3.index", 10)
    expected = converted(source, 1, *options)
    assert expected[0] == 3
    assert b"not converted" in expected[2]
    assert len(expected[3]) >= (0 if "--dry-run" in options else STEPS)
    for jobs in (2, 4):
        assert converted(source, jobs, *options) == expected


def test_hdf5_is_read_and_written_by_processes(source: Path) -> None:
    for step in range(6):
        shutil.copyfile(source / "model.h5", source / f"model-{step}.h5")
    for path in source.glob("ckpt-*"):
        path.unlink()
    expected = converted(source, 1, "--to", "keras-h5", "--sub", "dense", "layer")
    assert converted(source, 3, "--to", "keras-h5", "--sub", "dense", "layer")[:3] == expected[:3]
    expected = converted(source, 1, "--to", "npz")
    assert (expected[0], len(expected[3])) == (0, 8)
    assert converted(source, 3, "--to", "npz") == expected


@pytest.mark.parametrize("at", [0, 6])
def test_damage_ends_it_in_its_turn_and_leaves_whole_checkpoints(at: int, source: Path) -> None:
    """Those behind the damaged one may be there already; each that is there is as it would be."""
    sound = converted(source, 1)
    damage(source / f"ckpt-{at}")
    code, out, err, before = converted(source, 1)
    assert code == 3
    assert b"checksum" in err
    for jobs in (2, 4):
        found = converted(source, jobs)
        assert found[:3] == (code, out, err)
        assert before.items() <= found[3].items() <= sound[3].items()
        assert len([name for name in found[3] if name.endswith(".index")]) * 2 == len(found[3])


def test_what_cannot_be_converted_is_rejected_before_anything_is_written(source: Path) -> None:
    write_bundle(str(source / "ckpt-99"), {"text": np.array([b"a", b"bc"], object)})
    expected = converted(source, 1, "--to", "safetensors")
    assert (expected[0], expected[3]) == (1, {})
    assert converted(source, 3, "--to", "safetensors") == expected


def test_a_process_that_is_lost_is_made_good_for(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint that it had is converted by this process."""
    from ckpt_cli.api import run_conversion

    expected = converted(source, 1)[3]
    here, recorded = os.getpid(), run_conversion._recorded

    def lost(run: run_conversion._Run, member: run_conversion.Member) -> run_conversion._Recorded:
        if member.name == "ckpt-5" and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return recorded(run, member)

    monkeypatch.setattr(run_conversion, "_recorded", lost)
    monkeypatch.setattr(run_conversion, "can_fork", lambda: True)
    assert len(convert(source, source.parent / "out", each=True, jobs=3)) == STEPS + 2
    assert contents(source.parent / "out") == expected


def test_functions_return_the_same(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt_cli.api import run_conversion

    monkeypatch.setattr(run_conversion, "can_fork", lambda: True)
    results = []
    for jobs in (1, 3):
        found = convert(source, source.parent / f"out{jobs}", each=True, jobs=jobs)
        results.append([(one.to_dict()["tensors"], one.notes, one.warnings) for one in found])
    assert results[0] == results[1]
    assert len(results[0]) == STEPS + 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_whole_checkpoints_and_no_process(
    tmp_path: Path, number: int, code: int, step_names: Callable[[Path], set[str]]
) -> None:
    source, target = tmp_path / "run", tmp_path / "out"
    source.mkdir()
    for step in range(40):
        write_bundle(str(source / f"ckpt-{step}"), {"w": np.full(500_000, step, np.float32)})
    line = [sys.executable, "-m", "ckpt_cli", "convert", "--each", "-q", "-j3", str(source), str(target)]
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    until = time.monotonic() + 60
    while not (target.exists() and len(os.listdir(target)) > 6) and time.monotonic() < until:
        time.sleep(0.002)
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        children = file.read().split()
    assert len(children) == 3
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (code, b"", b"")
    assert not any(map(is_running, children))
    there = step_names(target)
    assert 0 < len(there) < 40
    for name in there:
        with formats.open_checkpoint(str(target / name)) as reader:
            assert (reader["w"].read() == int(name.removeprefix("ckpt-"))).all()


@pytest.fixture
def step_names() -> Callable[[Path], set[str]]:
    """Return the names of the bundles in a directory, in which nothing else is."""

    def names(folder: Path) -> set[str]:
        found = os.listdir(folder)
        assert all(re.fullmatch(r"ckpt-\d+\.(index|data-00000-of-00001)", name) for name in found), found
        return {name.removesuffix(".index") for name in found if name.endswith(".index")}

    return names
