"""tf.compat.v1.train.Saver, and the optimizers and collections of TensorFlow 1 that go with it."""

from __future__ import annotations

import os

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.runtime import graphs
from ckpt_cli.runtime.compat import v1
from ckpt_cli.runtime.estimator import saver as saver_module
from tests.runtime.flowers import DATA


def variables():
    return [
        tf.Variable(np.float32([[1, 2], [3, 4]]), name="w"),
        tf.Variable(7, dtype=tf.int64, name="global_step"),
    ]


def stored(prefix):
    with formats.open_checkpoint(str(prefix)) as reader:
        return reader.format.name, {key: tensor.read().tolist() for key, tensor in reader.items()}


def names_in(directory):
    return sorted(name.removesuffix(".index") for name in os.listdir(directory) if name.endswith(".index"))


class TestSaver:
    def test_there_and_back(self, tmp_path):
        weight, step = variables()
        saver = v1.train.Saver([weight, step])
        path = saver.save(None, str(tmp_path / "model.ckpt"), global_step=step)
        assert path == str(tmp_path / "model.ckpt-7")
        assert stored(path) == ("tf-name", {"global_step": 7, "w": [[1.0, 2.0], [3.0, 4.0]]})
        assert saver.last_checkpoints == [path]
        assert tf.train.latest_checkpoint(tmp_path) == path
        weight.assign(weight * 2)
        saver.restore(None, path)
        np.testing.assert_array_equal(weight, [[1, 2], [3, 4]])

    def test_other_names(self, tmp_path):
        weight, _ = variables()
        saver = v1.train.Saver({"old/name": weight})
        path = saver.save(None, tmp_path / "model.ckpt")
        assert stored(path)[1] == {"old/name": [[1.0, 2.0], [3.0, 4.0]]}

    def test_a_saver_saves_what_there_was_when_it_was_built(self, tmp_path):
        with graphs.Graph().opened():
            tf.Variable(1.0, name="early")
            built, deferred = v1.train.Saver(), v1.train.Saver(defer_build=True)
            tf.Variable(2.0, name="late")
            assert stored(built.save(None, tmp_path / "a"))[1] == {"early": 1.0}
            assert stored(deferred.save(None, tmp_path / "b"))[1] == {"early": 1.0, "late": 2.0}

    def test_some_are_kept(self, tmp_path):
        saver = v1.train.Saver(variables(), max_to_keep=2)
        for step in (1, 2, 3, 2):
            saver.save(None, str(tmp_path / "model.ckpt"), global_step=step)
        assert names_in(tmp_path) == ["model.ckpt-2", "model.ckpt-3"]
        assert [os.path.basename(path) for path in saver.last_checkpoints] == ["model.ckpt-3", "model.ckpt-2"]
        later = v1.train.Saver(variables(), max_to_keep=2)
        later.recover_last_checkpoints([*saver.last_checkpoints, str(tmp_path / "model.ckpt-1")])
        later.save(None, str(tmp_path / "model.ckpt"), global_step=4)
        assert names_in(tmp_path) == ["model.ckpt-2", "model.ckpt-4"]

    def test_one_every_so_many_hours_stays(self, tmp_path, monkeypatch):
        clock = [0.0]
        monkeypatch.setattr(saver_module.time, "time", lambda: clock[0])
        saver = v1.train.Saver(variables(), max_to_keep=1, keep_checkpoint_every_n_hours=2)
        for step in range(7):
            saver.save(None, str(tmp_path / "model.ckpt"), global_step=step)
            clock[0] += 3600.0
        assert names_in(tmp_path) == ["model.ckpt-3", "model.ckpt-5", "model.ckpt-6"]

    def test_what_does_not_fit_changes_nothing(self, tmp_path):
        weight, step = variables()
        path = v1.train.Saver([weight, step]).save(None, str(tmp_path / "model.ckpt"))
        other = [
            tf.Variable([1.0], name="w"),
            tf.Variable(1.0, name="global_step"),
            tf.Variable(0.0, name="a"),
        ]
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            v1.train.Saver(other).restore(None, path)
        message = str(caught.value)
        assert (
            "w; shape in shape_and_slice spec [1] does not match the shape stored in checkpoint: [2,2]"
            in message
        )
        assert "global_step; expected dtype float does not equal original dtype int64" in message
        assert "Key a not found in checkpoint" in message
        assert [float(one.numpy().sum()) for one in other] == [1.0, 1.0, 0.0]
        with pytest.raises(tf.errors.NotFoundError, match="Key a not found in checkpoint"):
            v1.train.Saver([weight, other[2]]).restore(None, path)
        with pytest.raises(ValueError, match="The passed save_path is not a valid checkpoint"):
            v1.train.Saver([weight]).restore(None, str(tmp_path / "none"))

    def test_long_lists_are_cut(self, tmp_path):
        path = v1.train.Saver(variables()).save(None, str(tmp_path / "model.ckpt"))
        many = [tf.Variable(0.0, name=f"v{number}") for number in range(9)]
        with pytest.raises(tf.errors.NotFoundError, match=r"Key v4 not found in checkpoint\nand 4 more"):
            v1.train.Saver(many).restore(None, path)

    def test_arguments(self):
        with pytest.raises(RuntimeError, match="`var_list` must specify"):
            v1.train.Saver()
        with pytest.raises(TypeError, match="not a Variable"):
            v1.train.Saver({"w": 1.0}).save(None, "w")
        with pytest.raises(NotImplementedError, match="filename"):
            v1.train.Saver(variables(), filename="w")

    def test_partitioned_variables_of_tensorflow_are_read_whole(self):
        """Each of two parts has its slice in the file; one variable of the full shape takes both."""
        prefix = DATA / "name_based" / "partitioned" / "model.ckpt-4"
        with formats.open_checkpoint(str(prefix)) as reader:
            expected = {key: tensor.read() for key, tensor in reader.items()}
        found = {key: tf.Variable(np.zeros_like(value), name=key) for key, value in expected.items()}
        v1.train.Saver(found).restore(None, str(prefix))
        for key, value in expected.items():
            np.testing.assert_array_equal(found[key], value)


def minimized(optimizer, steps=3, infix=""):
    """Return the variables that training a small graph leaves, by name."""
    with graphs.Graph().opened() as graph:
        step = v1.train.create_global_step()
        weight = tf.Variable(np.float32([[1, -2, 3], [4, 5, -6]]), name="w")
        optimizer.slot_infix = infix
        for _ in range(steps):
            with tf.GradientTape(persistent=True) as tape:
                graph.tape = tape
                loss = tf.reduce_sum(weight * weight)
            optimizer.minimize(loss, global_step=step)
        assert v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES) == [weight] == v1.trainable_variables()
        assert int(step) == steps
        return {variable._full_name(): variable.numpy() for variable in v1.global_variables()}


class TestOptimizers:
    @pytest.mark.parametrize(
        ("fixture", "optimizer"),
        [
            ("adam", v1.train.AdamOptimizer(0.1)),
            ("adam_named", v1.train.AdamOptimizer(0.1, name="Foo")),
            ("adagrad", v1.train.AdagradOptimizer(0.1)),
            ("momentum", v1.train.MomentumOptimizer(0.1, 0.9)),
            ("gradient_descent", v1.train.GradientDescentOptimizer(0.1)),
        ],
    )
    def test_names_are_tensorflows(self, fixture, optimizer):
        listed = tf.train.list_variables(DATA / "slot_names" / "tf1" / fixture / "model.ckpt-3")
        expected = {name for name, _ in listed if not name.startswith("net/")}
        assert minimized(optimizer).keys() == expected

    def test_names_of_slots_in_canned_estimators(self):
        assert "w/t_0/Adagrad" in minimized(v1.train.AdagradOptimizer(0.1), infix="t_0/")

    def test_steps(self):
        """One or two steps by hand, on the gradient 2w."""
        w = np.float32([[1, -2, 3], [4, 5, -6]])
        close = {"rtol": 1e-5}
        once = minimized(v1.train.GradientDescentOptimizer(0.1), 1)
        np.testing.assert_allclose(once["w"], w * 0.8, **close)
        twice = minimized(v1.train.MomentumOptimizer(0.1, 0.9), 2)
        first = w * 0.8
        np.testing.assert_allclose(twice["w"], first - 0.1 * (0.9 * 2 * w + 2 * first), **close)
        ahead = minimized(v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), 1)
        np.testing.assert_allclose(ahead["w"], w - 0.1 * (2 * w + 0.9 * 2 * w), **close)
        adagrad = minimized(v1.train.AdagradOptimizer(0.1), 1)
        np.testing.assert_allclose(adagrad["w/Adagrad"], 0.1 + 4 * w * w, **close)
        np.testing.assert_allclose(adagrad["w"], w - 0.2 * w / np.sqrt(0.1 + 4 * w * w), **close)
        adam = minimized(v1.train.AdamOptimizer(0.1), 1)
        np.testing.assert_allclose(adam["w"], w - 0.1 * np.sign(w), **close)
        np.testing.assert_allclose(adam["w/Adam"], 0.2 * w, **close)
        assert adam["beta1_power"] == pytest.approx(0.81)

    def test_without_a_graph_a_loss_is_a_function(self):
        weight = tf.Variable(2.0)
        v1.train.GradientDescentOptimizer(0.25).minimize(lambda: weight * weight, var_list=[weight])
        assert weight.numpy() == 1.0
        with pytest.raises(RuntimeError, match="should be a function when eager"):
            v1.train.GradientDescentOptimizer(0.25).minimize(weight * weight)
        with pytest.raises(ValueError, match="initial_accumulator_value must be positive"):
            v1.train.AdagradOptimizer(0.1, initial_accumulator_value=0.0)


def test_a_model_function_of_tensorflow_1(tmp_path):
    """`minimize` differentiates what the graph has recorded, without a tape of the program's."""

    def model_fn(features, labels, mode):
        net = tf.feature_column.input_layer(features, [tf.feature_column.numeric_column("x")])
        weight = tf.Variable([[0.0]], name="weight")
        predictions = tf.reshape(net @ weight, [-1])
        loss = tf.reduce_mean(tf.square(predictions - labels))
        optimizer = v1.train.AdagradOptimizer(learning_rate=0.5)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            eval_metric_ops={"right": v1.metrics.accuracy(labels > 3, predictions > 3)},
        )

    x = np.float32([1, 2, 3])
    found = v1.estimator.Estimator(model_fn, str(tmp_path))
    found.train(lambda: ({"x": x}, 2 * x), steps=60)
    assert found.get_variable_value("weight")[0, 0] == pytest.approx(2, abs=1e-2)
    assert found.get_variable_names() == ["global_step", "weight", "weight/Adagrad"]
    assert found.evaluate(lambda: ({"x": x}, 2 * x), steps=2)["right"] == 1.0


class TestFeatureColumns:
    def test_columns_are_in_the_order_of_their_names(self):
        made = [
            tf.feature_column.numeric_column("b", normalizer_fn=lambda value: value * 10),
            tf.feature_column.numeric_column("a", shape=[2], dtype=tf.int32),
        ]
        features = {"b": np.float32([1, 2]), "a": np.int32([[3, 4], [5, 6]]), "other": np.float32([0])}
        found = tf.feature_column.input_layer(features, made)
        np.testing.assert_array_equal(found, [[3, 4, 10], [5, 6, 20]])
        assert found.dtype == tf.float32

    def test_rejected(self):
        column = tf.feature_column.numeric_column("a")
        for features, message in (
            ({"a": np.float32(1)}, "cannot have rank 0"),
            (np.float32([1]), "features should be a dictionary"),
        ):
            with pytest.raises(ValueError, match=message):
                tf.feature_column.input_layer(features, [column])
        with pytest.raises(tf.errors.UnimplementedError, match="Cast string to float32"):
            tf.feature_column.input_layer({"a": np.array(["x"])}, [column])
        with pytest.raises(AttributeError, match=r"tf\.feature_column\.shared_embeddings is not part of"):
            tf.feature_column.shared_embeddings([column], 2)
        with pytest.raises(ValueError, match="Duplicate feature column name"):
            tf.feature_column.input_layer({"a": np.float32([1])}, [column, column])
        with pytest.raises(ValueError, match="must not be empty"):
            tf.feature_column.input_layer({}, [])
        with pytest.raises(ValueError, match="dtype must be convertible to float"):
            tf.feature_column.numeric_column("a", dtype=tf.string)
        with pytest.raises(ValueError, match="shape dimensions must be greater than 0"):
            tf.feature_column.numeric_column("a", shape=0)
        with pytest.raises(TypeError, match="normalizer_fn must be a callable"):
            tf.feature_column.numeric_column("a", normalizer_fn=1)
        with pytest.raises(NotImplementedError, match="default_value"):
            tf.feature_column.numeric_column("a", default_value=1.0)
