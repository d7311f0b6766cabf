"""Canned Estimators on a few examples, run by TensorFlow and by the runtime."""

import os
import tempfile

import numpy as np

FEATURES = {
    "x": np.cos(np.arange(16.0) * 1.3).reshape(8, 2).astype("f4"),
    "z": np.arange(8, dtype="f4") / 4 - 1,
    "n": np.array([[0], [3], [1], [5], [3], [-1], [2], [4]]),
    "m": np.array([[0, 3], [1, 1], [2, -1], [-1, -1], [3, 2], [0, 0], [4, 1], [-1, 2]]),
    "w": np.array([["a"], ["b"], ["c"], ["zz"], ["a"], [""], ["b"], ["q"]]),
    "weight": np.arange(1, 9, dtype="f4")[:, None] / 4,
    "share": np.array([[1, 2], [0.5, 1], [1, 0], [0, 0], [2, 3], [1, -1], [4, 1], [0, 0.5]], "f4"),
}
LABELS = {
    "class": np.arange(8) % 3,
    "two": np.arange(8) % 2,
    "word": np.array([["p"], ["q"], ["r"], ["p"], ["p"], ["q"], ["q"], ["r"]]),
    "value": np.sin(np.arange(8.0)).astype("f4"),
    "values": np.sin(np.arange(16.0)).reshape(8, 2).astype("f4"),
}


def data(tf, labels, repeats=True):
    found = tf.data.Dataset.from_tensors((FEATURES, LABELS[labels]))
    return found.repeat() if repeats else found


def values(tf, directory):
    """Return everything in the latest checkpoint of a directory."""
    reader = tf.train.load_checkpoint(directory)
    return {key: np.asarray(reader.get_tensor(key)) for key in sorted(reader.get_variable_to_shape_map())}


def trained(tf, make, labels, steps=3):
    """Return what training leaves in a checkpoint, and what is evaluated and predicted of it."""
    with tempfile.TemporaryDirectory() as directory:
        return _told(tf, make(directory), labels, steps)


def _told(tf, estimator, labels, steps):
    estimator.train(lambda: data(tf, labels), steps=steps)
    left = values(tf, estimator.model_dir)
    told = estimator.evaluate(lambda: data(tf, labels), steps=2)
    predicted = list(estimator.predict(lambda: data(tf, labels, repeats=False)))
    return {
        "checkpoint": left,
        "evaluated": {name: float(told[name]) for name in sorted(told)},
        "predicted": {name: [one[name] for one in predicted[:3]] for name in sorted(predicted[0])},
    }


def begun(tf, shapes, directory):
    """Write a checkpoint with variables of these shapes, for `warm_start_from`; return its prefix."""
    made = {}
    for at, (name, shape) in enumerate(sorted(shapes.items())):
        size = int(np.prod(shape))
        made[name] = tf.Variable(np.sin(np.arange(size) + at).reshape(shape).astype("f4"))
    return tf.compat.v1.train.Saver(made).save(None, os.path.join(directory, "begin"), global_step=0)


def warm(tf, make, shapes, labels, steps=3):
    """Return what training leaves that begins with a checkpoint: `make(directory, its prefix)`."""
    with tempfile.TemporaryDirectory() as directory:
        begin = begun(tf, shapes, directory)
        return trained(tf, lambda run: make(run, begin), labels, steps)


def looked_up(tf, make, way="input", **arguments):
    """Return what a layer of columns makes of the features, eagerly or in a graph, and its variables."""
    v1 = tf.compat.v1
    found = {}

    def model_fn(features, labels, mode):
        layer = v1.feature_column.input_layer if way == "input" else v1.feature_column.linear_model
        out = layer(features, make(), **arguments)
        names = [
            [one.name.split("/part_")[0].split(":")[0], list(one.shape)] for one in v1.global_variables()
        ]
        found["variables"] = sorted(name for name in names if name[0] != "global_step")
        return tf.estimator.EstimatorSpec(mode, predictions={"out": out})

    with tempfile.TemporaryDirectory() as directory:
        estimator = tf.estimator.Estimator(model_fn, directory)
        out = [one["out"] for one in estimator.predict(lambda: data(tf, "two", repeats=False))]
    return {**found, "out": np.stack(out)}


def _columns(tf):
    fc = tf.feature_column
    n = fc.categorical_column_with_identity("n", 6)
    return [fc.numeric_column("z"), n, fc.crossed_column([n, "w"], 7)]


def _deep(tf):
    fc = tf.feature_column
    number, n, crossed = _columns(tf)
    return [number, fc.indicator_column(n), fc.embedding_column(crossed, 2)]


RUNS = {
    "LinearClassifier": (_columns, {"n_classes": 3}, "class"),
    "LinearRegressor": (_columns, {"label_dimension": 2, "optimizer": "Adam"}, "values"),
    "DNNClassifier": (_deep, {"hidden_units": [4], "weight_column": "weight"}, "two"),
    "DNNRegressor": (_deep, {"hidden_units": [4, 3], "optimizer": "RMSProp"}, "value"),
}
"""Canned Estimators by name: their columns, their arguments, and the labels."""


def go_on(tf, name, directory, steps, v1=False):
    """Train a run for more steps; return what is in its checkpoint."""
    columns, arguments, labels = RUNS[name]
    kind = getattr(tf.compat.v1.estimator if v1 else tf.estimator, name)
    estimator = kind(feature_columns=columns(tf), model_dir=directory, **arguments)
    estimator.train(lambda: data(tf, labels), steps=steps)
    return values(tf, directory)


def session(tf, folder, steps, restores):
    """Train in a Session, from the latest checkpoint or from the start; return what is saved."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float32, [None, 2]), v1.placeholder(tf.float32, [None])
        start = tf.constant([[0.5, -1.0, 0.25], [1.0, 0.75, -0.5]])
        w, b = v1.get_variable("w", initializer=start), v1.get_variable("b", initializer=tf.constant([0.1]))
        out = tf.reduce_sum(tf.tanh(x @ w), 1) + b
        step = v1.train.get_or_create_global_step()
        train = v1.train.AdamOptimizer(0.05).minimize(tf.reduce_mean((out - y) ** 2), global_step=step)
        saver = v1.train.Saver()
        with v1.Session() as sess:
            sess.run(v1.global_variables_initializer())
            if restores:
                saver.restore(sess, tf.train.latest_checkpoint(folder))
            for _ in range(steps):
                sess.run(train, {x: FEATURES["x"], y: LABELS["value"]})
            saver.save(sess, os.path.join(folder, "model.ckpt"), global_step=step)
    return values(tf, folder)
