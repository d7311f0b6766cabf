"""A checkpoint that went through another format and back continues training to the bit."""

from __future__ import annotations

import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.main import main

WAYS = {
    "tf-name": "by-name/model-1",
    "tf-v1": "model.ckpt",
    "tf-object": "again/ckpt-1",
    "npz": "w.npz",
    "safetensors": "w.safetensors",
    "hdf5": "w.h5",
}
OPTIMIZERS = {"new": tf.keras.optimizers.Adam, "legacy": tf.keras.optimizers.legacy.Adam}


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.l1 = tf.keras.layers.Dense(5)

    def call(self, x):
        return self.l1(x)


class Training:
    def __init__(self, optimizer):
        x = tf.range(10.0)[:, None]
        examples = {"x": x, "y": x * 5.0 + tf.range(5.0)[None, :]}
        self.iterator = iter(tf.data.Dataset.from_tensor_slices(examples).repeat().batch(2))
        self.net, self.optimizer = Net(), optimizer(0.1)
        self.checkpoint = tf.train.Checkpoint(net=self.net, optimizer=self.optimizer)

    def run(self, steps):
        losses = []
        for _ in range(steps):
            example = next(self.iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.abs(self.net(example["x"]) - example["y"]))
            variables = self.net.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            losses.append(loss.numpy())
        return losses


def convert(*arguments):
    with pytest.raises(SystemExit) as left:
        main(["convert", *map(str, arguments)])
    assert left.value.code == 0


@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
@pytest.mark.parametrize("way", sorted(WAYS))
def test_training_continues_to_the_bit(tmp_path, way, kind):
    """50 steps, save, convert and back, new objects, restore, 50 steps is 100 steps."""
    training = Training(OPTIMIZERS[kind])
    training.run(50)
    path = training.checkpoint.save(tmp_path / "ckpt")
    expected = training.run(50)

    convert(path, tmp_path / WAYS[way], "--to", way)
    convert(tmp_path / WAYS[way], tmp_path / "back" / "ckpt-1", "--to", "tf-object", "--like", path)

    again = Training(OPTIMIZERS[kind])
    for _ in range(50):
        next(again.iterator)
    status = again.checkpoint.restore(tmp_path / "back" / "ckpt-1")
    assert again.run(50) == expected
    status.assert_consumed()
