"""ONNX models: files that onnx wrote, hand-made ones, and files that mislead."""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from tests.counts import count
from tests.export_files import field, onnx_model, onnx_tensor
from tests.exports_samples import survive_flips, told, truth_of
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = truth_of("onnx")
ALL, EXTERNAL = (data_path("exports", "onnx", name) for name in ("all.onnx", "external.onnx"))


@pytest.mark.parametrize("name", ["all.onnx", "external.onnx"])
def test_tensors_are_those_that_onnx_reads(name: str) -> None:
    with formats.open_checkpoint(data_path("exports", "onnx", name)) as reader:
        for key, truth in TRUTH[name]["tensors"].items():
            assert [key, *told(reader[key].read())] == [key, *truth]


def test_constants_subgraphs_and_sparse_tensors_are_read() -> None:
    with formats.open_checkpoint(ALL) as reader:
        assert set(reader) - set(TRUTH["all.onnx"]["tensors"]) == {"c", "inner_w", "inner_w#2", "sparse_w"}
        assert reader["c"].read().tolist() == [7, 8]
        assert reader["inner_w"].read().tolist() == [9, 10]
        assert reader["sparse_w"].read().shape == (3, 4)
        assert reader.specs["int4"].stored_document == {"stored": {"dtype": "packed int4", "nbytes": 2}}
        assert reader.facts.document()["producer"] == "fixture"


def constant(attribute: bytes, kind: bytes = b"Constant") -> bytes:
    """Return a model of one node, whose output is `c`."""
    return onnx_model(field(1, field(2, b"c") + field(4, kind) + field(5, attribute)))


_FLOAT = struct.pack("<f", 1.5)


@pytest.mark.parametrize(
    ("attribute", "dtype", "value"),
    [
        (field(1, b"value_float") + b"\x15" + _FLOAT, "float32", 1.5),
        (field(1, b"value_int") + field(3, (1 << 64) - 2), "int64", -2),
        (field(1, b"value_string") + field(4, b"x"), "string", b"x"),
        (field(1, b"value_floats") + field(7, _FLOAT * 2), "float32", [1.5, 1.5]),
        (field(1, b"value_floats") + (b"\x3d" + _FLOAT) * 3, "float32", [1.5, 1.5, 1.5]),
        (field(1, b"value_ints") + field(8, b"\x01\xac\x02"), "int64", [1, 300]),
        (field(1, b"value_ints") + field(8, 1) + field(8, 300), "int64", [1, 300]),
        (field(1, b"value_strings") + field(9, b"x") + field(9, b""), "string", [b"x", b""]),
        (field(1, b"value_ints"), "int64", []),
    ],
)
def test_constants_that_are_numbers_or_texts_are_read(
    tmp_path: Path, attribute: bytes, dtype: str, value: Any
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(constant(attribute))
    with formats.open_checkpoint(path) as reader:
        (tensor,) = reader.values()
        assert (tensor.spec.key, tensor.spec.dtype.name, tensor.read().tolist()) == ("c", dtype, value)
        assert reader.kinds["c"] == ("variable" if dtype == "float32" and tensor.spec.size > 1 else "state")
    path.write_bytes(constant(attribute, b"Other"))
    with formats.open_checkpoint(path) as reader:
        assert not reader


def test_a_constant_with_numbers_that_do_not_end_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(constant(field(1, b"value_ints") + field(8, b"\x01\x80")))
    with formats.open_checkpoint(path) as reader, pytest.raises(CorruptCheckpointError, match="does not end"):
        reader["c"].read()


def test_external_data_that_are_missing_or_cut_off_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "external.onnx"
    shutil.copy(EXTERNAL, path)
    with formats.open_checkpoint(path) as reader:
        assert len(reader) == 2
        assert [each.name for each in reader.missing_files()] == ["external.bin"]
        with pytest.raises(CheckpointError, match="missing") as caught:
            reader["fc.weight"].read()
        assert caught.value.code == "shard-missing"
    shutil.copy(data_path("exports", "onnx", "external.bin"), tmp_path)
    os.truncate(tmp_path / "external.bin", 100)
    with pytest.raises(CorruptCheckpointError, match="but the file has only 100 bytes"):
        formats.open_checkpoint(path)


def external(location: str, **more: str) -> bytes:
    """Return a model with a tensor [2] in another file."""
    pairs = {"location": location, **more}
    data = b"".join(
        field(13, field(1, key.encode()) + field(2, value.encode())) for key, value in pairs.items()
    )
    return onnx_model(field(5, field(1, 2) + field(2, 1) + field(8, b"w") + data + field(14, 1)))


ESCAPES = ["../secret", "/etc/passwd", "a/../../secret", "a//b", "..", "", "C:\\x", "s3://bucket/x", "link"]


@pytest.mark.parametrize("location", ESCAPES)
def test_external_data_do_not_lead_out_of_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(8))
    os.symlink("../secret", folder / "link")
    (folder / "m.onnx").write_bytes(external(location))
    with pytest.raises(UnsupportedFeatureError, match="the folder of the model"):
        formats.open_checkpoint(folder / "m.onnx")


def test_the_escaping_sample_is_rejected() -> None:
    with pytest.raises(UnsupportedFeatureError, match="the folder of the model"):
        formats.open_checkpoint(data_path("exports", "onnx", "external_escape.onnx"))


def test_external_data_below_the_folder_are_read_at_their_offset(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w").write_bytes(bytes(4) + np.array([1, 2], "<f4").tobytes())
    (tmp_path / "m.onnx").write_bytes(external("./data/w", offset="4"))
    with formats.open_checkpoint(tmp_path / "m.onnx") as reader:
        assert reader["w"].read().tolist() == [1, 2]
        assert [file.name for file in reader.files()] == ["m.onnx", "w"]
        (tmp_path / "data" / "w").write_bytes(bytes(16))
        assert reader.has_changed()


def nested(depth: int) -> bytes:
    """Return a graph within a graph, so many times."""
    graph = field(5, onnx_tensor("deepest", np.ones(2, np.float32)))
    for _ in range(depth):
        graph = field(1, field(5, field(6, graph)))
    return onnx_model(graph)


def test_graphs_nest_only_so_deep(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(nested(50))
    with formats.open_checkpoint(path) as reader:
        assert list(reader) == ["deepest"]
    path.write_bytes(nested(10_000))
    with pytest.raises(CorruptCheckpointError, match="graphs are nested more than"):
        formats.open_checkpoint(path)


def one_tensor(data: bytes) -> bytes:
    return onnx_model(field(5, field(8, b"w") + data))


HOSTILE = [
    (one_tensor(field(1, 2) + field(2, 99)), "data_type 99"),
    (one_tensor(field(1, 2)), "data_type 0"),
    (one_tensor(field(1, 1 << 63) + field(2, 1)), "invalid dims"),
    (one_tensor(field(1, bytes([1] * 300)) + field(2, 1)), "more than 254"),
    (one_tensor(field(1, 1 << 60) + field(2, 1) + field(9, b"1234")), "the tensor has 4 bytes, but"),
    (one_tensor(field(1, 1 << 60) + field(2, 1)), "the tensor has no values"),
    (one_tensor(field(1, 1 << 30) + field(2, 1) + field(4, bytes(4))), "many times as large"),
    (external("w", offset="x"), "its external data is at"),
    (external("w", length="9"), "its external data is at"),
    (external("w", offset="9" * 30), "its external data is at"),
    (onnx_model(field(5, b"\xff" * 11)), "varint"),
    (onnx_model(b"\x0b"), "wire type 3"),
    (onnx_model(field(0, 1)), "invalid field number 0"),
    (onnx_model(field(1 << 29, 1)), f"invalid field number {1 << 29}"),
]


@pytest.mark.parametrize(("data", "said"), HOSTILE)
def test_hostile_files_are_errors(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=said):
        formats.open_checkpoint(path)


@pytest.mark.parametrize("count_of", [1, 3])
def test_typed_fields_of_another_size_are_errors(tmp_path: Path, count_of: int) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(one_tensor(field(1, 2) + field(2, 7) + field(7, 5) * count_of))
    with (
        formats.open_checkpoint(path) as reader,
        pytest.raises(CorruptCheckpointError, match="values do not fit shape"),
    ):
        reader["w"].read()


def test_names_that_occur_twice_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    arrays = np.ones(2, np.float32), np.zeros(2, np.float32)
    path.write_bytes(onnx_model(b"".join(field(5, onnx_tensor("w", array)) for array in arrays)))
    with formats.open_checkpoint(path) as reader:
        assert {key: tensor.read().tolist() for key, tensor in reader.items()} == {"w": [1, 1], "w#2": [0, 0]}


@pytest.mark.parametrize(("name", "step"), [("external.onnx", 1), ("all.onnx", 7)])
def test_a_flipped_bit_in_each_byte_gives_a_value_or_an_error(tmp_path: Path, name: str, step: int) -> None:
    shutil.copy(data_path("exports", "onnx", "external.bin"), tmp_path)
    with open(data_path("exports", "onnx", name), "rb") as file:
        data = file.read()
    count("flipped bits", len(data) // step)
    survive_flips(tmp_path / name, data, step)


@pytest.mark.parametrize(("count_of", "is_read"), [(8, True), (9, False)])
def test_external_data_have_up_to_ten_keys(tmp_path: Path, count_of: int, is_read: bool) -> None:
    """One that was passed over could be the offset."""
    others = {f"x{number}": "1" for number in range(count_of)}
    (tmp_path / "w").write_bytes(np.arange(4, dtype="<f4").tobytes())
    (tmp_path / "m.onnx").write_bytes(external("w", **others, offset="4"))
    if is_read:
        with formats.open_checkpoint(tmp_path / "m.onnx") as reader:
            assert reader["w"].read().tolist() == [1, 2]
    else:
        with pytest.raises(CorruptCheckpointError, match="a tensor's external data has more than 10 keys"):
            formats.open_checkpoint(tmp_path / "m.onnx")
