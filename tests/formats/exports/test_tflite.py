"""TFLite models: what TensorFlow's schema reads of them, and files that mislead."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats import CheckpointError
from tests.counts import count
from tests.export_files import tflite
from tests.exports_samples import sha256, survive_flips, truth_of
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = truth_of("tflite")
SOURCE = data_path("exports", "tflite", "float.tflite")
DTYPES = {"FLOAT32": "f4", "FLOAT16": "f2", "INT32": "i4", "INT8": "i1"}


@pytest.mark.parametrize("name", TRUTH)
def test_tensors_are_those_that_the_schema_reads(name: str) -> None:
    with formats.open_checkpoint(data_path("exports", "tflite", name)) as reader:
        assert set(reader) == set(TRUTH[name]["tensors"])
        for key, truth in TRUTH[name]["tensors"].items():
            spec, values = reader.specs[key], reader[key].read()
            assert (list(spec.shape), spec.stored_nbytes) == (truth["shape"], truth["bytes"])
            if not truth.get("scale"):
                assert (spec.stored_as, sha256(values)) == (None, truth["sha256"])
                continue
            assert spec.stored_as is not None
            assert (spec.dtype.name, spec.stored_as.name) == ("float32", truth["type"].lower())
            assert [*spec.stored_as.scale] == truth["scale"]
            assert [*spec.stored_as.zero_point] == truth["zero_point"]
            assert spec.stored_as.axis == (truth["axis"] if len(truth["scale"]) > 1 else None)
            form = [1] * len(spec.shape)
            form[truth["axis"]] = -1 if len(truth["scale"]) > 1 else 1
            scale = np.array(truth["scale"]).reshape(form)
            zero = np.array(truth["zero_point"]).reshape(form)
            stored = np.round(values / scale) + zero
            assert sha256(stored.astype(DTYPES[truth["type"]])) == truth["sha256"]
            assert (values == ((stored - zero) * scale).astype("f4")).all()


def test_the_exports_of_one_model_differ_by_less_than_a_step() -> None:
    kernel = "model/conv/Conv2D"
    with (
        formats.open_checkpoint(SOURCE) as source,
        formats.open_checkpoint(data_path("exports", "tflite", "int8.tflite")) as quantized,
    ):
        stored = quantized.specs[kernel].stored_as
        assert stored is not None
        difference = np.abs(source[kernel].read() - quantized[kernel].read()).max(axis=(1, 2, 3))
        assert (difference <= np.array(stored.scale) / 2 + 1e-6).all()


def test_parts_of_quantized_tensors_are_those_of_the_whole() -> None:
    with formats.open_checkpoint(data_path("exports", "tflite", "int8.tflite")) as reader:
        for tensor in reader.values():
            whole = tensor.read()
            for index in ((0,), (..., slice(1, 3)), (slice(0, 2), ...)):
                assert np.array_equal(tensor.read_slice(index), whole[index])
            assert b"".join(map(bytes, tensor.chunks(64))) == whole.tobytes()


@pytest.mark.parametrize("is_behind", [False, True])
def test_data_within_and_behind_the_flatbuffer_are_read(tmp_path: Path, is_behind: bool) -> None:
    """Behind it they are in models above 2 GB."""
    path = tmp_path / "m.tflite"
    tensors = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([7, 8], np.int32)}
    path.write_bytes(tflite(tensors, is_behind=is_behind))
    with formats.open_checkpoint(path) as reader:
        assert {key: tensor.read().tolist() for key, tensor in reader.items()} == {
            "b": [7, 8],
            "w": [[0, 1, 2], [3, 4, 5]],
        }


def test_hostile_offsets_are_errors(tmp_path: Path) -> None:
    """Backward offsets and such that lead out, in each word of a small file."""
    path = tmp_path / "m.tflite"
    data = tflite({"w": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.array([1, 2], np.int32)})
    path.write_bytes(data)
    with formats.open_checkpoint(path) as reader:
        assert reader["w"].read().tolist() == np.arange(12).reshape(3, 4).tolist()
    for at in range(0, len(data), 4):
        for value in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, len(data)):
            changed = bytearray(data)
            struct.pack_into("<I", changed, at, value)
            survive_flips(path, bytes(changed), len(changed))


def test_shared_buffers_are_read_and_charged(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite({f"t{at}": np.ones(16, np.float32) for at in range(3)}, is_shared=True))
    with formats.open_checkpoint(path) as reader:
        assert [tensor.read().tolist() for tensor in reader.values()] == [[1.0] * 16] * 3
    large = np.zeros(1 << 18, np.float32)
    path.write_bytes(tflite(dict.fromkeys(map(str, range(200)), large[:0]) | {"0": large}, is_shared=True))
    data = bytearray(path.read_bytes())
    path.write_bytes(data.replace(struct.pack("<II", 1, 0), struct.pack("<II", 1, 1 << 18)))
    with pytest.raises(CheckpointError, match="share buffers so often"):
        formats.open_checkpoint(path)


@pytest.mark.parametrize("data", [b"\0\0\0\0TFL3", b"\xff\xff\xff\xffTFL3", b"\x0c\0\0\0TFL3"])
def test_broken_files_are_errors(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="this TFLite model cannot be read: "):
        formats.open_checkpoint(path)


def test_a_flipped_bit_in_each_byte_gives_a_value_or_an_error(tmp_path: Path) -> None:
    with open(data_path("exports", "tflite", "int8.tflite"), "rb") as file:
        data = file.read()
    count("flipped bits", len(data) // 3)
    survive_flips(tmp_path / "m.tflite", data, 3)
