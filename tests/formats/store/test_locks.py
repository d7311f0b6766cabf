"""Waiting for a directory's lock: who is waited for, and until when."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import CheckpointError
from formats.core import notices
from formats.location import parse_location
from formats.store.local import locks
from formats.store.local.staging import Staging, holding
from tests.cli.running import run_ckpt
from tests.support import data_path
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of notices sent during a test."""
    found: list[str] = []
    monkeypatch.setattr(notices, "_listener", found.append)
    return found


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the directory until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), "a word"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        yield process


def test_the_holder_of_a_lock_is_reported_after_a_second(
    holder: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holder.stdin is not None
    told: list[str] = []

    def listen(text: str) -> None:
        told.append(text)
        holder.stdin.close()  # it ends, and holds the lock no longer

    monkeypatch.setattr(notices, "_listener", listen)
    started = time.monotonic()
    with holding(parse_location(str(tmp_path))):
        assert time.monotonic() - started >= 1
    (text,) = told
    assert text.startswith(f"{tmp_path}: waiting up to 600 s for process {holder.pid} ({sys.executable} -c ")
    assert text.endswith("'a word'), which is changing files in this directory")


def test_a_short_wait_is_not_worth_a_word(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = 0.0, [os.open(tmp_path, os.O_RDONLY)]
    fcntl.flock(asked[0], fcntl.LOCK_EX)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > 0.9 and asked:
            os.close(asked.pop())

    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    with holding(parse_location(str(tmp_path))):
        assert 0.9 < now < 1
    assert told == []


def test_waiting_ends(
    holder: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", "0.3")
    started = time.monotonic()
    with pytest.raises(CheckpointError) as caught, holding(parse_location(str(tmp_path))):
        pass
    assert 0.3 <= time.monotonic() - started < 60  # and not the 600 of who says nothing
    assert f"{tmp_path}: process {holder.pid} ({sys.executable}" in str(caught.value)
    assert "is changing files in this directory, so ckpt gave up after 0.3 s" in str(caught.value)
    assert "CKPT_LOCK_TIMEOUT" in caught.value.hints[0]
    assert told == []


def test_the_command_says_it_and_exits_3(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    source = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-8")
    done = run_ckpt("convert", source, tmp_path / "c-1", CKPT_LOCK_TIMEOUT="1.2")
    assert done.code == 3
    note, error, hint = done.err.splitlines()
    assert note.startswith(f"note: {tmp_path}: waiting up to 1.2 s for process {holder.pid} (")
    assert error.startswith(f"ckpt: error: {tmp_path}: process {holder.pid} (")
    assert hint.startswith("hint: to wait longer")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", ["soon", "-1", "nan"])
def test_a_timeout_that_is_none_is_rejected_before_anything_is_written(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", value)
    expected = f"CKPT_LOCK_TIMEOUT: expected a number of seconds, found '{value}'"
    with pytest.raises(CheckpointError, match=expected):
        save(tmp_path / "ckpt-1", {"a": np.arange(3)})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("value", "seconds"), [("", 600), ("0", 0), ("2.5", 2.5), ("inf", float("inf"))])
def test_timeouts_are_seconds(value: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", value)
    assert locks.lock_timeout() == seconds


def test_a_system_that_does_not_tell_who_is_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", "0")
    with holding(parse_location(str(tmp_path))):
        with (
            pytest.raises(CheckpointError, match="another thread of this process is changing"),
            holding(parse_location(str(tmp_path))),
        ):
            pass
        monkeypatch.setattr(locks, "_holding_process", lambda _: None)
        with (
            pytest.raises(CheckpointError, match=": another process is changing"),
            holding(parse_location(str(tmp_path))),
        ):
            pass


def test_without_a_listener_nothing_is_printed() -> None:
    program = "from formats.core import notices; notices.status('waiting'); notices.warn('left')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_without_a_listener_notices_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        notices._log("waiting for 100% of it")
    assert caplog.record_tuples == [("formats", logging.WARNING, "waiting for 100% of it")]


def test_a_staging_directory_is_locked_while_it_lives(tmp_path: Path) -> None:
    staging = Staging(parse_location(str(tmp_path / "ckpt-1")))
    assert locks.is_locked(staging.staged)
    assert not locks.is_locked(str(tmp_path))
    staging.remove()
