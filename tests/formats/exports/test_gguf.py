"""GGUF files: files of llama.cpp's own package, hand-made ones, and files that mislead."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from tests.counts import count
from tests.exports_samples import gguf_truth, sha256, survive_flips
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = data_path("exports", "gguf")
TRUTH = gguf_truth()
SOUND = [name for name, entry in TRUTH.items() if entry["tensors"]]
BROKEN = [name for name, entry in TRUTH.items() if not entry["tensors"]]
LISTED = {"Q8_1", "Q8_K", "Q1_0", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"}


def path_of(name: str) -> str:
    return os.path.join(FOLDER, name)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(
    tensors: list[tuple[str, tuple[int, ...], int, bytes]], keys: bytes = b"", count_of_keys: int = 0
) -> bytes:
    """Return a GGUF file; shapes are as numpy's."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), count_of_keys) + keys
    data = b""
    for name, shape, kind, values in tensors:
        data += b"\0" * (-len(data) % 32)
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head += struct.pack("<IQ", kind, len(data))
        data += values
    return head + b"\0" * (-len(head) % 32) + data


@pytest.mark.parametrize("name", SOUND)
def test_tensors_are_those_that_the_package_reads(name: str) -> None:
    with formats.open_checkpoint(path_of(name)) as reader:
        expected = TRUTH[name]["tensors"]
        assert set(reader) == set(expected)
        for key, entry in expected.items():
            spec = reader.specs[key]
            assert list(spec.shape) == entry["shape"]
            assert spec.stored_nbytes == entry["bytes"]
            if entry["type"] in LISTED:
                assert (spec.dtype.is_unmapped, spec.dtype.name) == (True, entry["type"])
                stored = b"".join(map(bytes, reader[key].chunks()))
                assert sha256(np.frombuffer(stored, np.uint8)) == entry["sha256"]
                continue
            values = reader[key].read()
            if entry.get("f32"):
                assert sha256(values.astype(np.float32)) == entry["f32"]
            if spec.stored_as is None:
                assert "sha256" not in entry or sha256(values) == entry["sha256"]
            else:
                assert (spec.stored_as.name, spec.dtype.name) == (entry["type"], "float32")


def test_parts_of_quantized_tensors_are_those_of_the_whole() -> None:
    with formats.open_checkpoint(path_of("types.gguf")) as reader:
        for tensor in reader.values():
            if tensor.spec.dtype.is_unmapped:
                with pytest.raises(UnsupportedFeatureError, match="cannot be read"):
                    tensor.read()
                continue
            whole = tensor.read()
            for index in ((1,), (slice(None), slice(3, None, 7)), (slice(1, 2), slice(5, 50)), ()):
                assert np.array_equal(tensor.read_slice(index), whole[index], equal_nan=True)
            assert b"".join(map(bytes, tensor.chunks(64))) == whole.tobytes()


def test_metadata_are_shown_and_long_arrays_are_counted(tmp_path: Path) -> None:
    with formats.open_checkpoint(path_of("types.gguf")) as reader:
        shown = reader.facts.document()
    for key, value in TRUTH["types.gguf"]["metadata"].items():
        assert shown[key] == value
    words = b"".join(text(f"word{number}") for number in range(50_000))
    keys = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 50_000) + words
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf([("w", (2, 3), 0, np.arange(6, dtype="<f4").tobytes())], keys, 1))
    with formats.open_checkpoint(path) as reader:
        assert reader.facts.document()["tokenizer.ggml.tokens"] == "50000 strings"
        assert reader["w"].read().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_errors(name: str) -> None:
    kind = UnsupportedFeatureError if name == "v1.gguf" else CorruptCheckpointError
    with pytest.raises(kind):
        formats.open_checkpoint(path_of(name))


def test_a_lenient_reader_lists_what_is_left_of_a_file_that_is_cut_off() -> None:
    with formats.open_checkpoint(path_of("cut.gguf"), lenient=True) as reader:
        assert len(reader) == 4
        assert [finding.code for finding in reader.findings] == ["shard-short"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_part_of_a_split_model_names_all(number: int) -> None:
    with formats.open_checkpoint(path_of(f"split/m-0000{number}-of-00003.gguf")) as reader:
        assert len(reader) == 5
        assert [file.name for file in reader.files()] == [f"m-0000{part}-of-00003.gguf" for part in (1, 2, 3)]


def test_a_split_model_is_one_checkpoint_of_a_directory() -> None:
    from formats.find.directory import Directory
    from formats.location import parse_location

    members = Directory(parse_location(path_of("split"))).members
    assert [member.name for member in members] == ["m-00001-of-00003.gguf"]


def test_a_missing_part_and_a_misnamed_one_are_errors(tmp_path: Path) -> None:
    folder = tmp_path / "split"
    shutil.copytree(path_of("split"), folder)
    os.rename(folder / "m-00001-of-00003.gguf", tmp_path / "other.gguf")
    with pytest.raises(CorruptCheckpointError, match="but its name does not say so"):
        formats.open_checkpoint(tmp_path / "other.gguf")
    os.rename(tmp_path / "other.gguf", folder / "m-00001-of-00003.gguf")
    os.remove(folder / "m-00003-of-00003.gguf")
    with pytest.raises(CheckpointError, match="missing") as caught:
        formats.open_checkpoint(folder / "m-00001-of-00003.gguf")
    assert caught.value.code == "shard-missing"
    shutil.copy(folder / "m-00002-of-00003.gguf", folder / "m-00003-of-00003.gguf")
    with pytest.raises(CorruptCheckpointError, match="expected part 2 of 3"):
        formats.open_checkpoint(folder / "m-00001-of-00003.gguf")


HOSTILE: list[tuple[bytes, str]] = [
    (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "tensors"),
    (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "keys"),
    (gguf([("w", (1 << 30, 1 << 30), 0, b"")]), "but the file has"),
    (gguf([("w", (1 << 60,), 8, b"")]), "but the file has"),
    (gguf([("w", (2, 33), 8, bytes(68))]), "multiple of 32"),
    (gguf([("w", (), 8, bytes(34))]), "blocks of 32"),
    (gguf([("w", (1,) * 5, 0, bytes(4))]), "5 dimensions"),
    (gguf([("w", (2,), 4, bytes(8))]), "Q4_2"),
    (gguf([("w", (2,), 99, bytes(8))]), "type 99"),
    (gguf([("w", (2,), 0, bytes(8)), ("w", (2,), 0, bytes(8))]), "occurs twice"),
    (
        gguf([], text("a") + struct.pack("<IB", 0, 1) + text("a") + struct.pack("<IB", 0, 1), 2),
        "occurs twice",
    ),
    (gguf([], text("a") + struct.pack("<IIQ", 9, 9, 1), 1), "array of arrays"),
    (
        gguf([], text("a") + struct.pack("<IIQ", 9, 0, 1 << 60), 1),
        "an array declares 1152921504606846976 values",
    ),
    (
        gguf([], text("a") + struct.pack("<IIQ", 9, 8, 1 << 50), 1),
        "an array declares 1125899906842624 values",
    ),
    (gguf([], text("a") + struct.pack("<I", 77), 1), "a value has type 77"),
    (gguf([], text("general.alignment") + struct.pack("<II", 4, 3), 1), "power of two"),
    (gguf([], text("general.alignment") + struct.pack("<II", 4, 1 << 31), 1), "power of two"),
]


@pytest.mark.parametrize(("data", "said"), HOSTILE)
def test_hostile_files_are_errors(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=said):
        formats.open_checkpoint(path)


@pytest.mark.parametrize(("name", "step"), [("plain.gguf", 1), ("big_endian.gguf", 1), ("types.gguf", 3)])
def test_a_flipped_bit_in_each_byte_gives_a_value_or_an_error(tmp_path: Path, name: str, step: int) -> None:
    path = tmp_path / "model.gguf"
    with open(path_of(name), "rb") as file:
        data = file.read()
    count("flipped bits", len(data) // step)
    survive_flips(path, data, step)


FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
"""The values of the four bits of OCP's e2m1."""

NON_LINEAR = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
"""The values of llama.cpp's IQ4_NL for its four bits."""

EVERY_NIBBLE = bytes(number | number << 4 for number in range(16))


@pytest.mark.parametrize(
    ("kind", "block", "values"),
    [
        (39, b"\x7f" + EVERY_NIBBLE, FP4 * 2),
        (39, b"\x81" + EVERY_NIBBLE, [4 * value for value in FP4] * 2),
        *(
            (39, bytes([e]) + EVERY_NIBBLE, [2.0 ** (e - 127) * value for value in FP4] * 2)
            for e in (0, 1, 2, 250)
        ),
        (20, struct.pack("<e", 0.5) + EVERY_NIBBLE, [value / 2 for value in NON_LINEAR] * 2),
        (40, b"\x38\x40\x30\x00" + EVERY_NIBBLE * 2, None),
    ],
)
def test_every_four_bits_stand_for_the_number_that_their_format_gives_them(
    tmp_path: Path, kind: int, block: bytes, values: list[float] | None
) -> None:
    if values is None:  # four scales of 1, 2, 0.5 and 0, each of 16 numbers: of 8 bytes the low bits first
        first, second = (FP4[at : at + 8] * 2 for at in (0, 8))
        scaled = zip((1, 2, 0.5, 0), (first, second, first, second), strict=True)
        values = [scale * value for scale, each in scaled for value in each]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([("w", (len(values),), kind, block)]))
    with formats.open_checkpoint(path) as reader:
        assert reader["w"].read().tolist() == values


def test_digits_to_base_three_are_minus_one_zero_and_one(tmp_path: Path) -> None:
    """Five digits of a byte are a fraction of 243 parts, rounded up to 256: the first is the highest."""
    digits = np.random.default_rng(0).integers(0, 3, 256)
    block = bytearray()
    for begin, width, rows_of in ((0, 32, 5), (160, 16, 5), (240, 4, 4)):
        rows = digits[begin : begin + width * rows_of].reshape(rows_of, width)
        for column in rows.T.tolist():
            number = sum(digit * 3 ** (4 - place) for place, digit in enumerate(column))
            block.append(-(-number * 256 // 243))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([("w", (256,), 34, bytes(block) + struct.pack("<e", 2))]))
    with formats.open_checkpoint(path) as reader:
        assert reader["w"].read().tolist() == (2.0 * (digits - 1)).tolist()
