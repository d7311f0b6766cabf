"""The traps of formats.md section 18 that concern reading bundles, and other legal or hostile oddities.

Each bundle here is made by hand; most are such as TensorFlow would not write, and
the verdicts are TensorFlow's where formats.md section 7 gives one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import (
    CheckpointNotFoundError,
    ChecksumError,
    CorruptCheckpointError,
    TensorNotFoundError,
    UnsupportedFeatureError,
    open_checkpoint,
)
from formats.core import dtypes
from formats.core.spec import key_bytes
from formats.model.verification import Finding
from formats.store.local.files import LocalFile
from formats.tf.bundle.slices import slice_key
from formats.wire.crc32c import crc32c, masked_crc32c, unmask
from formats.wire.messages import BundleEntryProto, BundleHeaderProto, Dim, TensorShapeProto, VersionDef
from formats.wire.sstable import Table
from tests.support import (
    Entries,
    Stored,
    numbers,
    partitioned,
    reads_alike,
    same,
    sample_indexes,
    shape_proto,
    shard_path,
    slice_proto,
    strings,
    variants,
    write_bundle,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4)


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(tmp_path / "ckpt-1")


def proto(entries: Entries, key: bytes) -> BundleEntryProto:
    entry = entries[key]
    assert isinstance(entry, BundleEntryProto)
    return entry


def test_trap_2_raw_checksum_is_not_taken_for_the_masked_one(prefix: str) -> None:
    def unmasked(entries: Entries) -> None:
        proto(entries, b"v").crc32c = unmask(proto(entries, b"v").crc32c)

    write_bundle(prefix, {"v": SQUARE}, edit=unmasked)
    with open_checkpoint(prefix) as reader, pytest.raises(ChecksumError) as caught:
        reader["v"].read()
    assert (caught.value.key, caught.value.offset, caught.value.path) == ("v", 0, shard_path(prefix))
    assert f"stored one is {crc32c(SQUARE.tobytes()):#010x}" in str(caught.value)
    assert f"checksum {masked_crc32c(SQUARE.tobytes()):#010x}" in str(caught.value)


def test_trap_2_missing_checksum_is_a_wrong_one(prefix: str) -> None:
    write_bundle(prefix, {"v": SQUARE}, edit=lambda entries: setattr(proto(entries, b"v"), "crc32c", 0))
    with open_checkpoint(prefix) as reader, pytest.raises(ChecksumError, match="stored one is 0x00000000"):
        reader["v"].read()


def test_trap_4_checksums_of_strings_cover_lengths_not_varints(prefix: str) -> None:
    """The reference's worked example, 19.3."""
    data = bytes.fromhex("02 00 01 65 14 8e 11 61 62 63")
    write_bundle(prefix, {"s": Stored("string", (3,), data, 0xED36D31C)})
    with open_checkpoint(prefix) as reader:
        assert reads_alike(reader["s"]).tolist() == [b"ab", b"", b"c"]


def test_trap_4_varint_longer_than_needed_is_the_same_length(prefix: str) -> None:
    data = bytes.fromhex("82 00 00 01 65 14 8e 11 61 62 63")
    write_bundle(prefix, {"s": Stored("string", (3,), data, 0xED36D31C)})
    with open_checkpoint(prefix) as reader:
        assert reader["s"].read().tolist() == [b"ab", b"", b"c"]


@pytest.mark.parametrize("position", range(10))
def test_trap_4_damaged_strings_are_found(prefix: str, position: int) -> None:
    data = bytearray.fromhex("02 00 01 65 14 8e 11 61 62 63")
    data[position] ^= 0x10
    write_bundle(prefix, {"s": Stored("string", (3,), bytes(data), 0xED36D31C)})
    with open_checkpoint(prefix) as reader, pytest.raises(CorruptCheckpointError) as caught:
        reader["s"].read()
    assert (caught.value.key, caught.value.code, caught.value.path) == (
        "s",
        "tensor-checksum",
        shard_path(prefix),
    )


def test_trap_5_empty_tensors(prefix: str) -> None:
    tensors = {"n": np.zeros((3, 0), np.float32), "s": strings([]), "v": SQUARE}
    write_bundle(prefix, tensors)
    with open_checkpoint(prefix) as reader:
        assert same(reads_alike(reader["n"]), np.zeros((3, 0), np.float32))
        assert reads_alike(reader["s"]).shape == (0,)
        assert (reader.specs["s"].nbytes, reader["n"].stored.crc32c) == (4, 0xA282EAD8)


def test_trap_5_empty_tensor_without_its_checksum_is_corrupt(prefix: str) -> None:
    def drop(entries: Entries) -> None:
        proto(entries, b"n").crc32c = 0

    write_bundle(prefix, {"n": np.zeros((0,), np.float32)}, edit=drop)
    with open_checkpoint(prefix) as reader, pytest.raises(ChecksumError):
        reader["n"].read()


def test_trap_6_missing_shape_and_unknown_rank_are_scalars(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        proto(entries, b"a").shape = None
        proto(entries, b"b").shape = TensorShapeProto(unknown_rank=True)
        proto(entries, b"c").shape = TensorShapeProto()

    write_bundle(prefix, {name: np.float32(number) for number, name in enumerate("abc")}, edit=edit)
    with open_checkpoint(prefix) as reader:
        for number, name in enumerate("abc"):
            assert same(reads_alike(reader[name]), np.array(number, np.float32))


def test_trap_6_zero_dimension_is_an_empty_dim(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        proto(entries, b"a").shape = TensorShapeProto(dim=[Dim(size=2), Dim()])

    write_bundle(prefix, {"a": np.zeros((2, 0), np.int8)}, edit=edit)
    with open_checkpoint(prefix) as reader:
        assert reader.specs["a"].shape == (2, 0)
        assert reader["a"].read().shape == (2, 0)


@pytest.mark.parametrize("columns", [(0, -1), (0, 4)])
def test_trap_7_slice_keys_are_built_as_extents_are_spelled(prefix: str, columns: tuple[int, int]) -> None:
    pieces = [((0, 1), columns), ((1, 3), columns)]
    entries = write_bundle(prefix, {"part": partitioned(SQUARE, pieces)})
    ends = {(0, -1): bytes.fromhex("80 7f"), (0, 4): bytes.fromhex("80 84")}
    assert sum(key.endswith(ends[columns]) for key in entries) == 2
    with open_checkpoint(prefix) as reader:
        assert list(reader) == ["part"]
        assert same(reads_alike(reader["part"]), SQUARE)


def test_trap_7_slice_whose_key_is_spelled_otherwise_is_missing(prefix: str) -> None:
    def respell(entries: Entries) -> None:
        entries[slice_key(b"part", ((0, 4), (0, 4)))] = entries.pop(slice_key(b"part", ((0, 4), (0, -1))))

    write_bundle(prefix, {"part": partitioned(SQUARE, [((0, 4), (0, -1))])}, edit=respell)
    with open_checkpoint(prefix) as reader:
        assert len(reader) == 2  # the orphan shows up as a tensor, as in TensorFlow
        with pytest.raises(CorruptCheckpointError, match=r"no entry for its slice \[0:4, 0:4\]") as caught:
            reader["part"].read()
    assert (caught.value.code, caught.value.key) == ("slice", "part")


@pytest.mark.parametrize("name", [b"part", b"with\0zero", b"with\xffbyte", b"\xff\0\xff", "ключ".encode()])
def test_trap_8_keys_are_bytes(prefix: str, name: bytes) -> None:
    write_bundle(
        prefix, {name: partitioned(SQUARE, [((0, 2), (0, -1)), ((2, 2), (0, -1))]), b"z" + name: SQUARE}
    )
    with open_checkpoint(prefix) as reader:
        assert [key_bytes(key) for key in reader] == sorted([name, b"z" + name])
        for key in reader:
            assert same(reads_alike(reader[key]), SQUARE)


def test_trap_8_key_that_begins_with_zero_is_not_a_slice_for_that(prefix: str) -> None:
    write_bundle(prefix, {b"\0odd": np.float32(1), b"plain": np.float32(2)})
    with open_checkpoint(prefix) as reader:
        assert list(reader) == ["\0odd", "plain"]
        assert reader["\0odd"].read() == 1


def test_trap_9_missing_header_is_not_silent(prefix: str) -> None:
    write_bundle(prefix, {"a": SQUARE, "b": SQUARE}, header=None)
    with pytest.raises(CorruptCheckpointError, match="no header entry") as caught:
        open_checkpoint(prefix)
    assert (caught.value.code, caught.value.path) == ("header", prefix + ".index")
    with open_checkpoint(prefix, lenient=True) as reader:
        assert list(reader) == ["a", "b"]
        assert [finding.code for finding in reader.findings] == ["header"]


def test_trap_10_checkpoint_key_can_be_the_beginning_of_a_key() -> None:
    from tests.support import data_path

    with open_checkpoint(data_path("tf_module/with_tables-1")) as reader:
        tables = [key for key in reader if key.endswith(("-keys", "-values"))]
        assert tables
        assert all(key in reader.object_paths for key in tables)
        assert reader.object_graph is not None
        assert list(reader.object_graph.flaws(reader.specs)) == []


PARTITIONED_DTYPES = [
    "float16",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "bfloat16",
    "int4",
    "complex128",
    "bool",
]


@pytest.mark.parametrize("name", PARTITIONED_DTYPES)
def test_trap_18_partitioned_tensors_of_any_dtype_are_assembled(prefix: str, name: str) -> None:
    """TensorFlow cannot put half, unsigned or float8 pieces together, though it writes them."""
    array = (np.arange(16) % 3).reshape(4, 4).astype(dtypes.BY_NAME[name].numpy)
    pieces = [((0, 2), (0, 3)), ((0, 2), (3, 1)), ((2, 2), (0, -1))]
    write_bundle(prefix, {"p": partitioned(array, pieces)})
    with open_checkpoint(prefix) as reader:
        assert same(reads_alike(reader["p"]), array)


def test_trap_18_partitioned_strings_are_assembled(prefix: str) -> None:
    pieces = ((((0, 2),), strings([b"a", b"bb"])), (((2, 1),), strings([b""])))
    write_bundle(prefix, {"s": Stored("string", (3,), b"", 0, 0, pieces)})
    with open_checkpoint(prefix) as reader:
        assert reader["s"].read().tolist() == [b"a", b"bb", b""]
        assert reader["s"].read_slice((slice(1, 3, 1),)).tolist() == [b"bb", b""]


@pytest.mark.parametrize(("stored", "value"), [(0x0F, -1), (0xFF, -1), (0x08, -8), (0x07, 7)])
def test_trap_19_high_bits_of_int4_do_not_count(prefix: str, stored: int, value: int) -> None:
    data = bytes((stored,))
    write_bundle(prefix, {"i": Stored("int4", (1,), data, masked_crc32c(data))})
    with open_checkpoint(prefix) as reader:
        assert int(reader["i"].read()[0]) == value


@pytest.mark.parametrize("number", [0, 20, 34, 77, 101, 119, 1 << 31])
def test_trap_20_unknown_dtypes_are_listed_and_rejected_alone(prefix: str, number: int) -> None:
    """Unknown numbers, references (101 and up) and resources (20) abort TensorFlow's process."""
    write_bundle(
        prefix,
        {"a": SQUARE, "b": SQUARE},
        edit=lambda entries: setattr(proto(entries, b"a"), "dtype", number),
    )
    with open_checkpoint(prefix) as reader:
        spec = reader.specs["a"]
        assert (spec.dtype, spec.shape, spec.nbytes) == (dtypes.INVALID, (4, 4), None)
        assert [(finding.code, finding.key) for finding in reader.findings] == [("dtype", "a")]
        with pytest.raises(CorruptCheckpointError) as caught:
            reader["a"].read()
        assert caught.value.key == "a"
        assert same(reader["b"].read(), SQUARE)


@pytest.mark.parametrize(
    "name", ["g[1]", "a*b", "w?", "[!x]", "{a,b}", "~", "%41", "sp ace", "dot.dot..", "-dash", "ü"]
)
def test_trap_21_prefixes_are_literal(tmp_path: Path, name: str) -> None:
    prefix = str(tmp_path / name)
    write_bundle(prefix, {"v": SQUARE})
    for path in (prefix, prefix + ".index", shard_path(prefix)):
        with open_checkpoint(path) as reader:
            assert same(reader["v"].read(), SQUARE)


# Accepted by TensorFlow (formats.md section 7) -----------------------------------


def test_aliases_gaps_and_entries_inside_others(prefix: str) -> None:
    data = bytes(100) + SQUARE.tobytes() + b"behind"

    def edit(entries: Entries) -> None:
        del entries[b"raw"]
        for key, row, rows in [(b"a", 0, 4), (b"b", 0, 4), (b"c", 2, 1)]:
            piece = SQUARE[row : row + rows]
            entries[key] = BundleEntryProto(
                dtype=1,
                shape=shape_proto(piece.shape),
                offset=100 + 16 * row,
                size=piece.nbytes,
                crc32c=masked_crc32c(piece.tobytes()),
            )

    write_bundle(prefix, {"raw": numbers(np.frombuffer(data, np.uint8))}, edit=edit)
    with open_checkpoint(prefix) as reader:
        assert same(reads_alike(reader["a"]), SQUARE)
        assert same(reads_alike(reader["b"]), SQUARE)
        assert same(reads_alike(reader["c"]), SQUARE[2:3])


def test_shards_that_no_entry_names_need_not_be_there(prefix: str) -> None:
    write_bundle(prefix, {"v": numbers(SQUARE, shard=1)}, num_shards=3)
    os.unlink(shard_path(prefix, 0, 3))
    os.unlink(shard_path(prefix, 2, 3))
    with open_checkpoint(prefix) as reader:
        assert same(reader["v"].read(), SQUARE)


def test_missing_shard_costs_its_own_tensors_only(prefix: str) -> None:
    write_bundle(prefix, {"a": SQUARE, "b": numbers(SQUARE, shard=1)}, num_shards=2)
    os.unlink(shard_path(prefix, 1, 2))
    with open_checkpoint(prefix) as reader:
        assert same(reader["a"].read(), SQUARE)
        with pytest.raises(CheckpointNotFoundError) as caught:
            reader["b"].read()
    assert (caught.value.path, caught.value.code) == (shard_path(prefix, 1, 2), "shard-missing")
    assert caught.value.key == "b"


def test_number_of_a_shard_may_have_more_than_five_digits(prefix: str) -> None:
    write_bundle(
        prefix,
        {"v": SQUARE},
        header=BundleHeaderProto(num_shards=123456),
        edit=lambda entries: setattr(proto(entries, b"v"), "shard_id", 100000),
    )
    os.rename(shard_path(prefix), prefix + ".data-100000-of-123456")
    with open_checkpoint(prefix + ".data-100000-of-123456") as reader:
        assert same(reader["v"].read(), SQUARE)


@pytest.mark.parametrize("data", ["08 01", "08 01 1a 02 08 09", "1a 02 08 01 10 00 08 01", "08 01 78 05"])
def test_headers_that_tensorflow_accepts(prefix: str, data: str) -> None:
    write_bundle(prefix, {"v": SQUARE}, header=bytes.fromhex(data))
    with open_checkpoint(prefix) as reader:
        assert same(reader["v"].read(), SQUARE)


@pytest.mark.parametrize(
    ("header", "error", "what"),
    [
        (
            BundleHeaderProto(num_shards=1, version=VersionDef(producer=3, min_consumer=2)),
            UnsupportedFeatureError,
            "version 2",
        ),
        (
            BundleHeaderProto(num_shards=1, version=VersionDef(bad_consumers=[1])),
            UnsupportedFeatureError,
            "ckpt supports version 1",
        ),
        (BundleHeaderProto(num_shards=1, endianness=2), CorruptCheckpointError, "endianness 2"),
        (BundleHeaderProto(num_shards=-1), CorruptCheckpointError, "-1 data shards"),
        (b"\x08", CorruptCheckpointError, "header"),
        (b"\x1a\x05\x08", CorruptCheckpointError, "header"),
    ],
)
def test_headers_that_are_rejected(prefix: str, header: Any, error: type[Exception], what: str) -> None:
    write_bundle(prefix, {"v": SQUARE}, header=header)
    with pytest.raises(error, match=what) as caught:
        open_checkpoint(prefix)
    assert caught.value.path == prefix + ".index"  # type: ignore[attr-defined]
    with open_checkpoint(prefix, lenient=True) as reader:
        assert list(reader) == ["v"]
        assert [finding.code for finding in reader.findings] == ["header"]


def test_header_alone_is_a_bundle_without_tensors(prefix: str) -> None:
    write_bundle(prefix, {})
    with open_checkpoint(prefix) as reader:
        assert (len(reader), list(reader.specs)) == (0, [])


def test_fields_that_tensorflow_does_not_write_are_read(prefix: str) -> None:
    """Explicit defaults, dimensions' names, unknown fields, fields in another order."""

    def edit(entries: Entries) -> None:
        plain = proto(entries, b"v")
        crc = plain.crc32c.to_bytes(4, "little")
        entries[b"v"] = (
            b"\x35"
            + crc
            + bytes.fromhex("28 40 20 00 18 00 7a 01 78 12 0b 12 05 08 04 12 01 6e 12 02 08 04 08 01")
        )

    write_bundle(prefix, {"u": SQUARE, "v": SQUARE}, edit=edit)
    with open_checkpoint(prefix) as reader:
        assert reader.specs["v"].shape == (4, 4)
        assert reader.specs["v"].dtype.name == "float32"
        assert same(reader["v"].read(), SQUARE)


def test_spec_and_tensor_tell_the_same_of_an_entry_with_a_field_given_twice(prefix: str) -> None:
    """The listing looks at the beginning of an entry; what follows may say otherwise, and the last counts."""

    def edit(entries: Entries) -> None:
        entries[b"b"] = proto(entries, b"a").encode() + b"\x08\x03"  # dtype again: int32
        entries[b"c"] = proto(entries, b"a").encode() + b"\x20" + b"\xff" * 9 + b"\x01"  # offset -1

    write_bundle(prefix, {"a": SQUARE}, edit=edit)
    with open_checkpoint(prefix) as reader:
        assert [reader.specs[key].dtype.name for key in "ab"] == ["float32", "int32"]
        assert same(reader["b"].read(), SQUARE.view(np.int32))
        assert reader.specs["c"].dtype is dtypes.INVALID
        assert [(finding.key, finding.code) for finding in reader.findings] == [("c", "entry")]


def test_entry_that_is_not_a_message_is_listed_without_a_dtype(prefix: str) -> None:
    write_bundle(prefix, {"a": SQUARE, "b": SQUARE}, edit=lambda entries: entries.update({b"a": b"\xff\xff"}))
    with open_checkpoint(prefix) as reader:
        assert (reader.specs["a"].dtype, reader.specs["a"].shape) == (dtypes.INVALID, ())
        (finding,) = reader.findings
        assert isinstance(finding, Finding)
        assert (finding.severity, finding.code, finding.key, finding.file) == (
            "error",
            "entry",
            "a",
            prefix + ".index",
        )
        assert same(reader["b"].read(), SQUARE)


def test_keys_out_of_order_are_all_found(prefix: str) -> None:
    entries = write_bundle(prefix, {"a": SQUARE, "b": SQUARE[:2], "c": SQUARE[:1]})
    rows = [(key, proto(entries, key).encode()) for key in (b"c", b"a", b"b", b"a")]
    write_table(prefix + ".index", [(b"", b"\x08\x01"), *rows])
    with open_checkpoint(prefix) as reader:
        assert list(reader) == ["a", "b", "c"]
        assert same(reader["c"].read(), SQUARE[:1])
        assert {finding.code for finding in reader.findings} == {"key-order"}


@pytest.mark.parametrize("options", [{"block_size": 1}, {"block_size": 256}, {"compress": True}])
def test_index_of_many_blocks_and_of_snappy_blocks(prefix: str, options: dict[str, Any]) -> None:
    tensors = {f"layer_{number:03d}/kernel": np.full((2, 2), number, np.float32) for number in range(200)}
    write_bundle(prefix, tensors, **options)
    with open_checkpoint(prefix) as reader:
        assert list(reader) == sorted(tensors)
        assert all(same(reader[key].read(), value) for key, value in tensors.items())


# Big-endian bundles (formats.md 4.10) ---------------------------------------------

BIG_ENDIAN = BundleHeaderProto(num_shards=1, endianness=1, version=VersionDef(producer=1))


@pytest.mark.parametrize(
    "name",
    [
        "float32",
        "float64",
        "int16",
        "uint64",
        "complex64",
        "complex128",
        "float16",
        "bfloat16",
        "bool",
        "int8",
    ],
)
def test_big_endian_numbers(prefix: str, name: str) -> None:
    array = (np.arange(6) % 5).reshape(2, 3).astype(dtypes.BY_NAME[name].numpy)
    if array.dtype.kind == "c":
        array = array + 1j * array
        data = array.view(f"f{array.itemsize // 2}").byteswap().tobytes()
    elif array.itemsize > 1:
        data = array.view(f"u{array.itemsize}").byteswap().tobytes()
    else:
        data = array.tobytes()
    write_bundle(prefix, {"n": Stored(name, (2, 3), data, masked_crc32c(data))}, header=BIG_ENDIAN)
    with open_checkpoint(prefix) as reader:
        assert same(reads_alike(reader["n"]), array)


def test_big_endian_strings(prefix: str) -> None:
    import struct

    from formats.wire.crc32c import extend, mask

    crc = crc32c(struct.pack(">II", 2, 1))
    stored = struct.pack(">I", mask(crc))
    crc = extend(extend(crc, stored), b"abc")
    write_bundle(
        prefix, {"s": Stored("string", (2,), b"\2\1" + stored + b"abc", mask(crc))}, header=BIG_ENDIAN
    )
    with open_checkpoint(prefix) as reader:
        assert reads_alike(reader["s"]).tolist() == [b"ab", b"c"]


# Pieces that do not fit together ---------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "what"),
    [
        ([((0, 2), (0, 4)), ((1, 3), (0, 4))], "overlap"),
        ([((0, 4), (0, 2)), ((0, 4), (1, 3))], "overlap"),
        ([((0, 3), (0, 4))], "contain only 12 of the 16"),
        ([((0, 2), (0, 4)), ((3, 1), (0, 4))], "contain only 12 of the 16"),
        ([((0, 2), (0, 2)), ((2, 2), (2, 2)), ((1, 2), (1, 2))], "overlap"),
    ],
)
def test_pieces_that_do_not_tile_are_corrupt(prefix: str, pieces: Any, what: str) -> None:
    write_bundle(prefix, {"p": partitioned(SQUARE, pieces)})
    with open_checkpoint(prefix) as reader, pytest.raises(CorruptCheckpointError, match=what) as caught:
        reader["p"].read()
    assert (caught.value.key, caught.value.code) == ("p", "slice")


def test_part_that_is_there_can_be_read_of_a_tensor_with_gaps(prefix: str) -> None:
    write_bundle(prefix, {"p": partitioned(SQUARE, [((0, 2), (0, -1))])})
    with open_checkpoint(prefix) as reader:
        assert same(reader["p"].read_slice((slice(0, 2, 1), slice(1, 3, 1))), SQUARE[:2, 1:3])
        with pytest.raises(CorruptCheckpointError, match="contain only 4 of the 8"):
            reader["p"].read_slice((slice(1, 3, 1), slice(0, 4, 1)))


def _add_full_entry(
    entries: Entries, key: bytes, shape: tuple[int, ...], slices: list[Any], dtype: int = 1
) -> None:
    entries[key] = BundleEntryProto(
        dtype=dtype, shape=shape_proto(shape), slices=[slice_proto(extents) for extents in slices]
    )


@pytest.mark.parametrize(
    ("extents", "what"),
    [
        (((0, 5), (0, 4)), "slice 0:5 does not fit a dimension of size 4"),
        (((-1, 2), (0, 4)), "slice -1:1"),
        (((3, -2), (0, 4)), "slice 3:1"),
        (((0, 4),), "the slice has 1 dimensions, but the tensor has 2"),
        ((), "the slice has 0 dimensions, but the tensor has 2"),
        (((0, 1 << 62), (0, 4)), "does not fit a dimension of size 4"),
    ],
)
def test_pieces_outside_their_tensor_are_corrupt(prefix: str, extents: Any, what: str) -> None:
    from formats.wire.messages import Extent, TensorSliceProto

    def edit(entries: Entries) -> None:
        spelled = [Extent(start=start, length=length) for start, length in extents]
        entries[b"p"] = BundleEntryProto(
            dtype=1, shape=shape_proto((4, 4)), slices=[TensorSliceProto(extent=spelled)]
        )
        entries[slice_key(b"p", extents)] = entries.pop(b"v")

    write_bundle(prefix, {"v": SQUARE}, edit=edit)
    with open_checkpoint(prefix) as reader, pytest.raises(CorruptCheckpointError, match=what) as caught:
        reader["p"].read()
    assert (caught.value.key, caught.value.code) == ("p", "slice")


def test_piece_of_another_dtype_is_corrupt(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        proto(entries, slice_key(b"p", ((0, 2), (0, -1)))).dtype = 3

    write_bundle(prefix, {"p": partitioned(SQUARE, [((0, 2), (0, -1)), ((2, 2), (0, -1))])}, edit=edit)
    with (
        open_checkpoint(prefix) as reader,
        pytest.raises(CorruptCheckpointError, match="is int32; expected float32"),
    ):
        reader["p"].read()


def test_piece_that_is_itself_partitioned_is_corrupt(prefix: str) -> None:
    """Its key is its own piece's key, which would be read for ever."""

    def edit(entries: Entries) -> None:
        key = slice_key(b"p", ((0, 4), (0, 4)))
        _add_full_entry(entries, b"p", (4, 4), [((0, 4), (0, 4))])
        _add_full_entry(entries, key, (4, 4), [((0, 4), (0, 4))])

    write_bundle(prefix, {}, edit=edit)
    with open_checkpoint(prefix) as reader, pytest.raises(CorruptCheckpointError, match="itself") as caught:
        reader["p"].read()
    assert (caught.value.key, caught.value.code) == ("p", "slice")


def test_partitioned_scalar_is_read(prefix: str) -> None:
    write_bundle(prefix, {"p": Stored("float32", (), b"", 0, 0, (((), numbers(np.float32(7))),))})
    with open_checkpoint(prefix) as reader:
        assert same(reads_alike(reader["p"]), np.array(7, np.float32))


def test_tensor_cut_along_many_dimensions_is_read(prefix: str) -> None:
    array = np.arange(512, dtype=np.int16).reshape((2,) * 9)
    pieces = [tuple((at, 1) for at in np.unravel_index(number, array.shape)) for number in range(512)]
    pieces = [tuple((int(start), 1) for start, _ in piece) for piece in pieces]
    write_bundle(prefix, {"p": partitioned(array, pieces)})
    with open_checkpoint(prefix) as reader:
        assert same(reader["p"].read(), array)


def test_overlap_beyond_the_first_thousand_pieces_does_not_stand_in_for_a_gap(prefix: str) -> None:
    """Element 1999 is stored nowhere and 1998 twice, as many as expected in total."""
    array = np.arange(2500, dtype=np.int32)
    pieces = [((at, 1),) for at in range(1999)]

    def edit(entries: Entries) -> None:
        extents = [((at, 1),) for at in range(1999)] + [((1998, 1),)]
        _add_full_entry(entries, b"p", (2500,), extents, dtype=3)

    write_bundle(prefix, {"p": partitioned(array, pieces)}, edit=edit)
    with open_checkpoint(prefix) as reader, pytest.raises(CorruptCheckpointError):
        reader["p"].read_slice((slice(1998, 2000, 1),))


dims = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(st.data())
def test_any_tiling_reads_as_the_whole_array(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    shape = tuple(data.draw(dims))
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    regions = [tuple((0, dim) for dim in shape)]
    for _ in range(data.draw(st.integers(0, 5))):
        region = regions.pop(data.draw(st.integers(0, len(regions) - 1)))
        axis = data.draw(st.integers(0, len(shape) - 1))
        start, length = region[axis]
        cut = data.draw(st.integers(0, length))
        regions.append((*region[:axis], (start, cut), *region[axis + 1 :]))
        regions.append((*region[:axis], (start + cut, length - cut), *region[axis + 1 :]))
    pieces = [piece for piece in dict.fromkeys(regions) if all(length for _, length in piece)]
    prefix = str(tmp_path_factory.mktemp("tiling") / "p")
    write_bundle(prefix, {"p": partitioned(array, data.draw(st.permutations(pieces)))})
    index = tuple(
        slice(start, data.draw(st.integers(start, dim)), data.draw(st.integers(1, 4)))
        for dim, start in ((dim, data.draw(st.integers(0, dim))) for dim in shape)
    )
    with open_checkpoint(prefix) as reader:
        assert same(reader["p"].read_slice(index), np.ascontiguousarray(array[index]))
        assert same(reader["p"].read(), array)


# Entries with false sizes and offsets --------------------------------------------------------------------


def set_on(key: bytes, **values: Any) -> Any:
    def edit(entries: Entries) -> None:
        for name, value in values.items():
            setattr(proto(entries, key), name, value)

    return edit


@pytest.mark.parametrize(
    ("values", "code", "what"),
    [
        ({"size": 1 << 60}, "tensor-size", "the tensor has 1152921504606846976 stored bytes"),
        ({"size": 60}, "tensor-size", "the tensor has 60 stored bytes, but float32 of shape "),
        ({"size": 0}, "tensor-size", "the tensor has 0 stored bytes"),
        ({"dtype": 2}, "tensor-size", "float64 of shape"),
        ({"shape": shape_proto((1 << 40,))}, "tensor-size", "needs 4398046511104"),
        ({"shape": shape_proto((10**9, 10**9)), "size": 4 * 10**18}, "shard-short", "ends at byte"),
        ({"offset": 1}, "shard-short", "the tensor ends at byte 65, but the shard has only 64 bytes"),
        ({"offset": (1 << 63) - 1}, "shard-short", "ends at byte"),
        ({"shard_id": 1}, "entry", "names shard 1, but the header declares 1 shard"),
        ({"shard_id": (1 << 31) - 1}, "entry", "the header declares 1"),
        ({"shard_id": -1}, "entry", "cannot be decoded"),
        ({"offset": -1}, "entry", "cannot be decoded"),
        ({"size": -1}, "entry", "cannot be decoded"),
        ({"shape": shape_proto((-5,))}, "entry", "cannot be decoded"),
        ({"shape": shape_proto((1 << 30, 1 << 30, 1 << 30))}, "entry", "cannot be decoded"),
        ({"shape": shape_proto((0, 1 << 62, 2))}, "entry", "cannot be decoded"),
        ({"dtype": 7}, "tensor-checksum", "checksum|elements|varint|strings|variant"),
        ({"dtype": 21}, "tensor-checksum", "checksum|elements|varint|strings|variant"),
        (
            {"dtype": 7, "shape": shape_proto((65,))},
            "tensor-size",
            "the tensor has 64 stored bytes, which is too few for 65 elements",
        ),
        ({"dtype": 21, "shape": shape_proto((1 << 50,)), "size": 1 << 55}, "shard-short", "ends at byte"),
        (
            {"dtype": 7, "shape": shape_proto((64,))},
            "tensor-checksum",
            "checksum|elements|varint|strings|variant",
        ),
    ],
)
def test_false_entries_are_corrupt(prefix: str, values: dict[str, Any], code: str, what: str) -> None:
    write_bundle(prefix, {"v": SQUARE, "sound": np.float32(3)}, edit=set_on(b"v", **values))
    with open(shard_path(prefix), "r+b") as file:
        file.truncate(64)  # `sound` was after that
    with open_checkpoint(prefix) as reader:
        index = (slice(0, 1, 1),) * reader.specs["v"].rank
        for read in (lambda tensor: tensor.read(), lambda tensor: tensor.read_slice(index)):
            with pytest.raises(CorruptCheckpointError, match=what) as caught:
                read(reader["v"])
            assert (caught.value.key, caught.value.code) == ("v", code)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1,) * 65, 1), ((1,) * 254, 1), ((0, 1 << 62), 2), ((0, 1 << 60, 4), 18), ((1 << 62, 0), 7)],
)
def test_shapes_that_numpy_cannot_hold_are_rejected_by_name(
    prefix: str, shape: tuple[int, ...], dtype: int
) -> None:
    size = 0 if 0 in shape else 4

    def edit(entries: Entries) -> None:
        crc = masked_crc32c(bytes(size))
        entries[b"v"] = BundleEntryProto(dtype=dtype, shape=shape_proto(shape), size=size, crc32c=crc)

    write_bundle(prefix, {"raw": np.zeros(4, np.int8)}, edit=edit)
    with open_checkpoint(prefix) as reader:
        assert reader.specs["v"].shape == shape
        with pytest.raises(UnsupportedFeatureError) as caught:
            reader["v"].read()
        assert caught.value.key == "v"


def test_shape_of_more_dimensions_than_tensorflow_has_is_corrupt(prefix: str) -> None:
    write_bundle(prefix, {"v": SQUARE}, edit=set_on(b"v", shape=shape_proto((1,) * 255)))
    with open_checkpoint(prefix) as reader:
        assert reader.specs["v"].dtype is dtypes.INVALID
        assert [finding.code for finding in reader.findings] == ["shape"]


def test_object_graph_of_another_dtype_is_a_finding(prefix: str) -> None:
    write_bundle(prefix, {"_CHECKPOINTABLE_OBJECT_GRAPH": np.int8(5), "a": SQUARE})
    with open_checkpoint(prefix) as reader:
        assert reader.format.name == "tf-object"
        assert reader.object_graph is None
        assert [finding.code for finding in reader.findings] == ["graph-decode"]
        assert reader.kinds["a"] == "variable"


def test_missing_tensor_is_named(prefix: str) -> None:
    write_bundle(prefix, {"v": SQUARE})
    with (
        open_checkpoint(prefix) as reader,
        pytest.raises(TensorNotFoundError, match="no such tensor") as caught,
    ):
        reader["w"]
    assert caught.value.key == "w"


def test_variants_by_hand(prefix: str) -> None:
    values = [b"\x0a\x01x", b"", b"\x0a\x02yz"]
    write_bundle(prefix, {"v": variants(values), "none": variants([]), "one": variants([b"\x0a\x00"], ())})
    with open_checkpoint(prefix) as reader:
        assert reads_alike(reader["v"]).tolist() == values
        assert reads_alike(reader["none"]).shape == (0,)
        assert reads_alike(reader["one"]).item() == b"\x0a\x00"
        assert len(sample_indexes((3,))) == 5


def test_a_damaged_entry_is_placed_in_its_block(prefix: str) -> None:
    def spoil(entries: Entries) -> None:
        proto(entries, b"t60").dtype = 77
        proto(entries, b"t61").size = 3

    write_bundle(prefix, {f"t{number:02}": SQUARE for number in range(64)}, edit=spoil, block_size=256)
    with open_checkpoint(prefix) as reader:
        findings = [finding for step in reader.verify() for finding in step.findings]
        assert [(found.code, found.key) for found in findings] == [("dtype", "t60"), ("tensor-size", "t61")]
        with LocalFile(prefix + ".index") as file:
            table = Table(file.read, file.size, file.path)
            for found in findings:
                (handle,) = (handle for _, handle in table.index if handle.offset == found.offset)
                assert handle.offset > 0
                assert key_bytes(found.key or "") in dict(table.entries(handle))


def test_entries_may_share_their_bytes_but_not_a_hundred_times_all_there_are(prefix: str) -> None:
    """TensorFlow reads such entries; here all of them would be 20 GB of 1 MB."""
    values = np.ones((512, 512), np.float32)

    def shared(count: int) -> Callable[[Entries], None]:
        def edit(entries: Entries) -> None:
            entries.update((b"w%06d" % number, entries[b"v"]) for number in range(count))

        return edit

    write_bundle(prefix, {"v": values}, edit=shared(50))
    with open_checkpoint(prefix) as reader:
        assert same(reader["w000049"].read(), values)
        assert not [finding for step in reader.verify() for finding in step.findings]
    write_bundle(prefix, {"v": values}, edit=shared(20_000))
    with open_checkpoint(prefix) as reader:
        with pytest.raises(
            UnsupportedFeatureError, match="1048576 stored bytes expand to tensors of 20972568576 bytes"
        ):
            reader["w000049"].read()
        assert {finding.code for step in reader.verify() for finding in step.findings} == {"tensor-size"}


@pytest.mark.parametrize("shard", [1, 2])
def test_an_entry_in_a_shard_that_the_header_does_not_count_is_damaged(prefix: str, shard: int) -> None:
    def edit(entries: Entries) -> None:
        entries[b"b"].shard_id = shard  # type: ignore[union-attr]

    write_bundle(prefix, {"a": np.ones(3), "b": np.zeros(2)}, edit=edit)
    with open_checkpoint(prefix, lenient=True) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
    assert [(each.key, each.code, each.file) for each in found] == [("b", "entry", f"{prefix}.index")]
    assert found[0].message == f"the entry names shard {shard}, but the header declares 1 shard"
