"""Names of TensorFlow 1 that model functions use: layers, losses, metrics, variables in scopes."""

from __future__ import annotations

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.runtime import graphs
from ckpt_cli.runtime.compat import v1
from formats.location import parse_location
from formats.tf.run.events import EventReader, event_files, scalars
from tests.interop import runs
from tests.runtime.flowers import arrays, flowers

LOGITS = np.float32([[2, -1, 0.5], [0, 1, 3]])


@pytest.fixture
def graph():
    with graphs.Graph().opened() as opened:
        yield opened


def test_a_graph_names_and_collects_what_is_made_in_it(graph):
    assert graphs.current() is graph
    v1.layers.dense(np.ones([2, 3], np.float32), 4)
    v1.layers.dense(np.ones([2, 4], np.float32), 2, use_bias=False, name="logits", trainable=False)
    v1.layers.dense(np.ones([2, 4], np.float32), 2, tf.nn.relu)
    with v1.variable_scope("a"), v1.variable_scope("b"):
        made = v1.get_variable("w", [2, 3], initializer="ones")
        given = v1.get_variable("given", initializer=np.float32([1, 2]), trainable=False)
        assert v1.get_variable("drawn", 3).shape == (3,)
        with pytest.raises(ValueError, match="Variable a/b/w already exists"):
            v1.get_variable("w", [2, 3])
        with pytest.raises(ValueError, match="must be fully defined"):
            v1.get_variable("shapeless")
    np.testing.assert_array_equal(made, np.ones([2, 3]))
    names = [one._full_name() for one in v1.global_variables()]
    assert names == [
        "dense/kernel", "dense/bias", "logits/kernel", "dense_1/kernel", "dense_1/bias", "a/b/w", "a/b/given",
        "a/b/drawn",
    ]  # fmt: skip
    trainable = [one._full_name() for one in v1.trainable_variables()]
    assert set(names) - set(trainable) == {"logits/kernel", given._full_name()}
    v1.assign_add(v1.assign(given, [1.0, 2.0]), [3.0, 3.0])
    np.testing.assert_array_equal(v1.assign_sub(given, [1.0, 1.0]), [3, 4])
    assert tf.Variable(1.0, name="A").name == "A:0"
    assert tf.Variable(1.0, name="a").name == "a_1:0"
    v1.add_to_collection("mine", 1)
    assert v1.get_collection("mine") == [1]
    assert v1.get_collection("nobody's") == []


def test_keras_models_in_a_graph_are_named_as_tensorflow_names_them_there(graph):
    """One that learns its input when it is called is built within its own scope, unlike eagerly."""
    layers, x = tf.keras.layers, tf.ones([1, 2])

    def names(model):
        model(x)
        return [variable._full_name().removesuffix("/kernel") for variable in model.variables[::2]]

    class Nest(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.inner, self.last = tf.keras.Sequential([layers.Dense(2)]), layers.Dense(1)

        def call(self, inputs):
            return self.last(self.inner(inputs))

    assert names(tf.keras.Sequential([layers.Dense(2), layers.Dense(3)])) == [
        "sequential/dense",
        "sequential/dense_1",
    ]
    assert names(Nest()) == ["nest/sequential_1/dense_2", "nest/dense_3"]
    assert names(tf.keras.Sequential([layers.Input([2]), layers.Dense(2)])) == ["dense_4"]
    knowing = [layers.Dense(2, input_shape=[2]), tf.keras.Sequential([layers.Dense(3)])]
    assert names(tf.keras.Sequential(knowing)) == ["dense_5", "sequential_3/dense_6"]


def test_outside_of_a_graph_nothing_is_noted():
    assert graphs.current() is None
    before = len(graphs.DEFAULT.variables)
    one, two = tf.Variable(1.0, name="same"), tf.Variable(2.0, name="same")
    assert one.name == two.name == "same:0"
    assert len(graphs.DEFAULT.variables) == before


def test_layers():
    x = np.float32([[1, -2], [3, 4]])
    dense = v1.layers.dense(x, 1, tf.nn.relu, kernel_initializer="ones", bias_initializer="ones")
    np.testing.assert_array_equal(dense, [[0], [8]])
    assert v1.layers.flatten(np.zeros([2, 3, 4])).shape == (2, 12)
    np.testing.assert_array_equal(v1.layers.dropout(x, 0.5), x)
    dropped = v1.layers.dropout(np.ones([1000], np.float32), 0.5, training=True).numpy()
    assert set(dropped) == {0.0, 2.0}
    with pytest.raises(NotImplementedError, match="kernel_regularizer"):
        v1.layers.dense(x, 1, kernel_regularizer=abs)


def test_losses(graph):
    chances = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    each = -np.log(chances[[0, 1], [2, 1]])
    found = {
        "sparse": (v1.losses.sparse_softmax_cross_entropy([2, 1], LOGITS), each.mean()),
        "column": (v1.losses.sparse_softmax_cross_entropy([[2], [1]], LOGITS), each.mean()),
        "weighted": (v1.losses.sparse_softmax_cross_entropy([2, 1], LOGITS, [0.0, 3.0]), 3 * each[1]),
        "nothing": (v1.losses.sparse_softmax_cross_entropy([2, 1], LOGITS, 0.0), 0.0),
        "onehot": (v1.losses.softmax_cross_entropy(np.eye(3)[[2, 1]], LOGITS), each.mean()),
        "sigmoid": (v1.losses.sigmoid_cross_entropy([[1.0]], np.float32([[0.0]])), np.log(2)),
        "squares": (v1.losses.mean_squared_error([1.0, 2.0], np.float32([3, 5])), 6.5),
        "absolute": (v1.losses.absolute_difference([1.0, 2.0], np.float32([3, 5])), 2.5),
    }
    for name, (loss, expected) in found.items():
        assert float(loss) == pytest.approx(float(expected), rel=1e-6), name
    assert len(v1.losses.get_losses()) == len(found)
    total = sum(float(loss) for loss, _ in found.values())
    assert float(v1.losses.get_total_loss()) == pytest.approx(total, rel=1e-6)


def test_metrics(graph):
    labels, predictions = np.array([1, 0, 1, 1]), np.array([1, 1, 0, 1])
    scores = np.float32([0.9, 0.6, 0.4, 0.7])
    told = {
        "mean": (v1.metrics.mean(scores), 0.65),
        "weighted": (v1.metrics.mean(scores, [0, 0, 0, 2]), 0.7),
        "accuracy": (v1.metrics.accuracy(labels, predictions), 0.5),
        "precision": (v1.metrics.precision(labels, predictions), 2 / 3),
        "recall": (v1.metrics.recall(labels, predictions), 2 / 3),
        "auc": (v1.metrics.auc(labels, scores), 2 / 3),
    }
    for name, ((value, update), expected) in told.items():
        assert float(value) == pytest.approx(expected, abs=1e-5), name
        assert float(update) == float(value)
    assert v1.global_variables() == []
    assert len(v1.get_collection(v1.GraphKeys.LOCAL_VARIABLES)) == 11
    with pytest.raises(ValueError, match="Curve must be either ROC or PR"):
        v1.metrics.auc(labels, scores, curve="XY")


def test_a_model_function_of_the_flowers_tutorial(tmp_path):
    """Layers, a loss, a metric and an optimizer of TensorFlow 1; its summaries are in the events."""
    found = runs.custom(tf, str(tmp_path))
    found.train(flowers(), steps=200)
    metrics = found.evaluate(flowers(50, repeats=False))
    assert metrics["accuracy"] > 0.9
    told = np.array([one["class_ids"][0] for one in found.predict(flowers(50, repeats=False))])
    assert (told == arrays()[1]).mean() == pytest.approx(metrics["accuracy"])
    assert found.get_variable_names()[:3] == ["dense/bias", "dense/bias/Adagrad", "dense/kernel"]
    (path,) = event_files(parse_location(str(tmp_path)))
    shares = {event.step: dict(scalars(event)).get("accuracy") for event in EventReader(path)}
    told = {step: share for step, share in shares.items() if share is not None}
    assert list(told) == list(range(1, 200, 10))
    # A metric counts the batches of the steps that print it, so its share moves slowly.
    assert 0 < told[1] < told[191] < metrics["accuracy"]
