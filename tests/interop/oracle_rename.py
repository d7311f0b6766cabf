"""TensorFlow restores renamed checkpoints into the renamed programs; run by TensorFlow's Python."""

from typing import Any, NamedTuple

import tensorflow as tf
from oracle_tensors import told


class Pair(NamedTuple):
    alpha: Any
    beta: Any


class Layer(tf.Module):
    """A layer whose attributes have the names given."""

    def __init__(self, **variables):
        super().__init__()
        for name, value in variables.items():
            setattr(self, name, value)


def _variable(shape, dtype=tf.float32):
    return tf.Variable(tf.zeros(shape, dtype))


def save_module(path):
    """A program with nesting, a list, a namedtuple, an alias and odd edge names."""
    shared = tf.Variable([7.0, 8.0])
    net = Layer(l1=Layer(kernel=tf.Variable([[1.0, 2.0]]), bias=tf.Variable([3.0])))
    checkpoint = tf.train.Checkpoint(
        net=net,
        blocks=[tf.Variable(4.0), tf.Variable(5.0)],
        pair=Pair(tf.Variable(10.0), tf.Variable(11.0)),
        one=shared,
        two=Layer(inner=shared),
        odd=tf.train.Checkpoint(**{"a.b/c": tf.Variable(6.0)}),
    )
    return checkpoint.save(path)


def restore_module(path, edges):
    """Restore into objects hung up as `edges` says, the parts of each path and a shape; return values."""
    leaves = {"/".join(parts): _variable(shape) for parts, shape in edges}
    roots = {}
    for parts, _ in edges:
        at = roots
        for part in parts[:-1]:
            at = at.setdefault(part, {})
        at[parts[-1]] = leaves["/".join(parts)]
    objects = {name: _objects(value) for name, value in roots.items()}
    checkpoint = tf.train.Checkpoint(**objects)
    status = checkpoint.restore(path)
    status.assert_existing_objects_matched()
    status.assert_consumed()
    return {name: told(leaf.numpy()) for name, leaf in leaves.items()}


def _objects(value):
    if not isinstance(value, dict):
        return value
    return tf.train.Checkpoint(**{name: _objects(child) for name, child in value.items()})


def _adam():
    legacy = getattr(tf.keras.optimizers, "legacy", None)
    return legacy.Adam(0.1)


def save_adam(path):
    """The legacy Adam after a step, with slots for two variables; only where Keras 2 is."""
    net = Layer(l1=Layer(kernel=tf.Variable([[1.0, 2.0]]), bias=tf.Variable([3.0])))
    optimizer = _adam()
    variables = [net.l1.kernel, net.l1.bias]
    optimizer.apply_gradients([(tf.ones_like(variable), variable) for variable in variables])
    return tf.train.Checkpoint(net=net, optimizer=optimizer).save(path)


def restore_adam(path):
    """Restore into `model.dense.{w,b}` with the optimizer at `opt`, everything consumed; values and slots."""
    model = Layer(dense=Layer(w=_variable([1, 2]), b=_variable([1])))
    optimizer = _adam()
    checkpoint = tf.train.Checkpoint(model=model, opt=optimizer)
    status = checkpoint.restore(path)
    variables = [model.dense.w, model.dense.b]
    optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in variables])
    status = checkpoint.restore(path)
    status.assert_existing_objects_matched()
    status.assert_consumed()
    values = {name: told(variable.numpy()) for name, variable in zip(("w", "b"), variables, strict=True)}
    for name, variable in zip(("w", "b"), variables, strict=True):
        for slot in ("m", "v"):
            values[f"{name}.{slot}"] = told(optimizer.get_slot(variable, slot).numpy())
    return values


def restore_iterator(path):
    """Restore a dataset's iterator hung up at `data`, and return what it yields next."""
    dataset = tf.data.Dataset.range(100)
    iterator = iter(dataset)
    checkpoint = tf.train.Checkpoint(data=iterator)
    checkpoint.restore(path).assert_consumed()
    return int(next(iterator))


def save_iterator(path):
    iterator = iter(tf.data.Dataset.range(100))
    for _ in range(7):
        next(iterator)
    return tf.train.Checkpoint(source=iterator).save(path)


def save_table(path):
    """A hash table, whose attribute's key is a prefix of two tensors' keys."""
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    return tf.train.Checkpoint(words=table).save(path)


def restore_table(path):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    tf.train.Checkpoint(vocabulary=table).restore(path).assert_consumed()
    return table.lookup(tf.constant(["a", "b", "c"])).numpy().tolist()


def _model():
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [tf.keras.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(2)]
    )
    model.compile(tf.keras.optimizers.Adam(), "mse")
    return model


def save_keras(path):
    """A trained model below an edge `model`; return the checkpoint's path and the weights."""
    model = _model()
    model.fit(tf.ones((8, 3)), tf.ones((8, 2)), verbose=0)
    saved = tf.train.Checkpoint(model=model).save(path)
    return [saved, [told(value) for value in model.get_weights()]]


def restore_keras(path):
    """Restore a model as the root itself; return its weights."""
    model = _model()
    model.fit(tf.zeros((8, 3)), tf.zeros((8, 2)), verbose=0)
    tf.train.Checkpoint(model).read(path).assert_existing_objects_matched()
    return [told(value) for value in model.get_weights()]


def restore_keras_below(path):
    """Restore a model below `deep/er`, all of the file consumed; return its weights."""
    model = _model()
    model.fit(tf.zeros((8, 3)), tf.zeros((8, 2)), verbose=0)
    checkpoint = tf.train.Checkpoint(deep=tf.train.Checkpoint(er=model))
    checkpoint.restore(path).assert_consumed()
    return [told(value) for value in model.get_weights()]
