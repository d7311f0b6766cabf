"""Training continues exactly where it stopped, and goes as TensorFlow's does."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import ckpt_cli.runtime as tf

DATA = pathlib.Path(__file__).parents[1] / "data"


class Net(tf.keras.Model):
    """The guide's model."""

    def __init__(self):
        super().__init__()
        self.l1 = tf.keras.layers.Dense(5)

    def call(self, x):
        return self.l1(x)


def toy_dataset():
    inputs = tf.range(10.0)[:, None]
    labels = inputs * 5.0 + tf.range(5.0)[None, :]
    return tf.data.Dataset.from_tensor_slices({"x": inputs, "y": labels}).repeat().batch(2)


def train_step(net, example, optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(net(example["x"]) - example["y"]))
    variables = net.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return loss


OPTIMIZERS = {
    "guide_adam_new": lambda: tf.keras.optimizers.Adam(0.1),
    "guide_adam_keras3": lambda: tf.keras.optimizers.Adam(0.1),
    "guide_adam_legacy": lambda: tf.keras.optimizers.legacy.Adam(0.1),
}
# The loss's gradient is made of signs, so that one rounding difference can grow.
TOLERANCE = {"guide_adam_new": 5e-4, "guide_adam_keras3": 5e-4, "guide_adam_legacy": 5e-5}


def relative(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1e-30)))


def run(net, optimizer, count, *, restore=None, save=None):
    """Yield the losses of one run as the guide's are: the last save is before the last step."""
    iterator = iter(toy_dataset())
    checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer, iterator=iterator)
    if restore is not None:
        checkpoint.read(restore).assert_consumed()
    for at in range(count):
        yield float(train_step(net, next(iterator), optimizer))
        if save is not None and at == count - 2:
            checkpoint.write(save)


def replay(folder, path):
    """Train from a recording's initial values; return how far losses and final values are off, relatively."""
    record = json.loads((DATA / folder / "training.json").read_text())
    net, optimizer = Net(), OPTIMIZERS[folder]()
    net(tf.zeros([2, 1]))
    by_shape = {tuple(np.shape(value)): value for value in record["initial"].values()}
    for variable in net.variables:
        variable.assign(np.float32(by_shape[tuple(variable.shape)]))
    first, second = record["runs"]
    losses = [relative(list(run(net, optimizer, len(first["losses"]), save=path)), first["losses"])]
    finals = [relative(by_shape_of(net, value), value) for value in first["final"].values()]
    losses.append(relative(list(run(net, optimizer, len(second["losses"]), restore=path)), second["losses"]))
    finals += [relative(by_shape_of(net, value), value) for value in second["final"].values()]
    return max(losses), max(finals)


def by_shape_of(net, value):
    (variable,) = [variable for variable in net.variables if tuple(variable.shape) == np.shape(value)]
    return variable.numpy()


@pytest.mark.parametrize("folder", sorted(OPTIMIZERS))
def test_recorded_training_is_replayed(tmp_path, folder):
    losses, finals = replay(folder, tmp_path / "ckpt")
    print(f"{folder}: losses within {losses:.2e}, final values within {finals:.2e}")
    assert losses <= TOLERANCE[folder]
    assert finals <= TOLERANCE[folder]


@pytest.mark.parametrize("folder", sorted(OPTIMIZERS))
def test_a_break_changes_no_bit(tmp_path, folder):
    """50 steps, save, new objects, restore, 50 steps is 100 steps."""

    def objects():
        net, optimizer, iterator = Net(), OPTIMIZERS[folder](), iter(toy_dataset())
        return net, optimizer, iterator, tf.train.Checkpoint(net=net, optimizer=optimizer, iterator=iterator)

    def steps(net, optimizer, iterator, count):
        return [train_step(net, next(iterator), optimizer).numpy() for _ in range(count)]

    net, optimizer, iterator, checkpoint = objects()
    first = steps(net, optimizer, iterator, 50)
    path = checkpoint.save(tmp_path / "ckpt")
    unbroken = first + steps(net, optimizer, iterator, 50)

    again_net, again_optimizer, again_iterator, again = objects()
    status = again.restore(path)
    broken = first + steps(again_net, again_optimizer, again_iterator, 50)
    status.assert_consumed()
    assert broken == unbroken
    for one, other in zip(net.variables, again_net.variables, strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.parametrize("folder", ["guide_adam_new", "guide_adam_legacy"])
def test_training_continues_from_tensorflows_checkpoint(folder):
    """TensorFlow's checkpoint of step 50, its iterator put where it was, gives TensorFlow's second run."""
    record = json.loads((DATA / folder / "training.json").read_text())
    net, optimizer, step = Net(), OPTIMIZERS[folder](), tf.Variable(1)
    checkpoint = tf.train.Checkpoint(step=step, net=net, optimizer=optimizer)
    directory = DATA / folder / "tf_ckpts_after_first_run"
    status = checkpoint.restore(tf.train.latest_checkpoint(directory)).expect_partial()
    iterator = iter(toy_dataset())
    for _ in range(49):  # Saved at step 50, after 49 batches.
        next(iterator)
    second = record["runs"][1]
    found = [float(train_step(net, next(iterator), optimizer)) for _ in second["losses"]]
    status.assert_existing_objects_matched()
    assert int(step) == 50
    assert relative(found, second["losses"]) <= TOLERANCE[folder]
