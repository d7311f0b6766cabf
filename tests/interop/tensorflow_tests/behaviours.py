"""Behaviours of TensorFlow, one per function: each runs under TensorFlow and under the runtime.

A function takes `tf` and an empty directory and asserts; it passes on both sides, or the
runtime computes something else.  Floats are compared in float32.
"""

import copy
import functools
import gc
import json
import operator
import os
import weakref
from typing import Any, NamedTuple

import numpy as np

from .support import close, keys_of, raises, same, told


def generator_draws_philox(tf, directory):
    """Uniform values and integers to the bit; normal ones up to the machine's logarithm and sine."""
    g = tf.random.Generator.from_seed(7)
    same(g.uniform([3]), np.float32([0.39932835, 0.7840713, 0.67880154]))
    same(g.state, np.int64([775, 0, 0]))
    close(g.normal([3]), [-1.2344412, 0.09916726, -0.9690246])
    close(g.truncated_normal([3]), [0.15951356, -0.2555016, 1.4733889])
    same(g.make_seeds(2), np.int64([[-2930755563264428516, 4859832280479223925], [0, 0]]))
    same(g.uniform_full_int([2]), np.uint64([8622760326148602425, 6976264019759602886]))
    same(g.state, np.int64([3335, 0, 0]))
    g = tf.random.Generator.from_seed(1)
    same(g.uniform([3], -5, 10, dtype="int64"), np.int64([8, -4, 4]))
    same(g.uniform([3], -5, 10, dtype="int32"), np.int32([9, 2, 4]))
    assert g.algorithm == 1
    halves = [part.state.numpy().tolist() for part in tf.random.Generator.from_seed(5).split(3)]
    assert halves == [[0, 0, 511886651086640123], [0, 0, 6557199171514225562], [0, 0, -3553185952259159048]]


def nadam_counts_its_steps_eagerly(tf, directory):
    optimizer = tf.keras.optimizers.Nadam(0.1)
    w, b = tf.Variable([1.0, 2.0]), tf.Variable([1.0])
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * w) * 0.5 + tf.reduce_sum(b * b)
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b], strict=True))
    close(w, [0.6297535, 1.6160498])
    close(b, [0.6297535])
    close(optimizer._u_product, 0.031461526)


def weight_decay_leaves_out_what_is_excluded(tf, directory):
    found = []
    for names in ([], ["bias"], ["^k", "bias"]):
        optimizer = tf.keras.optimizers.AdamW(0.1, weight_decay=0.5)
        optimizer.exclude_from_weight_decay(var_names=names)
        kernel, bias = tf.Variable([1.0], name="kernel"), tf.Variable([1.0], name="bias")
        optimizer.apply_gradients([(tf.constant([0.0]), kernel), (tf.constant([0.0]), bias)])
        found.append([kernel.numpy()[0], bias.numpy()[0]])
    close(found, [[0.95, 0.95], [0.95, 1.0], [1.0, 1.0]])
    text = raises(ValueError, optimizer.exclude_from_weight_decay, var_names=["bias"])
    assert text == "`exclude_from_weight_decay()` can only be configued before the optimizer is built."
    assert "Missing value of `weight_decay`" in raises(
        ValueError, tf.keras.optimizers.AdamW, weight_decay=None
    )


def rows_that_legacy_optimizers_leave_alone(tf, directory):
    """A gradient of gathered rows moves no others, and of Nadam's means it decays all."""
    legacy = tf.keras.optimizers.legacy
    for make in (legacy.Adadelta, legacy.Adamax, legacy.Ftrl, legacy.Nadam):
        optimizer, table = make(0.5), tf.Variable(tf.reshape(tf.range(6, dtype=tf.float32), [3, 2]) + 1.0)
        for rows in ([0, 1, 1], [1, 1, 1]):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(tf.gather(table, rows)))
            before = table.numpy()
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            moved = (table.numpy() != before).any(axis=1).tolist()
            assert moved == [0 in rows, True, False], (make, rows, moved)


def generator_seeds_fill_the_state(tf, directory):
    make = tf.random.Generator
    states = {
        2**63 + 5: [5 - 2**63, 0, 0],
        -1: [-1, -1, -1],
        2**130 + 2**70 + 9: [9, 64, 4],
        (1, 2): [0, 1, 2],
        (1, 2, 3, 4): [1, 2, 3],
    }
    for seed, state in states.items():
        assert make.from_seed(list(seed) if isinstance(seed, tuple) else seed).state.numpy().tolist() == state
    assert make.from_key_counter(5, [1, 2], "philox").state.numpy().tolist() == [1, 2, 5]
    assert tf.random.create_rng_state(4, "threefry").numpy().tolist() == [4, 0]
    assert make.from_non_deterministic_state().state.shape == (3,)
    raises(ValueError, make.from_state, [1, 2], alg="philox")
    raises(ValueError, make.from_seed, 1, alg="dice")
    raises(tf.errors.UnimplementedError, make.from_seed(1, alg="threefry").uniform, [2])


def generator_skips_as_if_it_drew(tf, directory):
    g = tf.random.Generator.from_state([-300, 4, 7], alg="philox")
    same(g.skip(2), np.int64([-300, 4, 7]))
    same(g.state, np.int64([212, 5, 7]))
    g.skip(-1)
    same(g.state, np.int64([-44, 5, 7]))
    wrapped = tf.random.Generator.from_state([-1, -1, 7], alg="philox")
    same(wrapped.uniform([2]), np.float32([0.06370056, 0.909263]))
    same(wrapped.state, np.int64([511, 0, 7]))


def generator_refuses_what_it_cannot_draw(tf, directory):
    g = tf.random.Generator.from_seed(1)
    raises(ValueError, g.uniform, [2], dtype="int32")
    raises(tf.errors.InvalidArgumentError, g.uniform, [2], 5, 5, dtype="int32")
    raises(tf.errors.InvalidArgumentError, g.uniform_full_int, [2], dtype="int8")
    raises(tf.errors.InvalidArgumentError, g.uniform, [-1])


def generator_goes_on_after_a_restore(tf, directory):
    g = tf.random.Generator.from_seed(11)
    g.normal([5])
    path = tf.train.Checkpoint(g=g).save(os.path.join(directory, "ckpt"))
    after = g.uniform([4]).numpy()
    other = tf.random.Generator.from_non_deterministic_state()
    tf.train.Checkpoint(g=other).restore(path).assert_consumed()
    same(other.uniform([4]), after)
    assert dict(tf.train.list_variables(path))["g/_state_var/.ATTRIBUTES/VARIABLE_VALUE"] == [3]


def batches():
    return np.float32([[1, 2], [3, 5]])


def training_is_the_argument_or_the_outer_call_or_the_default(tf, directory):
    layer, x = tf.keras.layers.Layer, batches()

    class Default(layer):
        def call(self, inputs, training=True):
            return inputs * (3 if training is None else 4 if training else 5)

    class KeywordDefault(layer):
        def call(self, inputs, *, training=True):
            return inputs * (3 if training is None else 4 if training else 5)

    class NoDefault(layer):
        def call(self, values, training=None):
            return values * (3 if training is None else 4 if training else 5)

    class Anything(layer):
        def call(self, inputs, **more):
            return inputs * (3 if more["training"] is None else 4 if more["training"] else 5)

    class Outer(layer):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def call(self, inputs):
            return self.inner(inputs)

    for made, left_alone in ((Default(), 4), (KeywordDefault(), 4), (NoDefault(), 3), (Anything(), 3)):
        for one in (made, Outer(made), Outer(Outer(made)), tf.keras.Sequential([made])):
            same(one(x), x * left_alone)
            same(one(x, training=True), x * 4)
            same(one(x, training=False), x * 5)
            same(one(x, training=None), x * left_alone)
    same(NoDefault()(x, True), x * 4)
    same(NoDefault()(values=x), x * 3)
    image = tf.keras.Input([2])
    functional = tf.keras.Model(image, Default()(image))
    same(functional(x), x * 4)
    same(functional(x, training=False), x * 5)


def losses_of_a_model_that_trains_by_default(tf, directory):
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.norm = tf.keras.layers.BatchNormalization(momentum=0.5)
            self.out = tf.keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, inputs, training=True):
            return self.out(self.norm(inputs, training=training))

    net, optimizer = Net(), tf.keras.optimizers.legacy.SGD(0.1)
    losses = []
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(batches()) - 1.0))
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        losses.append(float(loss))
    close(losses, [4.997114, 0.832494, 0.464596], 1e-5)


def building_a_model_changes_no_variable(tf, directory):
    layers, x = tf.keras.layers, batches()

    class Counting(layers.Layer):
        def __init__(self):
            super().__init__()
            self.count = tf.Variable(0.0)
            self.random = tf.random.Generator.from_seed(1)

        def call(self, inputs):
            self.count.assign_add(1.0)
            self.random.skip(1)
            return inputs + self.count * 0

    model = tf.keras.Sequential([layers.BatchNormalization(), layers.Dense(1)])
    model(x, training=True)
    close(model.layers[0].moving_variance, [1.0, 1.0125])
    counting, image = Counting(), tf.keras.Input([2])
    functional = tf.keras.Model(image, counting(image))
    assert float(counting.count) == 0
    functional(x)
    assert float(counting.count) == 1
    assert counting.random.state.numpy().tolist() == [257, 0, 0]
    stacked = tf.keras.Sequential([counting])
    stacked(x)
    assert float(counting.count) == 2
    counting.compute_output_shape((2, 2))
    assert float(counting.count) == 2


def a_list_that_is_filled_after_it_was_assigned(tf, directory):
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            blocks, heads = [], {}
            self.blocks, self.heads = blocks, heads
            for _ in range(3):
                blocks.append(tf.keras.layers.Dense(2, kernel_initializer="ones"))
            heads["out"] = tf.keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            for head in self.heads.values():
                x = head(x)
            return x

    net = Net()
    close(net(tf.ones([1, 2])), [[16.0]])
    assert len(net.layers) == 4
    assert [tuple(weight.shape) for weight in net.weights] == [(2, 2), (2,)] * 3 + [(2, 1), (1,)]
    assert len(net.trainable_variables) == 8
    text = raises(ValueError, net.save_weights, os.path.join(directory, "w"))
    assert "modified outside the wrapper" in text


def wrappers_show_what_they_were_made_of(tf, directory):
    root, plain, named = tf.train.Checkpoint(), [1], {"a": 1}
    root.plain, root.named = plain, named
    plain.append(2)
    named["b"] = 2
    assert root.plain == [1, 2]
    assert operator.eq([1, 2], root.plain)
    assert len(root.plain) == 2
    assert root.plain[-1] == 2
    assert [*root.plain] == [1, 2]
    assert sorted(root.plain, reverse=True) == [2, 1]
    assert operator.add(root.plain, [3]) == [1, 2, 3]
    assert operator.add([0], root.plain) == [0, 1, 2]
    assert root.named == {"a": 1, "b": 2}
    assert {**root.named} == {"a": 1, "b": 2}
    assert "b" in root.named
    assert list(root.named.items()) == [("a", 1), ("b", 2)]
    assert (str(root.plain), repr(root.plain)) == ("ListWrapper([1, 2])", "ListWrapper([1, 2])")
    assert (str(root.named), repr(root.named)) == ("{'a': 1, 'b': 2}", "DictWrapper({'a': 1, 'b': 2})")
    root.pair = (1, [])
    assert (str(root.pair), repr(root.pair)) == (
        "(1, ListWrapper([]))",
        "_TupleWrapper((1, ListWrapper([])))",
    )
    root.plain.append(3)
    root.named["c"] = 3
    assert plain == [1, 2, 3]
    assert named == {"a": 1, "b": 2, "c": 3}


def copies_of_changed_wrappers_cannot_be_saved_either(tf, directory):
    for original, change in (
        ([tf.Variable(1.0)], lambda x: x.append(2)),
        ({"a": []}, lambda x: x.update(b=2)),
    ):
        root = tf.train.Checkpoint()
        root.part = original
        root.write(os.path.join(directory, "sound"))
        tf.train.Checkpoint(part=copy.copy(root.part)).write(os.path.join(directory, "copied"))
        change(original)
        raises(ValueError, root.write, os.path.join(directory, "changed"))
        for copied in (copy.copy(root.part), copy.deepcopy(root.part)):
            assert copied is not root.part
            other = tf.train.Checkpoint()
            other.part = copied
            raises(ValueError, other.write, os.path.join(directory, "changed"))


def changes_that_go_past_a_dicts_wrapper(tf, directory):
    """`del` and assignment are the wrapper's; what takes out or puts in otherwise is not noticed in time."""

    def made():
        root = tf.train.Checkpoint()
        root.d = {"a": tf.Variable(1.0), "b": tf.Variable(2.0), "n": 3}
        return root

    changes = {
        "pop": lambda d: d.pop("a"),
        "popitem": lambda d: d.popitem(),
        "clear": lambda d: d.clear(),
        "setdefault": lambda d: d.setdefault("c", 4),
    }
    for change in changes.values():
        root = made()
        change(root.d)
        raises(ValueError, root.write, os.path.join(directory, "changed"))
    root = made()
    assert root.d.pop("z", 5) == 5
    assert root.d.setdefault("n", 4) == 3
    del root.d["a"]
    root.d.update(c=tf.Variable(4.0))
    path = root.write(os.path.join(directory, "sound"))
    keys = {key for key, _ in tf.train.list_variables(path) if key.startswith("d/")}
    assert keys == {f"d/{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in "abc"}


def a_named_tuples_own_names_go_first(tf, directory):
    class Named(NamedTuple):
        x: Any
        weights: int
        layers: int

    root = tf.Module()
    root.pair = Named(tf.Variable(2.0), 3, 4)
    assert (root.pair.weights, root.pair.layers) == (3, 4)
    assert [float(one) for one in root.variables] == [2.0]
    path = tf.train.Checkpoint(root=root).write(os.path.join(directory, "ckpt"))
    assert [key for key, _ in tf.train.list_variables(path)][1:] == ["pair/x/.ATTRIBUTES/VARIABLE_VALUE"]


def a_named_tuple_that_is_made_otherwise_cannot_be_saved(tf, directory):
    class One(NamedTuple):
        x: list

    class Odd(One):
        def __new__(cls):
            return super().__new__(cls, [])

    root = tf.Module()
    root.odd = Odd()
    root.odd.x.append(tf.Variable(1.0))
    raises(ValueError, tf.train.Checkpoint(root=root).save, os.path.join(directory, "ckpt"))


def variables_of_a_container_are_those_it_was_given(tf, directory):
    layer, kept, later = tf.keras.layers.Layer(), [tf.Variable(1.0)], tf.Variable(2.0)
    layer.kept = kept
    kept.append(later)
    assert len(layer.kept) == 2
    assert len(layer.kept.variables) == 1
    layer.kept.trainable = False
    assert layer.kept.trainable_variables == []
    assert len(layer.kept.non_trainable_variables) == 1


def rows_of_a_table(tf):
    """Return a table, and its gradient by rows: the second comes twice, and the third with zeros."""
    table = tf.Variable(np.arange(10, dtype="f4").reshape(5, 2))
    with tf.GradientTape() as tape:
        rows = tf.gather(table, [[1, 3], [1, 2]])
        loss = tf.reduce_sum(rows * np.float32([[[1, 2], [3, 4]], [[5, 6], [0, 0]]]))
    return table, tape.gradient(loss, table)


def gradients_of_rows_are_indexed_slices(tf, directory):
    table, gradient = rows_of_a_table(tf)
    assert isinstance(gradient, tf.IndexedSlices)
    same(gradient.indices, np.int32([1, 3, 1, 2]))
    same(gradient.values, np.float32([[1, 2], [3, 4], [5, 6], [0, 0]]))
    assert gradient.dense_shape.numpy().tolist() == [5, 2]
    same(tf.convert_to_tensor(gradient), np.float32([[0, 0], [6, 8], [0, 0], [3, 4], [0, 0]]))
    same(tf.clip_by_value(gradient, 0.0, 2.0).values, np.float32([[1, 2], [2, 2], [2, 2], [0, 0]]))
    close(tf.clip_by_norm(gradient, 1.0).values, gradient.values.numpy() / 91**0.5)
    (clipped, nothing), norm = tf.clip_by_global_norm([gradient, None], 1.0)
    assert nothing is None
    close(norm, 91**0.5)
    close(clipped.values, gradient.values.numpy() / 91**0.5)
    with tf.GradientTape(persistent=True) as tape:
        twice = tf.gather(table, [0]) + tf.gather(table, [2])
        mixed = tf.reduce_sum(tf.gather(table, [0])) + tf.reduce_sum(table)
        scaled = tf.gather(table * 2.0, [0])
    assert sorted(tape.gradient(twice, table).indices.numpy().tolist()) == [0, 2]
    assert not isinstance(tape.gradient(mixed, table), tf.IndexedSlices)
    assert not isinstance(tape.gradient(scaled, table), tf.IndexedSlices)
    same(tape.gradient(scaled, table), np.float32([[2, 2], [0, 0], [0, 0], [0, 0], [0, 0]]))


def embeddings_train_by_rows(tf, directory):
    """Momentum of rows that are not looked up is unchanged; clipping counts a repeated row twice."""
    legacy, modern, old = tf.keras.optimizers.legacy, tf.keras.optimizers, tf.compat.v1.train
    cases = {
        "sgd": (lambda: legacy.SGD(0.1), 95.68, [0.6, 0.4, -0.04, -0.56, 0.2]),
        "momentum": (lambda: legacy.SGD(0.1, momentum=0.9), 95.68, [0.6, 0.4, -0.76, -1.64, 0.2]),
        "nesterov": (
            lambda: legacy.SGD(0.1, momentum=0.9, nesterov=True),
            91.7488,
            [0.24, -0.14, -1.3504, -2.5256, -0.52],
        ),
        "clipped": (
            lambda: legacy.SGD(0.1, momentum=0.9, clipnorm=0.5),
            103.587,
            [0.972265, 0.958398, 0.919699, 0.879548, 0.960777],
        ),
        "rmsprop": (
            lambda: legacy.RMSprop(0.01),
            103.685772,
            [0.968377, 0.968377, 0.952586, 0.952523, 0.968377],
        ),
        "rmsprop momentum": (
            lambda: legacy.RMSprop(0.01, momentum=0.5),
            103.685772,
            [0.968377, 0.968377, 0.938005, 0.937944, 0.968377],
        ),
        "rmsprop centered": (
            lambda: legacy.RMSprop(0.01, momentum=0.5, centered=True),
            103.668888,
            [0.966667, 0.966667, 0.934032, 0.933958, 0.966667],
        ),
        "adam": (lambda: legacy.Adam(0.1), 101.907734, [0.820946, 0.820946, 0.71878, 0.718246, 0.883791]),
        "adagrad": (
            lambda: legacy.Adagrad(0.1),
            103.020498,
            [0.900311, 0.900139, 0.857198, 0.85653, 0.900078],
        ),
        "modern sgd": (
            lambda: modern.SGD(0.1, momentum=0.9, nesterov=True),
            92.83398,
            [-0.3756, -1.0634, -1.990624, -3.485936, -1.168],
        ),
        "modern rmsprop": (
            lambda: modern.RMSprop(0.01, momentum=0.5, centered=True),
            103.423471,
            [0.941667, 0.941667, 0.920519, 0.920386, 0.95],
        ),
        "modern clipped": (
            lambda: modern.Adam(0.1, global_clipnorm=0.5),
            101.907763,
            [0.820949, 0.820949, 0.715574, 0.715069, 0.883793],
        ),
        "old momentum": (lambda: old.MomentumOptimizer(0.1, 0.9), 95.68, [0.6, 0.4, -0.76, -1.64, 0.2]),
        "old nesterov": (
            lambda: old.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
            91.7488,
            [0.24, -0.14, -1.3504, -2.5256, -0.52],
        ),
    }
    for make, expected, values in cases.values():
        table, optimizer, losses = tf.Variable(np.ones((5, 2), "f4")), make(), 0.0
        for indices in ([1, 3, 1], [0], [2, 2], [1, 4]):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(tf.gather(table, indices) + np.float32([1, 2])))
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            losses += float(loss)
        close(losses, expected, 1e-5)
        close(table.numpy().reshape(-1)[:5], values, 1e-5)


def own_state(tf, count=3.0, names=("count", "words")):
    """Return an object that saves a number and words of its own, next to a variable."""

    class Own(tf.Module):
        def __init__(self):
            super().__init__()
            self.count, self.taken = count, None

        def _serialize_to_tensors(self):
            tensors = {
                "count": tf.constant(self.count),
                "words": tf.constant([b"a", b"b"]),
                "a/b": tf.constant(1),
            }
            return {name: tensors[name] for name in names}

        def _restore_from_tensors(self, tensors):
            self.taken = tf.nest.map_structure(lambda one: one.numpy().tolist(), dict(tensors))
            self.count = float(tensors["count"])

    made = Own()
    made.w = tf.Variable(1.0)
    return made


def an_objects_own_tensors_are_saved(tf, directory):
    own = own_state(tf)
    path = tf.train.Checkpoint(a=own).write(os.path.join(directory, "ckpt"))
    state = ["a/.ATTRIBUTES/count", "a/.ATTRIBUTES/words"]
    assert keys_of(tf, path) == [*state, "a/w/.ATTRIBUTES/VARIABLE_VALUE"]
    other = own_state(tf, 9.0)
    tf.train.Checkpoint(a=other).read(path).assert_consumed()
    assert other.taken == {"count": 3.0, "words": [b"a", b"b"]}
    assert other.count == 3.0
    root, late = tf.train.Checkpoint(), own_state(tf, 8.0)
    status = root.read(path)
    root.a = late
    assert late.count == 3.0
    status.assert_consumed()
    odd = tf.train.Checkpoint(a=own_state(tf, names=("a/b",))).write(os.path.join(directory, "odd"))
    assert keys_of(tf, odd)[0] == "a/.ATTRIBUTES/a..Sb"


def an_objects_own_tensors_must_be_there(tf, directory):
    path = tf.train.Checkpoint(a=own_state(tf, names=("count",))).write(os.path.join(directory, "ckpt"))
    text = raises(tf.errors.NotFoundError, tf.train.Checkpoint(a=own_state(tf)).read, path)
    assert "a/.ATTRIBUTES/words not found in checkpoint" in text
    raises(tf.errors.InvalidArgumentError, tf.train.Checkpoint(a=own_state(tf, 3, ["count"])).read, path)
    whole = tf.train.Checkpoint(a=own_state(tf)).write(os.path.join(directory, "whole"))
    fewer = own_state(tf, 9.0, ["count"])
    tf.train.Checkpoint(a=fewer).read(whole).assert_consumed()
    assert fewer.taken == {"count": 3.0}


def an_objects_gathered_saveables_are_saved(tf, directory):
    held, plain = tf.Variable(7.0), tf.Variable(8.0)

    class Gathering(tf.Module):
        def _gather_saveables_for_checkpoint(self):
            return {"held": lambda name="": held, "plain": plain}

    path = tf.train.Checkpoint(g=Gathering()).write(os.path.join(directory, "ckpt"))
    assert keys_of(tf, path) == ["g/.ATTRIBUTES/held", "g/.ATTRIBUTES/plain"]
    held.assign(0.0)
    plain.assign(0.0)
    tf.train.Checkpoint(g=Gathering()).read(path).assert_consumed()
    assert (float(held), float(plain)) == (7.0, 8.0)
    other = tf.train.Checkpoint(g=tf.Module()).read(path)
    raises(AssertionError, other.assert_consumed)


def python_state_is_saved(tf, directory):
    class Words(tf.train.experimental.PythonState):
        def __init__(self, words):
            self.words = words

        def serialize(self):
            return self.words

        def deserialize(self, string_value):
            self.words = string_value

    for words in (b"a\0b", "t\u1234", b""):
        path = tf.train.Checkpoint(s=Words(words)).write(os.path.join(directory, "ckpt"))
        assert keys_of(tf, path) == ["s/.ATTRIBUTES/py_state"]
        other = Words(b"")
        tf.train.Checkpoint(s=other).read(path).assert_consumed()
        assert other.words == (words if isinstance(words, bytes) else words.encode())
    raises(TypeError, tf.train.experimental.PythonState)


def doubling(tf):
    """Return a model_fn with one argument more than an Estimator knows, and an input_fn."""
    train = tf.compat.v1.train

    def model_fn(features, labels, mode, factor=2.0):
        weight = tf.Variable(factor, name="w")
        loss = tf.reduce_mean(tf.square(features["x"] * weight - labels))
        step = train.GradientDescentOptimizer(0.1).minimize(loss, train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": np.float32([1, 2])}, np.float32([0, 0]))).repeat()

    return model_fn, input_fn


def estimators_take_a_partial_model_fn(tf, directory):
    model_fn, input_fn = doubling(tf)
    estimator = tf.estimator.Estimator(functools.partial(model_fn, factor=3.0), directory)
    estimator.train(input_fn, steps=1)
    close(estimator.get_variable_value("w"), 1.5)
    raises(ValueError, tf.estimator.Estimator, model_fn, directory)
    raises(ValueError, tf.estimator.Estimator, functools.partial(lambda features: None, 1))


def estimators_take_subclasses_of_run_config(tf, directory):
    class Often(tf.estimator.RunConfig):
        @property
        def save_checkpoints_steps(self):
            return 1

        @property
        def save_checkpoints_secs(self):
            return None

        @property
        def keep_checkpoint_max(self):
            return 2

        @property
        def model_dir(self):
            return directory

    model_fn, input_fn = doubling(tf)
    estimator = tf.estimator.Estimator(functools.partial(model_fn, factor=3.0), config=Often())
    assert estimator.model_dir == directory
    assert type(estimator.config) is Often
    estimator.train(input_fn, steps=4)
    found = sorted(name for name in os.listdir(directory) if name.endswith(".index"))
    assert found == ["model.ckpt-3.index", "model.ckpt-4.index"]


def an_empty_model_dir_is_none(tf, directory):
    model_fn = functools.partial(doubling(tf)[0], factor=3.0)
    assert os.path.isdir(tf.estimator.Estimator(model_fn, model_dir="").model_dir)
    raises(ValueError, tf.estimator.RunConfig, model_dir="")


def a_layer_that_is_reached_twice_is_one(tf, directory):
    class Shared(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first = tf.keras.layers.Dense(2, name="first")
            self.both = [self.first, tf.keras.layers.Dense(3, name="second")]
            self.named = {"again": self.both[1], "third": tf.keras.layers.Dense(1, name="third")}

        def call(self, x):
            return self.named["third"](self.both[1](self.first(x)))

    model = Shared()
    model(tf.ones([1, 2]))
    assert [layer.name for layer in model.layers] == ["first", "second", "third"]
    path = os.path.join(directory, "w.h5")
    model.save_weights(path)
    before = [weight.numpy() for weight in model.weights]
    for weight in model.weights:
        weight.assign(weight * 0)
    model.load_weights(path)
    for weight, value in zip(model.weights, before, strict=True):
        same(weight, value)


def a_checkpoint_of_a_weak_reference(tf, directory):
    root = tf.train.Checkpoint(v=tf.Variable(1.0))
    checkpoint = tf.train.Checkpoint(root=weakref.ref(root), z=tf.Variable(2.0))
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    names = ["save_counter", "v", "z"]
    assert keys_of(tf, path) == [f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in names]
    root.v.assign(5.0)
    checkpoint.restore(path).assert_consumed()
    assert float(root.v) == 1.0
    module = tf.Module()
    module.v = tf.Variable(3.0)
    dead = tf.train.Checkpoint(root=weakref.ref(module))
    del module
    gc.collect()
    raises(AssertionError, dead.write, os.path.join(directory, "dead"))
    raises(ValueError, tf.train.Checkpoint, root=weakref.ref(set()))


def a_dropped_checkpoint_is_freed_at_once(tf, directory):
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)).write(os.path.join(directory, "ckpt"))
    gc.collect()
    gc.disable()
    try:
        with told() as messages:
            root = tf.train.Checkpoint(a=tf.Variable(0.0))
            root.read(path)
            gone = weakref.ref(root)
            del root
            assert gone() is None
    finally:
        gc.enable()
    assert messages[0].startswith("Detecting that an object or model or tf.train.Checkpoint is being deleted")
    assert messages[1:] == ["Value in checkpoint could not be found in the restored object: (root).b"]


def write_callbacks_take_a_path_or_nothing(tf, directory):
    called = []
    path, checkpoint = os.path.join(directory, "ckpt"), tf.train.Checkpoint(v=tf.Variable(1.0))
    callbacks = [
        lambda: called.append("nothing"),
        called.append,
        functools.partial(called.append, "partial"),
        lambda *paths: called.append(paths),
        lambda path=None: called.append(path),
    ]
    options = tf.train.CheckpointOptions(experimental_write_callbacks=callbacks)
    checkpoint.write(path, options)
    assert called == ["nothing", path, "partial", (path,), path]
    make = functools.partial(tf.train.CheckpointOptions, experimental_write_callbacks=[lambda a, b: None])
    raises(AssertionError, make)
    del called[:]
    checkpoint.save(path, options)
    assert called[1] == path + "-1"


def a_state_file_without_a_latest_checkpoint_is_an_error(tf, directory):
    for text in ("", "\n", 'model_checkpoint_path: ""\n', 'all_model_checkpoint_paths: "a"\n'):
        with open(os.path.join(directory, "checkpoint"), "w") as file:
            file.write(text)
        expected = f"Invalid checkpoint state loaded from {directory}"
        assert raises(ValueError, tf.train.latest_checkpoint, directory) == expected
        assert raises(ValueError, tf.train.get_checkpoint_state, directory) == expected
        assert raises(ValueError, tf.train.CheckpointManager, tf.train.Checkpoint(), directory, 1) == expected


def variables_hold_to_the_shape_they_were_given(tf, directory):
    variable = tf.Variable
    raises(ValueError, variable, [1.0], shape=[3])
    raises(ValueError, variable, 1.0, shape=[1])
    raises(ValueError, variable, [1.0], shape=[None, 1])
    rows = variable([[1.0, 2.0]], shape=[None, 2])
    assert rows.shape.as_list() == [None, 2]
    same(rows.assign([[1.0, 2.0], [3.0, 4.0]]), np.float32([[1, 2], [3, 4]]))
    raises(ValueError, rows.assign, [[1.0]])
    path = tf.train.Checkpoint(v=rows).write(os.path.join(directory, "ckpt"))
    other = variable([[0.0, 0.0]], shape=[None, 2])
    tf.train.Checkpoint(v=other).read(path).assert_consumed()
    same(other, np.float32([[1, 2], [3, 4]]))
    narrow = variable([[0.0]], shape=[None, 1])
    raises(ValueError, tf.train.Checkpoint(v=narrow).read, path)
    free = variable([1.0], shape=tf.TensorShape(None))
    assert free.shape.rank is None
    same(free.assign([[2.0]]), np.float32([[2]]))


def layers_take_integers(tf, directory):
    layers, x = tf.keras.layers, [[1, 2]]
    for values in (np.array(x), np.array(x, "u1"), tf.constant(x)):
        close(layers.Dense(2, kernel_initializer="ones")(values), [[3.0, 3.0]])
    assert layers.Dense(1, dtype="float64")(np.array(x)).dtype == tf.float64
    close(layers.BatchNormalization()(np.array(x)), [[0.9995004, 1.9990008]])
    close(layers.LayerNormalization()(np.array(x)), [[-0.998006, 0.998006]], 1e-5)
    assert layers.Flatten()(np.ones((1, 2, 2), "i4")).dtype == tf.int32


def a_list_of_cells_is_one_upon_the_other(tf, directory):
    layers, ones = tf.keras.layers, {"kernel_initializer": "ones", "recurrent_initializer": "ones"}
    made = layers.RNN([layers.LSTMCell(2, **ones), layers.GRUCell(3, **ones)])
    close(made(np.ones((1, 2, 1), "f4")), [[0.28742] * 3], 1e-5)
    names = [f"{cell}/{weight}:0" for cell in ("lstm_cell", "gru_cell") for weight in KERNELS]
    assert [weight.name for weight in made.weights] == [f"rnn/stacked_rnn_cells/{name}" for name in names]
    path = tf.train.Checkpoint(r=made).write(os.path.join(directory, "ckpt"))
    expected = [f"r/cell/cells/{cell}/{weight}" for cell in (0, 1) for weight in sorted(KERNELS)]
    assert keys_of(tf, path) == [f"{key}/.ATTRIBUTES/VARIABLE_VALUE" for key in expected]
    assert layers.RNN(layers.StackedRNNCells([layers.SimpleRNNCell(2)]))(np.ones((1, 2, 1), "f4")).shape == (
        1,
        2,
    )


KERNELS = ["kernel", "recurrent_kernel", "bias"]


def models_train_by_their_own_steps(tf, directory):
    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"mine": loss}

        def test_step(self, data):
            return {"own": tf.reduce_sum(data[0])}

        def predict_step(self, data):
            return self(data[0] if isinstance(data, tuple) else data) * 0.0 + 7.0

    model = Own()
    raises(RuntimeError, model.fit, np.ones((4, 2), "f4"), np.zeros((4, 1), "f4"))
    model.compile(optimizer="sgd")
    x, y = np.ones((4, 2), "f4"), np.zeros((4, 1), "f4")
    history = model.fit(x, y, batch_size=2, epochs=2, verbose=0).history
    assert list(history) == ["mine"]
    close(history["mine"], [3.5344, 2.759449], 1e-5)
    close(model.evaluate(x, y, batch_size=2, verbose=0), 4.0)
    close(model.predict(x, verbose=0), np.full((4, 1), 7.0))


def fit_tells_the_mean_of_what_it_saw(tf, directory):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(optimizer=tf.keras.optimizers.legacy.SGD(0.1), loss="mse")
    x, y = np.arange(6, dtype="f4").reshape(3, 2), np.zeros((3, 1), "f4")
    history = model.fit(x, y, batch_size=2, shuffle=False, verbose=0).history
    assert list(history) == ["loss"]
    close(history["loss"], [12.986667], 1e-4)
    close(model.evaluate(x, y, verbose=0), 313.612823, 1e-4)


def functional_models_are_called_model(tf, directory):
    image = tf.keras.Input([2])
    made = [tf.keras.Model(image, tf.keras.layers.Dense(1)(image)) for _ in range(2)]
    assert [model.name for model in made] == ["model", "model_1"]
    assert tf.keras.Sequential().name == "sequential"
    assert tf.keras.Model().name == "model_2"


def texts_keep_their_zero_bytes(tf, directory):
    for value in (b"a\0\0", [b"a\0", b"bc"], [["\0"], ["x"]]):
        same_texts = np.array(tf.constant(value).numpy(), object)
        flat = same_texts.reshape(-1).tolist()
        expected = [one if isinstance(one, bytes) else one.encode() for one in tf.nest.flatten(value)]
        assert flat == expected
    v = tf.Variable(b"a\0\0")
    path = tf.train.Checkpoint(v=v).write(os.path.join(directory, "ckpt"))
    v.assign(b"")
    tf.train.Checkpoint(v=v).read(path)
    assert v.numpy() == b"a\0\0"


def sequential_models_come_from_their_configurations(tf, directory):
    layers = tf.keras.layers
    made = tf.keras.Sequential(
        [
            layers.Dense(2, activation="relu", input_shape=(3,)),
            layers.Dropout(0.5),
            layers.BatchNormalization(),
        ],
        name="sq",
    )
    config = json.loads(json.dumps(made.get_config()))
    assert [item["class_name"] for item in config["layers"]][1:] == ["Dense", "Dropout", "BatchNormalization"]
    assert config["layers"][0]["config"]["name"] == "dense_input"
    other = tf.keras.Sequential.from_config(made.get_config())
    assert (other.name, [layer.name for layer in other.layers]) == (
        "sq",
        [layer.name for layer in made.layers],
    )
    other.set_weights(made.get_weights())
    close(other(tf.ones([2, 3])), made(tf.ones([2, 3])))
    assert tf.keras.Input([1]).shape[1] == 1
    assert layers.Dense(2, kernel_initializer="ones").get_config()["units"] == 2


def configurations_of_either_side_are_read(tf, directory):
    """As Keras writes initializers, and by their names."""
    start = {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 2], "name": "a_input"}}
    for one in ({"module": "keras.initializers", "class_name": "Ones", "config": {}}, "ones"):
        dense = {"name": "a", "trainable": True, "dtype": "float32", "units": 2, "activation": "linear"}
        item = {
            "class_name": "Dense",
            "config": {**dense, "kernel_initializer": one, "kernel_regularizer": None},
        }
        model = tf.keras.Sequential.from_config({"name": "read", "layers": [start, item]})
        close(model(tf.ones([1, 2])), [[2.0, 2.0]])
    raises(
        (ValueError, TypeError),
        tf.keras.Sequential.from_config,
        {"name": "a", "layers": [{**item, "class_name": "No"}]},
    )


def inputs_of_sequential_models_take_no_name_from_others(tf, directory):
    tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    tf.keras.Sequential([tf.keras.layers.Dense(1)])(tf.ones([1, 2]))
    image = tf.keras.Input([2])
    assert tf.keras.Model(image, tf.keras.layers.Dense(1)(image)).layers[0].name == "input_1"


def layers_of_one_name_make_no_model(tf, directory):
    """In HDF5 one would take the other's place."""
    layers = tf.keras.layers
    text = raises(ValueError, tf.keras.Sequential, [layers.Dense(1, name="a"), layers.Dense(1, name="a")])
    assert "should have unique names" in text
    image = tf.keras.Input([2])
    out = layers.Dense(1, name="a")(layers.Dense(1, name="a")(image))
    assert "is used 2 times in the model" in raises(ValueError, tf.keras.Model, image, out)
    shared = layers.Dense(2)
    twice = tf.keras.Sequential([shared, shared])
    assert twice(tf.ones([1, 2])).shape == (1, 2)
    assert len(twice.weights) == 2


def losses_are_of_the_last_call_and_of_all_layers(tf, directory):
    layers = tf.keras.layers

    class Adds(layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2, kernel_initializer="ones")
            self.w = tf.Variable(2.0)
            self.add_loss(lambda: self.w * 3.0)

        def call(self, inputs):
            self.add_loss([tf.reduce_sum(inputs) * 0.1, None, 1.0])
            return self.dense(inputs) * self.w

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.adding = [Adds(), {"nested": [Adds()]}]
            self.first = self.adding[0]

        def call(self, inputs):
            inputs = self.adding[1]["nested"][0](self.first(inputs))
            self.add_loss(tf.reduce_sum(inputs) * 0.01)
            return inputs

    model, x = Model(), np.ones((4, 2), np.float32)
    for _ in range(2):
        model(x)
        close(model.losses, [1.28, 0.8, 1.0, 6.0, 3.2, 1.0, 6.0])
    close(model.first.losses, [0.8, 1.0, 6.0])
    assert raises(ValueError, model.add_loss, tf.constant(1.0)).startswith("Expected a symbolic Tensors or a")
    model.compile(tf.keras.optimizers.SGD(0.01), "mse")
    close(model.evaluate(x, x, verbose=0), 244.28, 1e-4)
    close(model.fit(x, x, epochs=2, verbose=0, shuffle=False).history["loss"], [244.28, 1.289962], 1e-4)
    stack = tf.keras.Sequential([layers.Dense(2, kernel_initializer="ones"), Adds()])
    stack(x)
    close(stack.losses, [1.6, 1.0, 6.0])


class _Watched:
    """Batches as a model that runs eagerly sees them."""

    def __init__(self, tf):
        seen = self.seen = []

        class Model(tf.keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = tf.keras.layers.Dense(1)

            def call(self, inputs):
                seen.append(inputs.numpy()[:, 0].astype(int).tolist())
                return self.dense(inputs)

        self.model = Model()
        self.model.compile("sgd", "mse", run_eagerly=True)

    def during(self, method, *arguments, **more):
        self.seen.clear()
        getattr(self.model, method)(*arguments, verbose=0, **more)
        return self.seen[:]


def epochs_of_some_steps_go_on_where_the_last_one_ended(tf, directory):
    watched, x = _Watched(tf), np.arange(10, dtype=np.float32)[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, x))
    halves = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert watched.during("fit", data.batch(5), epochs=2, steps_per_epoch=1) == halves
    assert watched.during("fit", data.batch(5), epochs=2, steps_per_epoch=2) == halves * 2
    assert watched.during("fit", data.batch(5).repeat(), epochs=3, steps_per_epoch=1) == [*halves, halves[0]]
    assert watched.during("fit", iter([(x[:2], x[:2]), (x[2:5], x[2:5])]), epochs=2, steps_per_epoch=1) == [
        [0, 1],
        [2, 3, 4],
    ]
    history = watched.model.fit(data.batch(5), epochs=3, steps_per_epoch=1, verbose=0).history["loss"]
    assert (len(history), history[2]) == (3, 0.0)
    raises(ValueError, watched.model.fit, data.batch(5).repeat(), verbose=0)


def models_draw_shuffled_batches_in_one_order(tf, directory):
    """Each of fit, evaluate and predict begins a pass that no one sees."""
    tf.random.set_seed(87654321)  # As where none is set.
    watched, x = _Watched(tf), np.arange(10, dtype=np.float32)[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, x)).shuffle(10, seed=5).batch(4)
    assert watched.during("fit", data) == [[4, 0, 5, 9], [2, 8, 6, 3], [1, 7]]
    twice = watched.during("fit", data, epochs=2)
    assert twice == [[4, 6, 0, 5], [3, 2, 7, 9], [8, 1], [0, 5, 9, 8], [6, 2, 3, 4], [7, 1]]
    assert watched.during("evaluate", data) == [[0, 1, 5, 7], [9, 4, 3, 8], [2, 6]]
    assert watched.during("predict", data) == [[3, 8, 1, 9], [2, 0, 6, 4], [7, 5]]


def random_operations_draw_by_two_seeds(tf, directory):
    """Eagerly those of one kind, dtype and pair of seeds continue where the last one ended."""
    draw = tf.random
    for _ in range(2):
        draw.set_seed(1)
        close(
            draw.normal([2, 3]),
            [[-1.1012203, 1.5457517, 0.383644], [-0.87965786, -1.2246722, -0.9811211]],
            1e-5,
        )
        close(draw.normal([2]), [0.40308788, -1.0880208], 1e-5)
    found = [
        draw.uniform([2]),
        draw.uniform([2], 1, 5),
        draw.uniform([3], 0, 100, tf.int32),
        draw.uniform([3], -5, 100, tf.int64),
        draw.uniform([2], dtype=tf.float64),
        draw.shuffle([1, 2, 3, 4, 5, 6, 7]),
        draw.shuffle(tf.reshape(tf.range(8), [4, 2])),
        draw.truncated_normal([3], 1.0, 2.0),
    ]
    told = [
        [0.8292774, 0.63422799],
        [1.94580841, 1.95509338],
        [54, 54, 39],
        [95, 0, 25],
        [0.93733397, 0.56392872],
        [4, 6, 1, 5, 2, 3, 7],
        [[0, 1], [6, 7], [4, 5], [2, 3]],
        [0.20500296, 3.19596958, 4.46966839],
    ]
    for one, expected in zip(found, told, strict=True):
        close(one, expected, 1e-5)
    draw.set_seed(1)
    found = [
        draw.uniform([2], seed=1),
        draw.uniform([2], seed=1),
        draw.uniform([2], seed=2),
        draw.shuffle([1, 2, 3, 4], seed=1),
    ]
    found += [draw.uniform([2], seed=1), draw.shuffle([1, 2, 3, 4], seed=1)]
    for one, expected in zip(
        found,
        [
            [0.05554414, 0.01869845],
            [0.57732832, 0.29636776],
            [0.40639675, 0.85759962],
            [3, 1, 4, 2],
            [0.92476225, 0.93629789],
            [4, 2, 3, 1],
        ],
        strict=True,
    ):
        close(one, expected)


def random_operations_of_functions_have_places_of_their_own(tf, directory):
    tf.random.set_seed(9)

    @tf.function
    def inner():
        return tf.random.uniform([]), tf.random.uniform([])

    @tf.function
    def outer(x):
        return tf.random.uniform([], seed=1), tf.random.uniform([], seed=1), inner()[0], tf.random.uniform([])

    found = [inner(), inner(), outer(tf.ones([1])), outer(tf.ones([1])), outer(tf.ones([2])), inner()]
    told = [
        0.08012962,
        0.99037385,
        0.21256793,
        0.76697242,
        0.99037385,
        0.99037385,
        0.08012962,
        0.08012962,
        0.76697242,
        0.76697242,
        0.21256793,
        0.21256793,
        0.99037385,
        0.99037385,
        0.08012962,
        0.08012962,
        0.97336709,
        0.51268637,
    ]
    close([one for several in found for one in several], told)
    tf.random.set_seed(9)
    close(inner(), told[:2])
    data = tf.data.Dataset.range(3).map(lambda x: (tf.random.uniform([]), tf.random.uniform([], seed=2)))
    for _ in range(2):
        close(
            [(one.numpy(), other.numpy()) for one, other in data],
            [(0.08012962, 0.06724095), (0.21256793, 0.94858479), (0.97336709, 0.66417193)],
        )


def dropout_leaves_out_what_tensorflow_does(tf, directory):
    tf.random.set_seed(3)
    x = tf.ones([10])
    layer, seeded = tf.keras.layers.Dropout(0.4), tf.keras.layers.Dropout(0.4, seed=7)
    found = [tf.nn.dropout(x, 0.5), tf.nn.dropout(x, 0), tf.nn.dropout(x, 0.3, seed=4)]
    found += [
        layer(x, training=True),
        layer(x, training=True),
        seeded(x, training=True),
        seeded(x, training=True),
    ]
    kept = ["".join("01"[int(value > 0)] for value in one.numpy()) for one in found]
    assert kept == [
        "0100110010",
        "1111111111",
        "1111110101",
        "0100110111",
        "1001100101",
        "1100101011",
        "0011001110",
    ], kept
    close(found[0].numpy().max(), 2.0)


def initializers_draw_by_seeds_of_their_own(tf, directory):
    made = tf.keras.initializers
    found = [
        made.GlorotUniform(seed=1)((2, 2)),
        made.HeNormal(seed=3)((2, 2)),
        made.RandomNormal(1.0, 2.0, seed=4)((2,)),
        made.RandomUniform(-1.0, 3.0, seed=5)((2,)),
        made.TruncatedNormal(0.0, 0.5, seed=6)((2,)),
        made.VarianceScaling(2.0, "fan_avg", "untruncated_normal", seed=7)((2,)),
        made.Orthogonal(2.0, seed=8)((2, 2)),
    ]
    for one, expected in zip(
        found,
        [
            [[0.92710292, -0.09802794], [0.24566245, -0.26308089]],
            [[-0.76348931, 1.90541327], [-1.07346284, 0.69113374]],
            [-0.16369736, 2.73071814],
            [-0.75258684, 2.32667637],
            [0.64163053, -0.23561737],
            [-0.67417276, -0.35869256],
            [[-0.67288399, -1.88340831], [1.88340831, -0.67288411]],
        ],
        strict=True,
    ):
        close(one, expected, 1e-5)
    for _ in range(2):
        tf.keras.utils.set_random_seed(11)
        dense = tf.keras.layers.Dense(2)
        dense(tf.ones([1, 1]))
        close(dense.kernel, [[-0.17253876, -0.87535024]], 1e-5)


def fit_draws_as_the_function_that_keras_compiles(tf, directory):
    layers, x = tf.keras.layers, np.float32([[1, 2, 4, 8, 16]])
    same = layers.Dense(5, kernel_initializer="identity", use_bias=False)
    tf.random.set_seed(7)
    model = tf.keras.Sequential([layers.Dropout(0.5), same])
    model.compile(tf.keras.optimizers.SGD(0.0), lambda _, found: tf.reduce_sum(found, -1))
    found = [model.fit(x, x, verbose=0, epochs=count).history["loss"] for count in (6, 3)]
    assert found == [[18, 18, 32, 14, 16, 54], [46, 58, 44]]
    tf.random.set_seed(3)
    watched, rows = _Watched(tf), np.arange(10, dtype=np.float32)[:, None]
    first = [[1, 2, 4, 6], [7, 0, 5, 3], [8, 9]]
    assert watched.during("fit", rows, rows, batch_size=4, epochs=2) == [
        *first,
        [1, 5, 7, 6],
        [3, 0, 2, 4],
        [9, 8],
    ]
    assert watched.during("fit", rows, rows, batch_size=4) == first


def labels_of_another_rank_are_those_of_the_predictions(tf, directory):
    """Labels of n elements against predictions of n by 1: broadcast, they were n by n."""
    labels, found = tf.constant([0.0, 1.0, 1.0]), tf.constant([[0.2], [0.7], [0.4]])
    for loss, expected in (
        (tf.keras.losses.MeanSquaredError(), 0.1633333),
        (tf.keras.losses.MeanAbsoluteError(), 0.3666667),
        (tf.keras.losses.BinaryCrossentropy(), 0.4987032),
        (tf.keras.losses.Huber(), 0.0816667),
    ):
        for one, other in ((labels, found), (labels[:, None], found[:, 0]), (labels[:, None], found)):
            close(loss(one, other), expected, 1e-5)
    close(tf.keras.losses.mean_squared_error(labels, found), [0.44, 0.2233333, 0.2933333], 1e-5)
    x = np.arange(6, dtype=np.float32)[:, None] / 6
    for loss in ("mse", tf.keras.losses.MeanSquaredError(), lambda y, p: tf.reduce_mean((y - p) ** 2)):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(tf.keras.optimizers.SGD(0.0), loss)
        for y in (np.zeros(6, np.float32), np.zeros((6, 1), np.float32), np.zeros(6)):
            close(model.fit(x, y, verbose=0, shuffle=False).history["loss"], [0.2546296], 1e-5)
            close(model.evaluate(x, y, verbose=0), 0.2546296, 1e-5)


def accuracy_is_that_of_what_is_compared(tf, directory):
    x = np.float32([[-1], [2], [3], [-4]])
    for units, activation, loss, labels, expected in (
        (1, "sigmoid", "binary_crossentropy", [0, 1, 0, 0], 0.75),
        (1, "sigmoid", "binary_crossentropy", [[0], [1], [0], [0]], 0.75),
        (2, "softmax", "sparse_categorical_crossentropy", [0, 0, 0, 1], 0.75),
        (2, "softmax", "categorical_crossentropy", [[1, 0], [1, 0], [0, 1], [1, 0]], 0.75),
    ):
        for name in ("accuracy", "acc"):
            model = tf.keras.Sequential([tf.keras.layers.Dense(units, activation)])
            model.compile(tf.keras.optimizers.SGD(0.0), loss, metrics=[name])
            model.build((None, 1))
            model.set_weights(
                [np.float32([[1.0]] if units == 1 else [[0.0, 0.0]]), np.float32([0, -1][2 - units :])]
            )
            history = model.fit(x, np.array(labels), verbose=0).history
            assert list(history) == ["loss", name]
            close(history[name], [expected])
    mean = tf.keras.metrics.Mean()
    assert [one.name for one in mean.variables] == ["total:0", "count:0"]


def a_function_within_another_draws_on_from_pipeline_to_pipeline(tf, directory):
    tf.random.set_seed(8)
    data = tf.data.Dataset.range(4)
    data = data.flat_map(lambda x: tf.data.Dataset.range(2).map(lambda y: tf.random.uniform([])))
    found = [float(one) for one in data]
    assert len(set(found)) == 8
    assert found == [float(one) for one in data]


def regularizers_make_the_loss_larger(tf, directory):
    regularizers, layers = tf.keras.regularizers, tf.keras.layers
    x = np.linspace(-1, 2, 24, dtype="f4").reshape(4, 6)
    model = tf.keras.Sequential(
        [
            layers.Dense(
                3,
                kernel_initializer="ones",
                bias_initializer="ones",
                kernel_regularizer="l2",
                bias_regularizer=regularizers.L1(0.5),
                activity_regularizer=regularizers.l1_l2(0.1, 0.2),
                input_shape=(6,),
            ),
            layers.Dense(
                2, kernel_initializer="ones", kernel_regularizer=regularizers.OrthogonalRegularizer(0.3)
            ),
        ]
    )
    expected = [27.79338, 0.18, 1.5, 0.3]
    for trainable in (True, False, True):
        model.layers[0].trainable = trainable
        model(x)
        close([float(loss) for loss in model.losses], expected, 1e-5)
    model.compile(tf.keras.optimizers.legacy.SGD(0.01), "mse")
    labels = np.ones((4, 2), "f4")
    history = model.fit(x, labels, epochs=3, shuffle=False, verbose=0).history
    close(history["loss"], [398.82626, 27.297413, 15.090478], 1e-5)
    close(model.evaluate(x, labels, verbose=0), 11.86895, 1e-5)
    close(model.weights[2], np.repeat(np.float32([[-0.04345824]]), 6).reshape(3, 2), 1e-5)
    close(regularizers.L2(0.01).get_config()["l2"], 0.01)
    found = regularizers.get({"class_name": "L1L2", "config": {"l1": 0.5, "l2": 0.25}}).get_config()
    assert found == {"l1": 0.5, "l2": 0.25}
    raises(ValueError, regularizers.L1, float("nan"))
    raises(ValueError, regularizers.OrthogonalRegularizer, mode="x")


def regularizers_of_every_weight(tf, directory):
    layers, ones = tf.keras.layers, {"kernel_initializer": "ones"}
    depthwise, pointwise = {"depthwise_initializer": "ones"}, {"pointwise_initializer": "ones"}
    x = np.linspace(-1, 2, 24, dtype="f4").reshape(2, 4, 3)
    image, rows = x.reshape(1, 4, 3, 2), np.array([[1, 2]])
    lstm = {"recurrent_initializer": "ones", "kernel_regularizer": "l1", "recurrent_regularizer": "l2"}
    gru = {"recurrent_initializer": "ones", "kernel_regularizer": "l1", "activity_regularizer": "l2"}
    for layer, inputs, expected in (
        (layers.LSTM(2, bias_regularizer="l1_l2", **lstm, **ones), x, [0.24, 0.16, 0.04]),
        (layers.Bidirectional(layers.GRU(2, **gru, **ones)), x, [0.00021, 0.18, 0.00988, 0.18]),
        (layers.LayerNormalization(gamma_regularizer="l2"), x, [0.03]),
        (layers.BatchNormalization(beta_regularizer="l1", gamma_regularizer="l1"), x, [0.03, 0.0]),
        (layers.Conv1D(2, 2, kernel_regularizer="l2", activity_regularizer="l1", **ones), x, [0.29478, 0.12]),
        (layers.Embedding(5, 2, embeddings_initializer="ones", embeddings_regularizer="l2"), rows, [0.1]),
        (
            layers.SeparableConv2D(
                2, 2, depthwise_regularizer="l1", pointwise_regularizer="l2", **depthwise, **pointwise
            ),
            image,
            [0.08, 0.04],
        ),
        (layers.DepthwiseConv2D(2, depthwise_regularizer="l1", **depthwise), image, [0.08]),
    ):
        layer(inputs)
        close([float(loss) for loss in layer.losses], expected, 2e-5)

    class Own(layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(
                "w", [2], initializer="ones", regularizer=lambda w: 0.5 * tf.reduce_sum(w)
            )

        def call(self, inputs):
            return inputs * tf.reduce_sum(self.w)

    own = Own()
    own(x)
    close([float(loss) for loss in own.losses], [1.0])


def one_batch_at_a_time(tf, directory):
    x, y = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([[1], [2], [3]])
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(tf.keras.optimizers.legacy.SGD(0.001), "mse")
    close(model.train_on_batch(x, y), 31.0)
    close(model.train_on_batch(x, y, return_dict=True)["loss"], 27.271574)
    close(model.test_on_batch(x, y), 23.99221)
    close(model.train_on_batch(x, y, reset_metrics=False), 23.99221)
    close(model.train_on_batch(x, y), 21.1078)
    assert model.predict_on_batch(x).shape == (3, 1)
    model.compile(tf.keras.optimizers.legacy.SGD(0.0), "mse", metrics=["accuracy"])
    assert len(model.test_on_batch(x, y)) == 2


def gradients_of_a_programs_own(tf, directory):
    w, v = tf.Variable([2.0, 3.0]), tf.Variable([1.0, 1.0])

    @tf.custom_gradient
    def softplus(x):
        e = tf.exp(x)

        def gradient(upstream):
            return upstream * (1 - 1 / (1 + e))

        return tf.math.log(1 + e), gradient

    @tf.custom_gradient
    def scaled(a, b):
        def gradient(of_a, of_b, variables=None):
            assert [one is w for one in variables] == [True]
            return (of_a * 10.0, of_b * 0.5), [of_b * 7.0]

        return (a * w, b + w), gradient

    x = tf.constant([0.0, 10.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = softplus(x)
        slope = tape.gradient(y, x)
    close(slope, [0.5, 0.9999546])
    close(outer.gradient(slope, x), [0.25, 4.5395806e-5])
    b = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(b)
        one, other = scaled(v, b)
        loss = tf.reduce_sum(one) + tf.reduce_sum(other * 2)
    for found, expected in zip(tape.gradient(loss, [v, b, w]), (10.0, 1.0, 14.0), strict=True):
        close(found, [expected, expected])

    @tf.custom_gradient
    def unchanged(x):
        return x, lambda upstream: upstream * 2.0

    with tf.GradientTape() as tape:
        loss = unchanged(v) * 3.0
    close(tape.gradient(loss, v), [6.0, 6.0])

    @tf.custom_gradient
    def silent(x):
        return x * w, lambda upstream: upstream

    raises(TypeError, silent, v)

    @tf.custom_gradient
    def product(x, y):
        return x * y, lambda upstream: upstream

    with tf.GradientTape() as tape:
        loss = product(v, v)
    raises(ValueError, tape.gradient, loss, v)


def conditions_and_loops(tf, directory):
    v = tf.Variable([1.0, 1.0])
    zero = tf.constant(0)
    assert int(tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2))) == 1
    assert isinstance(tf.cond(zero > 1, lambda: 1, lambda: (tf.constant(2), tf.constant(3))), tuple)
    raises(TypeError, tf.cond, True, 1, 2)
    found = tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + i), (zero, zero))
    assert [int(one) for one in found] == [5, 10]
    found = tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + i), (0, 0), maximum_iterations=3)
    assert [int(one) for one in found] == [3, 3]
    raises(TypeError, tf.while_loop, lambda i: i < 5, lambda i: i + 1, [zero])
    raises(ValueError, tf.while_loop, lambda i, s: i < 5, lambda i, s: (i + 1,), (0, 1))
    raises(ValueError, tf.while_loop, lambda i: True, lambda i: i, [])
    with tf.GradientTape() as tape:
        _, product = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * v), (zero, v + 1.0))
    close(product, [2.0, 2.0])
    close(tape.gradient(product, v), [7.0, 7.0])


def functions_of_each_element(tf, directory):
    pair = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    w, v = tf.Variable([2.0, 3.0]), tf.Variable([1.0, 1.0])
    same(tf.map_fn(lambda x: x * x, tf.constant([1.0, 2.0, 3.0])), np.float32([1, 4, 9]))
    same(tf.map_fn(lambda t: t[0] * t[1], pair, fn_output_signature=tf.float32), np.float32([3, 8]))
    whole, real = tf.map_fn(
        lambda x: (x, tf.cast(x, tf.float32)), tf.constant([1, 2]), fn_output_signature=(tf.int32, tf.float32)
    )
    same(whole, np.int32([1, 2]))
    same(real, np.float32([1, 2]))
    raises(tf.errors.InvalidArgumentError, tf.map_fn, lambda x: tf.cast(x, tf.float32), tf.constant([1, 2]))
    raises(ValueError, tf.map_fn, lambda t: t[0] * t[1], pair)
    raises(ValueError, tf.map_fn, lambda x: {"a": x}, tf.constant([1, 2]))
    with tf.GradientTape() as tape:
        found = tf.map_fn(lambda x: x * x * w[0], v)
    close(tape.gradient(found, v), [4.0, 4.0])


def line_model(tf, rate=0.01):
    """Return a model of one slope that begins at 1, and data with slope 3."""
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))]
    )
    model.compile(tf.keras.optimizers.legacy.SGD(rate), "mse")
    x = np.linspace(-1, 2, 10, dtype="f4").reshape(10, 1)
    return model, x, 3 * x


def fit_evaluates_after_an_epoch(tf, directory):
    model, x, y = line_model(tf)
    fitted = {"batch_size": 4, "shuffle": False, "verbose": 0}
    history = model.fit(x, y, epochs=3, validation_data=(x[:5] + 1, y[:5]), **fitted)
    assert list(history.history) == ["loss", "val_loss"]
    close(history.history["loss"], [4.515769, 3.7358558, 3.09064], 1e-5)
    close(history.history["val_loss"], [3.929666, 4.206766, 4.490148], 1e-5)
    assert history.epoch == [0, 1, 2]
    model, x, y = line_model(tf)
    history = model.fit(x, y, epochs=4, initial_epoch=1, validation_split=0.3, validation_freq=2, **fitted)
    assert history.epoch == [1, 2, 3]
    assert [len(values) for values in history.history.values()] == [3, 2]
    close(history.history["val_loss"], [10.998925, 10.225316], 1e-5)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(3)
    history = model.fit(dataset, validation_data=dataset, validation_freq=[1], verbose=0)
    close(history.history["val_loss"], [3.1916394], 1e-5)
    assert list(model.evaluate(x, y, verbose=0, return_dict=True)) == ["loss"]
    raises(ValueError, model.fit, x[:1], y[:1], validation_split=0.5, verbose=0)


def callbacks_are_told(tf, directory):
    seen = []

    class Told(tf.keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            seen.append(("train", sorted(logs)))

        def on_epoch_begin(self, epoch, logs=None):
            seen.append(("epoch", epoch, sorted(logs)))

        def on_train_batch_begin(self, batch, logs=None):
            seen.append(("batch", batch, sorted(logs)))

        def on_train_batch_end(self, batch, logs=None):
            seen.append(("batch ends", batch, sorted(logs)))

        def on_test_batch_end(self, batch, logs=None):
            seen.append(("test", batch, sorted(logs)))

        def on_epoch_end(self, epoch, logs=None):
            seen.append(("epoch ends", epoch, sorted(logs)))

        def on_train_end(self, logs=None):
            seen.append(("train ends", self.model is model, sorted(logs)))

    model, x, y = line_model(tf)
    model.fit(x, y, batch_size=5, verbose=0, validation_data=(x[:2], y[:2]), callbacks=[Told()])
    assert seen == [
        ("train", []),
        ("epoch", 0, []),
        ("batch", 0, []),
        ("batch ends", 0, ["loss"]),
        ("batch", 1, []),
        ("batch ends", 1, ["loss"]),
        ("test", 0, ["loss"]),
        ("epoch ends", 0, ["loss", "val_loss"]),
        ("train ends", True, ["loss", "val_loss"]),
    ]
    losses = []
    told = tf.keras.callbacks.LambdaCallback(
        on_batch_end=lambda batch, logs: losses.append(logs["loss"]), on_epoch_end=lambda epoch, logs: None
    )
    model.fit(x, y, batch_size=5, epochs=2, shuffle=False, verbose=0, callbacks=told)
    assert len(losses) == 4


def callbacks_end_training(tf, directory):
    callbacks = tf.keras.callbacks
    model, x, y = line_model(tf, 3.0)
    early = callbacks.EarlyStopping(monitor="loss", patience=2, restore_best_weights=True)
    history = model.fit(x, y, epochs=9, shuffle=False, verbose=0, callbacks=[early])
    assert history.epoch == [0, 1, 2]
    assert (early.stopped_epoch, early.best_epoch) == (2, 0)
    close(model.weights[0], [[15.0]], 1e-5)
    model, x, y = line_model(tf)
    y[7] = np.nan
    history = model.fit(
        x, y, batch_size=2, epochs=3, shuffle=False, verbose=0, callbacks=[callbacks.TerminateOnNaN()]
    )
    assert history.epoch == [0]
    assert np.isnan(history.history["loss"][0])


def callbacks_set_the_rate(tf, directory):
    for schedule in (lambda epoch, rate: rate / 2, lambda epoch: 0.01 / 2 ** (epoch + 1)):
        model, x, y = line_model(tf)
        scheduler = tf.keras.callbacks.LearningRateScheduler(schedule)
        history = model.fit(x, y, epochs=3, shuffle=False, verbose=0, callbacks=[scheduler])
        assert list(history.history) == ["loss", "lr"]
        close(history.history["lr"], [0.005, 0.0025, 0.00125])
    raises(
        ValueError, model.fit, x, y, callbacks=[tf.keras.callbacks.LearningRateScheduler(lambda e: "fast")]
    )


def callbacks_save_weights(tf, directory):
    checkpoint = tf.keras.callbacks.ModelCheckpoint
    model, x, y = line_model(tf)
    fitted = {"batch_size": 4, "shuffle": False, "verbose": 0}
    path = os.path.join(directory, "w-{epoch:02d}-{loss:.2f}")
    model.fit(x, y, epochs=2, callbacks=[checkpoint(path, save_weights_only=True)], **fitted)
    found = sorted(name for name in os.listdir(directory) if name.endswith(".index"))
    assert found == ["w-01-4.52.index", "w-02-3.74.index"]
    path = os.path.join(directory, "batches", "w-{epoch}-{batch}")
    model.fit(x, y, epochs=2, callbacks=[checkpoint(path, save_weights_only=True, save_freq=2)], **fitted)
    found = sorted(name for name in os.listdir(os.path.dirname(path)) if name.endswith(".index"))
    assert found == ["w-1-2.index", "w-2-1.index", "w-2-3.index"]
    path = os.path.join(directory, "best", "w-{epoch}.weights.h5")
    model, x, y = line_model(tf, 3.0)
    best = checkpoint(path, monitor="loss", save_best_only=True, save_weights_only=True)
    os.mkdir(os.path.dirname(path))
    model.fit(x, y, epochs=3, callbacks=[best], shuffle=False, verbose=0)
    assert os.listdir(os.path.dirname(path)) == ["w-1.weights.h5"]
    raises(ValueError, checkpoint, path, save_freq="now", save_weights_only=True)
    wrong = checkpoint("w-{nothing}", save_weights_only=True)
    raises(KeyError, model.fit, x, y, callbacks=[wrong], verbose=0)


def savers_without_sessions(tf, directory):
    """tf.compat.v1.train.Saver keeps the latest few, and says which in the state file."""
    saver, state_of = tf.compat.v1.train.Saver, tf.train.get_checkpoint_state
    a, b = tf.Variable([1.0, 2.0], name="a"), tf.Variable(3, name="b", dtype=tf.int64)

    def saved(folder, steps, **how):
        made = saver([a], **how)
        prefix = os.path.join(directory, folder, "m")
        os.mkdir(os.path.dirname(prefix))
        for step in steps:
            made.save(None, prefix, global_step=step)
        found = sorted(name for name in os.listdir(os.path.dirname(prefix)) if name.endswith(".index"))
        return made, found, [os.path.basename(one) for one in made.last_checkpoints]

    for kept, found, last in (
        (2, ["m-2.index", "m-3.index"], ["m-3", "m-2"]),
        (1, ["m-2.index"], ["m-2"]),
        (0, ["m-1.index", "m-2.index", "m-3.index"], []),
        (None, ["m-1.index", "m-2.index", "m-3.index"], []),
    ):
        assert saved(f"kept {kept}", [1, 2, tf.constant(3), 2], max_to_keep=kept)[1:] == (found, last)
        paths = state_of(os.path.join(directory, f"kept {kept}")).all_model_checkpoint_paths
        assert [os.path.basename(path) for path in paths] == (last or ["m-2"])
    made, found, _ = saved("hours", range(4), max_to_keep=1, keep_checkpoint_every_n_hours=1e-9)
    assert found == [f"m-{step}.index" for step in range(4)]
    made, found, _ = saved("padded", [7], pad_step_number=True)
    assert found == ["m-00000007.index"]
    made.set_last_checkpoints_with_time([("x", 1.0)])
    assert made.last_checkpoints == ["x"]

    path = saver([a, b, a]).save(None, os.path.join(directory, "other"), latest_filename="latest")
    assert os.path.basename(tf.train.latest_checkpoint(directory, "latest")) == "other"
    assert tf.train.latest_checkpoint(directory) is None
    assert tf.train.list_variables(path) == [("a", [2]), ("b", [])]
    renamed = saver({"deep/x": b, "y": a}).save(None, os.path.join(directory, "renamed"), write_state=False)
    assert tf.train.list_variables(renamed) == [("deep/x", []), ("y", [2])]
    a.assign([0.0, 0.0])
    b.assign(0)
    saver([a, b]).restore(None, path)
    same(a, np.float32([1, 2]))
    wide, listed = tf.Variable([[0.0], [0.0]]), []
    saver({"a": wide}, reshape=True).restore(None, path)
    same(wide, np.float32([[1], [2]]))
    objects = tf.train.Checkpoint(one=a, two=b).save(os.path.join(directory, "objects"))
    a.assign([0.0, 0.0])
    saver([a, b]).restore(None, objects)
    same(a, np.float32([1, 2]))
    late = saver(listed)
    raises(ValueError, late.save, None, path)
    listed.append(b)
    late.save(None, path)
    assert tf.train.list_variables(path) == [("b", [])]

    raises(RuntimeError, saver)
    raises(ValueError, saver, [a], defer_build=True)
    raises(ValueError, saver([a]).restore, None, None)
    raises(ValueError, saver([a]).restore, None, os.path.join(directory, "none"))
    raises(tf.errors.NotFoundError, saver([a]).restore, None, path)
    raises(tf.errors.InvalidArgumentError, saver({"b": tf.Variable(1.0)}).restore, None, path)
    raises(ValueError, saver([a, tf.Variable([5.0], name="a")]).save, None, path)
    raises(ValueError, saver([a]).save, None, path, latest_filename="a/b")
    raises(ValueError, saver([a]).save, None, os.path.join(directory, "checkpoint"))


def sequences_of_one_step(tf, directory):
    """Gradients have the shapes of what they are gradients of."""
    x = tf.constant([[[1.0, 2.0]], [[3.0, 5.0]], [[7.0, 11.0]]])
    layer = tf.keras.layers.SimpleRNN(
        2, activation="linear", kernel_initializer=tf.keras.initializers.Constant([[1.0, 2.0], [3.0, 4.0]])
    )
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found = layer(x)
        part = tf.unstack(x[:, :, 0], axis=1)[0]
        squares = tf.split(x, 1, axis=1)[0] * x
    close(found, [[7.0, 10.0], [18.0, 26.0], [40.0, 58.0]])
    same(tape.gradient(found, x), np.float32([[[3.0, 7.0]]] * 3))
    same(tape.gradient(part, x), np.float32([[[1.0, 0.0]]] * 3))
    same(tape.gradient(squares, x), 2 * x.numpy())


def activations_at_their_bends(tf, directory):
    """Values and gradients just where one part ends and another begins."""
    places = [-1.0, 0.0, 0.25, 0.5, 6.0, 7.0]
    layers = tf.keras.layers
    rows = [
        (layers.ReLU(6.0), [0.0, 0.0, 0.25, 0.5, 6.0, 6.0], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        (layers.ReLU(0.5), [0.0, 0.0, 0.25, 0.5, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        (layers.ReLU(0.5, 0.5), [-0.5, 0.0, 0.25, 0.5, 0.5, 0.5], [0.5, 0.0, 1.0, 1.0, 0.0, 0.0]),
        (layers.ReLU(None, 0.5), [-0.5, 0.0, 0.25, 0.5, 6.0, 7.0], [0.5, 0.5, 1.0, 1.0, 1.0, 1.0]),
        (layers.ReLU(threshold=0.25), [0.0, 0.0, 0.0, 0.5, 6.0, 7.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
        (layers.ReLU(6.0, 1.0, 0.25), [-1.25, -0.25, 0.0, 0.5, 6.0, 6.0], [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]),
        (layers.LeakyReLU(0.5), [-0.5, 0.0, 0.25, 0.5, 6.0, 7.0], [0.5, 0.5, 1.0, 1.0, 1.0, 1.0]),
        (tf.nn.elu, [-0.632121, 0.0, 0.25, 0.5, 6.0, 7.0], [0.367879, 1.0, 1.0, 1.0, 1.0, 1.0]),
        (
            tf.nn.selu,
            [-1.111331, 0.0, 0.262675, 0.52535, 6.304206, 7.354907],
            [0.646768, *[1.050701] * 5],
        ),
    ]
    for function, values, slopes in rows:
        x = tf.constant([places])
        with tf.GradientTape() as tape:
            tape.watch(x)
            found = function(x)
        close(found[0], values)
        close(tape.gradient(found, x)[0], slopes)


def softmax_over_several_axes(tf, directory):
    x = tf.constant([[[1.0, 2.0], [3.0, 4.0]]])
    expected = [[[0.0320586, 0.0871443], [0.2368828, 0.6439143]]]
    close(tf.keras.layers.Softmax(axis=[1, 2])(x), expected)
    close(tf.keras.layers.Softmax(axis=(1, 2))(x), expected)
    close(tf.keras.layers.Softmax(axis=[1])(x), [[[0.1192029, 0.1192029], [0.8807971, 0.8807971]]])


def indices_and_labels_are_within_bounds(tf, directory):
    """A negative one is not counted from the end."""
    error, x = tf.errors.InvalidArgumentError, tf.constant([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    raises(error, tf.gather_nd, x, [[0, 0], [1, -1]])
    raises(error, tf.gather_nd, x, [[2, 0]])
    close(tf.gather_nd(x, [[1, 2], [0, 1]]), [0.4, 0.2])
    for labels in ([-1, 0], [0, 3]):
        raises(error, tf.nn.sparse_softmax_cross_entropy_with_logits, labels, x)
        raises(error, tf.keras.losses.SparseCategoricalCrossentropy(), labels, x)
    close(tf.gather(x, [1], axis=None), x[1:])


def merging_layers_want_several_inputs(tf, directory):
    layers, x = tf.keras.layers, tf.constant([[1.0, 2.0], [3.0, 5.0]])
    for layer in (layers.Add(), layers.Average(), layers.Multiply(), layers.Subtract(), layers.Concatenate()):
        raises(ValueError, layer, x)
    raises(ValueError, layers.Subtract(), [x, x, x])
    close(layers.Subtract()([x, x * 2]), -x)
    close(layers.Add()([x, x, x]), 3 * x)


def what_runs_both_ways_trains_as_its_layer(tf, directory):
    layers, x = tf.keras.layers, tf.ones([1, 2, 3])
    frozen = layers.Bidirectional(layers.GRU(2, trainable=False))
    frozen(x)
    assert (len(frozen.trainable_weights), len(frozen.non_trainable_weights)) == (0, 6)
    later = layers.GRU(2)
    later.trainable = False
    both = layers.Bidirectional(later)
    both(x)
    assert both.trainable_weights == []
    both.trainable = True
    assert len(both.trainable_weights) == 6


def axes_of_normalizations(tf, directory):
    layers, x = tf.keras.layers, tf.ones([2, 3, 4])
    for make in (layers.LayerNormalization, layers.UnitNormalization, layers.BatchNormalization):
        for axis in (3, -4):
            raises(ValueError, make(axis=axis), x)
    raises(ValueError, layers.LayerNormalization(axis=[1, -2]), x)


def weighed_model(tf, units=1, loss="mse", metrics=None, activation=None):
    """Return a model of one layer, and twelve numbers for its inputs and six for its labels."""
    dense = tf.keras.layers.Dense(units, activation, kernel_initializer="ones", input_shape=(2,))
    model = tf.keras.Sequential([dense])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1), loss, metrics=metrics)
    waves = np.sin(np.arange(12) * 1.7).reshape(6, 2)
    return model, waves, np.sin(np.arange(6) * 1.7 + 1).reshape(6, 1)


def weights_of_examples(tf, directory):
    """Of arrays and datasets; losses are weighted, and metrics given by name are not."""
    weights, once = np.arange(6) / 5, {"epochs": 2, "batch_size": 4, "shuffle": False, "verbose": 0}
    for wide in (weights, weights[:, None], tf.constant(weights)):
        model, x, y = weighed_model(tf)
        close(model.fit(x, y, sample_weight=wide, **once).history["loss"], [0.71308, 0.55134], 1e-5)
        close(model.get_weights()[0], [[0.72166], [0.82921]], 1e-5)
    model, x, y = weighed_model(tf)
    history = model.fit(x, y, sample_weight=weights, validation_split=0.4, **once).history
    close([*history["loss"], *history["val_loss"]], [0.84406, 0.77295, 0.60603, 0.58422], 1e-5)
    for other in ((x, y, weights), [x, y, weights]):
        model, x, y = weighed_model(tf)
        history = model.fit(x, y, validation_data=other, **once).history
        close([*history["loss"], *history["val_loss"]], [1.61879, 1.12344, 0.47627, 0.33911], 1e-5)
    model, x, y = weighed_model(tf)
    data = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(4)
    close(model.fit(data, epochs=2, verbose=0).history["loss"], [0.71308, 0.55134], 1e-5)
    model, x, y = weighed_model(tf, metrics=["accuracy"])
    close(model.evaluate(x, y, 4, 0, weights), [0.7385, 0.0], 1e-5)
    model, x, y = weighed_model(tf)
    found = [model.train_on_batch(x, y, weights), model.train_on_batch(x, y, weights, None, False)]
    close([*found, model.test_on_batch(x, y, weights)], [0.7385, 0.69395, 0.57558], 1e-5)


def weights_of_classes(tf, directory):
    of_classes, once = (
        {0: 1.0, 1: 2.0, 2: 0.5},
        {"epochs": 2, "batch_size": 4, "shuffle": False, "verbose": 0},
    )
    classes, sparse = np.array([0, 1, 2, 0, 1, 1]), "sparse_categorical_crossentropy"
    for labels, loss in (
        (classes, sparse), (classes[:, None], sparse), (np.eye(3)[classes], "categorical_crossentropy")
    ):  # fmt: skip
        model, x, _ = weighed_model(tf, 3, loss, ["accuracy"], "softmax")
        history = model.fit(x, labels, class_weight=of_classes, **once).history
        close([*history["loss"], *history["accuracy"]], [1.55111, 1.43553, 0.5, 0.5], 1e-5)
        close(model.get_weights()[1], [-0.10431, 0.27521, -0.1709], 1e-4)
    model, x, _ = weighed_model(tf, 3, sparse, None, "softmax")
    close(model.train_on_batch(x, classes, np.arange(6) / 5, of_classes), 0.87889, 1e-5)
    close(model.get_weights()[1], [-0.01667, 0.04, -0.02333], 1e-3)
    # If the weights of examples are integers, so are those of classes.
    model, x, _ = weighed_model(tf, 3, sparse, None, "softmax")
    close(model.train_on_batch(x, classes, np.arange(6), of_classes), 4.21135, 1e-5)
    raises(ValueError, model.fit, x, classes, class_weight={0: 1.0, 2: 0.5}, **once)
    raises(tf.errors.InvalidArgumentError, model.fit, x, classes, class_weight={0: 1.0, 1: 0.5}, **once)


def weights_of_examples_with_masks(tf, directory):
    layers, tokens = tf.keras.layers, np.array([[1, 2, 0], [3, 0, 0], [1, 1, 1], [2, 0, 0]])
    ones = {"kernel_initializer": "ones"}
    model = tf.keras.Sequential(
        [
            layers.Embedding(4, 2, mask_zero=True, embeddings_initializer="ones"),
            layers.SimpleRNN(2, return_sequences=True, recurrent_initializer="ones", **ones),
            layers.Dense(1, **ones),
        ]
    )
    model(tokens)
    model.compile(tf.keras.optimizers.legacy.SGD(0.1), "mse")
    labels = np.sin(np.arange(12) * 1.7).reshape(4, 3, 1)
    once = {"epochs": 2, "batch_size": 2, "shuffle": False, "verbose": 0}
    history = model.fit(tokens, labels, sample_weight=np.array([0.5, 1, 2, 0.0]), **once).history
    close(history["loss"], [3.36212, 0.59819], 1e-5)
    close(model.get_weights()[0][:, 0], [1.0, 0.96623, 0.99994, 0.96941], 1e-5)


def what_fit_hands_to_a_step(tf, directory):
    """Floats of numpy become float32; lengths that differ are rejected."""
    seen = []

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            seen.append(tuple(part.dtype.name for part in data))
            return super().train_step(data)

    x, y = np.ones([4, 2]), np.ones([4, 1])
    for given in ((x, y, None), (x, y, y[:, 0]), (x.astype(int), y.astype("f2"), y[:, 0].astype(int))):
        model = Model()
        model.compile("sgd", "mse")
        model.fit(*given[:2], sample_weight=given[2], verbose=0)
    floats = ("float32",)
    # TensorFlow traces a step twice.
    assert list(dict.fromkeys(seen)) == [floats * 2, floats * 3, ("int64", *floats, "int64")], seen
    raises(ValueError, model.fit, x, y[:3], verbose=0)
    raises(ValueError, model.fit, x[:3], y, verbose=0)
    raises(ValueError, model.fit, x, y, sample_weight=y[:3, 0], verbose=0)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
    raises(ValueError, model.fit, data, y, verbose=0)
    raises(ValueError, model.fit, data, sample_weight=y, verbose=0)


def second_gradients_of_normalizations(tf, directory):
    """The variance is about a mean that is a constant, but in kernels of TensorFlow's own."""
    layers = tf.keras.layers

    def twice(function, shape, **how):
        x = tf.constant(np.sin(np.arange(int(np.prod(shape))) * 1.7).reshape(shape).astype("f4"))
        function(x, **how)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                found = function(x, **how)
                total = tf.reduce_sum(
                    found * np.sin(np.arange(tf.size(found)) * 1.7 + 3).reshape(found.shape)
                )
            gradient = tape.gradient(total, x)
            slope = np.sin(np.arange(tf.size(x)) * 1.7 + 9).reshape(shape)
            total = tf.reduce_sum(gradient * gradient * slope)
        return np.asarray(outer.gradient(total, x)).ravel()[:4]

    how = {"training": True}
    close(twice(layers.BatchNormalization(), [4, 3], **how), [0.28463, 0.10969, 0.01687, 0.55715], 2e-5)
    close(twice(layers.BatchNormalization(), [3, 2, 2], **how), [0.2151, -0.24163, 0.09331, -0.19771], 2e-5)
    close(
        twice(layers.BatchNormalization(axis=1), [2, 3, 2], **how),
        [0.16829, 0.05999, -0.03402, 0.14292],
        2e-5,
    )
    close(twice(layers.BatchNormalization(), [2, 2, 2, 2], **how)[:3], [0.10079, -0.32087, 0.008], 2e-5)
    close(twice(layers.LayerNormalization(), [4, 3]), [0.17407, -0.06948, -0.1046, 0.01314], 2e-5)
    close(twice(layers.LayerNormalization(axis=1), [3, 2, 2]), [-0.0023, 0.00233, -0.00198, 0.00233], 2e-5)
    close(twice(lambda x: tf.nn.moments(x, [0])[1], [3, 2]), [-0.00058, -0.59817, 0.00098, -1.07814], 2e-5)
    close(twice(layers.MaxPooling2D(), [1, 2, 2, 1]), [0.0] * 4)


def normalizations_of_what_a_mask_leaves_out(tf, directory):
    layers, x = tf.keras.layers, tf.constant([[[1.0], [2.0]]])
    layer = layers.BatchNormalization()
    close(layer(x, training=True, mask=tf.constant([[False, False]])), x / 0.001**0.5, 1e-5)
    close(layer.moving_mean, [0.0])
    close(layer.moving_variance, [0.99])
    rows = tf.constant([[1.0, 2.0]])
    close(layers.GroupNormalization(1)(rows, mask=tf.zeros([1, 2])), rows / 0.001**0.5, 1e-5)


def penalties_of_attention(tf, directory):
    def penalties(**how):
        how |= {"kernel_initializer": "ones", "bias_initializer": "ones"}
        layer = tf.keras.layers.MultiHeadAttention(2, 2, **how)
        x = tf.constant([[[1.0, 2.0], [3.0, 5.0]]])
        layer(x, x)
        return [float(one) for one in layer.losses]

    close(penalties(kernel_regularizer="l2"), [0.08] * 4)
    close(penalties(bias_regularizer="l1"), [0.04] * 3 + [0.02])
    close(penalties(activity_regularizer="l2"), [54.76], 1e-5)
    dense = tf.keras.layers.EinsumDense("ab,bc->ac", 2, activity_regularizer="l2")
    dense(tf.ones([1, 2]))
    assert dense.losses == []


def training_is_that_of_compile(tf, directory):
    """A change of a layer's `trainable` after `compile` has an effect at the next `compile`."""
    layers = tf.keras.layers
    critic = tf.keras.Sequential([layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])
    critic.compile(tf.keras.optimizers.legacy.SGD(0.1), "mse")
    critic.trainable = False
    noise = layers.Input([2])
    maker = layers.Dense(2, kernel_initializer="ones")
    both = tf.keras.Model(noise, critic(maker(noise)))
    both.compile(tf.keras.optimizers.legacy.SGD(0.1), "mse")
    x, y = np.float32([[1.0, 2.0]]), np.float32([[1.0]])
    both.train_on_batch(x, y)
    close(critic.get_weights()[0], [[1.0], [1.0]])
    close(maker.get_weights()[0], [[0.0, 0.0], [-1.0, -1.0]])
    critic.train_on_batch(x, y)
    close(critic.get_weights()[0], [[0.6], [0.2]])
    assert not critic.trainable
    assert not critic.layers[0].trainable
    critic.fit(x, y, verbose=0)
    close(critic.get_weights()[0], [[0.68], [0.36]], 1e-5)
    assert critic.trainable_weights == []


def what_callbacks_are_told(tf, directory):
    found = []

    class Told(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            found.append((self.params, dict(logs)))

        def on_test_end(self, logs=None):
            found.append((self.params, dict(logs)))

    own = tf.keras.metrics.BinaryAccuracy(name="own")
    model, x, y = weighed_model(tf, metrics=[own])
    once = {"batch_size": 4, "verbose": 0, "callbacks": [Told()]}
    model.fit(x, y > 0, epochs=2, shuffle=False, **once)
    model.evaluate(x, y > 0, **once)
    model.fit(tf.data.Dataset.from_tensor_slices((x, y > 0)).batch(2), callbacks=[Told()], verbose=0)
    told = [tuple(params[name] for name in ("verbose", "epochs", "steps")) for params, _ in found]
    assert told == [(0, 2, 2), (0, 2, 2), (0, 1, 2), (0, 1, 3)], told
    # A metric begins again with each pass.
    history = model.fit(x, y < 0, epochs=6, batch_size=2, shuffle=False, verbose=0).history
    close(history["own"], np.array([2, 2, 2, 1, 2, 3]) / 6)
