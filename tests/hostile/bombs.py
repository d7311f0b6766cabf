"""Small files that ask for much: memory, time, depth.  Each function makes one in a folder.

They declare far more than they contain: shapes of 10**18 elements, offsets of 2**63, lengths beyond the end,
chains and circles, archives that inflate a thousandfold.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.tf.bundle.slices import slice_key
from formats.wire.coding import encode_varint
from formats.wire.compression import compress
from formats.wire.messages import (
    BoolValue,
    BundleEntryProto,
    BundleHeaderProto,
    ObjectReference,
    SavedSlice,
    SavedSliceMeta,
    SavedTensorSliceMeta,
    SavedTensorSlices,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from formats.wire.sstable import BlockHandle, encode_block
from tests import torch_files
from tests.support import (
    Entries,
    numbers,
    shape_proto,
    slice_proto,
    stored_block,
    strings,
    table_of,
    table_tail,
    write_bundle,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BOMBS", "graph_with_slots"]

Bomb = "Callable[[str], str]"
HEADER = b"\0\0\2\x08\1"  # a block's first entry: the header of a bundle of one shard
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
BOMBS: list[Callable[[str], str]] = []


def bomb(make: Callable[[str], str | None]) -> Callable[[str], str]:
    """Add a function that writes to the path it is given, or returns the one that it wrote to."""

    def made(directory: str) -> str:
        path = os.path.join(directory, "b-1")
        return make(path) or path

    made.__name__ = make.__name__
    BOMBS.append(made)
    return made


def _write(path: str, *pieces: bytes) -> str:
    with open(path, "wb") as file:
        file.writelines(pieces)
    return path


def _edited(prefix: str, key: bytes, **fields: Any) -> None:
    def edit(entries: Entries) -> None:
        entries[key] = BundleEntryProto(**fields)

    write_bundle(prefix, {"w": np.arange(6, dtype=np.float32)}, edit=edit)


# Entries of bundles --------------------------------------------------------------------


@bomb
def shape_of_a_quintillion(prefix: str) -> None:
    _edited(prefix, b"v", dtype=1, shape=shape_proto((10**9, 10**9)), size=4 * 10**18)


@bomb
def size_of_an_exbibyte(prefix: str) -> None:
    _edited(prefix, b"v", dtype=4, shape=shape_proto((1 << 60,)), size=1 << 60)


@bomb
def offset_of_two_to_the_63rd(prefix: str) -> None:
    _edited(prefix, b"v", dtype=1, shape=shape_proto((1,)), size=4, offset=1 << 63)


@bomb
def offset_just_below_it(prefix: str) -> None:
    _edited(prefix, b"v", dtype=1, shape=shape_proto((1,)), size=4, offset=(1 << 63) - 1)


@bomb
def many_dimensions(prefix: str) -> None:
    _edited(prefix, b"v", dtype=1, shape=shape_proto((1,) * 50_000), size=4)


@bomb
def slice_of_many_elements(prefix: str) -> None:
    """The slice covers all of its tensor, and holds nothing."""
    extents = ((0, 10**9), (0, 10**9))

    def edit(entries: Entries) -> None:
        entries[b"v"] = BundleEntryProto(
            dtype=1, shape=shape_proto((10**9, 10**9)), slices=[slice_proto(extents)]
        )
        entries[slice_key(b"v", extents)] = BundleEntryProto(dtype=1, shape=shape_proto((1,)), size=4)

    write_bundle(prefix, {}, edit=edit)


@bomb
def strings_of_many_elements_in_one_slice(prefix: str) -> None:
    extents = ((0, 10**12),)

    def edit(entries: Entries) -> None:
        entries[b"v"] = BundleEntryProto(dtype=7, shape=shape_proto((10**12,)), slices=[slice_proto(extents)])
        entries[slice_key(b"v", extents)] = BundleEntryProto(dtype=7, shape=shape_proto((1,)), size=4)

    write_bundle(prefix, {}, edit=edit)


@bomb
def slices_by_the_thousand(prefix: str) -> None:
    """Each a stripe of its own along another dimension, so that nothing lines up."""
    shape = (16,) * 6
    pieces = [
        tuple((number >> 2 * d & 15, 1) if d != number % 6 else (0, 16) for d in range(6))
        for number in range(4_000)
    ]

    def edit(entries: Entries) -> None:
        entries[b"v"] = BundleEntryProto(
            dtype=1, shape=shape_proto(shape), slices=[slice_proto(piece) for piece in pieces]
        )
        for piece in pieces:
            entries[slice_key(b"v", piece)] = BundleEntryProto(
                dtype=1, shape=shape_proto([length for _, length in piece]), size=64
            )

    write_bundle(prefix, {"w": np.zeros(64, np.float32)}, edit=edit)


@bomb
def string_of_a_tebibyte(prefix: str) -> None:
    stored = strings([b"short"])
    write_bundle(prefix, {"v": stored._replace(data=encode_varint(1 << 40) + stored.data[1:])})


@bomb
def many_shards(prefix: str) -> None:
    write_bundle(prefix, {"v": np.float32(1)}, header=BundleHeaderProto(num_shards=(1 << 31) - 1))


# Blocks of tables ---------------------------------------------------------------------


def _index(prefix: str, data: bytes) -> None:
    _write(prefix + ".index", data)


@bomb
def varints_of_twenty_bytes(prefix: str) -> None:
    entry = b"\0" + b"\x80" * 19 + b"\1" + b"\1k"
    _index(prefix, table_of([HEADER + entry + bytes(4) + b"\1\0\0\0"]))


@bomb
def huge_varints(prefix: str) -> None:
    huge = b"\xff" * 9 + b"\x01"
    _index(prefix, table_of([HEADER + b"\0" + huge + huge + b"k" + bytes(4) + b"\1\0\0\0"]))


@bomb
def varint_of_twenty_bytes_in_an_entry(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        entries[b"v"] = b"\x08\1\x20" + b"\x80" * 19 + b"\1"

    write_bundle(prefix, {"w": np.float32(1)}, edit=edit)


@bomb
def million_entries_of_one_byte(prefix: str) -> None:
    _index(prefix, table_of([HEADER + b"\0\1\0k" * 1_000_000 + bytes(4) + b"\1\0\0\0"]))


@bomb
def million_entries_of_a_key_each(prefix: str) -> None:
    """Four bytes each: two shared with the key before, one new, no value."""
    out = bytearray(HEADER)
    for high in range(1, 1 << 12):
        out += b"\0\3\0" + struct.pack(">H", high) + b"\0"
        out += b"".join(b"\2\1\0" + bytes((low,)) for low in range(1, 1 << 8))
    _index(prefix, table_of([bytes(out) + bytes(4) + b"\1\0\0\0"]))


@bomb
def restart_points_by_the_million(prefix: str) -> None:
    _index(prefix, table_of([HEADER + bytes(4) * 1_000_000 + struct.pack("<I", 1_000_000)]))


@bomb
def keys_that_repeat_a_long_prefix(prefix: str) -> None:
    first = HEADER + b"\0" + encode_varint(1 << 16) + b"\0" + b"k" * (1 << 16)
    _index(prefix, table_of([first + (encode_varint(1 << 16) + b"\1\0x") * 50_000 + bytes(4) + b"\1\0\0\0"]))


@bomb
def snappy_block_of_a_tebibyte(prefix: str) -> None:
    _index(prefix, table_of([encode_varint(1 << 40) + b"\0a"], kinds=[1]))


@bomb
def snappy_blocks_of_zeros(prefix: str) -> None:
    """Seven hundred thousand empty entries in each of twenty blocks of a hundred kilobytes."""
    block = compress(bytes(2 << 20) + bytes(4) + b"\1\0\0\0")
    _index(prefix, table_of([block] * 20, kinds=[1] * 20))


@bomb
def snappy_block_of_one_key(prefix: str) -> None:
    """A key of two hundred megabytes that takes ten."""
    size = 200 << 20
    block = HEADER + b"\0" + encode_varint(size) + b"\0" + b"k" * size + bytes(4) + b"\1\0\0\0"
    _index(prefix, table_of([compress(block)], kinds=[1]))


@bomb
def one_block_named_over_and_over(prefix: str) -> None:
    block = encode_block([(b"", b"\x08\1"), *((b"k%06d" % number, b"") for number in range(20_000))])
    index = [(b"l%06d" % number, BlockHandle(0, len(block))) for number in range(20_000)]
    _index(prefix, stored_block(block) + table_tail(len(block) + 5, index))


@bomb
def entries_of_the_same_bytes(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        entries.update((b"n%06d" % number, entries[b"v"]) for number in range(50_000))

    write_bundle(prefix, {"v": np.zeros((1000, 1000), np.float32)}, edit=edit)


@bomb
def blocks_that_lie_outside(prefix: str) -> None:
    block = encode_block([(b"", b"\x08\1"), (b"v", b"\x08\1")])
    handles = [(b"w%06d" % number, BlockHandle(10**9 + number, 100)) for number in range(200_000)]
    _index(prefix, stored_block(block) + table_tail(len(block) + 5, [(b"v", BlockHandle(0, 9)), *handles]))


# Names ----------------------------------------------------------------------------------


@bomb
def key_of_a_hundred_megabytes(prefix: str) -> None:
    write_bundle(prefix, {b"k" * 100_000_000: np.float32(1)})


@bomb
def keys_of_a_megabyte(prefix: str) -> None:
    write_bundle(prefix, {b"%03d" % number + b"k" * 1_000_000: np.float32(1) for number in range(60)})


@bomb
def keys_that_share_half_a_megabyte(prefix: str) -> None:
    """Each of the blocks is within limits, and all of them together fill the memory."""
    half = encode_varint(1 << 19)
    first = b"\0" + half + b"\0" + b"k" * (1 << 19)
    block = HEADER + first + (half + b"\1\0x") * 10 + bytes(4) + b"\1\0\0\0"
    _index(prefix, table_of([block] * 50))


@bomb
def key_of_a_million_slashes(prefix: str) -> None:
    write_bundle(prefix, {b"/a" * 500_000: np.float32(1), "v": np.float32(1)})


@bomb
def local_name_of_a_hundred_megabytes(prefix: str) -> None:
    _graph(prefix, [_node([(1, "n" * 100_000_000)]), _variable("v")], {"v": np.float32(1)})


@bomb
def full_name_of_a_hundred_megabytes(prefix: str) -> None:
    _graph(prefix, [_node([(1, "v")]), _variable("v", "f" * 100_000_000)], {"v": np.float32(1)})


# Object graphs --------------------------------------------------------------------------


def _node(children: Sequence[tuple[int, str]], slots: Sequence[tuple[int, str, int]] = ()) -> TrackableObject:
    return TrackableObject(
        children=[ObjectReference(node_id=number, local_name=name) for number, name in children],
        slot_variables=[
            SlotVariableReference(
                original_variable_node_id=variable, slot_name=name, slot_variable_node_id=slot
            )
            for variable, name, slot in slots
        ],
    )


def _variable(key: str, full_name: str = "") -> TrackableObject:
    attribute = SerializedTensor(name="VARIABLE_VALUE", full_name=full_name, checkpoint_key=key)
    return TrackableObject(attributes=[attribute])


def _graph(prefix: str, nodes: list[TrackableObject], tensors: dict[str | bytes, Any]) -> None:
    data = TrackableObjectGraph(nodes=nodes).encode()
    write_bundle(prefix, {GRAPH: strings([data], ()), **tensors})


def graph_with_slots(prefix: str, variables: int) -> str:
    """Write what is sound, and large: variables with two slots each, as optimizers make them."""
    first, keys = 3, [f"net/l{number}" for number in range(variables)]
    places = [(number, slot) for slot in "mv" for number in range(variables)]
    keys += [f"{keys[number]}/.OPTIMIZER_SLOT/opt/{slot}" for number, slot in places]
    keys = [f"{key}/.ATTRIBUTES/VARIABLE_VALUE" for key in keys]
    slots = [(first + number, slot, first + variables + at) for at, (number, slot) in enumerate(places)]
    net = _node([(first + number, f"l{number}") for number in range(variables)])
    nodes = [_node([(1, "net"), (2, "opt")]), net, _node([], slots), *map(_variable, keys)]
    for node in nodes:
        node.has_checkpoint_values = BoolValue(value=True)
    _graph(prefix, nodes, dict.fromkeys(keys, np.float32(1)))
    return prefix


@bomb
def chain_of_nodes(prefix: str) -> None:
    chain = [_node([(number + 1, "x" * 50)]) for number in range(20_000)]
    _graph(prefix, [*chain, _variable("v")], {"v": np.float32(1)})


@bomb
def circle_of_nodes(prefix: str) -> None:
    circle = [
        _node([((number + 1) % 20_000, "x"), (0, "root"), (number, "self")]) for number in range(20_000)
    ]
    _graph(prefix, circle, {"v": np.float32(1)})


@bomb
def everything_leads_everywhere(prefix: str) -> None:
    many = [_node([(to, f"e{to}") for to in range(250)]) for _ in range(250)]
    _graph(prefix, many, {"v": np.float32(1)})


@bomb
def half_a_million_empty_nodes(prefix: str) -> None:
    data = b"\x0a\0" * 500_000
    write_bundle(prefix, {GRAPH: strings([data], ()), "v": np.float32(1)})


@bomb
def many_optimizers_of_many_slots(prefix: str) -> None:
    """Optimizers that share a list of slots; none of them fits any of many variables."""
    count = 2_000
    tensors: dict[str | bytes, Any] = {f"v{number}": np.zeros(2, np.float32) for number in range(count)}
    tensors["s"] = np.zeros(3, np.float32)
    variables = [_variable(f"v{number}") for number in range(count)]
    slot = count + 1
    group = _node([(slot, f"{number}") for number in range(count)])
    optimizers = [_node([(slot, "iter"), (slot + 1, "_variables")]) for _ in range(count)]
    root = _node(
        [*((1 + number, f"v{number}") for number in range(count))]
        + [(slot + 2 + number, f"o{number}") for number in range(count)]
    )
    _graph(prefix, [root, *variables, _variable("s"), group, *optimizers], tensors)


@bomb
def slots_of_a_long_path(prefix: str) -> None:
    slots = [(2, "m" * 1000, 3)] * 20_000
    nodes = [_node([(1, "o"), (2, "p" * 100_000)]), _node([], slots), _variable("v"), _variable("s")]
    _graph(prefix, nodes, {"v": np.float32(1), "s": np.float32(1)})


# Tables without their last bytes, whose blocks `rescue` finds by walking them ------------


def _cut(path: str, size: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - size)


def _without_footer(make: Callable[[str], str]) -> None:
    def cut(prefix: str) -> None:
        make(os.path.dirname(prefix))
        _cut(prefix + ".index", 48)

    cut.__name__ = f"{make.__name__}_without_a_footer"
    bomb(cut)


for _make in (
    million_entries_of_a_key_each,
    restart_points_by_the_million,
    keys_that_repeat_a_long_prefix,
    snappy_blocks_of_zeros,
    snappy_block_of_one_key,
    key_of_a_hundred_megabytes,
    keys_of_a_megabyte,
):
    _without_footer(_make)


# V1 -------------------------------------------------------------------------------------


def _v1(path: str, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    whole = slice_proto(((0, -1),))
    metas, rows = [], []
    for name, values in tensors.items():
        metas.append(SavedSliceMeta(name=name, shape=shape_proto(values.shape), type=1, slice=[whole]))
        data = b"\x2a" + encode_varint(values.nbytes) + values.tobytes()
        saved = SavedTensorSlices(data=SavedSlice(name=name, data=data))
        rows.append((slice_key(name.encode(), ((0, -1),)), saved.encode()))
    head = SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=metas))
    write_table(path, [(b"", head.encode()), *sorted(rows)])


@bomb
def v1_names_of_a_megabyte(path: str) -> None:
    _v1(path, {f"{number:03}" + "k" * 1_000_000: np.zeros(1, np.float32) for number in range(30)})


@bomb
def v1_of_many_small_tensors(path: str) -> None:
    _v1(path, {f"v{number}": np.zeros(1, np.float32) for number in range(5_000)})


@bomb
def v1_without_a_footer(path: str) -> None:
    _v1(path, {f"v{number:02}": np.zeros(2_000_000, np.float32) for number in range(15)})
    _cut(path, 48)


@bomb
def v1_shape_of_a_quintillion(path: str) -> None:
    meta = SavedSliceMeta(
        name="v", shape=shape_proto((10**9, 10**9)), type=1, slice=[slice_proto(((0, -1),) * 2)]
    )
    data = SavedTensorSlices(data=SavedSlice(name="v", data=b"\x2a\4" + bytes(4)))
    head = SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=[meta]))
    write_table(path, [(b"", head.encode()), (slice_key(b"v", ((0, -1),) * 2), data.encode())])


@bomb
def v1_pieces_that_take_turns(path: str) -> None:
    """Pieces of one tensor whose order in the metadata goes from block to block."""
    count = 4_000
    order = [number // 2 + (number % 2) * count // 2 for number in range(count)]
    meta = SavedSliceMeta(
        name="v", shape=shape_proto((count,)), type=1, slice=[slice_proto(((at, 1),)) for at in order]
    )
    head = SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=[meta]))
    value = SavedTensorSlices(data=SavedSlice(name="v", data=b"\x2a\4" + bytes(4))).encode()
    rows = sorted((slice_key(b"v", ((at, 1),)), value) for at in range(count))
    write_table(path, [(b"", head.encode()), *rows], block_size=1 << 17)


# Other formats --------------------------------------------------------------------------


def _safetensors(path: str, header: bytes) -> str:
    return _write(path + ".safetensors", len(header).to_bytes(8, "little"), header)


@bomb
def safetensors_of_a_quintillion(path: str) -> str:
    entry = {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 4 * 10**18]}
    return _safetensors(path, json.dumps({"v": entry}).encode())


@bomb
def safetensors_header_length(path: str) -> str:
    return _write(path + ".safetensors", (99_999_999).to_bytes(8, "little"), b"{}")


def _deep(depth: int) -> bytes:
    return b'{"a":' + b"[" * depth + b"]" * depth + b"}"


@bomb
def safetensors_nested_deeply(path: str) -> str:
    return _safetensors(path, _deep(100_000))


@bomb
def safetensors_nested_rather_deeply(path: str) -> str:
    return _safetensors(path, b'{"__metadata__":' + _deep(900) + b"}")


@bomb
def listing_nested_rather_deeply(path: str) -> str:
    return _write(path + ".json", b'{"schema": 1, "tensors": [], "path":', _deep(900), b"}")


@bomb
def listing_of_a_quintillion(path: str) -> str:
    row = {"key": "v", "dtype": "float32", "shape": [10**9, 10**9], "nbytes": 4 * 10**18}
    return _write(path + ".json", json.dumps({"schema": 1, "tensors": [row]}).encode())


@bomb
def safetensors_key_of_a_hundred_megabytes(path: str) -> str:
    entry = b'{"dtype":"F32","shape":[],"data_offsets":[0,4]}'
    header = b'{"' + b"k" * 99_999_900 + b'":' + entry + b"}"
    return _write(path + ".safetensors", len(header).to_bytes(8, "little"), header, bytes(4))


@bomb
def safetensors_keys_of_a_megabyte(path: str) -> str:
    row = {"dtype": "F32", "shape": [], "data_offsets": [0, 0]}
    return _safetensors(
        path, json.dumps({f"{number:03}" + "k" * 1_000_000: row for number in range(90)}).encode()
    )


@bomb
def safetensors_metadata_of_ninety_megabytes(path: str) -> str:
    row = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return _safetensors(path, json.dumps({"__metadata__": {"x": "y" * 90_000_000}, "v": row}).encode())


@bomb
def listing_keys_of_a_megabyte(path: str) -> str:
    row = {"dtype": "float32", "shape": [], "nbytes": 4}
    rows = [{"key": f"{number:03}" + "k" * 1_000_000, **row} for number in range(90)]
    return _write(path + ".json", json.dumps({"schema": 1, "tensors": rows}).encode())


@bomb
def safetensors_of_the_same_bytes(path: str) -> str:
    """Fifty thousand tensors that are all the same four megabytes."""
    size = 4 << 20
    row = {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}
    header = json.dumps({f"v{number}": row for number in range(50_000)}).encode()
    return _write(path + ".safetensors", len(header).to_bytes(8, "little"), header, bytes(size))


@bomb
def safetensors_of_many_small_items(path: str) -> str:
    """A list of millions of numbers where a shape should be."""
    return _safetensors(
        path, b'{"v":{"dtype":"F32","data_offsets":[0,0],"shape":[' + b"0," * 5_000_000 + b"0]}}"
    )


def _npy(shape: tuple[int, ...], data: bytes) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return out.getvalue() + data


def _npz(path: str, **members: bytes) -> str:
    with zipfile.ZipFile(path + ".npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path + ".npz"


@bomb
def npz_of_a_quintillion(path: str) -> str:
    return _npz(path, v=_npy((10**9, 10**9), bytes(4)))


@bomb
def npz_that_inflates_a_thousandfold(path: str) -> str:
    return _npz(path, v=_npy((30 << 20,), bytes(120 << 20)))


@bomb
def npz_header_of_parentheses(path: str) -> str:
    text = b"(" * 60_000
    return _npz(path, v=b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)


@bomb
def npz_header_of_signs(path: str) -> str:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"-" * 60_000 + b"1,)}"
    return _npz(path, v=b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)


@bomb
def npz_of_very_many_members(path: str) -> str:
    with zipfile.ZipFile(path + ".npz", "w") as archive:
        for number in range(10_000):
            archive.writestr(zipfile.ZipInfo(f"{number}.npy"), b"")
    return path + ".npz"


@bomb
def npz_without_its_directory(path: str) -> str:
    made = _npz(path, **{f"{number}": _npy((1,), bytes(4)) for number in range(5_000)})
    _cut(made, 22)
    return made


@bomb
def npz_of_long_names(path: str) -> str:
    with zipfile.ZipFile(path + ".npz", "w") as archive:
        for number in range(1_000):
            archive.writestr(f"{number:04}" + "k" * 60_000 + ".npy", _npy((1,), bytes(4)))
    return path + ".npz"


def torch_file(path: str, value: Any, method: int = zipfile.ZIP_STORED) -> str:
    return _write(path + ".pt", torch_files.zipped(value, {"0": bytes(24)}, method=method))


_TORCH_TENSOR = torch_files.pickled(torch_files.tensor())[2:-1]


@bomb
def torch_lists_in_lists(path: str) -> str:
    return torch_file(path, torch_files.Opcodes(b"]" * 3_000_000 + b"a" * 2_999_999), zipfile.ZIP_DEFLATED)


@bomb
def torch_lists_that_share_lists(path: str) -> str:
    doubled = b"]" + _TORCH_TENSOR + b"aq\1" + b"".join(b"]h\1ah\1aq\1" for _ in range(60))
    return torch_file(path, {"w": torch_files.tensor(), "x": torch_files.Opcodes(doubled)})


@bomb
def torch_text_that_inflates(path: str) -> str:
    return torch_file(path, "a" * (200 << 20), zipfile.ZIP_DEFLATED)


@bomb
def torch_numbers_that_inflate(path: str) -> str:
    return torch_file(path, torch_files.Opcodes(b"N" * (8_000_000)), zipfile.ZIP_DEFLATED)


@bomb
def torch_objects_by_number(path: str) -> str:
    return torch_file(path, torch_files.Opcodes(b"]" + b"\x94" * 7_000_000), zipfile.ZIP_DEFLATED)


@bomb
def torch_object_of_a_large_number(path: str) -> str:
    return torch_file(path, torch_files.Opcodes(b"]r\xff\xff\xff\xff"))


@bomb
def torch_tensors_of_a_few_bytes(path: str) -> str:
    shape, strides = (1 << 20, 1 << 20), (0, 0)
    return torch_file(path, {"v": torch_files.tensor(None, 0, shape, strides)})


@bomb
def torch_tensors_that_share_a_storage(path: str) -> str:
    return torch_file(
        path, {f"k{number}": torch_files.tensor() for number in range(20_000)}, zipfile.ZIP_DEFLATED
    )


@bomb
def torch_tuple_of_tuples_as_a_key(path: str) -> str:
    key = torch_files.Opcodes(b")" + b"\x85" * 200_000)
    return torch_file(path, torch_files.Opcodes(b"}(" + key.data + _TORCH_TENSOR + b"u"))


@bomb
def torch_keys_of_long_text(path: str) -> str:
    text = b"X\0\0\x0f\0" + b"k" * 0xF0000 + b"q\1"
    items = b"".join(b"K" + bytes((number,)) + b"}(h\1" + _TORCH_TENSOR + b"u" for number in range(200))
    return torch_file(path, torch_files.Opcodes(b"](" + text + b"e0}(" + items + b"u"))


def dcp(path: str, data: bytes) -> str:
    os.mkdir(path)
    with open(os.path.join(path, ".metadata"), "wb") as file:
        file.write(data)
    return os.path.join(path, ".metadata")


@bomb
def dcp_tensor_of_a_million_chunks_at_one_place(path: str) -> str:
    pieces = [torch_files.Piece((number,), (1,), "__0_0.distcp", 0, 9) for number in range(20_000)]
    return dcp(path, torch_files.distributed_metadata({"w": ((20_000,), pieces)}))


@bomb
def dcp_tensor_of_petabytes(path: str) -> str:
    size = (1 << 50,)
    pieces = [torch_files.Piece((0,), size, "__0_0.distcp", 0, 1 << 50)]
    return dcp(path, torch_files.distributed_metadata({"w": (size, pieces)}))


@bomb
def dcp_metadata_of_nested_lists(path: str) -> str:
    return dcp(path, b"\x80\2}X\x25\0\0\0torch.distributed.checkpoint.metadata" + b"]" * 3_000_000 + b".")


@bomb
def torch_cut_file_of_signatures(path: str) -> str:
    head = torch_files.zipped({"w": torch_files.tensor()}, {"0": bytes(24)})[:30]
    return _write(path + ".pt", head[:6] + b"\x08\0" + head[8:], b"PK\7\x08" * 2_000_000)


@bomb
def torch_legacy_without_an_end(path: str) -> str:
    return _write(
        path + ".pth", torch_files.MAGIC, b"\x80\2K\1.", b"\x80\2K\1.", b"\x80\2", b"N" * (30 << 20)
    )


@bomb
def keras_config_that_is_a_bomb(path: str) -> str:
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    assert raw
    with zipfile.ZipFile(path + ".keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", "{}")
        archive.writestr("config.json", b" " * (200 << 20))
        archive.writestr("model.weights.h5", _h5_of())
    return path + ".keras"


@bomb
def keras_config_nested_rather_deeply(path: str) -> str:
    with zipfile.ZipFile(path + ".keras", "w") as archive:
        archive.writestr("metadata.json", _deep(900))
        archive.writestr("config.json", b'{"class_name": "Sequential", "config":' + _deep(900) + b"}")
        archive.writestr("model.weights.h5", _h5_of())
    return path + ".keras"


def _h5_of(**datasets: Any) -> bytes:
    import h5py

    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.create_group("vars")
        for name, options in datasets.items():
            file.create_dataset(name, **options)
    return out.getvalue()


@bomb
def h5_of_a_quintillion(path: str) -> str:
    options = {"shape": (10**9, 10**9), "dtype": "f4"}
    return _write(path + ".h5", _h5_of(v=options, w={**options, "chunks": (1024, 1024)}))


@bomb
def h5_of_zeros_in_large_chunks(path: str) -> str:
    import h5py

    with h5py.File(path + ".h5", "w") as file:
        chunked = file.create_dataset("v", (1 << 26,), "f4", chunks=(1 << 22,), compression="gzip")
        for at in range(0, 1 << 26, 1 << 22):
            chunked[at : at + (1 << 22)] = 0
    return path + ".h5"


@bomb
def h5_of_a_long_name(path: str) -> str:
    import h5py

    with h5py.File(path + ".h5", "w", libver="latest") as file:
        file["k" * 60_000_000] = np.zeros(3)
    return path + ".h5"


@bomb
def h5_of_long_names(path: str) -> str:
    """The library reads all names of a group again for each."""
    import h5py

    with h5py.File(path + ".h5", "w") as file:
        for number in range(300):
            file[f"{number:04}" + "k" * 60_000] = np.zeros(3)
    return path + ".h5"


@bomb
def h5_paths_of_long_names(path: str) -> str:
    """A name that is long once is in the path of everything below it."""
    import h5py

    with h5py.File(path + ".h5", "w", libver="latest") as file:
        group = file.create_group("g" * 1_000_000)
        for number in range(1_000):
            group[f"v{number}"] = np.zeros(3)
    return path + ".h5"


@bomb
def h5_of_long_weight_names(path: str) -> str:
    import h5py

    with h5py.File(path + ".h5", "w", libver="latest") as file:
        file.attrs["layer_names"] = np.array([b"l"])
        layer = file.create_group("l")
        layer.attrs["weight_names"] = np.array([b"k" * 30_000_000 + b":0"])
        layer["x"] = np.zeros(3)
    return path + ".h5"


def _one_string(path: str, write: Callable[[Any, list[bytes], Any], object]) -> str:
    """Write four thousand strings of variable length that all have the same megabyte."""
    import h5py

    count, size = 4_000, 1_000_000
    with h5py.File(path + ".h5", "w") as file:
        write(file, [b"k" * size, *[b"x"] * (count - 1)], h5py.string_dtype("ascii"))
    with open(path + ".h5", "r+b") as file:
        at = file.read().index(size.to_bytes(4, "little"))
        file.seek(at)
        one = file.read(16)
        file.seek(at)
        file.write(one * count)
    return path + ".h5"


@bomb
def h5_names_that_are_one_string(path: str) -> str:
    return _one_string(path, lambda file, values, kind: file.attrs.create("layer_names", values, dtype=kind))


@bomb
def h5_strings_that_are_one(path: str) -> str:
    return _one_string(path, lambda file, values, kind: file.create_dataset("v", data=values, dtype=kind))


@bomb
def h5_dataset_of_many_names(path: str) -> str:
    import h5py

    with h5py.File(path + ".h5", "w") as file:
        file["v"] = np.zeros((1000, 1000), np.float32)
        for number in range(20_000):
            file[f"n{number}"] = file["v"]
    return path + ".h5"


@bomb
def h5_groups_very_deep(path: str) -> str:
    import h5py

    with h5py.File(path + ".h5", "w") as file:
        group: Any = file
        for _ in range(3_000):
            group = group.create_group("g")
        group["v"] = np.zeros(3)
    return path + ".h5"


@bomb
def h5_groups_in_a_circle(path: str) -> str:
    import h5py

    with h5py.File(path + ".h5", "w") as file:
        group = file.create_group("a")
        group["again"] = group
        group["root"] = file["/"]
        for number in range(200):
            group[f"n{number}"] = group
        group["v"] = np.zeros(3)
    return path + ".h5"


@bomb
def h5_config_nested_rather_deeply(path: str) -> str:
    import h5py

    with h5py.File(path + ".h5", "w") as file:
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array([], "S1")
        file.attrs["model_config"] = b'{"config":' + _deep(900) + b"}"
    return path + ".h5"


# State files ----------------------------------------------------------------------------


def _with_state(prefix: str, text: bytes) -> str:
    write_bundle(prefix, {"v": np.float32(1)})
    _write(os.path.join(os.path.dirname(prefix), "checkpoint"), text)
    return prefix


@bomb
def state_of_a_million_paths(prefix: str) -> str:
    paths = b'all_model_checkpoint_paths: "b-1"\n' * 100_000
    return _with_state(prefix, b'model_checkpoint_path: "b-1"\n' + paths)


@bomb
def state_of_one_long_path(prefix: str) -> str:
    return _with_state(prefix, b'model_checkpoint_path: "' + b"x/" * 400_000 + b"-" + b"1" * 5_000 + b'"\n')


@bomb
def state_of_ten_megabytes_of_escapes(prefix: str) -> str:
    return _with_state(prefix, b'model_checkpoint_path: "' + b"\\x" * 5_000_000 + b'"\n')


@bomb
def state_of_times_without_end(prefix: str) -> str:
    times = b"all_model_checkpoint_timestamps: 1e999\nall_model_checkpoint_timestamps: -nan\n" * 1_000
    return _with_state(prefix, b'model_checkpoint_path: "b-1"\nall_model_checkpoint_paths: "b-1"\n' + times)


def small_bundle(prefix: str) -> None:
    """Write what is sound."""
    write_bundle(prefix, {"v": numbers(np.float32(1))})
