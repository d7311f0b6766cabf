"""Other processes do the work with the same results; obstacles are reported."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from ckpt_cli.operations.convert.lazy import values_of
from ckpt_cli.operations.convert.tasks import UnitRange
from ckpt_cli.operations.look.stats import statistics_of
from formats.core import notices
from formats.core.version import VERSION
from formats.errors import CheckpointError
from formats.location import parse_location, reachable
from formats.store import ranges
from formats.store.local.staged_file import StagedFile
from formats.store.memory import MemoryStore
from formats.store.remote import upload
from formats.store.work import cancellation, executors, unfinished, workers
from formats.store.work.executors import ExecutorRunner, begin_worker, lent_by
from formats.store.work.workers import Threads, group_bytes, task_bytes
from tests.executing import GOLDENS, LINES, came_of, lay_out, line
from tests.support import shard_path, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Return processes that were begun as those of `--executor processes` are."""
    with ProcessPoolExecutor(2, get_context("spawn"), begin_worker) as found:
        yield found


@pytest.fixture
def processes(pool: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `--executor processes` take those that are there, which saves beginning them, and small tasks."""
    monkeypatch.setattr(executors, "Processes", lambda count: ExecutorRunner(pool, count, elsewhere=False))
    monkeypatch.setattr(ranges, "TASK_BYTES", 1 << 12)
    monkeypatch.setattr(workers, "TASK_BYTES", 1 << 12)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("laid")
    lay_out(directory)
    return directory


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("command", LINES)
@pytest.mark.parametrize("name", [*GOLDENS, "mixed"])
def test_the_result_does_not_depend_on_who_works(
    name: str, command: str, laid_out: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(laid_out)
    alone = came_of(ckpt, laid_out, name, command, "-j", "1")
    assert came_of(ckpt, laid_out, name, command, "--executor", "processes:2") == alone
    assert came_of(ckpt, laid_out, name, command, "--executor", "threads:2") == alone
    assert alone.code in ((0, 1) if name == "mixed" else (0, 2, 3)), alone.err


def test_processes_of_its_own_write_the_same_bytes(tmp_path: Path) -> None:
    """The whole way once, from relative paths, with what it says of who did what."""
    write_bundle(
        str(tmp_path / "a-1"), {"large": np.arange(5_000_000, dtype=np.float32), "text": strings([b"x"])}
    )
    command = [sys.executable, "-m", "ckpt_cli", "convert", "a-1", "b-1", "--executor", "processes:2", "-v"]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "sent to workers: 2 tasks, 20,000,000 bytes" in done.stderr, "each reads back what it wrote"
    assert "processed locally: 2 tensors, " in done.stderr, "copied, and compared"
    assert "read a-1.data-00000-of-00001: 20,0" in done.stderr, "what workers read is counted"
    one, other = (tmp_path / f"{name}-1.data-00000-of-00001" for name in "ab")
    assert one.read_bytes() == other.read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted(
        f"{name}-1.{end}" for name in "ab" for end in ("index", "data-00000-of-00001")
    )


@pytest.mark.usefixtures("processes")
def test_what_is_not_read_in_ranges_is_reported(ckpt: Callable, laid_out: Path) -> None:
    for name, said in (("npz", "processed locally: 4 tensors, "), ("tf-name", "sent to workers: 1 task, ")):
        path = laid_out / "one" / name / os.path.basename(GOLDENS[name])
        assert said in ckpt("verify", path, "--executor", "processes", "-v").err


def test_ctrl_c_reaches_all_and_leaves_nothing(tmp_path: Path) -> None:
    """A terminal interrupts the processes that work, too; they leave it to the command."""
    write_bundle(str(tmp_path / "a-1"), {"large": np.zeros(100_000_000, np.float32)})
    (out := tmp_path / "out").mkdir()
    command = [sys.executable, "-m", "ckpt_cli", "convert", "a-1", "out/b-1", "--executor", "processes:2"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if any(path.stat().st_blocks for path in out.glob("*/shard-0")):
                break
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, "")
    assert os.listdir(out) == []


def _slowly(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_after_a_signal_processes_end_with_what_they_do() -> None:
    """A task that took half a minute was waited for."""
    hands = executors.Processes(2)
    futures = [hands.submit(_slowly, [seconds]) for seconds in (0.0, 30.0, 30.0, 30.0)]
    assert hands.result(futures[0]) == [0.0], "a process is there by now"
    processes = list((hands._executor._processes or {}).values())
    cancellation.end_soon()
    try:
        began = time.monotonic()
        hands.stop(futures[1:])
        hands.close()
        assert time.monotonic() - began < 20
    finally:
        cancellation.resume_waiting()
    assert not any(process.is_alive() for process in processes)


def _ignore_signals(number: int) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if number:
        time.sleep(60)
    return number


@pytest.mark.parametrize("is_local", [True, False])
def test_a_process_that_is_killed_may_leave_parts_only_in_a_bucket(
    is_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the warning came after each Ctrl-C, where nothing was sent."""

    class Output:
        def __init__(self) -> None:
            self.is_local = is_local

        def remove(self) -> None: ...

    told: list[str] = []
    monkeypatch.setattr(notices, "warn", told.append)
    hands = executors.Processes(1)
    unfinished.ALIVE.add(output := Output())
    try:
        assert hands.result(hands.submit(_ignore_signals, [0])) == [0], "a process is there by now"
        futures = [hands.submit(_ignore_signals, [1])]
        cancellation.end_soon()
        hands.stop(futures)
        hands.close()
    finally:
        cancellation.resume_waiting()
        unfinished.ALIVE.discard(output)
    assert told == (
        [] if is_local else ["1 worker process did not end in time, so incomplete uploads may remain"]
    )


# Objects -------------------------------------------------------------------------------


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    found = MemoryStore()
    with reachable(found):
        yield found


def _blobs(store: MemoryStore, folder: str) -> dict[str, bytes]:
    found = {}
    for name in store.list(folder):
        with store.open(f"{folder}/{name.name}") as file:
            found[name.name] = file.read(0, file.size)
    return found


@pytest.mark.parametrize("name", ["mixed", "tf-object", "slices", "dtypes", "npz", "safetensors"])
def test_objects_are_the_same_from_any_sender(
    name: str, laid_out: Path, store: MemoryStore, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards of few tensors, and strings between them."""
    (source,) = (word for word in line(name, "verify") if word.startswith("one/"))
    monkeypatch.chdir(laid_out)
    for folder, options in (("alone", ["-j", "1"]), ("shared", ["--executor", "threads:2"])):
        target = f"mem://tests/{folder}/t-1"
        done = ckpt("convert", source, target, "--to", "name", "--shard-size", "9000", "-v", *options)
        assert done.code == 0, done.err
    is_shared = name in ("tf-object", "dtypes", "safetensors")  # the others are read in order, or in slices
    assert ("sent to workers: 0 tasks" not in done.err) == is_shared, done.err
    assert _blobs(store, "mem://tests/shared") == _blobs(store, "mem://tests/alone")
    assert ckpt("verify", "mem://tests/shared/t-1").code == 0


def _large(tmp_path: Path) -> str:
    path = str(tmp_path / "a-1")
    write_bundle(path, {f"{n}": np.full(5000, n, np.float32) for n in range(6)})
    return path


@pytest.mark.parametrize("when", ["put", "block"])
def test_objects_that_cannot_be_sent_leave_nothing(
    when: str, tmp_path: Path, store: MemoryStore, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "BLOCK", 1 << 12)

    def fail(what: str, path: str) -> None:
        if what == when and "00003-of" in path:
            raise formats.InaccessibleError("the server answered 500", path=path)

    store.before = fail
    if when == "put":
        monkeypatch.setattr(upload, "BLOCK", 1 << 20)
    done = ckpt(
        "convert", _large(tmp_path), "mem://tests/t-1", "--shard-size", "20000", "--executor", "threads:2"
    )
    assert done.code == 3
    assert "the server answered 500" in done.err
    assert store.names == []
    assert store.begun == set()


@pytest.mark.parametrize("bytes_", ["the same", "others"])
def test_an_object_that_a_lost_worker_has_sent(
    bytes_: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for damage, nor are others' bytes taken for ours."""
    data = bytes(range(250)) * 40
    store.put("mem://tests/x", data if bytes_ == "the same" else data[::-1], upload.NOTHING)
    before = store.current("mem://tests/x")
    for block in (1 << 12, 1 << 20):
        maker = upload.Maker(parse_location("mem://tests/x"), block, True)
        if bytes_ == "the same":
            assert maker.make([data[:100], data[100:]]) == before
        else:
            with pytest.raises(formats.CheckpointExistsError):
                maker.make([data])
        assert store.current("mem://tests/x") == before
        assert store.begun == set()


# What travels --------------------------------------------------------------------------


def test_a_task_is_less_than_a_kilobyte(tmp_path: Path) -> None:
    write_bundle(str(tmp_path / "a-1"), {"net/layer_12/attention/query/kernel": np.zeros(9, np.float32)})
    with formats.open_checkpoint(str(tmp_path / "a-1")) as reader:
        (tensor,) = (reader[key] for key in reader)
        values = values_of(tensor, tensor.spec)
        assert values is not None
        part = UnitRange(values, 0, 36, None, values.sources[0])
        assert len(pickle.dumps(part)) < 1024
        assert pickle.loads(pickle.dumps(part)).values.size == 36


@pytest.mark.parametrize("where", ["here", "another machine", "another mount"])
def test_what_another_machine_has_written_is_synced_there(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other machine can sync it; on the same machine the command's own sync covers everything."""
    file = StagedFile(str(tmp_path / "shard-0"), parse_location("out"))
    assert file.memory is not None
    kernel, device = file.memory
    told = {"here": file.memory, "another machine": ("x", device), "another mount": (kernel, device + 1)}
    with monkeypatch.context() as patch:
        patch.setattr(StagedFile, "memory", told[where])
        parcel = pickle.dumps((_write, [file]))
    synced = []
    monkeypatch.setattr(StagedFile, "sync", lambda opened: synced.append(opened.path))
    done = executors.work_on(VERSION, "a run", parcel, synced=True)
    file.close()
    assert done.error is None
    assert synced == ([] if where == "here" else [str(tmp_path / "shard-0")])
    assert (tmp_path / "shard-0").read_bytes() == b"written"


def _write(file: Any) -> None:
    file.write_at(0, b"written")


def test_tasks_grow_with_the_work() -> None:
    terabyte = 10**12
    assert task_bytes(0) == task_bytes(terabyte) == 16 << 20
    assert task_bytes(terabyte + 1) == 256 << 20
    assert task_bytes(10**6 * terabyte) == 1 << 30
    for total in (terabyte, 10 * terabyte, 100 * terabyte):
        assert total / task_bytes(total) <= 400_000


def test_those_far_away_are_sent_much_at_a_time() -> None:
    """A task costs Dask 4 ms: a gigabyte in ranges of 16 MiB took it longer than reading that."""
    mib, terabyte = 1 << 20, 10**12
    assert group_bytes(100 * mib, 2) == 16 * mib
    assert group_bytes(2048 * mib, 2) == 64 * mib
    assert group_bytes(8192 * mib, 2) == 256 * mib == group_bytes(terabyte, 100)
    assert group_bytes(100 * terabyte, 100) == 512 * mib


class Far(Threads):
    """Hands that note what they are sent."""

    is_far = True

    def __init__(self) -> None:
        super().__init__(ThreadPoolExecutor(2), 2)
        self.groups: list[list[int]] = []

    def submit(self, work: Callable, group: list[int]) -> Any:
        self.groups.append(group)
        return super().submit(work, group)


@pytest.mark.parametrize(
    ("alone", "sizes"), [(False, [1, 1, *[16] * 31, 14]), (True, [1] * 512)], ids=["together", "alone"]
)
def test_ranges_travel_together(alone: bool, sizes: list[int]) -> None:
    """Except the first two, which are sent before workers are known, and whole objects."""
    far = Far()
    with closing(workers.Workers(lambda: far, shares_all=True).expecting(512 * workers.TASK_BYTES)) as pool:
        assert list(pool.map(abs, range(512), lambda _: workers.TASK_BYTES, alone=alone)) == [*range(512)]
        assert [len(group) for group in far.groups] == sizes
        assert pool.sent == [len(sizes), 512 * workers.TASK_BYTES]


def _cancel(run: str) -> None:
    executors.RUNS.cancel(run)
    counted.append(run)


counted: list[str] = []


def test_a_task_that_is_cancelled_ends_between_its_ranges() -> None:
    counted.clear()
    done = executors.work_on(VERSION, "ends", pickle.dumps((_cancel, ["ends"] * 9)), synced=False)
    assert str(done.error) == "cancelled"
    assert counted == ["ends"]
    assert not executors.RUNS.is_busy("ends")


def test_a_parcel_that_takes_long_comes_back_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 256 MiB, on a slow disk, a killed command lost ten seconds."""
    monkeypatch.setattr(executors, "A_WHILE", 0)
    parcels, told = [], []

    class Noting(ThreadPoolExecutor):
        def submit(self, work: Callable, *arguments: Any, **options: Any) -> Any:
            parcels.append(pickle.loads(arguments[2])[1])
            return super().submit(work, *arguments, **options)

    with Noting(1) as pool:
        found = workers.Workers(lambda: ExecutorRunner(pool, 1), shares_all=True)
        results = found.map(abs, [-1, -2, -3], lambda _: 1, report=lambda *each: told.append(each))
        assert list(results) == [1, 2, 3]
    assert parcels == [[-1, -2, -3], [-2, -3], [-3]]
    assert told == [(-1, 1), (-2, 2), (-3, 3)]
    assert found.sent == [1, 3]


def _refused(reader: formats.FormatReader, pool: ProcessPoolExecutor) -> str:
    with pytest.raises(CheckpointError) as caught:
        list(statistics_of(reader, ["a"], lent_by(pool, 2)))
    return str(caught.value)


def test_another_version_is_rejected_by_name(
    tmp_path: Path, pool: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(str(tmp_path / "a-1"), {"a": np.zeros(9, np.float32)})
    monkeypatch.setattr(executors, "VERSION", "9.9.9")
    with formats.open_checkpoint(str(tmp_path / "a-1")) as reader:
        said = _refused(reader, pool)
    assert f"has ckpt {VERSION}" in said
    assert "expected 9.9.9" in said


@pytest.mark.parametrize("how", ["gone", "replaced"])
def test_a_worker_that_does_not_find_the_file_says_so(
    how: str, tmp_path: Path, pool: ProcessPoolExecutor
) -> None:
    """It is not a damage of the checkpoint, which is open here and intact."""
    path = str(tmp_path / "a-1")
    write_bundle(path, {"a": np.zeros(9, np.float32)})
    with formats.open_checkpoint(path) as reader:
        reader["a"].read()
        os.rename(shard_path(path), tmp_path / "aside")
        if how == "replaced":
            (tmp_path / "new").write_bytes(bytes(36))
            os.rename(tmp_path / "new", shard_path(path))
        said = _refused(reader, pool)
    assert said.startswith(f"{shard_path(path)}: ")
    assert ("cannot see it: no such file" if how == "gone" else "sees another file") in said


def _kill(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_one_clear_line() -> None:
    hands = executors.Processes(1)
    pool = workers.Workers(lambda: hands, shares_all=True)
    try:
        with pytest.raises(CheckpointError, match="a worker process ended abruptly") as caught:
            list(pool.map(_kill, [1]))
        assert caught.value.hints
    finally:
        pool.close()


def test_killed_commands_leave_no_processes(tmp_path: Path) -> None:
    """Those who did the work end with the one that began them."""
    program = (
        "import os, time\n"
        "from formats.store.work.executors import Processes\n"
        "from formats.store.work.workers import Workers\n"
        "if __name__ == '__main__':\n"
        "    pool = Workers(lambda: Processes(1), shares_all=True)\n"
        "    list(pool.map(abs, [1]))\n"
        "    print(*pool._made[0]._executor._processes, flush=True)\n"
        "    time.sleep(60)\n"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": ROOT}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline().split()[-1])
        process.kill()
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{child}") and "Z" not in _state(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}") or "Z" in _state(child)


def _state(process: int) -> str:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


@pytest.mark.usefixtures("processes")
def test_damage_that_workers_find_is_the_same(tmp_path: Path, ckpt: Callable) -> None:
    path = str(tmp_path / "a-1")
    write_bundle(path, {"a": np.arange(5000, dtype=np.float32), "b": np.arange(5, dtype=np.float32)})
    with open(shard_path(path), "r+b") as file:
        file.seek(9000)
        file.write(b"?")
    found: list[Any] = []
    for options in (["-j", "1"], ["--executor", "processes"]):
        found.append(
            [
                ckpt(*line, *options)[:3]
                for line in (["verify", path], ["stats", path], ["convert", path, tmp_path / "b-1"])
            ]
        )
    assert found[0] == found[1]
    assert [code for code, *_ in found[0]] == [1, 3, 3]
    assert sorted(os.listdir(tmp_path)) == ["a-1.data-00000-of-00001", "a-1.index"]


# The option ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "threads:",
        "threads:0",
        "threads:x",
        "processes:-1",
        "dask:",
        "dask://",
        "dask://host",
        "dask://a:b@h:1",
        "dask://h:1/x",
    ],
)
def test_what_is_not_an_executor_is_rejected(text: str, ckpt: Callable) -> None:
    done = ckpt("verify", "nothing", "--executor", text)
    assert (done.code, done.out) == (2, "")
    assert "dask://HOST:PORT" in done.err


def test_it_does_not_combine_with_jobs(ckpt: Callable) -> None:
    done = ckpt("verify", "nothing", "--executor", "threads", "-j", "2")
    assert (done.code, done.out) == (2, "")
    assert "--executor does nothing with --jobs" in done.err


def test_without_the_extra_it_is_named(
    ckpt: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_bundle(str(tmp_path / "a-1"), {"a": np.zeros(9, np.float32)})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for name in ("dask", "dask://127.0.0.1:1"):
        done = ckpt("verify", tmp_path / "a-1", "--executor", name)
        assert (done.code, done.out) == (3, "")
        assert "pip install 'ckpt-tools[cluster]'" in done.err


def test_nothing_is_imported_for_it_that_is_not_requested() -> None:
    code = (
        "import sys; from ckpt_cli.cli.main import main\n"
        "try: main(['verify', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "print({'formats.store.work.executors', 'concurrent.futures.process'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.path.join(ROOT, "tests/data", GOLDENS["tf-object"])],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "set()"
