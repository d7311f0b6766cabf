"""Members of containers in one order: the one way in which classes merge, or why there is none."""

from __future__ import annotations

import pytest

from formats.keras.members import MemberMerge, MemberStream
from formats.keras.structure import StoredObject, StoredVariable, StructureError


def member(name: str, size: int, label: str = "", path: str = "") -> StoredObject:
    return StoredObject(path, name, [StoredVariable(name, (size,), "float32")], label=label)


def flaw(one: StoredObject, other: StoredObject) -> StructureError | None:
    return None if one.leaves[0].shape == other.leaves[0].shape else StructureError("another shape")


def merged(
    ordered: list[StoredObject], streams: list[MemberStream], *, counts: bool = False
) -> list[tuple[str, str]]:
    pairs = MemberMerge(ordered, streams, flaw, counts=counts).pairs()
    return [(node.name, other.name) for node, other in pairs]


def dense(*sizes: int) -> MemberStream:
    return MemberStream(
        "dense", [member(f"d{n}", size, "dense", f"m/values/d{n}") for n, size in enumerate(sizes)]
    )


def conv(*sizes: int) -> MemberStream:
    return MemberStream("conv", [member(f"c{n}", size, "conv") for n, size in enumerate(sizes)])


def test_classes_are_merged_in_the_one_way_that_fits() -> None:
    ordered = [member("x", 1), member("y", 2), member("z", 1)]
    assert merged(ordered, [dense(1, 1), conv(2)]) == [("x", "d0"), ("y", "c0"), ("z", "d1")]


def test_names_of_keras_tell_the_class_where_shapes_do_not() -> None:
    ordered = [member("conv", 1), member("dense_7", 1)]
    assert merged(ordered, [dense(1), conv(1)]) == [("conv", "c0"), ("dense_7", "d0")]


def test_names_that_mislead_are_left_aside() -> None:
    ordered = [member("conv", 1), member("dense", 2)]
    assert merged(ordered, [dense(1), conv(2)]) == [("conv", "d0"), ("dense", "c0")]


@pytest.mark.parametrize("names", [("x", "y"), ("dense_a", "conv_b")])
def test_two_ways_that_fit_are_ambiguous(names: tuple[str, str]) -> None:
    with pytest.raises(StructureError) as raised:
        merged([member(name, 1) for name in names], [dense(1), conv(1)])
    assert raised.value.is_ambiguous


def test_one_more_on_a_side_is_no_way() -> None:
    with pytest.raises(
        StructureError, match=r"2 objects in the group that starts with .*, but the other has 3"
    ) as raised:
        merged([member("x", 1), member("y", 1)], [dense(1, 1), conv(1)])
    assert not raised.value.is_ambiguous


def test_what_has_no_counterpart_is_named() -> None:
    with pytest.raises(StructureError, match="another shape"):
        merged([member("x", 1), member("y", 3)], [dense(1, 2)])
    with pytest.raises(StructureError, match="another shape"):
        merged([member("x", 1), member("y", 3)], [dense(1), conv(1)])  # one of them has no partner
    with pytest.raises(StructureError, match="no object with the variables of layer 'z'"):
        merged([member("z", 3), member("x", 1)], [dense(1), conv(1)])


@pytest.mark.parametrize(
    ("names", "is_sound"),
    [
        (["dense", "dense_1", "dense_2"], True),
        (["dense_3", "dense_9", "dense_10"], True),
        (["dense_1", "other", "dense"], False),
        (["dense_2", "dense_1", "dense_3"], False),
        (["b", "a", "c"], True),
    ],
)
def test_names_that_keras_made_up_count_in_the_order_of_the_members(names: list[str], is_sound: bool) -> None:
    ordered = [member(name, size) for size, name in enumerate(names)]
    if is_sound:
        assert len(merged(ordered, [dense(0, 1, 2)], counts=True)) == 3
    else:
        with pytest.raises(StructureError, match="differ in their order") as raised:
            merged(ordered, [dense(0, 1, 2)], counts=True)
        assert raised.value.is_ambiguous
    assert len(merged(ordered, [dense(0, 1, 2)])) == 3


def test_layers_of_a_model_are_in_its_order_under_any_names() -> None:
    stream = MemberStream(
        "dense", [member("d0", 0, "dense", "layers/d0"), member("d1", 1, "dense", "layers/d1")]
    )
    ordered = [member("dense_2", 0), member("dense_1", 1)]
    assert merged(ordered, [stream], counts=True) == [("dense_2", "d0"), ("dense_1", "d1")]
