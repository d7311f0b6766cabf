"""Pairing two trees of one program: what decides, and what is ambiguous."""

from __future__ import annotations

import pytest

from formats.keras.structure import ObjectTree, StoredObject, StoredVariable, StructureError
from formats.keras.walk import paired

SQUARE, ROW = (6, 6), (6,)


def leaf(
    key: str, shape: tuple[int, ...] = SQUARE, name: str = "", place: int | None = None
) -> StoredVariable:
    return StoredVariable(key, shape, "float", name, place=place)


def node(name: str = "", *leaves: StoredVariable, label: str = "", **children: StoredObject) -> StoredObject:
    return StoredObject(name, name, list(leaves), children, label=label)


def listed(*members: StoredObject) -> StoredObject:
    """Return a list of an object graph."""
    return StoredObject(members=list(members), is_list=True)


def container(**members: StoredObject) -> StoredObject:
    """Return a container of dataset paths, whose members are called after their classes."""
    for name, member in members.items():
        member.label = name.rstrip("_0123456789")
    return StoredObject("container", children=members, by_class=True)


def program(root: StoredObject, *trained: str) -> ObjectTree:
    leaves = {one.key: one for one in root.everything()}
    return ObjectTree(root, [root], trained, is_of_program=True, leaves=leaves)


def file(root: StoredObject) -> ObjectTree:
    return ObjectTree(root, [root], leaves={one.key: one for one in root.everything()})


def test_children_pair_by_name_in_any_order() -> None:
    mine = node("", front=node("", leaf("a", name="kernel")), back=node("", leaf("b", name="kernel")))
    theirs = node("", back=node("", leaf("x")), front=node("", leaf("y")))
    assert paired(program(mine), file(theirs)) == {"x": "b", "y": "a"}


def test_private_attributes_are_the_public_ones() -> None:
    mine, theirs = node("", _net=node("", leaf("a", name="w"))), node("", net=node("", leaf("x")))
    assert paired(program(mine), file(theirs)) == {"x": "a"}


def test_members_of_a_list_pair_class_by_class() -> None:
    """Of Dense, Block, Dense a file has dense, dense_1 and block: only one order has these shapes."""
    mine = listed(
        node("", leaf("a", name="k")), node("", leaf("b", (3,), "s")), node("", leaf("c", name="k"))
    )
    theirs = container(
        block=node("", leaf("y", (3,))), dense=node("", leaf("x")), dense_1=node("", leaf("z"))
    )
    found = paired(program(node("", parts=mine)), file(node("", parts=theirs)))
    assert found == {"x": "a", "y": "b", "z": "c"}


def test_layers_of_equal_shapes_and_other_classes_are_ambiguous() -> None:
    mine = listed(node("", leaf("a", name="w")), node("", leaf("b", name="w")))
    theirs = container(alpha=node("", leaf("x")), beta=node("", leaf("y")))
    with pytest.raises(StructureError, match="matches several objects") as raised:
        paired(program(node("", parts=mine)), file(node("", parts=theirs)))
    assert raised.value.is_ambiguous


def test_names_that_keras_made_up_tell_the_class() -> None:
    mine = listed(node("beta", leaf("a", name="w")), node("alpha", leaf("b", name="w")))
    theirs = container(alpha=node("", leaf("x")), beta=node("", leaf("y")))
    assert paired(program(node("", parts=mine)), file(node("", parts=theirs))) == {"x": "b", "y": "a"}


def test_layers_of_the_same_names_pair_by_these_in_any_order() -> None:
    mine = listed(node("one", leaf("a", name="w")), node("two", leaf("b", name="w")))
    theirs = container(dense=node("two", leaf("x")), dense_1=node("one", leaf("y")))
    found = paired(program(node("", parts=mine)), file(node("", parts=theirs)))
    assert found == {"x": "b", "y": "a"}


def test_trained_variables_come_first_in_a_file() -> None:
    """`seen` was set between two that are trained, all of one shape."""
    own = leaf("w", ROW, "w", 0), leaf("seen", ROW, "seen"), leaf("b", ROW, "b", 1)
    theirs = node("", custom=node("", leaf("0", ROW), leaf("1", ROW), leaf("2", ROW)))
    found = paired(program(node("", custom=node("", *own)), "w", "b"), file(theirs))
    assert found == {"0": "w", "1": "b", "2": "seen"}


def test_variables_of_one_shape_are_ambiguous_if_nothing_shows_what_is_trained() -> None:
    mine = node("", custom=node("", leaf("w", ROW, "w"), leaf("seen", ROW, "seen")))
    theirs = node("", custom=node("", leaf("0", ROW), leaf("1", ROW)))
    with pytest.raises(StructureError, match="no file says which of them are trainable") as raised:
        paired(program(mine), file(theirs))
    assert raised.value.is_ambiguous


def test_names_of_keras_weights_tell_what_is_trained() -> None:
    own = [leaf(name, ROW, name) for name in ("moving_mean", "gamma", "moving_variance", "beta")]
    theirs = node("", norm=node("", *(leaf(str(number), ROW) for number in range(4))))
    found = paired(program(node("", norm=node("", *own))), file(theirs))
    assert found == {"0": "gamma", "1": "beta", "2": "moving_mean", "3": "moving_variance"}


def test_a_shared_layer_is_paired_once() -> None:
    shared = node("", leaf("a", name="kernel"))
    mine = node("", one=shared, two=shared)
    assert paired(program(mine), file(node("", one=node("", leaf("x"))))) == {"x": "a"}


def test_a_cycle_ends() -> None:
    mine = node("", net=node("", leaf("a", name="kernel")))
    mine.children["root"] = mine
    assert paired(program(mine), file(node("", net=node("", leaf("x"))))) == {"x": "a"}


def test_a_cycle_ends_for_layers_stored_flat() -> None:
    block = node("", leaf("a", name="kernel"))
    block.children["parent"] = mine = node("", block=block)
    stored = StoredVariable("x", SQUARE, "float", "kernel", "block/kernel")
    flat = StoredObject("block", "block", [stored], is_flat=True)
    assert paired(program(mine), file(StoredObject(members=[flat], is_list=True))) == {"x": "a"}


def test_two_models_of_one_structure_are_ambiguous() -> None:
    first, second = node("", net=node("", leaf("a"))), node("", net=node("", leaf("b")))
    root = node("", first=first, second=second)
    tree = ObjectTree(root, [first, second, root], is_of_program=True)
    with pytest.raises(StructureError, match="several objects have the structure"):
        paired(tree, file(node("", net=node("", leaf("x")))))


def test_a_variable_too_many_is_named_with_its_layer() -> None:
    mine = node("", dense=node("dense", leaf("k", name="kernel"), leaf("a", name="lora_kernel_a")))
    theirs = node("", dense=node("dense", leaf("x")))
    with pytest.raises(
        StructureError, match="layer 'dense' has 2 variables in one checkpoint and 1 in the other"
    ):
        paired(program(mine), file(theirs))


def test_slots_of_keras_3_name_variables_that_no_edge_leads_to() -> None:
    strays = {
        "net_block_1_dense_2_kernel": leaf("p", place=0),
        "net_block_dense_1_kernel": leaf("q", place=1),
    }
    inner = {
        "block": node("block", dense=node("dense_1", leaf("x"))),
        "block_1": node("block_1", dense=node("dense_2", leaf("y"))),
    }
    for block in inner.values():
        block.chain = ("net", block.name)
        block.children["dense"].chain = ("net", block.name, block.children["dense"].name)
    mine = ObjectTree(node(), [node()], strays=strays, is_of_program=True)
    assert paired(mine, file(node("", blocks=container(**inner)))) == {"x": "q", "y": "p"}


def test_parts_of_a_layer_stored_flat_take_the_one_order_that_fits() -> None:
    """A layer's own variables come first, then those of its parts as it made them."""
    stored = [leaf("s", ROW), leaf("k", SQUARE, "kernel"), leaf("b", ROW, "bias"), leaf("g", ROW, "gamma")]
    flat = StoredObject("block", "block", stored, is_flat=True)
    by, norm = node("", leaf("1", SQUARE), leaf("2", ROW)), node("", leaf("3", ROW))
    layers = container(block=node("block", leaf("0", ROW), by=by, norm=norm))
    mine, theirs = StoredObject(members=[flat], is_list=True), node("", layers=layers)
    assert paired(file(mine), file(theirs)) == {"0": "s", "1": "k", "2": "b", "3": "g"}


def test_parts_of_a_layer_that_could_be_swapped_are_ambiguous() -> None:
    flat = StoredObject("block", "block", [leaf("s"), leaf("t")], is_flat=True)
    parts = node("block", one=node("", leaf("0")), two=node("", leaf("1")))
    mine, theirs = StoredObject(members=[flat], is_list=True), node("", layers=container(block=parts))
    with pytest.raises(StructureError, match="their variables fit in more than one order") as raised:
        paired(file(mine), file(theirs))
    assert raised.value.is_ambiguous


def test_a_quantized_layer_is_saved_by_name_trained_or_not() -> None:
    """Keras 3 saves kernel, bias and scale; of these the optimizer trains the bias alone."""
    kernel = StoredVariable("k", SQUARE, "int", "kernel")
    mine = node("", kernel, leaf("s", ROW, "kernel_scale"), leaf("b", ROW, "bias", place=0))
    theirs = node("", StoredVariable("0", SQUARE, "int"), leaf("1", ROW), leaf("2", ROW))
    assert paired(program(mine, "b"), file(theirs)) == {"0": "k", "1": "b", "2": "s"}


def set_again(*places: int | None) -> ObjectTree:
    """Return a program with two layers of one shape, whose graph has `a` first."""
    leaves = [leaf(f"{name}k", name="kernel", place=place) for name, place in zip("ab", places, strict=True)]
    return program(node("", a=node("dense_2", leaves[0]), b=node("dense_1", leaves[1])))


@pytest.mark.parametrize("places", [(1, 0), (None, None)])
def test_a_name_that_was_set_again_has_no_order(places: tuple[int | None, int | None]) -> None:
    """Keras 2 goes by when the layers were set, the graph by when their names were first."""
    theirs = file(node("", held=container(dense=node("", leaf("x")), dense_1=node("", leaf("y")))))
    with pytest.raises(
        StructureError, match="layer 'dense_2' and layer 'dense_1' have equal shapes"
    ) as error:
        paired(set_again(*places), theirs)
    assert error.value.is_ambiguous
    assert paired(set_again(0, 1), theirs) == {"x": "ak", "y": "bk"}


def test_members_of_two_containers_have_no_order() -> None:
    """The members of a list within a list are separate from the model's other layers."""
    mine = listed(*(node(f"dense_{at}", leaf(f"{at}")) for at in range(3)))
    inner = container(dense=node("", leaf("x")))
    outer = container(dense=node("", leaf("y")), dense_1=node("", leaf("z")))
    for held, path in ((inner, "mix"), (outer, "layers")):
        for name, member in held.children.items():
            member.path = f"{path}/{name}"
    with pytest.raises(StructureError, match="matches several objects") as error:
        paired(file(mine), file(node("", layers=outer, mix=inner)))
    assert error.value.is_ambiguous
