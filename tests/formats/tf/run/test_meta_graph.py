"""MetaGraphDef: what TensorFlow wrote, against its own checkpoints; damage is an error, never a crash."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import formats
from formats.errors import CheckpointNotFoundError, CorruptCheckpointError, UnsupportedFeatureError
from formats.location import parse_location
from formats.tf.bundle import large_message
from formats.tf.run.meta_graph import GraphVariable, read_meta_graph
from formats.wire.coding import encode_varint
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

IRIS = data_path("estimator_iris", "models", "iris", "model.ckpt-200")
ADAM = data_path("name_based", "adam", "model.ckpt-5")
OBJECTS = data_path("estimator_object_based", "tf_estimator_example", "model.ckpt-10")


def message(number: int, *parts: bytes | str) -> bytes:
    """Return a field that is a message, a string or bytes."""
    body = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    return encode_varint(number << 3 | 2) + encode_varint(len(body)) + body


@pytest.mark.parametrize("prefix", [IRIS, ADAM, OBJECTS])
def test_the_graph_knows_the_tensors_of_its_checkpoint_and_their_shapes(prefix: str) -> None:
    graph = read_meta_graph(parse_location(prefix + ".meta"))
    assert graph.tensorflow_version == "2.15.1"
    with formats.open_checkpoint(prefix) as reader:
        shapes = {
            name: reader.specs[key].shape
            for key, name in reader.full_names.items()
            if reader.kinds[key] != "graph" and name in graph.variables
        }
        kinds = {name: reader.kinds[key] for key, name in reader.full_names.items()}
    assert {name: variable.shape for name, variable in graph.variables.items() if name in shapes} == shapes
    assert set(graph.variables) - set(shapes) <= {"global_step"}  # the guide's step has another name
    trainable = {name for name, variable in graph.variables.items() if variable.trainable}
    assert trainable == {
        name for name, kind in kinds.items() if kind == "variable" and name in graph.variables
    } - {"global_step"}


def test_a_partition_counts_as_its_variable(tmp_path: Path) -> None:
    parts = [
        message(
            1,
            message(1, f"net/w/part_{number}:0"),
            message(4, message(1, "net/w"), message(2, bytes((7, 2)))),
        )
        for number in range(3)
    ]
    collections = [
        message(4, message(1, key), message(2, message(2, *parts)))
        for key in ("variables", "trainable_variables")
    ]
    path = tmp_path / "model.meta"
    path.write_bytes(message(1, message(5, "1.12.0")) + b"".join(collections))
    assert read_meta_graph(parse_location(str(path))) == (
        "1.12.0",
        {"net/w": GraphVariable("net/w", (7, 2), True)},
    )


def test_a_shape_that_the_graph_leaves_open_is_not_known(tmp_path: Path) -> None:
    def node(name: str, shape: bytes) -> bytes:
        attribute = message(5, message(1, "shape"), message(2, message(7, shape)))
        return message(1, message(1, name), message(2, "VarHandleOp"), attribute)

    any_size = message(2, b"\x08" + encode_varint(-1))
    nodes = (
        node("rank", b"\x18\x01"),
        node("size", any_size),
        node("scalar", b""),
        message(1, message(1, "Var")),
    )
    variables = [message(1, message(1, f"{name}:0")) for name in ("rank", "size", "scalar", "without_node")]
    path = tmp_path / "model.meta"
    path.write_bytes(
        message(2, *nodes) + message(4, message(1, "variables"), message(2, message(2, *variables)))
    )
    shapes = {
        key: variable.shape for key, variable in read_meta_graph(parse_location(str(path))).variables.items()
    }
    assert shapes == {"rank": None, "size": None, "scalar": (), "without_node": None}


def test_constants_and_collections_of_other_names_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_message, "_LARGEST_MESSAGE", 1000)
    huge = b"Variable" * 20_000
    path = tmp_path / "model.meta"
    path.write_bytes(
        message(2, message(1, huge)) + message(4, message(1, "losses"), message(2, message(2, huge)))
    )
    assert read_meta_graph(parse_location(str(path))) == ("", {})
    path.write_bytes(message(2) + message(4, message(1, "variables"), message(2, huge)))
    with pytest.raises(UnsupportedFeatureError, match="a CollectionEntry has 160"):
        read_meta_graph(parse_location(str(path)))


def test_every_cut_and_random_damage_is_an_error_of_ours_or_another_graph(tmp_path: Path) -> None:
    with open(ADAM + ".meta", "rb") as file:
        data = file.read()
    path = tmp_path / "model.meta"
    generator = random.Random(6)
    refusals = []
    for number in range(300):
        damaged = bytearray(data)
        if number % 2:
            del damaged[generator.randrange(len(data)) :]
        else:
            for _ in range(5):
                damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        try:
            read_meta_graph(parse_location(str(path)))
        except CorruptCheckpointError as error:
            refusals.append(error)
    assert len(refusals) > 150
    assert {error.path for error in refusals} == {str(path)}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not a MetaGraphDef"),
        (message(9, "text"), "not a MetaGraphDef"),
        (b"not a protocol buffer at all", "field 13 has the unknown wire type 6"),
        (b"\x12" + encode_varint(1 << 62), "bytes, but only 0 are left"),
        (b"\x12\x80", "a varint runs past the end"),
        (b"\x0b", "field 1 has the unknown wire type 3"),
        (b"\x0d\x00", "bytes, but only 0 are left"),
        (message(2, message(1, b"Var\xff")), "offset"),
        (
            message(2) + message(4, message(1, "variables"), message(2, message(2, message(1, b"\xff")))),
            "'variables'",
        ),
    ],
)
def test_what_is_none_says_so(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.meta"
    path.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match=what):
        read_meta_graph(parse_location(str(path)))


def test_a_graph_that_has_gone_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError):
        read_meta_graph(parse_location(str(tmp_path / "gone.meta")))
