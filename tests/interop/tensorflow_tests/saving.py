"""keras/saving/legacy/save_weights_test.py and keras/tests/tracking_util_test.py."""

import os
import weakref

import numpy as np

from .support import close, keys_of, raises, told


def subclassed(tf):
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.x_layer = tf.keras.layers.Dense(3)
            self.b_layer = tf.keras.layers.Dense(1)

        def call(self, x):
            return self.b_layer(self.x_layer(x))

    return Model()


def graph_model(tf, *more):
    image = tf.keras.layers.Input([2])
    out = tf.keras.layers.Dense(1, name="second")(tf.keras.layers.Dense(3, name="first")(image))
    for layer in more:
        out = layer(out)
    return tf.keras.Model(image, out)


def slots_come_back(tf, directory, make):
    """Weights and slots come back, at once or when they are made."""
    x, y, path = (
        np.sin(np.arange(6.0, dtype="f4")).reshape(3, 2),
        np.ones((3, 1), "f4"),
        os.path.join(directory, "w"),
    )
    optimizer = tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9)
    model = make()
    model.compile(loss="mse", optimizer=optimizer)
    train = lambda one: one.fit(x, y, batch_size=3, verbose=0, shuffle=False)  # noqa: E731
    train(model)
    model.save_weights(path, save_format="tf")
    before = model.predict(x, verbose=0)
    train(model)
    after = model.predict(x, verbose=0)
    for variable in model.variables:
        variable.assign(variable * 0 + 3.0)
    model.load_weights(path)
    close(model(x), before)
    loaded = make()
    loaded.load_weights(path)
    close(loaded(x), before)
    loaded = make()
    loaded.load_weights(path)
    loaded.predict(x, verbose=0)
    loaded.compile(loss="mse", optimizer=tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9))
    train(loaded)
    close(loaded(x), after, 1e-5)


def weight_loading(tf, directory):
    """In memory and in every form of file; weights that do not fit are rejected."""
    model, x = graph_model(tf), np.ones((1, 2), "f4")
    expected, weights = model(x).numpy(), model.get_weights()
    model.set_weights(weights)
    close(model(x), expected)
    raises(ValueError, model.set_weights, weights[1:])
    raises(ValueError, model.set_weights, weights[::-1])
    for name in ("w", "w.h5", "w.weights.h5"):
        path = os.path.join(directory, name)
        model.save_weights(path)
        model.set_weights([weight * 0 for weight in weights])
        model.load_weights(path)
        close(model(x), expected)


def weight_loading_graph_model(tf, directory):
    slots_come_back(tf, directory, lambda: graph_model(tf))


def weight_loading_subclassed_model(tf, directory):
    slots_come_back(tf, directory, lambda: subclassed(tf))


def new_layer(tf, directory, first, second):
    """A model with another layer takes what it has a place for, and what it saves goes back."""
    x, path = np.sin(np.arange(6.0, dtype="f4")).reshape(3, 2), os.path.join(directory, "w")
    expected = first(x).numpy()
    first.save_weights(path)
    assert tf.train.latest_checkpoint(directory) == path
    for variable in first.variables:
        variable.assign(variable * 0 + 3.0)
    second.load_weights(path)
    second(x)
    second.save_weights(path)
    first.load_weights(path)
    close(first(x), expected)


def weight_loading_graph_model_added_layer(tf, directory):
    new_layer(tf, directory, graph_model(tf), graph_model(tf, tf.keras.layers.Dense(3)))


def weight_loading_graph_model_added_no_weight_layer(tf, directory):
    new_layer(tf, directory, graph_model(tf), graph_model(tf, tf.keras.layers.Dropout(0.1)))


def weight_loading_subclassed_model_added_layer(tf, directory):
    class Longer(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.x_layer, self.y_layer = tf.keras.layers.Dense(3), tf.keras.layers.Dense(3)
            self.b_layer = tf.keras.layers.Dense(1)

        def call(self, x):
            return self.b_layer(self.y_layer(self.x_layer(x)))

    new_layer(tf, directory, subclassed(tf), Longer())


def incompatible_checkpoint(tf, directory):
    path = tf.train.Checkpoint().save(os.path.join(directory, "ckpt"))
    model = tf.keras.Model()
    assert "Nothing to load" in raises(AssertionError, model.load_weights, path)
    model.dense = tf.keras.layers.Dense(2)
    model.dense(tf.constant([[1.0]]))
    assert "Nothing except the root object matched" in raises(AssertionError, model.load_weights, path)


def one_weight(tf, directory, *paths):
    """Save a weight at each path, and load it from there."""
    model = tf.keras.Model()
    weight = model.add_weight(name="v", shape=[])
    for number, path in enumerate(paths):
        weight.assign(42.0 + number)
        model.save_weights(path)
        assert os.path.exists(path + ".index")
        weight.assign(2.0)
        model.load_weights(path)
        assert float(weight) == 42.0 + number


def relative_path(tf, directory):
    before = os.getcwd()
    os.chdir(directory)
    try:
        one_weight(tf, directory, "ackpt", "subdir/ackpt")
    finally:
        os.chdir(before)


def nonexistent_prefix_directory(tf, directory):
    one_weight(tf, directory, os.path.join(directory, "new", "bckpt"))


def sequential_weight_loading(tf, directory):
    """HDF5: into the same layers, not into others."""
    layers, path = tf.keras.layers, os.path.join(directory, "w.h5")

    def made(*widths):
        model = tf.keras.Sequential([layers.Dense(width) for width in widths])
        model.build((None, 3))
        return model

    model, x = made(2, 3), np.ones((1, 3), "f4")
    expected = model(x).numpy()
    model.save_weights(path)
    other = made(2, 3)
    other.load_weights(path)
    close(other(x), expected)
    raises(ValueError, made(2).load_weights, path)
    raises(ValueError, made(2, 4).load_weights, path)


def nested_model_weight_loading(tf, directory):
    layers, path = tf.keras.layers, os.path.join(directory, "w.h5")

    def made():
        return tf.keras.Sequential([layers.Dense(2), tf.keras.Sequential([layers.Dense(3), layers.Dense(1)])])

    model, x = made(), np.ones((1, 3), "f4")
    expected = model(x).numpy()
    model.save_weights(path)
    other = made()
    other(x)
    other.load_weights(path)
    close(other(x), expected)


# tracking_util_test.


def trained(tf):
    """Return a checkpoint of a model of two layers and its optimizer, after one step."""

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.named_dense = tf.keras.layers.Dense(1)
            self.second = tf.keras.layers.Dense(1, use_bias=False)
            self.non_layer = tf.Module()
            self.non_layer.a_variable = tf.Variable(0.0, name="a_variable")

        def call(self, x):
            return self.second(self.named_dense(x))

    return tf.train.Checkpoint(optimizer=tf.keras.optimizers.legacy.Adam(0.001), model=Model())


def step(tf, root):
    with tf.GradientTape() as tape:
        loss = root.model(tf.constant([[3.0]]))
    variables = root.model.named_dense.variables + root.model.second.variables
    root.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))


def layer_deduplication(tf, directory):
    model, one, two = tf.keras.Model(), tf.keras.layers.Dense(1), tf.keras.layers.Dense(1)
    model.other_path = [one, two]
    model.l2, model.l1 = two, one
    assert [layer is other for layer, other in zip(model.layers, [one, two], strict=True)] == [True, True]


def naming_with_optimizer(tf, directory):
    root = trained(tf)
    step(tf, root)
    path = root.save(os.path.join(directory, "ckpt"))
    value, slot = "/.ATTRIBUTES/VARIABLE_VALUE", "/.OPTIMIZER_SLOT/optimizer"
    weights = [f"model/{name}" for name in ("named_dense/bias", "named_dense/kernel", "second/kernel")]
    expected = [
        *weights,
        *(f"{weight}{slot}/{name}" for weight in weights for name in ("m", "v")),
        "model/non_layer/a_variable",
        *(f"optimizer/{name}" for name in ("beta_1", "beta_2", "decay", "iter", "learning_rate")),
        "save_counter",
    ]
    assert sorted(keys_of(tf, path)) == sorted(name + value for name in expected)


def save_restore(tf, directory):
    root = trained(tf)
    step(tf, root)
    bias = root.model.named_dense.bias
    slot = root.optimizer.get_slot(bias, "m")
    assert not root.save_counter.trainable
    bias.assign([42.0])
    slot.assign([1.5])
    path = root.save(os.path.join(directory, "ckpt"))
    bias.assign([43.0])
    slot.assign([-2.0])
    root.save_counter.assign(3)
    root.restore(path).assert_consumed()
    assert (float(bias[0]), int(root.save_counter), float(slot[0])) == (42.0, 1, 1.5)

    late = trained(tf)
    status = late.restore(path)
    status.assert_nontrivial_match()
    status.assert_existing_objects_matched()
    raises(AssertionError, status.assert_consumed)
    late.model(tf.constant([[3.0]]))
    bias = late.model.named_dense.bias
    assert (float(bias[0]), int(late.save_counter)) == (42.0, 1)
    assert float(late.optimizer.get_slot(bias, "m")[0]) == 1.5
    dummy = tf.Variable([1.0])
    late.optimizer.minimize(dummy.read_value, [dummy])
    status.assert_consumed()


def deferred_restoration_usage_eager(tf, directory):
    for continuation in range(3):
        root = trained(tf)
        root.restore(tf.train.latest_checkpoint(directory))
        for _ in range(10):
            step(tf, root)
        root.save(os.path.join(directory, "ckpt"))
        assert int(root.optimizer.iterations) == (continuation + 1) * 10


def agnostic_usage(tf, directory):
    """The same loop with a manager and `initialize_or_restore`."""
    for continuation in range(3):
        root = trained(tf)
        manager = tf.train.CheckpointManager(root, directory, max_to_keep=1)
        root.restore(manager.latest_checkpoint).initialize_or_restore()
        for _ in range(10):
            step(tf, root)
        manager.save()
        assert int(root.optimizer.iterations) == (continuation + 1) * 10
        assert int(root.save_counter) == continuation + 1


def partial_restore_warning_object(tf, directory):
    optimizer = tf.keras.optimizers.legacy.Adam(0.0)
    original = tf.train.Checkpoint(v1=tf.Variable(2.0), v2=tf.Variable(3.0), optimizer=optimizer)
    optimizer.minimize(original.v1.read_value, [original.v1])
    path = original.save(os.path.join(directory, "ckpt"))
    partial = tf.train.Checkpoint(v1=tf.Variable(0.0))
    weak, weak_v1 = weakref.ref(partial), weakref.ref(partial.v1)
    partial.restore(path)
    assert float(partial.v1) == 2.0
    with told() as messages:
        del partial
        assert weak() is None
        assert weak_v1() is None
    assert any(message.endswith("(root).v2") for message in messages)
    assert any(message.endswith("(root).optimizer's state 'm' for (root).v1") for message in messages)
    assert not any(message.endswith(": (root).v1") for message in messages)
    assert "expect_partial()" in messages[0]


def anonymous_vars_in_init(tf, directory):
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.w, self.b = tf.Variable(0.0), tf.Variable(0.0)
            self.vars = [self.w, self.b]

        def call(self, x):
            return x * self.w + self.b

    model, optimizer = Model(), tf.keras.optimizers.legacy.Adam(0.05)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    for _ in range(2):
        checkpoint.save(os.path.join(directory, "ckpt"))
        with tf.GradientTape() as tape:
            loss = (1.0 - model(tf.constant(1.0))) ** 2
        optimizer.apply_gradients(zip(tape.gradient(loss, model.vars), model.vars, strict=True))


def deferred_slot_restoration(tf, directory):
    root, optimizer = tf.train.Checkpoint(var=tf.Variable(0.0)), tf.keras.optimizers.legacy.Adam(0.1)
    optimizer.apply_gradients([(tf.constant(1.0), root.var)])
    root.var.assign(12.0)
    without = root.save(os.path.join(directory, "without"))
    root.optimizer = optimizer
    root.var.assign(13.0)
    optimizer.get_slot(root.var, "m").assign(14.0)
    with_slots = root.save(os.path.join(directory, "with"))
    new = tf.train.Checkpoint()
    slots = new.restore(with_slots)
    later = new.restore(without)
    raises(AssertionError, later.assert_consumed)
    new.var = tf.Variable(0.0)
    later.assert_consumed()
    assert float(new.var) == 12.0
    new.optimizer = tf.keras.optimizers.legacy.Adam(0.1)
    slots.assert_existing_objects_matched()
    assert float(new.var) == 12.0
    assert float(new.optimizer.get_slot(new.var, "m")) == 14.0
    new.optimizer.apply_gradients([(tf.constant(1.0), new.var)])
    slots.assert_consumed()


def many_saves_and_restores(tf, directory):
    """Saving and restoring over and over needs nothing more each time."""
    root = trained(tf)
    step(tf, root)
    for number in range(1, 6):
        path = root.save(os.path.join(directory, "ckpt"))
        assert path.endswith(f"-{number}")
        root.restore(path).assert_consumed()


def sequential(tf, directory):
    layers = tf.keras.layers

    def made():
        model = tf.keras.Sequential()
        return model, tf.train.Checkpoint(model=model)

    model, checkpoint = made()
    model.add(layers.Dense(4))
    second = layers.Dense(5)
    model.add(second)
    model(tf.constant([[1.0]]))
    checkpoint.restore(None)
    second.bias.assign([1.0, 2.0, 3.0, 4.0, 5.0])
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    second.bias.assign([5.0, 6.0, 7.0, 8.0, 9.0])
    checkpoint.restore(path).assert_consumed()
    close(second.bias, [1, 2, 3, 4, 5])

    model, checkpoint = made()
    checkpoint.restore(path)
    model.add(layers.Dense(4))
    second = layers.Dense(5)
    model.add(second)
    model(tf.constant([[1.0]]))
    close(second.bias, [1, 2, 3, 4, 5])


def initialize_if_not_restoring(tf, directory):
    """A model is restored without its optimizer, and that from a checkpoint of its own."""
    root = trained(tf)
    model_only = tf.train.Checkpoint(model=root.model)
    model_only.restore(None).initialize_or_restore()
    step(tf, root)
    model_path = model_only.save(os.path.join(directory, "model"))
    root.optimizer.beta_1.assign(42.0)
    optimizer_path = tf.train.Checkpoint(optimizer=root.optimizer).save(os.path.join(directory, "opt"))
    other = trained(tf)
    status = other.restore(model_path)
    status.initialize_or_restore()
    step(tf, other)
    raises(AssertionError, status.assert_existing_objects_matched)
    tf.train.Checkpoint(optimizer=other.optimizer).restore(optimizer_path)
    assert float(other.optimizer.beta_1) == 42.0


def ignore_save_counter(tf, directory):
    """A checkpoint without a save counter lacks nothing; one without a variable of that name does."""
    dense = tf.keras.layers.Dense(1)
    model = tf.keras.Sequential([tf.keras.layers.Flatten(input_shape=(1,)), dense])
    path = tf.train.Checkpoint(model=model).write(os.path.join(directory, "ckpt"))
    checkpoint = tf.train.Checkpoint(model=model)
    checkpoint.read(path).assert_existing_objects_matched()
    dense.var = tf.Variable(0.0, name="save_counter")
    raises(AssertionError, checkpoint.read(path).assert_existing_objects_matched)
