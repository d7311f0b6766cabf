"""Layers of given arguments and inputs: what they compute, differentiate, keep, and add to the loss."""

import numpy as np

_X = np.cos(np.arange(240.0) * 1.7).astype("f4")
_SHAPES = {"ROWS": (3, 4), "CUBE": (2, 3, 2), "IMAGE": (2, 4, 5, 2), "VIDEO": (1, 3, 4, 3, 2)}


def inputs_of(tf, kind):
    """Return the inputs of a kind: an array of its rank, several tensors, or numbers for a lookup."""
    name, _, extreme = kind.partition("_")
    if name == "NUMBERS":
        values = {"": [[1, 4], [0, 2]], "LOW": [[-1, 0]], "HIGH": [[5, 0]], "NONE": np.zeros((0, 2), "i4")}
        return tf.constant(values.get(extreme, [[1.7, 0.2]]))
    if name in ("PAIR", "TWICE"):
        x, y = _X[:12].reshape(2, 3, 2), _X[12:24].reshape(2, 3, 2)
        pairs = {
            "SPREAD": (x, y[:, :1]),
            "UNLIKE": (x, y[..., :1].repeat(3, -1)),
            "HALF": (x.astype("f2"), y),
        }
        return [tf.constant(one) for one in ([x] if extreme == "ONE" else pairs.get(extreme, (x, y)))]
    shape = _SHAPES[name]
    x = _X[: int(np.prod(shape))].reshape(shape).copy()
    if extreme == "NAN":
        x.flat[:3] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        changed = {
            "LARGE": x * 1e30, "NONE": x[:0], "HALF": x.astype("f2"), "INTEGERS": (x * 9).astype("i4"),
            "DOUBLE": x.astype("f8"), "FLAT": x[..., 0],
        }  # fmt: skip
    return tf.constant(changed.get(extreme, x))


def _called(layer, inputs, training):
    given = inputs if not hasattr(layer, "key_dim") and not hasattr(layer, "_key_dim") else tuple(inputs)
    if isinstance(given, tuple):
        return layer(*given, training=training)
    return layer(inputs, training=training)


def _sum(tf, outputs):
    leaves = [one for one in tf.nest.flatten(outputs) if one.dtype.is_floating]
    weights = [np.cos(np.arange(one.shape.num_elements()).reshape(one.shape)) for one in leaves]
    weighed = [tf.reduce_sum(one * tf.cast(w, one.dtype)) for one, w in zip(leaves, weights, strict=True)]
    return sum(tf.cast(one, tf.float32) for one in weighed) if weighed else None


def tried(tf, kind, make, second=False):
    """Return weights and losses of a layer, its outputs in both modes, and derivatives."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(3)
    layer, inputs = make(), inputs_of(tf, kind)
    watched = [one for one in tf.nest.flatten(inputs) if one.dtype.is_floating]
    outputs = _called(layer, inputs, False)
    initial = [[one.name, one.dtype.name, one.numpy()] for one in layer.weights]
    for number, weight in enumerate(layer.weights):
        size = int(np.prod(weight.shape))
        values = np.sin(np.arange(size) * 0.7 + number + 1).reshape(weight.shape)
        weight.assign(tf.cast(values * values if "variance" in weight.name else values, weight.dtype))
    trained = list(layer.trainable_weights)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(watched)
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = _called(layer, inputs, True)
            total = _sum(tf, outputs)
        gradients = tape.gradient(total, [*watched, *trained]) if total is not None else []
        if second:
            squares = sum(
                tf.reduce_sum(tf.convert_to_tensor(one) ** 2) for one in gradients if one is not None
            )
    if second:
        return list(outer.gradient(squares, [*watched, *trained], unconnected_gradients="zero"))
    limits = [one.constraint(one) if one.constraint is not None else None for one in layer.weights]
    moved = [one.numpy() for one in layer.non_trainable_weights]
    dense = [one if one is None else tf.convert_to_tensor(one) for one in gradients]
    losses = list(layer.losses)
    return [layer.name, initial, outputs, dense, losses, limits, moved, _called(layer, inputs, False)]
