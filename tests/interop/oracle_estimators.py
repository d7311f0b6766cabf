"""The program that takes over from the iris Estimators, and Estimators; run by TensorFlow's Python."""

import os

import estimating
import oracle_tensors
import tensorflow as tf

V1 = tf.compat.v1


def _program(legacy):
    dense = tf.keras.layers.Dense
    hidden = [dense(10, activation="relu", name=name) for name in ("first", "second")]
    model = tf.keras.Sequential([*hidden, dense(3, name="logits")])
    model.build((None, 4))
    optimizers = tf.keras.optimizers
    optimizer = (optimizers.legacy if legacy else optimizers).Adagrad(0.05)
    variables = model.trainable_variables
    optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in variables])
    step = tf.Variable(0, dtype=tf.int64)
    return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer, global_step=step)


def save_fresh(path, legacy):
    """Save an untrained model."""
    return _program(legacy)[2].save(path)


def restore_into_program(path, legacy, features):
    """Restore; return the step, what the model says, and its slots by the variable's name."""
    model, optimizer, checkpoint = _program(legacy)
    checkpoint.restore(path).assert_existing_objects_matched()
    variables = model.trainable_variables
    if legacy:
        slots = [optimizer.get_slot(variable, "accumulator") for variable in variables]
    else:
        slots = optimizer._accumulators
    names = [variable.name.removesuffix(":0") for variable in variables]
    held = {name: oracle_tensors.told(slot.numpy()) for name, slot in zip(names, slots, strict=True)}
    columns = tf.transpose([features[name] for name in sorted(features)])
    return [int(checkpoint.global_step.numpy()), model(columns).numpy().tolist(), held]


def saver_restores(path, shapes):
    """Whether a Saver restores the variables of a TensorFlow 1 program: `{name: [dtype, shape]}`."""
    with tf.Graph().as_default(), V1.Session() as session:
        for name, (dtype, shape) in shapes.items():
            initializer = V1.zeros_initializer()
            V1.get_variable(name, shape, tf.as_dtype(dtype), initializer, use_resource=False)
        try:
            V1.train.Saver().restore(session, path)
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
            return False
        return True


def train(model_dir, steps):
    """Train a DNNClassifier, saving every second step; return losses by step, norm of the weights, latest."""
    columns = [tf.feature_column.numeric_column("x", shape=[4])]

    def data():
        return {"x": tf.ones([8, 4]) * tf.range(8.0)[:, None]}, tf.range(8) % 3

    config = tf.estimator.RunConfig(save_checkpoints_steps=2, save_summary_steps=1, tf_random_seed=1)
    estimator = V1.estimator.DNNClassifier([5], columns, model_dir=model_dir, n_classes=3, config=config)
    estimator.train(lambda: tf.data.Dataset.from_tensors(data()), steps=1)
    estimator.train(lambda: tf.data.Dataset.from_tensors(data()).repeat(), steps=steps - 1)
    (events,) = (os.path.join(model_dir, name) for name in os.listdir(model_dir) if "tfevents" in name)
    told = {}
    for event in V1.train.summary_iterator(events):
        for value in event.summary.value:
            if value.tag == "loss":
                told[event.step] = value.simple_value
    weights = tf.train.list_variables(model_dir)
    reader = tf.train.load_checkpoint(model_dir)
    norm = tf.linalg.global_norm(
        [reader.get_tensor(name) for name, _ in weights if "Adagrad" not in name and name != "global_step"]
    )
    return [told, float(norm), estimator.latest_checkpoint()]


def go_on(name, directory, steps, v1):
    """Train a canned Estimator further; return the dtype, shape and values of all in its checkpoint."""
    return _told(estimating.go_on(tf, name, directory, steps, v1))


def session(folder, steps, restores):
    """Train in a Session, and return the same."""
    return _told(estimating.session(tf, folder, steps, restores))


def _told(found):
    return {
        key: [value.dtype.name, list(value.shape), value.ravel().tolist()] for key, value in found.items()
    }
