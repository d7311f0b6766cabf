"""The runtime against TensorFlow: a training step of the guide's loop, saving and restoring a gigabyte.

Both sides run the same program, which prints its seconds; starting up is not counted.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.harness import ROOT, Row, at_most, faster, printed, python, tensorflow

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

# Sixteen variables of 64 MiB.  TensorFlow does not sync what it writes, so that is done for it.  Each is
# done twice and timed the second time: the first touches a gigabyte of new memory, whoever asks for it.
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
    name = "the guide's loop, 200 steps, times as fast as TensorFlow eager"
    if not scale.quick:
        yield name, partial(_loop, name, scale)
    for name, last in (
        ("save 1 GB / TensorFlow's save and sync", "print(seconds)"),
        ("restore 1 GB / TensorFlow's restore", "restore(path); print(restore(path))"),
    ):
        yield name, partial(_gigabyte, name, directory, last, scale)


def _loop(name: str, scale: Scale) -> Row:
    rival = tensorflow("import tensorflow as tf\n" + LOOP)
    return faster(
        name, lambda: printed(python(RUNTIME + LOOP)), lambda: printed(rival), 3, scale.heavy_rounds
    )


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
