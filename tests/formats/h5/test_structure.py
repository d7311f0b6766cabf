"""The structure of HDF5 files read without the library, compared with the library's."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import formats
from formats.find.opening import locate
from formats.find.registry import detect
from formats.h5 import facts, safe
from formats.h5.facts import H5Facts, h5_facts
from formats.h5.native import messages
from formats.h5.native.messages import PLACE, DataLayout, UnfamiliarError, layout_of
from formats.h5.native.structure import HARD, SOFT, FileStructure
from formats.h5.native.superblock import Superblock
from formats.h5.safe import open_h5
from formats.location import parse_location
from formats.model.probe import Probe
from tests.counts import count
from tests.support import data_path, recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KERAS = sorted(
    entry["path"]
    for entry in recorded("h5-keras2-weights", "h5-keras2-model", "h5-keras3-weights")
    if entry["path"].endswith(".h5")
)


def opened(path: str, *, natively: bool) -> formats.FormatReader:
    probe = Probe(locate(parse_location(path)))
    superblock = Superblock.find(probe.head)
    assert superblock is not None
    file = open_h5(parse_location(path), probe.size, superblock, natively=natively)
    probe.__dict__["hdf5"] = H5Facts(file)
    return detect(probe).reader(probe, True)


def told(path: str, *, natively: bool) -> dict[str, Any]:
    """Return all that a reader says of a file, and the bytes of its tensors."""
    with opened(path, natively=natively) as reader:
        return {
            "format": reader.format.name,
            "specs": dict(reader.specs),
            "kinds": dict(reader.kinds),
            "full names": dict(reader.full_names),
            "metadata": reader.facts.document(),
            "findings": [(finding.key, finding.code) for finding in reader.findings],
            "values": {key: b"".join(map(bytes, reader[key].chunks())) for key in numbers(reader)},
        }


def numbers(reader: formats.FormatReader) -> list[str]:
    return [key for key, spec in reader.specs.items() if spec.dtype.itemsize is not None]


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every use of the HDF5 library report damage."""

    def refuse(path: str, *_: object) -> None:
        raise formats.CorruptCheckpointError("only the library can read this", path=path, code="hdf5-read")

    monkeypatch.setattr(safe, "_open_library", refuse)


@pytest.mark.parametrize("path", KERAS)
def test_what_keras_wrote_is_read_as_the_library_reads_it(path: str) -> None:
    assert told(data_path(path), natively=True) == told(data_path(path), natively=False)


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize("path", KERAS)
def test_what_keras_wrote_needs_no_library(path: str) -> None:
    found = told(data_path(path), natively=True)
    assert found["findings"] == []
    assert len(found["values"]) == len(found["specs"]) > 0


def dense_links(file: h5py.File) -> None:
    for number in range(300):
        file[f"g/{number}"] = np.full(2, number, np.float32)


def dense_attributes(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    for number in range(40):
        file["x"].attrs[f"a{number}"] = "text" * 50


def types(file: h5py.File) -> None:
    for name in "?", "<i1", ">i2", "<u4", ">u8", "<f2", ">f4", "<f8", "<c8", "S5", "V3", "<g":
        file[f"t/{name.strip('<>')}"] = np.zeros((2, 3), name)
    file["t/text"] = ["a", "bc"]
    file["t/bfloat16"] = np.arange(4, dtype=np.uint16).view("V2")
    file["t/bfloat16"].attrs["dtype"] = "bfloat16"
    file["t/compound"] = np.zeros(2, [("a", "<i4"), ("b", "<f4")])
    file["t/null"] = h5py.Empty("f4")
    file["t/scalar"] = 3.5
    file.create_dataset("t/nothing", (0, 4), "f4")
    file["named"] = np.dtype("<f4")
    file.create_dataset("t/of_a_named_type", (3,), dtype=file["named"])


def layouts(file: h5py.File) -> None:
    file.create_dataset("unwritten", (5, 6), "f4")
    file.create_dataset("filled", (5, 6), "f4", fillvalue=2.5)
    file.create_dataset("grows", data=np.arange(12.0), maxshape=(None,), chunks=(5,))
    file.create_dataset("deflated", data=np.arange(400.0).reshape(20, 20), compression="gzip")
    file.create_dataset("strings", data=["a"] * 30, chunks=(7,))
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    made = h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4,)), compact)
    h5py.Dataset(made)[...] = np.arange(4)


def links(file: h5py.File) -> None:
    file["data/x"] = np.arange(3)
    file["data/y"] = file["data/x"]
    file["again"] = file["data"]
    file["soft"] = h5py.SoftLink("/data/x")
    file["dangling"] = h5py.SoftLink("/nowhere")


def attributes(file: h5py.File) -> None:
    """A weights file whose attributes are strings of all sorts, one of them in a heap of its own."""
    file.attrs["layer_names"] = np.array([b"a", b"b"])
    file.attrs["keras_version"] = "2.15.0 ü"
    file.attrs.create("backend", b"tensorflow  ", dtype="S16")
    file.attrs["model_config"] = "{" + " " * 300_000 + "}"
    for name, weights in ("a", ["a/k:0", "a/b:0"]), ("b", []):
        file.create_group(name).attrs["weight_names"] = weights
    file["a/a/k:0"] = np.ones((2, 2), np.float32)
    file["a/a/b:0"] = np.ones(2, np.float32)
    file["a"].attrs["number"] = 7


def comments(file: h5py.File) -> None:
    file["x"] = np.arange(3)
    file["x"].attrs.create("when", 5)
    h5py.h5o.set_comment(file["x"].id, b"a comment")


WRITTEN = (dense_links, dense_attributes, types, layouts, links, attributes, comments)


@pytest.mark.parametrize(
    "settings", [{}, {"libver": "latest"}, {"track_order": True}, {"userblock_size": 512}]
)
@pytest.mark.parametrize("fill", WRITTEN)
def test_every_file_of_h5py_is_read_as_the_library_reads_it(
    tmp_path: Path, fill: Callable[[h5py.File], None], settings: dict[str, Any]
) -> None:
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w", **settings) as file:
        fill(file)
    assert told(path, natively=True) == told(path, natively=False)


def structure_of(data: bytes) -> FileStructure:
    superblock = Superblock.find(data[:4096])
    assert superblock is not None
    return FileStructure(lambda offset, size: data[offset : offset + size], len(data), superblock)


def test_links_are_identified_by_kind(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        links(file)
    structure = structure_of((tmp_path / "x.h5").read_bytes())
    found = structure.links(structure.root)
    assert [(name, link.kind) for name, link in found.items()] == [
        (b"again", HARD),
        (b"dangling", SOFT),
        (b"data", HARD),
        (b"soft", SOFT),
    ]
    assert found[b"again"].address == found[b"data"].address


@pytest.mark.parametrize("padding", [h5py.h5t.STR_NULLTERM, h5py.h5t.STR_NULLPAD, h5py.h5t.STR_SPACEPAD])
def test_a_string_of_variable_length_has_one_of_three_paddings(tmp_path: Path, padding: int) -> None:
    string = h5py.h5t.C_S1.copy()
    string.set_size(h5py.h5t.VARIABLE)
    string.set_strpad(padding)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        h5py.h5d.create(file.id, b"x", string, h5py.h5s.create_simple((1,)))
    data = (tmp_path / "x.h5").read_bytes()
    at = data.index(bytes([0x19, padding << 4 | 1, 0, 0, 16]))
    datatype = data[at : at + 20]
    assert messages._is_variable_string(datatype)
    reserved = bytes([0x19, 3 << 4 | 1, *datatype[2:]])
    assert not messages._is_variable_string(reserved)


@pytest.mark.parametrize("settings", [{"libver": "latest"}, {"userblock_size": 512}])
def test_another_layout_is_the_librarys(tmp_path: Path, settings: dict[str, Any]) -> None:
    with h5py.File(tmp_path / "x.h5", "w", **settings) as file:
        file["x"] = 1
    with pytest.raises(UnfamiliarError):
        structure_of((tmp_path / "x.h5").read_bytes())


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize(
    "path", ["tf_keras_221/m.h5", "keras3_mlp/mlp.weights.h5", "keras_nested/nest.full.h5"]
)
def test_a_flipped_bit_is_read_in_bounds_or_left_to_the_library(tmp_path: Path, path: str) -> None:
    """No exception but a typed one, and what is listed fits into the file."""
    dice = random.Random(path)
    with open(data_path(path), "rb") as file:
        whole = file.read()
    suffix = ".weights.h5" if path.endswith(".weights.h5") else ".h5"
    ended = {True: 0, False: 0}
    for number in range(400):
        data = bytearray(whole)
        for _ in range(dice.choice((1, 1, 3))):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        damaged = tmp_path / f"{number}{suffix}"
        damaged.write_bytes(data)
        try:
            found = told(str(damaged), natively=True)
        except formats.CheckpointError:
            ended[False] += 1
        else:
            assert sum(map(len, found["values"].values())) <= len(data)
            ended[True] += 1
        damaged.unlink()
    assert all(ended.values())
    count("flipped bits in HDF5 structures, read without the library", 400)


def test_a_tree_that_holds_itself_ends(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = 1
    data = bytearray((tmp_path / "x.h5").read_bytes())
    tree = data.index(b"TREE")
    data[tree + 5] = 200  # two hundred levels of itself
    data[tree + 32 : tree + 40] = tree.to_bytes(8, "little")
    structure = structure_of(bytes(data))
    with pytest.raises(UnfamiliarError):
        structure.links(structure.root)


def test_blocks_of_a_header_that_are_on_each_other_take_no_memory(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = 1
    data = bytearray((tmp_path / "x.h5").read_bytes() + bytes(8 << 20))
    at = len(data) - (8 << 20)
    # 60,000 messages, every one of them a continuation: all of the end of the file, once more.
    data[at : at + 16] = (
        b"\1\0" + (60_000).to_bytes(2, "little") + b"\1\0\0\0" + (24).to_bytes(4, "little") + bytes(4)
    )
    continuation = (0x10).to_bytes(2, "little") + (16).to_bytes(2, "little") + bytes(4)
    data[at + 16 : at + 40] = continuation + (at + 16).to_bytes(8, "little") + (8 << 19).to_bytes(8, "little")
    data[64:72] = at.to_bytes(8, "little")
    tracemalloc.start()
    with pytest.raises(UnfamiliarError):
        structure_of(bytes(data))
    assert tracemalloc.get_traced_memory()[1] < len(data) + (32 << 20)
    tracemalloc.stop()


def test_a_block_of_no_bytes_is_the_librarys(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for number in range(40):  # its messages take more than the first block
            file.attrs[f"a{number}"] = number
    data = bytearray((tmp_path / "x.h5").read_bytes())
    assert not structure_of(bytes(data)).strings(structure_of(bytes(data)).root, b"none")
    structure = structure_of(bytes(data))
    assert structure._read(len(data) - 1, 1) == bytes(data[-1:])
    for offset, size in (0, 0), (len(data), 0), (len(data), 1), (len(data) - 1, 2):
        with pytest.raises(UnfamiliarError):
            structure._read(offset, size)


LAYOUTS = {
    "contiguous": (b"\3\1" + PLACE.pack(2048, 96), DataLayout(2048, 96)),
    "not written": (b"\3\1" + PLACE.pack((1 << 64) - 1, 96), DataLayout(None, 0)),
    "at the very end": (b"\3\1" + PLACE.pack((1 << 64) - 97, 96), DataLayout((1 << 64) - 97, 96)),
    "compact": (b"\3\0\x60\0" + bytes(96), DataLayout(None, 96)),
    "chunked": (b"\3\2\3" + bytes(20), DataLayout(None, None)),
    "behind the end": (b"\3\1" + PLACE.pack((1 << 64) - 96, 96), None),
    "of another version": (b"\4\1" + PLACE.pack(2048, 96), None),
    "virtual": (b"\3\3" + PLACE.pack(2048, 96), None),
    "cut off": (b"\3\1" + PLACE.pack(2048, 96)[:-1], None),
    "almost nothing": (b"\3\1\0", None),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_says_where_values_are(name: str) -> None:
    message, expected = LAYOUTS[name]
    if expected is not None:
        assert layout_of(message) == expected
        return
    with pytest.raises(UnfamiliarError):
        layout_of(message)


@pytest.mark.parametrize("offset_size", [2, 4, 8])
@pytest.mark.parametrize("length_size", [2, 4, 8])
@pytest.mark.parametrize(("version", "newest"), [(0, h5py.h5f.LIBVER_EARLIEST), (3, h5py.h5f.LIBVER_LATEST)])
def test_a_superblock_shows_where_a_file_ends(
    tmp_path: Path, offset_size: int, length_size: int, version: int, newest: int
) -> None:
    settings, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    settings.set_sizes(offset_size, length_size)
    access.set_libver_bounds(newest, h5py.h5f.LIBVER_LATEST)
    path = tmp_path / "x.h5"
    with h5py.File(h5py.h5f.create(bytes(path), fcpl=settings, fapl=access)) as file:
        file["x"] = np.arange(10)
    data = path.read_bytes()
    assert Superblock.find(data) == (0, version, len(data), False, length_size)
    end = (24 if version == 0 else 12) + 3 * offset_size
    assert Superblock.find(data[:end]) == (0, version, len(data), False, length_size)
    assert Superblock.find(data[: end - 1]) == (0, version, None, False, 8)


def heap_with(data: bytes, names: bytes) -> bytes:
    """Return a file with other names in the heap of its first group; the last name has no end there."""
    heap = data.index(b"HEAP")
    size, place = (int.from_bytes(data[at : at + 8], "little") for at in (heap + 8, heap + 24))
    return data[: place + 8] + names.ljust(size - 8, b"x") + data[place + size :]


@pytest.mark.parametrize("names", [b"", b"\0", b"a/b\0", b".\0"])
def test_a_link_whose_name_is_invalid_is_the_librarys(tmp_path: Path, names: bytes) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["abc"] = 1
    data = (tmp_path / "x.h5").read_bytes()
    sound = bytearray(heap_with(data, b"abd\0"))
    # Free space begins behind the names, where the fill is now: there is none.
    heap = sound.index(b"HEAP")
    sound[heap + 16 : heap + 24] = (1).to_bytes(8, "little")
    assert list((structure := structure_of(bytes(sound))).links(structure.root)) == [b"abd"]
    broken = heap_with(bytes(sound), names)
    structure = structure_of(broken)
    with pytest.raises(UnfamiliarError):
        structure.links(structure.root)


def test_a_file_of_weights_is_recognised_within_its_first_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["a/b/vars/0"] = np.ones(2)
    for most, is_found in ((2, True), (1, False)):  # a and a/b precede it
        monkeypatch.setattr(facts, "_MOST_GROUPS_LOOKED_AT", most)
        found = h5_facts(Probe(locate(parse_location(str(path)))))
        assert found is not None
        assert found.is_keras_weights == is_found
        found.close()
