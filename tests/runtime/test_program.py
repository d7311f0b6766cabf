"""A step that was recorded once and is replayed does what running it again does."""

from __future__ import annotations

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.runtime.program import Program

SCHEDULE = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
OPTIMIZERS = {
    "adam": lambda: tf.keras.optimizers.Adam(0.05),
    "adam_legacy": lambda: tf.keras.optimizers.legacy.Adam(0.05, decay=0.1),
    "sgd_nesterov": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adagrad_legacy": lambda: tf.keras.optimizers.legacy.Adagrad(0.05),
    "adam_scheduled": lambda: tf.keras.optimizers.Adam(SCHEDULE),
    "adam_legacy_scheduled": lambda: tf.keras.optimizers.legacy.Adam(SCHEDULE),
    "adam_clipped": lambda: tf.keras.optimizers.Adam(0.05, global_clipnorm=0.1, weight_decay=0.01),
    "rmsprop": lambda: tf.keras.optimizers.RMSprop(0.05, momentum=0.5, centered=True),
}


def model():
    tf.keras.utils.set_random_seed(4)
    return tf.keras.Sequential(
        [
            tf.keras.layers.Input([6, 6, 1]),
            tf.keras.layers.Conv2D(3, 3, activation="relu"),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(2),
        ]
    )


def batches(sizes):
    rng = np.random.default_rng(1)
    return [(rng.standard_normal((size, 6, 6, 1)).astype("f4"), rng.integers(0, 2, size)) for size in sizes]


def step_of(net, optimizer, step):
    def run(x, y):
        with tf.GradientTape() as tape:
            logits = net(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        step.assign_add(1)
        return {"loss": loss, "logits": logits, "name": "a constant"}

    return run


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_replaying_is_running_again(name):
    """Batches of other sizes included: rules look at tensors, not at shapes."""
    data = batches([5, 2, 7])
    eager_net, eager_optimizer, eager_step = model(), OPTIMIZERS[name](), tf.Variable(0)
    run = step_of(eager_net, eager_optimizer, eager_step)
    expected = [run(tf.constant(x), tf.constant(y)) for x, y in data]

    net, optimizer, step = model(), OPTIMIZERS[name](), tf.Variable(0)
    program = Program(step_of(net, optimizer, step), *data[0])
    found = [program.result] + [program(x, y) for x, y in data[1:]]
    for one, other in zip(found, expected, strict=True):
        assert one["loss"].numpy() == other["loss"].numpy()
        assert one["logits"].numpy().tobytes() == other["logits"].numpy().tobytes()
        assert one["name"] == "a constant"
    assert int(step) == int(eager_step) == 3
    for mine, theirs in zip(net.variables, eager_net.variables, strict=True):
        assert mine.numpy().tobytes() == theirs.numpy().tobytes()


def test_a_replay_takes_another_batch_size():
    w, b = tf.Variable(tf.reshape(tf.range(6.0), [3, 2])), tf.Variable([1.0, 2.0])

    def run(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.softmax(x @ w + b)))
        return loss, tape.gradient(loss, [w, b])

    one, three = np.ones((1, 3), "f4"), np.arange(9, dtype="f4").reshape(3, 3)
    program = Program(run, one)
    for x in (three, one):
        loss, gradients = program(x)
        expected_loss, expected = run(tf.constant(x))
        assert loss.numpy() == expected_loss.numpy()
        for mine, theirs in zip(gradients, expected, strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_random_numbers_are_drawn_again():
    tf.random.set_seed(1)
    program = Program(lambda x: x + tf.random.normal([4]), np.zeros(4, "f4"))
    assert program(np.zeros(4, "f4")).numpy().tolist() != program(np.zeros(4, "f4")).numpy().tolist()


def test_a_failed_recording_leaves_nothing_recording():
    def fails(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Program(fails, np.ones(2))
    assert (tf.ones([2]) + 1).numpy().tolist() == [2.0, 2.0]
