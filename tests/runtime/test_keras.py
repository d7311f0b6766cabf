"""Layers and models: when variables are made, what they are called, how weights are saved; initializers."""

from __future__ import annotations

import math
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest

import ckpt_cli.runtime as tf

DATA = pathlib.Path(__file__).parents[1] / "data"
ROOT = DATA.parents[1]
K, L = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _fresh_names():
    K.backend.clear_session()
    tf.random.set_seed(5)


def names(variables):
    return [variable.name for variable in variables]


class TestBuilding:
    def test_variables_are_made_on_the_first_call(self):
        layer = L.Dense(3)
        assert layer.variables == []
        assert not layer.built
        assert layer(np.ones((2, 4))).shape == (2, 3)
        assert names(layer.variables) == ["dense/kernel:0", "dense/bias:0"]
        assert layer.built
        assert layer.count_params() == 15

    def test_build_by_hand(self):
        layer = L.Dense(3, use_bias=False)
        layer.build((None, 4))
        assert names(layer.weights) == ["kernel:0"]
        assert layer.bias is None

    def test_names_within_models(self):
        class Inner(K.Model):
            def __init__(self):
                super().__init__()
                self.d = L.Dense(2)

            def call(self, x):
                return self.d(x)

        class Outer(K.Model):
            def __init__(self):
                super().__init__(name="outer")
                self.one, self.two = Inner(), Inner()

            def call(self, x):
                return self.two(self.one(x))

        model = Outer()
        model(tf.ones([1, 2]))
        assert names(model.weights)[::2] == ["outer/inner/dense/kernel:0", "outer/inner_1/dense_1/kernel:0"]
        assert [layer.name for layer in model.layers] == ["inner", "inner_1"]
        assert len(model.submodules) == 4

    def test_a_width_that_changed(self):
        layer = L.Dense(3)
        layer(tf.ones([1, 4]))
        with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 4"):
            layer(tf.ones([1, 5]))

    def test_own_layers_with_their_own_weights(self):
        class Scale(L.Layer):
            def build(self, shape):
                self.factor = self.add_weight("factor", [shape[-1]], initializer="ones")
                self.count = self.add_weight("count", [], initializer="zeros", trainable=False)

            def call(self, x, training=None):
                if training:
                    self.count.assign_add(1.0)
                return x * self.factor

        layer = Scale()
        layer(tf.ones([1, 2]))
        layer(tf.ones([1, 2]), training=True)
        assert float(layer.count) == 1.0
        assert names(layer.trainable_weights) == ["scale/factor:0"]
        assert names(layer.non_trainable_weights) == ["scale/count:0"]
        layer.trainable = False
        assert layer.trainable_weights == []
        assert names(layer.weights) == ["scale/factor:0", "scale/count:0"]

    def test_training_is_inherited(self):
        model = K.Sequential([L.Dropout(0.5), L.Dense(1, kernel_initializer="ones")])
        x = tf.ones([1, 1000])
        assert float(model(x)[0, 0]) == 1000.0
        assert float(model(x, training=True)[0, 0]) not in (0.0, 1000.0)

    def test_sequential_knows_its_shape_or_learns_it(self):
        early = K.Sequential([L.Dense(2, input_shape=(3,)), L.Dense(1)])
        assert names(early.weights) == [
            "dense/kernel:0",
            "dense/bias:0",
            "dense_1/kernel:0",
            "dense_1/bias:0",
        ]
        late = K.Sequential([L.Dense(2), L.Dense(1)])
        with pytest.raises(ValueError, match="have not yet been created"):
            _ = late.trainable_variables
        late.build((None, 3))
        assert len(late.weights) == 4
        assert late.get_layer("dense_2") is late.layers[0]

    def test_a_shared_layer_is_counted_once(self):
        x = K.Input([3])
        shared = L.Dense(3)
        model = K.Model(x, shared(shared(x)) + x)
        assert len(model.trainable_variables) == 2
        out = model(tf.ones([2, 3]))
        np.testing.assert_allclose(out, shared(shared(tf.ones([2, 3]))) + 1, rtol=1e-6)

    def test_several_inputs_and_outputs(self):
        a, b = K.Input([2], name="a"), K.Input([3], name="b")
        joined = L.Concatenate()([a, b])
        model = K.Model([a, b], {"sum": L.Add()([joined, joined]), "both": joined})
        out = model([tf.ones([1, 2]), tf.zeros([1, 3])])
        assert out["sum"].numpy().tolist() == [[2.0, 2.0, 0.0, 0.0, 0.0]]
        assert model({"a": tf.ones([1, 2]), "b": tf.zeros([1, 3])})["both"].shape == (1, 5)
        assert model.output_shape["both"] == (None, 5)

    def test_set_weights(self):
        layer = L.Dense(2)
        layer(tf.ones([1, 1]))
        layer.set_weights([np.full((1, 2), 3.0), np.zeros(2)])
        assert layer.get_weights()[0].tolist() == [[3.0, 3.0]]
        with pytest.raises(ValueError, match="not compatible with provided weight shape"):
            layer.set_weights([np.full((1, 2), 9.0), np.zeros(3)])
        assert layer.get_weights()[0].tolist() == [[3.0, 3.0]]


def texts(names):
    """Return strings of an attribute, which h5py gives as text or, by how they are stored, as bytes."""
    return [name.decode() if isinstance(name, bytes) else name for name in names]


class TestWeightFiles:
    def model(self):
        model = K.Sequential(
            [L.Input([3]), L.Dense(4, name="a"), L.BatchNormalization(name="n"), L.Dense(2, name="b")],
            name="m",
        )
        for number, weight in enumerate(model.weights):
            weight.assign(tf.fill(weight.shape, float(number)))
        return model

    @pytest.mark.parametrize("name", ["weights", "weights.h5", "weights.hdf5"])
    def test_round_trip(self, tmp_path, name):
        model = self.model()
        model.save_weights(tmp_path / name)
        again = self.model()
        again.set_weights([weight * 0 for weight in again.get_weights()])
        again.load_weights(tmp_path / name)
        for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_hdf5_is_laid_out_as_keras_does(self, tmp_path):
        model = self.model()
        model.save_weights(tmp_path / "w.h5")
        with h5py.File(tmp_path / "w.h5") as file:
            assert texts(file.attrs["layer_names"]) == ["a", "n", "b"]
            assert file.attrs["keras_version"] == "2.15.0"
            found = texts(file["n"].attrs["weight_names"])
            assert found == ["n/gamma:0", "n/beta:0", "n/moving_mean:0", "n/moving_variance:0"]
            np.testing.assert_array_equal(file["a/a/kernel:0"], model.layers[0].kernel.numpy())
            assert "top_level_model_weights" in file

    def test_names_that_fill_an_attribute_are_cut(self, tmp_path):
        class Many(L.Layer):
            def build(self, shape):
                for number in range(700):
                    self.add_weight(
                        f"w_{number:04d}_{'n' * 90}", [1], initializer=K.initializers.Constant(number)
                    )

            def call(self, x):
                return x * self.weights[3]

        x = K.Input([1])
        model = K.Model(x, Many(name="many_weights_in_one_layer")(x))
        model.load_weights(DATA / "keras_long_attrs" / "many_weights.h5")
        model.save_weights(tmp_path / "w.h5")
        with (
            h5py.File(tmp_path / "w.h5") as ours,
            h5py.File(DATA / "keras_long_attrs" / "many_weights.h5") as theirs,
        ):
            one, two = ours["many_weights_in_one_layer"].attrs, theirs["many_weights_in_one_layer"].attrs
            assert sorted(one) == sorted(two) == ["weight_names0", "weight_names1"]
            assert list(one["weight_names1"]) == list(two["weight_names1"])

    def test_by_name_and_mismatches(self, tmp_path):
        self.model().save_weights(tmp_path / "w.h5")
        other = K.Sequential([L.Input([3]), L.Dense(4, name="a"), L.Dense(5, name="b")])
        with pytest.raises(ValueError, match="Model expected 2 layers, found 3 saved layers"):
            other.load_weights(tmp_path / "w.h5")
        before = other.layers[1].get_weights()
        with pytest.raises(ValueError, match="Shape mismatch"):
            other.load_weights(tmp_path / "w.h5", by_name=True)
        assert other.layers[0].get_weights()[0].max() != 0.0
        other.load_weights(tmp_path / "w.h5", by_name=True, skip_mismatch=True)
        assert other.layers[0].get_weights()[0].tolist() == [[0.0] * 4] * 3
        np.testing.assert_array_equal(other.layers[1].get_weights()[0], before[0])

    def test_a_full_models_file(self):
        x = np.load(DATA / "keras_mlp" / "mlp.input.npy")
        model = K.Sequential(
            [
                L.Input([6]), L.Dense(8, activation="relu"), L.BatchNormalization(), L.LayerNormalization(),
                L.Dropout(0.5), L.Dense(3, activation="softmax"),
            ]
        )  # fmt: skip
        model.load_weights(DATA / "keras_mlp" / "mlp.full.h5")
        np.testing.assert_allclose(model(x), np.load(DATA / "keras_mlp" / "mlp.output.npy"), rtol=1e-5)

    def test_weights_that_do_not_exist_yet(self, tmp_path):
        with pytest.raises(ValueError, match="have not yet been created"):
            K.Sequential([L.Dense(1)]).save_weights(tmp_path / "w.h5")

    def test_tf_weights_of_another_root_match_nothing(self, tmp_path):
        model = self.model()
        path = tf.train.Checkpoint(model=model).save(tmp_path / "ckpt")
        with pytest.raises(AssertionError, match="Nothing except the root object matched"):
            self.model().load_weights(path)

    def test_weights_wait_for_layers_that_are_added(self, tmp_path):
        self.model().save_weights(tmp_path / "w")
        late = K.Sequential([L.Dense(4), L.BatchNormalization(), L.Dense(2)])
        late.load_weights(tmp_path / "w")
        late(tf.ones([1, 3]))
        assert late.get_weights()[0].tolist() == [[0.0] * 4] * 3
        assert late.layers[2].get_weights()[1].tolist() == [7.0, 7.0]


def keras3_mlp():
    return K.Sequential(
        [
            L.Input([6]), L.Dense(8, activation="relu"), L.BatchNormalization(), L.LayerNormalization(),
            L.Dropout(0.5), L.Dense(3, activation="softmax"),
        ]
    )  # fmt: skip


def keras3_conv():
    image = L.Input([8, 8, 3])
    h = L.BatchNormalization()(L.Conv2D(4, 3, padding="same", activation="relu")(image))
    h = L.Add()([L.Conv2D(4, 1, use_bias=False)(h), L.DepthwiseConv2D(3, padding="same")(h)])
    return K.Model(image, L.Dense(2)(L.Flatten()(L.MaxPooling2D()(h))))


def keras3_rnn():
    tokens = L.Input([5], dtype="int32")
    h = L.LSTM(3, return_sequences=True)(L.Embedding(11, 4)(tokens))
    h = L.Bidirectional(L.GRU(2, return_sequences=True))(h)
    h = L.GRU(3, reset_after=False)(L.MultiHeadAttention(2, 3)(h, h))
    return K.Model(tokens, L.Dense(1)(h))


class Block(K.Model):
    def __init__(self, units):
        super().__init__()
        self.dense = L.Dense(units, activation="tanh")
        self.norm = L.LayerNormalization()

    def call(self, x):
        return self.norm(self.dense(x))


class Tower(K.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(4), Block(4)]
        self.head_a = L.Dense(2)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head_a(x)


def two_layers():
    return K.Sequential([L.Input([3]), L.Dense(4), L.Dense(2)])


RECORDED = {
    "keras3_mlp/mlp": (keras3_mlp, ".weights.h5"),
    "keras3_conv/conv": (keras3_conv, ".weights.h5"),
    "keras3_rnn/rnn": (keras3_rnn, ".weights.h5"),
    "keras3_nested/tower": (Tower, ".weights.h5"),
    "keras3_mlp/mlp ": (keras3_mlp, ".keras"),
    "keras3_mlp/mlp  ": (keras3_mlp, ".legacy.h5"),
    "keras3_rnn/rnn ": (keras3_rnn, ".keras"),
    "tf_keras_221/m": (two_layers, ""),
    "tf_keras_221/m ": (two_layers, ".h5"),
}


@pytest.mark.parametrize("path", sorted(RECORDED))
def test_layers_compute_what_keras_3_and_tf_keras_computed(path):
    (make, suffix), path = RECORDED[path], path.strip()
    x, expected = np.load(DATA / f"{path}.input.npy"), np.load(DATA / f"{path}.output.npy")
    model = make()
    model(x)
    status = model.load_weights(f"{DATA / path}{suffix}")
    if status is not None:
        status.assert_consumed()
    np.testing.assert_allclose(model(x, training=False), expected, rtol=2e-5, atol=2e-6)


def test_a_saved_models_weights():
    model = K.Sequential([L.Input([2]), L.Dense(3), L.BatchNormalization()])
    directory = DATA / "saved_model"
    tf.train.Checkpoint(model).restore(str(directory / "keras_model")).expect_partial()
    x = np.load(directory / "keras.input.npy")
    np.testing.assert_allclose(model(x), np.load(directory / "keras.output.npy"), rtol=1e-5)


def test_weights_by_object_path(tmp_path):
    model = keras3_mlp()
    model.compile(K.optimizers.Adam(0.1), "mse")
    model.fit(np.ones((4, 6), "f4"), np.ones((4, 3), "f4"), epochs=1)
    model.save_weights(tmp_path / "m.weights.h5")
    again = keras3_mlp()
    again.compile(K.optimizers.Adam(0.1), "mse")
    again.optimizer.build(again.trainable_variables)
    again.load_weights(tmp_path / "m.weights.h5")
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(again.optimizer.iterations) == 1
    with pytest.raises(ValueError, match="expected 2 variables, but received 0 variables"):
        two_layers().load_weights(DATA / "keras3_nested" / "tower.weights.h5")
    with pytest.raises(ValueError, match="Shape mismatch in weight"):
        two_layers().load_weights(tmp_path / "m.weights.h5")


def sample(initializer, shape=(200, 300)):
    return np.asarray(K.initializers.get(initializer)(shape), np.float64)


LIMIT = math.sqrt(6 / 500)
DISTRIBUTIONS = {
    "glorot_uniform": (math.sqrt(2 / 500), LIMIT),
    "glorot_normal": (math.sqrt(2 / 500), 2 * math.sqrt(2 / 500) / 0.87962566103423978),
    "he_normal": (math.sqrt(2 / 200), 2 * math.sqrt(2 / 200) / 0.87962566103423978),
    "he_uniform": (math.sqrt(2 / 200), math.sqrt(6 / 200)),
    "lecun_normal": (math.sqrt(1 / 200), 2 * math.sqrt(1 / 200) / 0.87962566103423978),
    "lecun_uniform": (math.sqrt(1 / 200), math.sqrt(3 / 200)),
    "random_uniform": (0.1 / math.sqrt(12), 0.05),
    "random_normal": (0.05, np.inf),
    "truncated_normal": (0.05 * 0.87962566103423978, 0.1),
}


class TestInitializers:
    @pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))
    def test_distributions_are_tensorflows(self, name):
        stddev, limit = DISTRIBUTIONS[name]
        values = sample(name)
        assert abs(values.mean()) < 4 * stddev / math.sqrt(values.size)
        assert values.std() == pytest.approx(stddev, rel=0.02)
        assert np.abs(values).max() <= limit * (1 + 1e-6)
        if np.isfinite(limit):
            assert np.abs(values).max() > 0.98 * limit

    def test_a_kernels_fans_are_those_under_its_window(self):
        values = sample("glorot_uniform", (3, 3, 20, 30))
        assert np.abs(values).max() == pytest.approx(math.sqrt(6 / (9 * 50)), rel=1e-2)

    def test_orthogonal(self):
        tall, wide = sample("orthogonal", (50, 20)), sample("orthogonal", (20, 50))
        np.testing.assert_allclose(tall.T @ tall, np.eye(20), atol=1e-5)
        np.testing.assert_allclose(wide @ wide.T, np.eye(20), atol=1e-5)

    def test_constants(self):
        assert sample("zeros").max() == 0
        assert sample("ones").min() == 1
        assert sample(K.initializers.Constant(2.5)).mean() == 2.5
        assert sample("identity", (3, 3)).tolist() == np.eye(3).tolist()

    def test_seeds(self):
        assert (
            sample(K.initializers.RandomNormal(seed=1)).tolist()
            == sample(K.initializers.RandomNormal(seed=1)).tolist()
        )
        K.utils.set_random_seed(1)
        first = sample("glorot_uniform").tolist()
        assert first != sample("glorot_uniform").tolist()
        K.utils.set_random_seed(1)
        assert first == sample("glorot_uniform").tolist()

    def test_seeds_come_from_random_until_set_random_seed_was_called(self):
        program = (
            "import random, ckpt_cli.runtime as tf; random.seed(5); "
            "print(*tf.keras.initializers.GlorotUniform()((2,)).numpy())"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT)
        drawn_by_tensorflow_2_15 = [0.59064901, 0.51603019]
        np.testing.assert_allclose(list(map(float, done.stdout.split())), drawn_by_tensorflow_2_15, 1e-5)

    def test_unknown(self):
        with pytest.raises(ValueError, match="Unknown initializer: 'nope'"):
            K.initializers.get("nope")


X = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])
ACTIVATIONS = {
    "relu": np.maximum(X, 0),
    "leaky_relu": np.where(X > 0, X, 0.2 * X),
    "sigmoid": 1 / (1 + np.exp(-X)),
    "tanh": np.tanh(X),
    "softplus": np.log1p(np.exp(X)),
    "softsign": X / (1 + np.abs(X)),
    "elu": np.where(X > 0, X, np.expm1(X)),
    "selu": 1.05070098 * np.where(X > 0, X, 1.67326324 * np.expm1(X)),
    "gelu": X * np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in X]),
    "swish": X / (1 + np.exp(-X)),
    "softmax": np.exp(X) / np.exp(X).sum(),
    "hard_sigmoid": np.clip(0.2 * X + 0.5, 0, 1),
    "exponential": np.exp(X),
    "linear": X,
    "mish": X * np.tanh(np.log1p(np.exp(X))),
    "log_softmax": X - np.log(np.exp(X).sum()),
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations(name):
    np.testing.assert_allclose(
        K.activations.get(name)(tf.constant([X]))[0], ACTIVATIONS[name], rtol=1e-7, atol=1e-12
    )


def test_dropout_keeps_the_mean():
    layer = L.Dropout(0.25, seed=3)
    x = tf.ones([100, 100])
    out = layer(x, training=True).numpy()
    assert set(np.unique(out)) == {0.0, np.float32(1 / 0.75)}
    assert out.mean() == pytest.approx(1.0, abs=0.03)
    assert layer(x, training=False) is x


def test_batch_normalization_in_training():
    layer = L.BatchNormalization(momentum=0.9)
    x = np.random.default_rng(0).standard_normal((50, 3)).astype("f4") * 4 + 7
    out = layer(x, training=True).numpy()
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(out.std(0), 1, atol=1e-3)
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.1 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.9 + 0.1 * x.var(0), rtol=1e-5)


def test_pooling():
    x = np.arange(16.0, dtype="f4").reshape(1, 4, 4, 1)
    assert L.MaxPooling2D()(x).numpy().ravel().tolist() == [5, 7, 13, 15]
    assert L.AveragePooling2D()(x).numpy().ravel().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert L.MaxPooling2D(3, 2, "same")(x).numpy().ravel().tolist() == [10, 11, 14, 15]
    assert L.AveragePooling2D(3, 3, "same")(x).numpy().ravel().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert L.GlobalAveragePooling2D()(x).numpy().tolist() == [[7.5]]


def gradients_of(layer, x):
    """Return the gradients of the output's weighted sum by x and by each weight, in float64."""
    inputs = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        out = layer(inputs)
        total = tf.reduce_sum(out * np.cos(np.arange(out.numpy().size)).reshape(out.shape))
    return tape.gradient(total, [inputs, *layer.trainable_weights])


def assert_gradients(layer, x):
    """Compare a layer's gradients in float64 with differences, at some elements of x and of each weight."""
    gradients = gradients_of(layer, x)
    weights = layer.get_weights()
    for at, gradient in enumerate(gradients):
        values = [x, *weights][at]
        for element in range(0, values.size, max(1, values.size // 5)):
            sums = []
            for step in (1e-6, -1e-6):
                moved = values.copy()
                moved.flat[element] += step
                if at:
                    layer.set_weights([*weights[: at - 1], moved, *weights[at:]])
                out = layer(tf.constant(x if at else moved)).numpy()
                sums.append((out * np.cos(np.arange(out.size)).reshape(out.shape)).sum())
            layer.set_weights(weights)
            np.testing.assert_allclose(
                gradient.numpy().flat[element], (sums[0] - sums[1]) / 2e-6, rtol=1e-4, atol=1e-6
            )


IMAGES = {
    "Conv1D": (lambda **how: L.Conv1D(4, 3, groups=2, **how), (7, 2)),
    "Conv2DTranspose": (lambda **how: L.Conv2DTranspose(2, (3, 2), **how), (4, 3, 3)),
    "Conv3D": (lambda **how: L.Conv3D(2, 2, **how), (4, 3, 5, 2)),
    "SeparableConv2D": (lambda **how: L.SeparableConv2D(3, 2, depth_multiplier=2, **how), (4, 5, 2)),
}


@pytest.mark.parametrize("how", [{}, {"padding": "same", "strides": 2}, {"dilation_rate": 2}], ids=str)
@pytest.mark.parametrize("name", IMAGES)
def test_gradients_of_convolutions_are_differences(name, how):
    make, shape = IMAGES[name]
    assert_gradients(make(dtype="float64", **how), np.sin(np.arange(np.prod(shape) * 2.0)).reshape(2, *shape))


def test_convolutions_of_one_and_three_axes_are_sums_over_windows():
    x = np.sin(np.arange(2 * 5 * 4 * 6 * 3.0)).reshape(2, 5, 4, 6, 3)
    layer = L.Conv3D(2, (2, 1, 3), dtype="float64")
    out, kernel = layer(tf.constant(x)).numpy(), layer.get_weights()[0]
    assert out.shape == (2, 4, 4, 4, 2)
    np.testing.assert_allclose(out[1, 2, 3, 1], np.einsum("abci,abcio", x[1, 2:4, 3:4, 1:4], kernel))
    causal = L.Conv1D(2, 2, padding="causal", dilation_rate=2, dtype="float64")
    row = x[:, :, 0, 0]
    out, kernel = causal(tf.constant(row)).numpy(), causal.get_weights()[0]
    np.testing.assert_allclose(out[0, 3], row[0, 1] @ kernel[0] + row[0, 3] @ kernel[1])
    np.testing.assert_allclose(out[0, 1], row[0, 1] @ kernel[1])


@pytest.mark.parametrize(
    ("how", "size"),
    [
        ({}, (6, 5)),
        ({"strides": 3}, (12, 9)),
        ({"strides": 3, "output_padding": (2, 0)}, (14, 9)),
        ({"strides": 2, "padding": "same"}, (8, 6)),
        ({"dilation_rate": 2}, (8, 7)),
    ],
    ids=str,
)
def test_a_transposed_convolution_is_the_transpose_of_one(how, size):
    """<convolution of y, x> is <y, transposed convolution of x>; sizes are those of TensorFlow 2.15."""
    layer = L.Conv2DTranspose(2, 3, use_bias=False, dtype="float64", **how)
    x = np.sin(np.arange(4 * 3 * 5.0)).reshape(1, 4, 3, 5)
    out = layer(tf.constant(x)).numpy()
    assert out.shape == (1, *size, 2)
    there = L.Conv2D(
        5, 3, use_bias=False, dtype="float64", **{k: v for k, v in how.items() if k != "output_padding"}
    )
    y = np.cos(np.arange(out.size * 1.0)).reshape(out.shape)
    there.build(y.shape)
    there.set_weights(layer.get_weights())
    np.testing.assert_allclose((there(tf.constant(y)).numpy() * x).sum(), (y * out).sum())


def test_a_separable_convolution_is_a_depthwise_one_and_a_mixture():
    x = np.sin(np.arange(5 * 4 * 2.0)).reshape(1, 5, 4, 2)
    layer = L.SeparableConv2D(3, 2, depth_multiplier=2, use_bias=False, dtype="float64")
    out, (depthwise, pointwise) = layer(tf.constant(x)).numpy(), layer.get_weights()
    apart = np.einsum("abc,abcm->cm", x[0, 1:3, 2:4], depthwise).ravel()
    np.testing.assert_allclose(out[0, 1, 2], apart @ pointwise[0, 0])


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_groups_of_channels_are_normalized_each_by_itself(axis):
    x = np.sin(np.arange(2 * 4 * 4 * 4.0) ** 2).reshape(2, 4, 4, 4)
    layer = L.GroupNormalization(2, axis=axis, epsilon=0, dtype="float64")
    layer.build(x.shape)
    layer.set_weights([np.arange(1.0, 5), np.arange(4.0)])
    out = np.moveaxis(layer(tf.constant(x)).numpy(), axis, -1)
    group = np.moveaxis(x, axis, -1)[1, ..., 2:]
    expected = (group - group.mean()) / group.std() * [3, 4] + [2, 3]
    np.testing.assert_allclose(out[1, ..., 2:], expected, rtol=1e-6)
    assert_gradients(layer, x)


def test_a_layer_at_each_time_is_the_layer_itself():
    x = np.sin(np.arange(2 * 3 * 5 * 4.0)).reshape(2, 3, 5, 4)
    layer = L.TimeDistributed(L.Conv1D(2, 3, dtype="float64"), dtype="float64")
    out = layer(tf.constant(x)).numpy()
    assert out.shape == (2, 3, 3, 2)
    np.testing.assert_allclose(out[:, 1], layer.layer(tf.constant(x[:, 1])).numpy())
    assert [weight.name for weight in layer.weights] == [
        "time_distributed/kernel:0", "time_distributed/bias:0",
    ]  # fmt: skip
    assert_gradients(layer, x)


def test_attention_with_a_causal_mask_sees_no_later_place():
    layer = L.MultiHeadAttention(2, 4)
    x = np.random.default_rng(1).standard_normal((1, 5, 6)).astype("f4")
    out, scores = layer(tf.constant(x), tf.constant(x), use_causal_mask=True, return_attention_scores=True)
    assert np.abs(np.triu(scores.numpy()[0, 0], 1)).max() == 0
    changed = x.copy()
    changed[:, 3:] += 5
    again = layer(tf.constant(changed), tf.constant(changed), use_causal_mask=True)
    np.testing.assert_allclose(again.numpy()[:, :3], out.numpy()[:, :3], rtol=1e-5)


IMAGE, TWO = np.ones((1, 2, 2, 2), np.float32), np.ones((2, 2), np.float32)
ROWS = L.Input([2])


def compiled(model):
    model.compile("sgd", "mse")
    return model


REFUSED = {
    "several batches": lambda: L.Conv1D(2, 3)(np.zeros((1, 4, 4, 1), "f4")),
    "channels first of a convolution": lambda: tf.nn.conv2d(IMAGE, IMAGE, 1, "SAME", data_format="NCHW"),
    "a padding in numbers": lambda: tf.nn.conv2d(IMAGE, IMAGE, 1, [[0, 0], [1, 1], [1, 1], [0, 0]]),
    "channels first by themselves": lambda: tf.nn.depthwise_conv2d(IMAGE, IMAGE, [1] * 4, "SAME", "NCHW"),
    "channels first of the largest": lambda: tf.nn.max_pool2d(IMAGE, 2, 2, "SAME", "NCHW"),
    "channels first of means": lambda: tf.nn.avg_pool2d(IMAGE, 2, 2, "SAME", data_format="NCHW"),
    "channels first of a bias": lambda: tf.nn.bias_add(IMAGE, [1.0, 2.0], "NCHW"),
    "rows of a length": lambda: tf.nn.embedding_lookup(IMAGE[0, 0], [0], 1.0),
    "a batch normalized along two axes": lambda: L.BatchNormalization(axis=[1, 2]),
    "examples normalized together": lambda: L.LayerNormalization(axis=0)(IMAGE),
    "a volume whose end is left out": lambda: L.Conv3D(1, 1, strides=3, padding="same")(
        np.ones((1, 3, 3, 3, 1), "f4")
    ),
    "a constraint by name": lambda: L.Dense(2, kernel_constraint="max_norm"),
    "several steps at once": lambda: K.Sequential().compile("sgd", "mse", steps_per_execution=2),
    "several outputs": lambda: compiled(K.Model(ROWS, [L.Dense(1)(ROWS)] * 2)).fit(TWO, [TWO, TWO]),
    "outputs by name": lambda: compiled(K.Model(ROWS, {"a": L.Dense(1)(ROWS)})).evaluate(TWO, {"a": TWO}),
    "an order by chunks": lambda: compiled(K.Model(ROWS, L.Dense(1)(ROWS))).fit(TWO, TWO, shuffle="batch"),
    "a map over nothing": lambda: tf.map_fn(abs, tf.zeros([0, 3])),
    "channels first in a recurrent layer": lambda: L.ConvLSTM2D(2, 3, data_format="channels_first"),
    "groups transposed": lambda: L.Conv2DTranspose(2, 3, groups=2),
    "a normalized batch": lambda: L.GroupNormalization(2, axis=0),
    "a model at each time": lambda: L.TimeDistributed(K.Sequential([L.Dense(1)])),
    "a layer of one's own at each time": lambda: L.TimeDistributed(Block(2)),
    "states at each time": lambda: L.TimeDistributed(L.LSTM(2, return_state=True))(
        np.zeros((1, 2, 3, 4), "f4")
    ),
    "a causal image": lambda: L.Conv2D(2, 3, padding="causal"),
    "batch dimensions": lambda: tf.gather(tf.zeros([2, 2]), [[0], [1]], batch_dims=1),
}


@pytest.mark.parametrize(
    ("make", "rank"),
    [
        (lambda **first: L.Conv1D(4, 2, groups=2, **first), 1),
        (lambda **first: L.Conv2D(3, 2, strides=2, **first), 2),
        (lambda **first: L.Conv3D(3, 2, **first), 3),
        (lambda **first: L.SeparableConv2D(3, 2, padding="same", **first), 2),
        (lambda **first: L.MaxPooling2D(2, **first), 2),
        (lambda **first: L.AveragePooling2D(2, padding="same", **first), 2),
    ],
)
def test_channels_first_are_channels_last_with_other_axes(make, rank):
    last, first = make(), make(data_format="channels_first")
    x = np.sin(np.arange(2 * 6**rank * 4.0)).reshape(2, *[6] * rank, 4).astype("f4")
    expected = last(x).numpy()
    moved = np.moveaxis(x, -1, 1)
    first(moved)
    first.set_weights(last.get_weights())
    np.testing.assert_allclose(np.moveaxis(first(moved).numpy(), 1, -1), expected, atol=1e-6)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_known_is_rejected_and_not_ignored(name):
    with pytest.raises(NotImplementedError, match="is not supported"):
        REFUSED[name]()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L.Conv1D(2, 3, strides=2, dilation_rate=2), "not supported in conjunction with"),
        (
            lambda: L.Conv3D(2, (3, 3)),
            "kernel_size=\\(3, 3\\) is neither a number of at least 1 nor 3 of them",
        ),
        (lambda: L.Conv2D(2, 3, strides=0), "strides=0"),
        (lambda: L.Conv2DTranspose(2, 3, strides=2, output_padding=2), "Strides must be greater than output"),
        (lambda: L.GroupNormalization(3)(np.zeros((1, 4), "f4")), "4 channels cannot be cut into 3 groups"),
        (lambda: L.TimeDistributed(L.Dense(1))(np.zeros((1, 4), "f4")), "at least 3 dimensions"),
        (lambda: L.Conv2DTranspose(2, 3, dilation_rate=(2, 1)), "both dimensions must be equal"),
        (lambda: L.Conv2DTranspose(2, 3)(np.zeros((1, 4, 4), "f4")), "expected min_ndim=4, found ndim=3"),
        (
            lambda: L.Conv2DTranspose(2, 2, strides=2, padding="same", output_padding=0)(
                np.zeros((1, 3, 3, 1), "f4")
            ),
            "an image of \\(4, 4\\) have the places \\(2, 2\\), not \\(3, 3\\)",
        ),
    ],
)
def test_convolutions_that_make_no_sense(make, message):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        make()


class TestFit:
    def test_arguments_that_would_change_training(self):
        x, y = self.data()
        model = K.Sequential([L.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
        with pytest.raises(NotImplementedError, match="fit: argument validation_steps="):
            model.fit(x, y, validation_data=(x, y), validation_steps=2)
        model.fit(x, y, callbacks=None, verbose=0)

    def data(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((64, 2)).astype("f4")
        return x, (x @ np.array([[1.0], [-2.0]], "f4") + 0.5)

    def test_learns_a_line(self):
        x, y = self.data()
        model = K.Sequential([L.Dense(1)])
        model.compile(K.optimizers.SGD(0.1), "mse")
        history = model.fit(x, y, epochs=20, verbose=0)
        assert history.history["loss"][-1] < 1e-3 < history.history["loss"][0]
        assert model.evaluate(x, y, verbose=0) < 1e-3
        assert model.predict(x[:5], verbose=0).shape == (5, 1)

    def test_metrics_and_datasets(self):
        x, _ = self.data()
        labels = (x[:, 0] > 0).astype("i8")
        model = K.Sequential([L.Dense(2, activation="softmax")])
        model.compile(K.optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
        dataset = tf.data.Dataset.from_tensor_slices((x, labels)).shuffle(64, seed=1).batch(16)
        history = model.fit(dataset, epochs=40)
        assert history.history["accuracy"][-1] > 0.9
        loss, accuracy = model.evaluate(dataset)
        assert loss < 0.6
        assert accuracy > 0.9

    def test_must_be_compiled(self):
        with pytest.raises(RuntimeError, match="must compile your model"):
            K.Sequential([L.Dense(1)]).fit(*self.data())


def reference(rule, steps=4):
    """Apply a rule, given the gradient of sum(x**2)/2·(step+1), in float64."""
    x, state = np.array([1.0, -2.0]), {}
    for step in range(1, steps + 1):
        x = rule(x, x * step, state, step)
    return x


def sgd(x, g, s, t):
    s["v"] = 0.9 * s.get("v", 0) - 0.1 * g
    return x + 0.9 * s["v"] - 0.1 * g


def adam(x, g, s, t):
    s["m"], s["v"] = 0.9 * s.get("m", 0) + 0.1 * g, 0.999 * s.get("v", 0) + 0.001 * g * g
    return x - 0.1 * (s["m"] / (1 - 0.9**t)) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-9)


def adagrad(x, g, s, t):
    s["a"] = s.get("a", 0.1) + g * g
    return x - 0.1 * g / np.sqrt(s["a"])


def rmsprop(x, g, s, t):
    s["r"] = 0.9 * s.get("r", 0) + 0.1 * g * g
    return x - 0.1 * g / np.sqrt(s["r"])


@pytest.mark.parametrize("module", [K.optimizers, K.optimizers.legacy])
@pytest.mark.parametrize(
    ("name", "options", "rule"),
    [
        ("SGD", {"momentum": 0.9, "nesterov": True}, sgd),
        ("Adam", {}, adam),
        ("Adagrad", {}, adagrad),
        ("RMSprop", {}, rmsprop),
    ],
)
def test_optimizers_follow_their_formulas(module, name, options, rule):
    x = tf.Variable([1.0, -2.0], dtype=tf.float64)
    optimizer = getattr(module, name)(0.1, **options)
    for step in range(1, 5):
        optimizer.minimize(lambda step=step: tf.reduce_sum(x * x) / 2 * step, [x])
    np.testing.assert_allclose(x.numpy(), reference(rule), rtol=1e-5)
    assert int(optimizer.iterations) == 4


class TestOptimizers:
    def test_hyperparameters_can_be_set(self):
        for module in (K.optimizers, K.optimizers.legacy):
            optimizer = module.Adam(0.1)
            assert float(optimizer.learning_rate) == pytest.approx(0.1)
            optimizer.learning_rate = 0.5
            assert float(optimizer.learning_rate) == 0.5
            optimizer.lr = 0.25
            assert float(optimizer.learning_rate) == 0.25

    def test_missing_gradients(self, caplog):
        v, w = tf.Variable(1.0, name="v"), tf.Variable(1.0, name="w")
        for optimizer in (K.optimizers.SGD(0.5), K.optimizers.legacy.SGD(0.5)):
            with pytest.raises(ValueError, match="No gradients provided for any variable"):
                optimizer.apply_gradients([(None, v)])
        fresh = K.optimizers.SGD(0.5)
        fresh.apply_gradients([(tf.constant(1.0), v), (None, w)])
        assert "Gradients do not exist for variables ['w:0']" in caplog.text
        assert (float(v), float(w)) == (0.5, 1.0)

    def test_a_variable_that_came_later(self):
        v, w = tf.Variable(1.0), tf.Variable(1.0)
        optimizer = K.optimizers.Adam()
        optimizer.apply_gradients([(tf.constant(1.0), v)])
        with pytest.raises(KeyError, match="cannot recognize variable"):
            optimizer.apply_gradients([(tf.constant(1.0), w)])
        legacy = K.optimizers.legacy.Adam()
        legacy.apply_gradients([(tf.constant(1.0), v)])
        legacy.apply_gradients([(tf.constant(1.0), w)])
        assert legacy.get_slot_names() == ["m", "v"]
        assert legacy.get_slot(w, "m").name == "Adam/Variable/m:0"

    def test_wrong_arguments(self):
        with pytest.raises(ValueError, match="decay is deprecated in the new Keras optimizer"):
            K.optimizers.Adam(decay=0.1)
        with pytest.raises(TypeError, match="nope"):
            K.optimizers.legacy.Adam(nope=1)
        with pytest.raises(ValueError, match="`momentum` must be between"):
            K.optimizers.SGD(momentum=2)

    def test_schedules(self):
        s = K.optimizers.schedules
        assert float(s.ExponentialDecay(1.0, 10, 0.5)(10)) == 0.5
        assert float(s.ExponentialDecay(1.0, 10, 0.5, staircase=True)(19)) == 0.5
        assert float(s.InverseTimeDecay(1.0, 1, 1.0)(3)) == 0.25
        piecewise = s.PiecewiseConstantDecay([2, 4], [1.0, 0.5, 0.1])
        assert [round(float(piecewise(step)), 3) for step in (0, 2, 3, 4, 5)] == [1.0, 1.0, 0.5, 0.5, 0.1]
        assert float(s.CosineDecay(1.0, 10)(10)) == pytest.approx(0.0, abs=1e-7)
