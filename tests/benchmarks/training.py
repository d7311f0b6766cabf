"""The runtime against TensorFlow: steps of training, saving and restoring a gigabyte.

Both sides run the same program, which prints its seconds; starting up is not counted.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.harness import ROOT, Row, at_most, busy, faster, printed, python, tensorflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

RUNTIME = f"import sys; sys.path.insert(0, {ROOT!r}); import ckpt_cli.runtime as tf\n"

LOOP = """
import time
class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.l1 = tf.keras.layers.Dense(5)
    def call(self, x):
        return self.l1(x)
net, optimizer, step = Net(), tf.keras.optimizers.Adam(0.1), tf.Variable(1)
x = tf.range(10.)[:, None]
examples = dict(x=x, y=x * 5. + tf.range(5.)[None, :])
iterator = iter(tf.data.Dataset.from_tensor_slices(examples).repeat().batch(2))
def train(steps):
    for _ in range(steps):
        example = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(net(example["x"]) - example["y"]))
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        step.assign_add(1)
train(20)
started = time.perf_counter()
train(200)
print(time.perf_counter() - started)
"""

# A step of a model in training, its loss and Adam, without compiling.
STEPS = """
import time
layers = tf.keras.layers
tf.random.set_seed(1)
def stack(*parts):
    return tf.keras.Sequential(parts)
{model}
x, y = tf.random.normal({inputs}), tf.random.normal({outputs})
optimizer = tf.keras.optimizers.Adam(0.001)
def train(steps):
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x, training=True) - y))
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
train(3)
started = time.perf_counter()
train({steps})
print(time.perf_counter() - started)
"""

MLP = """
def wide(): return layers.Dense({width}, activation="relu")
net = stack(wide(), wide(), layers.Dense({width}))
"""

LSTM = """
net = stack(layers.LSTM(128), layers.Dense(10))
"""

ATTENTION = """
class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.attention = layers.MultiHeadAttention(4, 32)
        self.head = layers.Dense(64)
    def call(self, x, training=None):
        return self.head(self.attention(x, x))
net = Net()
"""

CONVOLUTIONS = """
net = stack(
    layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(),
    layers.Flatten(), layers.Dense(10),
)
"""

NORMALIZED = """
def block():
    return layers.Conv2D(64, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()
net = stack(*block(), *block(), layers.GlobalAveragePooling2D(), layers.Dense(10))
"""


class Steps(NamedTuple):
    """Steps of one model: a program, its inputs and outputs, and the required speed-up.

    `loaded` is the bar with a process that competes for each processor, on both sides.
    """

    name: str
    model: str
    inputs: list[int]
    outputs: list[int]
    count: int
    bar: float
    loaded: float | None = None

    @property
    def program(self) -> str:
        return STEPS.format(model=self.model, inputs=self.inputs, outputs=self.outputs, steps=self.count)


MODELS = (
    Steps("MLP 64", MLP.format(width=64), [32, 64], [32, 64], 200, 20),
    Steps("MLP 512", MLP.format(width=512), [64, 512], [64, 512], 100, 2.5, 0.7),
    Steps("MLP 2048", MLP.format(width=2048), [64, 2048], [64, 2048], 20, 1.3, 0.7),
    Steps("LSTM 128", LSTM, [32, 20, 32], [32, 10], 30, 3.5),
    Steps("attention", ATTENTION, [16, 32, 64], [16, 32, 64], 50, 5),
    Steps("convolutions on 28 x 28", CONVOLUTIONS, [32, 28, 28, 1], [32, 10], 30, 1, 0.7),
    Steps(
        "convolutions with BatchNormalization on 32 x 32 x 64",
        NORMALIZED,
        [16, 32, 32, 64],
        [16, 10],
        15,
        1,
        0.7,
    ),
)

# Sixteen variables of 64 MiB. TensorFlow does not sync its output, so the benchmark does. Each is done twice
# and timed the second time: the first touches a gigabyte of new memory.
GIGABYTE = """
import os, time
root = tf.train.Checkpoint(v=[tf.Variable(tf.ones([4096, 4096])) for _ in range({count})])
directory = {directory!r}
def save():
    started = time.perf_counter()
    path = root.write(os.path.join(directory, "ckpt"))
    if {sync}:
        for name in os.listdir(directory):
            file = os.open(os.path.join(directory, name), os.O_RDONLY)
            os.fsync(file)
            os.close(file)
    return time.perf_counter() - started, path
def restore(path):
    started = time.perf_counter()
    root.read(path).assert_consumed()
    return time.perf_counter() - started
_, path = save()
for name in os.listdir(directory):
    os.unlink(os.path.join(directory, name))
seconds, path = save()
"""


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    if not scale.quick:
        yield from _steps(scale)
    for name, last in (
        ("save 1 GB / TensorFlow's save and sync", "print(seconds)"),
        ("restore 1 GB / TensorFlow's restore", "restore(path); print(restore(path))"),
    ):
        yield name, partial(_gigabyte, name, directory, last, scale)


def _steps(scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yield the rows of training, on a quiet machine and on a busy one; TensorFlow 2.15 runs eagerly."""
    what = "times as fast as TensorFlow"
    name = f"the guide's loop, 200 steps, {what}"
    yield name, partial(_in_turn, name, LOOP, 25, scale)
    for model in MODELS:
        name = f"{model.name}, {model.count} steps, {what}"
        yield name, partial(_in_turn, name, model.program, model.bar, scale)
    for model in MODELS:
        if model.loaded is not None:
            name = f"{model.name}, {model.count} steps, busy machine, {what}"
            yield name, partial(_while_busy, name, model.program, model.loaded, scale)


def _in_turn(name: str, program: str, bar: float, scale: Scale) -> Row:
    ours = python(RUNTIME + program)
    rival = tensorflow("import tensorflow as tf\n" + program, "2.15")
    return faster(name, lambda: printed(ours), lambda: printed(rival), bar, scale.heavy_rounds)


def _while_busy(name: str, program: str, bar: float, scale: Scale) -> Row:
    with busy():
        return _in_turn(name, program, bar, scale)


def _gigabyte(name: str, directory: str, last: str, scale: Scale) -> Row:
    ours, theirs = (os.path.join(directory, side) for side in ("ours", "theirs"))
    for made in (ours, theirs):
        os.makedirs(made, exist_ok=True)
    count = scale.of(16)
    mine = python(RUNTIME + GIGABYTE.format(directory=ours, sync=False, count=count) + last)
    rival = tensorflow(
        "import tensorflow as tf\n" + GIGABYTE.format(directory=theirs, sync=True, count=count) + last
    )
    return at_most(name, lambda: printed(mine), lambda: printed(rival), 1, scale.heavy_rounds)
