"""One small model trained by every optimizer of every generation, and whether it continues from a checkpoint.

A family is a generation of optimizers: tf1 (tf.compat.v1.train), legacy and new (Keras 2, before and
since 2.11), k3 (Keras 3).  `make` trains for three steps, saves, and takes two more, which are the truth;
`go_on` restores what was converted into another program of the model and takes two steps from there.
Two kernels have one shape on purpose: what is paired by shapes, or by numbers alone, goes wrong.
Run by TensorFlow's Python.
"""

import contextlib
import os

import numpy as np
import tensorflow as tf

WIDTH = 4
NAMES = ["d0/kernel", "d0/bias", "d1/kernel", "d1/bias", "out/kernel", "out/bias"]
V1 = tf.compat.v1


def data(seed):
    random = np.random.RandomState(seed)
    return random.randn(16, WIDTH).astype("f"), random.randn(16, 2).astype("f")


def weights(seed):
    random = np.random.RandomState(seed + 1000)
    shapes = ((WIDTH, WIDTH), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH, 2), (2,))
    return [(random.randn(*shape) * 0.5).astype("f") for shape in shapes]


# TensorFlow 1 ---------------------------------------------------------------------------


class AdamWeightDecay(V1.train.Optimizer):
    """Google BERT's: its moments are ordinary variables, it corrects no bias, and it counts no steps."""

    def __init__(self):
        super().__init__(use_locking=False, name="AdamWeightDecayOptimizer")

    def apply_gradients(self, pairs, global_step=None, name=None):
        made = []
        for gradient, variable in pairs:
            m, v = (
                V1.get_variable(
                    name=f"{variable.op.name}/adam_{slot}",
                    shape=variable.shape,
                    trainable=False,
                    initializer=V1.zeros_initializer(),
                    use_resource=True,
                )
                for slot in "mv"
            )
            next_m, next_v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * tf.square(gradient)
            update = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * variable
            made += [variable.assign(variable - 0.01 * update), m.assign(next_m), v.assign(next_v)]
        with tf.control_dependencies(made):
            return global_step.assign_add(1).op


class Several(tf.Module):
    """Three optimizers, two of one class; each trains a layer."""

    def __init__(self, *optimizers):
        super().__init__()
        self.first, self.second, self.third = optimizers

    @property
    def iterations(self):
        return self.third.iterations

    def build(self, variables):
        for number, optimizer in enumerate((self.first, self.second, self.third)):
            optimizer.build(variables[2 * number : 2 * number + 2])

    def apply_gradients(self, pairs):
        every = list(pairs)
        for number, optimizer in enumerate((self.first, self.second, self.third)):
            optimizer.apply_gradients(every[2 * number : 2 * number + 2])

    def minimize(self, loss, global_step):
        """Return a step of TensorFlow 1; the last optimizer counts it."""
        every = V1.trainable_variables()
        return tf.group(
            self.first.minimize(loss, var_list=every[:2]),
            self.second.minimize(loss, var_list=every[2:4]),
            self.third.minimize(loss, var_list=every[4:], global_step=global_step),
        )


def v1_optimizers():
    train = V1.train
    return {
        "adam": lambda: train.AdamOptimizer(0.01),
        "momentum": lambda: train.MomentumOptimizer(0.01, 0.9),
        "nesterov": lambda: train.MomentumOptimizer(0.01, 0.9, use_nesterov=True),
        "adagrad": lambda: train.AdagradOptimizer(0.1),
        "proximal_adagrad": lambda: train.ProximalAdagradOptimizer(0.1),
        "rmsprop": lambda: train.RMSPropOptimizer(0.01, momentum=0.5),
        "rmsprop_centered": lambda: train.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
        "adadelta": lambda: train.AdadeltaOptimizer(0.5),
        "ftrl": lambda: train.FtrlOptimizer(0.1),
        "sgd": lambda: train.GradientDescentOptimizer(0.1),
        "several": lambda: Several(
            train.AdamOptimizer(0.01), train.MomentumOptimizer(0.01, 0.9), train.AdamOptimizer(0.02)
        ),
        "adam_weight_decay": AdamWeightDecay,
    }


def _v1_program(optimizer, seed):
    """Return the variables of a program in the graph that is the default, and what a step of it is."""
    step = V1.train.get_or_create_global_step()
    features, labels = data(seed)
    with V1.variable_scope("net", use_resource=True):
        held = [
            V1.get_variable(name, initializer=value) for name, value in zip(NAMES, weights(seed), strict=True)
        ]
    hidden = tf.tanh(tf.tanh(features @ held[0] + held[1]) @ held[2] + held[3])
    loss = tf.reduce_mean((hidden @ held[4] + held[5] - labels) ** 2)
    return held, v1_optimizers()[optimizer]().minimize(loss, global_step=step)


def _make_v1(folder, optimizer, seed, steps):
    with tf.Graph().as_default():
        held, train = _v1_program(optimizer, seed)
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            for _ in range(steps):
                session.run(train)
            saver = V1.train.Saver()
            saver.save(session, f"{folder}/ckpt", global_step=steps, write_meta_graph=False)
            for _ in range(2):
                session.run(train)
            np.savez(f"{folder}/truth.npz", *session.run(held))
    with tf.Graph().as_default():
        _, train = _v1_program(optimizer, seed + 1)
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            session.run(train)
            V1.train.Saver().save(session, f"{folder}/fresh", global_step=1, write_meta_graph=False)


def _go_on_v1(optimizer, seed, path, truth):
    with tf.Graph().as_default():
        held, train = _v1_program(optimizer, seed)
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            V1.train.Saver().restore(session, path)
            iterations = int(session.run(V1.train.get_global_step()))
            for _ in range(2):
                session.run(train)
            return _verdict(truth, session.run(held), matched=True, iterations=iterations)


# Keras ------------------------------------------------------------------------------------


def keras_optimizers(family):
    optimizers = tf.keras.optimizers.legacy if family == "legacy" else tf.keras.optimizers
    precise = {"epsilon": 1e-8}
    found = {
        "adam": lambda: optimizers.Adam(0.01, **precise),
        "amsgrad": lambda: optimizers.Adam(0.01, amsgrad=True, **precise),
        "momentum": lambda: optimizers.SGD(0.01, momentum=0.9),
        "nesterov": lambda: optimizers.SGD(0.01, momentum=0.9, nesterov=True),
        "adagrad": lambda: optimizers.Adagrad(0.1, initial_accumulator_value=0.1, **precise),
        "rmsprop": lambda: optimizers.RMSprop(0.01, momentum=0.5, epsilon=1e-10),
        "rmsprop_centered": lambda: optimizers.RMSprop(0.01, momentum=0.5, centered=True, epsilon=1e-10),
        "adadelta": lambda: optimizers.Adadelta(0.5, **precise),
        "ftrl": lambda: optimizers.Ftrl(0.1),
        "adamax": lambda: optimizers.Adamax(0.01, **precise),
        "nadam": lambda: optimizers.Nadam(0.01, **precise),
        "sgd": lambda: optimizers.SGD(0.1),
        "several": lambda: Several(
            optimizers.Adam(0.01, **precise),
            optimizers.SGD(0.01, momentum=0.9),
            optimizers.Adam(0.02, **precise),
        ),
        "several_others": lambda: Several(
            optimizers.Adam(0.01, **precise),
            optimizers.RMSprop(0.01, momentum=0.5, epsilon=1e-10),
            optimizers.Adam(0.02, **precise),
        ),
    }
    if family == "legacy":
        found["adam_weight_decay"] = lambda: _legacy_weight_decay()(0.01, epsilon=1e-6)
    else:
        found["adamw"] = lambda: optimizers.AdamW(0.01, weight_decay=0.01, **precise)
        found["lion"] = lambda: optimizers.Lion(0.01)
        # The averages take the weights' place at every other step, so that they are judged with them.
        averaging = {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 2}
        found["averaged"] = lambda: optimizers.Adam(0.01, **precise, **averaging)
        found["averaged_sgd"] = lambda: optimizers.SGD(0.1, **averaging)
        found["adam_weight_decay"] = lambda: optimizers.AdamW(0.01, weight_decay=0.01, epsilon=1e-6)
    return found


def _legacy_weight_decay():
    """Return an Adam that corrects bias and decays weights, as BERT's in TensorFlow 2 does."""

    class Decaying(tf.keras.optimizers.legacy.Adam):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            with tf.control_dependencies([var.assign_sub(0.01 * 0.01 * var)]):
                return super()._resource_apply_dense(grad, var, apply_state)

    return Decaying


def _model(seed):
    keras = tf.keras
    clear = keras.backend if hasattr(keras.backend, "clear_session") else keras.utils
    clear.clear_session()
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((WIDTH,)),
            layers.Dense(WIDTH, activation="tanh", name="d0"),
            layers.Dense(WIDTH, activation="tanh", name="d1"),
            layers.Dense(2, name="out"),
        ],
        name="net",
    )
    model.set_weights(weights(seed))
    return model


def _program(family, optimizer, seed):
    model, made = _model(seed), keras_optimizers(family)[optimizer]()
    if family != "legacy":
        made.build(model.trainable_variables)
    return model, made


def _step(model, optimizer, seed):
    features, labels = data(seed)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(features) - labels) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def _make_keras(folder, family, optimizer, seed, steps):
    model, made = _program(family, optimizer, seed)
    made.iterations.assign(steps - 3)
    for _ in range(3):
        _step(model, made, seed)
    tf.train.Checkpoint(model=model, optimizer=made).write(f"{folder}/ckpt-{steps}")
    with contextlib.suppress(Exception):  # Keras 2 saves no Nadam
        model.compile(optimizer=made, loss="mse")
        if family != "legacy":
            model.save(f"{folder}/model.keras")
            model.save_weights(f"{folder}/model.weights.h5")
        model.save(f"{folder}/model.h5")  # last: after it Keras 3 leaves the optimizer out of archives
    for _ in range(2):
        _step(model, made, seed)
    np.savez(f"{folder}/truth.npz", *model.get_weights())
    model, made = _program(family, optimizer, seed + 1)
    _step(model, made, seed + 1)
    tf.train.Checkpoint(model=model, optimizer=made).write(f"{folder}/fresh-1")


def _go_on_keras(family, optimizer, seed, path, truth):
    if path.endswith(".h5") and not path.endswith(".weights.h5"):
        model = tf.keras.models.load_model(path)
        made, matched = model.optimizer, True
    else:
        model, made = _program(family, optimizer, seed + 2)
        _step(model, made, seed)
        if path.endswith((".weights.h5", ".keras")):
            model.compile(optimizer=made, loss="mse")
            model.load_weights(path)
            matched = True
        else:
            status = tf.train.Checkpoint(model=model, optimizer=made).read(path)
            try:
                status.assert_existing_objects_matched()
                matched = True
            except AssertionError:
                matched = False
    iterations = int(np.asarray(made.iterations))
    for _ in range(2):
        _step(model, made, seed)
    return _verdict(truth, model.get_weights(), matched=matched, iterations=iterations)


# An embedding -------------------------------------------------------------------------------


def _embedding(family, seed):
    """Return a compiled model of an embedding; a batch looks up some of its rows."""
    keras = tf.keras
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((3,), dtype="int32"),
            layers.Embedding(7, WIDTH, name="words"),
            layers.Flatten(name="flat"),
            layers.Dense(2, name="out"),
        ],
        name="net",
    )
    random = np.random.RandomState(seed)
    model.set_weights([random.randn(*weight.shape) for weight in model.get_weights()])
    return model, keras_optimizers(family)["adam"]()


def _embedding_step(model, optimizer, *, dense):
    random = np.random.RandomState(0)
    rows, labels = random.randint(0, 7, (8, 3)), random.randn(8, 2).astype("f")
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(rows) - labels) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = [tf.convert_to_tensor(one) for one in gradients] if dense else gradients
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return float(loss)


def embedding(family, path, dense, template=None):
    """Train three steps and save, or restore; return the losses of the next three steps.

    Gradients of the embedding are slices, or, where `dense`, tensors.
    """
    model, optimizer = _embedding(family, 0 if template else 1)
    _embedding_step(model, optimizer, dense=dense)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    if template:
        for _ in range(2):
            _embedding_step(model, optimizer, dense=dense)
        checkpoint.write(path)
        losses = [_embedding_step(model, optimizer, dense=dense) for _ in range(3)]
        fresh, other = _embedding(family, 1)
        _embedding_step(fresh, other, dense=dense)
        tf.train.Checkpoint(model=fresh, optimizer=other).write(template)
        return losses
    checkpoint.read(path).assert_existing_objects_matched()
    return [_embedding_step(model, optimizer, dense=dense) for _ in range(3)]


# Functions that tests call ------------------------------------------------------------------------------


def _verdict(truth, found, *, matched, iterations):
    with np.load(truth) as expected:
        pairs = [(expected[f"arr_{number}"], np.asarray(value)) for number, value in enumerate(found)]
    difference = max(float(np.abs(wanted - value).max()) for wanted, value in pairs)
    return {"matched": matched, "iterations": iterations, "difference": difference}


def names(family):
    """Return the optimizers of a family."""
    return sorted(v1_optimizers() if family == "tf1" else keras_optimizers(family))


def make(folder, family, optimizer, seed, steps=3):
    """Train, save ckpt-<steps>, a template fresh-1 of other weights, and the truth after two more steps.

    Keras takes three steps; those before are only counted.
    """
    os.makedirs(folder, exist_ok=True)
    if family == "tf1":
        _make_v1(folder, optimizer, seed, steps)
    else:
        _make_keras(folder, family, optimizer, seed, steps)


def go_on(family, optimizer, seed, path, truth):
    """Return what comes of restoring a checkpoint, or loading a file, and taking two steps."""
    if family == "tf1":
        return _go_on_v1(optimizer, seed, path, truth)
    return _go_on_keras(family, optimizer, seed, path, truth)
