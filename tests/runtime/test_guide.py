"""The checkpoint guide's programs: every call it makes, in its order, next to what TensorFlow said."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import ckpt_cli.runtime.compat.v1 as tf_compat

DATA = pathlib.Path(__file__).parents[1] / "data"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tf.keras.backend.clear_session()


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


def step_on(net, example, optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(net(example["x"]) - example["y"]))
    variables = net.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return loss


class Run:
    """The objects that the guide creates for each run, and its loop."""

    def __init__(self, make_optimizer):
        self.net, self.optimizer = Line(), make_optimizer()
        self.iterator = iter(points())
        self.ckpt = tf.train.Checkpoint(
            step=tf.Variable(1), optimizer=self.optimizer, net=self.net, iterator=self.iterator
        )
        self.manager = tf.train.CheckpointManager(self.ckpt, "./tf_ckpts", max_to_keep=3)

    def train(self):
        self.ckpt.restore(self.manager.latest_checkpoint)
        if self.manager.latest_checkpoint:
            yield f"Restored from {self.manager.latest_checkpoint}"
        else:
            yield "Initializing from scratch."
        for _ in range(50):
            loss = step_on(self.net, next(self.iterator), self.optimizer)
            self.ckpt.step.assign_add(1)
            if int(self.ckpt.step) % 10 == 0:
                yield f"Saved checkpoint for step {int(self.ckpt.step)}: {self.manager.save()}"
                yield f"loss {loss.numpy():1.2f}"


@pytest.mark.parametrize(
    ("folder", "optimizer"),
    [("guide_adam_new", tf.keras.optimizers.Adam), ("guide_adam_legacy", tf.keras.optimizers.legacy.Adam)],
)
def test_the_whole_guide_says_what_tensorflow_said(folder, optimizer):
    record = json.loads((DATA / folder / "training.json").read_text())
    first = Run(lambda: optimizer(0.1))
    first.net(next(iter(points()))["x"])
    for value in record["initial"].values():
        (variable,) = [v for v in first.net.variables if tuple(v.shape) == np.shape(value)]
        variable.assign(np.float32(value))
    assert list(first.train()) == record["runs"][0]["printed"]
    assert first.manager.checkpoints == record["runs"][0]["managed"]

    second = Run(lambda: optimizer(0.1))
    assert list(second.train()) == record["runs"][1]["printed"]
    assert second.manager.checkpoints == record["runs"][1]["managed"]
    assert int(second.ckpt.step) == record["runs"][1]["final_step"]
    files = sorted(path.name for path in pathlib.Path("tf_ckpts").iterdir())
    assert files == sorted(path.name for path in (DATA / folder / "tf_ckpts").iterdir())

    facts = json.loads((DATA / folder / "facts.json").read_text())["partial_restore"]
    to_restore = tf.Variable(tf.zeros([5]))
    fake_layer = tf.train.Checkpoint(bias=to_restore)
    status = tf.train.Checkpoint(net=tf.train.Checkpoint(l1=fake_layer)).restore(
        tf.train.latest_checkpoint("./tf_ckpts/")
    )
    np.testing.assert_allclose(to_restore.numpy(), facts["bias"], rtol=5e-4)
    status.assert_existing_objects_matched()
    delayed = tf.Variable(tf.zeros([1, 5]))
    fake_layer.kernel = delayed
    np.testing.assert_allclose(delayed.numpy(), facts["kernel_after"], rtol=5e-4)
    status.expect_partial()

    listed = dict(tf.train.list_variables(tf.train.latest_checkpoint("./tf_ckpts/")))
    expected = dict(json.loads((DATA / folder / "facts.json").read_text())["list_variables"])
    # Nothing runs ahead here: TensorFlow has two elements more, each a section of its state.
    assert listed.pop("iterator/.ATTRIBUTES/ITERATOR_STATE") == [4]
    assert expected.pop("iterator/.ATTRIBUTES/ITERATOR_STATE")
    assert listed == expected


def test_weights_and_containers(capsys):
    Line().save_weights("easy_checkpoint")
    assert tf.train.latest_checkpoint(".") == "./easy_checkpoint"
    save = tf.train.Checkpoint()
    save.listed = [tf.Variable(1.0)]
    save.listed.append(tf.Variable(2.0))
    save.mapped = {"one": save.listed[0]}
    save.mapped["two"] = save.listed[1]
    path = save.save("./tf_list_example")
    assert path == "./tf_list_example-1"
    restore = tf.train.Checkpoint()
    late = tf.Variable(0.0)
    assert late.numpy() == 0.0
    restore.mapped = {"two": late}
    restore.restore(path)
    assert late.numpy() == 2.0
    restore.listed = []
    print(restore.listed)
    assert capsys.readouterr().out == "ListWrapper([])\n"
    first = tf.Variable(0.0)
    restore.listed.append(first)
    assert first.numpy() == 1.0


def test_an_estimators_object_based_checkpoint():
    """The guide's use outside of the Estimator, with the checkpoint of TensorFlow's Estimator."""
    directory = DATA / "estimator_object_based" / "tf_estimator_example"
    optimizer, net = tf.keras.optimizers.legacy.Adam(0.1), Line()
    ckpt = tf.train.Checkpoint(step=tf.Variable(1, dtype=tf.int64), optimizer=optimizer, net=net)
    status = ckpt.read(tf.train.latest_checkpoint(directory))  # an Estimator counts no saves
    assert ckpt.step.numpy() == 10
    step_on(net, next(iter(points())), optimizer)
    status.assert_consumed()
    assert int(optimizer.iterations) == 11
    assert tf_compat.train.get_global_step() is None
    tf.keras.backend.clear_session()
    assert tf.group(optimizer.iterations, ckpt.step.assign_add(1)) is None
