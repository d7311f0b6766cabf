"""Graphs and Sessions: no function computes with the values that a graph was recorded with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ckpt_cli.runtime as tf

v1 = tf.compat.v1
FAMILIES = ("", "nn.", "math.", "linalg.")
SHAPES = [
    ("float32", (None, 4)), ("float32", (None, 4), (None, 4)), ("float32", (4, 4)), ("float32", (None,)),
    ("int32", (None, 4)), ("int32", (None, 4), (None, 4)), ("int32", (None,)), ("int32", (None,), (None,)),
    ("int32", (None, 4), (None,)),
]  # fmt: skip
NOT_OF_TENSORS = {"print", "function", "custom_gradient", "is_tensor", "control_dependencies", "device"}


def functions() -> dict[str, Any]:
    found = {}
    for family in FAMILIES:
        module = getattr(tf, family[:-1]) if family else tf
        for name in set(module.__all__) - NOT_OF_TENSORS:
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type):
                found[f"{family}{name}"] = value
    return found


def values(kind: str, shapes: Any) -> list[Any]:
    """Return other values than those that graphs are recorded with, of another size."""
    random = np.random.default_rng(3)
    found = [[5 if one is None else one for one in shape] for shape in shapes]
    if kind == "int32":
        return [random.integers(0, 2, shape).astype(kind) for shape in found]
    return [random.normal(size=shape).astype(kind) for shape in found]


def in_a_session(function: Any, kind: str, shapes: Any, given: list[Any]) -> Any:
    with tf.Graph().as_default(), v1.Session() as sess:
        fed = [v1.placeholder(kind, shape) for shape in shapes]
        return sess.run(function(*fed), dict(zip(fed, given, strict=True)))


def test_functions_compute_the_same_in_a_session_or_are_rejected() -> None:
    equal, rejected = 0, set()
    for name, function in functions().items():
        for kind, *shapes in SHAPES:
            given = values(kind, shapes)
            try:
                expected = tf.nest.flatten(function(*map(tf.constant, given)))
            except Exception:
                continue  # not a function of such tensors
            try:
                found = tf.nest.flatten(in_a_session(function, kind, shapes, given))
            except (NotImplementedError, ValueError, TypeError, tf.errors.InvalidArgumentError):
                rejected.add(name.rpartition(".")[2])
                continue
            for mine, other in zip(found, expected, strict=True):
                one, two = np.asarray(mine), np.asarray(other)
                assert one.shape == two.shape, name
                assert one.dtype == two.dtype, name
                if one.dtype.kind in "fci":
                    np.testing.assert_allclose(one, two, 1e-5, 1e-6, err_msg=name)
                else:
                    assert (one == two).all(), name
            equal += 1
    assert equal > 800
    assert rejected <= {
        "argsort", "bincount", "boolean_mask", "compute_average_loss", "confusion_matrix", "constant", "expm",
        "global_norm", "meshgrid", "ones", "repeat", "segment_mean", "sequence_mask", "sort", "top_k",
        "unstack", "zeros", "size", "reduce_sum", "segment_sum",
    }  # fmt: skip


@pytest.fixture
def default() -> Any:
    v1.disable_eager_execution()
    yield
    v1.reset_default_graph()
    tf.deferred._context.close()


def test_a_program_without_eager_execution(default: Any) -> None:
    assert not tf.executing_eagerly()
    v = tf.Variable(2.0, name="v")
    first = v1.get_default_graph()
    with v1.Session() as sess:
        sess.run(v1.global_variables_initializer())
        assert sess.run(v * 3) == 6.0
    assert v1.get_default_graph() is first
    v1.reset_default_graph()
    assert v1.global_variables() == []
    assert tf.Variable(1.0, name="v").name == "v:0"


def test_eager_execution_is_back() -> None:
    assert tf.executing_eagerly()
    assert float(tf.Variable(2.0) * 3) == 6.0


def test_what_is_not_supported_in_a_graph(tmp_path: Any) -> None:
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "c"))
    with tf.Graph().as_default():
        v, x = tf.Variable(3.0), v1.placeholder(tf.float32, [None])
        checkpoint = tf.train.Checkpoint(v=v)
        with pytest.raises(NotImplementedError, match=r"Checkpoint.restore of variables of a graph is not"):
            checkpoint.restore(path)
        with pytest.raises(ValueError, match="No default session is registered"):
            checkpoint.write(str(tmp_path / "d"))
        with pytest.raises(NotImplementedError, match=r"metrics\.mean is not supported in a graph"):
            v1.metrics.mean(x)
        with pytest.raises(NotImplementedError, match=r"use tf\.equal"):
            print(x == 1.0)
        with pytest.raises(NotImplementedError, match="numpy_function: the value of a tensor of a graph"):
            tf.numpy_function(np.sin, [x], tf.float32)
        with v1.Session() as sess:
            v.initializer.run()
            sess.run(v.assign(4.0))
            written = checkpoint.write(str(tmp_path / "d"))
    assert tf.train.load_variable(written, "v/.ATTRIBUTES/VARIABLE_VALUE") == 4.0


def test_eager_variables_do_not_belong_to_a_graph() -> None:
    v = tf.Variable(1.0, name="mine")
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"mine:0 was made outside of the graph"):
        print(v * 2)
    assert float(v * 2) == 2.0
