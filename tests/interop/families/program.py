"""A program that trains a small model: what all families have in common.  Imported by TensorFlow's Python."""

import os

import numpy as np
import tensorflow as tf
from tensorflow.python.checkpoint.graph_view import ObjectGraphView

keras = tf.keras
IS_KERAS_3 = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 16)

FAMILIES = {}
"""By name: the function that returns a new program of the family."""


def family(only=None):
    """Register a builder under its name; `only` is the generation that has what it builds."""

    def register(build):
        if only is None or (only == 3) == IS_KERAS_3:
            assert build.__name__ not in FAMILIES
            FAMILIES[build.__name__] = build
        return build

    return register


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype("f")


class Program:
    """A compiled model with the one batch that it is trained on."""

    def __init__(self, model, x, y=None, *, optimizer, loss=None, **compiled):
        self.model, self.x = model, x
        self._first = {}
        self.y = numbers(8, 2, seed=7) if y is None else y
        self._compiled = {"loss": loss or keras.losses.MeanSquaredError(), **compiled}
        model(as_batch(x))  # which builds it
        if optimizer is not None:
            self._compile(keras.optimizers.get(optimizer))

    def _compile(self, optimizer):
        self.model.compile(optimizer=optimizer, run_eagerly=True, **self._compiled)
        without_xla(self.model.optimizer)

    def replace_model(self, loaded):
        """Continue with a loaded model; if it is not compiled, it gets a new optimizer of this program."""
        if getattr(loaded, "optimizer", None) is None:
            optimizer = type(self.model.optimizer).from_config(self.model.optimizer.get_config())
            self.model = loaded
            self._compile(optimizer)
        else:
            self.model = loaded
            loaded.run_eagerly = True
            without_xla(loaded.optimizer)

    def step(self):
        """Train on the batch once and return the loss before."""
        self.model.reset_metrics()
        return float(np.ravel(self.model.train_on_batch(as_batch(self.x), self.y))[0])

    def train(self, steps):
        return [self.step() for _ in range(steps)]

    def outputs(self):
        return np.asarray(
            tf.cast(tf.nest.flatten(self.model(as_batch(self.x), training=False))[0], tf.float32)
        )

    def build_optimizer(self):
        build_optimizer(self.model.optimizer, self.model.trainable_variables)

    def tracked(self):
        """Return what tf.train.Checkpoint is made of."""
        return {"model": self.model, "optimizer": self.model.optimizer}

    def variables(self):
        """Return the variables of the model that hold numbers."""
        weights = (each for each in self.model.weights if hasattr(each, "dtype"))  # no table of words
        return [each for each in weights if tf.as_dtype(each.dtype) not in NO_NUMBERS]

    def weights(self):
        return [np.asarray(tf.cast(each, tf.float32)) for each in self.variables()]

    # The values that a file restores, bit for bit.

    def is_all_variables(self):
        """Whether the state is in variables alone: what adapts to data has tables or constants."""
        return not any(hasattr(layer, "adapt") for layer in self.model._flatten_layers())

    def _all_variables(self):
        """Return everything that is tracked, and legacy optimizers' slots, but metrics."""
        tracked = self.tracked()
        root = tf.train.Checkpoint(**tracked)  # the view has only a weak reference to it
        found = ObjectGraphView(root).breadth_first_traversal()[0]
        for each in tracked.values():
            own = getattr(each, "variables", ())
            found += [getattr(one, "_value", one) for one in (own() if callable(own) else own)]
        counted = {
            id(variable) for metric in getattr(self.model, "metrics", ()) for variable in metric.variables
        }
        unique = {id(each): each for each in found if isinstance(each, tf.Variable)}
        return [
            each for each in unique.values() if id(each) not in counted and "save_counter" not in each.name
        ]

    def state(self):
        return [np.asarray(each) for each in self._all_variables()]

    def spoil(self):
        """Give all variables the same other values each time: those that are not loaded are noticed."""
        for each in self._all_variables():
            if tf.as_dtype(each.dtype) not in (*NO_NUMBERS, tf.bool):
                each.assign(self._first.setdefault(id(each), each + tf.ones_like(each)))

    def settings(self):
        """Return the configurations of the optimizers, whose numbers may be of a variable."""
        kept = {}
        for name, each in self.tracked().items():
            if hasattr(each, "learning_rate"):
                kept[name] = repr(each.get_config())
        return kept


NO_NUMBERS = (tf.string, tf.resource, tf.variant)


def without_xla(optimizer):
    """Keras 2 compiles the step of each variable by default, which takes longer than all the rest."""
    for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
        if getattr(each, "jit_compile", False):
            each.jit_compile = False


def build_optimizer(optimizer, variables):
    if hasattr(optimizer, "build"):
        optimizer.build(variables)
    elif hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights(variables)


def as_batch(x):
    """Strings go in as tensors."""
    if isinstance(x, (list, tuple)):
        return [as_batch(each) for each in x]
    return tf.constant(x) if x.dtype.kind in "OSU" else x


# Forms: how a program saves itself, and takes up what it finds in a file. ------------------------------


def _save_tf(program, path):
    tf.train.Checkpoint(**program.tracked()).write(path)


def _read_tf(program, path):
    return tf.train.Checkpoint(**program.tracked()).restore(path)


def _save_tfw(program, path):
    if IS_KERAS_3:
        tf.train.Checkpoint(program.model).write(path)
    else:
        program.model.save_weights(path, save_format="tf")


def _read_tfw(program, path):
    if IS_KERAS_3:
        return tf.train.Checkpoint(program.model).restore(path)
    return program.model.load_weights(path)


def _save_whole(program, path):
    program.model.save(path)


def _read_keras(program, path):
    program.replace_model(keras.models.load_model(path))


def _read_h5(program, path):
    """Keras 3 does not restore the optimizer of a .h5 file: it builds it without variables."""
    program.replace_model(keras.models.load_model(path, compile=not IS_KERAS_3))


def _save_weights(program, path):
    program.model.save_weights(path)


def _read_weights(program, path):
    program.model.load_weights(path)


FORMS = {
    "tf": ("ckpt", _save_tf, _read_tf, "built"),
    "tfw": ("saved", _save_tfw, _read_tfw, "built"),
    "h5w": ("weights.h5", _save_weights, _read_weights, "trained"),
    "wh5": ("model.weights.h5", _save_weights, _read_weights, "trained"),
    "keras": ("model.keras", _save_whole, _read_keras, "made"),
    "h5": ("model.h5", _save_whole, _read_h5, "made"),
}
"""By form: the name of the file, how it is saved, how it is read, and how far a program is that reads it.

A trained one reads as in a session in which one loads again.  Keras 3 takes the optimizer out of the model's
own configuration as it writes a .h5: that is the last.
"""


def path_of(folder, form):
    return os.path.join(folder, FORMS[form][0])


def load(program, form, path):
    """Have a new program read a file; return its weights from before, and what TensorFlow says of reading."""
    _, _, read, stage = FORMS[form]
    if stage == "built":
        program.build_optimizer()
    elif stage == "trained":
        program.train(1)
    before = program.weights() if stage == "built" else None
    return before, read(program, path)
