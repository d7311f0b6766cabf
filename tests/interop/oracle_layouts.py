"""Models of Keras with random weights, saved, and what they answer; run by TensorFlow's Python."""

import json
import os
import re

import numpy as np
import tensorflow as tf

K, L = tf.keras, tf.keras.layers


def _conv_net():
    image = L.Input([8, 8, 3])
    h = L.Conv2D(4, 3, padding="same", use_bias=False, name="conv_a")(image)
    h = L.ReLU(name="relu")(L.BatchNormalization(name="bn_a")(h))
    h = L.Conv2D(5, 3, strides=2, padding="same", name="conv_b")(h)
    h = L.BatchNormalization(name="bn_b", epsilon=1e-4)(h)
    return K.Model(image, L.Dense(2, name="logits")(L.Flatten(name="flat")(h)))


def _stacked():
    tokens = L.Input([6], dtype="int32")
    h = L.Embedding(11, 4, name="emb")(tokens)
    h = L.LSTM(5, return_sequences=True, name="lstm")(h)
    return K.Model(tokens, L.Dense(2, name="out")(h))


def _nested():
    inner = K.Sequential(
        [L.Input([5]), L.Dense(5, name="square"), L.LayerNormalization(name="ln")], name="tower"
    )
    given = L.Input([5])
    return K.Model(given, L.Dense(5, name="last")(inner(given)))


def _attention(**options):
    given = L.Input([5, 8])
    return K.Model(given, L.MultiHeadAttention(2, 4, name="layer", **options)(given, given))


def _one(layer, *shape, dtype="float32"):
    given = L.Input(shape, dtype=dtype)
    return K.Model(given, layer(given))


MODELS = {
    "Dense": lambda: _one(L.Dense(5, name="layer"), 7),
    "Dense square": lambda: _one(L.Dense(6, name="layer"), 6),
    "Dense bare": lambda: _one(L.Dense(6, use_bias=False, name="layer"), 6),
    "Conv1D": lambda: _one(L.Conv1D(4, 3, name="layer"), 9, 3),
    "Conv2D": lambda: _one(L.Conv2D(4, (2, 3), name="layer"), 8, 9, 3),
    "Conv2D square": lambda: _one(L.Conv2D(3, 3, name="layer"), 8, 9, 3),
    "Conv2D groups": lambda: _one(L.Conv2D(6, 3, groups=2, name="layer"), 8, 9, 4),
    "Conv3D": lambda: _one(L.Conv3D(4, (2, 3, 2), name="layer"), 5, 6, 5, 3),
    "Conv1DTranspose": lambda: _one(L.Conv1DTranspose(4, 3, name="layer"), 5, 3),
    "Conv2DTranspose": lambda: _one(L.Conv2DTranspose(4, (2, 3), name="layer"), 5, 6, 3),
    "Conv3DTranspose": lambda: _one(L.Conv3DTranspose(4, (2, 3, 2), name="layer"), 4, 3, 4, 3),
    "DepthwiseConv1D": lambda: _one(L.DepthwiseConv1D(3, depth_multiplier=2, name="layer"), 8, 3),
    "DepthwiseConv2D": lambda: _one(L.DepthwiseConv2D((2, 3), depth_multiplier=2, name="layer"), 8, 9, 3),
    "SeparableConv1D": lambda: _one(L.SeparableConv1D(4, 2, depth_multiplier=2, name="layer"), 7, 3),
    "SeparableConv2D": lambda: _one(L.SeparableConv2D(4, 2, name="layer"), 5, 5, 3),
    "BatchNormalization": lambda: _one(L.BatchNormalization(name="layer"), 4, 4, 3),
    "BatchNormalization bare": lambda: _one(
        L.BatchNormalization(scale=False, center=False, name="layer"), 4, 3
    ),
    "BatchNormalization shifted": lambda: _one(L.BatchNormalization(scale=False, name="layer"), 4, 3),
    "LayerNormalization": lambda: _one(L.LayerNormalization(name="layer"), 6),
    "LayerNormalization scaled": lambda: _one(L.LayerNormalization(center=False, name="layer"), 6),
    "GroupNormalization": lambda: _one(L.GroupNormalization(2, name="layer"), 5, 6),
    "PReLU": lambda: _one(L.PReLU(name="layer"), 6),
    "PReLU channels": lambda: _one(L.PReLU(shared_axes=[1, 2], name="layer"), 5, 4, 3),
    "PReLU steps": lambda: _one(L.PReLU(shared_axes=[1], name="layer"), 5, 4),
    "PReLU shared": lambda: _one(L.PReLU(shared_axes=[1, 2, 3], name="layer"), 5, 4, 3),
    "Embedding": lambda: _one(L.Embedding(11, 4, name="layer"), 6, dtype="int32"),
    "LSTM": lambda: _one(L.LSTM(4, return_sequences=True, name="layer"), 6, 3),
    "LSTM square": lambda: _one(L.LSTM(3, use_bias=False, return_sequences=True, name="layer"), 6, 3),
    "GRU": lambda: _one(L.GRU(4, return_sequences=True, name="layer"), 6, 3),
    "GRU bare": lambda: _one(L.GRU(4, use_bias=False, return_sequences=True, name="layer"), 6, 3),
    "SimpleRNN": lambda: _one(L.SimpleRNN(4, return_sequences=True, name="layer"), 6, 3),
    "Bidirectional LSTM": lambda: _one(L.Bidirectional(L.LSTM(4, return_sequences=True), name="layer"), 6, 3),
    "Bidirectional GRU": lambda: _one(L.Bidirectional(L.GRU(4, return_sequences=True), name="layer"), 6, 3),
    "TimeDistributed": lambda: _one(L.TimeDistributed(L.Dense(4), name="layer"), 6, 3),
    "MultiHeadAttention": _attention,
    "MultiHeadAttention bare": lambda: _attention(use_bias=False),
    "MLP": lambda: K.Sequential([L.Input([6]), L.Dense(6, name="a"), L.ReLU(), L.Dense(3, name="b")]),
    "convolution net": _conv_net,
    "stacked": _stacked,
    "nested": _nested,
}


def _called_as_keras_does(model):
    """Return the model with layers that have the names of their classes, and whose these are in PyTorch.

    A wrapper's layer has the way to it for a name, and so has a wrapper that Keras 3 makes from JSON.
    """
    text = model.to_json()
    paths = dict.fromkeys(("layer_with_weights-0.layer", "_operations.1.layer", "_operations.1"), "layer")
    inner = [(layer, layer.name) for layer in model.layers if hasattr(layer, "layers")]
    flat = [(layer, f"{name}.{layer.name}") for one, name in inner for layer in one.layers]
    for number, (layer, path) in enumerate([*flat, *((layer, layer.name) for layer in model.layers)]):
        snake = re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", type(layer).__name__))
        paths[f"{snake.lower()}_{number}"] = path
        text = re.sub(rf'("name": |\[)"{layer.name}"', rf'\1"{snake.lower()}_{number}"', text)
    renamed = K.models.model_from_json(text)
    renamed.set_weights(model.get_weights())
    return renamed, paths


def saved(folder, names, suffix):
    """Save models as `<number><suffix>`, and their inputs and outputs as `<number>.npz`.

    Without a suffix they are checkpoints of TensorFlow, and their layers have no names of their own.
    """
    random = np.random.RandomState(7)
    for number, name in enumerate(names):
        K.backend.clear_session()
        model = MODELS[name]()
        # Variances are positive; everything else may be anything.
        model.set_weights([random.uniform(0.2, 1, w.shape).astype("f") for w in model.get_weights()])
        (given,) = model.inputs
        shape = [2, *given.shape[1:]]
        whole = "int" in str(given.dtype)
        x = random.randint(0, 11, shape).astype("int32") if whole else random.randn(*shape).astype("f")
        np.savez(os.path.join(folder, f"{number}.npz"), x=x, y=np.asarray(model(x, training=False)))
        path = os.path.join(folder, f"{number}{suffix}")
        if not suffix:
            model, paths = _called_as_keras_does(model)
            tf.train.Checkpoint(root=model).write(path)
            with open(os.path.join(folder, f"{number}.names.json"), "w") as file:
                json.dump(paths, file)
            continue
        model.save_weights(path) if suffix == ".weights.h5" else model.save(path)
        with open(os.path.join(folder, f"{number}.json"), "w") as file:
            file.write(model.to_json())


class Net(K.Model):
    """A program's own model, which has no configuration."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = L.Dense(5), L.Dense(4)
        self.bn = L.BatchNormalization()
        self.memory = L.LSTM(6, return_sequences=True)
        self.gru = L.GRU(5)
        self.out = L.Dense(2)

    def call(self, x, training=False):
        x = self.bn(self.narrow(self.wide(x)), training=training)
        return self.out(self.gru(self.memory(x)))


def trained(folder):
    """Save a program's own model after two steps, as the guide to checkpoints does, and its answer."""
    K.utils.set_random_seed(5)
    random = np.random.RandomState(5)
    net, x = Net(), random.randn(3, 4, 3).astype("f")
    net.compile(K.optimizers.Adam(0.1), "mse")
    net.fit(x, random.randn(3, 2).astype("f"), epochs=2, verbose=0)
    whole = tf.train.Checkpoint(step=tf.Variable(2), optimizer=net.optimizer, net=net)
    whole.write(os.path.join(folder, "net"))
    np.savez(os.path.join(folder, "net.npz"), x=x, y=np.asarray(net(x, training=False)))
