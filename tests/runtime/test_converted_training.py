"""A checkpoint that went through another format and back continues training to the bit."""

from __future__ import annotations

import json

import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.cli.main import main

WAYS = {
    "tf-name": "by-name/model-1",
    "tf-v1": "model.ckpt",
    "tf-object": "again/ckpt-1",
    "npz": "w.npz",
    "safetensors": "w.safetensors",
    "hdf5": "w.h5",
}
OPTIMIZERS = {
    "new": lambda: tf.keras.optimizers.Adam(0.1),
    "legacy": lambda: tf.keras.optimizers.legacy.Adam(0.1),
}


KERAS_WAYS = {"keras-h5": "k.h5", "keras-weights": "k.weights.h5", "keras": "k.keras"}
KERAS_OPTIMIZERS = {
    "Adam": lambda: tf.keras.optimizers.Adam(0.1),
    "amsgrad": lambda: tf.keras.optimizers.Adam(0.1, amsgrad=True),
    "RMSprop": lambda: tf.keras.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    "Adagrad": lambda: tf.keras.optimizers.Adagrad(0.1),
    "momentum": lambda: tf.keras.optimizers.SGD(0.001, momentum=0.5),
    "legacy Adam": lambda: tf.keras.optimizers.legacy.Adam(0.1),
    "legacy momentum": lambda: tf.keras.optimizers.legacy.SGD(0.001, momentum=0.5),
}


def config(optimizer, *, keras3):
    """Return the configuration of the model below, as a `.h5` file or a `.keras` archive has it.

    The compiled optimizer says which slots there are; the list has only numbers.
    """
    shape = {"batch_shape" if keras3 else "batch_input_shape": [None, 1]}
    module = {"module": "keras", "registered_name": None} if keras3 else {}
    layers = [
        {**module, "class_name": "InputLayer", "config": {"name": "x", **shape}},
        {**module, "class_name": "Dense", "config": {"name": "l1", "units": 5}},
    ]
    settings = {"class_name": type(optimizer).__name__, "config": optimizer.get_config()}
    whole = {**module, "class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    return json.dumps({**whole, "compile_config": {"optimizer": settings}}, default=float)


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.l1 = tf.keras.layers.Dense(5)

    def call(self, x):
        return self.l1(x)


def sequential():
    return tf.keras.Sequential(
        [tf.keras.layers.Input([1], name="x"), tf.keras.layers.Dense(5, name="l1")], name="net"
    )


class Training:
    def __init__(self, optimizer, net=Net):
        x = tf.range(10.0)[:, None]
        examples = {"x": x, "y": x * 5.0 + tf.range(5.0)[None, :]}
        self.iterator = iter(tf.data.Dataset.from_tensor_slices(examples).repeat().batch(2))
        self.net, self.optimizer = net(), optimizer()
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
    return left.value.code


def continues(path, expected, optimizer, net=Net):
    """Whether new objects, restored, continue after 50 steps as the first ones did."""
    again = Training(optimizer, net)
    for _ in range(50):
        next(again.iterator)
    status = again.checkpoint.restore(path)
    losses = again.run(50)
    status.assert_consumed()
    return losses == expected


@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
@pytest.mark.parametrize("way", sorted(WAYS))
def test_training_continues_to_the_bit(tmp_path, way, kind):
    """50 steps, save, convert and back, new objects, restore, 50 steps is 100 steps."""
    training = Training(OPTIMIZERS[kind])
    training.run(50)
    path = training.checkpoint.save(tmp_path / "ckpt")
    expected = training.run(50)

    assert convert(path, tmp_path / WAYS[way], "--to", way) == 0
    back = tmp_path / "back" / "ckpt-1"
    assert convert(tmp_path / WAYS[way], back, "--to", "tf-object", "--like", path) == 0
    assert continues(back, expected, OPTIMIZERS[kind])


@pytest.mark.parametrize("name", KERAS_OPTIMIZERS)
@pytest.mark.parametrize("way", KERAS_WAYS)
def test_training_continues_to_the_bit_by_way_of_keras(tmp_path, way, name, capsys):
    """The same by the formats that want a model's configuration: the state is held, by what it means.

    The way back is to objects by the configuration, then by full names into the program's own.
    """
    tf.keras.backend.clear_session()
    make = KERAS_OPTIMIZERS[name]
    training = Training(make, sequential)
    training.run(50)
    path = training.checkpoint.save(tmp_path / "ckpt")
    expected = training.run(50)
    described, middle, back = tmp_path / "net.json", tmp_path / KERAS_WAYS[way], tmp_path / "back" / "ckpt-1"
    described.write_text(config(make(), keras3=way == "keras"))

    assert convert(path, middle, "--to", way, "--config", described, "--json") == 0
    dropped = {entry["key"]: entry["reason"] for entry in json.loads(capsys.readouterr().out)["dropped"]}
    with formats.open_checkpoint(path) as reader:
        slots = {key for key, kind in reader.kinds.items() if kind == "slot"}
    objects = tmp_path / "objects-1"
    assert convert(middle, objects, "--config", described) == 0
    assert not slots & dropped.keys()
    assert convert(objects, back, "--like", path) == 0
    assert continues(back, expected, make, sequential)
