"""tensorflow/python/checkpoint/checkpoint_management_test.py."""

import os
import pathlib
import time
from unittest import mock

from .support import raises, told


def exists(*paths):
    """Return which of the paths have a checkpoint."""
    return [os.path.exists(path + ".index") for path in paths]


class Clock:
    """The time that TensorFlow and the runtime see."""

    def __init__(self, now):
        self.now = now
        self._patch = mock.patch.object(time, "time", side_effect=lambda: self.now)

    def __enter__(self):
        self._patch.start()
        return self

    def __exit__(self, *exception):
        self._patch.stop()


def rel_path(tf, directory):
    """Paths in the state file are relative to its directory."""
    tf.train.Checkpoint().save(os.path.join(directory, "model"))
    with open(os.path.join(directory, "checkpoint")) as file:
        assert file.readline() == 'model_checkpoint_path: "model-1"\n'


def fs_path(tf, directory):
    tf.train.Checkpoint().save(os.path.join(directory, "model"))
    state = tf.train.get_checkpoint_state(pathlib.Path(directory))
    assert state.model_checkpoint_path == os.path.join(directory, "model-1")


def update_checkpoint_state_save_relative_paths(tf, directory):
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(), directory, max_to_keep=2, checkpoint_name="model"
    )
    paths = [manager.save() for _ in range(2)]
    with open(os.path.join(directory, "checkpoint")) as file:
        assert [line for line in file if "model_checkpoint_path" in line] == [
            'model_checkpoint_path: "model-2"\n',
            'all_model_checkpoint_paths: "model-1"\n',
            'all_model_checkpoint_paths: "model-2"\n',
        ]
    state = tf.train.get_checkpoint_state(directory)
    assert state.model_checkpoint_path == paths[-1]
    assert list(state.all_model_checkpoint_paths) == paths


def check_point_state_fails_when_incomplete(tf, directory):
    with open(os.path.join(directory, "checkpoint"), "w"):
        pass
    raises(ValueError, tf.train.get_checkpoint_state, directory)


def check_point_completes_relative_paths(tf, directory):
    names = ["./model.ckpt-687529", "./model.ckpt-687500", "./model.ckpt-687529"]
    fields = ["model_checkpoint_path", "all_model_checkpoint_paths", "all_model_checkpoint_paths"]
    with open(os.path.join(directory, "checkpoint"), "w") as file:
        file.writelines(f'    {field}: "{name}"\n' for field, name in zip(fields, names, strict=True))
    state = tf.train.get_checkpoint_state(directory)
    assert state.model_checkpoint_path == os.path.join(directory, names[0])
    assert list(state.all_model_checkpoint_paths) == [os.path.join(directory, name) for name in names[1:]]


def deletion(tf, directory):
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), directory, max_to_keep=3)
    assert exists(*[manager.save() for _ in range(4)]) == [False, True, True, True]


def keep_all(tf, directory):
    checkpoint, make = tf.train.Checkpoint(), tf.train.CheckpointManager
    manager = make(checkpoint, directory, max_to_keep=None)
    paths = [manager.save() for _ in range(3)]
    assert exists(*paths) == [True] * 3
    assert (manager.latest_checkpoint, manager.checkpoints) == (paths[-1], paths)
    manager = make(checkpoint, directory, max_to_keep=None)
    paths.append(manager.save())
    assert manager.checkpoints == paths
    manager = make(checkpoint, directory, max_to_keep=3)
    assert manager.checkpoints == paths
    assert exists(*paths) == [True] * 4
    paths.append(manager.save())
    assert manager.checkpoints == paths[2:]
    assert exists(*paths) == [False, False, True, True, True]


def save_restore_state(tf, directory):
    names = [os.path.join(directory, f"ckpt-{number}") for number in range(7)]
    checkpoint, state = tf.train.Checkpoint(), lambda: tf.train.get_checkpoint_state(directory)

    def make(**how):
        return tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2, **how)

    with Clock(3.0) as clock:
        first = make()
        clock.now = 10000.0
        first.save()
        clock.now = 13610.0
        first.save()
        assert list(state().all_model_checkpoint_timestamps) == [10000.0, 13610.0]
        assert (first.checkpoints, first.latest_checkpoint) == (names[1:3], names[2])

        second = make(keep_checkpoint_every_n_hours=1.5)
        assert (second.checkpoints, second.latest_checkpoint) == (names[1:3], names[2])
        clock.now += 720.0
        second.save()
        assert exists(names[1], names[2]) == [True, True]
        assert second.checkpoints == names[2:4]
        assert state().last_preserved_timestamp == 10000.0
        clock.now += 1800.0
        fourth = clock.now
        second.save()
        assert exists(names[1], names[2]) == [True, False]
        assert second.checkpoints == names[3:5]
        clock.now += 1800.0
        second.save()
        assert second.checkpoints == names[4:6]
        assert state().last_preserved_timestamp == 10000.0

        third = make(keep_checkpoint_every_n_hours=1.5)
        assert third.latest_checkpoint == names[5]
        clock.now += 10.0
        third.save()
        assert state().last_preserved_timestamp == fourth
        assert exists(*names[1:]) == [True, False, False, True, True, True]
        assert third.checkpoints == names[5:]


def continue_from_unmanaged(tf, directory):
    prefix, checkpoint = os.path.join(directory, "unusual_prefix"), tf.train.Checkpoint()
    paths = [checkpoint.save(prefix) for _ in range(2)]
    checkpoint = tf.train.Checkpoint()
    manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
    checkpoint.restore(manager.latest_checkpoint)
    assert int(checkpoint.save_counter) == 2
    for kept in (1, 2, 2):
        paths.append(manager.save())
        assert manager.checkpoints == paths[-kept:]
    assert exists(*paths) == [True, True, False, True, True]


def clock_reset(tf, directory):
    checkpoint, make = tf.train.Checkpoint(), tf.train.CheckpointManager
    with Clock(10000.0) as clock:
        first = make(checkpoint, directory, max_to_keep=1, keep_checkpoint_every_n_hours=1.0)
        paths = [first.save()]
        for _ in range(2):
            clock.now += 3600.0
            paths.append(first.save())
        assert exists(*paths) == [False, True, True]
        assert first.checkpoints == paths[2:]
        assert tf.train.get_checkpoint_state(directory).last_preserved_timestamp == 13600.0
        clock.now = 5000.0
        with told() as messages:
            second = make(checkpoint, directory, max_to_keep=1)
        assert any("behind the last preserved checkpoint timestamp" in message for message in messages)
        assert exists(paths[1]) == [True]
        assert (second.latest_checkpoint, second.checkpoints) == (paths[2], [])
        for _ in range(2):
            clock.now += 10.0
            paths.append(second.save())
            assert exists(paths[1], paths[2]) == [True, True]
            assert second.checkpoints == paths[-1:]
        state = tf.train.get_checkpoint_state(directory)
        assert state.last_preserved_timestamp == 5000.0
        assert list(state.all_model_checkpoint_timestamps) == [5020.0]


def custom_numbering(tf, directory):
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step)
    manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
    for number in range(5):
        path = manager.save(checkpoint_number=step)
        assert path.endswith(f"-{2 * number}")
        step.assign_add(2)
    assert int(checkpoint.save_counter) == 5
    last = manager.save(checkpoint_number=32)
    assert last.endswith("-32")
    assert manager.latest_checkpoint == last == tf.train.latest_checkpoint(directory)
    assert list(tf.train.get_checkpoint_state(directory).all_model_checkpoint_paths) == [path, last]


def custom_checkpoint_prefix(tf, directory):
    checkpoint = tf.train.Checkpoint()
    for how, name in (({"checkpoint_name": "ckpt_name"}, "ckpt_name-5"), ({}, "ckpt-5")):
        manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2, **how)
        assert os.path.basename(manager.save(checkpoint_number=5)) == name


def restore_or_initialize(tf, directory):
    first = tf.train.Checkpoint(v=tf.Variable(2.0)).save(os.path.join(directory, "init"))
    v = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(v=v)
    manager = tf.train.CheckpointManager(
        checkpoint,
        os.path.join(directory, "ckpt"),
        max_to_keep=None,
        init_fn=lambda: checkpoint.restore(first),
    )
    assert manager.restore_or_initialize() is None
    assert float(v) == 2.0
    manager.save()
    assert manager.restore_or_initialize() is not None


def checkpoint_manager_f_spath_directory(tf, directory):
    where = pathlib.Path(directory)
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0.0))
    manager = tf.train.CheckpointManager(checkpoint, where, max_to_keep=2, checkpoint_name="ckpt_name")
    expected = str(where / "ckpt_name-1")
    assert manager.save() == expected
    assert manager.restore_or_initialize() == expected


def latest_checkpoint_f_spath_directory(tf, directory):
    where = pathlib.Path(directory)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(), where, max_to_keep=2, checkpoint_name="ckpt_name"
    )
    manager.save()
    assert tf.train.latest_checkpoint(where) == str(where / "ckpt_name-1")


def checkpoint_interval(tf, directory):
    step = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=tf.Variable(1.0)),
        directory,
        max_to_keep=None,
        step_counter=step,
        checkpoint_interval=2,
    )
    saved = []
    for grow in (0, 1, 1, 0, 1):
        step.assign_add(grow)
        path = manager.save(check_interval=True)
        saved.append(path is not None and exists(path) == [True])
    assert saved == [True, False, True, False, False]
    assert exists(manager.save(check_interval=False)) == [True]


def checkpoint_interval_with_restore(tf, directory):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    checkpoint.save(os.path.join(directory, "ckpt"))
    manager = tf.train.CheckpointManager(
        checkpoint, directory, max_to_keep=None, step_counter=tf.Variable(0), checkpoint_interval=2
    )
    assert manager.restore_or_initialize() is not None
    assert manager.save() is None
