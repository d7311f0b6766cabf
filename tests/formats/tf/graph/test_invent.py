"""Object graphs for names: every name has a place of its own there, and keeps it on the way back."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import ConversionError
from formats.model.name_kinds import KERAS_SLOTS, named_slots
from formats.tf.graph.growing import GrowingNode
from formats.tf.graph.invent import invent_graph
from tests.writing import spec_of

if TYPE_CHECKING:
    from formats.tf.graph.invent import Invented

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def invent(*names: str, shape: tuple[int, ...] = (2,)) -> Invented:
    return invent_graph({name: spec_of(name, np.zeros(shape, np.float32)) for name in names})


def test_an_empty_part_of_a_name_gets_an_edge_that_can_be_named() -> None:
    """Of nameless edges the root's would be written like no edge at all: `/a` and `a` would be one key."""
    assert invent("a", "/a", "x/", "x/_").keys == {
        "a": "a" + VALUE,
        "/a": "_/a" + VALUE,
        "x/": "x/__1" + VALUE,
        "x/_": "x/_" + VALUE,
    }


def test_no_edge_hides_the_attributes_below_it() -> None:
    """TensorFlow looks for the first `.ATTRIBUTES/` of a key, and `..ATTRIBUTES/` has one."""
    found = invent("x/.ATTRIBUTES/y", "x/_ATTRIBUTES", "w", "w/z.ATTRIBUTES")
    assert found.keys["x/.ATTRIBUTES/y"] == "x/_ATTRIBUTES_1/y" + VALUE
    assert found.keys["w/z.ATTRIBUTES"] == "w/.OPTIMIZER_SLOT/optimizer/z_ATTRIBUTES" + VALUE


def test_the_save_counter_has_its_edge_for_itself() -> None:
    """Programs restore `save_counter`, an int64; another tensor there would fail all of it."""
    found = invent("save_counter", "save_counter_1", "x/save_counter")
    assert found.save_counter == "save_counter" + VALUE
    assert found.keys == {
        "save_counter": "save_counter_2" + VALUE,
        "save_counter_1": "save_counter_1" + VALUE,
        "x/save_counter": "x/save_counter" + VALUE,
    }


def test_slot_of_a_slot_is_one_of_its_variable() -> None:
    specs = {name: spec_of(name, np.zeros(2)) for name in ("w", "w/Adam", "w/Adam/Adam", "opt/w/Adam/Adam")}
    assert {key: slot.variable for key, slot in named_slots(specs).items()} == {
        "w/Adam": "w",
        "w/Adam/Adam": "w",
        "opt/w/Adam/Adam": "w",
    }
    assert all(slot.prefix + slot.variable + slot.suffix == key for key, slot in named_slots(specs).items())


def test_hyperparameter_with_a_slot_is_a_variable() -> None:
    found = invent("beta1_power", "beta1_power/Adam")
    assert found.keys["beta1_power"] == "beta1_power" + VALUE
    assert found.keys["beta1_power/Adam"] == "beta1_power/.OPTIMIZER_SLOT/optimizer/m" + VALUE


def test_more_edges_than_keys_can_spell_are_rejected() -> None:
    with pytest.raises(ConversionError, match="its path has more than"):
        invent("/".join("a" * 2000))


def test_slots_that_a_restore_made_are_of_the_optimizer_whose_numbers_there_are() -> None:
    """Legacy Keras calls them `<variable>/m` then, its count `Adam/iter`: both are one optimizer's."""
    arrays: dict[str, object] = {name: np.zeros(2, np.float32) for name in ("w", "w/m", "w/v")}
    arrays |= {"Adam/iter": np.int64(3), "Adam/decay": np.float32(0)}
    found = invent_graph({name: spec_of(name, np.asarray(array)) for name, array in arrays.items()})
    assert found.keys["w/m"] == "w/.OPTIMIZER_SLOT/optimizer/m" + VALUE
    assert found.keys["Adam/iter"] == "optimizer/iter" + VALUE
    # With two optimizers, nothing shows the owner.
    arrays |= {"SGD/iter": np.int64(3)}
    found = invent_graph({name: spec_of(name, np.asarray(array)) for name, array in arrays.items()})
    assert {found.keys["Adam/iter"], found.keys["SGD/iter"]} == {
        f"optimizer_{number}/iter{VALUE}" for number in (1, 2)
    }


def test_no_slot_of_keras_is_a_stranger_to_a_legacy_optimizer() -> None:
    """All ten names, more than any optimizer has; with another name there is no telling."""
    slots = [f"w/{name}" for name in sorted(KERAS_SLOTS)]
    arrays: dict[str, object] = {name: np.zeros(2, np.float32) for name in ("w", *slots)}
    arrays |= {"Adam/iter": np.int64(3)}
    found = invent_graph({name: spec_of(name, np.asarray(array)) for name, array in arrays.items()})
    assert found.keys["Adam/iter"] == "optimizer/iter" + VALUE
    assert {found.keys[slot].rpartition("/.ATT")[0] for slot in slots} == {
        slot.replace("/", "/.OPTIMIZER_SLOT/optimizer/") for slot in slots
    }
    arrays |= {"w/Other": np.zeros(2, np.float32)}
    found = invent_graph({name: spec_of(name, np.asarray(array)) for name, array in arrays.items()})
    assert found.keys["w/Other"] == "w/.OPTIMIZER_SLOT/optimizer/Other" + VALUE
    assert found.keys["Adam/iter"] == "optimizer_1/iter" + VALUE


def test_slots_of_one_name_on_one_variable_are_apart() -> None:
    root = GrowingNode()
    optimizer, variable, other = (root.child(name) for name in ("optimizer", "w", "b"))
    assert optimizer.slots is None
    for name, of in ("m", variable), ("v", variable), ("m", other), ("m", variable):
        optimizer.add_slot(name, of, name)
    assert optimizer.slots is not None
    assert [(name, of, node.path) for name, of, node in optimizer.slots] == [
        ("m", variable, "w/.OPTIMIZER_SLOT/optimizer/m"),
        ("v", variable, "w/.OPTIMIZER_SLOT/optimizer/v"),
        ("m", other, "b/.OPTIMIZER_SLOT/optimizer/m"),
        ("m_1", variable, "w/.OPTIMIZER_SLOT/optimizer/m_1"),
    ]


def test_a_graph_of_many_names_takes_little_a_node() -> None:
    names = [f"model/layer_{number}/attention/self/query/kernel" for number in range(1_000)]
    specs = {name: spec_of(name, np.zeros(1, np.float32)) for name in names}
    invent_graph(specs)  # once before, for what is made but once
    tracemalloc.start()
    try:
        nodes = len(invent_graph(specs).graph.nodes)
        taken = tracemalloc.get_traced_memory()[1] / nodes
    finally:
        tracemalloc.stop()
    assert nodes == 5_003
    assert taken < 550, f"{taken:.0f} bytes a node"


def test_a_path_has_as_many_edges_as_the_deepest_that_is_supported() -> None:
    longest = "/".join(["a"] * 1001)
    assert invent(longest).keys == {longest: longest + VALUE}
    with pytest.raises(ConversionError, match="more than 1000 edges"):
        invent(longest + "/a")
