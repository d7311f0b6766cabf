"""The guides' programs with Estimators: every call they make, in their order.

The first is the guide to Estimators' checkpoints (DNNClassifier on flowers), the second
the end of the checkpoint guide (object-based saving with a Scaffold).
"""

from __future__ import annotations

import glob
import os
import shutil

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import ckpt_cli.runtime.compat.v1 as tf_compat
from tests.runtime.flowers import DATA, NAMES, arrays


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def flower_data():
    features, labels = arrays()
    return {name: features[:, index] for index, name in enumerate(NAMES)}, labels


def train_input(features, labels, batch_size):
    """As the flowers' tutorial has it."""
    return (
        tf.data.Dataset.from_tensor_slices((dict(features), labels)).shuffle(1000).repeat().batch(batch_size)
    )


def eval_input(features, labels, batch_size):
    inputs = dict(features) if labels is None else (dict(features), labels)
    return tf.data.Dataset.from_tensor_slices(inputs).batch(batch_size)


def listed(directory):
    return sorted(name.split(".vm")[0] for name in os.listdir(directory))


def test_the_guide_to_estimators_checkpoints(capsys):
    train_x, train_y = flower_data()
    my_feature_columns = [tf.feature_column.numeric_column(key=key) for key in train_x]
    classifier = tf.estimator.DNNClassifier(
        feature_columns=my_feature_columns, hidden_units=[10, 10], n_classes=3, model_dir="models/iris"
    )
    classifier.train(input_fn=lambda: train_input(train_x, train_y, batch_size=100), steps=200)
    events = glob.glob("models/iris/events.out.tfevents.*")
    assert len(events) == 1
    # The output of the guide's `ls -1 models/iris`, except for the graph, which the runtime does not write.
    assert sorted(os.listdir("models/iris")) == sorted([
        "checkpoint", os.path.basename(events[0]),
        "model.ckpt-0.data-00000-of-00001", "model.ckpt-0.index",
        "model.ckpt-200.data-00000-of-00001", "model.ckpt-200.index",
    ])  # fmt: skip

    unnamed = tf.estimator.DNNClassifier(
        feature_columns=my_feature_columns, hidden_units=[10, 10], n_classes=3
    )
    print(unnamed.model_dir)
    folder = capsys.readouterr().out.strip()
    assert os.path.isdir(folder)
    os.rmdir(folder)

    my_checkpointing_config = tf.estimator.RunConfig(
        save_checkpoints_secs=20 * 60,
        keep_checkpoint_max=10,
    )
    classifier = tf.estimator.DNNClassifier(
        feature_columns=my_feature_columns,
        hidden_units=[10, 10],
        n_classes=3,
        model_dir="models/iris",
        config=my_checkpointing_config,
    )
    assert classifier.config.save_checkpoints_secs == 1200
    classifier.train(input_fn=lambda: train_input(train_x, train_y, batch_size=100), steps=200)
    assert classifier.latest_checkpoint() == "models/iris/model.ckpt-400"
    metrics = classifier.evaluate(input_fn=lambda: eval_input(train_x, train_y, batch_size=100))
    assert metrics["global_step"] == 400
    predictions = list(classifier.predict(input_fn=lambda: eval_input(train_x, None, batch_size=100)))
    found = np.array([one["class_ids"][0] for one in predictions])
    assert (found == train_y).mean() == pytest.approx(metrics["accuracy"])

    classifier2 = tf.estimator.DNNClassifier(
        feature_columns=my_feature_columns, hidden_units=[20, 20], n_classes=3, model_dir="models/iris"
    )
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        classifier2.train(input_fn=lambda: train_input(train_x, train_y, batch_size=100), steps=200)
    assert (
        "tensor_name = dnn/hiddenlayer_1/bias; shape in shape_and_slice spec [20] does not match the shape "
        "stored in checkpoint: [10]"
    ) in str(caught.value)
    assert classifier.get_variable_value("global_step") == 400


class Line(tf.keras.Model):
    """A straight line through five outputs."""

    def __init__(self):
        super().__init__()
        self.l1 = tf.keras.layers.Dense(5)

    def call(self, x):
        return self.l1(x)


def points():
    x = tf.range(10.0)[:, None]
    y = x * 5.0 + tf.range(5.0)[None, :]
    return tf.data.Dataset.from_tensor_slices({"x": x, "y": y}).repeat().batch(2)


def optimizers(name):
    return {"modern": tf.keras.optimizers.Adam, "legacy": tf.keras.optimizers.legacy.Adam}[name](0.1)


def line_model(optimizer):
    def model_fn(features, labels, mode):
        net, opt = Line(), optimizers(optimizer)
        ckpt = tf.train.Checkpoint(step=tf_compat.train.get_global_step(), optimizer=opt, net=net)
        with tf.GradientTape() as tape:
            output = net(features["x"])
            loss = tf.reduce_mean(tf.abs(output - features["y"]))
        variables = net.trainable_variables
        gradients = tape.gradient(loss, variables)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=tf.group(
                opt.apply_gradients(zip(gradients, variables, strict=True)), ckpt.step.assign_add(1)
            ),
            scaffold=tf_compat.train.Scaffold(saver=ckpt),
        )

    return model_fn


@pytest.mark.parametrize("optimizer", ["modern", "legacy"])
def test_saving_objects_from_an_estimator(optimizer):
    tf.keras.backend.clear_session()
    est = tf.estimator.Estimator(line_model(optimizer), "./tf_estimator_example/")
    est.train(points, steps=10)

    opt, net = optimizers(optimizer), Line()
    ckpt = tf.train.Checkpoint(step=tf.Variable(1, dtype=tf.int64), optimizer=opt, net=net)
    status = ckpt.restore(tf.train.latest_checkpoint("./tf_estimator_example/")).expect_partial()
    assert ckpt.step.numpy() == 10  # from est.train(..., steps=10)
    net(tf.ones([1, 1]))
    opt.apply_gradients([(tf.zeros_like(variable), variable) for variable in net.trainable_variables])
    # Estimators count no saves: that alone is missing.
    with pytest.raises(AssertionError, match="save_counter"):
        status.assert_existing_objects_matched()
    again = tf.train.Checkpoint(step=ckpt.step, optimizer=opt, net=net)
    again.read(tf.train.latest_checkpoint("./tf_estimator_example/")).assert_consumed()
    assert np.any(net.l1.kernel.numpy())

    est.train(points, steps=5)  # restores what hangs on the Checkpoint, the optimizer's moments too
    assert tf.train.latest_checkpoint("./tf_estimator_example/") == "./tf_estimator_example/model.ckpt-15"
    assert est.evaluate(points, steps=1)["global_step"] == 15
    est.train(points, max_steps=15)
    assert est.get_variable_value("step/.ATTRIBUTES/VARIABLE_VALUE") == 15


def test_two_calls_are_one_for_objects():
    """Bit for bit; every call of the input_fn gives the same batches."""

    def every():
        return points().batch(5).map(lambda one: {key: tf.reshape(one[key], [10, -1]) for key in one})

    def weights(directory):
        found = tf.train.load_checkpoint(directory)
        keys = [key for key in found.get_variable_to_shape_map() if not key.startswith("_CHECK")]
        return {key: found.get_tensor(key).tobytes() for key in keys}

    config = tf.estimator.RunConfig(tf_random_seed=7)
    one = tf.estimator.Estimator(line_model("legacy"), "one", config)
    one.train(every, steps=9)
    two = tf.estimator.Estimator(line_model("legacy"), "two", config)
    two.train(every, steps=4)
    two.train(every, steps=5)
    assert weights("one") == weights("two")


def test_resuming_from_tensorflows_own():
    """The guide's directory as TensorFlow 2.15 left it, with the legacy optimizer."""
    source = DATA / "estimator_object_based" / "tf_estimator_example"
    shutil.copytree(source, "tf_estimator_example")
    est = tf.estimator.Estimator(line_model("legacy"), "./tf_estimator_example/")
    est.train(points, steps=3)
    kept = tf.train.get_checkpoint_state("tf_estimator_example").all_model_checkpoint_paths
    assert [os.path.basename(path) for path in kept] == ["model.ckpt-0", "model.ckpt-10", "model.ckpt-13"]
    before, after = (tf.train.load_checkpoint(f"tf_estimator_example/model.ckpt-{step}") for step in (10, 13))
    assert before.get_variable_to_shape_map() == after.get_variable_to_shape_map()
    assert after.get_tensor("optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE") == 13


def test_another_model_of_objects_is_rejected():
    est = tf.estimator.Estimator(line_model("legacy"), "run")
    est.train(points, steps=2)
    before = sorted(os.listdir("run"))

    def wider():
        return points().map(lambda one: {"x": tf.tile(one["x"], [1, 3]), "y": one["y"]})

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)run/model.ckpt-2: .*\(1, 5\).*\(3, 5\)"):
        est.train(wider, steps=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"give it another model_dir"):
        tf.estimator.Estimator(line_model("modern"), "run").train(points, steps=1)
    assert sorted(os.listdir("run")) == before


def test_what_does_not_hang_on_the_checkpoint_is_missed(caplog):
    """TensorFlow saves such a run silently, and fails when it is continued; we warn first."""

    def model_fn(features, labels, mode):
        extra = tf.Variable(1.0, name="extra")
        ckpt = tf.train.Checkpoint(step=tf_compat.train.get_global_step())
        loss = tf.reduce_mean(features["x"]) * extra
        train_op = tf.group(extra.assign_add(1.0), ckpt.step.assign_add(1))
        scaffold = tf_compat.train.Scaffold(saver=ckpt)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)

    est = tf.estimator.Estimator(model_fn, "run")
    est.train(points, steps=1)
    assert caplog.text.count("not saved, they do not hang on the Scaffold's saver: extra:0") == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="Variables not initialized: extra:0"):
        est.train(points, steps=1)


def test_from_objects_to_names_and_back():
    """A run that was saved by objects continues by names: their full names tell which is which."""

    def by_name(features, labels, mode):
        return line_model("legacy")(features, labels, mode)._replace(scaffold=tf_compat.train.Scaffold())

    tf.estimator.Estimator(line_model("legacy"), "run").train(points, steps=4)
    est = tf.estimator.Estimator(by_name, "run")
    est.train(points, steps=2)
    assert est.get_variable_names() == [
        "Adam/beta_1", "Adam/beta_2", "Adam/decay", "Adam/iter", "Adam/learning_rate",
        "Adam/line/dense/bias/m", "Adam/line/dense/bias/v", "Adam/line/dense/kernel/m",
        "Adam/line/dense/kernel/v", "global_step", "line/dense/bias", "line/dense/kernel",
    ]  # fmt: skip
    assert est.get_variable_value("Adam/iter") == 6
    objects = tf.estimator.Estimator(line_model("legacy"), "run")
    objects.train(points, steps=1)
    assert objects.get_variable_value("step/.ATTRIBUTES/VARIABLE_VALUE") == 7
