"""Restores one program's checkpoint into another; unique values show what was restored.

Programs are models whose layers all have the same shape, so only a variable's name and position identify it.
Run by TensorFlow's Python.
"""

import numpy as np
import tensorflow as tf

_WIDTH, _FIRST = 3, 1000
_SLOTS = {
    "adam": {"m": "_momentums", "v": "_velocities"},
    "sgd": {"momentum": "momentums"},
    "legacy_adam": {"m": "m", "v": "v"},
    "legacy_sgd": {"momentum": "momentum"},
    "none": {},
}
"""How each optimizer calls its slots, by what they mean."""


def _optimizer(kind):
    module = tf.keras.optimizers.legacy if kind.startswith("legacy_") else tf.keras.optimizers
    if kind == "none":
        return None
    return module.Adam(0.1) if kind.endswith("adam") else module.SGD(0.1, momentum=0.9)


class _Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (tf.keras.layers.Dense(_WIDTH) for _ in range(3))

    def call(self, x):
        return self.third(self.second(self.first(x)))


def _sequential():
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Input((_WIDTH,)), *(layers.Dense(_WIDTH) for _ in range(3))])


class Program:
    """A model and its optimizer, all built; `tag` makes its values different from another program's."""

    def __init__(self, name, tag):
        layout, model, self.kind = name.split("-")
        # The layers are called dense, dense_1, dense_2, or dense_1, dense_2, dense_3, or what comes next.
        if tag % 3:
            tf.keras.backend.clear_session()
        if tag % 3 == 1:
            tf.keras.layers.Dense(1)
        self.model = _Subclassed() if model == "subclassed" else _sequential()
        self.model(np.zeros([1, _WIDTH], "f4"))
        self.optimizer = _optimizer(self.kind)
        self.step = tf.Variable(0, dtype=tf.int64)
        if self.optimizer is not None:
            self.model.compile(self.optimizer, "mse")
            gradients = [tf.ones_like(v) for v in self.model.trainable_variables]
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        parts = {"model": self.model, "step": self.step}
        if self.optimizer is not None:
            parts["optimizer"] = self.optimizer
        roots = {
            "bare": lambda: tf.train.Checkpoint(self.model),
            "full": lambda: tf.train.Checkpoint(**parts),
        }
        self.checkpoint = roots[layout]()
        for number, variable in enumerate(self._variables()):
            variable.assign(np.full(variable.shape, _FIRST * (tag + 1) + number))

    def _variables(self):
        own = self.optimizer.variables if self.optimizer is not None else []
        return [*self.model.variables, *(own() if callable(own) else own), self.step]

    def slots(self):
        """Return the value of each slot by its meaning and the number of its variable."""
        found = {}
        for meaning, name in _SLOTS[self.kind].items():
            for number, variable in enumerate(self.model.trainable_variables):
                if self.kind.startswith("legacy_"):
                    slot = self.optimizer.get_slot(variable, name)
                else:
                    slot = getattr(self.optimizer, name)[number]
                found[f"{meaning} {number}"] = float(np.ravel(slot)[0])
        return found

    def weights(self):
        """Return the values of the model's variables, in the order of the model."""
        return [float(np.ravel(variable)[0]) for variable in self.model.variables]

    def iterations(self):
        """Return how many steps the optimizer has made, None where there is no optimizer."""
        return int(self.optimizer.iterations) if self.optimizer is not None else None


def _values(path):
    """Return keys by the values that programs gave to variables; others, as rates, are not unique."""
    reader = tf.train.load_checkpoint(path)
    numbers = [key for key, dtype in reader.get_variable_to_dtype_map().items() if dtype != tf.string]
    values = {key: float(np.ravel(reader.get_tensor(key))[0]) for key in numbers}
    return {value: key for key, value in values.items() if value >= _FIRST}


def save(names, how, directory):
    """Save programs by `save`, `write` or `save_weights`; return by name the path and what is in it."""
    found = {}
    for number, name in enumerate(names):
        program = Program(name, number)
        path = f"{directory}/{how}-{name}"
        if how == "save":
            path = program.checkpoint.save(path)
        elif how == "save_weights":
            program.model.save_weights(path)
        else:
            program.checkpoint.write(path)
        told = {"slots": program.slots(), "weights": program.weights(), "iterations": program.iterations()}
        found[name] = {"name": name, "path": path, **told}
    return found


def restore(path, name, how, directory):
    """Restore a checkpoint into a new program; return what TensorFlow asserts, and what is where."""
    program = Program(name, 1_000)
    try:
        if how == "load_weights":
            status = program.model.load_weights(path)
        else:
            status = getattr(program.checkpoint, how)(path).expect_partial()
    except (ValueError, NotImplementedError, AssertionError, tf.errors.InvalidArgumentError) as error:
        return {"fails": str(error), "weights": program.weights()}
    verdicts = [_holds(status.assert_consumed), _holds(status.assert_existing_objects_matched)]
    theirs, after = _values(path), _values(program.checkpoint.write(f"{directory}/after"))
    restored = sorted([after[value], theirs[value]] for value in after.keys() & theirs.keys())
    told = {"slots": program.slots(), "weights": program.weights(), "iterations": program.iterations()}
    return {"verdicts": verdicts, "restored": restored, **told}


def _holds(check):
    try:
        check()
    except AssertionError:
        return False
    return True
