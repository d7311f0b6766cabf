"""Models of Keras trained for three steps and saved, and three steps more; run by TensorFlow's Python.

Then what PyTorch has saved after three of its own, for three steps more.

Gradients are drawn, and kept for PyTorch, which is given the very same.
Two kernels are square, and of one shape.
"""

import os

import h5py
import numpy as np
import tensorflow as tf

K = tf.keras
STEPS = 3


def _model():
    given = K.layers.Input([4])
    h = K.layers.Dense(4, name="a")(given)
    h = K.layers.Dense(4, name="b", use_bias=False)(h)
    h = K.layers.BatchNormalization(name="bn")(h)
    h = K.layers.Reshape([2, 2])(h)
    h = K.layers.Conv1D(3, 2, name="conv")(h)
    sequence = K.layers.Reshape([2, 2])(given)
    sequence = K.layers.GRU(4, return_sequences=True, name="gru")(sequence)
    sequence = K.layers.MultiHeadAttention(2, 2, name="mha")(sequence, sequence)
    return K.Model(given, K.layers.Concatenate()([K.layers.Flatten()(h), K.layers.Flatten()(sequence)]))


def _optimizer(family, name, settings):
    kept = K.optimizers.legacy if family == "legacy" else K.optimizers
    return getattr(kept, name)(**settings)


def _apply(optimizer, model, gradients):
    variables = model.trainable_variables
    optimizer.apply_gradients([(tf.constant(g), v) for g, v in zip(gradients, variables, strict=True)])


def trained(folder, cases, suffix):
    """Save `<number><suffix>`, and next to it `<number>.npz`: gradients and weights by name."""
    for number, (family, name, settings) in enumerate(cases):
        K.backend.clear_session()
        random = np.random.RandomState(number)
        model = _model()
        model.set_weights([random.uniform(0.2, 1, w.shape).astype("f") for w in model.get_weights()])
        model.compile(_optimizer(family, name, settings), "mse")
        if family != "legacy":
            model.optimizer.build(model.trainable_variables)
        drawn = [
            [random.randn(*v.shape).astype("f") * 0.3 for v in model.trainable_variables]
            for _ in range(2 * STEPS)
        ]
        for gradients in drawn[:STEPS]:
            _apply(model.optimizer, model, gradients)
        path = os.path.join(folder, f"{number}{suffix}")
        if suffix in ("", ".weights.h5"):  # only a whole model has the settings
            model.save_weights(path)
            model.save(os.path.join(folder, f"{number}_whole.h5"))
        else:
            model.save(path)
        for gradients in drawn[STEPS:]:
            _apply(model.optimizer, model, gradients)
        names = [getattr(v, "path", v.name).removesuffix(":0") for v in model.trainable_variables]
        arrays = {f"after/{n}": v.numpy() for n, v in zip(names, model.trainable_variables, strict=True)}
        for step, gradients in enumerate(drawn[STEPS:]):
            arrays |= {f"gradient/{step}/{n}": g for n, g in zip(names, gradients, strict=True)}
        np.savez(os.path.join(folder, f"{number}.npz"), **arrays)


def _loaded(path, optimizer, suffix):
    of_keras_3 = hasattr(K, "version")
    if suffix == ".keras" or (suffix == ".h5" and not of_keras_3):
        return K.models.load_model(path)
    model = _model()
    model.compile(optimizer, K.losses.MeanSquaredError())
    if hasattr(optimizer, "build"):
        optimizer.build(model.trainable_variables)
    model.load_weights(path)
    if suffix == ".h5":  # Keras 3 loads no optimizer from .h5, not even from its own
        with h5py.File(path) as file:
            group = file["optimizer_weights"]
            stored = [group[name][()] for name in group.attrs["weight_names"]]
        for variable, value in zip(optimizer.variables, stored, strict=True):
            variable.assign(value)
    return model


def gone_on(folder, cases, suffix):
    """Take three more steps from `<number>_back<suffix>`, which was made of a checkpoint of PyTorch's.

    `<number>_keras.npz` are the weights before and after them.
    """
    for number, (family, name, settings) in enumerate(cases):
        K.backend.clear_session()
        optimizer = _optimizer(family, name, settings)
        model = _loaded(os.path.join(folder, f"{number}_back{suffix}"), optimizer, suffix)
        names = [getattr(v, "path", v.name).removesuffix(":0") for v in model.trainable_variables]
        arrays = {f"before/{n}": v.numpy() for n, v in zip(names, model.trainable_variables, strict=True)}
        with np.load(os.path.join(folder, f"{number}.npz")) as drawn:
            for step in range(STEPS):
                _apply(model.optimizer, model, [drawn[f"gradient/{step}/{n}"] for n in names])
        assert int(model.optimizer.iterations) == 3 * STEPS, int(model.optimizer.iterations)
        arrays |= {f"after/{n}": v.numpy() for n, v in zip(names, model.trainable_variables, strict=True)}
        np.savez(os.path.join(folder, f"{number}_keras.npz"), **arrays)


def refused(folder):
    """Save models with what PyTorch has no equal of, `<name>.keras`."""
    schedule = K.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    given = K.layers.Input([3, 2])
    recurrent = K.Model(given, K.layers.LSTM(2, name="lstm")(given))
    made = {
        "lstm": (recurrent, K.optimizers.Adam()),
        "clipped": (_model(), K.optimizers.Adam(clipnorm=1.0)),
        "decayed": (_model(), K.optimizers.SGD(momentum=0.9, weight_decay=0.1)),
        "scheduled": (_model(), K.optimizers.SGD(schedule, momentum=0.9)),
        "other": (_model(), K.optimizers.Adadelta()),
        "averaged": (_model(), K.optimizers.Adam(use_ema=True)),
        "scaled": (_model(), K.optimizers.LossScaleOptimizer(K.optimizers.Adam())),
    }
    for name, (model, optimizer) in made.items():
        model.compile(optimizer, "mse")
        optimizer.build(model.trainable_variables)
        _apply(optimizer, model, [np.ones(v.shape, "f") for v in model.trainable_variables])
        model.save(os.path.join(folder, f"{name}.keras"))
