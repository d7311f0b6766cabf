"""Random numbers as TensorFlow draws them."""

import tensorflow as tf


def draw(method, state, count, dtype, bounds):
    """Return numbers, floats as float64, and the state after them."""
    generator = tf.random.Generator.from_state(state, alg="philox")
    drawn = getattr(generator, method)([count], *bounds, dtype=dtype)
    values = tf.cast(drawn, "float64").numpy() if drawn.dtype.is_floating else drawn.numpy()
    return values.tolist(), generator.state.numpy().tolist()
