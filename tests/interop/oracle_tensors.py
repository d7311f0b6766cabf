"""TensorFlow reads bundles and V1 checkpoints, by each of its functions; run by TensorFlow's Python.

A tensor is `[dtype, shape, digest]`; tests.support computes the same digest.
"""

import hashlib
import struct

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def digest(array):
    found = hashlib.sha256()
    if array.dtype == object:
        for element in array.reshape(-1):
            data = element if isinstance(element, bytes) else str(element).encode()
            found.update(struct.pack("<Q", len(data)) + data)
    else:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def told(value, dtype=None):
    """Return a tensor as the answer has it."""
    array = np.asarray(value)
    if array.dtype.kind == "S":
        array = np.array(value, dtype=object)
    return [tf.as_dtype(dtype or array.dtype).name, list(array.shape), digest(array)]


def by_reader(path):
    """tf.train.load_checkpoint: every tensor it lists."""
    reader = tf.train.load_checkpoint(path)
    dtypes = reader.get_variable_to_dtype_map()
    return {key: told(reader.get_tensor(key), dtypes[key]) for key in reader.get_variable_to_shape_map()}


def listed(path):
    """tf.train.load_checkpoint: dtypes and shapes of all tensors."""
    reader = tf.train.load_checkpoint(path)
    dtypes = reader.get_variable_to_dtype_map()
    return {key: [dtypes[key].name, shape] for key, shape in reader.get_variable_to_shape_map().items()}


def by_restore(path, wanted):
    """The RestoreV2 operation: `[key, slice spec, dtype]` each."""
    out = []
    for key, spec, dtype in wanted:
        (value,) = tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=[key], shape_and_slices=[spec], dtypes=[tf.as_dtype(dtype)]
        )
        out.append(None if dtype == "variant" else told(value.numpy(), dtype))
    return out


def by_old_restore(path, wanted):
    """The Restore operation of V1 checkpoints: `[key, dtype]` each."""
    return [
        told(tf.raw_ops.Restore(file_pattern=path, tensor_name=key, dt=tf.as_dtype(dtype)).numpy(), dtype)
        for key, dtype in wanted
    ]


def by_saver(path, variables, parts=None):
    """tf.compat.v1.train.Saver.restore into variables of a graph: `{name: [dtype, shape]}`.

    `parts` partitions the variables it names into that many along dimension 0.
    """
    out = {}
    with tf.Graph().as_default(), v1.Session() as session:
        made = {}
        for name, (dtype, shape) in variables.items():
            partitioner = v1.fixed_size_partitioner((parts or {})[name]) if name in (parts or {}) else None
            made[name] = v1.get_variable(
                name,
                shape,
                tf.as_dtype(dtype),
                v1.zeros_initializer(),
                partitioner=partitioner,
                use_resource=False,
            )
        v1.train.Saver().restore(session, path)
        for name, variable in made.items():
            value = variable.as_tensor() if name in (parts or {}) else variable
            out[name] = told(session.run(value), variables[name][0])
    return out


def _tree(node):
    """Return trackable objects as nested dicts describe them; `[dtype, shape]` is a variable."""
    if isinstance(node, list):
        return tf.Variable(tf.zeros(node[1], node[0]))
    module = tf.Module()
    for name, child in node.items():
        setattr(module, name, _tree(child))
    return module


def _leaves(node, path, out):
    if isinstance(node, tf.Variable):
        out[path] = told(node.numpy(), node.dtype)
    else:
        for name, child in vars(node).items():
            if isinstance(child, (tf.Variable, tf.Module)):
                _leaves(child, f"{path}/{name}" if path else name, out)


def by_objects(path, tree, later=False):
    """tf.train.Checkpoint.restore into objects, all of the checkpoint used; values by object path.

    With `later` the objects are attached after restoring, which then happens object by object.
    """
    objects = {name: _tree(child) for name, child in tree.items() if name != "save_counter"}
    checkpoint = tf.train.Checkpoint(**({} if later else objects))
    status = checkpoint.restore(path)
    for name, child in objects.items() if later else ():
        setattr(checkpoint, name, child)
    status.assert_existing_objects_matched()
    status.assert_consumed()
    out = {"save_counter": told(checkpoint.save_counter.numpy())}
    for name, child in objects.items():
        _leaves(child, name, out)
    return out
