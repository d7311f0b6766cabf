"""`ckpt log --follow`: a line for each checkpoint that becomes complete."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ckpt_cli as api
from ckpt_cli.operations.runs.follow import Follower
from formats.location import local_location, parse_location, reachable
from formats.store.memory import MemoryStore
from tests.cli.conftest import ROOT
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts")


def save(path: Path, value: float) -> None:
    write_bundle(str(path), {"w": np.full(4, value, np.float32)})


def names(follower: Follower) -> list[str]:
    return [member.name for member in follower.poll().complete]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def follower(run: Path) -> Follower:
    place = local_location(str(run))
    return Follower(place, place / "checkpoint")


# What is complete -------------------------------------------------------------------


def test_a_bundle_is_complete_once_its_index_is_there(run: Path, follower: Follower) -> None:
    assert names(follower) == []
    save(run / "ckpt-1", 1)
    os.rename(run / "ckpt-1.index", run / "later")
    assert names(follower) == []
    os.rename(run / "later", run / "ckpt-1.index")
    assert names(follower) == ["ckpt-1"]
    assert names(follower) == []


def test_a_bundle_without_a_shard_is_not_complete(run: Path, follower: Follower) -> None:
    save(run / "ckpt-1", 1)
    os.rename(run / "ckpt-1.data-00000-of-00001", run / "later")
    assert names(follower) == names(follower) == []
    os.rename(run / "later", run / "ckpt-1.data-00000-of-00001")
    assert names(follower) == ["ckpt-1"]


def test_other_files_are_complete_when_they_stay_as_they_are(run: Path, follower: Follower) -> None:
    np.savez(run / "a-1.npz", w=np.zeros(3, np.float32))
    assert names(follower) == []
    np.savez(run / "a-1.npz", w=np.zeros(300, np.float32))
    assert names(follower) == []
    assert names(follower) == ["a-1.npz"]
    assert names(follower) == []


def test_half_a_file_that_stays_is_reported_once(run: Path, follower: Follower) -> None:
    np.savez(run / "a-1.npz", w=np.zeros(300, np.float32))
    data = (run / "a-1.npz").read_bytes()
    (run / "a-1.npz").write_bytes(data[:400])
    found = [follower.poll() for _ in range(4)]
    assert [one.complete for one in found] == [[]] * 4
    assert [len(one.warnings) for one in found] == [0, 1, 0, 0]
    (run / "a-1.npz").write_bytes(data)
    assert [names(follower), names(follower)] == [[], ["a-1.npz"]]


def test_a_name_that_is_saved_again_is_complete_again(run: Path, follower: Follower) -> None:
    save(run / "latest", 1)
    assert names(follower) == ["latest"]
    save(run / "latest", 2)
    assert names(follower) == ["latest"]


def test_deletion_and_rotation_of_checkpoints(run: Path, follower: Follower) -> None:
    for step in range(5):
        save(run / f"ckpt-{step}", step)
        assert names(follower) == [f"ckpt-{step}"]
        for path in run.glob(f"ckpt-{step - 2}.*"):
            path.unlink()
    shutil.rmtree(run)
    assert names(follower) == []
    run.mkdir()
    save(run / "ckpt-1", 1)
    assert names(follower) == ["ckpt-1"]


def test_those_that_come_together_are_reported_oldest_first(run: Path, follower: Follower) -> None:
    for step in (10, 9, 2):
        save(run / f"ckpt-{step}", step)
    assert names(follower) == ["ckpt-2", "ckpt-9", "ckpt-10"]


def test_those_of_the_start_wait_for_the_slowest_to_settle(run: Path, follower: Follower) -> None:
    """A bundle was reported at once, and an older file of numpy after it."""
    np.savez(run / "a-1.npz", w=np.zeros(3, np.float32))
    save(run / "ckpt-2", 2)
    assert names(follower) == []
    assert names(follower) == ["a-1.npz", "ckpt-2"]
    save(run / "ckpt-3", 3)
    assert names(follower) == ["ckpt-3"]


def test_half_a_checkpoint_of_the_start_is_reported_once(run: Path, follower: Follower) -> None:
    save(run / "ckpt-1", 1)
    save(run / "ckpt-2", 2)
    os.unlink(run / "ckpt-1.data-00000-of-00001")
    found = [follower.poll() for _ in range(3)]
    assert [[member.name for member in one.complete] for one in found] == [[], ["ckpt-2"], []]
    assert [len(one.warnings) for one in found] == [0, 1, 0]
    assert "ckpt-1.data-00000-of-00001: this shard is missing" in found[1].warnings[0]


def test_new_shards_below_an_old_index_are_not_complete(run: Path, follower: Follower) -> None:
    """A saver replaces shards first; until the index came, they were reported as damage."""
    save(run / "latest", 1)
    assert names(follower) == ["latest"]
    save(run / "next", 2)
    os.replace(run / "next.data-00000-of-00001", run / "latest.data-00000-of-00001")
    os.rename(run / "next.index", run / "later")
    assert [names(follower) for _ in range(3)] == [[], [], []]
    os.replace(run / "later", run / "latest.index")
    assert names(follower) == ["latest"]


def test_a_step_in_a_bucket_is_complete_once_it_is_committed(ckpt: Callable) -> None:
    store = MemoryStore()
    with reachable(store):
        assert (
            ckpt(
                "convert", os.path.join(GUIDE, "ckpt-10"), "mem://b/made/5", "--to", "orbax", "--weights-only"
            ).code
            == 0
        )
        files = {}
        for name in store.names:
            with store.open(f"mem://{name}" if not name.startswith("mem://") else name) as file:
                files[name.replace("/made/", "/run/")] = file.read(0, file.size)
        last = {name: data for name, data in files.items() if name.endswith("/commit_success.txt")}
        assert last
        place = parse_location("mem://b/run")
        follower = Follower(place, place / "checkpoint")
        for name in sorted(files.keys() - last.keys()):
            store.put(name, files[name])
            assert names(follower) == []
        assert [names(follower) for _ in range(3)] == [[], [], []]
        for name, data in last.items():
            store.put(name, data)
        assert [names(follower) for _ in range(2)] == [["5"], []]


def test_what_has_not_changed_is_not_opened(
    run: Path, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(run / "ckpt-1", 1)
    assert names(follower) == ["ckpt-1"]
    monkeypatch.setattr("ckpt_cli.operations.runs.follow.open_location", None)
    assert names(follower) == []


# The command ------------------------------------------------------------------------


class Following:
    """A `ckpt log --follow` that runs, and the lines it printed."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "ckpt_cli", "log", *words, "--follow", "--interval", "0.05"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": ROOT},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def following() -> Iterator[Callable[..., Following]]:
    begun: list[Following] = []

    def begin(*words: str) -> Following:
        begun.append(Following(*words))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()


def test_a_line_for_each_checkpoint_until_the_first_nan(
    run: Path, following: Callable[..., Following]
) -> None:
    save(run / "ckpt-1", 3)
    watch = following(str(run), "--fail-on", "nan")
    first = watch.line().rstrip("\n").split("\t")
    assert [first[0], first[1], *first[3:]] == ["ckpt-1", "1", "", "", "6.0", "0", ""]
    save(run / "ckpt-2", 4)
    assert watch.line().split("\t")[3:7] == ["1", "0", "8.0", "0"]
    save(run / "ckpt-3", np.nan)
    assert watch.line().split("\t")[6] == "4"
    assert watch.end() == (1, "", "")


def test_json_is_one_document_a_line(run: Path, following: Callable[..., Following]) -> None:
    watch = following(str(run), "--json")
    rows: list[dict[str, Any]] = []
    for step in (1, 2):
        save(run / f"ckpt-{step}", step)
        document = json.loads(watch.line())
        assert (document["schema"], document["directory"]) == (1, str(run))
        rows += document["checkpoints"]
    assert [(row["name"], row["step"], row["changed"], row["nan"]) for row in rows] == [
        ("ckpt-1", 1, None, 0),
        ("ckpt-2", 2, 1, 0),
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_quietly(
    run: Path, following: Callable[..., Following], number: int, code: int
) -> None:
    save(run / "ckpt-1", 1)
    watch = following(str(run))
    assert watch.line().startswith("ckpt-1\t")
    watch.process.send_signal(number)
    assert watch.end() == (code, "", "")


def test_a_reader_that_goes_away_ends_it(run: Path, following: Callable[..., Following]) -> None:
    save(run / "ckpt-1", 1)
    watch = following(str(run))
    assert watch.line()
    assert watch.process.stdout is not None
    watch.process.stdout.close()
    save(run / "ckpt-2", 1)
    watch.process.wait(timeout=60)
    assert watch.process.stderr is not None
    assert watch.process.stderr.read() == ""


def test_the_lines_on_a_terminal(tmp_path: Path, terminal: Callable) -> None:
    save(tmp_path / "ckpt-1", 1)
    save(tmp_path / "ckpt-2", np.nan)
    done = terminal("log", tmp_path, "--follow", "--fail-on", "nan", "--color", "never")
    heading, *lines = done.out.splitlines()
    assert done.code == 1
    assert heading.split() == ["NAME", "STEP", "MODIFIED", "CHANGED", "L2", "NAN", "LOSS"]
    assert [line.split()[0] for line in lines] == ["ckpt-1", "ckpt-2"]
    assert lines[1].endswith("NaN in w")
    assert heading.index("NAN") + 3 == lines[1].index(" 4 ") + 2


@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_terminal_keeps_the_columns_of_the_heading(
    tmp_path: Path, terminal: Callable, columns: int
) -> None:
    """A note about NaN has no room next to the numbers, so it has a line of its own."""
    name = "decoder/layers_11/attention/query/kernel/of/a/model"
    for step, value in ((1, 1.0), (2, np.nan)):
        np.savez(tmp_path / f"ckpt-{step}.npz", **{name: np.full(4, value)})
    done = terminal("log", tmp_path, "--follow", "--fail-on", "nan", "--color", "never", columns=columns)
    heading, *lines = done.out.splitlines()
    assert done.code == 1
    assert max(map(len, lines[:2])) <= columns
    at = heading.index("NAN") + 3
    assert [line[:at].split()[-1] for line in lines[:2]] == ["0", "4"]
    assert lines[2].strip().startswith("NaN in ")


def test_the_same_rows_as_without(ckpt: Callable, following: Callable[..., Following]) -> None:
    watch = following(GUIDE)
    assert [watch.line() for _ in range(3)] == ckpt("log", GUIDE).out.splitlines(keepends=True)


def test_options_that_need_each_other(ckpt: Callable, run: Path) -> None:
    assert ckpt("log", run, "--interval", "1").code == 2
    assert ckpt("log", run, "--follow", "--recursive").code == 2
    assert ckpt("log", run, "--follow", "--interval", "0").code == 2
    assert ckpt("log", run / "nothing", "--follow").code == 3
    assert ckpt("log", run, "--fail-on", "zeros").code == 2


def test_fail_on_without_following(run: Path, ckpt: Callable) -> None:
    save(run / "ckpt-1", np.inf)
    assert ckpt("log", run, "--fail-on", "nan").code == 0
    assert ckpt("log", run, "--fail-on", "nan,inf").code == 1


def test_python_yields_a_run_of_one_checkpoint(run: Path) -> None:
    save(run / "ckpt-1", 1)
    found = api.log(run, follow=True, interval=0.02)
    assert [row.name for row in next(found)] == ["ckpt-1"]
    began = time.monotonic()
    threading.Timer(0.1, save, (run / "ckpt-2", 2)).start()
    assert [(row.name, row.changed) for row in next(found)] == [("ckpt-2", 1)]
    assert time.monotonic() - began > 0.05
    found.close()
    with pytest.raises(ValueError, match="interval"):
        api.log(run, follow=True, interval=-1)
