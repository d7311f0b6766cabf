"""CheckpointManager, the state file, and reading by key."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats

DATA = pathlib.Path(__file__).parents[1] / "data"


def checkpoint():
    return tf.train.Checkpoint(v=tf.Variable(1.0))


def names(directory):
    return sorted(path.name for path in pathlib.Path(directory).iterdir())


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


class TestManager:
    def test_keeps_the_latest(self, tmp_path):
        manager = tf.train.CheckpointManager(checkpoint(), tmp_path / "run", max_to_keep=3)
        assert manager.latest_checkpoint is None
        assert manager.checkpoints == []
        paths = [manager.save() for _ in range(5)]
        assert paths[-1] == str(tmp_path / "run" / "ckpt-5")
        assert manager.latest_checkpoint == paths[-1] == tf.train.latest_checkpoint(tmp_path / "run")
        assert manager.checkpoints == paths[2:]
        files = [f"ckpt-{n}{suffix}" for n in (3, 4, 5) for suffix in (".data-00000-of-00001", ".index")]
        assert names(tmp_path / "run") == ["checkpoint", *files]
        assert int(manager.checkpoint.save_counter) == 5
        assert manager.directory == str(tmp_path / "run")

    def test_a_new_manager_continues(self, tmp_path):
        first = tf.train.CheckpointManager(checkpoint(), tmp_path, max_to_keep=2)
        for _ in range(2):
            first.save()
        again = checkpoint()
        manager = tf.train.CheckpointManager(again, tmp_path, max_to_keep=2)
        assert manager.checkpoints == first.checkpoints
        again.restore(manager.latest_checkpoint).assert_consumed()
        assert manager.save() == str(tmp_path / "ckpt-3")
        assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
        assert not (tmp_path / "ckpt-1.index").exists()

    def test_every_n_hours_one_is_kept_for_good(self, tmp_path, clock):
        manager = tf.train.CheckpointManager(checkpoint(), tmp_path, 1, keep_checkpoint_every_n_hours=1)
        for _ in range(6):
            clock[0] += 1800
            manager.save()
        kept = [name for name in names(tmp_path) if name.endswith(".index")]
        assert kept == ["ckpt-2.index", "ckpt-4.index", "ckpt-6.index"]
        assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-6"]
        # No manager deletes a preserved checkpoint.
        again = tf.train.CheckpointManager(checkpoint(), tmp_path, max_to_keep=1)
        assert again.checkpoints == manager.checkpoints

    def test_names_and_numbers(self, tmp_path):
        manager = tf.train.CheckpointManager(checkpoint(), tmp_path, None, checkpoint_name="model")
        assert manager.save(checkpoint_number=70) == str(tmp_path / "model-70")
        assert manager.save() == str(tmp_path / "model-2")
        assert manager.save(checkpoint_number=tf.Variable(70)) == str(tmp_path / "model-70")
        assert [os.path.basename(path) for path in manager.checkpoints] == ["model-2", "model-70"]

    def test_interval(self, tmp_path):
        step = tf.Variable(0)
        manager = tf.train.CheckpointManager(
            checkpoint(), tmp_path, 5, step_counter=step, checkpoint_interval=3
        )
        assert manager.checkpoint_interval == 3
        saved = []
        for _ in range(8):
            saved.append(manager.save() is not None)
            step.assign_add(1)
        assert saved == [True, False, False, True, False, False, True, False]
        assert manager.save(check_interval=False) is not None
        assert manager.save(check_interval=False) is None
        with pytest.raises(ValueError, match="`step_counter` should be passed"):
            tf.train.CheckpointManager(checkpoint(), tmp_path, 5, checkpoint_interval=3)

    def test_restore_or_initialize(self, tmp_path):
        called = []
        manager = tf.train.CheckpointManager(checkpoint(), tmp_path, 5, init_fn=lambda: called.append(1))
        assert manager.restore_or_initialize() is None
        assert called == [1]
        manager.checkpoint.v.assign(7.0)
        path = manager.save()
        again = checkpoint()
        assert tf.train.CheckpointManager(again, tmp_path, 5).restore_or_initialize() == path
        assert float(again.v) == 7.0

    def test_max_to_keep_is_positive_or_none(self, tmp_path):
        with pytest.raises(
            ValueError, match="Expected a positive integer or `None` for `max_to_keep`, got 0"
        ):
            tf.train.CheckpointManager(checkpoint(), tmp_path, max_to_keep=0)

    def test_nothing_is_deleted_before_the_new_one_is_there(self, tmp_path, monkeypatch):
        manager = tf.train.CheckpointManager(checkpoint(), tmp_path, max_to_keep=1)
        manager.save()

        def fails(*arguments, **options):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(formats, "create_checkpoint", fails)
        with pytest.raises(OSError, match="No space left"):
            manager.save()
        assert tf.train.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-1")
        tf.train.Checkpoint(v=tf.Variable(0.0)).restore(str(tmp_path / "ckpt-1")).assert_consumed()

    def test_a_state_file_that_names_deleted_checkpoints(self, tmp_path):
        manager = tf.train.CheckpointManager(checkpoint(), tmp_path, max_to_keep=3)
        for _ in range(2):
            manager.save()
        for path in tmp_path.glob("ckpt-2*"):
            path.unlink()
        again = tf.train.CheckpointManager(checkpoint(), tmp_path, max_to_keep=3)
        assert again.latest_checkpoint == str(tmp_path / "ckpt-2")
        with pytest.raises(tf.errors.NotFoundError, match="ckpt-2"):
            again.restore_or_initialize()
        assert tf.train.latest_checkpoint(tmp_path) is None


class TestStateFile:
    @pytest.mark.parametrize(
        ("folder", "latest"),
        [
            ("relative", "sub/model-7"), ("stale", None), ("two_prefixes", "beta-2"), ("no_state_file", None),
            ("spaces and.dots", "my model v1.2-3"), ("crash", "ckpt-1"),
        ],
    )  # fmt: skip
    def test_latest_checkpoint_is_tensorflows(self, folder, latest):
        directory = DATA / "state_files" / folder
        assert tf.train.latest_checkpoint(directory) == (latest and str(directory / latest))

    def test_a_moved_directory_is_found_next_to_its_state_file(self, caplog):
        """TensorFlow gives up here, and training would begin again silently."""
        directory = DATA / "state_files" / "absolute"
        assert tf.train.latest_checkpoint(directory) == str(directory / "model-2")
        assert "next to the state file" in caplog.text

    def test_saving_without_a_manager_forgets_the_others(self, tmp_path):
        root = checkpoint()
        for _ in range(2):
            path = root.save(tmp_path / "ckpt")
        text = 'model_checkpoint_path: "ckpt-2"\nall_model_checkpoint_paths: "ckpt-2"\n'
        assert (tmp_path / "checkpoint").read_text() == text
        state = tf.train.get_checkpoint_state(tmp_path)
        assert state.model_checkpoint_path == path
        assert state.all_model_checkpoint_paths == [path]

    def test_a_state_file_that_cannot_be_read_is_ignored(self, tmp_path, caplog):
        (tmp_path / "checkpoint").write_text("private_field: 1\n")
        assert tf.train.latest_checkpoint(tmp_path) is None
        assert "Checkpoint ignored" in caplog.text

    def test_relative_paths_are_as_they_were_given(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        manager = tf.train.CheckpointManager(checkpoint(), "./run", max_to_keep=1)
        assert manager.save() == "./run/ckpt-1"
        assert tf.train.latest_checkpoint("./run/") == "./run/ckpt-1"
        assert checkpoint().save("./alone") == "./alone-1"


class TestReader:
    PATH = DATA / "guide_adam_legacy" / "tf_ckpts"

    def test_maps_and_values(self):
        reader = tf.train.load_checkpoint(self.PATH)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        key = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
        assert shapes[key] == [1, 5]
        assert dtypes[key].name == "float32"
        assert dtypes[key] == tf.float32
        assert reader.get_tensor(key).shape == (1, 5)
        assert reader.has_tensor(key)
        assert not reader.has_tensor("net")
        step = reader.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE")
        assert (step, type(step)) == (100, np.int32)
        assert isinstance(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"), bytes)
        assert b"net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE (DT_FLOAT) [1,5]" in reader.debug_string()

    def test_list_and_load_variables(self):
        listed = dict(tf.train.list_variables(self.PATH))
        assert listed["net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE"] == [5]
        assert list(listed) == sorted(listed)
        assert tf.train.load_variable(self.PATH, "save_counter/.ATTRIBUTES/VARIABLE_VALUE") == 10

    def test_what_exists(self, tmp_path):
        assert tf.train.checkpoint_exists(self.PATH / "ckpt-10")
        assert not tf.train.checkpoint_exists(self.PATH / "ckpt-1")
        with pytest.raises(
            ValueError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"
        ):
            tf.train.load_checkpoint(tmp_path)


def test_v1_names():
    import ckpt_cli.runtime.compat.v1 as tf_compat

    assert tf_compat.train.NewCheckpointReader(str(TestReader.PATH / "ckpt-10")).has_tensor(
        "_CHECKPOINTABLE_OBJECT_GRAPH"
    )
    with tf_compat.train.global_step_scope():
        assert tf_compat.train.get_global_step() is None
        step = tf_compat.train.get_or_create_global_step()
        assert step.name == "global_step:0"
        assert step.dtype == tf.int64
        assert tf_compat.train.get_global_step() is step
        with pytest.raises(ValueError, match="already exists"):
            tf_compat.train.create_global_step()
    assert tf.compat.v1.train is tf_compat.train
    assert tf.group(tf.constant(1)) is None


def test_v1_remove_and_update(tmp_path):
    import ckpt_cli.runtime.compat.v1 as tf_compat

    path = checkpoint().write(tmp_path / "ckpt-9")
    tf_compat.train.update_checkpoint_state(str(tmp_path), path)
    assert tf.train.latest_checkpoint(tmp_path) == path
    tf_compat.train.remove_checkpoint(path)
    assert names(tmp_path) == ["checkpoint"]
