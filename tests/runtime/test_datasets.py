"""Datasets, and iterators that continue at the very next element."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from formats.tf.run.iterator_state import decode, encode

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
        assert Dataset.range(4).batch(2).element_spec == tf.TensorSpec([None], tf.int64)
        assert Dataset.range(4).batch(2, drop_remainder=True).element_spec == tf.TensorSpec([2], tf.int64)
        assert int(Dataset.range(4).reduce(np.int64(0), lambda a, b: a + b)) == 6

    def test_iterators_end(self):
        iterator = iter(Dataset.range(1))
        next(iterator)
        with pytest.raises(StopIteration):
            next(iterator)
        with pytest.raises(tf.errors.OutOfRangeError):
            iterator.get_next()


class TestShuffle:
    def test_is_a_permutation_determined_by_the_seed(self):
        dataset = Dataset.range(50).shuffle(50, seed=3)
        first = values(dataset)
        assert sorted(first) == list(range(50))
        assert first != list(range(50))
        assert first == values(Dataset.range(50).shuffle(50, seed=3))
        assert first != values(Dataset.range(50).shuffle(50, seed=4))

    def test_each_pass_is_shuffled_again_by_default(self):
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


def pairs():
    return Dataset.from_tensor_slices({"a": np.arange(60), "b": [str(number) for number in range(60)]})


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
    "padded": lambda: Dataset.range(1, 20).map(lambda x: tf.fill([x], x)).padded_batch(2).repeat(),
    "windows": lambda: Dataset.range(40).window(3, shift=1).flat_map(lambda w: w.batch(2)),
    "windows_of_dicts": lambda: (
        pairs().window(4, shift=3, drop_remainder=True).flat_map(lambda w: Dataset.zip((w["a"], w["b"])))
    ),
    "interleaved": lambda: Dataset.range(20).interleave(
        lambda x: Dataset.range(x, 2 * x), cycle_length=3, block_length=2
    ),
    "sharded": lambda: Dataset.range(90).shard(3, 2),
    "remembered": lambda: Dataset.range(7).map(lambda x: x * x).cache().shuffle(3, seed=1).repeat(),
    "prefetched": lambda: Dataset.range(50).prefetch(3).map(lambda x: x).batch(2, drop_remainder=True),
    "mapped_batches": lambda: Dataset.range(50).map(lambda x: (x, -x)).batch(2),
    "kept_order": lambda: (
        Dataset.range(8).shuffle(5, seed=2, reshuffle_each_iteration=False).batch(3).repeat()
    ),
    "one": lambda: Dataset.from_tensors({"a": [1, 2]}).repeat(),
}


def plain(leaf):
    value = leaf.numpy()
    return value if isinstance(value, bytes) else value.tolist()


def drawn(iterator, count):
    return [tf.nest.map_structure(plain, next(iterator)) for _ in range(count)]


@pytest.mark.parametrize("name", sorted(PIPELINES))
@pytest.mark.parametrize("before", [0, 1, 4, 11])
def test_a_restored_iterator_continues_at_the_very_next_element(tmp_path, name, before):
    iterator = iter(PIPELINES[name]())
    drawn(iterator, before)
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "ckpt")
    expected = drawn(iterator, 12)
    again = iter(PIPELINES[name]())
    next(again)
    tf.train.Checkpoint(iterator=again).restore(path).assert_consumed()
    assert drawn(again, 12) == expected


def test_an_unseeded_shuffle_continues_as_well(tmp_path):
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


def test_a_state_of_another_pipeline_is_rejected(tmp_path):
    path = tf.train.Checkpoint(i=iter(Dataset.range(5).batch(2)), v=tf.Variable(1.0)).save(tmp_path / "ckpt")
    iterator, v = iter(Dataset.range(5).repeat()), tf.Variable(0.0)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"not of this dataset, ForeverRepeat\(Range\): Iterator::Root::Prefetch::ForeverRepeat has no",
    ):
        tf.train.Checkpoint(i=iterator, v=v).restore(path)
    assert float(v) == 0.0
    assert next(iterator).numpy() == 0


def restored(dataset, change):
    """Return an iterator restored from the state of one after two elements, its sections changed."""
    iterator = iter(dataset())
    drawn(iterator, 2)
    sections = decode(iterator._serialize()["ITERATOR"])
    change(sections)
    again = iter(dataset())
    value = np.empty(len(sections), object)
    value[:] = encode(sections)
    again._take_restored("ITERATOR", again._decode_restored("ITERATOR", value))
    return again


def put(section, key, value):
    def change(sections):
        (found,) = [prefix for prefix in sections if prefix.endswith(section)]
        (name,) = [one for one in sections[found] if one.endswith(key)]
        sections[found][name] = np.asarray(value)

    return change


DAMAGED = {
    "a place past the end": (lambda: Dataset.from_tensor_slices([1, 2, 3]), put("TensorSlice", ":index", 4)),
    "a place before the beginning": (
        lambda: Dataset.from_tensor_slices([1, 2, 3]),
        put("TensorSlice", ":index", -1),
    ),
    "a fraction": (lambda: Dataset.range(5), put("Range", "next", 1.5)),
    "a vector": (lambda: Dataset.range(5), put("Range", "next", [1])),
    "between two elements": (lambda: Dataset.range(0, 10, 2), put("Range", "next", 3)),
    "a pass too many": (lambda: Dataset.range(5).repeat(2), put("FiniteRepeat", "i", 3)),
    "another ring": (lambda: Dataset.range(9).shuffle(3, seed=1), put("Shuffle:buffer", "num_elements", 4)),
    "more than is there": (lambda: Dataset.range(9).shuffle(3, seed=1), put("Shuffle", "_end_0", 9)),
    "an empty slot": (lambda: Dataset.range(9).shuffle(3, seed=1), put("buffer::2", "num_components", 0)),
    "more components": (lambda: Dataset.range(9).shuffle(3, seed=1), put("buffer::2", "num_components", 2)),
    "another dtype": (lambda: Dataset.range(9).shuffle(3, seed=1), put("buffer::2", "component[0]", 1.5)),
    "a buffer without its elements": (lambda: Dataset.range(5), put("Prefetch", "buffer_size", 1 << 40)),
    "a memory without its elements": (lambda: Dataset.range(5).cache(), put("CacheImpl", "num_elements", 9)),
    "another cycle": (
        lambda: Dataset.range(5).interleave(lambda x: Dataset.range(x + 1), cycle_length=2),
        put("Interleave", "cycle_index", 2),
    ),
    "half a batch": (lambda: Dataset.range(9).batch(3).unbatch(), put("Unbatch", ":n", 7)),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_state_is_rejected(name):
    dataset, change = DAMAGED[name]
    assert len(drawn(restored(dataset, lambda sections: None), 1)) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="the saved iterator is not of this dataset"):
        restored(dataset, change)


def test_a_damaged_vector_is_rejected(tmp_path):
    iterator = iter(Dataset.range(5))
    with pytest.raises(tf.errors.DataLossError, match="state of an iterator cannot be decoded"):
        iterator._decode_restored("ITERATOR", np.array([b"x"], object))
    assert next(iterator).numpy() == 0


def test_a_state_of_the_first_release_begins_again(tmp_path, caplog):
    class Old(tf.Module):
        def _serialize(self):
            value = np.empty((), object)
            value[()] = b'{"pipeline":"range"}'
            return {"ITERATOR": value}

        _key_suffix = "_STATE"

    path = tf.train.Checkpoint(i=Old()).write(tmp_path / "ckpt")
    iterator = iter(Dataset.range(5))
    tf.train.Checkpoint(i=iterator).read(path).expect_partial()
    assert "the iterator restarts" in caplog.text
    assert next(iterator).numpy() == 0


def test_a_rejected_state_leaves_what_iterators_share():
    dataset = Dataset.range(9).shuffle(9, seed=3).repeat().batch(2)
    first = next(iter(dataset)).numpy().tolist()
    iterator = iter(dataset)
    state = iter(Dataset.range(9).shuffle(8, seed=3).repeat().batch(2))._serialize()["ITERATOR"]
    with pytest.raises(tf.errors.InvalidArgumentError):
        iterator._decode_restored("ITERATOR", state)
    fresh = Dataset.range(9).shuffle(9, seed=3).repeat().batch(2)
    assert first == next(iter(fresh)).numpy().tolist()
    expected = [next(iter(fresh)).numpy().tolist() for _ in range(2)]
    assert [next(iterator).numpy().tolist(), next(iter(dataset)).numpy().tolist()] == expected


def test_a_generator_is_drawn_from_for_its_elements_alone(tmp_path):
    taken = iter(range(100))

    def dataset(**signature):
        return Dataset.from_generator(lambda: taken, **signature)

    told = dataset(output_signature=tf.TensorSpec([], tf.int64))
    iterator = iter(told.map(lambda x: x).map(lambda x: x + 1).batch(2))
    assert told.batch(2).element_spec == tf.TensorSpec([None], tf.int64)
    with pytest.raises(tf.errors.FailedPreconditionError, match="PyFunc is stateful"):
        tf.train.Checkpoint(i=iterator).save(tmp_path / "ckpt")
    assert next(iterator).numpy().tolist() == [1, 2]
    shaped = dataset(output_types=tf.int64, output_shapes=[]).padded_batch(2, [])
    assert next(iter(shaped)).numpy().tolist() == [2, 3]


def test_elements_of_other_shapes_make_no_batch():
    dataset = Dataset.range(1, 5).map(lambda x: tf.fill([x], x)).batch(2)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"in component 0. First element had shape \[1\] and element 1 had shape \[2\]",
    ):
        next(iter(dataset))


VARIABLE = tf.Variable(1, dtype=tf.int64)
REFUSED = {
    "generator": (lambda: Dataset.from_generator(lambda: iter(range(9)), tf.int64), "PyFunc is stateful"),
    "random": (lambda: Dataset.range(9).map(lambda x: tf.random.uniform([])), "RandomUniform is stateful"),
    "later": (lambda: Dataset.range(9).map(lambda x: (x + 1) * VARIABLE), "ReadVariableOp is stateful"),
    "normal": (lambda: Dataset.range(9).map(lambda x: tf.random.normal([])), "RandomStandardNormal is"),
    "shuffled": (
        lambda: Dataset.range(9).map(lambda x: tf.random.shuffle([x, x])),
        "RandomShuffle is stateful",
    ),
    "variable": (lambda: Dataset.range(9).map(lambda x: x + VARIABLE), "ReadVariableOp is stateful"),
    "predicate": (lambda: Dataset.range(9).filter(lambda x: x > VARIABLE), "ReadVariableOp is stateful"),
    "batched": (lambda: Dataset.range(9).map(lambda x: x + VARIABLE).batch(2), "ReadVariableOp is stateful"),
    "inner": (
        lambda: Dataset.range(9).flat_map(lambda x: Dataset.range(3).shuffle(2, seed=1)),
        "DummySeedGenerator is stateful",
    ),
}


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_cross_is_rejected_at_save(tmp_path, name, before):
    dataset, complaint = REFUSED[name]
    iterator = iter(dataset())
    drawn(iterator, before)
    if (name, before) == ("inner", 0):
        return  # Nothing of it has been entered.
    with pytest.raises(tf.errors.FailedPreconditionError, match=complaint):
        tf.train.Checkpoint(i=iterator).save(tmp_path / "ckpt")
    assert list(tmp_path.iterdir()) == []


def test_parallel_steps_give_elements_in_order():
    def interleaved(**more):
        made = Dataset.range(7).interleave(lambda x: Dataset.range(10 * x, 11 * x), 3, 2, **more)
        return list(made.as_numpy_iterator())

    assert interleaved(num_parallel_calls=2) == interleaved()
    assert interleaved(num_parallel_calls=tf.data.AUTOTUNE, deterministic=False) == interleaved()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="`num_parallel_calls` is 4 and `cycle_length` is 3"
    ):
        interleaved(num_parallel_calls=4)
    batches = [
        batch.tolist() for batch in Dataset.range(5).batch(2, num_parallel_calls=2).as_numpy_iterator()
    ]
    assert batches == [[0, 1], [2, 3], [4]]


def test_a_function_is_looked_at_without_effect():
    count, seen = tf.Variable(0), []

    def counted(x):
        count.assign_add(1)
        return x

    def chosen(x, y):
        seen.append(type(x))
        return (x, y) if x > 1 else (y, x)

    assert len(list(Dataset.range(3).map(counted))) == int(count) == 3
    pairs = Dataset.zip((Dataset.range(4), Dataset.range(10, 14)))
    assert [int(one) for one, _ in pairs.map(chosen)] == [10, 11, 2, 3]
    assert next(pairs.map(lambda x, y: {"b": y, "a": x}).as_numpy_iterator()) == {"a": 0, "b": 10}
    assert len(seen) == 5


def test_what_is_not_implemented_is_rejected_by_name():
    with pytest.raises(tf.errors.UnimplementedError, match="a cache in a file is not implemented"):
        Dataset.range(3).cache("file")
    with pytest.raises(tf.errors.UnimplementedError, match="unknown size"):
        Dataset.range(3).shuffle(tf.data.UNKNOWN_CARDINALITY)
