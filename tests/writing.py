"""Shared by the tests of writers: checkpoints rewritten unchanged, and a specimen of everything."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

import formats
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.model.object_graph import ObjectGraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats import LazyTensor
    from formats.core.region import Extents
    from formats.model.reader import FormatReader
    from formats.model.writer import FormatWriter


def in_file_order(reader: FormatReader) -> Iterator[tuple[str, Extents | None, LazyTensor]]:
    """Yield all tensors and slices of a bundle in the order of their data."""
    placed = []
    for key in reader:
        tensor = reader[key]
        pieces = tensor.pieces() or [(None, tensor)]
        # An empty tensor shares its offset with the next one.
        placed += [(*_place(piece), key, extents, piece) for extents, piece in pieces]
    for *_, key, extents, piece in sorted(placed, key=lambda row: row[:3]):
        yield key, extents, piece


def _place(tensor: LazyTensor) -> tuple[int, int]:
    stored = tensor.stored
    assert stored.shard == 0
    assert stored.offset is not None
    return stored.offset, tensor.spec.nbytes or 0


def slices_of(reader: FormatReader) -> dict[str, list[Extents]]:
    """Return the extents of the partitioned tensors, as they are stored."""
    pieces = {key: reader[key].pieces() for key in reader}
    return {key: [extents for extents, _ in found] for key, found in pieces.items() if found}


def decoded(graph: ObjectGraph | None) -> ObjectGraph | None:
    """Return a graph that shares nothing with the one of a file."""
    return None if graph is None else ObjectGraph.decode(graph.encode())


def files(directory: object) -> dict[str, bytes]:
    """Return the content of every file below a directory, by relative path; directories end in a slash."""
    found: dict[str, bytes] = {}
    root = str(directory)
    for at, directories, names in os.walk(root):
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
        for name in directories:
            found[os.path.relpath(os.path.join(at, name), root) + "/"] = b""
    return found


def spec_of(key: str, array: Any, dtype: str | None = None) -> TensorSpec:
    array = np.asarray(array)
    name = dtype or formats.core.dtypes.from_numpy(array.dtype).name
    return TensorSpec(key, BY_NAME[name], array.shape)


def save(
    path: object,
    arrays: dict[str, Any],
    format: str = "tf-name",  # noqa: A002  as create_checkpoint has it
    **options: Any,
) -> FormatWriter:
    """Write arrays and return the writer that did."""
    specs = [spec_of(key, array) for key, array in arrays.items()]
    with formats.create_checkpoint(str(path), format=format, specs=specs, **options) as writer:
        for key in writer.order or arrays:
            writer.write(key, np.asarray(arrays[key]))
    return writer


def read_all(path: object) -> dict[str, np.ndarray[Any, Any]]:
    with formats.open_checkpoint(str(path)) as reader:
        return {key: reader[key].read() for key in reader}


def h5_objects(path: Any) -> dict[str, Any]:
    """Return every object of an HDF5 file: attributes with their types, and values."""
    import h5py

    found: dict[str, Any] = {}

    def look(name: str, thing: Any) -> None:
        attributes = {}
        for key, value in thing.attrs.items():
            type_id = thing.attrs.get_id(key).get_type()
            text = type_id.get_class() == h5py.h5t.STRING
            kind = (type_id.is_variable_str(), type_id.get_cset()) if text else ()
            attributes[key] = (type_id.dtype.str, kind, np.shape(value), np.asarray(value).tolist())
        values = (thing.shape, str(thing.dtype), thing[()].tobytes()) if hasattr(thing, "shape") else None
        found[name] = attributes, values

    try:
        file = h5py.File(path)
    except OSError:
        # The library opens a file twice in one process only in the same way, and what an earlier test has
        # left in a circle of references may still have it open in ours.
        gc.collect()
        file = h5py.File(path)
    with file:
        look("/", file)
        file.visititems(look)
    return found


def strings(*values: bytes, shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
    out = np.empty(len(values), object)
    out[:] = values
    return out if shape is None else out.reshape(shape)


def specimen() -> dict[str, np.ndarray[Any, Any]]:
    """Return tensors that hold the corner cases, of dtypes that both TensorFlows and V1 files have."""
    rng = np.random.default_rng(4)
    return {
        "scalar": np.array(-7, np.int64),
        "empty": np.zeros((0,), np.float32),
        "zero_axis": np.zeros((3, 0, 2), np.float64),
        "bool": np.array([[True, False, True]]),
        "half": np.array([1.5, -0.0, np.inf, np.nan, 6e-8], np.float16),
        "float": np.array([[1, np.nan], [-np.inf, 1e-45]], np.float32),
        "double": rng.standard_normal((5, 3)),
        "complex": np.array([1 + 2j, -3j], np.complex64),
        "complex_double": np.array([[1 + 2j], [np.pi * 1j]], np.complex128),
        "int8": np.array([-128, -1, 0, 127], np.int8),
        "uint8": np.arange(256, dtype=np.uint8),
        "int16": np.array([-32768, 32767, 300], np.int16),
        "uint16": np.array([0, 127, 128, 65535], np.uint16),
        "int32": np.array([-(2**31), 2**31 - 1, 0, 1 << 14, (1 << 14) - 1], np.int32),
        "int64": np.array([-(2**63), 2**63 - 1, 1 << 35], np.int64),
        "strings": strings(b"", b"\x00\xff", "naïve".encode(), b"x" * 300, shape=(2, 2)),
        "string_scalar": strings(b"one").reshape(()),
        "no_strings": strings(),
        "naïve/ключ with spaces ": np.arange(3, dtype=np.int32),
        "long/" + "k" * 2000: np.ones((2, 2), np.float32),
        **{f"many/{number:03d}": rng.standard_normal(2).astype(np.float32) for number in range(40)},
    }


def narrow_specimen() -> dict[str, np.ndarray[Any, Any]]:
    """Return tensors of the dtypes that V1 files lack and that both TensorFlows have."""
    return {
        "bfloat16": np.array([1, -2.5, np.nan], ml_dtypes.bfloat16),
        "float8_e4m3fn": np.array([1, -2.5], ml_dtypes.float8_e4m3fn),
        "float8_e5m2": np.array([1, -2.5], ml_dtypes.float8_e5m2),
        "int4": np.array([-8, 7], ml_dtypes.int4),
        "uint4": np.array([0, 15], ml_dtypes.uint4),
        "uint32": np.array([2**32 - 1], np.uint32),
        "uint64": np.array([2**64 - 1, 0], np.uint64),
    }
