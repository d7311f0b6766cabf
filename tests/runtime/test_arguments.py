"""The runtime takes TensorFlow's arguments; none of them is dropped silently.

`make interop` compares the recorded signatures with TensorFlow (`tests/interop/signatures.py` writes them).
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
from typing import Any

import pytest

import ckpt_cli.runtime as tf
from tests import runtime_names
from tests.interop.signatures import public_names, read, signature

RUNTIME = os.path.dirname(tf.__file__)

WITHOUT_EFFECT = {
    "name", "use_locking", "validate_indices", "summarize", "shift", "layout",  # in TensorFlow's kernels, too
    "autograph", "jit_compile", "reduce_retracing", "parallel_iterations", "swap_memory", "infer_shape",
    "shape_invariants", "experimental_use_pfor", "experimental_implements", "experimental_autograph_options",
    "experimental_attributes", "experimental_relax_shapes", "experimental_compile",
    "experimental_follow_type_hints", "gate_gradients", "aggregation_method", "colocate_gradients_with_ops",
    "num_parallel_calls", "deterministic",  # how something is run
    "caching_device", "device_type", "colocate_with_first_write_call", "tensor_array_name",
    "device_fn", "synchronization", "aggregation", "session_config", "protocol", "sharded",
    "restore_sequentially", "experimental_max_worker_delay_secs", "session_creation_timeout_secs",
    "use_resource", "experimental_enable_variable_lifting",  # where it is run
    "sess", "session", "coord", "run_context", "run_values", "options",  # what a session would be asked
    "write_meta_graph", "meta_graph_suffix", "save_relative_paths", "strip_default_attrs", "save_debug_info",
    "checkpoint_save_graph_def", "save_graph_def", "init_op", "local_init_op", "ready_op",
    "ready_for_local_init_op",  # there is no graph
    "activity_regularizer", "trainable", "weight_collections", "scope",  # in Keras and TensorFlow, too
    "expand_composites", "stable", "validate_shape", "values", "a_is_sparse", "b_is_sparse",  # as they are
    "check_types", "verbose", "output_shape", "training", "epoch", "logs", "mask", "input_shape", "inputs",
    "outputs", "kwargs", "operation", "output", "node", "dtype", "x", "batch", "exclusive", "align", "sorted",
    "sample_weight",  # what a base class may give
}  # fmt: skip
"""Arguments that are taken and have no effect: a closed list."""

NOT_CONSTRUCTED = {
    "DType", "TensorShape", "UnconnectedGradients", "compat.v1.Variable", "data.Dataset",
    "estimator.ModeKeys",
}  # fmt: skip
"""Classes that TensorFlow's programs do not make with arguments of their own, or as `tf.Variable`."""


OTHERS = ("compat.v1.keras.", "errors.")
"""The runtime's v1.keras is that of TensorFlow 2; errors take a message alone, too."""


def functions() -> Any:
    """Yield each public function of the runtime, and what it is called."""
    for folder, _, names in os.walk(RUNTIME):
        package = os.path.relpath(folder, RUNTIME).split(os.sep)[0]
        # A step of a dataset and an operation have protocols of their own.
        public = ["dataset.py"] if package in ("data", "ops") else names
        for name in (name for name in names if name.endswith(".py") and name in public):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and (node.name[0] != "_" or node.name == "__init__"):
                    yield f"{name}:{node.lineno} {node.name}", node


OTHER_DEFAULTS = {"validate_shape", "name"}
"""Arguments whose default TensorFlow writes in another way."""


def test_arguments_without_effect_are_a_closed_list() -> None:
    found = set()
    for where, node in functions():
        body = [one for one in node.body if not isinstance(getattr(one, "value", None), ast.Constant)]
        if not body or isinstance(body[0], ast.Raise | ast.Pass):
            continue
        given = node.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        read_names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        unread = {one.arg for one in parameters if one} - read_names - {"self", "cls"}
        found |= {(where, name) for name in unread - WITHOUT_EFFECT}
    assert not found


def test_no_argument_is_deleted() -> None:
    for where, node in functions():
        parameters = {one.arg for one in (*node.args.args, *node.args.kwonlyargs)}
        deleted = {
            getattr(target, "id", None)
            for one in node.body
            if isinstance(one, ast.Delete)
            for target in one.targets
        }
        assert not deleted & parameters, where


@pytest.mark.parametrize("name", [one for one in read() if not one.startswith(OTHERS)])
def test_every_argument_of_tensorflow_is_taken_or_rejected(name: str) -> None:
    if name in NOT_CONSTRUCTED:
        return
    mine, theirs = signature(public_names()[name]), read()[name]
    catches_all = any(one.startswith("**") for one in mine)
    missing = [one for one in theirs if one not in mine and one[0] != "*" and not catches_all]
    assert not missing
    shared = [one for one in theirs if one in mine]
    assert shared == [one for one in mine if one in theirs]  # they may be given by their places
    if not name.startswith("compat.v1.keras"):
        told = {one: (mine[one], theirs[one]) for one in shared if "..." not in (mine[one], theirs[one])}
        other = {one for one, (ours, wanted) in told.items() if ours != wanted and None not in (ours, wanted)}
        assert not other - OTHER_DEFAULTS


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.matmul([[1]], [[1]], output_type=tf.int32), "matmul: argument output_type="),
        (lambda: tf.gather([[1]], [[0]], batch_dims=1), "gather: argument batch_dims=1"),
        (lambda: tf.zeros([1], layout="mesh"), "zeros: argument layout='mesh'"),
        (lambda: tf.while_loop(bool, bool, [1], back_prop=False), "while_loop: argument back_prop="),
        (lambda: tf.compat.v1.cond(True, int, int, strict=True), "cond: argument strict=True"),
        (lambda: tf.compat.v1.get_variable("v", [1], partitioner=int), "get_variable: argument partitioner="),
    ],
)
def test_what_is_not_supported_is_named(call: Any, message: str) -> None:
    with pytest.raises(NotImplementedError, match=f"{message}.* is not supported"):
        call()


def test_the_page_of_names_is_current() -> None:
    with open(runtime_names.PAGE, encoding="utf-8") as file:
        assert file.read() == runtime_names.page()


def test_collections_are_those_of_a_scope() -> None:
    """A program that trains its head alone must not train the body."""
    v1 = tf.compat.v1
    with v1.train.global_step_scope():
        for scope in ("body", "head"):
            with v1.variable_scope(scope):
                v1.get_variable("w", [1])
        found = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, scope="head")
        assert [one.name for one in found] == ["head/w:0"]
        assert v1.trainable_variables("head") == found == v1.global_variables("head/")
        v1.losses.add_loss(tf.constant(1.0))
        with pytest.raises(NotImplementedError, match="get_collection: argument scope"):
            v1.losses.get_losses("head")


@pytest.mark.parametrize(
    ("module", "name"),
    [("", "sparse"), (".nn", "ctc_loss"), (".keras.layers", "Hashing"), (".keras.metrics", "MeanIoU"),
     (".compat.v1", "MetaGraphDef"), (".data", "FixedLengthRecordDataset"), (".keras.optimizers", "SGDW")],
)  # fmt: skip
def test_what_is_absent_is_reported(module: str, name: str) -> None:
    place = f"tf{module}.{name}"
    with pytest.raises(AttributeError, match=f"{place} is not part of ckpt's runtime.*docs/runtime-names.md"):
        getattr(importlib.import_module(f"ckpt_cli.runtime{module}"), name)


@pytest.mark.parametrize(
    "name", [name for name, is_here in runtime_names.of_tutorials().items() if not is_here]
)
def test_what_tutorials_use_is_here_or_rejected_by_name(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        functools.reduce(getattr, name.split("."), tf)
    said = str(caught.value)
    assert "docs/runtime-names.md lists what is" in said or "'Dataset' has no attribute" in said


def test_most_names_of_tutorials_are_here() -> None:
    found = runtime_names.of_tutorials()
    assert sum(found.values()) >= 0.9 * len(found)
