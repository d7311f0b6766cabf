"""Programs that TensorFlow and the runtime both run, given `tf` and `keras`.

Weights get first values that depend on shapes alone, so that both sides begin alike.
"""

import collections
import contextlib
import os
from typing import Any, NamedTuple

import numpy as np


class Pair(NamedTuple):
    left: Any
    right: Any


def optimizers(keras):
    """Return makers of optimizers by name."""
    found = {}
    for kind, module in (("", keras.optimizers), ("legacy_", keras.optimizers.legacy)):
        found |= {
            kind + "sgd": lambda module=module: module.SGD(0.1),
            kind + "sgd_momentum": lambda module=module: module.SGD(0.1, momentum=0.9),
            kind + "sgd_nesterov": lambda module=module: module.SGD(0.1, momentum=0.9, nesterov=True),
            kind + "adam": lambda module=module: module.Adam(0.1),
            kind + "adam_amsgrad": lambda module=module: module.Adam(0.1, amsgrad=True),
            kind + "adagrad": lambda module=module: module.Adagrad(0.1),
            kind + "rmsprop": lambda module=module: module.RMSprop(0.01),
            kind + "rmsprop_momentum": lambda module=module: module.RMSprop(0.01, momentum=0.5),
            kind + "rmsprop_centered": lambda module=module: module.RMSprop(0.01, centered=True),
            kind + "rmsprop_both": lambda module=module: module.RMSprop(0.01, momentum=0.5, centered=True),
            kind + "adamax": lambda module=module: module.Adamax(0.1),
            kind + "adadelta": lambda module=module: module.Adadelta(1.0),
            kind + "ftrl": lambda module=module: module.Ftrl(0.1),
            kind + "ftrl_regularized": lambda module=module: module.Ftrl(
                0.1,
                learning_rate_power=-0.3,
                l1_regularization_strength=0.01,
                l2_regularization_strength=0.1,
                l2_shrinkage_regularization_strength=0.2,
                beta=0.3,
            ),
            kind + "adam_clipped": lambda module=module: module.Adam(0.1, global_clipnorm=0.5),
        }
    found["legacy_adam_decay"] = lambda: keras.optimizers.legacy.Adam(0.1, decay=0.2)
    found["legacy_sgd_decay"] = lambda: keras.optimizers.legacy.SGD(0.1, decay=0.2)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    found["adam_scheduled"] = lambda: keras.optimizers.Adam(schedule)
    found["legacy_adam_scheduled"] = lambda: keras.optimizers.legacy.Adam(schedule)
    found["adamw"] = lambda: keras.optimizers.AdamW(0.1)
    found["lion"] = lambda: keras.optimizers.Lion(0.01)
    found["legacy_nadam"] = lambda: keras.optimizers.legacy.Nadam(0.1)
    found["adam_weight_decay"] = lambda: keras.optimizers.Adam(0.1, weight_decay=0.01)
    return found


def models(tf, keras):
    """Return makers of models by name, each with a shape of its input."""
    layers = keras.layers

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.l1 = layers.Dense(5)

        def call(self, x):
            return self.l1(x)

    class Block(keras.Model):
        def __init__(self, units):
            super().__init__()
            self.parts = [layers.Dense(units, activation="tanh"), layers.LayerNormalization()]
            self.scale = self.add_weight("scale", [units], initializer="ones")

        def call(self, x):
            for part in self.parts:
                x = part(x)
            return x * self.scale

    class Tower(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [Block(4), Block(4)]
            self.heads = {"b": layers.Dense(2), "a": layers.Dense(1)}

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return tf.concat([self.heads["a"](x), self.heads["b"](x)], -1)

    class Mixed(keras.Model):
        def __init__(self):
            super().__init__()
            self.shift = tf.Variable(tf.zeros([4]), name="shift")
            self.parts = [layers.Dense(2), tf.Variable(1.0, name="one"), {"deep": tf.Variable([2.0, 3.0])}]
            self.count = tf.Variable(0.0, trainable=False, name="count")

        def call(self, x):
            self.count.assign_add(1.0)
            return self.parts[0](x + self.shift) * self.parts[1] + self.parts[2]["deep"]

    def sequential():
        return keras.Sequential([layers.Dense(4, activation="relu"), layers.Dropout(0.0), layers.Dense(2)])

    def convolution():
        image = layers.Input([6, 6, 2])
        h = layers.Conv2D(3, 3, strides=2, padding="same", activation="elu")(image)
        h = layers.BatchNormalization(momentum=0.9)(h)
        h = layers.MaxPooling2D(2, padding="same")(h)
        return keras.Model(image, layers.Dense(2)(layers.Flatten()(h)))

    def convolutions():
        row = layers.Input([8, 2])
        h = layers.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="tanh")(row)
        h = layers.Conv3D(3, 2, padding="same")(layers.Reshape((2, 2, 2, 4))(h))
        h = layers.Conv2DTranspose(2, 3, strides=2, padding="same")(layers.Reshape((2, 4, 3))(h))
        h = layers.SeparableConv2D(4, 2, depth_multiplier=2, activation="relu")(h)
        h = layers.TimeDistributed(layers.Dense(4))(layers.GroupNormalization(2)(h))
        return keras.Model(row, layers.Dense(1)(layers.Flatten()(h)))

    def recurrent():
        return keras.Sequential(
            [layers.Input([4, 3]), layers.LSTM(3, return_sequences=True), layers.GRU(2), layers.Dense(1)]
        )

    def attention():
        places = layers.Input([4, 6])
        h = places + layers.MultiHeadAttention(2, 3)(places, places)
        return keras.Model(places, layers.Dense(2, activation="gelu")(layers.LayerNormalization()(h)))

    def embedding():
        tokens = layers.Input([4], dtype="int32")
        h = layers.Bidirectional(layers.GRU(2, reset_after=False))(layers.Embedding(7, 3)(tokens))
        return keras.Model(tokens, layers.Dense(1)(h))

    def masked():
        tokens = layers.Input([5], dtype="int32")
        h = layers.LSTM(3, return_sequences=True)(layers.Embedding(6, 3, mask_zero=True)(tokens))
        h = layers.Add()([h, layers.MultiHeadAttention(2, 2)(h, h)])
        h = layers.GRU(2, go_backwards=True)(layers.Dropout(0.0)(h))
        return keras.Model(tokens, layers.Dense(1)(h))

    def masked_rows():
        return keras.Sequential(
            [
                layers.Input([6, 1]),
                layers.ReLU(),
                layers.Masking(),
                layers.Bidirectional(layers.GRU(2, return_sequences=True), merge_mode="sum"),
                layers.TimeDistributed(layers.Dense(2, activation="tanh")),
                layers.BatchNormalization(momentum=0.9),
                layers.LSTM(2, return_sequences=True, zero_output_for_mask=True),
                layers.SimpleRNN(2),
                layers.Dense(1),
            ]
        )

    return {
        "masked": (masked, [3, 5]),
        "masked_rows": (masked_rows, [3, 6, 1]),
        "net": (Net, [2, 1]),
        "tower": (Tower, [3, 4]),
        "mixed": (Mixed, [3, 4]),
        "sequential": (sequential, [3, 4]),
        "convolution": (convolution, [2, 6, 6, 2]),
        "convolutions": (convolutions, [2, 8, 2]),
        "recurrent": (recurrent, [2, 4, 3]),
        "attention": (attention, [2, 4, 6]),
        "embedding": (embedding, [2, 4]),
    }


def inputs(name, shape, step):
    """Return the batch of a step."""
    values = np.sin(np.arange(np.prod(shape)) * (step + 1.7)).reshape(shape).astype("f4")
    return (np.abs(values) * 6).astype("i4") if name in ("embedding", "masked") else values


def first_values(variables):
    for number, variable in enumerate(variables):
        size = int(np.prod(variable.shape))
        values = np.cos(np.arange(size) * 0.7 + number).reshape(variable.shape) * 0.5
        positive = any(word in variable.name for word in ("gamma", "variance", "scale"))
        variable.assign((np.abs(values) + 0.5 if positive else values).astype("f4"))


class Training:
    """A model, its optimizer and a step counter, in one checkpoint."""

    def __init__(self, tf, keras, model, optimizer):
        self.tf, self.name = tf, model
        make, self.shape = models(tf, keras)[model]
        self.model = make()
        self.optimizer = optimizers(keras)[optimizer]()
        self.step = tf.Variable(0, dtype=tf.int64)
        self.checkpoint = tf.train.Checkpoint(step=self.step, optimizer=self.optimizer, net=self.model)

    def begin(self):
        self.model(inputs(self.name, self.shape, 0))
        first_values(self.model.variables)

    def train(self, steps):
        tf, losses = self.tf, []
        for _ in range(steps):
            x = inputs(self.name, self.shape, int(self.step))
            with tf.GradientTape() as tape:
                out = self.model(x, training=True)
                loss = tf.reduce_mean(tf.square(out - 1.0) + tf.abs(out))
            variables = self.model.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            self.step.assign_add(1)
            losses.append(float(loss))
        return losses


def train_and_save(tf, keras, model, optimizer, directory, steps=3):
    """Train from the first values, save, train on; return losses, the path, and the values at the save."""
    keras.backend.clear_session()
    training = Training(tf, keras, model, optimizer)
    training.begin()
    losses = training.train(steps)
    path = training.checkpoint.save(os.path.join(directory, "ckpt"))
    return {"path": path, "losses": losses, "then": training.train(steps)}


def restore_and_train(tf, keras, model, optimizer, path, steps=3):
    """Restore into new objects, not built yet, and train; everything must match."""
    keras.backend.clear_session()
    training = Training(tf, keras, model, optimizer)
    status = training.checkpoint.restore(path)
    losses = training.train(steps)
    status.assert_consumed()
    return {"losses": losses}


def weights(tf, keras, model, path, save):
    """Save first values to a path, or load them into other values; return the sum of each weight."""
    keras.backend.clear_session()
    make, shape = models(tf, keras)[model]
    net = make()
    net(inputs(model, shape, 0))
    if save:
        first_values(net.weights)
        net.save_weights(path)
    else:
        net.load_weights(path)
    return [[weight.name, float(np.sum(weight.numpy(), dtype="f8"))] for weight in net.weights]


def save_by_name(tf, keras, directory):
    """Save a model's weights and a counter by name, without a session; return the path."""
    keras.backend.clear_session()
    variables = _named(tf, keras)
    first_values(variables[:-1])
    return tf.compat.v1.train.Saver(variables).save(None, os.path.join(directory, "m"), variables[-1])


def restore_by_name(tf, keras, path):
    keras.backend.clear_session()
    variables = _named(tf, keras)
    tf.compat.v1.train.Saver(variables).restore(None, path)
    return [[one.name, np.asarray(one, "f8").tolist()] for one in variables]


def _named(tf, keras):
    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(3, input_shape=(2,)), layers.BatchNormalization(), layers.Dense(1)]
    )
    return [*model.weights, tf.Variable(7, dtype=tf.int64, name="global_step")]


def containers(tf, keras, directory):
    """Save everything a container can be; return the path."""
    root = tf.train.Checkpoint(z=tf.Variable(1.0), a=tf.Variable([2], name="named"))
    root.listed = [tf.Variable(3.0), 4, "text", None, [tf.Variable(5.0)]]
    root.listed.append({"k": tf.Variable(6.0), "plain": 7})
    root.ordered = collections.OrderedDict(y=tf.Variable(8.0), x=tf.Variable(9.0))
    root.pair = Pair(tf.Variable(10.0), (tf.Variable(11.0), 12))
    root.plain_tuple = (1, 2)
    root.empty, root.nothing = [], {}
    root.set, root.default = {1, 2}, collections.defaultdict(list)
    root.module = tf.Module(name="module")
    root.module.inner = [tf.Variable(13.0, trainable=False)]
    root.module.shared = root.listed[0]
    root.a = tf.Variable([14])
    del root.z
    root.z = tf.Variable(15.0)
    rooted = tf.train.Checkpoint(root.module, beside=tf.Variable(16.0), twin=root.module.inner)
    rooted.save(os.path.join(directory, "rooted"))
    return {"path": root.save(os.path.join(directory, "ckpt")), "rooted": os.path.join(directory, "rooted-1")}


def restore_containers(tf, keras, path, rooted):
    """Restore what `containers` saved into containers that are filled later; everything must match."""
    root = tf.train.Checkpoint()
    status = root.restore(path)
    zero = lambda value=0.0: tf.Variable(value)  # noqa: E731
    root.listed = []
    root.listed.extend([zero(), 4, "text", None, [zero()]])
    root.listed.append({"k": zero()})
    root.ordered = collections.OrderedDict(y=zero())
    root.ordered["x"] = zero()
    root.pair = Pair(zero(), (zero(), 12))
    root.a, root.z = zero([0]), zero()
    root.module = tf.Module(name="module")
    root.module.inner = [zero()]
    root.module.shared = root.listed[0]
    status.assert_consumed()
    leaves = [
        *root.listed[:1],
        root.listed[4][0],
        root.listed[5]["k"],
        *root.ordered.values(),
        root.pair.left,
    ]
    leaves += [root.pair.right[0], root.z, root.module.inner[0]]
    module = tf.Module(name="module")
    module.inner, module.shared = [zero()], zero()
    beside = zero()
    tf.train.Checkpoint(module, beside=beside, twin=module.inner).restore(rooted).assert_consumed()
    leaves += [module.inner[0], module.shared, beside]
    return {"values": [float(leaf.numpy()) for leaf in leaves], "vector": root.a.numpy().tolist()}


def trees(tf):
    """Return programs by name that build a root with values: what is saved, or restored into."""
    checkpoint, var = tf.train.Checkpoint, tf.Variable

    def shared():
        v = var(7.0)
        return checkpoint(a=checkpoint(v=v), b=checkpoint(v=v))

    def cyclic():
        root = checkpoint(v=var(1.0))
        root.child = checkpoint(up=root, v=var(2.0))
        return root

    return {
        "flat": lambda: checkpoint(a=var(1.0), b=var([2.0, 3.0])),
        "less": lambda: checkpoint(a=var(1.0)),
        "more": lambda: checkpoint(a=var(1.0), b=var([2.0, 3.0]), c=var(4.0)),
        "wider": lambda: checkpoint(a=var(1.0), b=var([2.0, 3.0, 4.0])),
        "integers": lambda: checkpoint(a=var(1), b=var([2, 3])),
        "renamed": lambda: checkpoint(a=var(1.0), beta=var([2.0, 3.0])),
        "nested": lambda: checkpoint(a=checkpoint(b=var([2.0, 3.0]))),
        "listed": lambda: checkpoint(a=[var(1.0), var([2.0, 3.0])]),
        "mapped": lambda: checkpoint(a={"0": var(1.0), "1": var([2.0, 3.0])}),
        "longer": lambda: checkpoint(a=[var(1.0), var([2.0, 3.0]), var(5.0)]),
        "shared": shared,
        "unshared": lambda: checkpoint(a=checkpoint(v=var(1.0)), b=checkpoint(v=var(2.0))),
        "cyclic": cyclic,
        "empty": checkpoint,
        "hollow": lambda: checkpoint(a=[], b={}, c=checkpoint()),
    }


def save_trees(tf, keras, directory):
    """Save every tree with values of its own; return the paths."""
    paths = {}
    for name, make in trees(tf).items():
        paths[name] = make().save(os.path.join(directory, name))
    return paths


def verdicts(tf, keras, paths):
    """Restore every saved tree into every other; return an error, or assertions and values."""
    found = {}
    for saved, path in paths.items():
        for target, make in trees(tf).items():
            root = make()
            leaves = list(_leaves(tf, root))
            for leaf in leaves:
                leaf.assign(leaf * 0 - 1)
            try:
                status = root.restore(path)
            except Exception as error:
                found[f"{saved} > {target}"] = [type(error).__name__]
                continue
            status.expect_partial()
            checks = ("assert_consumed", "assert_existing_objects_matched", "assert_nontrivial_match")
            told = [_passes(getattr(status, check)) for check in checks]
            found[f"{saved} > {target}"] = told + [leaf.numpy().tolist() for leaf in leaves]
    return found


def _passes(check):
    try:
        check()
    except AssertionError:
        return False
    return True


def _leaves(tf, root, seen=None):
    """Return the variables below an object, each once, in the order of attribute names."""
    seen = set() if seen is None else seen
    if id(root) in seen:
        return []
    seen.add(id(root))
    if isinstance(root, tf.Variable):
        return [root]
    if isinstance(root, list):
        return [leaf for one in root for leaf in _leaves(tf, one, seen)]
    if isinstance(root, dict):
        return [leaf for key in sorted(root) for leaf in _leaves(tf, root[key], seen)]
    if isinstance(root, tf.train.Checkpoint):
        names = [name for name in sorted(vars(root)) if not name.startswith("_")]
        return [leaf for name in names for leaf in _leaves(tf, getattr(root, name), seen)]
    return []


class _Line:
    """y = kx + b, trained without an optimizer, so that releases with any Keras run it."""

    def __init__(self, tf):
        self.kernel, self.bias = tf.Variable(tf.zeros([1, 5])), tf.Variable(tf.zeros([5]))

    def train(self, tf, example):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(example["x"] @ self.kernel + self.bias - example["y"]))
        for variable, gradient in zip(
            (self.kernel, self.bias), tape.gradient(loss, [self.kernel, self.bias]), strict=True
        ):
            variable.assign_sub(0.1 * gradient)
        return float(loss)


def guided(tf, keras, directory, steps):
    """Run the checkpoint guide's loop: restore the latest, if any, train on, save at the end.

    Returns the losses and what was drawn; data is dealt out shuffled, so that the place counts.
    """
    tf.random.set_seed(1)
    inputs = tf.range(10.0)[:, None]
    labels = inputs * 5.0 + tf.range(5.0)[None, :]
    rows = tf.data.Dataset.from_tensor_slices({"x": inputs, "y": labels})
    dataset = rows.shuffle(7, seed=3).repeat().batch(2)
    line, iterator = _Line(tf), iter(dataset)
    checkpoint = tf.train.Checkpoint(
        step=tf.Variable(1), kernel=line.kernel, bias=line.bias, iterator=iterator
    )
    manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=3)
    checkpoint.restore(manager.latest_checkpoint)
    losses, drawn = [], []
    for _ in range(steps):
        example = next(iterator)
        losses.append(line.train(tf, example))
        drawn.append(example["x"].numpy().reshape(-1).tolist())
        checkpoint.step.assign_add(1)
    manager.save()
    return {"losses": losses, "drawn": drawn, "step": int(checkpoint.step)}


def continue_the_guide(tf, keras, directory, steps):
    """Resume the checkpoint guide's own program from its latest checkpoint, which is used completely."""

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.l1 = keras.layers.Dense(5)

        def call(self, x):
            return self.l1(x)

    inputs = tf.range(10.0)[:, None]
    labels = inputs * 5.0 + tf.range(5.0)[None, :]
    dataset = tf.data.Dataset.from_tensor_slices({"x": inputs, "y": labels}).repeat().batch(2)
    net, opt, iterator = Net(), keras.optimizers.legacy.Adam(0.1), iter(dataset)
    checkpoint = tf.train.Checkpoint(step=tf.Variable(1), optimizer=opt, net=net, iterator=iterator)
    status = checkpoint.restore(tf.train.latest_checkpoint(directory))
    losses, drawn = [], []
    for _ in range(steps):
        example = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(net(example["x"]) - example["y"]))
        variables = net.trainable_variables
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        checkpoint.step.assign_add(1)
        losses.append(float(loss))
        drawn.append(example["x"].numpy().reshape(-1).tolist())
    status.assert_consumed()
    return {"losses": losses, "drawn": drawn, "step": int(checkpoint.step)}


def optimizer_steps(tf, keras, optimizer, legacy, settings, steps=4):
    """Take steps on a product, a sum and gathered rows; return the optimizer's variables and all values."""
    random = np.random.RandomState(0)
    shapes = [6, 4], [6, 3], [4, 3], [3], [7, 3]
    x, y, w, b, table = (random.randn(*shape).astype(np.float32) for shape in shapes)
    w, b, table = (tf.Variable(v, name=name) for v, name in ((w, "w"), (b, "b"), (table, "e")))
    made = getattr(keras.optimizers.legacy if legacy else keras.optimizers, optimizer)(**settings)
    for step in range(steps):
        with tf.GradientTape() as tape:
            rows = tf.gather(table, tf.constant([1, 3, 3, 1, step, 5]))
            loss = tf.reduce_mean(tf.square(tf.matmul(tf.constant(x), w) + b + rows - tf.constant(y)))
        gradients = tape.gradient(loss, [w, b, table])
        made.apply_gradients(zip(gradients, [w, b, table], strict=True))
    variables = made.variables() if callable(made.variables) else made.variables
    values = np.concatenate([variable.numpy().ravel() for variable in (w, b, table)])
    return {"variables": [variable.name for variable in variables], "values": values.tolist()}


def backed_up(tf, keras, directory, stop):
    """Train with BackupAndRestore until so many batches are done; return the losses, and the last weights."""
    x = np.cos(np.arange(24.0)).reshape(12, 2).astype("f4")
    model = keras.Sequential([keras.layers.Dense(3, "tanh", input_shape=(2,)), keras.layers.Dense(1)])
    model.set_weights([np.cos(np.arange(one.size)).reshape(one.shape) for one in model.get_weights()])
    model.compile("adam", "mse")
    losses = []

    def told(batch, logs):
        losses.append(logs["loss"])
        if len(losses) == stop:
            raise KeyboardInterrupt

    callbacks = [
        keras.callbacks.BackupAndRestore(directory, save_freq=2),
        keras.callbacks.LambdaCallback(on_batch_end=told),
    ]
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(x, x[:, :1], 4, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
    return {"losses": losses, "weights": [one.tolist() for one in model.get_weights()]}


def whole_models(keras):
    """Return makers of models with what they are compiled with, by name."""
    layers, optimizers = keras.layers, keras.optimizers
    schedules = optimizers.schedules

    def stack():
        model = keras.Sequential([layers.Input([3]), layers.Dense(4, "relu", kernel_regularizer="l2")])
        model.add(layers.BatchNormalization())
        model.add(layers.Dropout(0.0))
        model.add(layers.Dense(1))
        return model

    def graph():
        x = layers.Input([3])
        h = layers.Dense(4, "tanh", name="shared")(x)
        out = layers.Dense(1, "sigmoid")(layers.Concatenate()([h, layers.LayerNormalization()(h)]))
        return keras.Model(x, out)

    def loop():
        inner = keras.Sequential([layers.Input([3, 2]), layers.LSTM(2)], name="inner")
        x = layers.Input([3])
        rows = layers.Reshape([3, 1])(x)
        rows = layers.Bidirectional(layers.GRU(1, return_sequences=True))(rows)
        return keras.Model(x, layers.Dense(1)(inner(rows)))

    # Keras 3 has none.
    legacy = optimizers if getattr(keras, "__version__", "2")[0] == "3" else optimizers.legacy
    return {
        "stack": (stack, {"optimizer": "adam", "loss": "mse", "metrics": ["mae"]}),
        "graph": (
            graph,
            {"optimizer": optimizers.SGD(schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9),
             "loss": keras.losses.BinaryCrossentropy(label_smoothing=0.1),
             "metrics": [keras.metrics.MeanSquaredError(name="m"), "accuracy"]},
        ),
        "loop": (loop, {"optimizer": optimizers.RMSprop(0.01, centered=True), "loss": "mae"}),
        "older": (stack, {"optimizer": legacy.Adam(0.1), "loss": "mean_squared_error"}),
        "averaged": (stack, {"optimizer": optimizers.AdamW(0.1, use_ema=True), "loss": "huber"}),
        "unused": (graph, {}),
        "untrained": (stack, {"optimizer": optimizers.Adagrad(0.1), "loss": "mse"}),
    }  # fmt: skip


def _losses_of(model, steps):
    x = np.cos(np.arange(24.0)).reshape(8, 3).astype("f4")
    y = (x[:, :1] > 0).astype("f4")
    return [float(np.ravel(model.train_on_batch(x, y))[0]) for _ in range(steps)]


def save_whole(tf, keras, name, path, steps):
    """Train a model, save it, and train on; return the losses and the model's outputs when it was saved."""
    keras.backend.clear_session()
    make, options = whole_models(keras)[name]
    model = make()
    for number, weight in enumerate(model.weights):
        values = np.cos(np.arange(int(np.prod(weight.shape))) * 0.7 + number).reshape(weight.shape) * 0.5
        weight.assign((np.abs(values) + 0.5 if "variance" in weight.name else values).astype("f4"))
    if options:
        model.compile(**options)
    before = _losses_of(model, steps if name != "untrained" else 0) if options else []
    model.save(path)
    return {"outputs": _outputs_of(model), "before": before, "then": _losses_of(model, 3) if options else []}


def _outputs_of(model):
    return np.asarray(model(np.sin(np.arange(12.0)).reshape(4, 3).astype("f4"))).tolist()


def load_whole(tf, keras, path):
    """Load a model and train on; return losses and outputs, and what it says of itself."""
    keras.backend.clear_session()
    model = keras.models.load_model(path)
    found = {"outputs": _outputs_of(model), "text": model.to_json(), "then": []}
    if model.optimizer is not None:
        found["iterations"] = int(np.asarray(model.optimizer.iterations))
        found["optimizer"] = type(model.optimizer).__name__
        found["then"] = _losses_of(model, 3)
    return found
