"""Distributed checkpoints: chunks are one tensor, and what .metadata says is compared with them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats import CheckpointError, ChecksumError, CorruptCheckpointError, UnsupportedFeatureError
from formats.store.archive.subfile import SubFile
from tests.formats.torch.test_torch_reader import digest
from tests.sampling import seeds
from tests.support import data_path, reads_alike
from tests.torch_files import Named, Opcodes, Piece, distributed_metadata, pickled, storage, tensor, zipped
from tests.torch_files import chunk as described

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

with open(data_path("pytorch", "truth.json"), encoding="utf-8") as file:
    TRUTH = json.load(file)["dcp"]["keys"]

MODULE = "torch.distributed.checkpoint.metadata"
MODULE = "torch.distributed.checkpoint.metadata"
WHOLE = np.arange(24, dtype="<f4").reshape(4, 6)


def chunk(array: np.ndarray[Any, Any]) -> bytes:
    """Return the file that a chunk is."""
    shape = array.shape
    strides = tuple(stride // 4 for stride in np.zeros(shape, "<f4").strides)
    return zipped(tensor(storage("0", array.size), 0, shape, strides), {"0": array.tobytes()})


def cut(*corners: tuple[slice, slice]) -> tuple[bytes, list[Piece]]:
    """Return the file of chunks of the tensor, and their ranges in it."""
    data, pieces = b"", []
    for rows, columns in corners:
        part = chunk(np.ascontiguousarray(WHOLE[rows, columns]))
        offsets, sizes = (rows.start, columns.start), (rows.stop - rows.start, columns.stop - columns.start)
        pieces.append(Piece(offsets, sizes, "__0_0.distcp", len(data), len(part)))
        data += part
    return data, pieces


SHARED = Opcodes(b"K\1q\1" + b"0h\1h\1\x86q\1" * 40)
"""A pair of pairs of pairs, with 2**40 leaves that are one object."""

DEEP = Opcodes(b")" + b"\x85" * 3_000)
TOP, BOTTOM = (slice(0, 3), slice(0, 6)), (slice(3, 4), slice(0, 6))
QUARTERS = [(slice(r, r + 2), slice(c, c + 3)) for r in (0, 2) for c in (0, 3)]


def made(
    folder: Path, data: bytes, pieces: list[Piece], shape: tuple[int, ...] = (4, 6), **more: Any
) -> Path:
    (folder / "__0_0.distcp").write_bytes(data)
    (folder / ".metadata").write_bytes(distributed_metadata({"w": (shape, pieces)}, **more))
    return folder


def test_it_is_what_torch_saved() -> None:
    with formats.open_checkpoint(data_path("pytorch", "dcp")) as reader:
        assert reader.format.name == "pytorch-dcp"
        found = {
            key: {
                "dtype": reader.specs[key].dtype.name,
                "shape": list(reader.specs[key].shape),
                "sha256": digest(reads_alike(reader[key])),
            }
            for key in TRUTH
        }
        assert found == TRUTH
        kinds = {key: kind for key, kind in reader.kinds.items() if key.startswith("optimizer.state.0")}
    assert list(kinds.values()) == ["slot", "slot", "optimizer"]


@pytest.mark.parametrize(
    "corners", [[TOP, BOTTOM], QUARTERS, [*reversed(QUARTERS)], [(slice(0, 4), slice(0, 6))]]
)
def test_chunks_are_one_tensor(corners: list[tuple[slice, slice]], tmp_path: Path) -> None:
    made(tmp_path, *cut(*corners))
    with formats.open_checkpoint(tmp_path) as reader:
        found = reader["w"]
        assert np.array_equal(found.read(), WHOLE)
        assert np.array_equal(found.read_slice((slice(1, 4, 2), slice(2, 5))), WHOLE[1:4:2, 2:5])
        assert b"".join(map(bytes, found.chunks(40))) == WHOLE.tobytes()
        where = found.shard_range()
        assert (where is not None) == (len(corners) == 1)
        if where is not None:
            assert where.file.read(where.offset, where.size) == WHOLE.tobytes()
        steps = list(reader.verify())
    assert [each for step in steps for each in step.findings] == []
    assert sum(step.tensors for step in steps) == 1


def test_what_leads_to_a_tensor_shows_its_kind(tmp_path: Path) -> None:
    """A parameter's name has dots within one part of the way."""
    data, pieces = cut(TOP, BOTTOM)
    (tmp_path / "__0_0.distcp").write_bytes(data)
    ways = {"optim.state.a.step.m": ("optim", "state", "a.step", "m"), "a.step": ("a.step",)}
    tensors = dict.fromkeys(ways, ((4, 6), pieces))
    for told in (ways, None):
        (tmp_path / ".metadata").write_bytes(distributed_metadata(tensors, ways=told))
        with formats.open_checkpoint(tmp_path) as reader:
            assert reader.kinds == {"a.step": "variable", "optim.state.a.step.m": "slot"}


@pytest.mark.parametrize("path", ["", ".metadata", "__0_0.distcp"])
def test_it_is_named_by_any_of_its_files(path: str) -> None:
    with formats.open_checkpoint(data_path("pytorch", "dcp", path)) as reader:
        assert reader.location.path == data_path("pytorch", "dcp", ".metadata")
        assert [name.rpartition("/")[2] for name in reader.files()] == [".metadata", "__0_0.distcp"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda at, data, pieces: made(at, data, pieces[:1]), "gap in its 1 chunk for shape"),
        (lambda at, data, pieces: made(at, data, pieces * 2), "overlap in its 4 chunks for shape"),
        (
            lambda at, data, pieces: made(at, data, pieces, shape=(3, 6)),
            "3:4 does not fit a dimension of size 3",
        ),
        (lambda at, data, pieces: made(at, data, pieces, shape=(24,)), "the slice has 2 dimensions"),
        (
            lambda at, data, pieces: made(at, data, pieces, transform_descriptors=["zstd"]),
            "is stored transformed",
        ),
        (
            lambda at, data, pieces: made(at, data, [pieces[0]._replace(begin=-1), pieces[1]]),
            "at an invalid position",
        ),
        (lambda at, data, pieces: made(at, data, pieces, dtype="torch.Size"), "a tensor has no known dtype"),
        (
            lambda at, data, pieces: made(at, data, pieces, ways={"w": ("v",)}),
            r"the pickle cannot be read: 'w' has a path that does not match: 'v'",
        ),
        (
            lambda at, data, pieces: made(at, data, pieces, ways={"w": (SHARED,)}),
            "'w' has a tuple in its path; expected names and numbers",
        ),
        (
            lambda at, data, pieces: made(at, data, pieces, ways={"w": (DEEP,)}),
            "'w' has a tuple in its path; expected names and numbers",
        ),
        (
            lambda at, data, pieces: made(at, data, pieces, ways={"w": ("w", 1.5)}),
            "'w' has a float in its path; expected names and numbers",
        ),
        (
            lambda at, data, pieces: made(at, data, pieces, **dict.fromkeys(map(str, range(70)))),
            "has too many fields: 73",
        ),
        (lambda at, *_: (at / ".metadata").write_bytes(pickled({MODULE: 1})), "Pairs"),
        (
            lambda at, *_: (at / ".metadata").write_bytes(pickled({MODULE: Named("os.system")})),
            "loading this file would run 'os.system'",
        ),
    ],
)
def test_metadata_that_cannot_be_is_rejected(
    change: Callable[[Path, bytes, list[Piece]], Any], why: str, tmp_path: Path
) -> None:
    change(tmp_path, *cut(TOP, BOTTOM))
    with pytest.raises(CheckpointError, match=why):
        formats.open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        (
            lambda p: [p[0]._replace(file="../x"), p[1]],
            UnsupportedFeatureError,
            "not a file in the folder of",
        ),
        (
            lambda p: [p[0]._replace(file="/etc/passwd"), p[1]],
            UnsupportedFeatureError,
            "not a file in the folder of",
        ),
        (
            lambda p: [p[0]._replace(file="__1_0.distcp"), p[1]],
            CorruptCheckpointError,
            "this file is missing, but .metadata places tensors in it",
        ),
        (lambda p: [p[0], p[1]._replace(length=1 << 40)], CorruptCheckpointError, "ends at byte"),
        (
            lambda p: [p[0], p[1]._replace(begin=1, length=p[1].length)],
            CorruptCheckpointError,
            "not a valid zip|other|no PyTorch",
        ),
        (
            lambda p: [p[0], p[1]._replace(begin=p[0].begin, length=p[0].length)],
            CorruptCheckpointError,
            r"but float32 \[3, 6\] was found",
        ),
    ],
)
def test_chunks_that_are_not_what_metadata_says_are_rejected(
    change: Callable[[list[Piece]], list[Piece]], kind: type[Exception], why: str, tmp_path: Path
) -> None:
    data, pieces = cut(TOP, BOTTOM)
    made(tmp_path, data, change(pieces))
    with formats.open_checkpoint(tmp_path) as reader:
        assert reader.specs["w"].shape == (4, 6)
        with pytest.raises(kind, match=why):
            reader["w"].read()
        assert [found.severity for step in reader.verify() for found in step.findings] == ["error"]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (b"archive/byteorder", "no local header|another name"),
        (WHOLE[3].tobytes(), "CRC-32"),
        (b"storage", "CRC-32"),
    ],
)
def test_damage_of_a_chunk_is_identified_by_where_it_is_in_its_file(
    what: bytes, why: str, tmp_path: Path
) -> None:
    data, pieces = cut(TOP, BOTTOM)
    at = data.index(what, pieces[1].begin)
    made(tmp_path, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], pieces)
    with formats.open_checkpoint(tmp_path) as reader:
        with pytest.raises(CorruptCheckpointError, match=why) as caught:
            reader["w"].read()
        (found,) = [each for step in reader.verify() for each in step.findings]
    for offset in (caught.value.offset, found.offset):
        assert offset is not None
        assert at - 60 <= offset <= at


def test_a_flipped_bit_of_a_chunk_is_found(tmp_path: Path) -> None:
    data, pieces = cut(*QUARTERS)
    at = data.index(WHOLE[2:4, 0:3].tobytes())
    made(tmp_path, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], pieces)
    with formats.open_checkpoint(tmp_path) as reader:
        with pytest.raises(ChecksumError) as caught:
            reader["w"].read()
        assert caught.value.key == "w"
        assert np.array_equal(reader["w"].read_slice((slice(0, 2), slice(0, 6))), WHOLE[:2])
        assert [found.code for step in reader.verify() for found in step.findings] == ["tensor-checksum"]


@pytest.mark.parametrize(
    ("name", "other", "why"),
    [
        (b"state_dict_metadata", b"state_dict_metadatA", "Metadata has no state_dict_metadata"),
        (b"planner_data", b"planner_datA", "Metadata has no planner_data"),
        (b"chunks", b"chunkS", "TensorStorageMetadata has no chunks"),
        (b"sizes", b"sizeS", "ChunkStorageMetadata has no sizes"),
        (b"fqn", b"fqN", "MetadataIndex has no fqn"),
        (b"length", b"lengtH", "_StorageInfo has no length"),
        (b"\nTensorStorage", b"\nBytesStorage", "'w' is listed as a non-tensor, but described as a tensor"),
    ],
)
def test_metadata_that_lacks_a_name_is_rejected(name: bytes, other: bytes, why: str, tmp_path: Path) -> None:
    """It was a checkpoint of no tensors, and sound."""
    path = made(tmp_path, *cut(TOP, BOTTOM)) / ".metadata"
    path.write_bytes(path.read_bytes().replace(name, other))
    with pytest.raises(CorruptCheckpointError, match=why):
        formats.open_checkpoint(tmp_path)


@pytest.mark.parametrize(("file", "few", "stride"), [(".metadata", 20, 1), ("__0_0.distcp", 20, 16)])
def test_a_flipped_bit_in_what_torch_saved(file: str, few: int, stride: int, tmp_path: Path) -> None:
    """An error, or what torch saved: also where what is damaged is read by no one but `verify`.

    Two facts of `.metadata` have no second record: a key that is only one name, and a dtype or shape of the
    same size, until values are read.
    """
    shutil.copytree(data_path("pytorch", "dcp"), tmp_path / "dcp")
    path = tmp_path / "dcp" / file
    data = path.read_bytes()
    truth = told(tmp_path / "dcp")
    assert truth is not None
    for number in seeds(few, len(data) // stride):
        at = number * stride
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :])
        assert told(tmp_path / "dcp") in (None, truth), at


def told(folder: Path) -> dict[str, tuple[str, tuple[int, ...], str, str]] | None:
    """Return all that is read of a checkpoint; None where that is an error, which verifying finds, too."""
    try:
        with formats.open_checkpoint(folder, lenient=True) as reader:
            is_sound = not [found for step in reader.verify() for found in step.findings]
    except CheckpointError:
        is_sound = False
    try:
        with formats.open_checkpoint(folder) as reader:
            found = {
                key: (spec.dtype.name, spec.shape, reader.kinds[key], digest(reader[key].read()))
                for key, spec in reader.specs.items()
            }
    except CheckpointError:
        assert not is_sound
        return None
    return found


def test_chunks_without_metadata_are_not_a_checkpoint(tmp_path: Path) -> None:
    for name in ("__0_0.distcp", "x.pt"):
        shutil.copy(data_path("pytorch", "dcp", "__0_0.distcp"), tmp_path / name)
    with pytest.raises(CheckpointError, match=r"but \.metadata is missing"):
        formats.open_checkpoint(tmp_path / "__0_0.distcp")
    with pytest.raises(CorruptCheckpointError, match="unexpected bytes before its first member"):
        formats.open_checkpoint(tmp_path / "x.pt")


def test_a_part_of_a_file_ends_where_it_does() -> None:
    from formats.location import parse_location

    with parse_location(data_path("pytorch", "dcp", ".metadata")).open() as whole:
        part = SubFile(whole, 100, 50)
        assert part.read(0, 1000) == whole.read(100, 50)
        assert part.read(49, 9) == whole.read(149, 1)
        assert part.read(60, 9) == b""
        part.close()
        assert not part.closed


def test_tensors_that_are_marked_as_one_place_are_rejected(tmp_path: Path) -> None:
    """Reading all of these tensors would read the same bytes many times."""
    piece = Piece((0,), (25_000_000,), "__0_0.distcp", 0, 100_000_000)
    tensors = {f"w{number}": ((25_000_000,), [piece]) for number in range(200)}
    (tmp_path / ".metadata").write_bytes(distributed_metadata(tensors))
    with pytest.raises(
        UnsupportedFeatureError, match="100000000 stored bytes expand to tensors of 20000000000 bytes"
    ):
        formats.open_checkpoint(tmp_path)


def test_a_list_of_chunks_is_that_of_one_tensor(tmp_path: Path) -> None:
    pieces = [Piece((number,), (1,), "__0_0.distcp", number, 1) for number in range(100)]
    data = distributed_metadata({"v": ((100,), pieces), "w": ((100,), pieces[:1])})
    alone, every = (b"](" + b"".join(map(described, some)) + b"e" for some in (pieces[:1], pieces))
    (tmp_path / ".metadata").write_bytes(data.replace(alone, every))
    with pytest.raises(CorruptCheckpointError, match="'w' has 100 chunks, but stores only 1"):
        formats.open_checkpoint(tmp_path)
