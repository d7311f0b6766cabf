"""Keras 3 on JAX that saves by its own OrbaxCheckpoint, and resumes; run by the Python of Orbax."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

STEPS = 3


def _data():
    draw = np.random.default_rng(7)
    return draw.normal(size=(16, 8, 8, 3)).astype("float32"), draw.normal(size=(16, 4)).astype("float32")


def _sequential():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, name="c"),
            layers.BatchNormalization(name="bn"),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(5, activation="tanh"),
            layers.Dense(4),
        ],
        name="main",
    )
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def _functional():
    layers = keras.layers
    start = keras.Input((8, 8, 3))
    hidden = layers.Dense(6, activation="relu", name="hidden")(layers.Flatten()(start))
    normal = layers.LayerNormalization(name="normal")(hidden)
    branch = layers.Dense(6, use_bias=False, name="branch")(normal)
    model = keras.Model(start, layers.Dense(4, name="end")(layers.Add()([normal, branch])))
    rate = keras.optimizers.schedules.ExponentialDecay(0.05, 2, 0.9)
    model.compile(keras.optimizers.SGD(rate, momentum=0.9, nesterov=True), "mse")
    return model


_BUILDERS = {"sequential": _sequential, "functional": _functional}


def _next_losses(model):
    return [float(np.ravel(model.train_on_batch(*_data()))[0]) for _ in range(STEPS)]


def trained(kind, run, file):
    """Train, save each epoch as a step of `run` and the end as `file`; return the next losses."""
    keras.utils.set_random_seed(3)
    keras.utils.clear_session()
    model = _BUILDERS[kind]()
    keeping = keras.callbacks.OrbaxCheckpoint(run, max_to_keep=None)
    model.fit(*_data(), batch_size=16, epochs=STEPS, callbacks=[keeping], verbose=0)
    model.save(file)
    return _next_losses(model)


def resumed_from_file(path):
    """Return the next losses of a model and optimizer that `path` describes."""
    return _next_losses(keras.saving.load_model(path))


def resumed_from_weights(kind, path):
    """Return the next losses of a new program that loads the weights and optimizer state of `path`.

    Keras finds the state of an optimizer by its name. A second optimizer of one program has a number in it.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(4)
    model = _BUILDERS[kind]()
    model.optimizer.build(model.trainable_variables)
    model.load_weights(path)
    return _next_losses(model)
