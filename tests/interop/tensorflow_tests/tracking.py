"""tensorflow/python/trackable/{base,autotrackable,python_state}_test.py, keras/tests/tracking_test.py."""

import io
import operator
import os

import numpy as np

from .support import close, raises, same


def write(tf, directory, **parts):
    return tf.train.Checkpoint(**parts).write(os.path.join(directory, "ckpt"))


# base_test and autotrackable_test.


def assert_consumed_with_unused_python_state(tf, directory):
    has_config = tf.Module()
    has_config.get_config = dict
    path = write(tf, directory, obj=has_config)
    tf.train.Checkpoint(obj=tf.Module()).read(path).assert_consumed()


def buggy_get_config(tf, directory):
    class Buggy(tf.Module):
        def get_config(self):
            return object()

    write(tf, directory, obj=Buggy())


def multiple_assignment(tf, directory):
    root, leaf = tf.Module(), tf.Module()
    root.leaf = tf.Module()
    root.leaf = root.leaf
    root.leaf = leaf
    assert root._trackable_children()["leaf"] is leaf


def remove_dependency(tf, directory):
    root = tf.Module()
    root.a = tf.Module()
    assert list(root._trackable_children()) == ["a"]
    del root.a
    assert not hasattr(root, "a")
    assert list(root._trackable_children()) == []
    root.a = tf.Module()
    assert root._trackable_children()["a"] is root.a


def list_basic(tf, directory):
    a, b, c = tf.Module(), tf.Module(), tf.Module()
    a.l = [b]
    a.l.append(c)
    children = a._trackable_children()["l"]._trackable_children()
    assert children["0"] is b
    assert children["1"] is c


def mutation_dirties_list(tf, directory):
    a = tf.Module()
    a.l = [tf.Module()]
    a.l.insert(0, tf.Module())
    assert "A list element was replaced" in raises(ValueError, write, tf, directory, a=a)


def out_of_band_edit_dirties_list(tf, directory):
    a, held = tf.Module(), [tf.Module()]
    a.l = held
    held.append(tf.Module())
    assert "The wrapped list was modified" in raises(ValueError, write, tf, directory, a=a)


def nested_lists(tf, directory):
    a, modules = tf.Module(), [tf.Module() for _ in range(5)]
    a.l = []
    a.l.append([modules[0]])
    a.l[0].append(modules[1])
    a.l[0].append(1)
    a.l[0].append(modules[2])
    assert list(a.l[0]._trackable_children()) == ["0", "1", "3"]
    a.l1 = [[], [modules[3]]]
    a.l1[0].append(modules[4])
    write(tf, directory, a=a)
    a.l[0][1] = 2
    assert "A list element was replaced" in raises(ValueError, write, tf, directory, a=a)


def assertions(tf, directory):
    a = tf.Module()
    a.l = {"k": [np.zeros([2, 2])]}
    (found,) = tf.nest.flatten(a.l)
    same(found, np.zeros([2, 2]))
    tf.nest.map_structure(same, {"k": [np.zeros([2, 2])]}, a.l)


# python_state_test.


def numpy_wrapper(tf, array):
    class Wrapper(tf.train.experimental.PythonState):
        def __init__(self):
            self.array = array

        def serialize(self):
            file = io.BytesIO()
            np.save(file, self.array, allow_pickle=False)
            return file.getvalue()

        def deserialize(self, string_value):
            self.array = np.load(io.BytesIO(string_value), allow_pickle=False)

    return Wrapper()


def wrapper(tf, directory):
    root = tf.train.Checkpoint(numpy=numpy_wrapper(tf, np.array([1.0])))
    path = root.save(os.path.join(directory, "ckpt"))
    root.numpy.array *= 2.0
    root.restore(path)
    same(root.numpy.array, np.array([1.0]))


def save_restore_numpy_state(tf, directory):
    """Objects that exist when their name is first used; each save has its own values."""
    saved = tf.train.Checkpoint(a=numpy_wrapper(tf, np.ones([2, 2])), c=numpy_wrapper(tf, np.int64(3)))
    first = saved.save(os.path.join(directory, "ckpt"))
    saved.a.array[1, 1], saved.c.array = 2.0, np.int64(4)
    second = saved.save(os.path.join(directory, "ckpt"))
    loaded = tf.train.Checkpoint()
    loaded.restore(first)
    loaded.a, loaded.c = numpy_wrapper(tf, np.array([])), numpy_wrapper(tf, np.array([]))
    same(loaded.a.array, np.ones([2, 2]))
    assert int(loaded.c.array) == 3
    loaded.restore(second).assert_consumed()
    same(loaded.a.array, np.array([[1.0, 1.0], [1.0, 2.0]]))
    assert int(loaded.c.array) == 4


# keras/tests/tracking_test.py.


def has_list(tf):
    layers = tf.keras.layers

    class HasList(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.layer_list = [layers.Dense(3)]
            self.layer_list.append(layers.Dense(4))
            self.layer_list.extend([layers.Dense(5), layers.Dense(6)])
            self.layer_list += [layers.Dense(7), layers.Dense(8)]
            self.norms = [layers.BatchNormalization()]

        def call(self, x):
            for layer in self.layer_list:
                x = layer(x)
            return self.norms[0](x)

    return HasList()


def weights_come_back(tf, directory, model):
    """Save, change and load a model's first weight."""
    path = os.path.join(directory, "w")
    first = model.variables[0]
    first.assign(first * 0 + 5.0)
    model.save_weights(path)
    first.assign(first * 0)
    model.load_weights(path)
    close(first, np.full(first.shape, 5.0))


def list_tracking(tf, directory):
    model = has_list(tf)
    assert model(tf.ones([32, 2])).shape == (32, 8)
    assert (len(model.layers), len(model.layer_list.layers)) == (7, 6)
    assert [layer.units for layer in model.layer_list.layers] == [3, 4, 5, 6, 7, 8]
    children = model._trackable_children()
    assert list(children) == ["layer_list", "norms"]
    assert children["layer_list"] is model.layer_list
    assert len(children["layer_list"]._trackable_children()) == 6
    weights_come_back(tf, directory, model)
    v = tf.Variable(1.0)
    model.var_list = [v]
    assert any(v is one for one in model.variables)
    assert any(v is one for one in model.trainable_variables)
    assert not any(v is one for one in model.non_trainable_variables)
    assert any(model.layer_list[0].trainable_weights[0] is one for one in model.trainable_weights)


def sub_model_tracking(tf, directory):
    for put in (lambda part: [part], lambda part: (part,)):
        for kind in (tf.Module, tf.keras.Model):
            inner, outer = kind(), kind()
            inner.v = tf.Variable(1.0)
            assert any(one is inner.v for one in inner.trainable_variables)
            outer.m = put(inner)
            assert any(one is inner.v for one in outer.trainable_variables)


def sub_sequential_tracking(tf, directory):
    class Wrapping(tf.keras.Model):
        def __init__(self, wrapped):
            super().__init__()
            self._wrapped = wrapped

        def call(self, x):
            return self._wrapped(x)

    for put in (lambda part: [part], lambda part: (part,)):
        inner, layer = tf.keras.Sequential(), tf.keras.layers.Dense(1)
        inner.add(layer)
        outer = Wrapping(inner)
        outer(tf.ones([1, 2]))
        outer.m = put(inner)
        assert any(one is layer.kernel for one in outer.trainable_weights)


def layer_tracked_through_sequential(tf, directory):
    layers = tf.keras.layers

    class Outer(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.parts = [tf.keras.Sequential([layers.Dense(5), layers.Dense(3), layers.Dense(2)], name="ff")]

        def call(self, x):
            return self.parts[0](x)

    model = Outer()
    model(tf.zeros([1, 2]))
    assert len(model.trainable_variables) == 6


def list_model_containers_compare_equal(tf, directory):
    """Two empty lists are equal, and still two."""
    model, first, second = tf.keras.Model(), tf.keras.Model(), tf.keras.Model()
    model.l1, model.l2 = [], []
    model.l1.append(first)
    model.l2.append(second)
    assert [one is other for one, other in zip(model.layers, [first, second], strict=True)] == [True, True]


def list_tensor_conversion(tf, directory):
    model = tf.keras.Model()
    model.l = [1.0, 2.0, 3.0]
    close(tf.constant(model.l), [1, 2, 3])
    model.l = (1.0, 2.0, 3.0)
    close(tf.constant(model.l), [1, 2, 3])


def list_layer_collection_with_external_mutation(tf, directory):
    module, plain, layer = tf.Module(), [], tf.keras.layers.Dense(1)
    module.l = plain
    plain.append(layer)
    assert [one is layer for one in module.l.layers] == [True]


def mapping_tracking(tf, directory):
    layers = tf.keras.layers

    class HasMapping(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.layer_dict = {"output": layers.Dense(7)}
            self.layer_dict["norm"], self.layer_dict["dense"] = [], []
            self.layer_dict["dense"].extend([layers.Dense(5), layers.Dense(6)])
            self.layer_dict["norm"].extend([layers.BatchNormalization(), layers.BatchNormalization()])

        def call(self, x):
            for norm, dense in zip(self.layer_dict["norm"], self.layer_dict["dense"], strict=True):
                x = norm(dense(x))
            return self.layer_dict["output"](x)

    model = HasMapping()
    assert model(tf.ones([32, 2])).shape == (32, 7)
    assert len(model.layers) == 5
    children = model._trackable_children()
    assert list(children) == ["layer_dict"]
    assert children["layer_dict"] is model.layer_dict
    weights_come_back(tf, directory, model)


def mapping_layer_collection_with_external_mutation(tf, directory):
    root, plain = tf.Module(), {}
    root.wrapper = plain
    assert root.wrapper.layers == []
    assert root.wrapper.trainable_weights == []
    layers = [tf.keras.layers.Dense(1), tf.keras.layers.Dense(1)]
    plain["a"], plain["b"] = layers
    assert [one is other for one, other in zip(root.wrapper.layers, layers, strict=True)] == [True, True]
    assert root.wrapper.trainable_weights == []


def dict_wrapper_bad_keys(tf, directory):
    a, model = tf.Module(), tf.keras.Model()
    a.d = {}
    a.d[1] = []
    model.sub = a
    assert "non-string key" in raises(ValueError, model.save_weights, os.path.join(directory, "w"))


def pop_no_save(tf, directory):
    model = tf.keras.Model()
    model.d = {}
    model.d["a"] = []
    model.d.pop("a")
    assert "Unable to save" in raises(ValueError, model.save_weights, os.path.join(directory, "w"))


def external_modification_no_save(tf, directory):
    model, plain = tf.keras.Model(), {}
    model.d = plain
    plain["a"] = []
    text = raises(ValueError, model.save_weights, os.path.join(directory, "w"))
    assert "modified outside the wrapper" in text


def overwrite_can_still_save(tf, directory):
    model = tf.keras.Model()
    model.d = {}
    model.d["a"] = {}
    model.d["a"] = {}
    model.save_weights(os.path.join(directory, "w"))


def iter(tf, directory):  # noqa: A001  as TensorFlow calls it
    """A dict that is updated from a wrapper sees what the wrapper shows."""
    model, plain = tf.keras.Model(), {}
    model.d = {1: 3}
    model.d[1] = 3
    assert list(model.d) == [1]
    plain.update(model.d)
    assert plain == {1: 3}


def tuple_tracking(tf, directory):
    layers = tf.keras.layers

    class HasTuple(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.layer_list = (layers.Dense(3), layers.Dense(4), layers.Dense(5))
            self.norms = (layers.BatchNormalization(),)

        def call(self, x):
            for layer in self.layer_list:
                x = layer(x)
            return self.norms[0](x)

    model = HasTuple()
    assert model(tf.ones([32, 2])).shape == (32, 5)
    assert (len(model.layers), len(model.layer_list.layers)) == (4, 3)
    assert [layer.units for layer in model.layer_list.layers] == [3, 4, 5]
    children = model._trackable_children()
    assert list(children) == ["layer_list", "norms"]
    assert children["layer_list"] is model.layer_list
    assert len(model.layer_list._trackable_children()) == 3
    weights_come_back(tf, directory, model)
    v = tf.Variable(1.0)
    model.var_list = (v,)
    assert any(v is one for one in model.trainable_variables)
    assert not any(v is one for one in model.non_trainable_variables)


def tuple_model_containers_compare_equal(tf, directory):
    model, first, second = tf.keras.Model(), tf.keras.Model(), tf.keras.Model()
    model.l1, model.l2 = (first,), (second,)
    assert operator.eq((first,), model.l1)
    found = {model.l1: 1, model.l2: 2}
    assert [found[key] for key in (model.l1, (first,), model.l2, (second,))] == [1, 1, 2, 2]
    assert [one is other for one, other in zip(model.layers, [first, second], strict=True)] == [True, True]


def dictionaries_basic(tf, directory):
    a, b, c = tf.keras.Model(), tf.keras.Model(), tf.keras.Model()
    a.attribute = {"b": b}
    a.attribute["c"] = []
    a.attribute["c"].append(c)
    assert a.attribute["b"] is b
    assert set(a.attribute._trackable_children()) == {"b", "c"}
    for layers in (a.layers, a.attribute.layers[:1] + a.attribute["c"].layers):
        assert [one is other for one, other in zip(layers, [b, c], strict=True)] == [True, True]
    checkpoint = tf.train.Checkpoint(a=a)
    path = checkpoint.save(os.path.join(directory, "ckpt"))
    checkpoint.restore(path).assert_consumed()


def list_losses_forwarded(tf, directory):
    losses_forwarded(tf, list)


def tuple_losses_forwarded(tf, directory):
    losses_forwarded(tf, tuple)


def losses_forwarded(tf, kind):
    """The model's loss includes the regularizers of layers in a list, at any attribute."""
    layers = tf.keras.layers

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            plain = layers.Dense(1)
            penalized = layers.Dense(3, kernel_initializer="ones", kernel_regularizer=tf.reduce_sum)
            self.parts = kind([plain, kind([penalized])])

        def call(self, x):
            return self.parts[1][0](self.parts[0](x))

    model = Model()
    model(tf.ones([1, 2]))
    close([float(loss) for loss in model.losses], [3.0])
