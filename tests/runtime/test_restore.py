"""Restoring: matched values, delayed values, precedence, and messages about the rest."""

from __future__ import annotations

import gc
import json
import logging
import pathlib
import re
import shutil

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.runtime.guide import toy_dataset
from formats.errors import ChecksumError

DATA = pathlib.Path(__file__).parents[1] / "data"
GUIDE = DATA / "guide_adam_legacy" / "tf_ckpts"
MESSAGES = json.loads((DATA / "restore_messages" / "facts.json").read_text())["messages"]
BASE = str(DATA / "restore_messages" / "base-1")


def var(*shape, value=0.0, **options):
    return tf.Variable(tf.fill(shape, value), **options)


def save(tmp_path, name="ckpt", **attributes):
    return tf.train.Checkpoint(**attributes).save(tmp_path / name)


class TestMatching:
    def test_partial_restore_as_in_the_guide(self):
        expected = json.loads((GUIDE.parent / "facts.json").read_text())["partial_restore"]
        to_restore = tf.Variable(tf.zeros([5]))
        fake_layer = tf.train.Checkpoint(bias=to_restore)
        root = tf.train.Checkpoint(net=tf.train.Checkpoint(l1=fake_layer))
        status = root.restore(tf.train.latest_checkpoint(GUIDE))
        np.testing.assert_array_equal(to_restore.numpy(), np.float32(expected["bias"]))
        status.assert_existing_objects_matched()
        with pytest.raises(
            AssertionError, match=r"Unresolved object in checkpoint \(root\)\.iterator: attributes \{"
        ):
            status.assert_consumed()
        delayed = tf.Variable(tf.zeros([1, 5]))
        fake_layer.kernel = delayed
        np.testing.assert_array_equal(delayed.numpy(), np.float32(expected["kernel_after"]))
        status.expect_partial()

    def test_layers_are_restored_when_they_are_built(self, tmp_path):
        layer = tf.keras.layers.Dense(3)
        layer(tf.ones([1, 2]))
        path = save(tmp_path, layer=layer)
        again = tf.keras.layers.Dense(3)
        status = tf.train.Checkpoint(layer=again).restore(path)
        status.assert_existing_objects_matched()
        with pytest.raises(AssertionError, match="Unresolved object"):
            status.assert_consumed()
        again(tf.ones([1, 2]))
        status.assert_consumed()
        np.testing.assert_array_equal(again.kernel.numpy(), layer.kernel.numpy())

    def test_elements_are_restored_when_they_are_added(self, tmp_path):
        path = save(tmp_path, l=[var(value=1.0), var(value=2.0)], m={"a": var(value=3.0)})
        root = tf.train.Checkpoint()
        root.restore(path)
        root.l, root.m = [], {}
        late = [var(), var(), var()]
        root.l.append(late[0])
        root.m["a"] = late[1]
        root.l.append(late[2])
        assert [float(v) for v in late] == [1.0, 3.0, 2.0]

    def test_slots_wait_for_variable_and_optimizer(self):
        path = tf.train.latest_checkpoint(GUIDE)
        first = tf.train.load_variable(
            path, "net/l1/bias/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"
        )
        for optimizer_first in (False, True):
            bias, optimizer = var(5), tf.keras.optimizers.legacy.Adam(0.1)
            root = tf.train.Checkpoint()
            root.restore(path).expect_partial()
            if optimizer_first:
                root.optimizer = optimizer
            root.net = tf.train.Checkpoint(l1=tf.train.Checkpoint(bias=bias))
            root.optimizer = optimizer
            np.testing.assert_array_equal(optimizer.get_slot(bias, "m").numpy(), first)

    def test_a_plain_object_in_the_optimizers_place(self):
        root = tf.train.Checkpoint(
            net=tf.train.Checkpoint(l1=tf.train.Checkpoint(bias=var(5))),
            optimizer=tf.train.Checkpoint(iter=tf.Variable(0, dtype="int64")),
        )
        root.restore(tf.train.latest_checkpoint(GUIDE)).expect_partial()
        assert int(root.optimizer.iter) == 99

    def test_a_legacy_checkpoint_into_a_newer_optimizer(self):
        bias = var(5)
        root = tf.train.Checkpoint(
            net=tf.train.Checkpoint(l1=tf.train.Checkpoint(bias=bias)), optimizer=tf.keras.optimizers.Adam()
        )
        with pytest.raises(
            ValueError, match="from a legacy Keras optimizer into a v2.11+ Optimizer".replace("+", r"\+")
        ):
            root.restore(tf.train.latest_checkpoint(GUIDE))
        assert bias.numpy().tolist() == [0.0] * 5

    def test_shared_objects_and_inconsistent_ones(self, tmp_path, caplog):
        shared = var(value=7.0)
        path = save(tmp_path, a=tf.train.Checkpoint(v=shared), b=tf.train.Checkpoint(v=shared))
        one, two = var(), var()
        root = tf.train.Checkpoint(a=tf.train.Checkpoint(), b=tf.train.Checkpoint())
        status = root.restore(path)
        root.a.v = one
        assert float(one) == 7.0
        root.b.v = two
        assert float(two) == 0.0
        assert "Inconsistent references when loading the checkpoint" in caplog.text
        with pytest.raises(AssertionError, match="Found 1 Python objects that were not bound"):
            status.assert_existing_objects_matched()

    def test_root_and_keywords(self, tmp_path):
        module = tf.Module()
        module.v = var(value=1.0)
        path = tf.train.Checkpoint(module, extra=var(value=2.0)).save(tmp_path / "ckpt")
        again, extra = tf.Module(), var()
        again.v = var()
        tf.train.Checkpoint(again, extra=extra).restore(path).assert_consumed()
        assert (float(again.v), float(extra)) == (1.0, 2.0)
        assert tf.train.Checkpoint(root=again).restore(path).assert_existing_objects_matched()

    def test_iterators_of_tensorflow_continue(self):
        iterator = iter(toy_dataset())
        next(iterator)
        path = tf.train.latest_checkpoint(GUIDE)
        status = tf.train.Checkpoint(iterator=iterator).restore(path)
        # Ten rows in batches of two, again and again; the step was 1 before the first.
        drawn = int(tf.train.load_variable(path, "step/.ATTRIBUTES/VARIABLE_VALUE")) - 1
        assert next(iterator)["x"].numpy().tolist() == [[2 * drawn % 10], [2 * drawn % 10 + 1]]
        status.expect_partial()


class TestSeveralRestores:
    def test_the_newest_wins(self, tmp_path):
        one, two = save(tmp_path, "one", v=var(value=1.0)), save(tmp_path, "two", v=var(value=2.0))
        root = tf.train.Checkpoint()
        root.restore(one)
        root.restore(two)
        root.v = var()
        assert float(root.v) == 2.0
        root.restore(one)
        assert float(root.v) == 1.0

    def test_a_later_restore_wins_over_one_that_was_deferred(self, tmp_path):
        one = save(tmp_path, "one", a=tf.train.Checkpoint(v=var(value=1.0)))
        two = tf.train.Checkpoint(v=var(value=2.0)).write(tmp_path / "two")
        v = var()
        root, inner = tf.train.Checkpoint(), tf.train.Checkpoint(v=v)
        root.restore(one)  # waits for `a`
        inner.read(two)
        assert float(v) == 2.0
        root.a = inner  # the older restore arrives now, and is too late
        assert float(v) == 2.0

    def test_a_value_is_restored_over_a_change(self, tmp_path):
        root = tf.train.Checkpoint(v=var(value=1.0))
        path = root.save(tmp_path / "ckpt")
        root.v.assign(5.0)
        root.restore(path).assert_consumed()
        assert float(root.v) == 1.0


class TestStatus:
    def test_messages_are_tensorflows(self):
        def w(*shape, dtype=tf.float32):
            return tf.Variable(tf.zeros(shape, dtype))

        def restored(**attributes):
            return tf.train.Checkpoint(**attributes).restore(BASE).expect_partial()

        attempts = {
            "missing_object assert_consumed": lambda: restored(w=w(2, 3)).assert_consumed(),
            "extra_object assert_consumed": lambda: restored(w=w(2, 3), b=w(3), c=w()).assert_consumed(),
            "extra_object assert_existing_objects_matched": lambda: restored(
                w=w(2, 3), c=w()
            ).assert_existing_objects_matched(),
            "nothing matches assert_nontrivial_match": lambda: restored(zzz=w()).assert_nontrivial_match(),
            "wrong_shape": lambda: restored(w=w(3, 2)),
            "wrong_dtype": lambda: restored(w=w(2, 3, dtype=tf.float64)),
            "no such prefix": lambda: tf.train.load_checkpoint("./nothing_here"),
            "no such key": lambda: tf.train.load_variable(BASE, "not_a_key"),
            "folder without a checkpoint": lambda: tf.train.load_checkpoint("./empty"),
        }
        assert set(attempts) == set(MESSAGES)
        for name, attempt in attempts.items():
            expected = MESSAGES[name]
            if expected == "ok":
                attempt()
                continue
            with pytest.raises((AssertionError, ValueError, tf.errors.OpError)) as caught:
                attempt()
            assert type(caught.value).__name__ == expected["type"], name
            text = re.sub(r"^\{\{function_node .*?\}\} ", "", expected["text"])
            assert str(caught.value).startswith(text), name

    def test_nothing_to_restore(self):
        status = tf.train.Checkpoint(v=var()).restore(None)
        for check in (
            status.assert_consumed,
            status.assert_existing_objects_matched,
            status.assert_nontrivial_match,
        ):
            with pytest.raises(AssertionError, match=r"No checkpoint specified \(save_path=None\)"):
                check()
        assert status.expect_partial() is status
        status.initialize_or_restore()

    def test_nothing_but_the_root(self, tmp_path):
        path = tf.train.Checkpoint(a=var()).write(tmp_path / "ckpt")
        with pytest.raises(AssertionError, match="Nothing except the root object matched"):
            tf.train.Checkpoint(b=var()).read(path).expect_partial().assert_nontrivial_match()
        with pytest.raises(AssertionError, match=r"Nothing to load\. No dependencies"):
            tf.train.Checkpoint().read(path).expect_partial().assert_nontrivial_match()

    def test_write_and_read_count_nothing(self, tmp_path):
        path = tf.train.Checkpoint(v=var(value=3.0)).write(tmp_path / "ckpt")
        assert path == str(tmp_path / "ckpt")
        tf.train.Checkpoint(v=var()).read(path).assert_consumed()
        with pytest.raises(AssertionError, match="save_counter:0"):
            tf.train.Checkpoint(v=var()).restore(path).assert_consumed()

    def test_ten_unmatched_objects_are_shown(self, tmp_path):
        path = save(tmp_path, v=var())
        status = tf.train.Checkpoint(many=[var() for _ in range(12)]).restore(path).expect_partial()
        with pytest.raises(
            AssertionError, match=r"Found 12 Python objects.*Showing 10 of 12 unmatched objects"
        ):
            status.assert_existing_objects_matched()

    def test_layers_not_built_and_empty_containers_do_not_fail(self, tmp_path):
        path = save(tmp_path, v=var())
        root = tf.train.Checkpoint(v=var(), layer=tf.keras.layers.Dense(2), empty=[], nothing={})
        root.restore(path).assert_consumed()


class TestWarnings:
    def warned(self, caplog):
        gc.collect()
        return [record.getMessage() for record in caplog.records]

    def test_values_never_requested(self, caplog):
        path = tf.train.latest_checkpoint(GUIDE)
        root = tf.train.Checkpoint(step=tf.Variable(0))
        root.restore(path)
        del root
        said = self.warned(caplog)
        assert said[0].startswith("Detecting that an object or model or tf.train.Checkpoint is being deleted")
        missing = "Value in checkpoint could not be found in the restored object: (root)"
        assert f"{missing}.net.l1.kernel" in said
        assert f"{missing}.optimizer's state 'm' for (root).net.l1.kernel" in said
        assert f"{missing}.step" not in said

    def test_nothing_is_reported_where_a_part_was_expected(self, caplog):
        root = tf.train.Checkpoint(step=tf.Variable(0))
        root.restore(tf.train.latest_checkpoint(GUIDE)).expect_partial()
        del root
        assert self.warned(caplog) == []

    def test_nothing_is_reported_while_something_waits(self, caplog):
        root = tf.train.Checkpoint()
        root.restore(tf.train.latest_checkpoint(GUIDE))
        assert self.warned(caplog) == []
        del root
        assert self.warned(caplog) != []


class TestNothingIsHalfRestored:
    def test_a_shape_that_does_not_fit(self):
        w, b = tf.Variable(tf.fill([3, 2], 8.0)), tf.Variable(tf.fill([3], 9.0))
        message = r"incompatible tensor with shape \(2, 3\) when .* restore variable with shape \(3, 2\)"
        root = tf.train.Checkpoint(b=b, w=w)
        with pytest.raises(ValueError, match=message):
            root.restore(BASE)
        assert b.numpy().tolist() == [9.0] * 3
        assert w.numpy().tolist() == [[8.0, 8.0]] * 3
        root.w = tf.Variable(tf.zeros([2, 3]))
        root.restore(BASE).assert_consumed()
        assert b.numpy().tolist() == [0.0] * 3

    def test_a_value_that_is_damaged(self, tmp_path):
        path = save(tmp_path, a=var(3, value=1.0), b=var(3, value=2.0))
        shard = pathlib.Path(path + ".data-00000-of-00001")
        data = bytearray(shard.read_bytes())
        data[data.index(np.float32(2.0).tobytes())] ^= 1
        shard.write_bytes(data)
        root = tf.train.Checkpoint(a=var(3, value=8.0), b=var(3, value=9.0))
        with pytest.raises(ChecksumError):
            root.restore(path)
        assert root.a.numpy().tolist() == [8.0] * 3

    def test_a_value_that_is_not_in_the_index(self, tmp_path):
        """The graph names a key that no one has."""
        from formats.model.object_graph import ObjectGraph
        from formats.wire.messages import SerializedTensor, TrackableObject, TrackableObjectGraph

        root = TrackableObject()
        attribute = SerializedTensor(name="VARIABLE_VALUE", checkpoint_key="gone/.ATTRIBUTES/VARIABLE_VALUE")
        root.children = tf_children(("v", 1))
        graph = ObjectGraph(TrackableObjectGraph(nodes=[root, TrackableObject(attributes=[attribute])]))
        import formats

        path = str(tmp_path / "ckpt")
        with formats.create_checkpoint(path, format="tf-object", specs=[], object_graph=graph):
            pass
        with pytest.raises(tf.errors.NotFoundError, match=r"Key gone/\.ATTRIBUTES/VARIABLE_VALUE not found"):
            tf.train.Checkpoint(v=var()).read(path)

    def test_missing_files(self, tmp_path):
        path = save(tmp_path, v=var())
        message = (
            "Error when restoring from checkpoint or SavedModel at .*You may be missing the checkpoint suffix"
        )
        with pytest.raises(tf.errors.NotFoundError, match=re.compile(message, re.DOTALL)):
            tf.train.Checkpoint(v=var()).restore(path[:-2])
        pathlib.Path(path + ".index").unlink()
        with pytest.raises(tf.errors.NotFoundError):
            tf.train.Checkpoint(v=var()).restore(path)
        with pytest.raises(tf.errors.NotFoundError):
            tf.train.Checkpoint(v=var()).restore(tmp_path)

    def test_a_shard_that_is_gone(self, tmp_path):
        path = save(tmp_path, v=var())
        pathlib.Path(path + ".data-00000-of-00001").unlink()
        root = tf.train.Checkpoint(v=var(value=4.0))
        with pytest.raises(FileNotFoundError):
            root.restore(path)
        assert float(root.v) == 4.0

    def test_a_node_that_points_nowhere(self, tmp_path):
        import formats
        from formats.model.object_graph import ObjectGraph
        from formats.wire.messages import TrackableObject, TrackableObjectGraph

        root = TrackableObject(children=tf_children(("v", 7), ("self", 0)))
        graph = ObjectGraph(TrackableObjectGraph(nodes=[root]))
        path = str(tmp_path / "ckpt")
        with formats.create_checkpoint(path, format="tf-object", specs=[], object_graph=graph):
            pass
        status = tf.train.Checkpoint(v=var()).read(path)
        with pytest.raises(AssertionError, match="not bound to checkpointed values"):
            status.assert_existing_objects_matched()


def tf_children(*edges):
    from formats.wire.messages import ObjectReference

    return [ObjectReference(local_name=name, node_id=node) for name, node in edges]


class TestNameBased:
    PATH = str(DATA / "name_based" / "adam" / "model.ckpt-5")

    def test_values_come_by_full_name(self, caplog):
        kernel = tf.Variable(tf.zeros([4, 3]), name="model/dense_1/kernel")
        root = tf.train.Checkpoint(
            anything=kernel, nested=[tf.Variable(0, dtype="int64", name="global_step")]
        )
        status = root.restore(self.PATH)
        assert "Restoring a name-based tf.train.Saver checkpoint" in caplog.text
        np.testing.assert_array_equal(
            kernel.numpy(), tf.train.load_variable(self.PATH, "model/dense_1/kernel")
        )
        assert int(root.nested[0]) == 5
        status.assert_consumed().assert_existing_objects_matched()

    def test_a_missing_name_shows_in_the_assertions(self):
        status = tf.train.Checkpoint(v=tf.Variable(0.0, name="nope")).restore(self.PATH)
        with pytest.raises(
            AssertionError, match=r"Some objects had attributes which were not restored: \n.*\['nope'\]"
        ):
            status.assert_consumed()

    def test_other_formats_have_names_as_well(self, tmp_path):
        np.savez(
            tmp_path / "w.npz",
            **{"enc/kernel": np.ones((2, 2), "f4"), "_CHECKPOINTABLE_OBJECT_GRAPH": np.ones(1)},
        )
        root = tf.train.Checkpoint(k=tf.Variable(tf.zeros([2, 2]), name="enc/kernel"))
        root.restore(tmp_path / "w.npz").assert_consumed()
        assert root.k.numpy().sum() == 4

    def test_a_variable_that_comes_later(self):
        root = tf.train.Checkpoint()
        root.restore(self.PATH)
        root.later = tf.Variable(0, dtype="int64", name="global_step")
        assert int(root.later) == 5

    def test_a_v1_file_and_a_partitioned_variable(self):
        v1 = str(DATA / "v1_format" / "plain" / "model.ckpt-1")
        root = tf.train.Checkpoint(b=tf.Variable(tf.ones([4]), name="net/b"))
        root.restore(v1).assert_consumed()
        assert root.b.numpy().tolist() == [0.0] * 4
        path = str(DATA / "name_based" / "partitioned" / "model.ckpt-4")
        root = tf.train.Checkpoint(w=tf.Variable(tf.ones([4, 7]), name="model/dense_1/kernel"))
        root.restore(path).assert_consumed()
        np.testing.assert_array_equal(root.w.numpy(), tf.train.load_variable(path, "model/dense_1/kernel"))

    def test_a_shape_that_does_not_fit(self):
        with pytest.raises(ValueError, match="Received incompatible tensor with shape"):
            tf.train.Checkpoint(v=tf.Variable(0.0, name="model/dense_1/kernel")).restore(self.PATH)


def test_a_saved_model_directory(tmp_path):
    shutil.copytree(DATA / "saved_model" / "module", tmp_path / "module")
    root = tf.Module()
    root.w = tf.Variable(tf.zeros([3, 2]))
    tf.train.Checkpoint(root).restore(str(tmp_path / "module")).expect_partial()
    assert np.abs(root.w.numpy()).sum() > 0


def test_saving_over_a_checkpoint_keeps_it_whole(tmp_path):
    checkpoint = tf.train.Checkpoint(v=var(value=1.0))
    path = checkpoint.write(tmp_path / "ckpt")
    checkpoint.v.assign(2.0)
    assert checkpoint.write(tmp_path / "ckpt") == path
    assert tf.train.load_variable(path, "v/.ATTRIBUTES/VARIABLE_VALUE") == 2.0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ckpt.data-00000-of-00001", "ckpt.index"]


def test_write_callbacks(tmp_path):
    seen = []
    options = tf.train.CheckpointOptions(
        experimental_write_callbacks=[seen.append, lambda: seen.append("done")]
    )
    path = tf.train.Checkpoint(v=var()).write(tmp_path / "ckpt", options)
    assert seen == [path, "done"]


def test_logging_is_quiet_by_default(caplog, tmp_path):
    with caplog.at_level(logging.DEBUG):
        path = save(tmp_path, v=var())
        tf.train.Checkpoint(v=var()).restore(path).assert_consumed()
    assert caplog.records == []
