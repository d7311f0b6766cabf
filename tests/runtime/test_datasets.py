"""Datasets, and iterators that go on at the very next element."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

import ckpt_cli.runtime as tf

Dataset = tf.data.Dataset


class Pair(NamedTuple):
    left: Any
    right: Any


def values(dataset, most=100):
    return [
        tf.nest.map_structure(lambda leaf: leaf.tolist(), one)
        for one in dataset.take(most).as_numpy_iterator()
    ]


class TestPipelines:
    def test_slices_keep_their_structure(self):
        dataset = Dataset.from_tensor_slices({"z": [1, 2], "a": (np.ones((2, 2)), Pair([3, 4], [5, 6]))})
        first = next(iter(dataset))
        assert list(first) == ["z", "a"]
        assert first["z"].numpy() == 1
        assert first["a"][0].dtype == tf.float64
        assert first["a"][1].right.numpy() == 5
        with pytest.raises(ValueError, match="not compatible"):
            Dataset.from_tensor_slices(([1, 2], [1, 2, 3]))

    def test_range_and_tensors(self):
        assert values(Dataset.range(5)) == [0, 1, 2, 3, 4]
        assert values(Dataset.range(1, 10, 4)) == [1, 5, 9]
        assert next(iter(Dataset.range(2))).dtype == tf.int64
        assert values(Dataset.from_tensors([1, 2])) == [[1, 2]]

    def test_repeat_and_batch(self):
        assert values(Dataset.range(3).repeat(2)) == [0, 1, 2, 0, 1, 2]
        assert values(Dataset.range(3).repeat(), 7) == [0, 1, 2, 0, 1, 2, 0]
        assert values(Dataset.range(5).batch(2)) == [[0, 1], [2, 3], [4]]
        assert values(Dataset.range(5).batch(2, drop_remainder=True)) == [[0, 1], [2, 3]]
        assert values(Dataset.range(3).repeat().batch(2), 3) == [[0, 1], [2, 0], [1, 2]]
        assert values(Dataset.range(4).batch(2).unbatch()) == [0, 1, 2, 3]
        assert values(Dataset.range(0).repeat()) == []

    def test_map_filter_take_skip(self):
        assert values(Dataset.range(4).map(lambda x: x * x)) == [0, 1, 4, 9]
        assert values(Dataset.range(4).map(lambda x: (x, x + 1)).map(lambda a, b: a + b)) == [1, 3, 5, 7]
        assert values(Dataset.range(2).map(lambda x: {"y": x})) == [{"y": 0}, {"y": 1}]
        assert values(Dataset.range(6).filter(lambda x: x % 2 == 0)) == [0, 2, 4]
        assert values(Dataset.range(6).skip(4)) == [4, 5]
        assert values(Dataset.range(6).take(-1).take(2)) == [0, 1]

    def test_zip_concatenate_enumerate_generator(self):
        assert values(Dataset.zip((Dataset.range(3), Dataset.range(5, 7)))) == [(0, 5), (1, 6)]
        assert values(Dataset.range(2).concatenate(Dataset.range(5, 6))) == [0, 1, 5]
        assert values(Dataset.range(5, 7).enumerate(start=3)) == [(3, 5), (4, 6)]
        assert values(Dataset.from_generator(lambda: iter([1, 2]), tf.int64)) == [1, 2]

    def test_strings_and_length(self):
        assert values(Dataset.from_tensor_slices(["a", "b"]).batch(2))[0] == [b"a", b"b"]
        assert len(Dataset.range(5).batch(2).repeat(3)) == 9
        assert int(Dataset.range(5).repeat().cardinality()) == -1
        with pytest.raises(TypeError, match="infinite"):
            len(Dataset.range(5).repeat())
        assert Dataset.range(4).batch(2).element_spec == tf.TensorSpec([2], tf.int64)
        assert int(Dataset.range(4).reduce(np.int64(0), lambda a, b: a + b)) == 6

    def test_iterators_end(self):
        iterator = iter(Dataset.range(1))
        next(iterator)
        with pytest.raises(StopIteration):
            next(iterator)
        with pytest.raises(tf.errors.OutOfRangeError):
            iterator.get_next()


class TestShuffle:
    def test_is_a_permutation_told_by_the_seed(self):
        dataset = Dataset.range(50).shuffle(50, seed=3)
        first = values(dataset)
        assert sorted(first) == list(range(50))
        assert first != list(range(50))
        assert first == values(Dataset.range(50).shuffle(50, seed=3))
        assert first != values(Dataset.range(50).shuffle(50, seed=4))

    def test_each_pass_is_shuffled_anew_unless_told(self):
        dataset = Dataset.range(20).shuffle(20, seed=3)
        assert [int(x) for x in dataset] != [int(x) for x in dataset]
        repeated = values(Dataset.range(20).shuffle(20, seed=3).repeat(2))
        assert sorted(repeated[:20]) == sorted(repeated[20:])
        assert repeated[:20] != repeated[20:]
        same = Dataset.range(20).shuffle(20, seed=3, reshuffle_each_iteration=False)
        assert [int(x) for x in same] == [int(x) for x in same]

    def test_draws_from_a_buffer(self):
        found = values(Dataset.range(100).shuffle(5, seed=1))
        assert all(element <= place + 5 for place, element in enumerate(found))

    def test_the_global_seed(self):
        tf.random.set_seed(9)
        first = values(Dataset.range(20).shuffle(20))
        tf.random.set_seed(9)
        assert first == values(Dataset.range(20).shuffle(20))


def strings():
    return Dataset.from_tensor_slices({"name": ["a", "bb", "ccc"], "x": np.arange(6.0).reshape(3, 2)})


PIPELINES = {
    "guide": lambda: Dataset.from_tensor_slices({"x": np.arange(10.0)[:, None]}).repeat().batch(2),
    "shuffled": lambda: Dataset.range(20).shuffle(7, seed=5).repeat().batch(3),
    "shuffled_batches": lambda: Dataset.range(20).repeat().batch(3).shuffle(4, seed=5),
    "strings": lambda: strings().shuffle(2, seed=1).repeat(),
    "zipped": lambda: Dataset.zip((Dataset.range(5).repeat(), Dataset.range(7).shuffle(3, seed=2).repeat())),
    "mapped": lambda: Dataset.range(9).map(lambda x: (x, x * x)).filter(lambda x, y: y % 2 == 0).repeat(),
    "unbatched": lambda: Dataset.range(9).batch(4).unbatch().repeat(),
    "cut": lambda: Dataset.range(100).skip(3).take(50).enumerate(),
    "joined": lambda: Dataset.range(5).concatenate(Dataset.range(50, 70)),
    "generated": lambda: Dataset.from_generator(lambda: iter(range(40)), tf.int64).repeat(),
}


def plain(leaf):
    value = leaf.numpy()
    return value if isinstance(value, bytes) else value.tolist()


def drawn(iterator, count):
    return [tf.nest.map_structure(plain, next(iterator)) for _ in range(count)]


@pytest.mark.parametrize("name", sorted(PIPELINES))
@pytest.mark.parametrize("before", [0, 1, 4, 11])
def test_a_restored_iterator_goes_on_at_the_very_next_element(tmp_path, name, before):
    iterator = iter(PIPELINES[name]())
    drawn(iterator, before)
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "ckpt")
    expected = drawn(iterator, 12)
    again = iter(PIPELINES[name]())
    next(again)
    tf.train.Checkpoint(iterator=again).restore(path).assert_consumed()
    assert drawn(again, 12) == expected


def test_an_unseeded_shuffle_goes_on_as_well(tmp_path):
    iterator = iter(Dataset.range(20).shuffle(20).repeat())
    drawn(iterator, 5)
    path = tf.train.Checkpoint(i=iterator).save(tmp_path / "ckpt")
    again = iter(Dataset.range(20).shuffle(20).repeat())
    tf.train.Checkpoint(i=again).restore(path)
    assert drawn(again, 15) == drawn(iterator, 15)


def test_a_finished_iterator_stays_finished(tmp_path):
    iterator = iter(Dataset.range(2))
    drawn(iterator, 2)
    path = tf.train.Checkpoint(i=iterator).save(tmp_path / "ckpt")
    again = iter(Dataset.range(2))
    tf.train.Checkpoint(i=again).restore(path)
    with pytest.raises(StopIteration):
        next(again)


def test_a_state_of_another_pipeline_is_refused(tmp_path):
    path = tf.train.Checkpoint(i=iter(Dataset.range(5).batch(2)), v=tf.Variable(1.0)).save(tmp_path / "ckpt")
    iterator, v = iter(Dataset.range(5).repeat()), tf.Variable(0.0)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"is of a dataset batch\(range\), this one of repeat\(range\)"
    ):
        tf.train.Checkpoint(i=iterator, v=v).restore(path)
    assert float(v) == 0.0
    assert next(iterator).numpy() == 0


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"pipeline":"range","number":0,"state":5}',
        b'{"pipeline":"range","number":0,"state":{"map":[["at","x"]]}}',
    ],
)
def test_a_damaged_state_is_refused(tmp_path, state):
    class Damaged(tf.Module):
        def _serialize(self):
            value = np.empty((), object)
            value[()] = state
            return {"ITERATOR": value}

        _key_suffix = "_STATE"

    path = tf.train.Checkpoint(i=Damaged()).write(tmp_path / "ckpt")
    iterator = iter(Dataset.range(5))
    next(iterator)
    with pytest.raises(tf.errors.DataLossError, match="state of an iterator"):
        tf.train.Checkpoint(i=iterator).read(path)
    assert next(iterator).numpy() == 1


def test_a_state_is_json(tmp_path):
    path = tf.train.Checkpoint(i=iter(Dataset.range(5).batch(2))).write(tmp_path / "ckpt")
    state = json.loads(tf.train.load_variable(path, "i/.ATTRIBUTES/ITERATOR_STATE"))
    assert state["pipeline"] == "batch(range)"
