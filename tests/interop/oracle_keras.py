"""Models of the fixtures, built again with Keras and loaded from files; run by TensorFlow's Python.

`tf.keras` is Keras 2 in TensorFlow 2.15 and Keras 3 in 2.21.  How each model is built is
what the fixtures' own scripts say; what they answered is next to them, `*.output.npy`.
"""

import numpy as np
import tensorflow as tf

K = tf.keras
L = tf.keras.layers


def mlp():
    return K.Sequential(
        [
            L.Input([6]),
            L.Dense(8, activation="relu", name="hidden"),
            L.BatchNormalization(name="bn"),
            L.LayerNormalization(name="ln"),
            L.Dropout(0.5),
            L.Dense(3, activation="softmax", name="head"),
        ],
        name="mlp",
    )


def conv():
    image = L.Input([8, 8, 3], name="image")
    h = L.Conv2D(4, 3, padding="same", activation="relu", name="conv_a")(image)
    h = L.BatchNormalization(name="bn_a")(h)
    branches = [
        L.Conv2D(4, 1, use_bias=False, name="conv_b")(h),
        L.DepthwiseConv2D(3, padding="same", name="dw")(h),
    ]
    h = L.Flatten()(L.MaxPooling2D()(L.Add()(branches)))
    return K.Model(image, L.Dense(2, name="logits")(h), name="convnet")


def norm():
    return K.Sequential([L.Input([3]), L.Normalization(name="norm"), L.Dense(2, name="d")], name="norm")


def rnn():
    return _rnn(attention=False)


def rnn_attention():
    return _rnn(attention=True)


def _rnn(attention):
    tokens = L.Input([5], dtype="int32", name="tokens")
    h = L.Embedding(11, 4, name="emb")(tokens)
    h = L.LSTM(3, return_sequences=True, name="lstm")(h)
    h = L.Bidirectional(L.GRU(2, return_sequences=True), name="bi")(h)
    if attention:
        h = L.MultiHeadAttention(2, 3, name="mha")(h, h)
    h = L.GRU(3, reset_after=False, name="gru_old")(h)
    return K.Model(tokens, L.Dense(1, name="out")(h), name="rnn")


def attn():
    seq = L.Input([4, 6], name="seq")
    mha = L.MultiHeadAttention(2, 3, name="mha")
    h = L.LayerNormalization(name="ln")(seq + mha(seq, seq))
    dense = L.Dense(6, name="shared")
    return K.Model(seq, dense(dense(h)), name="attn")


def nest():
    inner = K.Sequential([L.Input([4]), L.Dense(5, name="in_a"), L.Dense(3, name="in_b")], name="inner")
    x = L.Input([4])
    return K.Model(x, L.Dense(2, name="outer")(inner(x)), name="nest")


class Block(K.Model):
    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.dense = L.Dense(units, activation="tanh")
        self.norm = L.LayerNormalization()
        self.scale = self.add_weight(name="scale", shape=[units], initializer="ones")

    def call(self, x):
        return self.norm(self.dense(x)) * self.scale


class Tower(K.Model):
    def __init__(self):
        super().__init__(name="tower")
        self.blocks = [Block(4), Block(4)]
        self.heads = {"a": L.Dense(2), "b": L.Dense(1)}

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return tf.concat([self.heads["a"](x), self.heads["b"](x)], -1)


def tower():
    model = Tower()
    model(np.zeros([1, 4], "f4"))
    return model


MODELS = {build.__name__: build for build in (mlp, conv, rnn, rnn_attention, attn, nest, norm, tower)}


def _answer(model, inputs):
    return np.asarray(model(np.load(inputs), training=False), np.float64).tolist()


def outputs(model, weights, inputs, consumed=True):
    """Build a model, load weights into it and return its outputs.

    Of a TensorFlow checkpoint every value is used, unless `consumed` says that it holds more.
    """
    K.backend.clear_session()
    built = MODELS[model]()
    status = built.load_weights(weights)
    if hasattr(status, "assert_consumed"):
        status.assert_existing_objects_matched()
        if consumed:
            status.assert_consumed()
    return _answer(built, inputs)


def loaded(path, inputs):
    """Load a whole model from a file and return its outputs."""
    K.backend.clear_session()
    return _answer(K.models.load_model(path, compile=False), inputs)


def _optimizer_values(model):
    optimizer = model.optimizer
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    # Keras 3 counts the learning rate among them, Keras 2 does not.
    kept = [variable for variable in variables if "learning_rate" not in variable.name]
    rate = float(np.asarray(optimizer.learning_rate))
    return {"rate": rate, "values": [np.asarray(variable).tolist() for variable in kept]}


def optimizer_state(model, weights, legacy=False, optimizer="Adam", options=None):
    """Compile a model with an optimizer, load weights into it and return the optimizer's state."""
    K.backend.clear_session()
    built = MODELS[model]()
    optimizers = K.optimizers.legacy if legacy else K.optimizers
    built.compile(getattr(optimizers, optimizer)(0.5, **(options or {})), "mse")
    if legacy:
        built.optimizer.apply_gradients((tf.zeros_like(v), v) for v in built.trainable_variables)
    else:
        built.optimizer.build(built.trainable_variables)
    status = built.load_weights(weights)
    if hasattr(status, "assert_consumed"):
        status.assert_existing_objects_matched()
        status.assert_consumed()
    return _optimizer_values(built)


def loaded_optimizer_state(path):
    """Load a compiled model from a file and return the state of its optimizer."""
    K.backend.clear_session()
    return _optimizer_values(K.models.load_model(path))


def save_trained(path, optimizer, options):
    """Save a whole model in HDF5 after a few steps, and return the optimizer's state."""
    K.backend.clear_session()
    K.utils.set_random_seed(5)
    model = nest()
    model.compile(getattr(K.optimizers, optimizer)(0.125, **options), "mse")
    model.fit(np.ones([2, 4]), np.ones([2, 2]), epochs=2, verbose=0)
    model.save(path)
    return _optimizer_values(model)


def save_legacy(directory):
    """Save a model with the state of a legacy Adam as TensorFlow checkpoint and as HDF5; Keras 2 only."""
    K.backend.clear_session()
    K.utils.set_random_seed(5)
    model = nest()
    model.compile(K.optimizers.legacy.Adam(0.125), "mse")
    model.fit(np.ones([2, 4]), np.ones([2, 2]), epochs=2, verbose=0)
    model.save_weights(f"{directory}/nest")
    model.save(f"{directory}/nest.h5")
    model.save(f"{directory}/nest.keras")
    return _optimizer_values(model)


def layer_weights(layers, edges=False):
    """Build each layer in a model of its own, and return what it is made of.

    That is the model's configuration, (name, shape, whether trained) of the weights in their
    order, and, with `edges`, the edges that the object graph has of the layer.
    """
    out = []
    for class_name, given, shape in layers:
        K.backend.clear_session()
        layer = _layer(class_name, given)
        symbol = L.Input(shape)
        inputs = _INPUTS.get(class_name, lambda symbol: [symbol])(symbol)
        model = K.Model(symbol, layer(*inputs))
        weights = [
            [weight.name.split(":")[0].rpartition("/")[2], list(weight.shape), bool(weight.trainable)]
            for weight in layer.weights
        ]
        out.append([model.to_json(), weights, list(layer._trackable_children()) if edges else None])
    return out


_INPUTS = {
    "AdditiveAttention": lambda symbol: [[symbol, symbol]],
    "Attention": lambda symbol: [[symbol, symbol]],
    "GroupQueryAttention": lambda symbol: [symbol, symbol],
    "MultiHeadAttention": lambda symbol: [symbol, symbol],
}
"""The arguments of layers with several inputs."""


def _layer(class_name, given):
    """Build a layer; options that are layers, or lists of layers, are given by class and options."""

    def option(value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [option(each) for each in value]
        return _layer(value["class"], value["options"]) if isinstance(value, dict) else value

    return getattr(L, class_name)(**{name: option(value) for name, value in given.items()})


def layer_values(layers):
    """Run each layer in a model of its own, on numbers that a formula gives, forward and backward.

    Returns the model's configuration, the input, the weights, the output, and the gradients of the
    output's sum, weighted, by the input and by each weight that is trained.
    """
    return [_values_of(*row) for row in layers]


def _values_of(class_name, given, shape):
    K.backend.clear_session()
    layer = _layer(class_name, given)
    symbol = L.Input(shape)
    inputs = _INPUTS.get(class_name, lambda symbol: [symbol])(symbol)
    model = K.Model(symbol, layer(*inputs))
    # Variances among them: none may be negative.
    values = [_waves(weight.shape, at) + 1.5 for at, weight in enumerate(model.weights)]
    model.set_weights(values)
    x = tf.constant(_waves([2, *shape], 9))
    trained = [w if isinstance(w, tf.Variable) else w.value for w in model.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(x)
        out = model(x, training=False)
        total = tf.reduce_sum(out * _waves(out.shape, 7))
    arrays = [x.numpy(), *model.get_weights()]
    gradients = tape.gradient(total, [x, *trained])
    return [
        model.to_json(),
        [array.tolist() for array in arrays],
        out.numpy().tolist(),
        [one.numpy().tolist() for one in gradients],
    ]


def _waves(shape, phase):
    return np.sin(np.arange(np.prod(shape)) * 1.7 + phase).reshape(shape).astype("f4")
