"""Weights of normalizations that were swapped: real exports of one model of Keras 2, and its source."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import formats
from ckpt_cli.operations.origin.flow import MEAN, OFFSET, SCALE, VARIANCE, Flow
from ckpt_cli.operations.origin.verdicts import judge
from formats.model.operation_nodes import OperationNode
from tests.support import data_path

if TYPE_CHECKING:
    from ckpt_cli.operations.origin.records import Origins

EXPORTS = ["norms.frozen.pb", "norms.tf2onnx.onnx", "norms.tflite"]
SOURCE = Path(data_path("origin", "norms.tfjs"))
PROVED = ("equal", "within")


def judged(export: Path | str, source: Path) -> Origins:
    with (
        formats.open_checkpoint(export) as one,
        formats.open_checkpoint(source / "model.json") as other,
    ):
        return judge(one, other)


def vectors() -> dict[str, bytes]:
    """Return the weights of four elements: of two BatchNormalizations, two LayerNormalizations and biases."""
    with formats.open_checkpoint(SOURCE / "model.json") as reader:
        return {key: reader[key].read().tobytes() for key, spec in reader.specs.items() if spec.shape == (4,)}


def exchanged(data: bytes, one: bytes, other: bytes) -> bytes:
    """Return a file in which two arrays are swapped."""
    assert data.count(one) == data.count(other) == 1
    at, to = data.index(one), data.index(other)
    first, last, front, behind = (at, to, one, other) if at < to else (to, at, other, one)
    return data[:first] + behind + data[first + len(front) : last] + front + data[last + len(behind) :]


@pytest.fixture(name="source")
def fixture_source(tmp_path: Path) -> Path:
    """Return a copy of the source whose weights may be changed."""
    for name in ("model.json", "group1-shard1of1.bin"):
        (tmp_path / name).write_bytes((SOURCE / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize("name", EXPORTS)
def test_every_weight_is_proved(name: str) -> None:
    found = judged(data_path("origin", name), SOURCE)
    assert len(found.weights) >= 16
    assert {one.verdict for one in found.weights} <= {*PROVED}
    assert found.unused == ()


@pytest.mark.parametrize("name", EXPORTS)
def test_vectors_that_were_swapped_in_the_source_prove_nothing(name: str, source: Path) -> None:
    before = {one.key: one for one in judged(data_path("origin", name), SOURCE).weights}
    shard = source / "group1-shard1of1.bin"
    data = shard.read_bytes()
    values = vectors()
    assert len(values) == 15
    for one, other in itertools.combinations(values, 2):
        shard.write_bytes(exchanged(data, values[one], values[other]))
        for weight in judged(data_path("origin", name), source).weights:
            was = before[weight.key]
            is_same = (weight.verdict, weight.rule, weight.sources) == ("within", was.rule, was.sources)
            if {one, other} & {*was.sources} and not is_same:  # gamma * mean is mean * gamma
                assert weight.verdict not in PROVED, (one, other, weight)


@pytest.mark.parametrize("name", EXPORTS)
def test_vectors_that_were_swapped_in_the_export_are_not_proved(name: str, tmp_path: Path) -> None:
    data = Path(data_path("origin", name)).read_bytes()
    with formats.open_checkpoint(data_path("origin", name)) as reader:
        kinds = reader.kinds
        held = {
            key: reader[key].read().tobytes()
            for key, spec in reader.specs.items()
            if spec.shape == (4,) and spec.nbytes == 16 and kinds[key] == "variable"
        }
    held = {key: value for key, value in held.items() if data.count(value) == 1}
    assert len(held) >= 11
    changed = tmp_path / name
    for one, other in itertools.combinations(held, 2):
        changed.write_bytes(exchanged(data, held[one], held[other]))
        found = {weight.key: weight.verdict for weight in judged(changed, SOURCE).weights}
        assert {found[one], found[other]} & {*PROVED} == set(), (one, other)


# What operations say ------------------------------------------------------------------------


def node(operation: str, inputs: str, result: str) -> OperationNode:
    """Return an operation; inputs that begin with `w` are weights."""
    operands = tuple(inputs.split())
    used = tuple(each if each.startswith("w") else "" for each in operands)
    return OperationNode(operation, (result,), used, operands, (result,))


def families(*nodes: OperationNode) -> dict[str, str]:
    return {key: use.family for key, use in Flow(nodes).uses().items()}


def test_a_fused_normalization_shows_its_weights_by_position() -> None:
    for operation in ("FusedBatchNormV3", "BatchNormalization"):
        found = families(node(operation, "x w_a w_b w_c w_d", "y"))
        assert found == {"w_a": SCALE, "w_b": OFFSET, "w_c": MEAN, "w_d": VARIANCE}
    assert families(node("LayerNormalization", "x w_a w_b", "y")) == {"w_a": SCALE, "w_b": OFFSET}
    grappler = node("_FusedConv2D", "x w_k w_a w_b w_c w_d", "y")
    assert [*families(grappler).values()] == ["kernel", SCALE, OFFSET, MEAN, VARIANCE]


def test_a_normalization_in_parts_shows_its_weights_by_what_becomes_of_them() -> None:
    parts = [
        node("AddV2", "w_variance epsilon", "sum"),
        node("Rsqrt", "sum", "root"),
        node("Mul", "root w_gamma", "factor"),
        node("Mul", "x factor", "scaled"),
        node("Mul", "w_mean factor", "shift"),
        node("Sub", "w_beta shift", "offset"),
        node("AddV2", "scaled offset", "y"),
    ]
    told = {"w_variance": VARIANCE, "w_gamma": SCALE, "w_mean": MEAN, "w_beta": OFFSET}
    assert families(*parts) == told
    without = [*parts[:2], node("Mul", "x root", "scaled"), node("Mul", "w_mean root", "shift"), *parts[5:]]
    del told["w_gamma"]
    assert families(*without) == told
    reshaped = [node("Reshape", "w_gamma shape", "r"), node("Mul", "x r", "y"), node("Add", "y w_b", "z")]
    assert families(*reshaped) == {"w_gamma": SCALE, "w_b": OFFSET}


def test_an_operation_that_only_needs_a_shape_says_nothing() -> None:
    found = Flow([node("Shape", "w", "s"), node("MatMul", "x w", "y")]).uses()["w"]
    assert (found.operation, found.position, found.is_shape) == ("MatMul", 1, False)
    assert Flow([node("Shape", "w", "s")]).uses()["w"].is_shape


def test_names_behind_and_in_front_are_those_past_operations_that_keep_values() -> None:
    nodes = [
        node("Relu", "x", "norm/Relu"),
        node("Reshape", "norm/Relu shape", "r"),
        node("Gemm", "r w", "gemm"),
        node("Squeeze", "gemm", "squeezed"),
        node("Add", "squeezed w_b", "mha/query/add"),
    ]
    use = Flow(nodes).uses()["w"]
    assert use.behind == ("squeezed", "mha/query/add")
    assert use.front == ("r", "norm/Relu")
