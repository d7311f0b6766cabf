"""The model of `oracle_optax.py` in Keras 3; run by TensorFlow's Python."""

import keras
from data_for_optax import RATE, drawn

_ADAM = ("Adam", {})
OPTIMIZERS = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adamw": ("AdamW", {"weight_decay": 0.01}),
    "adamax": ("Adamax", {}),
    "rmsprop": ("RMSprop", {}),
    "rmsprop momentum": ("RMSprop", {"momentum": 0.9}),
    "rmsprop centered": ("RMSprop", {"momentum": 0.9, "centered": True}),
    "schedule": ("RMSprop", {"momentum": 0.9}),
    "adagrad": ("Adagrad", {}),
    "adadelta": ("Adadelta", {}),
    "lion": ("Lion", {"learning_rate": RATE / 10}),
    "clip": ("SGD", {"momentum": 0.9, "global_clipnorm": 1.0}),
}


def _losses(model, steps):
    x, y, _ = drawn()
    losses = []
    for _ in range(steps):
        losses.append(float(model.test_on_batch(x, y)))
        model.train_on_batch(x, y)
    return losses


def trained(paths, steps):
    """Save one model for each name; return the next losses of each."""
    found = {}
    for name, path in paths.items():
        layers = [keras.layers.Dense(5, activation="tanh", name="d0"), keras.layers.Dense(3, name="d1")]
        model = keras.Sequential([keras.Input((6,)), *layers])
        kind, more = OPTIMIZERS.get(name, _ADAM)
        model.compile(getattr(keras.optimizers, kind)(**{"learning_rate": RATE, **more}), "mse")
        model.set_weights(drawn()[2])
        _losses(model, steps)
        model.save(path)
        found[name] = _losses(model, 3)
    return found


def gone_on(paths):
    """Return the step and the next losses of each model."""
    found = {}
    for name, path in paths.items():
        model = keras.saving.load_model(path)
        found[name] = [int(model.optimizer.iterations.numpy()), _losses(model, 3)]
    return found
