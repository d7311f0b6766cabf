"""Expressions that TensorFlow and the runtime both evaluate and differentiate; x, y, z, i are tensors."""

import numpy as np

X = np.array([[0.9, -1.3, 0.4], [-0.2, 1.7, -0.6]])
VALUES = {
    "x": X,
    "y": np.array([[1.1, 0.7, 2.3]]),
    "z": np.arange(1.0, 13.0).reshape(2, 3, 2) / 5,
    "i": np.array([2, 0, 1]),
    "image": np.cos(np.arange(2 * 5 * 6 * 3) * 1.3).reshape(2, 5, 6, 3),
    "kernel": np.sin(np.arange(3 * 2 * 3 * 4) * 0.9).reshape(3, 2, 3, 4),
}

EXPRESSIONS = """
x + y ; x - y ; x * y ; x / y ; x // y ; x % y ; y ** x ; -x ; abs(x) ; 2 - x ; 3 / y ; x[:, 1:]
x[..., None, 0] ; x[1] ; x[:, ::-1] ; tf.maximum(x, y) ; tf.minimum(x, 0.5) ; tf.where(x > 0, x, y)
tf.square(x) ; tf.sqrt(y) ; tf.exp(x) ; tf.math.log(y) ; tf.math.log1p(y) ; tf.math.expm1(x) ; tf.sin(x)
tf.cos(x) ; tf.tan(x) ; tf.tanh(x) ; tf.sigmoid(x) ; tf.math.softplus(x) ; tf.math.erf(x) ; tf.math.rsqrt(y)
tf.sign(x) ; tf.floor(x) ; tf.round(x) ; tf.math.atan2(x, y) ; tf.math.squared_difference(x, y)
tf.math.divide_no_nan(x, y) ; tf.math.reciprocal(x) ; tf.reduce_sum(x) ; tf.reduce_sum(z, axis=[0, 2])
tf.reduce_mean(z, axis=1, keepdims=True) ; tf.reduce_max(x, 0) ; tf.reduce_min(x, 1) ; tf.reduce_prod(y, 1)
tf.reduce_logsumexp(x, 1) ; tf.math.reduce_variance(x, 0) ; tf.math.reduce_std(x, 1) ; tf.norm(x)
tf.norm(x, axis=1) ; tf.cumsum(x, axis=1, exclusive=True, reverse=True) ; tf.nn.softmax(x)
tf.nn.log_softmax(x, axis=0) ; tf.nn.relu(x) ; tf.nn.elu(x) ; tf.nn.selu(x) ; tf.nn.gelu(x)
tf.nn.gelu(x, approximate=True) ; tf.nn.leaky_relu(x) ; tf.nn.swish(x) ; tf.nn.softsign(x)
tf.nn.l2_loss(x) ; tf.matmul(x, z) ; tf.matmul(x, y, transpose_b=True) ; tf.tensordot(x, z, [[1], [1]])
tf.tensordot(x, y, [[1], [1]]) ; tf.einsum('ij,bjk->bik', x, z) ; tf.einsum('...j,...j->...', x, y)
tf.linalg.matvec(x, y[0]) ; x @ tf.transpose(y) ; tf.reshape(z, [4, -1]) ; tf.transpose(z, [2, 0, 1])
tf.transpose(x) ; tf.expand_dims(x, 1) ; tf.squeeze(y, 0) ; tf.concat([x, y], 0)
tf.stack([x, x * 2], axis=1) ; tf.unstack(x, axis=1)[1] ; tf.split(x, [1, 2], axis=1)[1]
tf.unstack(y)[0] ; tf.unstack(z[:, :1], axis=1)[0] ; tf.split(z, 1, axis=1)[0] ; tf.concat([z], 1)
tf.tile(x, [2, 1]) ; tf.repeat(x, 2, axis=1) ; tf.pad(x, [[1, 0], [0, 2]]) ; tf.gather(x, i, axis=1)
tf.reverse(x, [1]) ; tf.broadcast_to(y, [2, 3]) ; tf.gather_nd(x, [[0, 1], [1, 2]])
tf.boolean_mask(x, x > 0) ; tf.clip_by_value(x, -1, 1) ; tf.clip_by_norm(x, 1.0)
tf.clip_by_global_norm([x, y], 1.0)[0][1] ; tf.stop_gradient(x) * x ; tf.identity(x)
tf.nn.sparse_softmax_cross_entropy_with_logits(i[:2], x)
tf.nn.softmax_cross_entropy_with_logits(abs(x), x)
tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid(x * 2), logits=x) ; tf.nn.moments(z, [0, 1])[1]
tf.nn.conv2d(image, kernel, 1, 'SAME') ; tf.nn.conv2d(image, kernel, [2, 1], 'VALID')
tf.nn.max_pool2d(image, 2, 2, 'SAME') ; tf.nn.avg_pool2d(image, 3, 2, 'SAME')
tf.nn.depthwise_conv2d(image, kernel, [1, 1, 1, 1], 'SAME')
tf.nn.max_pool2d(image, [3, 2], [1, 2], 'VALID') ; tf.cast(x, tf.float32)
tf.one_hot(i, 4, dtype=tf.float64) ; tf.argmax(x, 1) ; tf.argmin(x, 0) ; tf.sort(x, axis=1)
tf.argsort(x, axis=1) ; tf.shape(z) ; tf.size(z) ; tf.rank(z) ; tf.zeros_like(x) ; tf.ones_like(i)
tf.eye(2, 3) ; tf.range(3, 10, 2) ; tf.range(5.) ; tf.linspace(0., 1., 5) ; tf.fill([2], 7)
tf.zeros([2, 2], tf.int32) ; tf.ones([3]) ; tf.equal(i, 1) ; tf.logical_and(x > 0, y > 1)
tf.reduce_any(x > 1, 1) ; tf.reduce_all(x < 2) ; tf.where(x > 0) ; tf.constant([[1, 2]], shape=[2, 1])
tf.constant(2, shape=[3]) ; tf.meshgrid(x[0], y[0], x[1])[0] ; tf.meshgrid(x[0], y[0])[1]
tf.math.is_nan(x / 0.) ; i // 2 ; i % 2 ; -i // 2 ; i / 2 ; tf.reduce_mean(i) ; i[i[0]]
tf.convert_to_tensor([1, 2.5]) ; tf.math.floormod(x, 1.)
"""
TEXTS = [text.strip() for line in EXPRESSIONS.split("\n") for text in line.split(" ; ") if text.strip()]


def evaluate(tf, text):
    """Return a value's dtype, shape and elements, and the gradients of its weighted sum if there are any."""
    tensors = {name: tf.constant(value) for name, value in VALUES.items()}
    watched = [tensors[name] for name in VALUES if tensors[name].dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        value = eval(text, {"tf": tf, **tensors})
        total = None
        if value.dtype.is_floating:
            weights = np.cos(np.arange(int(np.prod(value.shape))) + 1.0).reshape(value.shape)
            total = tf.reduce_sum(value * tf.cast(tf.constant(weights), value.dtype))
    gradients = [None] * len(watched) if total is None else tape.gradient(total, watched)
    told = [value.dtype.name, list(value.shape), np.asarray(value.numpy()).ravel().tolist()]
    return [told, [None if g is None else np.asarray(g.numpy()).ravel().tolist() for g in gradients]]
