"""Work is cut by its size alone, so that threads change nothing; convolutions are cut everywhere."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.runtime import parts
from ckpt_cli.runtime.ops import convolution, elementwise, rows
from ckpt_cli.runtime.ops.windows import Window, margins, places
from ckpt_cli.runtime.tensor import OPERATIONS as OP

if TYPE_CHECKING:
    from collections.abc import Callable

TRAINING = """
import hashlib
import ckpt_cli.runtime as tf
from ckpt_cli.runtime import parts
tf.random.set_seed(1)
layers = tf.keras.layers
net = tf.keras.Sequential([
    layers.Conv2D(32, 3, activation="relu"), layers.BatchNormalization(), layers.MaxPooling2D(),
    layers.Flatten(), layers.Dense(256, activation="relu"), layers.Dense(256),
])
x, optimizer = tf.random.normal([16, 16, 16, 16]), tf.keras.optimizers.Adam()
net.build([None, 16, 16, 16])
for number, variable in enumerate(net.trainable_variables):
    variable.assign(tf.random.normal(variable.shape, seed=number) * 0.1)
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x, training=True)))
    variables = net.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
digest = hashlib.sha256(b"".join(variable.numpy().tobytes() for variable in net.variables))
print(parts.THREADS, parts._helpers.cache_info().currsize > 0, digest.hexdigest())
"""


def trained(threads):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
    command = [sys.executable, "-c", TRAINING]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


def test_training_is_the_same_to_the_bit_on_any_number_of_threads():
    (one, _, first), (three, shared, second) = trained("1"), trained("3")
    assert (one, three) == ("1", "3")
    assert shared == "True"
    assert first == second


@pytest.fixture
def helpers(monkeypatch):
    """Use three threads on any machine."""
    monkeypatch.setattr(parts, "THREADS", 3)
    parts._helpers.cache_clear()
    yield
    parts._helpers.cache_clear()


@pytest.mark.usefixtures("helpers")
def test_every_part_is_done_once_and_by_several_threads():
    done, together = [], threading.Barrier(3, timeout=30)

    def work(part):
        if part < 3:
            together.wait()  # passes when three threads have a part each
        done.append(part)

    parts.share(work, [*range(3, 40), *range(3)])
    assert sorted(done) == list(range(40))


@pytest.mark.usefixtures("helpers")
def test_what_a_part_raises_is_raised_where_the_work_was_shared():
    def work(part):
        if part == 7:
            raise IndexError("part 7")

    for _ in range(3):
        with pytest.raises(IndexError, match="part 7"):
            parts.share(work, range(10))
    found = []
    parts.share(found.append, range(10))
    assert sorted(found) == list(range(10))


def interrupt_adam(monkeypatch, where, call):
    """Return an element's weight after a step that Ctrl-C met, all elements being equal."""
    variable, optimizer = tf.Variable(tf.ones([1 << 18])), tf.keras.optimizers.Adam(0.5)
    optimizer.apply_gradients([(tf.ones([1 << 18]), variable)])
    calls = itertools.count()
    original = getattr(where, call)

    def with_a_signal(*args):
        if next(calls) == 1 or call == "submit":
            signal.raise_signal(signal.SIGINT)
        return original(*args)

    monkeypatch.setattr(where, call, with_a_signal)
    with pytest.raises(KeyboardInterrupt):
        optimizer.apply_gradients([(tf.ones([1 << 18]), variable)])
    monkeypatch.undo()
    (value,) = np.unique(variable.numpy())
    assert len({len(np.unique(one.numpy())) for one in optimizer.variables}) == 1
    return value


@pytest.mark.usefixtures("helpers")
@pytest.mark.parametrize("_", range(20))
def test_an_interrupted_step_of_adam_is_whole(monkeypatch, _):
    """Ctrl-C comes while a large variable is changed in place, and the program saves it."""
    assert abs(interrupt_adam(monkeypatch, np, "square")) < 1e-4


@pytest.mark.usefixtures("helpers")
def test_a_step_of_adam_that_is_interrupted_before_it_begins_changes_nothing(monkeypatch):
    assert interrupt_adam(monkeypatch, parts.ThreadPoolExecutor, "submit") > 0.4


def test_cuts_cover_everything_once():
    for length, least in itertools.product((0, 1, 7, 100, 1000), (1, 3, 2000)):
        pieces = parts.cut(length, least)
        assert [at for piece in pieces for at in range(length)[piece]] == list(range(length))
        assert len(pieces) == 1 or min(len(range(length)[piece]) for piece in pieces) >= least


def plainly(x, kernel, window):
    """Return a convolution, window by window, in float64."""
    x, kernel = np.float64(x), np.float64(kernel)
    padded = np.pad(x, [(0, 0), *margins(x.shape[1:-1], window), (0, 0)])
    counts = places(x.shape[1:-1], window)
    out = np.zeros((len(x), *counts, kernel.shape[-1]))
    for at in np.ndindex(*counts):
        index = tuple(
            slice(place * stride, place * stride + reach, spread)
            for place, stride, reach, spread in zip(
                at, window.strides, window.reach, window.dilation, strict=True
            )
        )
        patch = padded[(slice(None), *index)]
        out[(slice(None), *at)] = np.tensordot(patch, kernel, kernel.ndim - 1)
    return out


WINDOWS = [
    Window(size, (stride,) * len(size), (spread,) * len(size), same)
    for size in ((1, 1), (3, 3), (2, 4), (3,), (2, 1, 3))
    for stride, spread in ((1, 1), (2, 1), (3, 1), (1, 2))
    for same in (False, True)
]


@pytest.mark.parametrize("elements", [1 << 18, 1])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_convolution_and_gradients_however_the_work_is_cut(monkeypatch, window, elements):
    monkeypatch.setattr(convolution, "_ELEMENTS", elements)
    monkeypatch.setattr(convolution, "_LEAST_WINDOWS", 1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, *(8, 9, 7)[: window.rank], 2)).astype(np.float32)
    kernel = rng.normal(size=(*window.size, 2, 3)).astype(np.float32)
    expected = plainly(x, kernel, window)
    weights = rng.normal(size=expected.shape).astype(np.float32)
    inputs = [tf.constant(x), tf.constant(kernel)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        out = OP["convolve"](*inputs, window=window)
        value = tf.reduce_sum(out * weights)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-5)
    # The product is linear in each of both, so a gradient's product with anything is a convolution's.
    other = [rng.normal(size=one.shape).astype(np.float32) for one in (x, kernel)]
    slopes = [
        np.sum(plainly(other[0], kernel, window) * weights),
        np.sum(plainly(x, other[1], window) * weights),
    ]
    for gradient, direction, slope in zip(tape.gradient(value, inputs), other, slopes, strict=True):
        assert gradient.dtype == tf.float32
        np.testing.assert_allclose(
            np.sum(np.float64(gradient.numpy()) * direction), slope, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "relu_back"])
@pytest.mark.parametrize("shape", [(40, 64, 128), (64, 128), (128,), (40, 1, 128), (1, 64, 1), ()])
def test_elements_are_the_same_however_many_are_done_at_a_time(monkeypatch, name, shape):
    rng = np.random.default_rng(0)
    x, y = (np.float32(rng.normal(size=one)) for one in ((40, 64, 128), shape))
    monkeypatch.setattr(rows, "LARGE", 1)
    parted = OP[name].forward(x, y)
    monkeypatch.setattr(rows, "LARGE", 1 << 60)
    whole = OP[name].forward(x, y)
    assert parted.dtype == whole.dtype == np.float32
    np.testing.assert_array_equal(parted, whole)
    np.testing.assert_array_equal(OP[name].forward(y, x), OP[name].forward(y * np.ones_like(x), x))


def test_sums_for_channels_are_those_of_float64(monkeypatch):
    monkeypatch.setattr(elementwise, "LARGE", 1)
    x = np.random.default_rng(0).normal(3, 1, (50, 60, 70)).astype(np.float32)
    bias = tf.Variable(tf.zeros([70]))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum((bias + x) * x)
    np.testing.assert_allclose(
        tape.gradient(value, bias).numpy(), np.sum(x, axis=(0, 1), dtype=np.float64), rtol=1e-6
    )


def test_freed_memory_stays_with_the_process():
    program = """
import resource
import ckpt_cli.runtime as tf
x = tf.ones([1 << 20])
def step():
    kept = [x + 1.0 for _ in range(8)]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 2000  # eight arrays of 4 MiB are 8,192 pages each time


@pytest.mark.parametrize("run", [parts.unbroken, lambda work: parts.share(lambda _: work(), range(4))])
def test_work_that_is_done_is_kept_by_no_thread(run: Callable[[Callable[[], object]], object]) -> None:
    """An array that a thread kept a moment longer was copied in the next step, and not changed in place."""
    kept = 0
    for _ in range(3000):
        array = np.ones(3)
        left = weakref.ref(array)
        run(lambda array=array: array.sum())
        del array
        kept += left() is not None
    assert kept == 0
