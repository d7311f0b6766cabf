"""Layers, models, losses and metrics with masks; run by TensorFlow and by the runtime.

Each row is a function without arguments that returns tensors, numbers and masks, nested, or raises.
"""

import functools

import numpy as np

TOKENS = np.array([[1, 2, 0, 3, 0], [4, 0, 0, 0, 0], [0, 0, 1, 1, 2], [5, 5, 5, 5, 5]])
LABELS = (np.sin(np.arange(20) * 1.7).reshape(4, 5, 1) > 0).astype("f4")
CLASSES = np.arange(20).reshape(4, 5) % 3


def waves(shape, phase=0):
    return np.sin(np.arange(np.prod(shape)) * 1.7 + phase).reshape(shape).astype("f4")


def answers(tf):
    """Return what each row gives: `values`, None for no mask, or the name of an `error`."""
    found = {}
    for name, row in rows(tf).items():
        tf.keras.backend.clear_session()
        try:
            values = tf.nest.flatten(row())
        except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
            found[name] = {"error": type(error).__name__}
        else:
            found[name] = {"values": [_plain(value) for value in values]}
    return found


def _plain(value):
    return None if value is None else np.round(np.asarray(value, "f8"), 6).tolist()


def mask_of(value):
    return getattr(value, "_keras_mask", None)


def with_values(*layers):
    for layer in layers:
        layer.set_weights([waves(w.shape, at) * 0.7 for at, w in enumerate(layer.get_weights())])
    return layers[0]


def embedded(tf, tokens=TOKENS, mask_zero=True):
    layer = tf.keras.layers.Embedding(6, 3, mask_zero=mask_zero)
    layer(tokens)
    return with_values(layer)(tokens)


def recurrent(tf, layer):
    """Return outputs, their masks, and gradients by weights."""
    layer(embedded(tf))
    with_values(layer)
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(layer(embedded(tf)))
        total = sum(tf.reduce_sum(one * waves(one.shape, 3)) for one in outputs)
    return outputs, [mask_of(one) for one in outputs], tape.gradient(total, layer.trainable_variables)


def through(tf, make):
    out = make()(embedded(tf))
    return out, mask_of(out)


def merged(tf, make):
    found = []
    for second in (embedded(tf, TOKENS[::-1].copy()), embedded(tf, mask_zero=False)):
        out = make()([embedded(tf), second])
        found.append((out, mask_of(out)))
    return found


def attended(tf, key=False, **how):
    query, value = embedded(tf), embedded(tf, TOKENS[:, ::-1].copy())
    layer = tf.keras.layers.MultiHeadAttention(2, 2)
    given = [query, value, embedded(tf, TOKENS[::-1].copy())] if key else [query, value]
    layer(*given)
    out = tf.nest.flatten(with_values(layer)(*given, **how))
    return out, [mask_of(one) for one in out]


def normalized(tf, shape, mask):
    layer = tf.keras.layers.BatchNormalization(momentum=0.5)
    out = layer(tf.constant(waves(shape)), training=True, mask=mask)
    return out, layer.moving_mean, layer.moving_variance, mask_of(out)


def fitted(tf, make, labels, loss, metrics=None):
    model = make()
    model(TOKENS)
    with_values(model)
    model.compile(tf.keras.optimizers.legacy.SGD(0.3), loss, metrics=metrics)
    history = model.fit(TOKENS, labels, batch_size=2, epochs=2, shuffle=False, verbose=0).history
    return list(history.values()), model.evaluate(TOKENS, labels, verbose=0), model.get_weights()


def models(tf):
    keras, layers = tf.keras, tf.keras.layers

    def tagger():
        return keras.Sequential(
            [
                layers.Embedding(6, 3, mask_zero=True),
                layers.LSTM(2, return_sequences=True),
                layers.Dense(1, activation="sigmoid"),
            ]
        )

    def functional():
        tokens = layers.Input([5], dtype="int32")
        h = layers.Embedding(6, 3, mask_zero=True)(tokens)
        h = layers.Bidirectional(layers.GRU(2, return_sequences=True))(h)
        h = layers.BatchNormalization()(layers.Dropout(0.0)(h))
        return keras.Model(tokens, layers.Dense(3, activation="softmax")(h))

    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.embed = layers.Embedding(6, 3, mask_zero=True)
            self.gru, self.dense = layers.GRU(2), layers.Dense(1)

        def call(self, tokens):
            return self.dense(self.gru(self.embed(tokens), mask=self.embed.compute_mask(tokens)))

    class Nested(keras.Model):
        def __init__(self):
            super().__init__()
            self.embed = layers.Embedding(6, 3, mask_zero=True)
            self.inner = keras.Sequential([layers.LSTM(2, return_sequences=True), layers.Dense(2)])
            self.dense = layers.Dense(1)

        def call(self, tokens):
            return self.dense(self.inner(self.embed(tokens)))

    def pooled():
        return keras.Sequential(
            [layers.Embedding(6, 3, mask_zero=True), layers.GlobalAveragePooling1D(), layers.Dense(1)]
        )

    return tagger, functional, Classifier, Nested, pooled


def own_layers(tf):
    """Layers as the guide to masks has them, each with the mask of what it returns."""
    layers = tf.keras.layers

    class Halves(layers.Layer):
        def call(self, inputs):
            return tf.split(inputs, 2, axis=1)

        def compute_mask(self, inputs, mask=None):
            return None if mask is None else tf.split(mask, 2, axis=1)

    class Share(layers.Layer):
        def call(self, inputs, mask=None):
            there = tf.expand_dims(tf.cast(mask, "float32"), -1)
            kept = tf.exp(inputs) * there
            return kept / tf.reduce_sum(kept, axis=1, keepdims=True)

    class Passing(layers.Layer):
        def __init__(self):
            super().__init__()
            self.supports_masking = True

        def call(self, inputs):
            return tf.nn.relu(inputs)

    class Dropping(layers.Layer):
        def call(self, inputs):
            return tf.nn.relu(inputs)

    class Asking(layers.Layer):
        def call(self, inputs, **options):
            return inputs * (2.0 if options.get("mask") is None else 3.0)

    x = embedded(tf)
    halves = Halves()(embedded(tf, TOKENS[:, :4].copy()))
    found = [*halves, Share()(x), Passing()(x), Dropping()(x), Asking()(x), Asking()(Dropping()(x))]
    return [(one, mask_of(one)) for one in found]


def given_masks(tf):
    """Masks as an argument of models, and such as are computed of a symbolic input."""
    keras, layers = tf.keras, tf.keras.layers
    how = {"kernel_initializer": "ones", "recurrent_initializer": "ones"}
    rows, tokens = layers.Input([5, 3]), layers.Input([5], dtype="int32")
    gru = layers.GRU(2, return_sequences=True, **how)
    model, sequential = keras.Model(rows, gru(rows)), keras.Sequential([gru])
    x, mask = tf.constant(waves((4, 5, 3))), tf.constant(TOKENS != 0)
    found = [model(x, mask=mask), sequential(x, mask=mask), model(x), model(embedded(tf))]
    plain, masked = (layers.Embedding(6, 3, mask_zero=one, embeddings_initializer="ones") for one in (0, 1))
    symbolic = keras.Model(tokens, layers.GRU(2, **how)(plain(tokens), mask=masked.compute_mask(tokens)))
    return [(one, mask_of(one)) for one in found], model.compute_mask(x, mask), symbolic(TOKENS)


def states(tf):
    """States as arguments, of symbolic and of other tensors, with and without masks."""
    keras, layers = tf.keras, tf.keras.layers
    how = {"kernel_initializer": "ones", "recurrent_initializer": "ones"}
    x, h, c = waves((4, 5, 3)), waves((4, 2)), waves((4, 2), 1)
    shorter = x.copy()
    shorter[:, 2:] = 0
    rows, query, one, two = (layers.Input(shape) for shape in ([5, 3], [5, 3], [2], [2]))
    lstm = keras.Model([rows, one, two], layers.LSTM(2, **how)(rows, initial_state=[one, two]))
    both = keras.Model(
        [rows, one, two], layers.Bidirectional(layers.GRU(2, **how))(rows, initial_state=[one, two])
    )
    _, *last = layers.LSTM(2, return_state=True, **how)(layers.Masking()(query))
    decoded = keras.Model([query, rows], layers.LSTM(2, return_sequences=True, **how)(rows, last))
    eager = [tf.constant(one) for one in (h, c, c, h)]
    masked = layers.LSTM(2, **how)(tf.constant(x), initial_state=eager[:2], mask=tf.constant(TOKENS != 0))
    return (
        lstm([x, h, c]),
        both([x, h, c]),
        decoded([shorter, x]),
        masked,
        layers.Bidirectional(layers.LSTM(2, **how))(tf.constant(x), initial_state=eager),
    )


def weighed(tf):
    """Losses and metrics with weights of fewer axes than they have, and of as many."""
    losses, metrics = tf.keras.losses, tf.keras.metrics
    labels, found, of_rows = waves((4, 4, 2), 2), waves((4, 4, 2)), waves((4,)) + 1.5
    mse, out = losses.MeanSquaredError(), []
    for weights in (of_rows, waves((4, 4)), waves((4, 4, 1)), 2.0):
        out.append(mse(labels, found, sample_weight=weights))
    for values, weights in ((labels[..., 0], of_rows), (labels, waves((4, 4)) + 1.5), (labels, of_rows)):
        metric = metrics.Mean()
        metric.update_state(values, weights)
        out.append(metric.result())
    right = metrics.SparseCategoricalAccuracy()
    right.update_state([[0, 1], [1, 1]], waves((2, 2, 3)), [[1.0, 0.0], [0.5, 1.0]])
    return (
        out,
        right.result(),
        losses.Huber(0.3)(labels, found),
        losses.BinaryCrossentropy(True)(labels, found),
    )


def rows(tf):
    layers, run = tf.keras.layers, functools.partial
    ones = {"kernel_initializer": "ones"}
    found = {}
    for name in ("LSTM", "GRU", "SimpleRNN"):
        for how in (
            {},
            {"return_sequences": True},
            {"return_sequences": True, "zero_output_for_mask": True},
            {"zero_output_for_mask": True, "return_state": True},
            {"go_backwards": True},
            {"go_backwards": True, "return_sequences": True, "return_state": True},
            {"unroll": True, "return_sequences": True, "zero_output_for_mask": True},
        ):
            make = getattr(layers, name)
            found[f"{name} {how}"] = lambda make=make, how=how: recurrent(tf, make(2, **how))
    for mode in ("concat", "sum", "ave", "mul", None):
        for how in ({}, {"return_sequences": True}, {"return_sequences": True, "return_state": True}):
            found[f"Bidirectional {mode} {how}"] = lambda mode=mode, how=how: recurrent(
                tf, layers.Bidirectional(layers.GRU(2, **how), merge_mode=mode)
            )
    for name, make in {
        "Dense": lambda: layers.Dense(2, **ones),
        "Dropout": lambda: layers.Dropout(0.5),
        "Activation": lambda: layers.Activation("tanh"),
        "Activation of nothing": lambda: layers.Activation(None),
        "ReLU": layers.ReLU,
        "LeakyReLU": layers.LeakyReLU,
        "Softmax, whose mask has another shape": layers.Softmax,
        "LayerNormalization": layers.LayerNormalization,
        "BatchNormalization": layers.BatchNormalization,
        "GroupNormalization, whose mask has another shape": lambda: layers.GroupNormalization(3),
        "Conv1D": lambda: layers.Conv1D(2, 2, **ones),
        "Flatten": layers.Flatten,
        "Reshape": lambda: layers.Reshape((3, 5)),
        "Permute": lambda: layers.Permute((2, 1)),
        "Rescaling": lambda: layers.Rescaling(2.0),
        "EinsumDense": lambda: layers.EinsumDense("abc,cd->abd", (None, 2), **ones),
        "Masking": layers.Masking,
        "Masking of a value": lambda: layers.Masking(0.5),
        "Lambda": lambda: layers.Lambda(lambda x: x * 2),
        "Lambda of nothing": lambda: layers.Lambda(lambda x: x),
        "Lambda with a mask": lambda: layers.Lambda(
            lambda x, mask=None: x * tf.cast(mask, "float32")[:, :, None], mask=lambda x, m: m[:, ::-1]
        ),
        "GlobalAveragePooling1D": layers.GlobalAveragePooling1D,
        "GlobalMaxPooling1D": layers.GlobalMaxPooling1D,
        "TimeDistributed Dense": lambda: layers.TimeDistributed(layers.Dense(2, **ones)),
        "TimeDistributed Masking": lambda: layers.TimeDistributed(layers.Masking()),
    }.items():
        found[name] = run(through, tf, make)
    for name in ("Add", "Multiply", "Subtract", "Maximum", "Average", "Concatenate"):
        found[name] = run(merged, tf, getattr(layers, name))
    found["Concatenate times"] = run(merged, tf, lambda: layers.Concatenate(axis=1))
    found |= {
        "attention": run(attended, tf),
        "attention to no later place": run(attended, tf, use_causal_mask=True),
        "attention with a mask": run(attended, tf, attention_mask=np.tril(np.ones((4, 5, 5), bool), 1)),
        "attention with scores": run(attended, tf, return_attention_scores=True),
        "attention with keys": run(attended, tf, key=True),
    }
    mask = tf.constant(TOKENS != 0)
    for shape in ((4, 5, 3), (4, 5, 3, 2), (4, 5, 1, 2, 2), (4, 5)):
        found[f"BatchNormalization {shape}"] = run(normalized, tf, shape, mask)
        found[f"BatchNormalization {shape} without"] = run(normalized, tf, shape, None)

    def at_each_time(layer):
        x = waves((2, 3, 4, 2))
        x[0, 1] = x[1, 2, 3] = 0
        layer(layers.Masking()(x))
        out = with_values(layer)(layers.Masking()(x))
        return out, mask_of(out)

    tagger, functional, classifier, nested, pooled = models(tf)
    losses = tf.keras.losses
    return found | {
        "TimeDistributed LSTM": lambda: at_each_time(layers.TimeDistributed(layers.LSTM(2))),
        "TimeDistributed Conv1D": lambda: at_each_time(layers.TimeDistributed(layers.Conv1D(2, 2))),
        "GroupNormalization": lambda: layers.GroupNormalization(5)(
            tf.constant(waves((5, 5, 5))), mask=tf.constant(waves((5, 5)) > 0)
        ),
        "a mask of a layer that supports none": lambda: layers.Conv1D(1, 1).compute_mask(None, mask),
        "layers of a program": run(own_layers, tf),
        "masks that are given": run(given_masks, tf),
        "states": run(states, tf),
        "weights": run(weighed, tf),
        "fit to tags": run(fitted, tf, tagger, LABELS, "binary_crossentropy", ["accuracy"]),
        "fit to distances": run(fitted, tf, tagger, LABELS, losses.MeanAbsoluteError(reduction="sum")),
        "fit to a function": run(
            fitted, tf, tagger, LABELS, lambda one, other: tf.reduce_sum(tf.abs(one - other), -1)
        ),
        "fit to classes": run(
            fitted, tf, functional, CLASSES, "sparse_categorical_crossentropy", ["accuracy"]
        ),
        "fit to one-hot classes": run(
            fitted, tf, functional, np.eye(3, dtype="f4")[CLASSES], "categorical_crossentropy", ["accuracy"]
        ),
        "fit a class of a program": run(fitted, tf, classifier, LABELS[:, 0, 0], "mse"),
        "fit a model in a model": run(fitted, tf, nested, LABELS, "mse"),
        "fit means": run(fitted, tf, pooled, LABELS[:, 0, 0], "mse"),
    }
