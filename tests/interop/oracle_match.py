"""Restores as TensorFlow judges them; run by TensorFlow's Python, and by the tests for the names alone."""

import tensorflow as tf


def _variable(shape=(2,), dtype="float32", name=None):
    return tf.Variable(tf.zeros(shape, dtype), name=name)


def _shared():
    v = _variable()
    return tf.train.Checkpoint(a=v, b=v)


def _trained(make):
    v = _variable()
    optimizer = make()
    optimizer.apply_gradients([(tf.ones([2]), v)])
    return tf.train.Checkpoint(v=v, optimizer=optimizer)


def _legacy():
    return tf.keras.optimizers.legacy


PLAIN = {
    "pair": lambda: tf.train.Checkpoint(a=_variable(), b=_variable()),
    "one": lambda: tf.train.Checkpoint(a=_variable()),
    "other": lambda: tf.train.Checkpoint(c=_variable(), b=_variable()),
    "shared": _shared,
    "shape": lambda: tf.train.Checkpoint(a=_variable((3,)), b=_variable()),
    "dtype": lambda: tf.train.Checkpoint(a=_variable(dtype="float64"), b=_variable()),
    "deep": lambda: tf.train.Checkpoint(a=tf.train.Checkpoint(b=_variable())),
    "listed": lambda: tf.train.Checkpoint(a=[_variable(), _variable()], b={"k": _variable()}),
    "longer": lambda: tf.train.Checkpoint(a=[_variable(), _variable(), _variable()], b={}),
    "empty": lambda: tf.train.Checkpoint(a=[], b={}),
}
OPTIMIZERS = {
    "weights": lambda: tf.train.Checkpoint(v=_variable()),
    "sgd": lambda: _trained(lambda: _legacy().SGD(0.1)),
    "momentum": lambda: _trained(lambda: _legacy().SGD(0.1, momentum=0.9)),
    "adam": lambda: _trained(lambda: _legacy().Adam(0.1)),
    "untrained": lambda: tf.train.Checkpoint(v=_variable(), optimizer=_legacy().Adam(0.1)),
    "newer": lambda: _trained(lambda: tf.keras.optimizers.Adam(0.1)),
}


def save(names, directory):
    """Save programs; return their paths by name."""
    makers = PLAIN | OPTIMIZERS
    return {name: makers[name]().save(f"{directory}/{name}") for name in names}


def verdicts(names, paths):
    """Return, for each pair of checkpoint and program, whether the two assertions hold."""
    makers = PLAIN | OPTIMIZERS
    return [[one, other, *_verdict(paths[one], makers[other]())] for one in names for other in names]


def _verdict(path, program):
    try:
        status = program.restore(path).expect_partial()
    except (ValueError, tf.errors.InvalidArgumentError):
        return [False, False]
    found = []
    for check in (status.assert_consumed, status.assert_existing_objects_matched):
        try:
            check()
            found.append(True)
        except AssertionError:
            found.append(False)
    return found


def by_name(path, shapes):
    """Restore a name-based checkpoint into variables of these names; return whether the assertion holds."""
    variables = {f"v{i}": _variable(shape, name=name) for i, (name, shape) in enumerate(shapes.items())}
    program = tf.train.Checkpoint(**variables)
    target = tf.train.Checkpoint(**variables).save(f"{path}.target")
    return [target, *_verdict(path, program)]
