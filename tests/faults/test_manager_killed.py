"""A training loop that is killed again and again, at random moments."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import numpy as np

import ckpt_cli.runtime as tf
from formats.find.directory import Directory
from formats.location import parse_location
from tests.counts import count
from tests.faults.operations import cli, debris

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

KILLS = 30
MOST_TO_KEEP = 3


def program() -> tuple[tf.train.Checkpoint, tf.train.CheckpointManager]:
    """Return a training program's objects: every value of its weights shows its step."""
    checkpoint = tf.train.Checkpoint(step=tf.Variable(0), weights=tf.Variable(tf.zeros([3000])))
    return checkpoint, tf.train.CheckpointManager(checkpoint, "run", max_to_keep=MOST_TO_KEEP)


def train_until_killed(log: int) -> None:
    """Train on from the latest checkpoint; write down each step when its save is done."""
    checkpoint, manager = program()
    manager.restore_or_initialize()
    while True:
        checkpoint.step.assign_add(1)
        checkpoint.weights.assign_add(tf.ones([3000]))
        manager.save()
        os.write(log, b"%d\n" % int(checkpoint.step))


def test_no_kill_loses_more_than_the_save_it_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    moments = random.Random(8)
    done = 0
    for _ in range(KILLS):
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        child = os.fork()
        if child == 0:
            train_until_killed(log)
        os.close(log)
        is_to_save = moments.random() < 0.9
        while is_to_save and not os.path.getsize("log"):
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the loop has ended by itself"
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        saved = (tmp_path / "log").read_text().split()
        done = int(saved[-1]) if saved else done

        latest = tf.train.latest_checkpoint("run")
        if latest is None:
            assert done == 0
            continue
        checkpoint, manager = program()
        checkpoint.restore(latest).assert_consumed()
        step = int(checkpoint.step)
        assert done <= step <= done + 1
        assert np.all(checkpoint.weights.numpy() == step)
        assert manager.latest_checkpoint == latest
        for member in Directory(parse_location("run")).members:
            assert member.error is None
        done = step
        count("kills of a training loop")
    assert done > KILLS / 2, "the loop hardly came to save"
    cli("state", "--fix", "run")()
    assert debris("run") == []
