"""Tracked objects and their names, restoring objects as they appear, and objects that cannot be saved."""

from __future__ import annotations

import collections
import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats


def keys_of(path):
    with formats.open_checkpoint(path) as reader:
        return [key for key in reader if key != "_CHECKPOINTABLE_OBJECT_GRAPH"]


def saved(tmp_path, **attributes):
    root = tf.train.Checkpoint()
    for name, value in attributes.items():
        setattr(root, name, value)
    return keys_of(root.write(tmp_path / "ckpt"))


VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class Pair(NamedTuple):
    left: Any
    right: Any


class TestContainers:
    def test_lists_track_what_is_trackable_and_keep_the_rest(self, tmp_path):
        keys = saved(tmp_path, listed=[tf.Variable(1.0), 2, "three", None, [tf.Variable(4.0)]])
        assert keys == [f"listed/0{VALUE}", f"listed/4/0{VALUE}"]

    def test_wrappers_are_still_what_they_wrap(self):
        root = tf.train.Checkpoint()
        root.listed, root.mapped, root.pair = (
            [1, tf.Variable(2.0)],
            {"a": tf.Variable(1.0)},
            Pair(tf.Variable(1.0), 2),
        )
        root.ordered = collections.OrderedDict(b=tf.Variable(0.0), a=1)
        assert isinstance(root.listed, list)
        assert isinstance(root.mapped, dict)
        assert isinstance(root.pair, Pair)
        assert isinstance(root.ordered, collections.OrderedDict)
        assert root.pair.right == 2
        assert repr(tf.train.Checkpoint(l=[]).l) == "ListWrapper([])"
        assert repr(tf.train.Checkpoint(d={}).d) == "DictWrapper({})"
        assert list(root.ordered) == ["b", "a"]
        assert root.listed[0] == 1
        assert len(root.listed) == 2

    def test_the_wrapped_container_sees_what_is_added(self):
        original = []
        root = tf.train.Checkpoint(l=original)
        root.l.append(5)
        assert original == [5]
        mapping = {}
        root.m = mapping
        root.m["x"] = 7
        assert mapping == {"x": 7}

    def test_plain_tuples_and_values_are_left_alone(self, tmp_path):
        root = tf.train.Checkpoint()
        root.numbers, root.text, root.tuple = 3, "text", (1, 2)
        root.set, root.default = {1}, collections.defaultdict(list, a=[tf.Variable(1.0)])
        assert type(root.tuple) is tuple
        assert type(root.set) is set
        assert type(root.default) is collections.defaultdict
        assert keys_of(root.write(tmp_path / "ckpt")) == []

    def test_a_named_tuple_has_two_edges_for_each_field(self, tmp_path):
        root = tf.train.Checkpoint()
        root.pair = Pair(tf.Variable(1.0), [tf.Variable(2.0)])
        path = root.write(tmp_path / "ckpt")
        with formats.open_checkpoint(path) as reader:
            (pair,) = [child.node_id for child in reader.object_graph.nodes[0].children]
            edges = [child.local_name for child in reader.object_graph.nodes[pair].children]
        assert edges == ["left", "right", "0", "1"]

    def test_edges_are_in_order_of_assignment(self, tmp_path):
        root = tf.Module()
        root.b, root.a = tf.Variable(1.0), tf.Variable(2.0)
        root.b = tf.Variable(3.0)  # keeps its place
        path = tf.train.Checkpoint(root).write(tmp_path / "one")
        with formats.open_checkpoint(path) as reader:
            assert [c.local_name for c in reader.object_graph.nodes[0].children] == ["b", "a", "root"]
        del root.b
        root.b = tf.Variable(4.0)  # goes to the end
        path = tf.train.Checkpoint(root).write(tmp_path / "two")
        with formats.open_checkpoint(path) as reader:
            assert [c.local_name for c in reader.object_graph.nodes[0].children] == ["a", "b", "root"]

    def test_containers_know_their_variables(self):
        root = tf.train.Checkpoint()
        root.l = [tf.Variable(1.0), tf.Variable(2.0, trainable=False), {"a": tf.Variable(3.0)}]
        assert [float(v) for v in root.l.trainable_variables] == [3.0, 1.0]
        assert [float(v) for v in root.l.non_trainable_variables] == [2.0]

    def test_copies(self):
        root = tf.train.Checkpoint(l=[tf.Variable(1.0)], m={"a": 1}, p=Pair(tf.Variable(1.0), 2))
        assert copy.copy(root.l)[0] is root.l[0]
        assert float(copy.deepcopy(root.l)[0]) == 1.0
        assert copy.deepcopy(root.l)[0] is not root.l[0]
        assert copy.copy(root.m) == {"a": 1}
        assert pickle.loads(pickle.dumps(root.m)) == {"a": 1}

    def test_no_dependency(self, tmp_path):
        from ckpt_cli.runtime.trackable import NoDependency

        root = tf.train.Checkpoint()
        root.hidden = NoDependency([tf.Variable(1.0)])
        assert type(root.hidden) is list
        assert keys_of(root.write(tmp_path / "ckpt")) == []


MUTATIONS = {
    "replaced": lambda x: x.__setitem__(0, tf.Variable(9.0)),
    "slice": lambda x: x.__setitem__(slice(0, 1), [tf.Variable(9.0)]),
    "deleted": lambda x: x.__delitem__(0),
    "popped": lambda x: x.pop(),
    "removed": lambda x: x.remove(x[0]),
    "inserted": lambda x: x.insert(0, tf.Variable(9.0)),
    "sorted": lambda x: x.sort(key=float),
    "reversed": lambda x: x.reverse(),
    "cleared": lambda x: x.clear(),
}


class TestRefusals:
    @pytest.mark.parametrize("how", sorted(MUTATIONS))
    def test_a_list_whose_elements_moved(self, tmp_path, how):
        root = tf.train.Checkpoint(l=[tf.Variable(2.0), tf.Variable(1.0)])
        MUTATIONS[how](root.l)
        with pytest.raises(ValueError, match="A list element was replaced"):
            root.write(tmp_path / "ckpt")
        assert list(tmp_path.iterdir()) == []

    def test_a_list_of_plain_values_may_do_anything(self, tmp_path):
        root = tf.train.Checkpoint(l=[3, 1, 2])
        root.l.sort()
        root.l[0] = 5
        del root.l[1]
        root.l.insert(0, 4)
        assert root.l == [4, 5, 3]
        assert keys_of(root.write(tmp_path / "ckpt")) == []

    def test_appending_is_always_fine(self, tmp_path):
        root = tf.train.Checkpoint(l=[tf.Variable(1.0)])
        root.l += [tf.Variable(2.0)]
        root.l.extend([tf.Variable(3.0)])
        root.l *= 2
        keys = keys_of(root.write(tmp_path / "ckpt"))
        assert keys == [f"l/{number}{VALUE}" for number in range(3)]

    def test_a_container_changed_behind_its_wrapper(self, tmp_path):
        original = [tf.Variable(1.0)]
        root = tf.train.Checkpoint(l=original)
        original.append(tf.Variable(2.0))
        with pytest.raises(ValueError, match="The wrapped list was modified outside the wrapper"):
            root.write(tmp_path / "ckpt")
        mapping = {"a": tf.Variable(1.0)}
        root = tf.train.Checkpoint(m=mapping)
        mapping["b"] = tf.Variable(2.0)
        with pytest.raises(ValueError, match="The wrapped dictionary was modified outside the wrapper"):
            root.write(tmp_path / "ckpt")

    def test_a_key_that_is_not_a_text(self, tmp_path):
        root = tf.train.Checkpoint(m={1: "plain"})
        assert keys_of(root.write(tmp_path / "ckpt")) == []
        root.m[2] = tf.Variable(1.0)
        with pytest.raises(ValueError, match="contains a non-string key which maps to a trackable object"):
            root.write(tmp_path / "ckpt")

    def test_a_replaced_or_deleted_dict_value_is_fine(self, tmp_path):
        root = tf.train.Checkpoint(m={"a": tf.Variable(1.0), "b": tf.Variable(2.0)})
        root.m["a"] = tf.Variable(5.0)
        path = root.write(tmp_path / "ckpt")
        assert tf.train.load_variable(path, f"m/a{VALUE}") == 5.0

    def test_keywords_must_be_trackable(self):
        with pytest.raises(ValueError, match="was expecting step to be a trackable object"):
            tf.train.Checkpoint(step=3)
        module = tf.Module()
        module.v = tf.Variable(1.0)
        with pytest.raises(ValueError, match=r"keyword argument v if root\.v already exists"):
            tf.train.Checkpoint(module, v=tf.Variable(2.0))

    def test_a_model_without_super_init(self):
        class Forgetful(tf.keras.Model):
            def __init__(self):
                self.l1 = tf.keras.layers.Dense(1)

        with pytest.raises(RuntimeError, match="you forgot to call"):
            Forgetful()


class TestVariables:
    def test_names_are_scoped_and_not_unique(self):
        assert tf.Variable(1.0).name == tf.Variable(2.0).name == "Variable:0"
        with tf.name_scope("outer"), tf.name_scope("inner"):
            assert tf.Variable(1.0, name="w").name == "outer/inner/w:0"

    def test_assignments(self):
        v = tf.Variable([1.0, 2.0])
        assert v.assign([3, 4]) is v
        assert v.assign_add([1.0, 1.0]).numpy().tolist() == [4.0, 5.0]
        assert v.assign_sub(tf.constant([1.0, 2.0])).numpy().tolist() == [3.0, 3.0]
        with pytest.raises(ValueError, match="Shape mismatch"):
            v.assign([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="requested dtype float32 for Tensor with dtype float64"):
            v.assign(tf.constant([1.0, 2.0], tf.float64))
        assert v.numpy().tolist() == [3.0, 3.0]

    def test_are_their_own(self):
        values = np.ones(2, np.float32)
        v = tf.Variable(values)
        values[:] = 5
        taken = v.numpy()
        taken[:] = 7
        assert v.numpy().tolist() == [1.0, 1.0]

    def test_show_as_tensorflows_do(self):
        assert repr(tf.Variable(0.1)) == "<tf.Variable 'Variable:0' shape=() dtype=float32, numpy=0.1>"

    def test_operators(self):
        v = tf.Variable(6)
        assert [int(x) for x in (v + 1, 2 * v, v - 1, 7 - v, v % 4, -v, v // 4)] == [7, 12, 5, 1, 2, -6, 1]
        assert v[None].shape == (1,)
        with pytest.raises(RuntimeError, match="assign_add"):
            v += 1

    def test_dtype_and_callables(self):
        assert tf.Variable(1, dtype=tf.int64).dtype == tf.int64
        assert tf.Variable(lambda: tf.ones([2])).shape == (2,)
        with pytest.raises(ValueError, match="must be specified"):
            tf.Variable()


class TestModule:
    def test_variables_and_submodules(self):
        class Inner(tf.Module):
            def __init__(self):
                super().__init__()
                self.w = tf.Variable(1.0)

        class Outer(tf.Module):
            def __init__(self):
                super().__init__(name="outer")
                self.parts = [Inner(), {"deep": Inner()}]
                self.b = tf.Variable(2.0, trainable=False)
                self.again = self.parts[0]

        module = Outer()
        assert len(module.variables) == 3
        assert len(module.trainable_variables) == 2
        assert module.non_trainable_variables[0] is module.b
        assert len(module.submodules) == 2
        assert module.name == "outer"
        assert Inner().name == "inner"

    def test_bad_name(self):
        with pytest.raises(ValueError, match="not a valid module name"):
            tf.Module(name="not good")

    def test_methods_in_a_name_scope(self):
        class Lazy(tf.Module):
            @tf.Module.with_name_scope
            def __call__(self):
                return tf.Variable(1.0, name="w")

        assert Lazy(name="lazy")().name == "lazy/w:0"
