"""The program of TensorFlow's checkpoint guide: a small model, its data, its loop.

One Dense layer learns five straight lines, y = 5x + k, from ten points.  Every tenth
step is saved, and the three latest checkpoints stay.  `ckpt demo` trains with it.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from .checkpoint import Checkpoint
from .data.dataset import Dataset
from .functions import abs as absolute
from .functions import range as numbers
from .functions import reduce_mean
from .keras import Model, layers, optimizers
from .keras.backend import clear_session
from .keras.utils import set_random_seed
from .manager import CheckpointManager
from .tape import GradientTape
from .variable import Variable

__all__ = ["Net", "Training", "toy_dataset", "train", "train_step"]

_STEPS = 50
_STEPS_BETWEEN_SAVES = 10
_SEED = 1


class Net(Model):
    """A simple linear model."""

    def __init__(self) -> None:
        super().__init__()
        self.l1 = layers.Dense(5)

    def call(self, x: Any) -> Any:
        return self.l1(x)


def toy_dataset() -> Dataset:
    inputs = numbers(10.0)[:, None]
    labels = inputs * 5.0 + numbers(5.0)[None, :]
    return Dataset.from_tensor_slices({"x": inputs, "y": labels}).repeat().batch(2)


def train_step(net: Net, example: Any, optimizer: Any) -> Any:
    """Train `net` on `example` using `optimizer`; return the loss."""
    with GradientTape() as tape:
        loss = reduce_mean(absolute(net(example["x"]) - example["y"]))
    variables = net.trainable_variables
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return loss


class Training(NamedTuple):
    """The result of a run: the names of its checkpoints, and the loss of the last step."""

    checkpoints: tuple[str, ...]
    steps: int
    loss: float


def train(directory: str, learning_rate: float) -> Training:
    """Train from the same first values each time, saving into a directory.

    The optimizer has the legacy layout, whose slot variables are edges of the object graph.
    """
    clear_session()
    set_random_seed(_SEED)
    net, optimizer = Net(), optimizers.legacy.Adam(learning_rate)
    iterator = iter(toy_dataset())
    step = Variable(1)
    checkpoint = Checkpoint(step=step, optimizer=optimizer, net=net, iterator=iterator)
    manager = CheckpointManager(checkpoint, directory, max_to_keep=3)
    loss: Any = None
    for _ in range(_STEPS):
        loss = train_step(net, next(iterator), optimizer)
        step.assign_add(1)
        if int(step) % _STEPS_BETWEEN_SAVES == 0:
            manager.save()
    return Training(tuple(os.path.basename(path) for path in manager.checkpoints), _STEPS, float(loss))
