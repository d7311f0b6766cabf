"""Writing npz, safetensors and HDF5: read back by numpy, by h5py and by hand, not only by us."""

from __future__ import annotations

import json
import math
import os
import resource
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from formats import (
    CheckpointError,
    ConversionError,
    DuplicateKeyError,
    TensorSpec,
    UnsupportedDtypeError,
    create_checkpoint,
    open_checkpoint,
)
from formats.core import dtypes
from formats.core.npy import NPY_DTYPES, decode_header, encode_header
from formats.find.registry import format_named
from formats.safetensors.reader import SafetensorsFacts
from tests.support import same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SUFFIXES = {"npz": ".npz", "safetensors": ".safetensors", "hdf5": ".h5"}


def spec_of(key: str, array: np.ndarray, dtype: str | None = None) -> TensorSpec:
    found = dtypes.BY_NAME[dtype] if dtype else dtypes.from_numpy(array.dtype)
    return TensorSpec(key, found, array.shape)


def write(
    path: object, name: str, tensors: Mapping[str, Any], dtype: str | None = None, **options: Any
) -> None:
    specs = [spec_of(key, value, dtype) for key, value in tensors.items()]
    with create_checkpoint(str(path), format=name, specs=specs, **options) as writer:
        for key in writer.order or tuple(tensors):
            writer.write(key, tensors[key])


def objects(values: list[bytes]) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


@pytest.fixture(params=sorted(SUFFIXES))
def format_name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_dtype_a_format_says_it_holds_comes_back(format_name: str, tmp_path: Path) -> None:
    held = format_named(format_name).dtypes
    assert {"float32", "float16", "int64", "bool", "uint16"} <= held
    for name in sorted(held):
        dtype = dtypes.BY_NAME[name]
        value = objects([b"a", b"", b"\xff\0x"]) if name == "string" else np.arange(6).astype(dtype.numpy)
        path = tmp_path / (name + SUFFIXES[format_name])
        write(path, format_name, {"t": value.reshape(-1, 1)}, name)
        with open_checkpoint(path) as reader:
            assert (reader.format.name, reader["t"].spec.dtype.name) == (format_name, name)
            assert same(reader["t"].read(), value.reshape(-1, 1)), name


def test_a_dtype_that_is_not_held_is_rejected_before_the_first_byte(format_name: str, tmp_path: Path) -> None:
    for name in sorted(set(dtypes.BY_NAME) - format_named(format_name).dtypes):
        spec = TensorSpec("t", dtypes.BY_NAME[name], (2,))
        with pytest.raises(UnsupportedDtypeError, match=f"{format_name} cannot store {name} tensors"):
            create_checkpoint(tmp_path / "out", format=format_name, specs=[spec])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("name", "most"), [("npz", 64), ("hdf5", 32), ("keras-weights", 32)])
def test_more_dimensions_than_a_format_has_are_rejected_before_the_first_byte(
    name: str, most: int, tmp_path: Path
) -> None:
    """h5py's own error was a traceback, and an npz was reported as incorrectly written."""
    spec = TensorSpec("t", dtypes.BY_NAME["float32"], (1,) * (most + 1))
    with pytest.raises(ConversionError, match=f"{most + 1} dimensions, but {name} supports at most {most}"):
        create_checkpoint(tmp_path / "out", format=name, specs=[spec])
    assert os.listdir(tmp_path) == []


def test_32_dimensions_are_written_to_hdf5(tmp_path: Path) -> None:
    value = np.ones((1,) * 32, np.float32)
    write(tmp_path / "x.h5", "hdf5", {"t": value})
    with open_checkpoint(tmp_path / "x.h5") as reader:
        assert same(reader["t"].read(), value)


SHAPES = {
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 4), np.int8),
    "large": np.arange(3 << 17, dtype=np.float64).reshape(3, 1 << 17),
    "long rows/of many": np.arange(2 << 18, dtype=np.int32).reshape(2, 1, 1 << 18),
    "\u00fc/ \u4e2d": np.ones(1),
}


def test_scalars_empty_and_large_tensors_come_back(format_name: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" + SUFFIXES[format_name])
    write(path, format_name, SHAPES)
    with open_checkpoint(path) as reader:
        assert set(reader) == set(SHAPES)
        assert all(same(reader[key].read(), value) for key, value in SHAPES.items())
        assert [step.findings for step in reader.verify() if step.findings] == []
    assert os.listdir(tmp_path) == [path.name]


def test_no_tensors_make_a_file_too(format_name: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" + SUFFIXES[format_name])
    write(path, format_name, {})
    assert path.stat().st_size > 0


def test_the_same_tensors_make_the_same_file(format_name: str, tmp_path: Path) -> None:
    paths = [tmp_path / (name + SUFFIXES[format_name]) for name in "ab"]
    for path in paths:
        write(path, format_name, SHAPES)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_write_that_fails_midway_leaves_nothing_but_the_old_file(format_name: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" + SUFFIXES[format_name])
    path.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield bytes(8)
        raise KeyboardInterrupt

    specs = [spec_of("a", np.zeros(4)), spec_of("b", np.zeros(4))]
    with (
        pytest.raises(KeyboardInterrupt),
        create_checkpoint(path, format=format_name, specs=specs, overwrite=True) as writer,
    ):
        writer.write("a", chunks())
    assert (os.listdir(tmp_path), path.read_bytes()) == ([path.name], b"old")


@pytest.mark.parametrize("limit", [100, 3000])
def test_a_full_disk_is_one_error_and_leaves_nothing(
    format_name: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        with pytest.raises(CheckpointError, match="cannot be written"):
            write(tmp_path / "x", format_name, {"a": np.zeros(1000)})
    finally:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert os.listdir(tmp_path) == []


# npz --------------------------------------------------------------------------------


def test_numpy_loads_an_npz_without_pickles(tmp_path: Path) -> None:
    write(tmp_path / "x.npz", "npz", {**SHAPES, "s": objects([b"ab", b"c"])})
    with np.load(tmp_path / "x.npz", allow_pickle=False) as found:
        assert found.files == [*SHAPES, "s"]
        assert all(same(found[key], value) for key, value in SHAPES.items())
        assert found["s"].tolist() == [b"ab", b"c"]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (1,) * 32])
def test_npy_headers_are_numpys_byte_for_byte(shape: tuple[int, ...], tmp_path: Path) -> None:
    for name in NPY_DTYPES - {"string"}:
        dtype = dtypes.BY_NAME[name].numpy
        np.save(tmp_path / "x.npy", np.zeros(shape, dtype))
        data = (tmp_path / "x.npy").read_bytes()
        header = decode_header(data)
        assert encode_header(dtype.newbyteorder("<").str, shape) == data[: header.data_offset]


@pytest.mark.parametrize("key", ["../x", "/etc/x", "a/../../b", "\\x", "nul\0", "\udcff", "k" * 65_532])
def test_keys_that_no_member_can_have_are_rejected(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="name"):
        create_checkpoint(tmp_path / "x.npz", format="npz", specs=[spec_of(key, np.zeros(1))])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["npz", "hdf5"])
def test_strings_that_end_in_nul_are_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="ends in NUL") as caught:
        write(tmp_path / "x", name, {"s": objects([b"ok", b"no\0"])})
    assert caught.value.key == "s"
    assert os.listdir(tmp_path) == []


def test_strings_that_would_be_mostly_padding_are_rejected(tmp_path: Path) -> None:
    spec = TensorSpec("s", dtypes.STRING, (1 << 20,))
    with (
        pytest.raises(ConversionError, match="as fixed-width strings"),
        create_checkpoint(tmp_path / "x.npz", format="npz", specs=[spec]) as writer,
    ):
        writer.write("s", (b"x" * (1 << 20 if not n else 0) for n in range(1 << 20)))
    assert os.listdir(tmp_path) == []


# safetensors --------------------------------------------------------------------------


def test_safetensors_are_laid_out_as_the_format_says(tmp_path: Path) -> None:
    tensors = {"b": np.float32([1, 2]), "a": np.float32([3]), "z": np.int64([4]), "i": np.int8([5, 6, 7])}
    write(tmp_path / "x", "safetensors", tensors, facts=SafetensorsFacts({"format": "np"}))
    data = (tmp_path / "x").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    assert length % 8 == 0
    assert header.pop("__metadata__") == {"format": "np"}
    assert list(header) == ["z", "a", "b", "i"]  # by falling item size, then key
    codes = {"z": "I64", "a": "F32", "b": "F32", "i": "I8"}
    end = 0
    for key, entry in header.items():
        begin, stop = entry["data_offsets"]
        assert (begin, entry["dtype"], entry["shape"]) == (end, codes[key], list(tensors[key].shape))
        assert body[begin:stop] == tensors[key].tobytes()
        end = stop
    assert end == len(body)


@pytest.mark.parametrize("key", ["__metadata__", "a\udcff"])
def test_keys_that_a_safetensors_header_cannot_have_are_rejected(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"metadata|UTF-8"):
        create_checkpoint(tmp_path / "x", format="safetensors", specs=[spec_of(key, np.zeros(1))])


def test_safetensors_have_an_order_of_their_own(tmp_path: Path) -> None:
    arrays = {"a": np.arange(2, dtype=np.int8), "b": np.arange(2.0), "c": np.arange(3.0)}
    specs = [spec_of(key, array) for key, array in arrays.items()]
    for keys in ("abc", "cba", "bca"):
        with create_checkpoint(tmp_path / keys, format="safetensors", specs=specs) as writer:
            assert writer.order == ("b", "c", "a")
            for key in keys:
                writer.write(key, arrays[key])
    assert len({(tmp_path / keys).read_bytes() for keys in os.listdir(tmp_path)}) == 1


# HDF5 -----------------------------------------------------------------------------------


def test_h5py_reads_what_was_written(tmp_path: Path) -> None:
    strings = {"s/plain": objects([b"ab", b"\xc3\xbc"]), "s/nul": objects([b"a\0b", b""])}
    write(tmp_path / "x.h5", "hdf5", {**SHAPES, **strings})
    with h5py.File(tmp_path / "x.h5") as found:
        assert all(same(np.asarray(found[key][()]), value) for key, value in SHAPES.items())
        assert found["s/plain"][:].tolist() == [b"ab", b"\xc3\xbc"]
        assert found["s/nul"][:].tolist() == [b"a\0b", b""]


def test_bfloat16_is_marked_as_keras_marks_it(tmp_path: Path) -> None:
    value = np.array([1.5, -2, math.inf]).astype(dtypes.BY_NAME["bfloat16"].numpy)
    write(tmp_path / "x.h5", "hdf5", {"b": value}, "bfloat16")
    with h5py.File(tmp_path / "x.h5") as found:
        assert (found["b"].dtype, found["b"].attrs["dtype"]) == (np.dtype("V2"), "bfloat16")


@pytest.mark.parametrize("key", ["/a", "a//b", "a/./b", ".", "a/", "n\0", ""])
def test_keys_that_are_not_dataset_paths_are_rejected(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="not a valid path of a dataset"):
        create_checkpoint(tmp_path / "x.h5", format="hdf5", specs=[spec_of(key, np.zeros(1))])


def test_a_tensor_cannot_be_a_group_too(tmp_path: Path) -> None:
    specs = [spec_of("v", np.zeros(1)), spec_of("v/Adam", np.zeros(1))]
    with pytest.raises(DuplicateKeyError, match="'v' is a tensor, so it cannot also be a group"):
        create_checkpoint(tmp_path / "x.h5", format="hdf5", specs=specs)
