"""numpy's archives: every kind of array, and archives that are up to something."""

from __future__ import annotations

import ast
import io
import struct
import zipfile

import numpy as np
import pytest

import formats
from formats.core.npy import decode_header
from tests.support import reads_alike, same

ARRAYS = {
    "f4": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(35, dtype=np.float64).reshape(5, 7)),
    "big": np.arange(10, dtype=">i4"),
    "big_fortran": np.asfortranarray(np.arange(12, dtype=">f8").reshape(3, 4)),
    "half": np.array(1.5, np.float16),
    "flags": np.array([True, False, True]),
    "empty": np.zeros((0, 3), np.int64),
    "complex": np.array([1 + 2j]),
    "u1": np.arange(200, dtype=np.uint8),
    "long": np.arange(400_000, dtype=np.float32).reshape(4, 100_000),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_read_back(tmp_path, save):
    path = str(tmp_path / "x.npz")
    save(path, **ARRAYS)
    with formats.open_checkpoint(path) as reader:
        assert reader.format.name == "npz"
        for key, array in ARRAYS.items():
            native = np.array(array, array.dtype.newbyteorder("="), order="C")
            assert reader.specs[key].dtype.name == native.dtype.name
            assert same(reads_alike(reader[key]), native), key
            assert b"".join(bytes(chunk) for chunk in reader[key].chunks(1000)) == native.tobytes()
        assert [finding for step in reader.verify() for finding in step.findings] == []


def test_strings_read_as_bytes(tmp_path):
    path = str(tmp_path / "s.npz")
    np.savez(path, b=np.array([b"ab", b""]), u=np.array([["ä", "xyz"]]), one=np.array("s"))
    with formats.open_checkpoint(path) as reader:
        assert reads_alike(reader["b"]).tolist() == [b"ab", b""]
        assert reads_alike(reader["u"]).tolist() == [["ä".encode(), b"xyz"]]
        assert reads_alike(reader["one"]).item() == b"s"
        assert reader.specs["u"].nbytes == 24
        assert set(reader.kinds.values()) == {"state"}


def test_a_pickle_is_listed_without_dtype_and_never_loaded(tmp_path):
    path = str(tmp_path / "p.npz")
    np.savez(path, o=np.array([{}, None], object), x=np.zeros(2))
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["o"].dtype.is_unmapped
        assert reader.specs["o"].dtype_name is None
        with pytest.raises(formats.UnsupportedFeatureError, match="are pickled; ckpt never loads pickles"):
            reader["o"]
        assert reader.specs["o"].shape == (2,)
        assert "pickled; ckpt never loads pickles" in reader.findings[0].message
        assert reader["x"].read().tolist() == [0, 0]


def test_kinds_go_by_names(tmp_path):
    path = str(tmp_path / "k.npz")
    np.savez(
        path,
        **{"w": np.zeros(3), "w/Adam": np.zeros(3), "beta1_power": np.float32(0), "global_step": np.int64(1)},
    )
    with formats.open_checkpoint(path) as reader:
        assert dict(reader.kinds) == {
            "beta1_power": "optimizer",
            "global_step": "state",
            "w": "variable",
            "w/Adam": "slot",
        }


def npy(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    width = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack(width, len(header)) + header + data


def write(path, **members: bytes) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return str(path)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
        b"{'descr': '<f4', 'fortran_order': False}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        b"__import__('os').system('true')",
        b"(" * 5000,
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b",)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}",
    ],
)
def test_headers_that_are_none_are_findings(tmp_path, header):
    with pytest.raises(ValueError):
        decode_header(npy(header))
    path = write(
        tmp_path / "x.npz",
        x=npy(header),
        y=npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': ()}", b"\7"),
    )
    with formats.open_checkpoint(path) as reader:
        assert reader["y"].read() == 7
        assert reader.specs["x"].dtype.name == "invalid"
        assert [(finding.key, finding.code) for finding in reader.findings] == [("x", "header")]


@pytest.mark.parametrize(
    ("descr", "itemsize"),
    [
        (b"'<b4'", 4),
        (b"'<f3'", 3),
        (b"'|V2'", 2),
        (b"'<f16'", 16),
        (b"'<M8[s]'", 8),
        (b"[('a', '<f4'), ('b', '<f8')]", 12),
        (b"'|S99999999999'", 99999999999),
    ],
)
def test_elements_without_dtype_are_listed(descr, itemsize):
    header = decode_header(npy(b"{'descr': " + descr + b", 'fortran_order': False, 'shape': (2,)}"))
    assert (header.dtype.name, header.shape) == (str(ast.literal_eval(descr.decode())), (2,))
    assert header.dtype.is_unmapped
    assert header.itemsize == itemsize


@pytest.mark.parametrize("descr", [b"','", b"'<f4,'", b"'3('", b"[('a', 'zz')]", b"[1]", b"[('a',)]", b"7"])
def test_elements_of_what_is_not_a_type_are_damage(descr):
    with pytest.raises(ValueError, match=r"\.npy element type"):
        decode_header(npy(b"{'descr': " + descr + b", 'fortran_order': False, 'shape': (2,)}"))


def test_types_that_are_not_mapped_are_carried_as_numpy_has_them(tmp_path):
    arrays = {
        "raw": np.arange(4, dtype="<u2").view("V2"),
        "wide": np.arange(3, dtype=np.longdouble),
        "fields": np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")]),
        "when": np.array(["2020-01-01"], "M8[D]"),
        "turned": np.asfortranarray(np.arange(6, dtype=np.longdouble).reshape(2, 3)),
        "x": np.arange(2.0),
    }
    path, out = str(tmp_path / "a.npz"), str(tmp_path / "b.npz")
    np.savez(path, **arrays)
    with formats.open_checkpoint(path) as reader:
        assert [key for key in reader if reader.specs[key].dtype.is_unmapped] == [
            "fields",
            "raw",
            "turned",
            "when",
            "wide",
        ]
        assert {reader.specs[key].nbytes for key in reader} == {arr.nbytes for arr in arrays.values()}
        with pytest.raises(formats.UnsupportedFeatureError, match="values of dtype <f16 cannot be read"):
            reader["wide"].read()
        specs = list(reader.specs.values())
        with formats.create_checkpoint(out, format="npz", specs=specs) as writer:
            for key in reader:
                writer.write(key, reader[key].chunks())
    with np.load(out) as found:
        for key, array in arrays.items():
            assert found[key].dtype == array.dtype
            assert found[key].tolist() == array.tolist()


@pytest.mark.parametrize("kind", ["S", "U"])
def test_the_largest_text_has_as_many_characters_as_numpy_allows(kind):
    text = b"{'descr': '<%s%d', 'fortran_order': False, 'shape': (1,)}"
    largest = (2**31 - 1) // 4
    header = decode_header(npy(text % (kind.encode(), largest)))
    assert (header.dtype.name, header.itemsize) == ("string", largest * (4 if kind == "U" else 1))
    assert decode_header(npy(text % (kind.encode(), largest + 1))).dtype.is_unmapped


def test_the_longest_header_has_64_kib(tmp_path):
    text = b"{'descr': '<i2', 'fortran_order': False, 'shape': (3,)}"
    longest = npy(text.ljust(1 << 16), bytes(6), version=2)
    with formats.open_checkpoint(write(tmp_path / "x.npz", x=longest)) as reader:
        assert reader["x"].read().tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="header"):
        decode_header(npy(text.ljust((1 << 16) + 1), bytes(6), version=2))


def test_a_header_may_be_of_any_version_and_length():
    text = b"{'descr': '>i2', 'fortran_order': True, 'shape': (3, 4)}"
    for version in (1, 2, 3):
        header = decode_header(npy(text.ljust(3000), version=version))
        assert (header.dtype.name, header.shape, header.fortran) == ("int16", (3, 4), True)
    with pytest.raises(ValueError, match="version is 4"):
        decode_header(npy(text, version=4))


def test_a_shape_larger_than_its_member_is_corrupt(tmp_path):
    path = write(
        tmp_path / "x.npz",
        x=npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}", b"abcd"),
    )
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["x"].shape == (1 << 40,)
        for attempt in (reader["x"].read, lambda: reader["x"].read_slice((slice(0, 1, 1),))):
            with pytest.raises(formats.CorruptCheckpointError) as caught:
                attempt()
            assert (caught.value.key, caught.value.code) == ("x", "tensor-size")
        assert [finding.code for step in reader.verify() for finding in step.findings] == ["tensor-size"]


def test_an_empty_array_larger_than_numpy_has_is_rejected(tmp_path):
    shape = (0, 1 << 62, 1 << 62)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': %s}" % repr(shape).encode()
    with formats.open_checkpoint(write(tmp_path / "x.npz", x=npy(header, b""))) as reader:
        assert reader.specs["x"].shape == shape
        for attempt in (reader["x"].read, lambda: reader["x"].read_slice((slice(0, 1, 1),))):
            with pytest.raises(formats.UnsupportedFeatureError, match="cannot create an array of"):
                attempt()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_is_found(tmp_path, save):
    path = tmp_path / "x.npz"
    save(path, x=np.random.default_rng(0).normal(size=1000), y=np.zeros(3))
    data = bytearray(path.read_bytes())
    data[1500] ^= 16
    path.write_bytes(data)
    with formats.open_checkpoint(str(path)) as reader:
        with pytest.raises(formats.CorruptCheckpointError) as caught:
            reader["x"].read()
        assert caught.value.path == str(path)
        found = [finding for step in reader.verify() for finding in step.findings]
        assert [finding.key for finding in found] == ["x"]
        assert reader["y"].read().tolist() == [0, 0, 0]


def test_truncated_archives_are_corrupt(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros(100))
    data = path.read_bytes()
    for size in range(8, len(data), 53):
        path.write_bytes(data[:size])
        with pytest.raises(formats.CorruptCheckpointError, match="not a valid zip archive"):
            formats.open_checkpoint(str(path))


def edited(tmp_path, edit) -> str:
    """Write an archive of one array and change its central directory entry and local header."""
    target = io.BytesIO()
    np.savez(target, x=np.zeros(4))
    data = bytearray(target.getvalue())
    edit(data, data.index(b"PK\1\2"))
    path = tmp_path / "e.npz"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(("flag", "said"), [(0x1, "is encrypted"), (0x20, "is patch data")])
def test_members_that_are_not_what_they_hold_are_rejected(tmp_path, flag, said):
    def edit(data, central):
        data[6] |= flag
        data[central + 8] |= flag

    with pytest.raises(formats.UnsupportedFeatureError, match=f"'x.npy' {said}"):
        formats.open_checkpoint(edited(tmp_path, edit))


def test_versions_of_headers_are_those_that_numpy_reads():
    header = io.BytesIO()
    np.save(header, np.zeros(2))
    data = bytearray(header.getvalue())
    decode_header(bytes(data))
    data[7] = 1
    with pytest.raises(ValueError, match=r"version is 1\.1; expected 1\.0"):
        decode_header(bytes(data))


def test_other_compressions_are_rejected(tmp_path):
    path = str(tmp_path / "b.npz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': ()}", b"\7"))
    with pytest.raises(formats.UnsupportedFeatureError, match="method 14"):
        formats.open_checkpoint(path)


def test_members_that_lead_elsewhere_are_rejected(tmp_path):
    path = str(tmp_path / "up.npz")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../x.npy", b"")
    with pytest.raises(formats.UnsupportedFeatureError, match="points outside"):
        formats.open_checkpoint(path)


def test_members_that_share_bytes_are_corrupt(tmp_path):
    target = io.BytesIO()
    np.savez(target, x=np.zeros(4), y=np.ones(4))
    data = bytearray(target.getvalue())
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    data[second + 42 : second + 46] = bytes(4)  # the second member's header claims to be the first's
    path = tmp_path / "overlap.npz"
    path.write_bytes(data)
    with pytest.raises(formats.CorruptCheckpointError, match="overlaps another member") as caught:
        formats.open_checkpoint(str(path))
    assert caught.value.code == "overlap"


def test_a_deflated_bomb_stops_at_its_declared_size(tmp_path):
    def declare_little(data, central):
        data[central + 24 : central + 28] = struct.pack("<I", 200)

    target = io.BytesIO()
    np.savez_compressed(target, x=np.zeros(1 << 20))
    data = bytearray(target.getvalue())
    declare_little(data, data.index(b"PK\1\2"))
    path = tmp_path / "bomb.npz"
    path.write_bytes(data)
    with formats.open_checkpoint(str(path)) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
        assert any("inflates to more than the declared 200 bytes" in finding.message for finding in found)


def test_what_is_read_of_a_stored_member_is_handed_out_without_a_copy(tmp_path, monkeypatch):
    path = str(tmp_path / "x.npz")
    np.savez(path, w=np.arange(700_001, dtype=np.float32))
    with formats.open_checkpoint(path) as reader:
        file = reader._archive.file
        read, pieces = file.read_exactly, []

        def read_exactly(offset: int, size: int) -> bytes:
            pieces.append(read(offset, size))
            return pieces[-1]

        monkeypatch.setattr(file, "read_exactly", read_exactly)
        for chunk in reader["w"].chunks():
            assert chunk is pieces[-1]
        assert len(pieces) == 4  # the header, and three pieces of values
