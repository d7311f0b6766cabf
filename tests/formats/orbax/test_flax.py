"""Flax's files: what Flax wrote, what it never wrote, and what is no such file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import formats
from formats.orbax.flax_tensors import normalise
from formats.wire.msgpack import Unpacker
from tests.msgpack_files import array, binary, chunked, extension, packed, packed_map
from tests.orbax_samples import SAMPLES, summed
from tests.support import data_path, reads_alike, same

if TYPE_CHECKING:
    from pathlib import Path

W = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
FLAX = [name for name in SAMPLES if "flax" in name]


@pytest.mark.parametrize("name", FLAX)
def test_what_flax_wrote_is_read_to_the_bit(name: str) -> None:
    sample = SAMPLES[name]
    with formats.open_checkpoint(data_path("orbax", sample["path"])) as reader:
        assert reader.format.name == "flax"
        assert {key: summed(reads_alike(each)) for key, each in reader.items()} == sample["tensors"]


def test_the_state_of_an_optimizer_is_distinguished_from_the_parameters() -> None:
    with formats.open_checkpoint(data_path("orbax", "new/flax_legacy/checkpoint_10")) as reader:
        assert reader.kinds["opt_state/0/trace/dense_0/kernel"] == "slot"
        assert reader.kinds["params/dense_0/kernel"] == "variable"
        assert reader.kinds["step"] == "state"
        assert reader.facts.document()["empty"] == {"opt_state/1": "Dict"}


def write(path: Path, tree: object) -> str:
    path.write_bytes(packed(tree))
    return str(path)


def test_every_leaf_is_a_tensor_or_is_shown(tmp_path: Path) -> None:
    narrow = np.array([-2, 1], ml_dtypes.int4)
    tree = {
        "a/b": {"c%": W},
        "scalar": array(np.float32(1.5), code=3),
        "complex": extension(2, packed([1.0, -2.0])),
        "int": 5,
        "large": b"\xcf" + b"\xff" * 8,
        "float": 0.5,
        "flag": True,
        "text": "words",
        "bytes": binary(b"1234"),
        "none": None,
        "list": [1, {"x": W[0]}],
        "empty": {},
        "bfloat16": np.array([1, 2], ml_dtypes.bfloat16),
        "int4": array(narrow.astype(np.int8), "int4"),
        "bool": array(np.array([0, 2], np.uint8), "bool"),
        "nothing": np.zeros((0, 3), np.float32),
    }
    with formats.open_checkpoint(write(tmp_path / "x.msgpack", tree)) as reader:
        found = {key: reads_alike(each) for key, each in reader.items()}
        shown = reader.facts.document()
    assert same(found.pop("a%2Fb/c%25"), W)
    assert same(found.pop("list/1/x"), W[0])
    assert found.pop("int4").tobytes() == b"\x0e\x01"  # as TensorFlow stores it: one digest for one value
    assert found.pop("nothing").shape == (0, 3)
    values = {key: (each.dtype.name, each.tolist()) for key, each in found.items()}
    assert values == {
        "scalar": ("float32", 1.5),
        "complex": ("complex128", 1 - 2j),
        "int": ("int64", 5),
        "large": ("uint64", (1 << 64) - 1),
        "float": ("float64", 0.5),
        "flag": ("bool", True),
        "list/0": ("int64", 1),
        "bfloat16": ("bfloat16", [1.0, 2.0]),
        "bool": ("bool", [False, True]),
    }
    assert shown["values"] == {"text": "words", "bytes": "4 bytes"}
    assert shown["empty"] == {"none": "None", "empty": "Dict"}


@pytest.mark.parametrize("size", [1, 5, 12])
def test_an_array_in_pieces_is_one_tensor(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "x.msgpack", {"w": chunked(W, size), "v": W})
    with formats.open_checkpoint(path) as reader:
        assert same(reads_alike(reader["w"]), W)
        assert b"".join(map(bytes, reader["w"].chunks(8))) == W.tobytes()


def test_a_type_that_is_not_mapped_keeps_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.msgpack", {"w": array(np.arange(4, dtype=np.uint8), "float8_e3m4"), "v": W})
    with formats.open_checkpoint(path) as reader:
        assert (reader.specs["w"].dtype_name, reader.specs["w"].type_name) == (None, "float8_e3m4")
        assert b"".join(map(bytes, reader["w"].chunks())) == bytes(range(4))


def test_a_sharded_folder_is_one_checkpoint(tmp_path: Path) -> None:
    names = [f"flax_model-0000{number}-of-00002.msgpack" for number in (1, 2)]
    write(tmp_path / names[0], {"a": {"w": W}})
    write(tmp_path / names[1], {"a": {"b": W[0]}})
    index = {"metadata": {"total_size": 64}, "weight_map": {"a/w": names[0], "a/b": names[1]}}
    (tmp_path / "flax_model.msgpack.index.json").write_text(json.dumps(index))
    for path in (tmp_path, tmp_path / "flax_model.msgpack.index.json"):
        with formats.open_checkpoint(path) as reader:
            assert (reader.format.name, list(reader), len(reader.files())) == ("flax", ["a/b", "a/w"], 3)
            assert same(reader["a/w"].read(), W)
    (tmp_path / names[1]).unlink()
    with pytest.raises(formats.CheckpointError, match="00002-of-00002"):
        formats.open_checkpoint(tmp_path)


DEEP = b"\x81\xa1a" * 500 + b"\xc0"
MALFORMED = {
    "more bytes, but only 92 are left": packed({"w": W})[:-1],
    "bytes follow": packed({"w": W}) + b"\0",
    "occurs twice": packed_map([("w", 1), ("w", 2)]),
    "neither text nor an integer": packed_map([("w", 1), (1.5, 1)]),
    "48 bytes, but int8 of shape": packed({"w": array(W, "int8")}),
    "levels deep": DEEP,
    "a map or list declares 4294967295 entries": packed({"w": 1, "v": b"\xdd\xff\xff\xff\xff"}),
    "does not start a value": packed({"w": 1, "v": b"\xc1"}),
    "not made of a shape, a dtype and bytes": packed({"w": 1, "v": extension(1, packed([1, 2]))}),
    "is invalid": packed({"v": extension(1, packed([[-1], "int8", binary(b"")]))}),
    "no name of a dtype": packed({"v": extension(1, packed([[1], 5, binary(b"1")]))}),
    "the extension 9 is unknown": packed({"w": 1, "v": extension(9, b"1234")}),
    "not UTF-8": packed({"w": 1, "v": b"\xa1\xff"}),
    "expected the keys 0 to 0": packed({"w": {**chunked(W, 12), "shape": {"7": 12}}}),
    "needs 24": packed({"w": {**chunked(W, 6), "shape": {"0": 6}}}),
    "has no pieces": packed({"w": {**chunked(W, 6), "chunks": {}}}),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_contradicts_the_format_is_an_error(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.msgpack"
    path.write_bytes(MALFORMED[what])
    with pytest.raises(formats.CorruptCheckpointError, match=what) as caught:
        formats.open_checkpoint(path)
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x80\x02}q\0.", b"\x89PNG\r\n\x1a\n", b"\x82\xa1a", b"\xde\0\1\xa1a\xc1"]
)
def test_what_only_begins_as_a_map_is_no_such_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.msgpack"
    path.write_bytes(data)
    with pytest.raises(formats.UnknownFormatError):
        formats.open_checkpoint(path)


def test_listing_reads_the_headers_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "x.msgpack", {f"w{number}": np.zeros(1 << 18, np.float32) for number in range(8)})
    from formats.store.local.files import LocalFile

    read: list[int] = []
    plain = LocalFile.read

    def counted(self: LocalFile, offset: int, size: int) -> bytes:
        read.append(size)
        return plain(self, offset, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFile, "read", counted)
        with formats.open_checkpoint(path) as reader:
            assert len(reader) == 8
    assert sum(read) < 1 << 18


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("e0", -32),
        ("ff", -1),
        ("cc ff", 255),
        ("cd 01 00", 256),
        ("ce ff ff ff ff", (1 << 32) - 1),
        ("cf ff ff ff ff ff ff ff ff", (1 << 64) - 1),
        ("d0 80", -128),
        ("d1 80 00", -(1 << 15)),
        ("d2 80 00 00 00", -(1 << 31)),
        ("d3 80 00 00 00 00 00 00 00", -(1 << 63)),
        ("a0", ""),
        ("80", {}),
        ("90", []),
    ],
)
def test_first_bytes_of_msgpack_at_their_bounds(data: str, value: Any) -> None:
    stored = bytes.fromhex(data)
    unpacker = Unpacker(lambda offset, size: stored[offset : offset + size], 0, len(stored))
    found = unpacker.value()
    assert (found, type(found), unpacker.at) == (value, type(value), len(stored))


@pytest.mark.parametrize(
    ("name", "bits"), [("int4", 15), ("uint4", 15), ("int2", 3), ("uint2", 3), ("float4_e2m1fn", 15)]
)
def test_types_of_less_than_a_byte_keep_the_bits_that_they_have(name: str, bits: int) -> None:
    stored = np.arange(256, dtype=np.uint8)
    array = stored.view(getattr(ml_dtypes, name)).copy()
    normalise(array)
    assert array.view(np.uint8).tolist() == (stored & bits).tolist()


def test_bools_are_zero_and_one() -> None:
    array = np.arange(256, dtype=np.uint8).view(np.bool_).copy()
    normalise(array)
    assert array.view(np.uint8).tolist() == [0, *[1] * 255]
