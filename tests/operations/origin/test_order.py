"""Weights without names: what their order says, and what it leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.export_files import field, onnx_model, onnx_tensor

from .test_verdicts import chain, judged, verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Array = np.ndarray[Any, Any]


def layers(count: int) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    return {f"dense_{number}/kernel": rng.normal(size=(4, 4)).astype("<f4") for number in range(count)}


def unnamed(folder: Path, *values: Array) -> str:
    path = folder / "model.onnx"
    held = {f"w{number}": value for number, value in enumerate(values)}
    path.write_bytes(chain(held, [*held]))
    return str(path)


def test_as_many_weights_as_layers_are_identified_by_their_order(tmp_path: Path) -> None:
    weights = layers(3)
    path = unnamed(tmp_path, *weights.values())
    assert verdicts(path, weights, tmp_path) == dict.fromkeys(weights, "equal")


def test_fewer_weights_than_layers_may_be_of_any(tmp_path: Path) -> None:
    weights = layers(3)
    first, second, third = weights.values()
    for values in ([first, third], [second], [first, second]):
        found = judged(unnamed(tmp_path, *values), weights, tmp_path)
        assert {one.verdict for one in found.weights} == {"unpaired"}
        assert "the source has 3 layers of its shape, and the export fewer" in found.weights[0].rule
        assert found.weights[0].rule.endswith("--map can say it")


def test_a_name_on_each_side_shows_the_weight_between(tmp_path: Path) -> None:
    weights = layers(3)
    first, second, third = weights.values()
    path = tmp_path / "model.onnx"
    held = {"dense_0/kernel": first, "w": second, "dense_2/kernel": third}
    path.write_bytes(chain(held, [*held]))
    assert verdicts(str(path), weights, tmp_path) == dict.fromkeys(weights, "equal")
    held["w"] = third
    path.write_bytes(chain(held, [*held]))
    assert verdicts(str(path), weights, tmp_path)["w"] == "unpaired"


def test_a_weight_that_no_layer_gives_has_its_place_in_the_order(tmp_path: Path) -> None:
    """The second of three weights has the values of the first layer, and the first of none."""
    weights = layers(3)
    first, _, third = weights.values()
    found = verdicts(unnamed(tmp_path, first + 1, first, third), weights, tmp_path)
    assert found == {"w0": "unpaired", "w1": "unpaired", "dense_2/kernel": "equal"}


def test_copies_of_a_weight_have_one_place(tmp_path: Path) -> None:
    weights = layers(2)
    first, second = weights.values()
    found = judged(unnamed(tmp_path, first, first.copy(), second), weights, tmp_path)
    assert [one.verdict for one in found.weights] == ["equal"] * 3


def test_a_weight_used_only_for_its_shape_is_a_constant(tmp_path: Path) -> None:
    weights = layers(1)
    path = tmp_path / "model.onnx"
    path.write_bytes(chain({"w": weights["dense_0/kernel"] + 1}, ["w"], "Shape"))
    found = judged(str(path), weights, tmp_path)
    assert (found.weights, found.constants) == ((), 1)


def followed(tensors: Mapping[str, Array], behind: str, operation: str = "Relu") -> bytes:
    """Return a weight without a name, in an operation without one, before an operation that has one."""
    graph = b""
    for inputs, output, kind in ((("x", "w"), "y", "MatMul"), (("y",), behind, operation)):
        fields = b"".join(field(1, one.encode()) for one in inputs)
        graph += field(1, fields + field(2, output.encode()) + field(4, kind.encode()))
    return onnx_model(graph + b"".join(field(5, onnx_tensor(key, array)) for key, array in tensors.items()))


def test_the_operation_behind_names_the_layer_or_the_next(tmp_path: Path) -> None:
    weights = layers(2)
    first, second = weights.values()
    path = tmp_path / "model.onnx"
    path.write_bytes(followed({"w": second}, "dense_1/Relu"))
    assert verdicts(str(path), weights, tmp_path) == {"dense_1/kernel": "equal"}
    path.write_bytes(followed({"w": first}, "dense_1/Reshape"))
    found = judged(str(path), weights, tmp_path).weights[0]
    assert found.verdict == "unpaired"
    assert found.rule.endswith("but the operation behind its own is of dense_1")
    path.write_bytes(followed({"w": first + 1}, "dense_1/Reshape"))
    assert [one.verdict for one in judged(str(path), weights, tmp_path).weights] == ["unpaired"]


# Roles of one layer -------------------------------------------------------------------------


def test_without_an_operation_equal_values_do_not_say_which_role_a_weight_has(tmp_path: Path) -> None:
    weights = {"norm/gamma": np.arange(4, dtype="<f4"), "norm/beta": np.arange(4, dtype="<f4") + 7}
    path = tmp_path / "model.onnx"
    path.write_bytes(chain({"norm/Reshape": weights["norm/gamma"]}, ["norm/Reshape"], "Concat"))
    found = judged(str(path), weights, tmp_path)
    assert [one.verdict for one in found.weights] == ["unpaired"]
    assert found.weights[0].rule.endswith("nothing says whether it is gamma or beta; --map can say it")


def recurrent(tensors: Mapping[str, Array]) -> bytes:
    graph = b""
    for number, key in enumerate(tensors):
        inputs = field(1, f"x{number}".encode()) + field(1, key.encode())
        graph += field(1, inputs + field(2, f"x{number + 1}".encode()) + field(4, b"MatMul"))
    return onnx_model(graph + b"".join(field(5, onnx_tensor(key, array)) for key, array in tensors.items()))


def test_the_numbers_of_keras_tell_the_kernels_of_a_recurrent_layer(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    weights = {
        f"lstm/cell/{role}": rng.normal(size=(4, 16)).astype("<f4") for role in ("kernel", "recurrent_kernel")
    }
    kernel, state = weights.values()
    path = tmp_path / "model.onnx"
    for words in (("MatMul", "MatMul_1"), ("MatMul", "MatMul_11"), ("Read", "Read_1"), ("Cast", "Cast_1")):
        keys = [f"rnn/lstm/cell/{word}" for word in words]
        path.write_bytes(recurrent(dict(zip(keys, (kernel, state), strict=True))))
        assert verdicts(str(path), weights, tmp_path) == dict.fromkeys(weights, "equal"), words
        path.write_bytes(recurrent(dict(zip(keys, (state, kernel), strict=True))))
        assert set(verdicts(str(path), weights, tmp_path).values()) == {"other"}, words


# Square kernels -----------------------------------------------------------------------------


def test_a_square_kernel_that_may_be_transposed_is_neither_equal_nor_another(tmp_path: Path) -> None:
    kernel = layers(1)["dense_0/kernel"]
    weights = {"dense/kernel": kernel}
    turned = np.ascontiguousarray(kernel.T)
    path = tmp_path / "model.onnx"
    path.write_bytes(chain({"dense/kernel": turned}, ["dense/kernel"], "Mystery"))
    found = judged(str(path), weights, tmp_path).weights[0]
    assert found.verdict == "unpaired"
    assert "'dense/kernel' transposed (1, 0), but no operation says" in found.rule
    path.write_bytes(chain({"dense/kernel": kernel}, ["dense/kernel"], "Mystery"))
    assert verdicts(str(path), weights, tmp_path) == {"dense/kernel": "equal"}
    path.write_bytes(chain({"dense/kernel": turned + 1}, ["dense/kernel"], "Mystery"))
    assert verdicts(str(path), weights, tmp_path) == {"dense/kernel": "other"}


def test_a_kernel_of_attention_has_one_order_of_axes(tmp_path: Path) -> None:
    """A query's kernel of 16 inputs, 4 heads of 4: as outputs first, or with its axes in a wrong order."""
    kernel = np.random.default_rng(2).normal(size=(16, 4, 4)).astype("<f4")
    weights = {"mha/query/kernel": kernel}
    path = tmp_path / "model.onnx"
    for order, verdict in (((1, 2, 0), "equal"), ((2, 0, 1), "other"), ((0, 1, 2), "other")):
        stored = np.ascontiguousarray(kernel.transpose(order).reshape(16, 16))
        path.write_bytes(chain({"mha/query/MatMul": stored}, ["mha/query/MatMul"], "Gemm(transB)"))
        assert verdicts(str(path), weights, tmp_path) == {"mha/query/kernel": verdict}, order
