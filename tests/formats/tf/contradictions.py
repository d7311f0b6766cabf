"""Bundles that contradict themselves, and oddities that do not: each function makes one.

`tests/interop/test_verdicts.py` asks TensorFlow about each; `tests/formats/tf/test_contradictions.py` has the
findings of `verify`.
"""

from __future__ import annotations

from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.tf.bundle.slices import slice_key
from formats.wire.messages import (
    BundleEntryProto,
    BundleHeaderProto,
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TensorShapeProto,
    TrackableObject,
    TrackableObjectGraph,
    VersionDef,
)
from formats.wire.sstable import BlockHandle, Table, encode_block
from tests.support import HEADER, Entries, partitioned, shape_proto, strings, table_of, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OVERLOOKED", "REFUSED", "SOUND"]

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
HALVES = (((0, 2), (0, 3)), ((2, 2), (0, 3)))

REFUSED: dict[str, Callable[[str], object]] = {}
"""By name; TensorFlow rejects to open these, or to restore what they hold."""

OVERLOOKED: dict[str, Callable[[str], object]] = {}
"""By name; these contradict themselves, and TensorFlow reads them where it does not come across it."""

SOUND: dict[str, Callable[[str], object]] = {}
"""By name; TensorFlow reads these."""


def refused(make: Callable[[str], object]) -> Callable[[str], object]:
    REFUSED[make.__name__] = make
    return make


def overlooked(make: Callable[[str], object]) -> Callable[[str], object]:
    OVERLOOKED[make.__name__] = make
    return make


def sound(make: Callable[[str], object]) -> Callable[[str], object]:
    SOUND[make.__name__] = make
    return make


# Slices ---------------------------------------------------------------------------------


def _in_halves(prefix: str, edit: Callable[[Entries], object]) -> None:
    tensors = {"v": np.float32(1), "w": partitioned(ROWS, HALVES)}
    write_bundle(prefix, tensors, edit=lambda entries: edit(entries) and None)


def _entry(entries: Entries, key: bytes) -> BundleEntryProto:
    entry = entries[key]
    assert isinstance(entry, BundleEntryProto)
    return entry


@refused
def slice_that_is_missing(prefix: str) -> None:
    _in_halves(prefix, lambda entries: entries.pop(slice_key(b"w", HALVES[1])))


@refused
def slice_that_no_entry_declares(prefix: str) -> None:
    _in_halves(prefix, lambda entries: _entry(entries, b"w").slices.pop())


@refused
def slices_of_a_tensor_that_is_not_there(prefix: str) -> None:
    _in_halves(prefix, lambda entries: entries.pop(b"w"))


@refused
def slice_of_another_shape(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        _entry(entries, slice_key(b"w", HALVES[0])).shape = shape_proto((3, 3))

    _in_halves(prefix, edit)


@overlooked
def slice_of_another_shape_and_as_many_elements(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        _entry(entries, slice_key(b"w", HALVES[0])).shape = shape_proto((3, 2))

    _in_halves(prefix, edit)


@refused
def slice_of_another_dtype(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        _entry(entries, slice_key(b"w", HALVES[0])).dtype = 2

    _in_halves(prefix, edit)


@refused
def slices_that_overlap(prefix: str) -> None:
    pieces = (((0, 3), (0, 3)), ((2, 2), (0, 3)))
    write_bundle(prefix, {"w": partitioned(ROWS, pieces)})


@refused
def slices_that_leave_a_gap(prefix: str) -> None:
    write_bundle(prefix, {"v": np.float32(1), "w": partitioned(ROWS, HALVES[:1])})


@sound
def slices_of_two_columns(prefix: str) -> None:
    write_bundle(prefix, {"w": partitioned(ROWS, (((0, -1), (0, 1)), ((0, -1), (1, 2))))})


# Keys -------------------------------------------------------------------------------------


@refused
def key_that_is_not_utf8(prefix: str) -> None:
    write_bundle(prefix, {b"w\xff": np.float32(1), "v": np.float32(1)})


@refused
def key_of_half_a_character(prefix: str) -> None:
    write_bundle(prefix, {b"w\xed\xa0\x80": np.float32(1)})


@refused
def key_that_begins_with_zero_and_is_not_utf8(prefix: str) -> None:
    write_bundle(prefix, {b"\0w\xff": np.float32(1)})


@sound
def key_of_characters_beyond_ascii(prefix: str) -> None:
    write_bundle(prefix, {"größe/重み": np.float32(1), "a b": np.float32(1)})


# Header and entries ---------------------------------------------------------------------------


@refused
def header_of_a_later_version(prefix: str) -> None:
    version = VersionDef(producer=1, min_consumer=2)
    write_bundle(prefix, {"w": np.float32(1)}, header=BundleHeaderProto(num_shards=1, version=version))


@refused
def header_of_a_version_before_all(prefix: str) -> None:
    header = BundleHeaderProto(num_shards=1, version=VersionDef(producer=-1))
    write_bundle(prefix, {"w": np.float32(1)}, header=header)


@refused
def header_that_bans_this_reader(prefix: str) -> None:
    version = VersionDef(producer=1, bad_consumers=[1])
    write_bundle(prefix, {"w": np.float32(1)}, header=BundleHeaderProto(num_shards=1, version=version))


@refused
def header_of_no_shards(prefix: str) -> None:
    write_bundle(prefix, {"w": np.float32(1)}, header=BundleHeaderProto(num_shards=0))


@refused
def header_that_is_no_message(prefix: str) -> None:
    write_bundle(prefix, {"w": np.float32(1)}, header=b"\x0a\xff")


def _edited(prefix: str, **fields: Any) -> None:
    def edit(entries: Entries) -> None:
        for name, value in fields.items():
            setattr(_entry(entries, b"w"), name, value)

    write_bundle(prefix, {"v": np.float32(1), "w": ROWS}, edit=edit)


@refused
def entry_of_no_dtype(prefix: str) -> None:
    _edited(prefix, dtype=0)


@refused
def entry_of_another_size(prefix: str) -> None:
    _edited(prefix, size=44)


@refused
def entry_of_another_shape(prefix: str) -> None:
    _edited(prefix, shape=shape_proto((4, 4)))


@refused
def entry_of_a_negative_dimension(prefix: str) -> None:
    _edited(prefix, shape=shape_proto((-4, -3)))


@refused
def entry_of_unknown_rank(prefix: str) -> None:
    _edited(prefix, shape=TensorShapeProto(unknown_rank=True))


@refused
def entry_whose_dimension_has_no_name_of_utf8(prefix: str) -> None:
    shape = shape_proto((4, 3))
    shape.dim[0].name = "rows\udcff"
    _edited(prefix, shape=shape)


@refused
def entry_in_a_shard_beyond(prefix: str) -> None:
    _edited(prefix, shard_id=3)


@refused
def entry_that_ends_behind_its_shard(prefix: str) -> None:
    _edited(prefix, offset=8)


@refused
def entry_of_another_checksum(prefix: str) -> None:
    _edited(prefix, crc32c=1)


@sound
def header_without_a_version(prefix: str) -> None:
    write_bundle(prefix, {"w": np.float32(1)}, header=BundleHeaderProto(num_shards=1))


# Blocks ---------------------------------------------------------------------------------------


def _in_blocks(prefix: str, *blocks: tuple[int, bytes]) -> None:
    """Write a header and `a` to `d` in blocks, with these keys in the index block."""
    write_bundle(prefix, dict.fromkeys("abcd", np.float32(1)))
    with open(prefix + ".index", "rb") as file:
        data = file.read()
    rows = iter(Table(lambda offset, size: data[offset : offset + size], len(data), prefix))
    content = [encode_block(list(islice(rows, count))) for count, _ in blocks]
    ends = accumulate(len(block) + 5 for block in content)
    handles = [
        BlockHandle(end - len(block) - 5, len(block)) for end, block in zip(ends, content, strict=True)
    ]
    bounds = [bound for _, bound in blocks]
    with open(prefix + ".index", "wb") as file:
        file.write(table_of(content, index=list(zip(bounds, handles, strict=True))))


@refused
def block_with_a_key_above_its_bound(prefix: str) -> None:
    _in_blocks(prefix, (2, b"a"), (1, b"az"), (1, b"c"), (1, b"d"))


@refused
def block_with_keys_below_the_bound_in_front(prefix: str) -> None:
    _in_blocks(prefix, (2, b"cz"), (3, b"d"))


@sound
def block_that_begins_below_the_bound_in_front(prefix: str) -> None:
    _in_blocks(prefix, (2, b"bz"), (1, b"bz"), (1, b"c"), (1, b"d"))


@overlooked
def blocks_with_bounds_out_of_order(prefix: str) -> None:
    _in_blocks(prefix, (2, b"a"), (1, b"b"), (1, b"c"), (0, b""), (1, b"d"))


@sound
def blocks_with_bounds_between_keys(prefix: str) -> None:
    _in_blocks(prefix, (2, b"aa"), (1, b"b"), (1, b"cz"), (0, b"cz"), (1, b"z"))


# Object graphs --------------------------------------------------------------------------------


def _node(
    children: tuple[tuple[int, str], ...] = (), slots: tuple[tuple[int, str, int], ...] = ()
) -> TrackableObject:
    return TrackableObject(
        children=[ObjectReference(node_id=number, local_name=name) for number, name in children],
        slot_variables=[
            SlotVariableReference(
                original_variable_node_id=variable, slot_name=name, slot_variable_node_id=slot
            )
            for variable, name, slot in slots
        ],
    )


def _variable(key: str, name: str = "VARIABLE_VALUE") -> TrackableObject:
    return TrackableObject(attributes=[SerializedTensor(name=name, full_name="v", checkpoint_key=key)])


def _graph(prefix: str, *nodes: TrackableObject, data: bytes | None = None) -> None:
    """Write a bundle of `v` and this graph; the program has a variable `v`."""
    encoded = TrackableObjectGraph(nodes=list(nodes)).encode() if data is None else data
    write_bundle(prefix, {GRAPH: strings([encoded], ()), "v" + VALUE: np.float32(1)}, header=HEADER)


@sound
def graph_of_one_variable(prefix: str) -> None:
    _graph(prefix, _node(((1, "v"),)), _variable("v" + VALUE))


@refused
def graph_with_a_key_that_is_not_utf8(prefix: str) -> None:
    _graph(prefix, _node(((1, "v"),)), _variable("v" + VALUE), _variable("\udcff" + VALUE))


@refused
def graph_with_an_edge_that_is_not_utf8(prefix: str) -> None:
    _graph(prefix, _node(((1, "v"), (2, "w\udcff"))), _variable("v" + VALUE), _node())


@refused
def graph_with_a_full_name_that_is_not_utf8(prefix: str) -> None:
    odd = _variable("v" + VALUE)
    odd.attributes[0].full_name = "v\udcff"
    _graph(prefix, _node(((1, "v"),)), odd)


@refused
def graph_that_is_cut(prefix: str) -> None:
    _graph(prefix, data=TrackableObjectGraph(nodes=[_node(((1, "v"),))]).encode()[:-2])


@refused
def graph_of_no_nodes(prefix: str) -> None:
    _graph(prefix, data=b"")


@refused
def graph_with_an_edge_to_no_node(prefix: str) -> None:
    _graph(prefix, _node(((1, "v"), (7, "w"))), _variable("v" + VALUE))


@overlooked
def graph_with_a_slot_that_is_no_node(prefix: str) -> None:
    _graph(prefix, _node(((1, "v"), (2, "o"))), _variable("v" + VALUE), _node((), ((1, "m", 9),)))


@refused
def graph_with_a_key_of_no_tensor(prefix: str) -> None:
    _graph(prefix, _node(((1, "v"),)), _variable("gone" + VALUE))
