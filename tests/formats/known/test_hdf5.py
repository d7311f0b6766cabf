"""Plain HDF5 files: every kind of dataset, layout and byte order."""

from __future__ import annotations

import h5py
import ml_dtypes
import numpy as np
import pytest

import formats
from tests.support import reads_alike, same

ARRAYS = {
    "f2": np.linspace(-1, 1, 12, dtype=np.float16).reshape(3, 4),
    "f4": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "f8": np.array(2.5),
    "i1": np.arange(-3, 3, dtype=np.int8),
    "i8": np.arange(5, dtype=np.int64),
    "u2": np.arange(7, dtype=np.uint16),
    "u4": np.zeros((0, 3), np.uint32),
    "bool": np.array([[True, False], [False, True]]),
    "c8": np.array([1 + 2j, 3 - 4j], np.complex64),
    "c16": np.array([[1 + 2j]], np.complex128),
}


@pytest.mark.parametrize(
    "options", [{}, {"chunks": True}, {"chunks": True, "compression": "gzip", "shuffle": True}]
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_read_back(tmp_path, options, order):
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w") as file:
        for key, array in ARRAYS.items():
            stored = array.astype(array.dtype.newbyteorder(order))
            file.create_dataset(f"group/{key}", data=stored, **(options if array.size > 1 else {}))
    with formats.open_checkpoint(path) as reader:
        assert reader.format.name == "hdf5"
        assert set(reader) == {f"group/{key}" for key in ARRAYS}
        for key, array in ARRAYS.items():
            assert reader.specs[f"group/{key}"].dtype.name == array.dtype.name
            assert same(reads_alike(reader[f"group/{key}"]), array), key
            assert b"".join(bytes(chunk) for chunk in reader[f"group/{key}"].chunks(7)) == array.tobytes()
        assert [finding for step in reader.verify() for finding in step.findings] == []


def test_strings_read_as_bytes(tmp_path):
    path = str(tmp_path / "s.h5")
    with h5py.File(path, "w") as file:
        file["fixed"] = np.array([[b"ab", b"c"], [b"", b"xyz"]])
        file.create_dataset("text", data=["ä", "", "b" * 5000], dtype=h5py.string_dtype())
        file.create_dataset("many", data=[f"s{n}" for n in range(10_000)], dtype=h5py.string_dtype("ascii"))
        file["scalar"] = "one"
        file.create_dataset("unwritten", (3,), h5py.string_dtype())
    with formats.open_checkpoint(path) as reader:
        assert {spec.dtype.name for spec in reader.specs.values()} == {"string"}
        assert set(reader.kinds.values()) == {"state"}
        assert reads_alike(reader["fixed"]).tolist() == [[b"ab", b"c"], [b"", b"xyz"]]
        assert reads_alike(reader["text"]).tolist() == ["ä".encode(), b"", b"b" * 5000]
        assert reads_alike(reader["many"]).tolist() == [b"s%d" % n for n in range(10_000)]
        assert reads_alike(reader["scalar"]).item() == b"one"
        assert reader["unwritten"].read().tolist() == [b"", b"", b""]
        assert reader.specs["fixed"].nbytes == 12
        assert [finding for step in reader.verify() for finding in step.findings] == []


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_opaque_bytes_with_a_dtype_are_numbers(tmp_path, name):
    path = str(tmp_path / "b.h5")
    array = np.linspace(-2, 2, 15).reshape(3, 5).astype(getattr(ml_dtypes, name))
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x/vars/0", data=array.view(f"V{array.dtype.itemsize}"))
        dataset.attrs["dtype"] = name
        file["x/vars/1"] = np.zeros(2).view("V8")
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert reader.format.name == "keras-weights"
        assert reader.specs["x/vars/0"].dtype.name == name
        assert same(reads_alike(reader["x/vars/0"]), array)
        assert reader.specs["x/vars/1"].dtype.name == "opaque"
        with pytest.raises(formats.UnsupportedFeatureError, match="HDF5 type opaque"):
            reader["x/vars/1"]


@pytest.mark.parametrize(
    ("dtype", "fields", "bias"),
    [
        ("float16", (15, 10, 5, 0, 10), 15),
        ("bfloat16", (15, 7, 8, 0, 7), 127),
        ("float8_e4m3fn", (7, 3, 4, 0, 3), 7),
        ("float8_e5m2", (7, 2, 5, 0, 2), 15),
    ],
)
def test_floating_types_are_identified_by_their_fields(tmp_path, dtype, fields, bias):
    path = str(tmp_path / "b.h5")
    kind = h5py.h5t.IEEE_F16LE.copy()
    kind.set_fields(*fields)
    kind.set_ebias(bias)
    kind.set_size((fields[0] + 1) // 8)
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((3,)))
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["x"].dtype.name == dtype
        assert reader.specs["x"].nbytes == 3 * kind.get_size()


def test_other_datasets_are_named_and_not_listed(tmp_path):
    path = str(tmp_path / "o.h5")
    with h5py.File(path, "w") as file:
        file["pairs"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        file.create_dataset("ragged", (2,), h5py.vlen_dtype(np.int32))
        file["empty"] = h5py.Empty("f4")
        file["x"] = 1
    with formats.open_checkpoint(path) as reader:
        assert list(reader) == ["x"]
        assert reader.facts.document()["unlisted"] == ["empty", "pairs", "ragged"]
        (finding,) = reader.findings
        assert (finding.severity, finding.code) == ("warning", "dtype")
        assert (
            finding.message
            == "left out 'empty', 'pairs', 'ragged': their elements are neither numbers nor strings"
        )


def test_enumerations_are_their_numbers(tmp_path):
    path = str(tmp_path / "e.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=[1, 5], dtype=h5py.enum_dtype({"A": 1, "B": 5}, basetype=">i4"))
    with formats.open_checkpoint(path) as reader:
        assert same(reads_alike(reader["x"]), np.array([1, 5], np.int32))


def test_floats_of_odd_exponents_are_not_taken_for_common_ones(tmp_path):
    """A float of 4 bytes whose exponent counts from elsewhere is one of 16 to h5py: four times the memory."""
    path = str(tmp_path / "odd.h5")
    odd = h5py.h5t.IEEE_F32LE.copy()
    odd.set_ebias(1151)
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"x", odd, h5py.h5s.create_simple((1000,)))
    with formats.open_checkpoint(path) as reader:
        spec = reader.specs["x"]
        assert (spec.dtype.name, spec.dtype_name, spec.nbytes) == ("float32_e8m23_b1151", None, 4000)
        assert sum(map(len, reader["x"].chunks())) == 4000


@pytest.mark.parametrize("filtered", [False, True])
def test_numbers_of_types_that_are_not_mapped_have_their_bytes(tmp_path, filtered):
    path = str(tmp_path / "l.h5")
    small = h5py.h5t.STD_I32BE.copy()
    small.set_size(3)
    array = np.arange(100, dtype=np.longdouble)
    with h5py.File(path, "w") as file:
        file.create_dataset("long", data=array, compression="gzip" if filtered else None)
        dataset = h5py.h5d.create(file.id, b"int24", small, h5py.h5s.create_simple((2,)))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, -2], "<i4"))
    with formats.open_checkpoint(path) as reader:
        assert [spec.dtype.name for spec in reader.specs.values()] == ["int24_be", "float128_e15m64"]
        assert not reader.findings
        assert b"".join(map(bytes, reader["int24"].chunks())) == b"\0\0\1\xff\xff\xfe"
        stored = np.frombuffer(b"".join(map(bytes, reader["long"].chunks())), np.longdouble)
        assert np.array_equal(stored, array)
        assert [finding for step in reader.verify() for finding in step.findings] == []


def test_keys_may_be_any_bytes(tmp_path):
    path = str(tmp_path / "k.h5")
    with h5py.File(path, "w") as file:
        file[b"\xff\xfe/\x1b[31m"] = 1.0
    with formats.open_checkpoint(path) as reader:
        assert list(reader) == ["\udcff\udcfe/\x1b[31m"]
        assert reader["\udcff\udcfe/\x1b[31m"].read() == 1.0


def test_a_slice_of_a_chunked_dataset_reads_the_chunks_it_needs(tmp_path):
    path = tmp_path / "c.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(4000).reshape(40, 100), chunks=(10, 100), compression="gzip")
        chunk = file["x"].id.get_chunk_info(3)
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset : chunk.byte_offset + 8] = b"\xff" * 8
    path.write_bytes(data)
    with formats.open_checkpoint(str(path)) as reader:
        np.testing.assert_array_equal(
            reader["x"].read_slice((slice(0, 3, 1), slice(5, 100, 50)))[1], [105, 155]
        )
        with pytest.raises(formats.CorruptCheckpointError) as caught:
            reader["x"].read()
        assert (caught.value.key, caught.value.code) == ("x", "hdf5-read")
        findings = [finding for step in reader.verify() for finding in step.findings]
        assert [(finding.key, finding.code) for finding in findings] == [("x", "hdf5-read")]


def test_a_missing_key_is_a_key_error(tmp_path):
    path = str(tmp_path / "k.h5")
    with h5py.File(path, "w") as file:
        file["x"] = 1.0
    with formats.open_checkpoint(path) as reader, pytest.raises(formats.TensorNotFoundError) as caught:
        reader["y"]
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize("options", [{}, {"chunks": (100, 100), "compression": "gzip"}])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_dataset_may_have_names_but_not_by_the_thousand(tmp_path, options, libver):
    path = str(tmp_path / "x.h5")
    values = np.random.default_rng(0).random((1000, 1000), np.float32)
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("v", data=values, **options)
        for number in range(50):
            file[f"n{number}"] = file["v"]
    with formats.open_checkpoint(path) as reader:
        assert len(reader) == 51
        assert same(reader["n49"].read(), values)
    with h5py.File(path, "a", libver=libver) as file:
        for number in range(50, 20_000):
            file[f"n{number}"] = file["v"]
    with pytest.raises(formats.UnsupportedFeatureError, match="tensors of 80000000000 bytes"):
        formats.open_checkpoint(path)
