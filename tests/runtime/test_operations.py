"""Gradients are what central differences say, for every operation that has a rule."""

from __future__ import annotations

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from ckpt_cli.runtime.ops.windows import Window
from ckpt_cli.runtime.tensor import OPERATIONS as OP

RNG = np.random.default_rng(3)


def away_from_zero(*shape):
    """Return values whose neighbourhood has no kink: nowhere near zero, no two nearly alike."""
    size = int(np.prod(shape))
    values = RNG.permutation(np.linspace(0.3, 2.3, size)) * RNG.choice([-1.0, 1.0], size)
    return values.reshape(shape)


def positive(*shape):
    return np.abs(away_from_zero(*shape))


def inside(*shape):
    return away_from_zero(*shape) / 3


WINDOW = Window((2, 2), (1, 2), (1, 1), True)
DENSE = Window((2, 2), (1, 1), (1, 2), True)
IMAGE, KERNEL = away_from_zero(2, 3, 4, 2), away_from_zero(2, 2, 2, 3)
POOLED = OP["max_pool"](IMAGE, window=WINDOW).numpy()
SAME = {"axis": 1, "keepdims": False}
INDICES = np.array([[0, 2], [1, 1]])
# Name, inputs in float64, which of them have a gradient, attributes.
CASES = {
    "add": ([away_from_zero(2, 3), away_from_zero(3)], {}),
    "subtract": ([away_from_zero(3, 1), away_from_zero(1, 2)], {}),
    "multiply": ([away_from_zero(2, 3), away_from_zero(2, 1)], {}),
    "divide": ([away_from_zero(2, 3), away_from_zero(3)], {}),
    "divide_no_nan": ([away_from_zero(2, 3), away_from_zero(3)], {}),
    "floormod": ([np.array([5.3, -3.1, 7.7]), np.array([2.0])], {}),
    "pow": ([positive(2, 3), away_from_zero(3)], {}),
    "maximum": ([away_from_zero(2, 3), away_from_zero(2, 3)], {}),
    "minimum": ([away_from_zero(2, 3), away_from_zero(3)], {}),
    "squared_difference": ([away_from_zero(2, 3), away_from_zero(3)], {}),
    "atan2": ([away_from_zero(2, 3), away_from_zero(3)], {}),
    "select": ([np.array([[True, False, True]]), away_from_zero(2, 3), away_from_zero(1, 3)], {}),
    "cast": ([away_from_zero(3)], {"dtype": np.dtype(np.float64)}),
    "leaky_relu": ([away_from_zero(2, 3)], {"alpha": 0.3}),
    "leaky_relu_back": ([away_from_zero(2, 3), away_from_zero(2, 3)], {"alpha": 0.3}),
    "multiply_no_nan": ([away_from_zero(2, 3), away_from_zero(1, 3)], {}),
    "others": ([away_from_zero(2, 3)], {"axis": 1}),
    "sum_like": ([away_from_zero(2, 3), np.zeros((1, 3))], {}),
    "broadcast_like": ([away_from_zero(1, 3), np.zeros((2, 3))], {}),
    "expand_like": ([away_from_zero(2), np.zeros((2, 3))], SAME),
    "mean_back": ([away_from_zero(2), np.zeros(2), np.zeros((2, 3))], SAME),
    "reduce_sum": ([away_from_zero(2, 3)], SAME),
    "reduce_mean": ([away_from_zero(2, 3)], {"axis": None, "keepdims": False}),
    "reduce_prod": ([away_from_zero(2, 3)], SAME),
    "reduce_max": ([away_from_zero(2, 3)], SAME),
    "reduce_min": ([away_from_zero(2, 3)], {"axis": (0, 1), "keepdims": True}),
    "reduce_logsumexp": ([away_from_zero(2, 3)], SAME),
    "cumsum": ([away_from_zero(2, 3)], {"axis": 1, "exclusive": True, "reverse": True}),
    "softmax": ([away_from_zero(2, 3)], {"axis": -1}),
    "log_softmax": ([away_from_zero(2, 3)], {"axis": 0}),
    "slice": ([away_from_zero(3, 4)], {"index": (slice(0, 2), None, slice(None, None, 2))}),
    "slice_back": ([away_from_zero(2, 4), np.zeros((3, 4))], {"index": slice(1, 3)}),
    "reshape": ([away_from_zero(2, 3)], {"shape": (3, -1)}),
    "reshape_like": ([away_from_zero(2, 3), np.zeros(6)], {}),
    "flatten_batch": ([away_from_zero(2, 3, 2)], {}),
    "expand_dims": ([away_from_zero(2, 3)], {"axis": 1}),
    "squeeze": ([away_from_zero(2, 1)], {"axis": 1}),
    "transpose": ([away_from_zero(2, 3, 2)], {"perm": (2, 0, 1)}),
    "reverse": ([away_from_zero(2, 3)], {"axis": (1,)}),
    "broadcast_to": ([away_from_zero(1, 3)], {"shape": (2, 3)}),
    "concat": ([away_from_zero(2, 1), away_from_zero(2, 2)], {"axis": 1}),
    "stack": ([away_from_zero(2), away_from_zero(2)], {"axis": -1}),
    "split": ([away_from_zero(2, 3)], {"sizes": (1, 2), "axis": 1}),
    "split_like": ([away_from_zero(2, 3), np.zeros((2, 1)), np.zeros((2, 2))], {"axis": 1}),
    "unstack": ([away_from_zero(2, 3)], {"axis": 1}),
    "tile": ([away_from_zero(2, 3)], {"multiples": (1, 2)}),
    "tile_back": ([away_from_zero(2, 6), np.zeros((2, 3))], {"multiples": (1, 2)}),
    "pad": ([away_from_zero(2, 3)], {"paddings": ((0, 1), (2, 0)), "mode": "constant", "value": 0}),
    "pad_back": (
        [away_from_zero(4, 5), np.zeros((2, 3))],
        {"paddings": ((1, 1), (2, 0)), "mode": "symmetric"},
    ),
    "gather": ([away_from_zero(2, 3), INDICES], {"axis": 1}),
    "gather_back": ([away_from_zero(2, 2, 2), np.zeros((2, 3)), INDICES], {"axis": 1}),
    "dense_rows": ([away_from_zero(3, 2), np.array([0, 2, 0]), np.array([4, 2])], {}),
    "gathered_rows": ([away_from_zero(2, 2, 3), INDICES, np.zeros((3, 3))], {}),
    "gather_nd": ([away_from_zero(2, 3), np.array([[0, 1], [1, 1], [0, 1]])], {}),
    "gather_nd_back": ([away_from_zero(2), np.zeros((2, 3)), np.array([[0, 1], [1, 1]])], {}),
    "matmul": ([away_from_zero(2, 4, 3), away_from_zero(3, 2)], {}),
    "dense": ([away_from_zero(2, 4, 3), away_from_zero(3, 2), away_from_zero(2)], {}),
    "einsum": ([away_from_zero(2, 3), away_from_zero(3, 4)], {"equation": "ij,jk->ki"}),
    "windows": ([away_from_zero(1, 3, 4, 2)], {"window": WINDOW, "fill": 0.0}),
    "windows_back": ([away_from_zero(1, 3, 2, 2, 2, 1), np.zeros((1, 3, 4, 1))], {"window": WINDOW}),
    "max_pool": ([IMAGE], {"window": WINDOW}),
    "max_pool_back": ([away_from_zero(2, 3, 2, 2), IMAGE, POOLED], {"window": WINDOW}),
    "max_pool_pick": ([away_from_zero(2, 3, 4, 2), IMAGE, POOLED], {"window": WINDOW}),
    "convolve": ([IMAGE, KERNEL], {"window": WINDOW}),
    "convolve_back": ([away_from_zero(2, 3, 2, 3), KERNEL, IMAGE], {"window": WINDOW}),
    "convolve_onto": ([away_from_zero(2, 3, 4, 3), KERNEL], {"window": DENSE, "image": (3, 4)}),
    "convolve_kernel": ([IMAGE, away_from_zero(2, 3, 2, 3)], {"window": WINDOW}),
    "normalize": ([IMAGE, away_from_zero(2), away_from_zero(2)], {"epsilon": 0.1, "is_fused": True}),
    "normalize_back": (
        [
            away_from_zero(4, 2),
            *(away_from_zero(2) for _ in "ab"),
            away_from_zero(4, 2),
            away_from_zero(2),
            positive(2),
            away_from_zero(2),
        ],
        {"epsilon": 0.1, "is_fused": True},
    ),
    "relu_back": ([away_from_zero(2, 3), away_from_zero(2, 3)], {}),
    "abs_back": ([away_from_zero(2, 3), away_from_zero(2, 3)], {}),
    "cross_entropy": ([away_from_zero(2, 3), np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])], {}),
    "take_along": ([away_from_zero(2, 3), np.array([[2, 0], [1, 1]])], {"axis": 1}),
    "put_along": ([away_from_zero(2, 2), np.zeros((2, 3)), np.array([[2, 0], [1, 1]])], {"axis": 1}),
    "sparse_cross_entropy": ([away_from_zero(2, 3), np.array([2, 0])], {}),
    "rsqrt": ([positive(2, 3)], {}),
    "sqrt": ([positive(2, 3)], {}),
    "log": ([positive(2, 3)], {}),
    "log1p": ([positive(2, 3)], {}),
    "asin": ([inside(2, 3)], {}),
    "acos": ([inside(2, 3)], {}),
    "tan": ([inside(2, 3)], {}),
    "roll": ([away_from_zero(2, 3)], {"shift": (1, -1), "axis": (0, 1)}),
    "cumprod": ([away_from_zero(2, 3)], {"axis": 1, "exclusive": True, "reverse": True}),
    "band_part": ([away_from_zero(3, 3)], {"lower": 1, "upper": 0}),
    "diag_part": ([away_from_zero(3, 3)], {}),
    "inv": ([away_from_zero(2, 2) + 3 * np.eye(2)], {}),
    "det": ([away_from_zero(2, 2, 2)], {}),
    "scattered": ([away_from_zero(2, 3), np.array([[1], [1]])], {"shape": (2, 3)}),
    "tensor_scatter": ([away_from_zero(3), away_from_zero(2), np.array([[2], [0]])], {"how": "update"}),
    "segments": ([away_from_zero(3, 2), np.array([1, -1, 1])], {"count": 2}),
    "pooled": ([away_from_zero(3, 2), np.array([1, -1, 1]), np.zeros(2)], {}),
    "segments_back": ([away_from_zero(2, 2), np.array([1, -1, 1])], {}),
}
CONSTANTS = {"held"}
"""Operations whose gradient is 0 where that of their value is not."""
UNDERIVED = {"cholesky", "eigh", "qr", "svd"}
"""Operations whose gradients are rejected by name."""
PLAIN = [
    name
    for name, op in OP.items()
    if len(op.rules) == 1 and op.rules[0] and name not in CASES.keys() | CONSTANTS | UNDERIVED
]
CASES |= {name: ([away_from_zero(2, 3)], {}) for name in PLAIN}


def differentiable(name):
    """Return the positions of the inputs that have a gradient."""
    operation, (inputs, _) = OP[name], CASES[name]
    return [
        at
        for at in range(len(inputs))
        if operation.variadic or operation.joint or (at < len(operation.rules) and operation.rules[at])
    ]


def total(name, inputs):
    """Return the outputs' elements weighted differently and summed, so that each has a say."""
    attributes = CASES[name][1]
    outputs = OP[name](*inputs, **attributes)
    parts = outputs if isinstance(outputs, tuple) else (outputs,)
    weights = [np.cos(np.arange(part._value.size) + 1.0).reshape(part.shape) for part in parts]
    return sum(tf.reduce_sum(part * weight) for part, weight in zip(parts, weights, strict=True))


def by_differences(function, inputs, at, step=1e-6):
    out = np.zeros_like(inputs[at])
    for index in np.ndindex(out.shape):
        values = []
        for sign in (1, -1):
            moved = [np.array(one) for one in inputs]
            moved[at][index] += sign * step
            values.append(float(function(moved)))
        out[index] = (values[0] - values[1]) / (2 * step)
    return out


def test_every_rule_is_tried():
    with_rules = {name for name, op in OP.items() if any(op.rules)}
    assert with_rules == set(CASES) | CONSTANTS | UNDERIVED


@pytest.mark.parametrize("name", sorted(UNDERIVED))
def test_gradients_that_are_missing_are_rejected_by_name(name):
    x = tf.constant([[2.0, 0.5], [0.5, 1.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = OP[name](x)
    with pytest.raises(NotImplementedError, match=f"the gradient of {name} is not supported"):
        tape.gradient(found, x)


@pytest.mark.parametrize("name", sorted(CASES))
def test_gradient_is_that_of_central_differences(name):
    inputs = [np.array(one) for one in CASES[name][0]]
    for at in differentiable(name):
        tensors = [tf.constant(one) for one in inputs]
        with tf.GradientTape() as tape:
            tape.watch(tensors[at])
            value = total(name, tensors)
        found = tape.gradient(value, tensors[at]).numpy()
        expected = by_differences(lambda moved: total(name, moved), inputs, at)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7, err_msg=f"{name}, input {at}")


# The gradient of a step is a constant zero, which leads nowhere.
NOT_TWICE = {"sign"}


@pytest.mark.parametrize("name", sorted(set(CASES) - NOT_TWICE))
def test_second_gradient_is_that_of_central_differences(name):
    """The rules are operations, so a tape around a tape differentiates them."""
    inputs = [np.array(one) for one in CASES[name][0]]
    at = differentiable(name)[0]

    def slope(values):
        tensors = [one if hasattr(one, "numpy") else tf.constant(one) for one in values]
        with tf.GradientTape() as tape:
            tape.watch(tensors[at])
            value = total(name, tensors) ** 2
        gradient = tape.gradient(value, tensors[at])
        return tf.reduce_sum(gradient * np.sin(np.arange(inputs[at].size) + 1.0).reshape(inputs[at].shape))

    tensors = [tf.constant(one) for one in inputs]
    with tf.GradientTape() as outer:
        outer.watch(tensors[at])
        value = slope(tensors)
    expected = by_differences(slope, inputs, at)
    np.testing.assert_allclose(outer.gradient(value, tensors[at]).numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_gradient_of_a_product_with_transposes(transpose_a, transpose_b):
    a, b = away_from_zero(2, 3, 4), away_from_zero(4, 5)
    a, b = (a.swapaxes(1, 2) if transpose_a else a), (b.T if transpose_b else b)

    def product(values):
        return tf.reduce_sum(tf.matmul(*values, transpose_a=transpose_a, transpose_b=transpose_b) ** 2)

    tensors = [tf.constant(a), tf.constant(b)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = product(tensors)
    for at, found in enumerate(tape.gradient(value, tensors)):
        np.testing.assert_allclose(found.numpy(), by_differences(product, [a, b], at), rtol=1e-6)


class TestTape:
    def test_watches_trainable_variables_alone(self):
        v, frozen = tf.Variable(2.0), tf.Variable(3.0, trainable=False)
        with tf.GradientTape() as tape:
            y = v * v * frozen
        assert [one.name for one in tape.watched_variables()] == ["Variable:0"]
        assert [None if g is None else g.numpy() for g in tape.gradient(y, [v, frozen])] == [12.0, None]

    def test_watches_nothing_by_default(self):
        v = tf.Variable(2.0)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            y = v * v
        assert tape.gradient(y, v) is None
        x = tf.constant(3.0)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            y = x * x * v
        assert tape.gradient(y, x).numpy() == 12.0

    def test_once_unless_persistent(self):
        x = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            y = x * x
        tape.gradient(y, x)
        with pytest.raises(RuntimeError, match="can only be used to compute one set of gradients"):
            tape.gradient(y, x)
        with tf.GradientTape(persistent=True) as tape:
            y = x * x
            z = y * y
        assert tape.gradient(z, x).numpy() == 108.0
        assert tape.gradient(y, x).numpy() == 6.0

    def test_nested(self):
        x = tf.Variable(2.0)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = x**3
            first = inner.gradient(y, x)
        assert first.numpy() == 12.0
        assert outer.gradient(first, x).numpy() == 12.0

    def test_structures_and_lists_of_targets(self):
        x, y = tf.Variable(2.0), tf.Variable(3.0)
        with tf.GradientTape() as tape:
            targets = [x * y, y * y]
        found = tape.gradient(targets, {"x": x, "rest": (y,)})
        assert found["x"].numpy() == 3.0
        assert found["rest"][0].numpy() == 8.0

    def test_unconnected_sources(self):
        x, y = tf.Variable(2.0), tf.Variable([3.0, 4.0])
        with tf.GradientTape(persistent=True) as tape:
            z = x * x
        assert tape.gradient(z, y) is None
        zero = tape.gradient(z, y, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        assert zero.numpy().tolist() == [0.0, 0.0]

    def test_stop_gradient_and_stop_recording(self):
        x = tf.Variable(2.0)
        with tf.GradientTape(persistent=True) as tape:
            y = x * tf.stop_gradient(x)
            with tape.stop_recording():
                z = x * x
        assert tape.gradient(y, x).numpy() == 2.0
        assert tape.gradient(z, x) is None

    def test_reading_before_an_assignment_keeps_what_was_read(self):
        x = tf.Variable(2.0)
        with tf.GradientTape() as tape:
            y = x * x
            x.assign(5.0)
            y = y + x
        assert y.numpy() == 9.0
        assert tape.gradient(y, x).numpy() == 5.0

    def test_jacobian(self):
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = tf.stack([x[0] * x[1], x[1] ** 2, x[0]])
        assert tape.jacobian(y, x).numpy().tolist() == [[2.0, 1.0], [0.0, 4.0], [1.0, 0.0]]

    def test_gradient_with_output_gradients(self):
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = x * x
        found = tape.gradient(y, x, output_gradients=tf.constant([1.0, 10.0]))
        assert found.numpy().tolist() == [2.0, 40.0]


class TestDtypes:
    def test_python_numbers_are_float32_and_int32(self):
        assert tf.constant(1.5).dtype == tf.float32
        assert tf.constant(1).dtype == tf.int32
        assert tf.constant(2**40).dtype == tf.int64
        assert tf.constant([True]).dtype == tf.bool
        assert tf.constant("a").dtype == tf.string
        assert tf.constant(np.float64(1.5)).dtype == tf.float64

    def test_a_python_number_takes_the_tensors_dtype(self):
        assert (tf.constant(1.0, tf.float64) * 2).dtype == tf.float64
        assert (3 - tf.constant([1], tf.int64)).dtype == tf.int64

    def test_two_dtypes_do_not_mix(self):
        message = "expected to be a float32 tensor but is a int32 tensor"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            tf.constant(1.0) + tf.constant(1)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Cannot convert 1\.5"):
            tf.constant(1) + 1.5
        with pytest.raises(TypeError, match=r"Cannot convert 1\.5"):
            tf.constant(1) * 1.5

    @pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64, tf.int32])
    @pytest.mark.parametrize("size", [2, 400])
    def test_products_keep_the_dtype(self, dtype, size):
        x = tf.ones([size, size], dtype)
        product = x @ x
        assert product.dtype == dtype
        assert product.numpy().tolist() == [[size] * size] * size

    def test_shapes_that_do_not_fit(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="matmul"):
            tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="could not be broadcast"):
            tf.zeros([2]) + tf.zeros([3])

    def test_integers_divide_as_tensorflows_do(self):
        assert (tf.constant(7) / 2).dtype == tf.float64
        assert (tf.constant(-7) // 2).numpy() == -4
        assert (tf.constant(-7) % 3).numpy() == 2
        assert tf.reduce_sum(tf.constant([1, 2])).dtype == tf.int32

    def test_dtypes_equal_their_names(self):
        assert tf.float32 == "float32"
        assert tf.float32 == np.float32
        assert tf.float32 != tf.float64
        assert tf.as_dtype("half") is tf.float16
        assert repr(tf.int64) == "tf.int64"


class TestTensors:
    def test_shows_as_tensorflow_does(self):
        assert repr(tf.constant([1.0, 2.0])) == (
            "<tf.Tensor: shape=(2,), dtype=float32, numpy=array([1., 2.], dtype=float32)>"
        )
        assert str(tf.constant(0.1)) == "tf.Tensor(0.1, shape=(), dtype=float32)"
        assert repr(tf.constant(0.1)) == "<tf.Tensor: shape=(), dtype=float32, numpy=0.1>"
        assert repr(tf.zeros([2, 3]).shape) == "TensorShape([2, 3])"

    def test_is_a_number_where_it_is_one(self):
        assert int(tf.constant(3)) == 3
        assert f"{tf.constant(1.5):.2f}" == "1.50"
        assert [10, 20][tf.constant(1)] == 20
        assert bool(tf.constant(0.0)) is False

    def test_equality_is_by_element_and_hashing_by_reference(self):
        x = tf.constant([1, 2])
        assert (x == [1, 3]).numpy().tolist() == [True, False]
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)
        assert {x.ref(): 1}[x.ref()] == 1

    def test_numpy_and_tensors_mix(self):
        out = np.ones(2, np.float32) + tf.ones([2])
        assert isinstance(out, tf.Tensor)
        assert np.asarray(tf.ones([2])).sum() == 2

    def test_a_returned_value_is_not_shared(self):
        x = tf.ones([2])
        x.numpy()[:] = 7
        assert x.numpy().tolist() == [1.0, 1.0]
        with pytest.raises(TypeError, match="item assignment"):
            x[0] = 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(2, 3), (1,), ()])
def test_means_are_of_the_values_dtype(dtype, shape):
    x = tf.cast(tf.fill(shape, 3.0), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        mean = tf.reduce_mean(x)
    gradient = tape.gradient(mean, x)
    assert mean.dtype == gradient.dtype == x.dtype
    assert complex(np.asarray(mean, complex)) == 3
    np.testing.assert_allclose(np.asarray(gradient, complex), np.full(shape, 1 / x._value.size), 1e-2)


@pytest.mark.parametrize("name", ["abs", "relu"])
def test_second_gradients_are_zeros_and_not_missing(name):
    """As TensorFlow has it: what else a program adds to them is not lost."""
    x = tf.constant([1.0, -2.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = OP[name](x)
        slope = tape.gradient(y, x)
    np.testing.assert_array_equal(outer.gradient(slope, x), [0, 0])


def test_a_dense_layer_takes_no_weights_of_another_dtype():
    layer = tf.keras.layers.Dense(2)
    layer.build([None, 3])
    layer.kernel = tf.Variable(np.ones((3, 2)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="the kernel float64"):
        layer(tf.ones([1, 3]))


def blas_threads():
    from ckpt_cli.runtime import parts

    return parts.one_thread._get()


def test_products_of_a_program_of_its_own_keep_their_threads(monkeypatch):
    """OpenBLAS has one thread while the runtime computes, and as many as before when it is done."""
    from ckpt_cli.runtime import parts

    if parts.one_thread._get() == 1:
        parts.one_thread._set(2)
    before, seen = blas_threads(), []
    product = np.matmul
    monkeypatch.setattr(
        np, "matmul", lambda *args, **kwargs: seen.append(blas_threads()) or product(*args, **kwargs)
    )
    x = tf.ones([600, 600])
    tf.matmul(x, x)
    tf.matmul(tf.ones([3, 64, 64]), tf.ones([3, 64, 64]))
    assert set(seen) == {1}
    assert blas_threads() == before
    with parts.one_thread, parts.one_thread:
        assert blas_threads() == 1
    with pytest.raises(ZeroDivisionError):
        parts.share(lambda part: 1 / part, [0])
    assert blas_threads() == before
