"""The columns of an index that is listed while it is read: those of one that is read first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import CheckpointError, CorruptCheckpointError, open_checkpoint
from formats.core.dtypes import INVALID
from formats.core.spec import Stored
from formats.find.opening import locate, open_location
from formats.location import parse_location
from formats.tf.bundle import reader
from formats.wire.messages import BundleEntryProto, BundleHeaderProto, Dim, TensorShapeProto, VersionDef
from formats.wire.sstable import encode_block
from tests.support import BUNDLES, Entries, data_path, partitioned, recorded, strings, table_of, write_bundle

if TYPE_CHECKING:
    from pathlib import Path

    from formats.core.spec import TensorSpec


@pytest.fixture(autouse=True)
def _every_index_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MANY_BLOCKS", 0)


def listed(path: str) -> tuple[list[TensorSpec], list[str]]:
    """Return the specs that columns tell, and what is found on the way."""
    with open_location(locate(parse_location(path)), loaded=False) as opened:
        parts = list(opened.columns())
        told = (
            specs[number]._replace(key=key)
            for keys, numbers, specs, _ in parts
            for key, number in zip(keys, numbers, strict=True)
        )
        return list(told), [finding.text for finding in opened.findings]


def read(path: str) -> tuple[list[TensorSpec], list[str]]:
    with open_checkpoint(path) as opened:
        return list(opened.specs.values()), [finding.text for finding in opened.findings]


def many(prefix: str, count: int = 300, **options: Any) -> Entries:
    """Write a bundle of a few blocks: dtypes and shapes of all kinds, some of them often."""
    tensors: dict[str, Any] = {}
    for number in range(count):
        tensors[f"layer_{number:05d}/kernel"] = np.zeros((number % 7, 2), np.float32)
        tensors[f"layer_{number:05d}/bias"] = np.zeros((), np.int64 if number % 3 else np.float16)
        tensors[f"layer_{number:05d}/" + "long" * (number % 90)] = np.zeros((1,) * (number % 8), np.uint8)
        if number % 50 == 0:
            tensors[f"layer_{number:05d}/vocabulary"] = strings([b"x" * number])
    tensors["line\nbreak"] = np.zeros(1, np.float32)
    return write_bundle(prefix, dict(sorted(tensors.items())), block_size=2000, **options)


@pytest.mark.parametrize("golden", recorded(*BUNDLES), ids=lambda golden: golden["path"])
def test_goldens_are_listed_as_they_are_read(golden: dict[str, Any]) -> None:
    path = data_path(golden["path"])
    assert listed(path) == read(path)


def test_what_is_in_many_blocks_is_listed_as_it_is_read(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    many(prefix)
    specs, findings = read(prefix)
    assert listed(prefix) == (specs, findings)
    assert len({spec[1:] for spec in specs}) > 20
    assert findings == []


def test_entries_that_cannot_be_decoded_are_listed_and_said(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")

    def spoil(entries: Entries) -> None:
        for at, key in enumerate(entries):
            if at % 11 == 0:
                entries[key].dtype = 99
            if at % 13 == 0:
                entries[key].shape = TensorShapeProto(dim=[Dim(size=-1)])
            if at % 17 == 0:
                entries[key].offset = -1
            if at % 19 == 0:
                entries[key].shard_id = 1 << 31
            if at % 23 == 0:
                entries[key].unknown = b"\x08\x01"  # the dtype once more, and so another one

    many(prefix, edit=spoil)
    specs, findings = read(prefix)
    assert len(findings) > 100
    assert listed(prefix) == (specs, findings)


def test_slices_are_not_tensors(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    whole = partitioned(np.zeros((4, 3), np.float32), [((0, 2), (0, -1)), ((2, 2), (0, -1))])
    write_bundle(prefix, {"a": whole, "b": np.zeros(2)}, block_size=30)
    assert [spec.key for spec in listed(prefix)[0]] == ["a", "b"]


def test_slices_behind_a_block_of_the_header_alone_are_not_tensors(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    halves = partitioned(np.zeros((4, 2), np.float32), [((0, 2), (0, 2)), ((2, 2), (0, 2))])
    write_bundle(prefix, {"a": np.zeros(2), "w": halves}, block_size=1)
    assert [spec.key for spec in listed(prefix)[0]] == ["a", "w"]
    assert listed(prefix) == read(prefix)


def rows(*keys: str) -> list[tuple[bytes, bytes]]:
    value = BundleEntryProto(dtype=1, shape=TensorShapeProto(), size=4).encode()
    header = BundleHeaderProto(num_shards=1, version=VersionDef(producer=1)).encode()
    return [(key.encode(), value if key else header) for key in keys]


def write_blocks(prefix: str, *blocks: bytes) -> None:
    with open(prefix + ".index", "wb") as file:
        file.write(table_of(blocks))


@pytest.mark.parametrize("later", [("c", "aa", "d"), ("a", "c", "d"), ("b", "b", "c"), ("0",), ()])
def test_keys_out_of_order_are_listed_all_and_once(tmp_path: Path, later: tuple[str, ...]) -> None:
    prefix = str(tmp_path / "c")
    write_blocks(prefix, encode_block(rows("", "a", "b")), encode_block(rows(*later)))
    specs, findings = read(prefix)
    told, said = listed(prefix)
    assert sorted(told) == specs
    assert said == findings


def test_specs_that_were_reported_keep_their_numbers_where_the_rest_is_read(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    other = BundleEntryProto(dtype=9, shape=TensorShapeProto(dim=[Dim(size=3)]), size=24).encode()
    write_blocks(prefix, encode_block(rows("", "a", "c")), encode_block([(b"b", other)]))
    with open_location(locate(parse_location(prefix)), loaded=False) as opened:
        first, rest = opened.columns()
        assert rest.specs[: len(first.specs)] == first.specs
        assert [rest.specs[number].dtype.name for number in rest.numbers] == ["int64"]


def test_what_columns_have_found_is_not_found_twice(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    unknown = BundleEntryProto(dtype=99, shape=TensorShapeProto(), size=4).encode()
    write_blocks(prefix, encode_block([*rows("", "a"), (b"b", unknown)]))
    with open_location(locate(parse_location(prefix)), loaded=False) as opened:
        list(opened.columns())
        assert len(opened.specs) == 2
        assert [finding.key for finding in opened.findings] == ["b"]


@pytest.mark.parametrize(
    "header",
    [
        BundleHeaderProto(num_shards=1, version=VersionDef(min_consumer=2)).encode(),
        BundleHeaderProto(num_shards=1, endianness=2).encode(),
        b"\x08",
    ],
)
def test_a_header_that_is_not_read_is_an_error_before_the_first_line(tmp_path: Path, header: bytes) -> None:
    prefix = str(tmp_path / "c")
    write_blocks(prefix, encode_block([(b"", header), *rows("a", "b")]))
    with (
        open_location(locate(parse_location(prefix)), loaded=False) as opened,
        pytest.raises(CheckpointError, match=r"header|version|endianness"),
    ):
        next(opened.columns())


def test_no_header_is_an_error(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    write_blocks(prefix, encode_block(rows("a", "b")))
    with pytest.raises(CorruptCheckpointError, match="no header"):
        listed(prefix)


@pytest.mark.parametrize("spoiled", [b"\5" + bytes(20), encode_block(rows("c", "d"))[:-9] + bytes(9)])
def test_lines_come_before_a_damaged_block_and_then_the_error(tmp_path: Path, spoiled: bytes) -> None:
    prefix = str(tmp_path / "c")
    write_blocks(prefix, encode_block(rows("", "a", "b")), spoiled)
    with open_location(locate(parse_location(prefix)), loaded=False) as opened:
        parts = opened.columns()
        assert next(parts).keys == ["a", "b"]
        with pytest.raises(CorruptCheckpointError):
            next(parts)
    with pytest.raises(CorruptCheckpointError):
        open_checkpoint(prefix)


def test_places_of_many_are_the_places_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_BATCH", 128)
    prefix = str(tmp_path / "c")
    pieces = {"a/cut": partitioned(np.arange(6.0), [[(0, 4)], [(4, 2)]])}
    write_bundle(prefix, pieces | {f"b/{number:04d}": np.full(number % 5, 7.0) for number in range(300)})
    for path in (prefix, data_path("corrupt", "entry_dtype_unknown", "ckpt")):
        with open_checkpoint(path) as opened:
            keys = [key for key, spec in opened.specs.items() if spec.dtype is not INVALID]
            each = [opened[key].stored for key in keys]
            assert list(opened.places(keys)) == each
            assert list(opened.places(keys[::-1])) == each[::-1]
            assert all(place == Stored() for key, place in zip(keys, each, strict=True) if key == "a/cut")
            damaged = opened.specs.keys() - set(keys)
            assert list(opened.places(damaged)) == [Stored()] * len(damaged)
