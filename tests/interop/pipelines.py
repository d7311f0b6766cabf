"""Pipelines of `tf.data`, as programs of `D`, `np`, `tf` and `A` that TensorFlow and the runtime both run."""

from __future__ import annotations

import itertools
from typing import Any

PIPELINES = [
    (
        "D.from_tensor_slices(dict(x=np.arange(10, dtype=np.float32)[:, None], y=np.arange(50.)"
        ".reshape(10, 5))).repeat().batch(2)"
    ),
    "D.range(20)",
    "D.range(3, 40, 3)",
    "D.range(9, -9, -2)",
    "D.range(9, output_type=tf.int32).batch(2)",
    "D.from_tensors([1, 2])",
    "D.from_tensors(dict(a=[1, 2], b='x')).repeat(4)",
    "D.from_tensor_slices(np.arange(12, dtype=np.int32))",
    "D.from_tensor_slices((np.arange(12.), dict(a=np.arange(24).reshape(12, 2), b=['ab', ''] * 6))).batch(5)",
    "D.from_tensor_slices(np.arange(5, dtype=np.float16)).repeat(2)",
    "D.from_tensor_slices([True, False, True]).repeat()",
    "D.from_tensor_slices([b'a', b'bc', b'', b'd'] * 3).batch(3)",
    "D.from_tensor_slices(['ä', 'b']).repeat(3).enumerate()",
    "D.range(5).repeat(2)",
    "D.range(5).repeat(2).repeat(2)",
    "D.range(3).repeat(1)",
    "D.range(3).repeat(0)",
    "D.range(0).repeat()",
    "D.range(13).batch(4)",
    "D.range(13).batch(4, drop_remainder=True)",
    "D.range(12).batch(4).batch(2)",
    "D.range(12).batch(4).repeat(2).take(5)",
    "D.range(30).skip(3).take(9)",
    "D.range(3).skip(7)",
    "D.range(9).skip(-1)",
    "D.range(9).skip(0).take(-1)",
    "D.range(9).take(0)",
    "D.range(15).map(lambda x: x * x)",
    "D.range(15).map(lambda x: x)",
    "D.range(15).map(lambda x: x).batch(4)",
    "D.range(15).map(lambda x: (x, x + 1)).map(lambda x, y: (x, y)).batch(4)",
    "D.range(15).map(lambda x: dict(a=x, b=(x + 1, -x)))",
    "D.range(15).map(lambda x: x + 1).map(lambda x: x * 2)",
    "D.range(15).map(lambda x: (x, x * 2)).batch(4)",
    "D.range(15).map(lambda x: x + 1).batch(4, drop_remainder=True).repeat(2)",
    "D.range(15).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2)",
    "D.range(9).map(lambda x: x + 1).repeat(2).batch(4)",
    "D.range(25).filter(lambda x: x % 3 == 0)",
    "D.range(5).filter(lambda x: x < 2)",
    "D.range(25).filter(lambda x: x % 3 == 0).map(lambda x: x + 1).repeat(2)",
    "D.zip((D.range(10), D.range(100, 110)))",
    "D.zip((D.range(3), D.range(5)))",
    "D.zip(dict(a=D.range(6).repeat(), b=(D.range(9).batch(2), D.range(7).map(lambda x: -x))))",
    "D.range(4).concatenate(D.range(50, 56))",
    "D.range(2).concatenate(D.range(2)).concatenate(D.range(7, 9)).repeat(2)",
    "D.range(3).map(lambda x: x + 1).concatenate(D.range(3).batch(1).unbatch())",
    "D.range(5, 15).enumerate(start=7)",
    "D.range(20).prefetch(3)",
    "D.range(20).prefetch(0).repeat(2)",
    "D.range(20).prefetch(2).batch(3)",
    "D.range(20).shuffle(6, seed=7, reshuffle_each_iteration=True)",
    "D.range(20).shuffle(6, seed=7).batch(2).repeat(3)",
    "D.range(8).shuffle(8, seed=3).repeat(3).batch(3)",
    "D.range(5).shuffle(20, seed=1).repeat()",
    "D.range(2).shuffle(9, seed=1).repeat()",
    "D.range(12).shuffle(5, seed=11, reshuffle_each_iteration=False).repeat(2)",
    "D.range(12).shuffle(5, seed=11, reshuffle_each_iteration=False).batch(2).repeat(2)",
    "D.range(12).shuffle(5)",
    "D.range(12).shuffle(5).shuffle(3).repeat(2)",
    "D.range(12).shuffle(5, seed=-3)",
    "D.range(12).shuffle(5, seed=(1 << 31) + 5)",
    "D.range(12).shuffle(5, seed=0)",
    "D.range(12).shuffle(1, seed=4).repeat(2)",
    "D.range(9).repeat(2).shuffle(4, seed=2)",
    "D.from_tensor_slices(dict(a=['x', 'y', 'z'], b=[1, 2, 3])).shuffle(2, seed=1).repeat(3)",
    "D.zip((D.range(9).shuffle(4, seed=2), D.range(9).shuffle(9, seed=5))).repeat(2)",
    "D.range(9).cache().repeat(2)",
    "D.range(3).cache()",
    "D.range(3).map(lambda x: x + 1).cache().shuffle(2, seed=1).repeat(5)",
    "D.range(4).cache().batch(3).repeat(3)",
    "D.range(3).interleave(lambda x: D.range(x * 10, x * 10 + 4), cycle_length=2, block_length=2)",
    "D.range(2).interleave(lambda x: D.range(2), cycle_length=3)",
    "D.range(6).interleave(lambda x: D.range(x), cycle_length=3, block_length=4)",
    "D.range(4).interleave(lambda x: D.from_tensors(x).repeat(3), cycle_length=2).batch(2)",
    "D.range(8).batch(2).interleave(lambda x: D.from_tensor_slices(x).map(lambda y: y + 1), cycle_length=3)",
    "D.range(3).flat_map(lambda x: D.range(x + 2))",
    "D.range(2).flat_map(lambda x: D.range(2))",
    "D.range(5).flat_map(lambda x: D.range(6).map(lambda y: y + x).batch(2))",
    "D.range(5).flat_map(lambda x: D.range(6).take(-1).skip(0).repeat(1).prefetch(2))",
    "D.range(3).flat_map(lambda x: D.range(3).flat_map(lambda y: D.range(3).map(lambda z: x + y * z)))",
    "D.range(4).flat_map(lambda x: D.range(3).map(lambda y: y).batch(2)).repeat(2)",
    "D.range(12).window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3))",
    "D.range(12).window(4, shift=1, stride=2).flat_map(lambda w: w)",
    "D.range(12).window(2, shift=5).flat_map(lambda w: w.batch(2))",
    (
        "D.from_tensor_slices(dict(a=[1, 2, 3, 4, 5], b=[1., 2, 3, 4, 5])).window(2)"
        ".flat_map(lambda w: D.zip((w['a'], w['b'])))"
    ),
    (
        "D.from_tensor_slices(['a', 'bc', '', 'd', 'e']).window(3, shift=1)"
        ".interleave(lambda w: w, cycle_length=2)"
    ),
    (
        "D.range(9).map(lambda x: (x, -x)).window(2).shuffle(3, seed=1)"
        ".flat_map(lambda a, b: D.zip((a, b))).repeat(2)"
    ),
    "D.range(9).window(2).prefetch(2).flat_map(lambda w: w.map(lambda x: x + 1).batch(2))",
    "D.range(1, 8).map(lambda x: tf.fill([x], x)).padded_batch(2)",
    (
        "D.range(1, 9).map(lambda x: tf.fill([x], x))"
        ".padded_batch(3, [9], tf.constant(-1, tf.int64), drop_remainder=True)"
    ),
    "D.range(1, 9).map(lambda x: (tf.fill([x], x), x)).padded_batch(3, ([None], [])).repeat(2)",
    "D.range(12).map(lambda x: tf.fill([x % 3], x)).padded_batch(4).repeat(2)",
    "D.range(12).map(lambda x: tf.fill([x % 3], x)).shuffle(4, seed=3).padded_batch(2).repeat(2)",
    "D.range(22).flat_map(lambda x: D.range(x % 4)).map(lambda x: (x, -x)).batch(4)",
    "D.range(20).shard(3, 1)",
    "D.range(5).shard(2, 1)",
    "D.range(9).shard(1, 0)",
    "D.range(21).shard(3, 1).shard(2, 1).repeat(3)",
    "D.range(12).batch(5).unbatch()",
    "D.from_tensor_slices(dict(a=[[1, 2], [3, 4]], b=[[b'a', b'b'], [b'c', b'd']])).unbatch().repeat(3)",
    "D.range(12).batch(2).shuffle(3, seed=4).unbatch().batch(3)",
    # As programs ask for speed.
    "D.range(20).map(lambda x: x * 2, num_parallel_calls=A).batch(4).prefetch(A)",
    "D.range(20).map(lambda x: x * 2, num_parallel_calls=A).cache().shuffle(9).repeat().batch(4).prefetch(A)",
    "D.range(20).batch(4, num_parallel_calls=A).prefetch(A)",
    "D.range(22).map(lambda x: x + 1).batch(4, num_parallel_calls=2, drop_remainder=True).repeat(2)",
    "D.range(9).map(lambda x: x + 1).batch(2, num_parallel_calls=A).map(lambda x: x * 2).unbatch().batch(5)",
    "D.from_tensor_slices(dict(a=np.arange(9.), b=['x'] * 9)).batch(4, num_parallel_calls=2).repeat(2)",
    "D.range(9).flat_map(lambda x: D.range(3).batch(2, num_parallel_calls=2))",
    "D.range(5).interleave(lambda x: D.range(x * 10, x * 10 + 4), cycle_length=2, num_parallel_calls=2)",
    (
        "D.range(7).interleave(lambda x: D.range(x % 3), cycle_length=3, block_length=2, "
        "num_parallel_calls=3).shuffle(3, seed=1).repeat(2)"
    ),
    "D.range(7).interleave(lambda x: D.range(x % 3), cycle_length=10, num_parallel_calls=A).repeat(2)",
    "D.range(5).interleave(lambda x: D.from_tensors(x).repeat(3), num_parallel_calls=A)",
    "D.range(4).interleave(lambda x: D.range(x + 1).repeat(), cycle_length=2, num_parallel_calls=2)",
    (
        "D.range(6).interleave(lambda x: D.range(3).map(lambda y: x * 10 + y).batch(2, "
        "num_parallel_calls=2), cycle_length=2, num_parallel_calls=2)"
    ),
    (
        "D.from_tensor_slices(['b', 'a', 'c']).interleave(lambda f: D.from_tensors(f).repeat(3), "
        "cycle_length=2, block_length=2, num_parallel_calls=A, deterministic=True)"
        ".shuffle(4, seed=2).batch(2).prefetch(A)"
    ),
    # Functions that change nothing but the structure.
    "D.range(9).map(tf.identity).shuffle(3, seed=1).batch(2)",
    "D.range(9).map(lambda x: tf.cast(x, tf.int64)).shuffle(3, seed=1).batch(2)",
    "D.range(9).map(lambda x: tf.ensure_shape(x, [])).shuffle(3, seed=1)",
    "D.range(9).map(lambda x: (x,)).repeat(2)",
    "D.range(9).map(lambda x: (x, [x, x + 1])).batch(2)",
    "D.zip((D.range(5), D.range(5, 10))).map(lambda *both: both).shuffle(3, seed=1)",
    "D.zip((D.range(5), D.range(5, 10))).map(lambda a, b: (b, a)).shuffle(3, seed=1)",
    (
        "D.from_tensor_slices((np.arange(12.), np.arange(12))).map(lambda x, y: (dict(x=x), y)).shuffle(4)"
        ".batch(4).map(lambda d, y: (d['x'] * 2, y)).prefetch(A)"
    ),
    (
        "D.from_tensor_slices(dict(a=[1, 2, 3], b=[1., 2., 3.])).map(lambda d: (d['a'] * 2, d['b']))"
        ".map(lambda a, b: dict(a=a, b=b)).batch(2)"
    ),
    (
        "D.from_tensor_slices(dict(a=[1, 2, 3], b=[1., 2., 3.])).shuffle(3, seed=2)"
        ".map(lambda d: (d['a'], d['b'])).map(lambda a, b: dict(q=a, r=b)).repeat(2)"
    ),
    "D.from_tensor_slices(dict(a=[1, 2], b=[1., 2.])).batch(2).map(lambda d: dict(z=d['a'], y=d['b']))",
]

POSITIONS = [0, 1, 2, 3, 4, 6, 9, 14, 40]
"""After how many elements each is saved; past the end of many."""
FOLLOWING = 12


def opened(tf: Any, np: Any, program: str) -> Any:
    """Return an iterator over a pipeline of `tf`."""
    tf.random.set_seed(1)
    return iter(eval(program, {"D": tf.data.Dataset, "np": np, "tf": tf, "A": tf.data.AUTOTUNE}))


def drawn(iterator: Any, count: int) -> list[Any]:
    """Return the next elements, at most so many, as JSON has them."""
    return [_plain(element) for element in itertools.islice(iterator, count)]


def _plain(element: Any) -> Any:
    if isinstance(element, dict):
        return {key: _plain(value) for key, value in element.items()}
    if isinstance(element, tuple):
        return [_plain(value) for value in element]
    value = element.numpy()
    if isinstance(value, bytes):
        return value.hex()
    return [one.hex() for one in value.reshape(-1)] if value.dtype == object else value.tolist()
