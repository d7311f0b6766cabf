"""Models whose JSON texts TensorFlow and the runtime write alike, and read of each other."""

import json

import numpy as np


def models(tf):
    """Return makers of models by name, each with the shapes of its inputs."""
    keras = tf.keras
    layers, regularizers = keras.layers, keras.regularizers

    def dense():
        return keras.Sequential(
            [
                layers.Dense(4, "relu", kernel_regularizer="l2", input_shape=(3,)),
                layers.Dropout(0.1, seed=3),
                layers.Dense(
                    2,
                    use_bias=False,
                    kernel_initializer=keras.initializers.HeNormal(seed=1),
                    activity_regularizer=regularizers.L1L2(0.1, 0.2),
                    name="last",
                ),
            ],
            name="stack",
        )

    def image():
        return keras.Sequential(
            [
                layers.Input([8, 8, 2]),
                layers.Rescaling(0.5, 1.0),
                layers.Conv2D(4, 3, padding="same", activation="elu"),
                layers.BatchNormalization(momentum=0.9),
                layers.LeakyReLU(),
                layers.ReLU(6.0),
                layers.MaxPooling2D(),
                layers.DepthwiseConv2D(2, depth_multiplier=2),
                layers.SeparableConv2D(4, 2, depthwise_regularizer="l1"),
                layers.Conv2DTranspose(2, 3, strides=2, output_padding=1),
                layers.GroupNormalization(2),
                layers.AveragePooling2D(2, strides=1),
                layers.Reshape((5, -1)),
                layers.Conv1D(4, 2, padding="causal"),
                layers.LayerNormalization(axis=[1, 2]),
                layers.Permute((2, 1)),
                layers.Flatten(),
                layers.Activation("tanh"),
                layers.Softmax(),
            ]
        )

    def volume():
        return keras.Sequential([layers.Conv3D(2, 2, input_shape=(3, 3, 3, 2)), layers.Flatten()])

    def pooled():
        image = layers.Input([4, 4, 2])
        both = [layers.GlobalAveragePooling2D()(image), layers.GlobalMaxPooling2D(keepdims=True)(image)]
        return keras.Model(image, [layers.UnitNormalization()(both[0]), layers.Flatten()(both[1])])

    def text():
        tokens = layers.Input([None], dtype="int32", name="tokens")
        h = layers.Embedding(6, 4, mask_zero=True)(tokens)
        h = layers.LSTM(3, return_sequences=True, zero_output_for_mask=True)(h)
        h = layers.MultiHeadAttention(2, 2, dropout=0.1)(h, h, use_causal_mask=True)
        h = layers.Bidirectional(layers.GRU(2, reset_after=False, return_sequences=True), merge_mode="sum")(h)
        h = layers.TimeDistributed(layers.Dense(3))(h)
        h = layers.SimpleRNN(2, go_backwards=True, return_sequences=True)(layers.Masking(0.5)(h))
        return keras.Model(tokens, layers.GlobalAveragePooling1D()(h), name="text")

    def states():
        rows, first = layers.Input([4, 3]), layers.Input([2])
        out, h, c = layers.LSTM(2, return_sequences=True, return_state=True)(rows)
        again = layers.LSTM(2)(out, initial_state=[h, first])
        return keras.Model([rows, first], layers.Concatenate()([again, c]))

    def cells():
        rows = layers.Input([4, 3])
        both = layers.RNN([layers.LSTMCell(2), layers.GRUCell(3)], return_sequences=True)(rows)
        return keras.Model(rows, layers.RNN(layers.SimpleRNNCell(2))(both))

    def cells_with_states():
        rows, first = layers.Input([4, 3]), layers.Input([2])
        return keras.Model([rows, first], layers.RNN(layers.SimpleRNNCell(2))(rows, initial_state=[first]))

    def graph():
        a, b = layers.Input([4], name="a"), layers.Input([4], name="b")
        shared = layers.Dense(3, name="shared")
        one, two = shared(a), shared(b)
        h = layers.Add()([one, two]) * 2.0 + one
        h = layers.Concatenate(axis=1)([h / 2.0, two - one, -h, layers.Maximum()([one, two])])
        h = layers.BatchNormalization()(layers.Dropout(0.5)(h), training=False)
        h = layers.Average()([layers.Multiply()([h, h]), layers.Subtract()([h, h])])
        return keras.Model({"a": a, "b": b}, {"out": h})

    def nested():
        inner = keras.Sequential([layers.Input([4]), layers.Dense(3)], name="inner")
        x = layers.Input([4])
        deep = keras.Model(x, layers.Dense(4)(x), name="deep")
        y = layers.Input([4])
        return keras.Model(y, layers.Add()([inner(y), inner(deep(y))]))

    def timed():
        rows = layers.Input([4, 5, 3])
        h = layers.TimeDistributed(layers.Conv1D(4, 2, padding="same"))(rows)
        for within in (layers.Dropout(0.5), layers.LSTM(2), layers.Softmax()):
            h = layers.TimeDistributed(within)(h)
        how = {"kernel_regularizer": "l2", "bias_regularizer": "l1", "activity_regularizer": "l2"}
        h = layers.MultiHeadAttention(2, 2, output_shape=5, **how)(h, h)
        dense = layers.EinsumDense("abc,cd->abd", (None, 3), kernel_regularizer="l1")
        both = layers.Bidirectional(layers.GRU(2, return_sequences=True, trainable=False))
        return keras.Model(rows, layers.Softmax(axis=[1, 2])(both(dense(h))))

    return {
        "dense": (dense, [[3]]),
        "image": (image, [[8, 8, 2]]),
        "volume": (volume, [[3, 3, 3, 2]]),
        "pooled": (pooled, [[4, 4, 2]]),
        "text": (text, [[5]]),
        "states": (states, [[4, 3], [2]]),
        "cells": (cells, [[4, 3]]),
        "cells with states": (cells_with_states, [[4, 3], [2]]),
        "graph": (graph, {"a": [4], "b": [4]}),
        "nested": (nested, [[4]]),
        "timed": (timed, [[4, 5, 3]]),
    }


def written(tf, name):
    """Return a model's text and what it puts out."""
    tf.keras.backend.clear_session()
    make, shapes = models(tf)[name]
    model = make()
    return {"text": model.to_json(), "outputs": _outputs(model, name, shapes)}


def read(tf, name, text):
    """Return what a model that is made of a text puts out, and the text that it writes."""
    tf.keras.backend.clear_session()
    model = tf.keras.models.model_from_json(text)
    return {"text": model.to_json(), "outputs": _outputs(model, name, models(tf)[name][1])}


def _outputs(model, name, shapes):
    for number, weight in enumerate(model.weights):
        values = np.cos(np.arange(int(np.prod(weight.shape))) * 0.7 + number).reshape(weight.shape) * 0.5
        weight.assign((np.abs(values) + 0.5 if "variance" in weight.name else values).astype("f4"))
    given = shapes if isinstance(shapes, dict) else dict(enumerate(shapes))
    inputs = {}
    for key, shape in given.items():
        values = np.sin(np.arange(2 * int(np.prod(shape))) * 1.7).reshape([2, *shape]).astype("f4")
        inputs[key] = (np.abs(values) * 6).astype("i4") if name == "text" else values
    if not isinstance(shapes, dict):
        inputs = list(inputs.values()) if len(inputs) > 1 else inputs[0]
    found = model(inputs, training=False)
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else [found]
    return [np.asarray(part, "f8").round(6).tolist() for part in parts]


def plain(text):
    return json.loads(text)
