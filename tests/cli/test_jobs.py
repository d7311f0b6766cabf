"""The output and the errors of commands do not depend on the number of workers."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from ckpt_cli.operations.runs import history, log
from formats.core.dtypes import BY_NAME
from formats.model.writer import Placement
from formats.store import ranges
from formats.store.work import workers
from formats.store.work.task_context import TASK_FILES
from tests.cli.conftest import ROOT
from tests.support import partitioned, shard_path, strings, variants, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ckpt_cli.operations.look.stats import FileTask, Statistics

JOBS = (1, 2, 5)


@pytest.fixture(autouse=True, params=["threads", "processes"])
def small_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Cut tensors of a few kilobytes into many tasks, for threads or for forked processes."""
    monkeypatch.setattr(workers, "_LEAST_FORKED", 0 if request.param == "processes" else sys.maxsize)
    monkeypatch.setattr(workers, "can_fork", lambda: True)  # threads of other tests may still be there
    monkeypatch.setattr(workers, "processors", lambda: 8)
    monkeypatch.setattr(ranges, "TASK_BYTES", 1 << 12)
    monkeypatch.setattr(workers, "TASK_BYTES", 1 << 12)
    return str(request.param)


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Return three bundles that differ in values alone."""
    generator = np.random.default_rng(0)
    paths = []
    for number in range(3):
        values = generator.standard_normal((900, 7)).astype(np.float32)
        tensors = {
            "large": values,
            "double": generator.standard_normal(5000),
            "half": generator.standard_normal(3000).astype(np.float16),
            "partitioned": partitioned(values, [((0, 500), (0, -1)), ((500, 400), (0, -1))]),
            "text": strings([b"a" * number, b"", b"c"]),
            "state": variants([b"%d" % number]),
            "empty": np.zeros((0, 3), np.float32),
            "step": np.int64(number),
            **{f"small/{n:03}": generator.standard_normal(n).astype(np.float32) for n in range(60)},
        }
        paths.append(str(tmp_path / f"source-{number}"))
        write_bundle(paths[-1], tensors)
    return paths


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t-1", []),
        ("t-1", ["--shard-size", "20000", "--merge-slices"]),
        ("t-1", ["--cast", "float64"]),
        ("t-1", ["--to", "v1"]),
        ("t.safetensors", ["--exclude", "text", "--exclude", "state", "--cast", "bfloat16"]),
        ("t.npz", ["--exclude", "text", "--exclude", "state"]),
    ],
    ids=["bundle", "shards", "cast", "v1", "safetensors", "npz"],
)
def test_converting_writes_the_same_bytes(
    name: str, options: list[str], sources: list[str], tmp_path: Path, ckpt: Callable
) -> None:
    written = {}
    for jobs in JOBS:
        out = tmp_path / f"out{jobs}"
        result = ckpt("convert", sources[0], out / name, "-j", jobs, *options)
        assert result.code == 0, result.err
        written[jobs] = files(out)
    assert written[1]
    assert written[1] == written[2] == written[5]


@pytest.mark.parametrize("proof", ["none", "full"])
@pytest.mark.parametrize(
    ("have", "want"), [("float64", "float32"), ("float64", "float8_e4m3fn"), ("float32", "bfloat16")]
)
def test_narrower_values_do_not_depend_on_the_number_of_processors(
    have: str, want: str, proof: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more threads pieces are larger, but what a piece is made of must still fit into the buffer."""
    monkeypatch.setattr(workers, "TASK_BYTES", 4 << 20)
    values = np.random.default_rng(0).standard_normal(9_000_000 // BY_NAME[want].numpy.itemsize)
    source, targets = str(tmp_path / "a-1"), []
    write_bundle(source, {"a": values.astype(have)})
    for count in (1, 8):
        monkeypatch.setattr(workers, "processors", lambda count=count: count)
        targets.append(tmp_path / f"{count}.safetensors")
        ckpt("convert", source, targets[-1], "--cast", want, "--verify", proof, "-j", "8")
    made = [target.read_bytes() for target in targets]
    assert made[0] == made[1]
    with formats.open_checkpoint(targets[1]) as found:
        assert np.array_equal(found["a"].read(), values.astype(have).astype(BY_NAME[want].numpy))


def test_averaging_writes_the_same_bytes(sources: list[str], tmp_path: Path, ckpt: Callable) -> None:
    written = {}
    for jobs in JOBS:
        result = ckpt("average", *sources, "-o", tmp_path / f"out{jobs}" / "mean", "-j", jobs)
        assert result.code == 0, result.err
        written[jobs] = files(tmp_path / f"out{jobs}")
    assert written[1] == written[2] == written[5]


def test_differences_are_the_same(sources: list[str], ckpt: Callable) -> None:
    for options in ([], ["--exact", "--all"], ["--rtol", "0.5"], ["-M"]):
        found = [ckpt("diff", "--json", *sources[:2], "-j", jobs, *options) for jobs in JOBS]
        assert {result.code for result in found} == {1}
        assert found[0].out == found[1].out == found[2].out
        assert found[0].json["summary"]["changed"] > 60


def test_statistics_are_the_same(sources: list[str], ckpt: Callable) -> None:
    for options in ([], ["--json"], ["--json", "small/*"], ["--fail-on", "nan"]):
        found = [ckpt("stats", sources[1], "-j", jobs, *options) for jobs in JOBS]
        assert {result.code for result in found} == {0}
        assert found[0].out == found[1].out == found[2].out
    (large,) = ckpt("stats", sources[1], "--json", "large", "-j", 2).json["tensors"]
    with formats.open_checkpoint(sources[1]) as reader:
        values = reader["large"].read().astype(np.float64)
    assert large["mean"] == pytest.approx(values.mean(), rel=1e-9)
    assert large["std"] == pytest.approx(values.std(), rel=1e-12)
    assert (large["min"], large["max"]) == (values.min(), values.max())


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """Return a bundle of odd sizes, with NaN and infinities; its largest tensor makes several tasks."""
    generator = np.random.default_rng(0)
    large = generator.normal(size=(1 << 20) + 12_345).astype(np.float32)
    nan, inf, both = large.copy(), large.copy(), generator.normal(size=70_001)
    nan[::9_999] = np.nan
    inf[-1], inf[5] = np.inf, -np.inf
    both[::3], both[1::77] = np.nan, np.inf
    path = str(tmp_path / "odd-1")
    tensors = {
        "large": large,
        "nan": nan,
        "inf": inf,
        "both": both,
        "one": np.float32([3]),
        "none": large[:0],
    }
    write_bundle(path, {**tensors, "half": large.astype(np.float16), "flags": large > 0})
    return path


@pytest.mark.parametrize("count", [2, 8])
def test_movements_do_not_depend_on_who_works(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    left, right = (generator.normal(size=200_001).astype(np.float32) for _ in range(2))
    dtype = BY_NAME["float32"]
    alone = history._squares(dtype, left.data, right.data)
    assert alone == pytest.approx(float(((left.astype(np.float64) - right) ** 2).sum()), rel=1e-14)
    monkeypatch.setattr(TASK_FILES, "threads", count)
    assert history._squares(dtype, left.data, right.data) == alone


@pytest.mark.parametrize("count", [2, 8])
def test_statistics_do_not_depend_on_who_works(
    count: int, odd: str, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "processors", lambda: count)
    monkeypatch.setattr(workers, "TASK_BYTES", 1 << 20)
    found = {
        ckpt("stats", odd, "--json", *options).out
        for options in (("-j1",), ("-j2",), ("-j3",), ("-j8",), ("--executor", "processes:2"))
    }
    assert len(found) == 1


@pytest.mark.parametrize("command", ["diff", "diff --exact", "average", "report", "log"])
def test_odd_values_are_the_same_to_the_last_bit(
    command: str, odd: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odd sizes, NaN and infinities, in pieces that depend on the number of threads."""
    other = str(tmp_path / "odd-2")
    with formats.open_checkpoint(odd) as reader:
        values = {key: reader[key].read() for key in reader.specs}
    write_bundle(other, {key: value[::-1] for key, value in values.items()})
    words: list[object] = {
        "average": ["average", odd, other, "-o", tmp_path / "out" / "mean", "--overwrite"],
        "report": ["report", odd, other, "-o", tmp_path / "out" / "page.html", "--overwrite"],
        "log": ["log", tmp_path, "--json"],
    }.get(command, [*command.split(), "--json", odd, other])
    (tmp_path / "out").mkdir()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setattr(ranges, "TASK_BYTES", 1 << 18)
    monkeypatch.setattr(workers, "TASK_BYTES", 1 << 18)
    shared = [["--executor", "processes:2"]] if command not in ("report", "log") else []
    found = []
    for options in (["-j1"], ["-j2"], ["-j3"], ["-j8"], *shared):
        monkeypatch.setattr(workers, "processors", lambda options=options: int(options[-1][-1]))
        result = ckpt(*words, *options)
        assert result.code == (1 if command.startswith("diff") else 0), result.err
        found.append((result.out, files(tmp_path / "out")))
    assert all(each == found[0] for each in found)
    assert found[0][0] or found[0][1]


def test_a_run_is_the_same(
    small_tasks: str, sources: list[str], ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    who: set[str] = set()
    do_task = log.do_task

    def watched(task: FileTask) -> Statistics | None:
        who.add(threading.current_thread().name)
        return do_task(task)

    monkeypatch.setattr(log, "do_task", watched)
    with open(shard_path(sources[1]), "r+b") as file:
        file.truncate(os.path.getsize(file.name) - 1)
    directory = os.path.dirname(sources[0])
    for options in ([], ["--json"], ["--json", "small/*"], ["--no-values"]):
        who.clear()
        found = [ckpt("log", directory, "-j", jobs, *options) for jobs in JOBS]
        assert {result.code for result in found} == {0}
        assert found[0].out == found[1].out == found[2].out
        assert found[0].err == found[1].err == found[2].err
        assert "MainThread" in who or "--no-values" in options
        # A forked process keeps its own notes.
        assert len(who) > 1 or "--no-values" in options or small_tasks == "processes"


@pytest.mark.parametrize("command", ["verify", "convert", "average", "diff", "stats"])
def test_damage_is_found_where_it_is(
    command: str, sources: list[str], tmp_path: Path, ckpt: Callable
) -> None:
    """In the middle of a large tensor, and in one after it, which other workers may find before."""
    path = shard_path(sources[0])
    with open(path, "r+b") as file:
        for at in (20_000, 60_000):
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))
    (out := tmp_path / "out").mkdir()
    arguments = {
        "verify": ["verify", "--json", sources[0]],
        "convert": ["convert", sources[0], out / "t-1"],
        "average": ["average", *sources, "-o", out / "t-1"],
        "diff": ["diff", "--exact", sources[0], sources[1]],
        "stats": ["stats", "--json", sources[0]],
    }[command]
    found = [ckpt(*arguments, "-j", jobs) for jobs in JOBS]
    assert {result.code for result in found} == {1 if command == "verify" else 3}
    assert found[0].out == found[1].out == found[2].out
    assert found[0].err == found[1].err == found[2].err
    text = found[0].out if command == "verify" else found[0].err
    assert "checksum" in text
    assert os.listdir(out) == []


@pytest.mark.parametrize("jobs", JOBS)
def test_an_interrupt_while_others_write_leaves_nothing(
    jobs: int, sources: list[str], tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (out := tmp_path / "out").mkdir()
    write = Placement.write

    def interrupted(place: Placement, at: int, data: Any) -> None:
        write(place, at, data)
        if at == 12 << 10:  # in the middle of a tensor
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Placement, "write", interrupted)
    assert ckpt("convert", sources[0], out / "t-1", "-j", jobs).code == 130
    assert os.listdir(out) == []


@pytest.mark.parametrize("jobs", JOBS)
def test_a_full_disk_leaves_nothing(
    jobs: int, sources: list[str], tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (out := tmp_path / "out").mkdir()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    result = ckpt("convert", sources[0], out / "t-1", "-j", jobs)
    assert result.code == 3
    assert "no space left on device" in result.err
    assert os.listdir(out) == []


def test_a_document_of_statistics_is_whole_or_not_begun(sources: list[str], ckpt: Callable) -> None:
    result = ckpt("stats", "--json", sources[0], "nothing")
    assert (result.code, result.out) == (1, "")
    with open(shard_path(sources[0]), "r+b") as file:
        file.truncate(os.path.getsize(file.name) - 1)
    result = ckpt("stats", "--json", sources[0])
    assert (result.code, result.out) == (3, "")


# Memory -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large_pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return two bundles of ten tasks each."""
    found = []
    for seed in range(2):
        values = np.random.default_rng(seed).standard_normal(40 << 20, dtype=np.float32)
        found.append(str(tmp_path_factory.mktemp("large") / f"side-{seed}"))
        write_bundle(found[-1], {"w": values})
    return found


def peak(*words: object) -> int:
    """Return the most memory in bytes that a command takes, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpt_cli", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1)
    return usage.ru_maxrss << 10


@pytest.mark.parametrize("command", ["verify", "stats", "diff", "average", "convert", "convert --cast"])
def test_a_thread_takes_a_few_megabytes(command: str, large_pair: list[str], tmp_path: Path) -> None:
    """At most 40 MB are promised; what is measured is one to six."""
    one, other = large_pair
    words: list[object] = {
        "diff": ["diff", one, other],
        "average": ["average", one, other, "-o", tmp_path / "out-1", "--overwrite"],
        "convert": ["convert", one, tmp_path / "out.safetensors", "--overwrite"],
        "convert --cast": ["convert", one, tmp_path / "out-1", "--cast", "bfloat16", "--overwrite"],
    }.get(command, [command, one])
    each = (peak(*words, "-j", 8) - peak(*words, "-j", 1)) / 7
    assert each < 20 << 20
