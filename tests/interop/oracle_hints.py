"""Models whose layers differ in how Keras' formats list them, trained and fresh; run by TensorFlow's Python.

`tf.keras` is Keras 2 in TensorFlow 2.15 and Keras 3 in 2.21.
"""

import os

import numpy as np
import tensorflow as tf

K = tf.keras
L = tf.keras.layers


def convolutions():
    layers = [L.Conv2D(4, 3, padding="same"), L.BatchNormalization(), L.MaxPooling2D()]
    layers += [L.Conv2D(4, 3, padding="same"), L.BatchNormalization(), L.Flatten()]
    return K.Sequential([L.Input((8, 8, 1)), *layers, L.Dense(8), L.Dense(8), L.Dense(3)]), (8, 8, 1)


def transformer():
    tokens = L.Input((6,))
    x = L.Embedding(20, 8)(tokens)
    for _ in range(2):
        attended = L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)])
        x = L.LayerNormalization()(attended)
        hidden = L.Dense(8)(L.Dense(16, activation="relu")(x))
        x = L.LayerNormalization()(L.Add()([x, hidden]))
    return K.Model(tokens, L.Dense(3)(L.GlobalAveragePooling1D()(x))), (6,)


def over_time():
    frames = L.Input((3, 8, 8, 1))
    x = L.TimeDistributed(L.Conv2D(2, 3, padding="same"))(frames)
    x = L.Flatten()(L.ConvLSTM2D(2, 3)(x))
    return K.Model(frames, L.Dense(3)(x)), (3, 8, 8, 1)


class Block(L.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = L.Dense(8, "relu"), L.Dense(8), L.LayerNormalization()

    def call(self, x):
        return self.norm(x + self.second(self.first(x)))


class Blocks(K.Model):
    def __init__(self):
        super().__init__()
        self.into, self.blocks, self.head = L.Dense(8), [Block() for _ in range(3)], L.Dense(3)

    def call(self, x):
        x = self.into(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def subclassed():
    return Blocks(), (5,)


MODELS = {each.__name__: each for each in (convolutions, transformer, over_time, subclassed)}


def _data(shape):
    random = np.random.default_rng(3)
    return random.integers(0, 20, (16, *shape)).astype("float32"), random.integers(0, 3, 16)


def make(folder, model):
    """Train a model by some steps, and another by one; save both in all formats that take them."""
    forms = set()
    for name, seed, steps in (("trained", 1, 5), ("fresh", 2, 1)):
        K.backend.clear_session()
        K.utils.set_random_seed(seed)
        made, shape = MODELS[model]()
        made.compile(K.optimizers.Adam(0.01), K.losses.SparseCategoricalCrossentropy(from_logits=True))
        inputs, labels = _data(shape)
        made.fit(inputs, labels, epochs=steps, batch_size=16, verbose=0)
        at = os.path.join(folder, name)
        os.makedirs(at)
        made.save_weights(os.path.join(at, "m.weights.h5"))
        tf.train.Checkpoint(model=made, optimizer=made.optimizer).write(os.path.join(at, "ckpt-1"))
        forms |= {"m.weights.h5", "ckpt-1"}
        if model != "subclassed":
            for form in ("m.h5", "m.keras"):
                made.save(os.path.join(at, form))
                forms.add(form)
        np.save(os.path.join(at, "outputs.npy"), made(inputs))
    return sorted(forms)


def far_from_trained(folder, model, path):
    """Return how far the outputs of a model that loads `path` are from those that were trained."""
    K.backend.clear_session()
    K.utils.set_random_seed(7)
    made, shape = MODELS[model]()
    inputs, _ = _data(shape)
    made(inputs)
    optimizer = K.optimizers.Adam(0.01)
    optimizer.build(made.trainable_variables)  # the one way to what Keras 3 keeps in a list
    if path.endswith(("h5", ".keras")):
        made.load_weights(path)
    else:
        tf.train.Checkpoint(model=made, optimizer=optimizer).read(path).assert_existing_objects_matched()
    return float(np.abs(made(inputs) - np.load(os.path.join(folder, "trained", "outputs.npy"))).max())
