"""Frozen graphs: what TensorFlow reads of them, and files that mislead."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

import formats
from formats import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from tests.counts import count
from tests.export_files import field
from tests.exports_samples import survive_flips, told, truth_of
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = truth_of("graphdef")


def path_of(name: str) -> str:
    return data_path("exports", "graphdef", name)


@pytest.mark.parametrize("name", TRUTH)
def test_constants_are_those_that_tensorflow_reads(name: str) -> None:
    with formats.open_checkpoint(path_of(name)) as reader:
        assert set(reader) == set(TRUTH[name]["tensors"])
        for key, truth in TRUTH[name]["tensors"].items():
            assert [key, *told(reader[key].read())] == [key, *truth]


def test_weights_are_distinguished_from_shapes() -> None:
    with formats.open_checkpoint(path_of("frozen_v2.pb")) as reader:
        assert reader.kinds["model/conv/Conv2D/ReadVariableOp/resource"] == "variable"
        assert reader.kinds["model/flat/Const"] == "state"
    with formats.open_checkpoint(path_of("frozen_v1.pb")) as reader:
        assert reader.kinds["fc_kernel"] == "variable"
        assert (reader.kinds["strings"], reader.kinds["ints"]) == ("state", "state")


def constant(name: str, tensor: bytes) -> bytes:
    """Return a node."""
    value = field(5, field(1, b"value") + field(2, field(8, tensor)))
    return field(1, name.encode()) + field(2, b"Const") + value


def shape(*dims: int) -> bytes:
    return field(2, b"".join(field(2, field(1, dim)) for dim in dims))


def graph(tensor: bytes) -> bytes:
    return field(1, constant("w", tensor))


def test_a_repeated_value_is_read_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    path.write_bytes(graph(field(1, 3) + shape(1000, 1000) + field(7, 5)))
    with formats.open_checkpoint(path) as reader:
        assert reader["w"].read_slice((999, slice(0, 3))).tolist() == [5, 5, 5]
        assert sum(map(len, reader["w"].chunks())) == 4_000_000
    path.write_bytes(graph(field(1, 1) + shape(2, 2)))
    with formats.open_checkpoint(path) as reader:
        assert reader["w"].read().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("dims", [(1 << 30,), (1 << 60,), (1 << 31, 1 << 31, 1 << 31)])
def test_a_few_bytes_that_expand_to_gigabytes_are_listed_and_not_read(
    tmp_path: Path, dims: tuple[int, ...]
) -> None:
    path = tmp_path / "g.pb"
    path.write_bytes(graph(field(1, 3) + shape(*dims) + field(7, 5)))
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["w"].shape == dims
        for read in (reader["w"].read, lambda: list(reader["w"].chunks())):
            with pytest.raises(UnsupportedFeatureError, match="many times as large"):
                read()


def test_constants_of_functions_have_its_name(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    function = field(1, field(1, b"f")) + field(3, constant("w", field(1, 1) + field(5, b"\0\0\x80\x3f")))
    path.write_bytes(field(1, constant("v", field(1, 1))) + field(2, field(1, function)))
    with formats.open_checkpoint(path) as reader:
        assert reader["f/w"].read().tolist() == 1.0
        assert list(reader) == ["f/w", "v"]


HOSTILE = [
    (graph(field(1, 1) + shape(1 << 63)), "shape"),
    (graph(field(1, 1) + shape(*[1] * 300)), "shape"),
    (graph(field(1, 1) + shape(3) + field(4, bytes(4))), "found 4 bytes; expected 12"),
    (graph(b"\xff" * 11), "varint"),
]


@pytest.mark.parametrize(("data", "said"), HOSTILE)
def test_hostile_files_are_errors(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "g.pb"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=said):
        formats.open_checkpoint(path)


def test_more_values_than_elements_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    path.write_bytes(graph(field(1, 3) + shape(2) + field(7, 5) * 3))
    with (
        formats.open_checkpoint(path) as reader,
        pytest.raises(CorruptCheckpointError, match="values do not fit shape"),
    ):
        reader["w"].read()


def test_messages_nested_deep_are_passed_over(tmp_path: Path) -> None:
    message = b""
    for _ in range(10_000):
        message = field(5, message)
    path = tmp_path / "g.pb"
    path.write_bytes(
        field(1, constant("w", field(1, 1))) + field(1, field(1, b"n") + field(2, b"X") + message)
    )
    with formats.open_checkpoint(path) as reader:
        assert list(reader) == ["w"]


def test_a_flipped_bit_in_each_byte_gives_a_value_or_an_error(tmp_path: Path) -> None:
    with open(path_of("frozen_v1.pb"), "rb") as file:
        data = file.read()
    count("flipped bits", len(data) // 5)
    survive_flips(tmp_path / "g.pb", data, 5)


@pytest.mark.parametrize(("sizes", "expected"), [((2, 3), (2, 3)), ((2, 0), (2, 0)), ((0,), (0,)), ((), ())])
def test_a_dimension_that_is_not_spelled_is_zero(
    tmp_path: Path, sizes: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Protocol buffers leave out zeros, or do not."""
    dims = b"".join(field(2, field(1, size) if size else b"") for size in sizes)
    path = tmp_path / "m.pb"
    path.write_bytes(graph(field(1, 1) + field(2, dims) + field(4, bytes(4 * math.prod(sizes)))))
    with formats.open_checkpoint(path) as reader:
        (spec,) = reader.specs.values()
        assert spec.shape == expected
    path.write_bytes(graph(field(1, 1) + shape(*sizes) + field(4, bytes(4 * math.prod(sizes)))))
    with formats.open_checkpoint(path) as reader:
        (spec,) = reader.specs.values()
        assert spec.shape == expected


def operation(name: str, kind: str, *inputs: str) -> bytes:
    texts = field(1, name.encode()) + field(2, kind.encode())
    return field(1, texts + b"".join(field(3, each.encode()) for each in inputs))


def test_operations_come_in_an_order_of_execution_with_their_constants(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    values = field(1, constant("w", field(1, 1) + shape(2) + field(4, b"\0" * 8)))
    path.write_bytes(
        operation("out", "Add", "product:0", "read", "^late")
        + operation("product", "MatMul", "x", "read")
        + operation("read", "Identity", "w")
        + operation("late", "NoOp")
        + operation("x", "Placeholder")
        + values
    )
    with formats.open_checkpoint(path) as reader:
        found = list(reader.nodes())
    assert [(one.operation, one.names) for one in found] == [
        ("Placeholder", ("x",)),
        ("MatMul", ("product",)),
        ("NoOp", ("late",)),
        ("Add", ("out",)),
    ]
    assert (found[1].inputs, found[1].operands, found[1].results) == (("", "w"), ("x", "read"), ("product",))
    assert found[3].inputs == ("", "w")


def test_a_loop_of_an_old_graph_ends(tmp_path: Path) -> None:
    path = tmp_path / "g.pb"
    path.write_bytes(operation("a", "Merge", "b") + operation("b", "NextIteration", "a") + graph(b""))
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert sorted(one.operation for one in reader.nodes()) == ["Merge", "NextIteration"]
