"""Structures as hypothesis thinks them up, and a short run of what `tests.hostile.drive` mutates.

For any input, parsers return values or raise their own errors; `Target.run` defines what else is a finding.
Hypothesis generates structures that are odder than mutated ones and shrink to small examples. The driver
mutates files of TensorFlow and Keras.
"""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.tf.bundle.slices import decode_slice_key, slice_key
from formats.wire.messages import (
    BundleEntryProto,
    BundleHeaderProto,
    Dim,
    Extent,
    ObjectReference,
    SavedSlice,
    SavedSliceMeta,
    SavedTensorSliceMeta,
    SavedTensorSlices,
    SerializedTensor,
    SlotVariableReference,
    TensorShapeProto,
    TensorSliceProto,
    TrackableObject,
    TrackableObjectGraph,
    VersionDef,
)
from formats.wire.sstable import encode_block
from tests.counts import count
from tests.hostile.drive import drive
from tests.hostile.mutation import NASTY_TEXTS, NUMBERS, pack_zip
from tests.hostile.targets import TARGETS
from tests.support import strings, table_of

if TYPE_CHECKING:
    from pathlib import Path

BY_NAME = {target.name: target for target in TARGETS}
EXECUTIONS = {
    "weight-map": 100,
    "hdf5": 40,
    "keras": 30,
    "commands": 0,
    "bundle": 150,
    "v1": 150,
    "listing": 150,
}
"""Mutated inputs of each run of the tests, where not 400."""


def run(target: str, data: bytes) -> None:
    """Give a parser an input; what it may not do is an exception here."""
    count("structures of hypothesis")
    with tempfile.TemporaryDirectory() as workspace:
        assert BY_NAME[target].run(data, workspace) in ("read", "damaged", "refused")


# Mutated seeds --------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_mutated_files_end_in_values_or_errors(target, tmp_path: Path) -> None:
    executions = EXECUTIONS.get(target.name, 400)
    ended, findings = drive(target, 0, executions, keep=str(tmp_path))
    count("executions of mutated inputs", sum(ended.values()))
    assert findings == []


@pytest.mark.fuzz
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_many_mutated_files_end_in_values_or_errors(target, tmp_path: Path) -> None:
    ended, findings = drive(target, 1_000_000, 1_000_000, seconds=60, keep=str(tmp_path))
    count("executions of mutated inputs", sum(ended.values()))
    assert findings == []


# Structures from nothing ------------------------------------------------------------------

integers = st.one_of(st.sampled_from(NUMBERS), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 20))
texts = st.one_of(st.sampled_from([text for text in NASTY_TEXTS if text != "\ud800"]), st.text(max_size=8))
keys = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"", b"v", b"v/Adam", b"_CHECKPOINTABLE_OBJECT_GRAPH", b"\0", b"global_step"]),
)
shapes = st.builds(
    TensorShapeProto,
    dim=st.lists(st.builds(Dim, size=integers, name=texts), max_size=4),
    unknown_rank=st.booleans(),
)
slices = st.builds(
    TensorSliceProto,
    extent=st.lists(st.builds(Extent, start=integers, length=st.none() | integers), max_size=3),
)
entries = st.builds(
    BundleEntryProto,
    dtype=st.integers(0, 33) | integers.map(lambda number: number & 0x7FFFFFFF),
    shape=st.none() | shapes,
    shard_id=st.integers(0, 3),
    offset=integers,
    size=integers,
    crc32c=st.integers(0, (1 << 32) - 1),
    slices=st.lists(slices, max_size=3),
)
headers = st.builds(
    BundleHeaderProto,
    num_shards=st.integers(-2, 3) | st.just((1 << 31) - 1),
    endianness=st.integers(0, 2),
    version=st.none() | st.builds(VersionDef, min_consumer=st.integers(0, 2)),
)
small = st.integers(-2, 6)
nodes = st.builds(
    TrackableObject,
    children=st.lists(st.builds(ObjectReference, node_id=small, local_name=texts), max_size=4),
    attributes=st.lists(
        st.builds(
            SerializedTensor,
            name=st.sampled_from(["VARIABLE_VALUE", "ITERATOR_STATE", ""]),
            full_name=texts,
            checkpoint_key=texts | st.just("v"),
        ),
        max_size=2,
    ),
    slot_variables=st.lists(
        st.builds(
            SlotVariableReference,
            original_variable_node_id=small,
            slot_name=texts,
            slot_variable_node_id=small,
        ),
        max_size=3,
    ),
)
graphs = st.builds(TrackableObjectGraph, nodes=st.lists(nodes, max_size=6))
bits = st.one_of(st.none(), st.booleans(), integers, st.floats(), texts)
json_values: st.SearchStrategy[Any] = st.recursive(
    bits, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(keys, entries.map(lambda entry: entry.encode()) | st.binary(max_size=30)), headers)
def test_bundles_of_any_entries(held: dict[bytes, bytes], header: BundleHeaderProto) -> None:
    rows = sorted({**held, b"": header.encode()}.items())
    run("bundle", b"\0" + table_of([encode_block(rows)]))


@given(st.lists(st.tuples(keys, st.binary(max_size=12)), max_size=6), st.binary(max_size=24))
def test_blocks_that_end_in_anything(rows: list[tuple[bytes, bytes]], tail: bytes) -> None:
    run("block", encode_block(rows) + tail)
    run("table", table_of([encode_block(rows) + tail]))
    run("bundle", b"\0" + table_of([encode_block(rows)[:-4] + tail]))


@given(graphs)
def test_object_graphs_of_any_edges(graph: TrackableObjectGraph) -> None:
    run("object-graph", graph.encode())


@given(graphs)
def test_bundles_with_any_object_graph(graph: TrackableObjectGraph) -> None:
    """The graph is in a shard, which is none of those that the target has next to its indexes."""
    stored = strings([graph.encode()], ())
    entry = BundleEntryProto(dtype=7, shape=TensorShapeProto(), size=len(stored.data), crc32c=stored.crc32c)
    rows = [(b"", BundleHeaderProto(num_shards=1).encode())]
    rows += [(b"_CHECKPOINTABLE_OBJECT_GRAPH", entry.encode()), (b"v", BundleEntryProto(dtype=1).encode())]
    run("bundle", b"\0" + table_of([encode_block(rows)]))


@given(
    st.lists(
        st.builds(
            SavedSliceMeta,
            name=texts,
            shape=shapes,
            type=st.integers(0, 30),
            slice=st.lists(slices, max_size=3),
        ),
        max_size=3,
    ),
    st.binary(max_size=40),
)
def test_v1_files_of_any_slices(metas: list[SavedSliceMeta], values: bytes) -> None:
    head = SavedTensorSlices(meta=SavedTensorSliceMeta(tensor=metas)).encode()
    data = SavedTensorSlices(data=SavedSlice(name="v", data=values)).encode()
    found = {b"": head, slice_key(b"v", ()): data}
    for meta in metas:
        found[slice_key(meta.name.encode("utf-8", "surrogateescape"), ())] = data
    run("v1", table_of([encode_block(sorted(found.items()))]))


@given(st.binary(max_size=40))
def test_slice_keys_decode_to_what_encodes_them(key: bytes) -> None:
    run("ordered-code", key)
    try:
        name, extents = decode_slice_key(key)
    except ValueError:
        return
    assert slice_key(name, extents) == key


@given(
    st.dictionaries(
        texts | st.just("__metadata__"),
        json_values
        | st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "BF16", "BOOL", "F4", "x"]),
                "shape": st.lists(integers, max_size=3),
                "data_offsets": st.lists(st.integers(0, 16), min_size=2, max_size=2),
            }
        ),
        max_size=4,
    ),
    st.binary(max_size=16),
)
def test_safetensors_of_any_header(header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    run("safetensors", len(text).to_bytes(8, "little") + text + data)


@given(json_values)
def test_listings_of_any_rows(value: Any) -> None:
    run("json", json.dumps(value).encode())
    run(
        "listing",
        json.dumps({"schema": 1, "tensors": value if isinstance(value, list) else [value]}).encode(),
    )


@given(
    st.lists(
        st.sampled_from(
            [
                "model_checkpoint_path",
                "all_model_checkpoint_paths",
                ":",
                '"',
                "'",
                "\\",
                "#",
                "all_model_checkpoint_timestamps",
                "1e400",
                "-nan",
                "\n",
                " ",
                "x",
                "\\777",
                "\\uD800",
                "\\U00110000",
                '"a"',
            ]
        ),
        max_size=16,
    )
)
def test_state_files_of_any_words(words: list[str]) -> None:
    run("state-file", "".join(words).encode())


@given(
    st.lists(
        st.tuples(
            st.sampled_from([text for text in NASTY_TEXTS if text.isascii()]),
            st.binary(max_size=20) | st.just(b"\x93NUMPY\1\0\x10\0{'descr': '<f4'}"),
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_archives_of_any_members(members: list[tuple[str, bytes]], deflated: bool) -> None:
    run("npz", pack_zip(members, deflated=deflated))


@given(
    st.dictionaries(
        texts,
        st.tuples(
            st.sampled_from(["f4", "S3", "i1", "V2", "O", "c8", "?"]), st.lists(st.integers(0, 3), max_size=3)
        ),
        max_size=4,
    )
)
def test_hdf5_files_of_any_names(datasets: dict[str, tuple[str, list[int]]]) -> None:
    import io

    import h5py
    import numpy as np

    held = io.BytesIO()
    with h5py.File(held, "w") as file:
        for number, (name, (kind, shape)) in enumerate(datasets.items()):
            group = file.create_group(f"vars/{number}")
            path = name.replace("\0", "").strip("/.") or "x"
            if any("\ud800" <= character <= "\udfff" for character in path):
                continue
            dtype = h5py.string_dtype() if kind == "O" else np.dtype(kind)
            group.create_dataset(path, shape, dtype).attrs["dtype"] = path[:100]
            group.attrs["name"] = path[:100]
    run("hdf5", held.getvalue())
