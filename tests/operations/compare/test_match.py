"""A restore predicted from two object graphs: the verdicts are TensorFlow's, and the runtime's."""

from __future__ import annotations

import json

import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.operations.compare.match import BY_FULL_NAME, Match, Mismatch, match
from ckpt_cli.operations.compare.match_fix import likely_renames
from tests.support import data_path

BASE = data_path("restore_messages", "base-1")
GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
with open(data_path("restore_messages", "facts.json"), encoding="utf-8") as file:
    MESSAGES = json.load(file)["messages"]


def matched(checkpoint, target):
    with formats.open_checkpoint(checkpoint) as one, formats.open_checkpoint(target) as other:
        return match(one, other)


def saved(tmp_path, name="target", /, **attributes):
    return tf.train.Checkpoint(**attributes).save(tmp_path / name)


def var(*shape, dtype="float32", **options):
    return tf.Variable(tf.zeros(shape, dtype), **options)


PROGRAMS = {
    "extra_object": {"b": (), "w": (2, 3), "extra": ()},
    "missing_object": {"w": (2, 3)},
    "nothing matches": {"other": ()},
    "wrong_shape": {"b": (), "w": (3, 2)},
    "the same": {"b": (), "w": (2, 3)},
}


def shapes():
    with formats.open_checkpoint(BASE) as reader:
        return {key.partition("/")[0]: spec.shape for key, spec in reader.specs.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_verdicts_are_those_recorded_from_tensorflow(name, tmp_path):
    base = shapes()
    variables = {key: var(*(base[key] if key == "b" else shape)) for key, shape in PROGRAMS[name].items()}
    found = matched(BASE, saved(tmp_path, **variables))
    fails = [
        f"{name} assert_existing_objects_matched" in MESSAGES,
        name in MESSAGES,
        name == "nothing matches",
    ]
    assert found.existing_matched == (not any(fails))
    assert found.consumed == (name == "the same")


def test_a_wrong_dtype_fails_both_assertions(tmp_path):
    assert MESSAGES["wrong_dtype"]["type"] == "InvalidArgumentError"
    found = matched(BASE, saved(tmp_path, b=var(*shapes()["b"]), w=var(2, 3, dtype="float64")))
    assert [(m.key, m.checkpoint, m.target) for m in found.dtype_mismatch] == [
        ("w/.ATTRIBUTES/VARIABLE_VALUE", "float32", "float64")
    ]
    assert not found.existing_matched
    assert not found.consumed


def test_a_shape_mismatch_names_both_shapes(tmp_path):
    found = matched(BASE, saved(tmp_path, b=var(*shapes()["b"]), w=var(3, 2)))
    assert [(m.checkpoint, m.target) for m in found.shape_mismatch] == [([2, 3], [3, 2])]
    assert [pair.target for pair in found.restored if pair.target.startswith("w/")] == []


def test_a_checkpoint_restores_into_itself():
    found = matched(GUIDE, GUIDE)
    assert found.consumed
    assert found.existing_matched
    assert len(found.restored) == 14  # all but the graph
    assert {pair.target for pair in found.restored} == {pair.checkpoint for pair in found.restored}
    assert found.unmatched_target == found.unused_checkpoint == []


def test_the_guides_partial_restore(tmp_path):
    net = tf.train.Checkpoint(l1=tf.train.Checkpoint(bias=var(5)))
    found = matched(GUIDE, saved(tmp_path, net=net))
    assert found.existing_matched
    assert not found.consumed
    assert [pair.checkpoint for pair in found.restored] == [
        "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE",
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
    ]
    assert len(found.unused_checkpoint) == 12


def test_restore_expects_a_save_counter(tmp_path):
    written = tf.train.Checkpoint(v=var(2)).write(tmp_path / "written")
    with_counter = saved(tmp_path, v=var(2))
    found = matched(written, written)
    assert found.unmatched_target == ["save_counter/.ATTRIBUTES/VARIABLE_VALUE"]
    assert not found.existing_matched
    assert matched(with_counter, written).consumed


def test_an_object_behind_two_nodes_counts_as_matched_twice(tmp_path):
    checkpoint = saved(tmp_path, "two", a=var(2), b=var(2))
    shared = var(2)
    found = matched(checkpoint, saved(tmp_path, "one", a=shared, b=shared))
    assert found.consumed
    assert found.unused_checkpoint == ["b/.ATTRIBUTES/VARIABLE_VALUE"]


def test_a_split_object_leaves_one_without_a_value(tmp_path):
    shared = var(2)
    checkpoint = saved(tmp_path, "one", a=shared, b=shared)
    found = matched(checkpoint, saved(tmp_path, "two", a=var(2), b=var(2)))
    assert found.unmatched_target == ["b/.ATTRIBUTES/VARIABLE_VALUE"]
    assert not found.existing_matched


def trained(tmp_path, name, optimizer):
    v = var(2, name="v")
    optimizer.apply_gradients([(tf.ones([2]), v)])
    return saved(tmp_path, name, v=v, optimizer=optimizer)


def test_a_legacy_optimizer_makes_slots_that_it_has_not(tmp_path):
    legacy = tf.keras.optimizers.legacy
    momentum = trained(tmp_path, "momentum", legacy.SGD(0.1, momentum=0.9))
    plain = trained(tmp_path, "plain", legacy.SGD(0.1))
    found = matched(momentum, plain)
    assert found.consumed
    assert [pair.checkpoint for pair in found.restored if pair.target is None] == [
        "v/.OPTIMIZER_SLOT/optimizer/momentum/.ATTRIBUTES/VARIABLE_VALUE"
    ]
    assert not matched(plain, momentum).existing_matched


def test_a_newer_optimizer_refuses_legacy_slots(tmp_path):
    legacy = trained(tmp_path, "legacy", tf.keras.optimizers.legacy.Adam(0.1))
    newer = trained(tmp_path, "newer", tf.keras.optimizers.Adam(0.1))
    found = matched(legacy, newer)
    assert "rejects" in found.failures[0]
    assert not found.existing_matched


def test_name_based_checkpoints_match_by_full_name(tmp_path):
    name_based = data_path("name_based", "momentum")
    with formats.open_checkpoint(name_based) as reader:
        variables = {
            f"v{number}": var(*spec.shape, name=key, dtype=spec.dtype.name)
            for number, (key, spec) in enumerate(reader.specs.items())
        }
    found = matched(name_based, saved(tmp_path, **variables))
    assert found.by == BY_FULL_NAME
    assert found.consumed
    assert found.existing_matched
    assert found.unmatched_target == ["save_counter/.ATTRIBUTES/VARIABLE_VALUE"]
    found = matched(name_based, saved(tmp_path, "more", **variables, nope=var(name="nope")))
    assert not found.consumed
    assert not found.existing_matched


def test_unambiguous_renames_are_reported(tmp_path):
    old = saved(tmp_path, "old", a=tf.train.Checkpoint(k=var(2), l=var(3)), x=var(4), y=var(4))
    new = saved(tmp_path, "new", b=tf.train.Checkpoint(k=var(2), l=var(3)), p=var(4), q=var(4))
    with formats.open_checkpoint(old) as one, formats.open_checkpoint(new) as other:
        found = likely_renames(match(one, other), one, other)
    assert [(rename.checkpoint_path, rename.target_path) for rename in found] == [
        ("a/k", "b/k"),
        ("a/l", "b/l"),
    ]


def test_only_a_counter_is_lacking_where_nothing_else_is_wrong():
    counter = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
    found = Match("a", "b", False, False, [], [counter], [], [], [], [])
    assert found.lacks_only_counter
    for other in (
        found._replace(shape_mismatch=[Mismatch("v", [1], [2])]),
        found._replace(dtype_mismatch=[Mismatch("v", "float32", "int64")]),
        found._replace(failures=["v cannot be restored"]),
        found._replace(existing_matched=True),
        found._replace(unmatched_target=[]),
        found._replace(unmatched_target=["a", counter]),
    ):
        assert not other.lacks_only_counter
