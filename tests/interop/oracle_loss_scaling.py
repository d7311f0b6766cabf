"""Train a model of half precision within a LossScaleOptimizer, and continue; run by TensorFlow's Python."""

import numpy as np
import tensorflow as tf

keras = tf.keras
IS_KERAS_3 = hasattr(keras, "version")
STEPS, SCALE, GROWTH = 6, 2.0**12, 4
FILES = ("model.keras", "model.weights.h5", "model.h5")


def _program(optimizer, legacy):
    set_policy = keras.config.set_dtype_policy if IS_KERAS_3 else keras.mixed_precision.set_global_policy
    set_policy("mixed_float16")
    try:
        keras.utils.set_random_seed(1)
        keras.backend.clear_session()
        kept = keras.optimizers.legacy if legacy else keras.optimizers
        wrap = keras.optimizers if IS_KERAS_3 else keras.mixed_precision
        inner = {"adam": lambda: kept.Adam(0.02), "momentum": lambda: kept.SGD(0.05, momentum=0.9)}[optimizer]
        layers = [keras.layers.Dense(4, "tanh", name="a"), keras.layers.Dense(4, name="b")]
        model = keras.Sequential([keras.layers.Input([4]), *layers], name="net")
        scaled = wrap.LossScaleOptimizer(inner(), initial_scale=SCALE, dynamic_growth_steps=GROWTH)
        model.compile(scaled, "mse")
        return model
    finally:
        set_policy("float32")


def _losses(model, steps):
    random = np.random.RandomState(0)
    x, y = random.randn(8, 4).astype("f"), random.randn(8, 4).astype("f")
    return [float(np.ravel(model.train_on_batch(x, y))[0]) for _ in range(steps)]


def trained(folder, optimizer, legacy=False):
    """Save in each form, an object graph of the model too; return the next losses."""
    model = _program(optimizer, legacy)
    _losses(model, STEPS)
    for name in FILES:
        (model.save_weights if "weights" in name else model.save)(f"{folder}/{name}")
    _graph(model).write(f"{folder}/graph")
    return _losses(model, 3)


def _graph(model):
    return tf.train.Checkpoint(model)


def gone_on(path, optimizer, legacy=False):
    """Return the count of steps, the loss scale, its count, and the next losses of what is restored."""
    model = _program(optimizer, legacy)
    _losses(model, 1)
    if path.endswith(".weights.h5"):
        model.load_weights(path)
    else:
        _graph(model).read(path).assert_existing_objects_matched()
    scaled = model.optimizer
    steps = scaled.step_counter if IS_KERAS_3 else scaled.dynamic_counter
    scale = scaled.dynamic_scale if IS_KERAS_3 else scaled.loss_scale
    numbers = [int(np.asarray(scaled.iterations)), float(np.asarray(scale)), int(np.asarray(steps))]
    return [numbers, _losses(model, 3)]
