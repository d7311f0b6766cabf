"""Programs with Estimators that TensorFlow and the runtime both run, given `tf`."""

import os

import numpy as np

NAMES = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth"]
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "estimator_replay")


WORDS = ["setosa", "versicolor", "virginica"]


def flowers(tf, batch, repeats, classes=3, named=False):
    """Return an input_fn of the fixture's 120 flowers, without shuffling; `named` ones have weights too."""
    features, labels = np.load(f"{DATA}/features.npy"), np.load(f"{DATA}/labels.npy")

    def input_fn():
        columns = {name: features[:, index] for index, name in enumerate(NAMES)}
        given = np.minimum(labels, classes - 1)
        if named:
            columns["weight"] = np.linspace(0.5, 2, len(labels), dtype=np.float32)
            given = np.array(WORDS)[given]
        found = tf.data.Dataset.from_tensor_slices((columns, given))
        return (found.repeat() if repeats else found).batch(batch)

    return input_fn


def optimizers(tf):
    """Return makers of what DNNClassifiers are given, by name, of TensorFlow 2 and 1."""
    legacy, v1 = tf.keras.optimizers.legacy, tf.compat.v1.train
    schedule = tf.keras.optimizers.schedules.ExponentialDecay
    return {
        "v2": lambda: "Adagrad",
        "v2_adam": lambda: legacy.Adam(0.01),
        "v2_rmsprop": lambda: legacy.RMSprop(0.01),
        "v2_adam_scheduled": lambda: legacy.Adam(schedule(0.1, 5, 0.5)),
        "v2_sgd": lambda: legacy.SGD(0.01, momentum=0.9),
        "v1": lambda: "Adagrad",
        "v1_adam": lambda: v1.AdamOptimizer(0.01),
        "v1_momentum": lambda: v1.MomentumOptimizer(0.001, 0.9),
        "v1_sgd": lambda: v1.GradientDescentOptimizer(0.001),
    }


def classifier(tf, directory, kind, classes=3, named=False):
    if kind in ("custom", "keras"):
        return {"custom": custom, "keras": keras}[kind](tf, directory)
    made = tf.estimator if kind.startswith("v2") else tf.compat.v1.estimator
    options = {"weight_column": "weight", "label_vocabulary": WORDS[:classes]} if named else {}
    return made.DNNClassifier(
        hidden_units=[10, 10],
        feature_columns=[tf.feature_column.numeric_column(name) for name in NAMES],
        model_dir=directory,
        n_classes=classes,
        optimizer=optimizers(tf)[kind](),
        config=tf.estimator.RunConfig(tf_random_seed=3, save_checkpoints_steps=10),
        **options,
    )


def recorder(tf):
    """Return a hook that keeps the loss of every step."""
    v1 = tf.compat.v1

    class Losses(v1.train.SessionRunHook):
        def begin(self):
            self.losses = []
            self.tensor = v1.get_collection(v1.GraphKeys.LOSSES)[-1]

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self.tensor)

        def after_run(self, run_context, run_values):
            self.losses.append(float(run_values.results))

    return Losses()


def train(tf, directory, kind, max_steps, classes=3, named=False):
    """Train up to a step, from the directory's checkpoint if there is one; a batch is all 120 flowers."""
    hook = recorder(tf)
    classifier(tf, directory, kind, classes, named).train(
        flowers(tf, 120, True, classes, named), max_steps=max_steps, hooks=[hook]
    )
    return hook.losses


def tell(tf, directory, kind, classes=3, named=False):
    """Return what an Estimator says of a directory: metrics, predictions and names."""
    found = classifier(tf, directory, kind, classes, named)
    metrics = found.evaluate(flowers(tf, 50, False, classes, named))
    predictions = []
    for told in found.predict(flowers(tf, 50, False, classes, named)):
        predictions.append({key: [str(value.dtype), value.tolist()] for key, value in told.items()})
        for dtype_and_value in predictions[-1].values():
            if dtype_and_value[0] == "object":
                dtype_and_value[1] = [word.decode() for word in dtype_and_value[1]]
    return {
        "metrics": {key: float(value) for key, value in metrics.items()},
        "predictions": predictions[:5],
        "names": found.get_variable_names(),
        "latest": os.path.basename(found.latest_checkpoint()),
    }


def custom(tf, directory):
    """Return an Estimator of a model_fn as TensorFlow 1's tutorial on flowers writes them."""
    v1 = tf.compat.v1

    def model_fn(features, labels, mode, params):
        net = v1.feature_column.input_layer(features, params["feature_columns"])
        for units in params["hidden_units"]:
            net = v1.layers.dense(net, units=units, activation=tf.nn.relu)
        logits = v1.layers.dense(net, params["n_classes"], activation=None)
        found = tf.argmax(logits, 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            predictions = {
                "class_ids": found[:, v1.newaxis],
                "probabilities": tf.nn.softmax(logits),
                "logits": logits,
            }
            return tf.estimator.EstimatorSpec(mode, predictions=predictions)
        loss = v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
        accuracy = v1.metrics.accuracy(labels=labels, predictions=found, name="acc_op")
        v1.summary.scalar("accuracy", accuracy[1])
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
        optimizer = v1.train.AdagradOptimizer(learning_rate=0.1)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return tf.estimator.Estimator(
        model_fn,
        directory,
        tf.estimator.RunConfig(tf_random_seed=3, save_checkpoints_steps=10, save_summary_steps=10),
        params={
            "feature_columns": [tf.feature_column.numeric_column(name) for name in NAMES],
            "hidden_units": [10, 10],
            "n_classes": 3,
        },
    )


def keras(tf, directory):
    """Return an Estimator of a model_fn as TensorFlow 2's guide to migrating writes them."""
    v1 = tf.compat.v1

    def model_fn(features, labels, mode):
        columns = [tf.reshape(features[name], [-1, 1]) for name in sorted(NAMES)]
        training = mode == tf.estimator.ModeKeys.TRAIN
        layers = tf.keras.layers
        model = tf.keras.Sequential([layers.Dense(10, "relu"), layers.Dropout(0.0), layers.Dense(3)])
        logits = model(tf.concat(columns, 1), training=training)
        predictions = {"logits": logits, "probabilities": tf.nn.softmax(logits)}
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=predictions)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        accuracy = tf.keras.metrics.Accuracy(name="acc")
        accuracy.update_state(labels, tf.argmax(logits, 1))
        train_op = None
        if training:
            optimizer = tf.keras.optimizers.legacy.Adam(0.05)
            optimizer.iterations = v1.train.get_or_create_global_step()
            train_op = optimizer.get_updates(loss, model.trainable_variables)[0]
        return tf.estimator.EstimatorSpec(
            mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops={"accuracy": accuracy},
        )

    config = tf.estimator.RunConfig(tf_random_seed=3, save_checkpoints_steps=10)
    return tf.estimator.Estimator(model_fn, directory, config)


def line(tf):
    """Return the guide's data and a model_fn that saves object-based."""
    v1 = tf.compat.v1

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.l1 = tf.keras.layers.Dense(5, kernel_initializer="ones")

        def call(self, x):
            return self.l1(x)

    def points():
        x = np.arange(10, dtype=np.float32)[:, None]
        y = x * 5 + np.arange(5, dtype=np.float32)[None]
        return tf.data.Dataset.from_tensor_slices({"x": x, "y": y}).repeat().batch(10)

    def parts():
        return Net(), tf.keras.optimizers.legacy.Adam(0.1)

    def model_fn(features, labels, mode):
        net, optimizer = parts()
        ckpt = tf.train.Checkpoint(step=v1.train.get_global_step(), optimizer=optimizer, net=net)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(net(features["x"]) - features["y"]))
        variables = net.trainable_variables
        gradients = tape.gradient(loss, variables)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=tf.group(
                optimizer.apply_gradients(zip(gradients, variables)),  # noqa: B905  as the guide has it
                ckpt.step.assign_add(1),
            ),
            scaffold=v1.train.Scaffold(saver=ckpt),
        )

    return model_fn, points, parts


def train_objects(tf, directory, steps):
    model_fn, points, _ = line(tf)
    tf.keras.backend.clear_session()
    hook = recorder(tf)
    tf.estimator.Estimator(model_fn, directory).train(points, steps=steps, hooks=[hook])
    return hook.losses


def restore_objects(tf, directory):
    """Restore outside of the Estimator; return the step, the weights and a moment."""
    _, _, parts = line(tf)
    net, optimizer = parts()
    ckpt = tf.train.Checkpoint(step=tf.Variable(1, dtype=tf.int64), optimizer=optimizer, net=net)
    # Estimators count no saves, and `read` expects no counter.
    status = ckpt.read(tf.train.latest_checkpoint(directory))
    net(tf.ones([1, 1]))
    optimizer.apply_gradients([(tf.zeros_like(one), one) for one in net.trainable_variables])
    status.assert_consumed()
    moment = optimizer.get_slot(net.l1.kernel, "m")
    return [int(ckpt.step), net.l1.kernel.numpy().tolist(), moment.numpy().tolist()]
