"""TensorFlow reads a rescued checkpoint; run by TensorFlow's Python."""

import tensorflow as tf


class _Net(tf.Module):
    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.reshape(tf.range(12.0), (3, 4)))
        self.bias = tf.Variable([0.5, 0.25, 0.0, 1.0])


def _program():
    net = _Net()
    optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
    return net, optimizer, tf.train.Checkpoint(net=net, optimizer=optimizer, step=tf.Variable(0))


def _train(net, optimizer):
    optimizer.minimize(lambda: tf.reduce_sum((net.kernel - 1.0) ** 2) + tf.reduce_sum(net.bias**2))


def _values(net, optimizer, checkpoint):
    variables = {"kernel": net.kernel, "bias": net.bias}
    found = {"step": checkpoint.step, **variables}
    for name, variable in variables.items():
        found |= {f"{name}/{slot}": optimizer.get_slot(variable, slot) for slot in ("m", "v")}
    return {name: None if value is None else value.numpy().tolist() for name, value in found.items()}


def save(prefixes):
    """Train and write a checkpoint after each step; what each of them holds."""
    net, optimizer, checkpoint = _program()
    found = []
    for prefix in prefixes:
        _train(net, optimizer)
        checkpoint.step.assign_add(1)
        checkpoint.write(prefix)
        found.append(_values(net, optimizer, checkpoint))
    return found


def restore(prefix):
    """Restore a checkpoint into a new program whose slots are there; its values, and what the status says."""
    net, optimizer, checkpoint = _program()
    _train(net, optimizer)
    status = checkpoint.read(prefix)
    try:
        status.assert_existing_objects_matched()
        matched = True
    except AssertionError:
        matched = False
    read = tf.train.load_checkpoint(prefix)
    keys = sorted(read.get_variable_to_shape_map())
    for key in keys:
        read.get_tensor(key)
    return {"values": _values(net, optimizer, checkpoint), "matched": matched, "keys": keys}
