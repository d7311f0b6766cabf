"""Families by what their models are made of.  Imported by TensorFlow's Python; builders are given a seed."""

import numpy as np
import tensorflow as tf
from families.program import Program, family, keras, numbers

layers = keras.layers
optimizers = keras.optimizers
register = keras.utils.register_keras_serializable(package="families")


def sequential(shape, *stack, optimizer, outputs=2, data=None, **options):
    """Return a program of a Sequential that ends with a Dense."""
    model = keras.Sequential([keras.Input(shape), *stack, layers.Dense(outputs, name="last")])
    return Program(model, numbers(8, *shape) if data is None else data, optimizer=optimizer, **options)


# Kinds of models --------------------------------------------------------------------------


@family()
def dense(seed):
    return sequential((4,), layers.Dense(4, "tanh"), layers.Dense(4, "tanh"), optimizer=optimizers.Adam(0.02))


@family()
def deferred(seed):
    """A Sequential that is built as it is called."""
    model = keras.Sequential([layers.Dense(4, "tanh"), layers.Dense(2)])
    return Program(model, numbers(8, 4), optimizer=optimizers.Adam(0.02))


@family()
def branches(seed):
    left, right = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    joined = layers.Concatenate()([layers.Dense(4, "tanh", name="a")(left), layers.Dense(4, "tanh")(right)])
    added = layers.Add()([layers.Dense(4, "relu")(joined), layers.Dense(4, use_bias=False, name="b")(right)])
    model = keras.Model([left, right], layers.Dense(2)(added))
    data = [numbers(8, 4), numbers(8, 3, seed=1)]
    return Program(model, data, optimizer=optimizers.SGD(0.05, momentum=0.9, nesterov=True))


@family()
def shared(seed):
    left, right = keras.Input((4,)), keras.Input((4,))
    both = layers.Dense(4, "tanh", name="both")
    joined = layers.Concatenate()([both(left), both(both(right))])
    data = [numbers(8, 4), numbers(8, 4, seed=1)]
    return Program(
        keras.Model([left, right], layers.Dense(2)(joined)), data, optimizer=optimizers.AdamW(0.02)
    )


@family()
def nested(seed):
    inner_input = keras.Input((4,))
    inner = keras.Model(inner_input, layers.LayerNormalization()(layers.Dense(4)(inner_input)), name="inner")
    middle = keras.Sequential([keras.Input((4,)), layers.Dense(4, "tanh"), inner], name="middle")
    outer = keras.Input((4,))
    hidden = layers.Dense(4, "tanh")(middle(outer))
    model = keras.Model(outer, layers.Dense(2)(hidden))
    return Program(model, numbers(8, 4), optimizer=optimizers.RMSprop(0.01, momentum=0.5, centered=True))


@register
class Block(layers.Layer):
    """A custom layer with layers of its own."""

    def __init__(self, units=4, **options):
        super().__init__(**options)
        self.units = units
        self.by = Scaled(units)
        self.dense = layers.Dense(units, "tanh")

    def build(self, shape):
        self.by.build(shape)
        self.dense.build(shape)
        super().build(shape)

    def call(self, x):
        return x + self.dense(self.by(x))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@register
class Scaled(layers.Layer):
    """A custom layer with a layer and with weights of its own; one of these is not trained."""

    def __init__(self, units=4, **options):
        super().__init__(**options)
        self.units = units
        self.norm = layers.LayerNormalization()

    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=(self.units,), initializer="uniform")
        self.seen = self.add_weight(name="seen", shape=(self.units,), initializer="zeros", trainable=False)
        self.shift = self.add_weight(name="shift", shape=(self.units,), initializer="uniform")
        self.norm.build(shape)
        super().build(shape)

    def call(self, x, training=False):
        if training:
            self.seen.assign_add(tf.reduce_mean(x, axis=0) * 0.1)
        return self.norm(x) * (1.0 + self.scale) + self.shift + self.seen

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@family()
def custom_layer(seed):
    return sequential((4,), layers.Dense(4), Scaled(), Block(), optimizer=optimizers.Adam(0.02))


@register
class Subclassed(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.first = layers.Dense(4, "tanh")
        self.norm = layers.BatchNormalization()
        self.last = layers.Dense(2)

    def call(self, x, training=False):
        return self.last(self.norm(self.first(x), training=training))


@family()
def subclassed(seed):
    return Program(Subclassed(), numbers(8, 4), optimizer=optimizers.Adam(0.02))


@register
class Blocks(keras.Model):
    """A subclassed model of custom layers in a list and in a dictionary, and of a Sequential."""

    def __init__(self, **options):
        super().__init__(**options)
        self.embed = layers.Dense(4)
        self.blocks = [Block(), Block(), layers.Dense(4, "relu")]
        self.heads = {"b": layers.Dense(2), "a": layers.Dense(2, use_bias=False)}
        self.tail = keras.Sequential([layers.Dense(4, "tanh"), Block()])

    def call(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        x = self.tail(x)
        return self.heads["a"](x) + self.heads["b"](x)


@family()
def subclassed_blocks(seed):
    return Program(Blocks(), numbers(8, 4), optimizer=optimizers.Adam(0.02))


@register
class Pair(layers.Layer):
    """A layer that has layers, and no weights of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first = layers.Dense(4)
        self.second = layers.Dense(4)

    def build(self, shape):
        self.first.build(shape)
        self.second.build(shape)
        super().build(shape)

    def call(self, x):
        return self.first(x) * 2.0 + self.second(x)


@register
class Dictionary(keras.Model):
    """A subclassed model whose dictionary has layers of one shape, not in the order of their keys."""

    def __init__(self, **options):
        super().__init__(**options)
        self.embed = layers.Dense(4, "tanh")
        self.pairs = [Pair(), Pair()]
        self.heads = {"b": layers.Dense(2), "a": layers.Dense(2)}

    def call(self, x):
        x = self.embed(x)
        for pair in self.pairs:
            x = pair(x)
        return self.heads["a"](x) * 2.0 + self.heads["b"](x)


@family()
def dictionary(seed):
    return Program(Dictionary(), numbers(8, 4), optimizer=optimizers.Adam(0.02))


@family()
def dots(seed):
    """Names with signs that separate others."""
    x = keras.Input((4,))
    hidden = layers.Dense(4, "tanh", name="block_1.dense-a")(x)
    hidden = layers.Dense(4, "tanh", name="Block.1.dense")(hidden)
    return Program(
        keras.Model(x, layers.Dense(2, name="vars")(hidden)), numbers(8, 4), optimizer=optimizers.Adam(0.05)
    )


@family()
def two_outputs(seed):
    x = keras.Input((4,))
    hidden = layers.Dense(4, "tanh")(x)
    model = keras.Model(
        x, {"small": layers.Dense(1, name="small")(hidden), "big": layers.Dense(2, name="big")(hidden)}
    )
    y = {"small": numbers(8, 1, seed=3), "big": numbers(8, 2, seed=4)}
    return Program(
        model,
        numbers(8, 4),
        y,
        optimizer=optimizers.Adam(0.05),
        loss={"small": keras.losses.MeanSquaredError(), "big": keras.losses.MeanAbsoluteError()},
    )


@family()
def metrics(seed):
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(2)(layers.Dense(4, "tanh")(x)))
    return Program(
        model,
        numbers(8, 4),
        optimizer=optimizers.Adam(0.05),
        metrics=[keras.metrics.MeanAbsoluteError(), keras.metrics.MeanSquaredError()],
    )


# Layers -----------------------------------------------------------------------------------


@family()
def conv1d(seed):
    stack = [
        layers.Conv1D(4, 2),
        layers.SeparableConv1D(4, 2, depth_multiplier=2),
        layers.Conv1DTranspose(3, 2),
    ]
    optimizer = optimizers.Adagrad(0.1)
    return sequential((6, 3), *stack, layers.GlobalAveragePooling1D(), optimizer=optimizer)


@family()
def conv2d(seed):
    stack = [
        layers.Conv2D(4, 2, groups=1),
        layers.DepthwiseConv2D(2, depth_multiplier=2),
        layers.BatchNormalization(),
        layers.Conv2DTranspose(3, 2),
        layers.SeparableConv2D(4, 2),
        layers.GlobalMaxPooling2D(),
    ]
    return sequential((6, 6, 2), *stack, optimizer=optimizers.Adam(0.01, amsgrad=True))


@family()
def conv3d(seed):
    stack = [layers.Conv3D(3, 2), layers.Conv3DTranspose(2, 2), layers.GlobalAveragePooling3D()]
    return sequential((3, 3, 3, 2), *stack, optimizer=optimizers.Adamax(0.02))


@family()
def frozen_batchnorm(seed):
    """Frozen layers are between trained ones."""
    norm, frozen = layers.BatchNormalization(), layers.Dense(4, "tanh")
    norm.trainable = frozen.trainable = False
    stack = [layers.Dense(4, "tanh"), norm, frozen, layers.BatchNormalization()]
    return sequential((4,), *stack, optimizer=optimizers.Adam(0.02))


@family()
def norms(seed):
    stack = [
        layers.Dense(4),
        layers.LayerNormalization(),
        layers.GroupNormalization(2),
        layers.UnitNormalization(),
    ]
    return sequential((4,), *stack, optimizer=optimizers.Adamax(0.02))


@family()
def simple_rnn(seed):
    stack = [layers.SimpleRNN(4, return_sequences=True), layers.GRU(4, reset_after=False)]
    return sequential((5, 3), *stack, optimizer=optimizers.Lion(0.05))


@family()
def bidirectional(seed):
    stack = [
        layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
        layers.Bidirectional(layers.GRU(3), merge_mode="sum"),
    ]
    return sequential((5, 3), *stack, optimizer=optimizers.Adam(0.02))


@family()
def stacked_cells(seed):
    stack = [
        layers.RNN([layers.LSTMCell(3), layers.GRUCell(4)], return_sequences=True),
        layers.RNN(layers.SimpleRNNCell(3)),
    ]
    return sequential((5, 3), *stack, optimizer=optimizers.Adam(0.02))


@register
class MinimalCell(layers.Layer):
    """A cell of one's own."""

    def __init__(self, units=3, **options):
        super().__init__(**options)
        self.units = self.state_size = self.output_size = units

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], self.units), initializer="uniform")
        self.recurrent = self.add_weight(
            name="recurrent", shape=(self.units, self.units), initializer="uniform"
        )
        super().build(shape)

    def call(self, x, states):
        output = tf.tanh(tf.matmul(x, self.kernel) + tf.matmul(states[0], self.recurrent))
        return output, [output]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@family()
def custom_cell(seed):
    return sequential((5, 3), layers.RNN(MinimalCell(4)), optimizer=optimizers.Adam(0.05))


@family()
def conv_lstm(seed):
    stack = [layers.ConvLSTM2D(3, 2), layers.GlobalAveragePooling2D()]
    return sequential((3, 4, 4, 2), *stack, optimizer=optimizers.Adam(0.02))


@family()
def time_distributed(seed):
    inner = keras.Sequential([keras.Input((3,)), layers.Dense(4, "tanh"), layers.LayerNormalization()])
    stack = [layers.TimeDistributed(layers.Dense(3, "tanh")), layers.TimeDistributed(inner)]
    stack += [layers.TimeDistributed(layers.BatchNormalization()), layers.GlobalAveragePooling1D()]
    return sequential((5, 3), *stack, optimizer=optimizers.RMSprop(0.01))


@family()
def spectral(seed):
    stack = [layers.SpectralNormalization(layers.Dense(4)), layers.Dense(4, "tanh")]
    return sequential((4,), *stack, optimizer=optimizers.Adam(0.02))


@family()
def spectral_conv(seed):
    stack = [layers.SpectralNormalization(layers.Conv2D(4, 2), power_iterations=2), layers.Flatten()]
    return sequential((4, 4, 2), *stack, optimizer=optimizers.SGD(0.02, momentum=0.9))


def attention(layer, **options):
    x = keras.Input((5, 4))
    attended = layers.LayerNormalization()(x + layer(x, x))
    return Program(keras.Model(x, layers.Dense(2)(attended[:, 0])), numbers(8, 5, 4), **options)


@family()
def multi_head(seed):
    return attention(layers.MultiHeadAttention(2, 3), optimizer=optimizers.Adam(0.02))


@family(only=3)
def grouped_query(seed):
    return attention(layers.GroupQueryAttention(3, 4, 2), optimizer=optimizers.Adam(0.02))


@family()
def additive(seed):
    x = keras.Input((5, 4))
    attended = layers.AdditiveAttention()([layers.Dense(4)(x), x])
    pooled = layers.GlobalAveragePooling1D()(layers.Attention(use_scale=True)([attended, x]))
    return Program(keras.Model(x, layers.Dense(2)(pooled)), numbers(8, 5, 4), optimizer=optimizers.Adam(0.05))


@family()
def einsum(seed):
    stack = [
        layers.EinsumDense("abc,cd->abd", output_shape=(5, 4), bias_axes="d", activation="tanh"),
        layers.EinsumDense("abc,cde->abde", output_shape=(5, 2, 2)),
        layers.Flatten(),
    ]
    return sequential((5, 3), *stack, optimizer=optimizers.Adadelta(20.0))


def tokens():
    return np.random.RandomState(0).randint(0, 7, (8, 5)).astype("int32")


@family()
def embedding(seed):
    model = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(7, 4),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2),
        ]
    )
    return Program(model, tokens(), optimizer=optimizers.Adam(0.1))


@family()
def prelu(seed):
    stack = [layers.Dense(4), layers.PReLU("uniform"), layers.Dense(4), layers.PReLU(shared_axes=[1])]
    return sequential((4,), *stack, optimizer=optimizers.Ftrl(0.1))


@family(only=3)
def rms_norm(seed):
    return sequential((4,), layers.Dense(4), layers.RMSNormalization(), optimizer=optimizers.Adam(0.02))


@family(only=3)
def dropout(seed):
    """Its generators' states are variables."""
    stack = [layers.Dense(8, "tanh"), layers.Dropout(0.5), layers.GaussianNoise(0.1), layers.Dense(4)]
    return sequential((4,), *stack, optimizer=optimizers.Adam(0.02))


# Preprocessing ----------------------------------------------------------------------------

WORDS = ["ant", "bee", "cat", "dog", "eel"]


@family()
def normalization(seed):
    norm = layers.Normalization()
    norm.adapt(numbers(20, 4, seed=seed) * 3 + seed)
    return sequential((4,), norm, layers.Dense(4, "tanh"), optimizer=optimizers.Adam(0.02))


def of_words(preprocess, data, vocabulary=16, length=None):
    x = keras.Input((length or data.shape[1],), dtype="string")
    pooled = layers.GlobalAveragePooling1D()(layers.Embedding(vocabulary, 4)(preprocess(x)))
    return Program(keras.Model(x, layers.Dense(2)(pooled)), data, optimizer=optimizers.Adam(0.1))


def words(number=4):
    chosen = np.random.RandomState(3).randint(0, len(WORDS), (8, number))
    return np.array(WORDS, dtype=object)[chosen]


@family()
def string_lookup(seed):
    """Its vocabulary is the program's."""
    return of_words(layers.StringLookup(vocabulary=WORDS), words())


@family()
def string_lookup_adapted(seed):
    """Its vocabulary is the data's, so that another run of the program has another."""
    lookup = layers.StringLookup()
    lookup.adapt(np.array([word for each, word in enumerate(WORDS) for _ in range((each * seed) % 7 + 1)]))
    return of_words(lookup, words())


@family()
def text_vectorization(seed):
    layer = layers.TextVectorization(max_tokens=16, output_sequence_length=4)
    each = [f"{a} {b} {c}" for a, b, c in words(3)]
    layer.adapt([" ".join(WORDS[: 2 + seed % 3]) + f" word{seed}", *each])
    return of_words(layer, np.array(each, dtype=object)[:, None])


@family()
def hashing(seed):
    return of_words(layers.Hashing(11), words())


@family()
def integer_lookup(seed):
    x = keras.Input((5,), dtype="int64")
    looked = layers.IntegerLookup(vocabulary=[1, 2, 4, 6])(x)
    pooled = layers.GlobalAveragePooling1D()(layers.Embedding(8, 4)(looked))
    model = keras.Model(x, layers.Dense(2)(pooled))
    return Program(model, tokens().astype("int64"), optimizer=optimizers.Adam(0.1))


@family()
def discretization(seed):
    layer = layers.Discretization(num_bins=4)
    layer.adapt(numbers(40, 4, seed=seed))
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(2)(layers.Flatten()(layers.Embedding(6, 3)(layer(x)))))
    return Program(model, numbers(8, 4), optimizer=optimizers.Adam(0.02))
