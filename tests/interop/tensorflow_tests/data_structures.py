"""tensorflow/python/trackable/data_structures_test.py."""

import copy
import json
import operator
import os
import pickle
from typing import Any, NamedTuple

from .support import raises


def wrapped(tf, value):
    """Return the wrapper of a container: what an attribute becomes."""
    root = tf.train.Checkpoint()
    root.wrapper = value
    return root.wrapper


def cannot_be_saved(tf, directory, wrapper, word="Unable to save"):
    root = tf.train.Checkpoint()
    root.wrapper = wrapper
    text = raises(ValueError, root.write, os.path.join(directory, "ckpt"))
    assert word in text, text


# ListWrapperTest, and what ListTests say of lists in attributes.


def list_non_layer_variables(tf, directory):
    v, frozen = tf.Variable([1.0]), tf.Variable(1.0, trainable=False)
    kept = wrapped(tf, [v])
    assert kept.trainable
    assert kept.layers == []
    assert [one is v for one in kept.variables] == [True]
    assert [one is v for one in kept.trainable_weights] == [True]
    assert kept.non_trainable_variables == []
    kept.trainable = False
    assert kept.trainable_variables == []
    assert [one is v for one in kept.non_trainable_variables] == [True]
    kept.trainable = True
    kept.append(frozen)
    assert [one is v or one is frozen for one in kept.weights] == [True, True]
    assert [one is frozen for one in kept.non_trainable_weights] == [True]


def list_copy(tf, directory):
    first = wrapped(tf, [tf.Module(), tf.Module()])
    second = first.copy()
    second.append(tf.Module())
    assert (len(first), len(second)) == (2, 3)


def list_slicing(tf, directory):
    parts = [tf.Module() for _ in range(4)]
    kept = wrapped(tf, list(parts))
    assert (kept[1:], kept[1:-1], kept[:-1]) == (parts[1:], parts[1:-1], parts[:-1])


def list_mul(tf, directory):
    parts = [tf.Module() for _ in range(3)]
    kept = wrapped(tf, list(parts))
    assert kept * 2 == parts * 2
    assert 2 * kept == parts * 2


def list_json_serialization(tf, directory):
    assert json.dumps(wrapped(tf, [1, [2]])) == "[1, [2]]"


def overrides_all_list_methods(tf, directory):
    """A method of `list` itself would look at what the wrapper does not keep."""
    ignored = {"__new__", "__init__", "__subclasshook__", "__getattribute__"}
    names = [name for name in dir(list) if callable(getattr(list, name)) and name not in ignored]
    names = [name for name in names if getattr(object, name, None) != getattr(list, name)]
    kind = type(wrapped(tf, []))
    assert [name for name in names if getattr(kind, name) == getattr(list, name)] == []


def pickle_list(tf, directory):
    assert pickle.loads(pickle.dumps(wrapped(tf, [1, 2]))) == [1, 2]


def same_structure_list(tf, directory):
    tf.nest.assert_same_structure([1], wrapped(tf, [1]))


def mutate_without_trackable_components(tf, directory):
    module = tf.Module()
    module.l = [1, 2]
    module.l.insert(0, 0)
    assert module.l == [0, 1, 2]
    assert dict(module.l._trackable_children()) == {}


def list_wrapper_basic(tf, directory):
    a, b = tf.Module(), tf.Module()
    wrap = lambda *parts: wrapped(tf, list(parts))  # noqa: E731
    assert wrap(a, a) == wrap(a, a) == [a, a]
    assert operator.eq([a, a], wrap(a, a))
    assert wrap(a, a) != wrap(b, a)
    assert operator.ne([a, a], wrap(b, a))
    numbers = wrap(1)
    assert numbers < wrap(1, 2)
    assert numbers <= wrap(1, 2)
    assert wrap(1, 2) > numbers
    assert wrap(1, 2) >= numbers
    assert operator.add(wrap(a), [a]) == [a, a] == operator.add([a], wrap(a))
    assert isinstance(wrap(a), list)


def accepts_non_trackable_content(tf, directory):
    assert wrapped(tf, [1, 2, 3]) == [1, 2, 3]


def wrapper_changes_list(tf, directory):
    plain = []
    wrapped(tf, plain).append(1)
    assert plain == [1]


def list_changes_wrapper(tf, directory):
    plain = []
    wrapper = wrapped(tf, plain)
    plain.append(1)
    assert wrapper == [1]


def not_hashable(tf, directory):
    raises(TypeError, hash, wrapped(tf, []))


def del_item(tf, directory):
    kept = wrapped(tf, [1, 2, 3, [4]])
    del kept[0]
    assert kept == [2, 3, [4]]
    cannot_be_saved(tf, directory, kept, "__delitem__")


def del_slice(tf, directory):
    kept = wrapped(tf, [1, 2, 3, [4]])
    del kept[2:3]
    assert kept == [1, 2, [4]]
    cannot_be_saved(tf, directory, kept, "__delslice__")


def set_slice_can_save_for_non_trackable_items(tf, directory):
    kept = wrapped(tf, [1, 2, 3, 4])
    kept[:] = 2, 8, 9, 0
    assert kept == [2, 8, 9, 0]
    assert len(kept._trackable_children()) == 0


def set_slice_cannot_save_if_trackable_modified(tf, directory):
    first, second = tf.Module(), tf.Module()
    kept = wrapped(tf, [1, 2, first, second])
    kept[:] = 2, 8, 9, second
    assert kept == [2, 8, 9, second]
    cannot_be_saved(tf, directory, kept, "__setslice__")


def set_slice_truncate(tf, directory):
    kept = wrapped(tf, [1, 2, 3, 4])
    kept[:] = []
    assert kept == []


def set_slice_extend(tf, directory):
    kept = wrapped(tf, [1, 2, 3, 4])
    kept[2:] = 1, 2, 3, 4
    assert kept == [1, 2, 1, 2, 3, 4]


def i_mul_negative(tf, directory):
    kept = wrapped(tf, [1, 2, 3, [4]])
    kept *= -1
    assert kept == []
    cannot_be_saved(tf, directory, kept)


def i_mul_positive(tf, directory):
    v = tf.Variable(1.0)
    kept = wrapped(tf, [1, 2, v])
    assert list(kept._trackable_children()) == ["2"]
    root = tf.train.Checkpoint(l=kept)
    path = root.save(os.path.join(directory, "ckpt"))
    v.assign(5.0)
    kept *= 2
    assert [one is v for one in kept] == [False, False, True] * 2
    assert list(kept._trackable_children()) == ["2", "5"]
    root.restore(path)
    assert float(v) == 1.0


def sort(tf, directory):
    kept = wrapped(tf, [[1], [2], [3], [4]])
    kept.sort()
    assert kept == [[1], [2], [3], [4]]
    cannot_be_saved(tf, directory, kept, "sort")


# MappingTests, as far as they are about dicts in attributes.


def hashing(tf, directory):
    kept = wrapped(tf, {})
    assert operator.eq({}, kept)
    assert not operator.ne({}, kept)
    assert kept != {1: 2}
    assert "unhashable" in raises(TypeError, hash, kept)


def shallow_and_deep(tf, directory, plain, inner, change):
    """A copy is another container, of the same elements or others; where one cannot be saved, neither can."""
    root = tf.train.Checkpoint()
    root.a = plain
    shallow, deep = copy.copy(root.a), copy.deepcopy(root.a)
    for copied, is_same in ((shallow, True), (deep, False)):
        assert copied is not root.a
        assert copied == root.a
        assert (inner(copied) is inner(root.a)) == is_same
    root.a._trackable_children()
    change(plain)
    raises(ValueError, root.a._trackable_children)
    raises(ValueError, copy.copy(root.a)._trackable_children)
    raises(ValueError, copy.deepcopy(root.a)._trackable_children)


def list_shallow_copy(tf, directory):
    shallow_and_deep(tf, directory, [[1.0]], lambda kept: kept[0], lambda plain: plain.append(1.0))


list_deep_copy = list_shallow_copy


def dict_shallow_copy(tf, directory):
    shallow_and_deep(tf, directory, {"a": [1.0]}, lambda kept: kept["a"], lambda plain: plain.update(b=[]))
    kept = wrapped(tf, {"a": [1.0]})
    assert kept.copy()["a"] is kept["a"]


dict_deep_copy = dict_shallow_copy


def shallow_copy_trackable(tf, directory):
    original, part = tf.train.Checkpoint(), tf.train.Checkpoint()
    original.a, original.b = [[1.0]], {"a": part}
    copied = copy.copy(original)
    assert copied is not original
    assert copied.b["a"] is part
    assert copied.a == [[1.0]]
    children = copied._trackable_children()
    assert children["a"] is copied.a
    assert children["b"] is copied.b


def deep_copy_trackable(tf, directory):
    original, part = tf.Module(), tf.Module()
    part.v = tf.Variable(1.0)
    original.a, original.b = [[1.0]], {"a": part}
    copied = copy.deepcopy(original)
    assert copied is not original
    assert isinstance(copied.b, dict)
    assert copied.b["a"] is not part
    assert copied.b["a"].v is not part.v
    assert copied.a == [[1.0]]
    children = copied._trackable_children()
    assert children["a"] is copied.a
    assert children["b"] is copied.b


def pickle_dict(tf, directory):
    assert pickle.loads(pickle.dumps(wrapped(tf, {"a": 1, "b": 2}))) == {"a": 1, "b": 2}


def list_add_order(tf, directory):
    first, second = wrapped(tf, [1.0]), wrapped(tf, [2.0])
    assert operator.add(first, second) == [1.0, 2.0]
    assert operator.add(first, [2.0]) == [1.0, 2.0]
    assert operator.add([1.0], second) == [1.0, 2.0]


def same_structure_dict(tf, directory):
    tf.nest.assert_same_structure({1: "a"}, wrapped(tf, {1: "a"}))


# TupleTests.


class Named(NamedTuple):
    x: Any
    y: Any


def tuple_json_serialization(tf, directory):
    assert json.dumps(wrapped(tf, (1,))) == "[1]"


def tuple_non_layer_variables(tf, directory):
    v = tf.Variable([1.0])
    kept = wrapped(tf, (v,))
    assert kept.layers == []
    assert [one is v for one in kept.variables] == [True]
    assert [one is v for one in kept.trainable_weights] == [True]
    assert kept.non_trainable_variables == []


def tuple_copy(tf, directory):
    parts = (tf.Module(), tf.Module())
    kept = wrapped(tf, parts)
    copied = copy.copy(kept)
    assert kept == parts == copied
    assert copied[0] is parts[0]
    assert copy.deepcopy(kept)[0] is not parts[0]
    assert not hasattr(copied, "append")


def tuple_slicing(tf, directory):
    parts = tuple(tf.Module() for _ in range(4))
    kept = wrapped(tf, parts)
    assert (kept[1:], kept[1:-1], kept[:-1]) == (parts[1:], parts[1:-1], parts[:-1])


def tuple_hash(tf, directory):
    part = tf.Module()
    assert len({wrapped(tf, (part,)), wrapped(tf, (part,))}) == 1
    assert wrapped(tf, (part,)) in {(part,)}


def tuple_i_mul(tf, directory):
    """Other than a list, a tuple is not changed but replaced."""
    part = tf.Module()
    kept = original = wrapped(tf, (part,))
    kept *= 2
    assert kept == (part, part)
    assert original == (part,)
    kept *= 0
    assert kept == ()


def tuple_i_add(tf, directory):
    part = tf.Module()
    kept = original = wrapped(tf, (part,))
    kept += (1,)
    assert kept == (part, 1)
    assert original == (part,)


def tuple_mul(tf, directory):
    parts = tuple(tf.Module() for _ in range(3))
    kept = wrapped(tf, parts)
    assert kept * 2 == parts * 2
    assert 2 * kept == parts * 2


def pickle_tuple(tf, directory):
    assert pickle.loads(pickle.dumps(wrapped(tf, (1, [2])))) == (1, [2])


def named_tuple(tf, directory):
    v, module = tf.Variable(2), tf.Module()
    module.nt = Named(x=v, y=2)
    assert module.nt.x is v
    assert module.nt[0] is v
    assert module.nt.y == 2
    assert module._trackable_children()["nt"]._trackable_children()["x"] is v


def named_tuple_conflicting_attributes(tf, directory):
    class Conflicting(NamedTuple):
        x: Any
        weights: Any

    module = tf.Module()
    module.nt = Conflicting(x=tf.Variable(2), weights=3)
    assert module.nt.weights == 3


def named_subclassing(tf, directory):
    class Replacing(Named):
        def __new__(cls, x, y):
            del y
            return super().__new__(cls, x, 3)

        @property
        def summed(self):
            return self.x + self.y

    v, module = tf.Variable(2), tf.Module()
    module.nt = Replacing(x=v, y=2)
    assert module.nt.y == 3
    assert module.nt.x is v
    assert {"x", "0"} <= set(module.nt._trackable_children())
    assert int(module.nt.summed) == 5


def unnamed_subclassing(tf, directory):
    class Summing(tuple):
        __slots__ = ()

        @property
        def summed(self):
            return self[0] + self[1]

    module = tf.Module()
    module.t = Summing([tf.Variable(2), 2])
    assert list(module.t._trackable_children()) == ["0"]
    assert int(module.t.summed) == 4


def namedtuple_subclass_with_custom_new(tf, directory):
    class Own(Named):
        def __new__(cls):
            return super().__new__(cls, [], None)

    module = tf.Module()
    module.nt = Own()
    module.nt.x.append(tf.Variable(1.0))
    raises(ValueError, tf.train.Checkpoint(m=module).save, os.path.join(directory, "ckpt"))


def same_structure_tuple(tf, directory):
    part = (tf.Module(),)
    kept = wrapped(tf, part)
    tf.nest.assert_same_structure(part, kept)
    tf.nest.assert_same_structure(kept, part)
    named = wrapped(tf, Named(1, []))
    tf.nest.assert_same_structure(named, Named(1, []))
    raises(TypeError, tf.nest.assert_same_structure, named, kept)


def flatten_tuple(tf, directory):
    kept = wrapped(tf, (1, (2, [])))
    assert tf.nest.flatten(kept) == [1, 2]
    assert tf.nest.pack_sequence_as(kept, [3, 4]) == (3, (4, []))
    packed = tf.nest.pack_sequence_as(wrapped(tf, Named(1.0, [2.0])), [3, 4])
    assert (packed.x, packed.y) == (3, [4])


def python_map_impl(tf, directory):
    assert tf.nest.map_structure(lambda x: x + 3, wrapped(tf, (1, (2, [])))) == (4, (5, []))


def dataset_map(tf, directory):
    dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3]).map(lambda x: wrapped(tf, (x, [x])))
    assert [int(first) for first, _ in dataset] == [1, 2, 3]


def loop_assigned_module(tf, directory):
    module = tf.Module()
    module.s = (module,)
    assert list(module._trackable_children()) == ["s"]
    assert module._trackable_children()["s"] is module.s
    assert module.trainable_variables == ()
