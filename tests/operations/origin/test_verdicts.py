"""The sources of exports: real TFLite files and frozen graphs, their sources and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from ckpt_cli.operations.origin.bounds import closeness
from ckpt_cli.operations.origin.records import Expected
from ckpt_cli.operations.origin.verdicts import judge
from formats.core.dtypes import BY_NAME
from formats.core.spec import StoredType, TensorSpec
from tests.export_files import field, onnx_model, onnx_tensor
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ckpt_cli.operations.origin.records import Origins

    Array = np.ndarray[Any, Any]

LITE = ["float", "float16", "dynamic", "int8"]


def source() -> dict[str, Array]:
    """Return the weights that the exports in tests/data were made of."""
    rng = np.random.default_rng(42)

    def normal(*shape: int) -> Array:
        return rng.normal(size=shape).astype("<f4")

    return {
        "conv/kernel": normal(3, 3, 2, 4),
        "conv/bias": normal(4),
        "dw/kernel": normal(3, 3, 4, 1),
        "dw/bias": normal(4),
        "bn/gamma": np.abs(normal(4)) + np.float32(0.5),
        "bn/beta": normal(4),
        "bn/moving_mean": normal(4),
        "bn/moving_variance": np.abs(normal(4)) + np.float32(0.5),
        "fc/kernel": normal(64, 20),
        "fc/bias": normal(20),
    }


def judged(export: str, weights: Mapping[str, Array], folder: Path) -> Origins:
    path = folder / "source.npz"
    np.savez(path, **weights)
    with formats.open_checkpoint(export) as one, formats.open_checkpoint(path) as other:
        return judge(one, other)


def verdicts(export: str, weights: Mapping[str, Array], folder: Path) -> dict[str, str]:
    """Return the verdicts, by the tensors that a weight was compared with."""
    return {
        one.sources[0] if one.sources else one.key: one.verdict
        for one in judged(export, weights, folder).weights
    }


def lite(name: str) -> str:
    return str(data_path("exports", "tflite", f"{name}.tflite"))


@pytest.mark.parametrize("name", LITE)
def test_every_weight_of_a_tflite_file_is_proved(name: str, tmp_path: Path) -> None:
    found = judged(lite(name), source(), tmp_path)
    assert len(found.weights) == 6
    assert {one.verdict for one in found.weights} <= {"equal", "within"}
    assert found.unused == ()
    rules = {one.sources[0]: one.rule for one in found.weights}
    assert rules["conv/kernel"].startswith("transposed (3, 0, 1, 2)")
    assert "folded with bn (epsilon 0.001, assumed)" in rules["dw/kernel"]
    assert "folded with bn" in rules["dw/bias"]
    assert rules["fc/kernel"].startswith("transposed (1, 0)")


def test_a_frozen_graph_has_the_values_themselves(tmp_path: Path) -> None:
    found = judged(str(data_path("exports", "graphdef", "frozen_v2.pb")), source(), tmp_path)
    assert len(found.weights) == 10
    assert {(one.verdict, one.rule, one.max_error) for one in found.weights} == {("equal", "unchanged", 0.0)}
    assert found.unused == ()


@pytest.mark.parametrize("name", LITE)
def test_weights_of_another_training_are_others(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    weights = {key: np.abs(rng.normal(size=value.shape).astype("<f4")) for key, value in source().items()}
    assert set(verdicts(lite(name), weights, tmp_path).values()) == {"other"}


@pytest.mark.parametrize("name", LITE)
@pytest.mark.parametrize("key", ["conv/kernel", "fc/kernel", "fc/bias", "dw/kernel", "dw/bias"])
def test_permuted_channels_are_another_weight(name: str, key: str, tmp_path: Path) -> None:
    weights = source()
    axis = -2 if key == "dw/kernel" else -1
    weights[key] = np.ascontiguousarray(np.roll(weights[key], 1, axis))
    found = verdicts(lite(name), weights, tmp_path)
    others = [one for one, verdict in found.items() if verdict == "other"]
    assert len(others) == 1
    assert others == [key] or key == "dw/bias"  # the nearest weight is of the folded layer


@pytest.mark.parametrize("name", LITE)
@pytest.mark.parametrize("key", ["gamma", "beta", "moving_mean", "moving_variance"])
def test_a_changed_normalization_shows_in_what_was_folded(name: str, key: str, tmp_path: Path) -> None:
    weights = source()
    weights[f"bn/{key}"] = weights[f"bn/{key}"] * np.float32(1.1)
    found = verdicts(lite(name), weights, tmp_path)
    assert found["dw/bias"] == "other"
    assert found["conv/kernel"] in ("equal", "within")


def test_one_perturbed_element_is_found_if_the_type_can_show_it(tmp_path: Path) -> None:
    weights = source()
    weights["fc/kernel"][5, 5] += np.float32(1e-3)
    assert verdicts(lite("float"), weights, tmp_path)["fc/kernel"] == "other"
    hidden = judged(lite("int8"), weights, tmp_path)
    rules = {one.sources[0]: (one.verdict, one.rule) for one in hidden.weights}
    assert rules["fc/kernel"][1].endswith("dequantized from int8; differences below 0.014 cannot be detected")
    weights["fc/kernel"][5, 5] += np.float32(0.03)
    assert verdicts(lite("int8"), weights, tmp_path)["fc/kernel"] == "other"


@pytest.mark.parametrize(("shift", "verdict"), [(1e-5, "unpaired"), (1e-8, "within")])
def test_two_sources_within_one_step_of_a_quantization_tell_nothing_unless_they_are_the_same(
    shift: float, verdict: str, tmp_path: Path
) -> None:
    weights = source()
    weights["a/kernel"] = weights.pop("fc/kernel")
    weights["b/kernel"] = weights["a/kernel"] + np.float32(shift)
    (found,) = (one for one in judged(lite("int8"), weights, tmp_path).weights if one.key.endswith("MatMul"))
    told = "the values of 'a/kernel' and 'b/kernel' all fit within one step of the quantization"
    assert (found.verdict, found.rule == told) == (verdict, verdict == "unpaired")


@pytest.mark.parametrize(
    ("key", "factor", "rule"),
    [
        ("p_re_lu/alpha", -1, "negated"),
        ("attention/query/kernel", 1 / 4, "divided by the square root of 16"),
    ],
)
def test_a_weight_that_an_export_scales_is_proved(key: str, factor: float, rule: str, tmp_path: Path) -> None:
    weight = np.random.default_rng(3).normal(size=(6, 3, 16)).astype("<f4")
    np.savez(tmp_path / "export.npz", **{key: weight * np.float32(factor)})
    (found,) = judged(str(tmp_path / "export.npz"), {key: weight}, tmp_path).weights
    assert (found.verdict, found.rule) == ("equal", rule)


def test_a_layer_that_the_source_lacks_is_unpaired(tmp_path: Path) -> None:
    weights = {key: value for key, value in source().items() if not key.startswith("fc/")}
    found = judged(lite("float"), weights, tmp_path)
    assert {one.key: one.verdict for one in found.weights if one.verdict not in ("equal", "within")} == {
        "model/fc/MatMul": "unpaired",
        "model/fc/BiasAdd/ReadVariableOp": "unpaired",
    }
    more = source() | {"head/kernel": np.ones((2, 3), np.float32)}
    assert judged(lite("float"), more, tmp_path).unused == ("head/kernel",)


# Where names tell nothing ------------------------------------------------------------------


def chain(tensors: Mapping[str, Array], order: list[str], operation: str = "MatMul") -> bytes:
    """Return an ONNX model of operations in a row, each with one weight, whose outputs tell nothing."""
    graph = b""
    for number, key in enumerate(order):
        inputs = field(1, f"x{number}".encode()) + field(1, key.encode())
        graph += field(1, inputs + field(2, f"x{number + 1}".encode()) + field(4, operation.encode()))
    return onnx_model(graph + b"".join(field(5, onnx_tensor(key, array)) for key, array in tensors.items()))


def two_layers() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {name: rng.normal(size=(4, 4)).astype("<f4") for name in ("dense/kernel", "dense_1/kernel")}


def test_layers_of_one_shape_are_identified_by_their_order(tmp_path: Path) -> None:
    weights = two_layers()
    first, second = weights.values()
    path = tmp_path / "model.onnx"
    path.write_bytes(chain({"a": first, "b": second}, ["a", "b"]))
    assert verdicts(str(path), weights, tmp_path) == dict.fromkeys(weights, "equal")
    path.write_bytes(chain({"a": first, "b": second}, ["b", "a"]))
    assert verdicts(str(path), weights, tmp_path) == {"a": "unpaired", "b": "unpaired"}
    path.write_bytes(chain({"a": second, "b": second.copy()}, ["a", "b"]))
    assert "equal" not in verdicts(str(path), weights, tmp_path).values()


def test_names_outweigh_values(tmp_path: Path) -> None:
    """Two layers are swapped: each value is in the source, under another name."""
    weights = two_layers()
    first, second = weights.values()
    path = tmp_path / "model.onnx"
    path.write_bytes(chain({"dense/kernel": second, "dense_1/kernel": first}, [*weights]))
    assert verdicts(str(path), weights, tmp_path) == dict.fromkeys(weights, "other")


def test_names_of_several_layers_do_not_tell_which_is_which(tmp_path: Path) -> None:
    """A name that fused two layers of one shape: their order says which is which."""
    weights = two_layers()
    first, second = weights.values()
    path, keys = tmp_path / "model.onnx", ["dense/a;dense_1/a", "dense_1/b;dense/b"]
    path.write_bytes(chain(dict(zip(keys, (first, second), strict=True)), keys))
    assert verdicts(str(path), weights, tmp_path) == dict.fromkeys(weights, "equal")
    path.write_bytes(chain(dict(zip(keys, (second, first), strict=True)), keys))
    assert verdicts(str(path), weights, tmp_path) == dict.fromkeys(keys, "unpaired")


def fused(inside: Array, shared: Array) -> bytes:
    """Return what TFLite makes of a Dense layer behind another: an operation with the names of both."""
    graph = b""
    for number, (key, output) in enumerate(
        [("inside/MatMul", "inside/y"), ("constant", "inside/y;shared/y")]
    ):
        inputs = field(1, f"x{number}".encode()) + field(1, key.encode())
        graph += field(1, inputs + field(2, output.encode()) + field(4, b"MatMul"))
    tensors = {"constant": shared, "inside/MatMul": inside}
    return onnx_model(graph + b"".join(field(5, onnx_tensor(key, array)) for key, array in tensors.items()))


def test_a_weight_is_not_that_of_a_layer_whose_name_another_weight_has(tmp_path: Path) -> None:
    """An anonymous weight of an operation that two layers share, after their kernels were swapped."""
    inside, shared = two_layers().values()
    path = tmp_path / "model.onnx"
    path.write_bytes(fused(inside, shared))
    weights = {"inside/kernel": inside, "shared/kernel": shared}
    assert verdicts(str(path), weights, tmp_path) == dict.fromkeys(weights, "equal")
    swapped = {"inside/kernel": shared, "shared/kernel": inside}
    expected = {"inside/kernel": "other", "constant": "unpaired"}
    assert verdicts(str(path), swapped, tmp_path) == expected
    path.write_bytes(fused(inside, inside))
    alike = judged(str(path), dict.fromkeys(weights, inside), tmp_path)
    assert [one.verdict for one in alike.weights] == ["equal", "equal"]


def test_weights_of_one_layer_that_were_swapped_are_others(tmp_path: Path) -> None:
    weights = source()
    swapped = weights | {"bn/gamma": weights["bn/beta"], "bn/beta": weights["bn/gamma"]}
    np.savez(tmp_path / "export.npz", **swapped)
    found = verdicts(str(tmp_path / "export.npz"), weights, tmp_path)
    assert {key for key, verdict in found.items() if verdict != "equal"} == {"bn/gamma", "bn/beta"}
    assert (found["bn/gamma"], found["bn/beta"]) == ("other", "other")


def test_an_operation_shows_a_factor_from_an_offset(tmp_path: Path) -> None:
    weights = {
        f"norm/{role}": np.arange(4, dtype=np.float32) + at for at, role in enumerate(("gamma", "beta"))
    }
    gamma, beta = weights.values()
    path = tmp_path / "model.onnx"
    for values, verdict in ((gamma, "equal"), (beta, "other")):
        path.write_bytes(chain({"norm/Reshape": values}, ["norm/Reshape"], "Mul"))
        assert verdicts(str(path), weights, tmp_path) == {"norm/gamma": verdict}


def test_a_layer_normalization_is_folded_into_the_dense_layer_behind(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    shapes = {"a_norm/gamma": (6,), "a_norm/beta": (6,), "dense/kernel": (6, 3), "dense/bias": (3,)}
    weights = {key: rng.normal(size=shape).astype("<f4") for key, shape in shapes.items()}
    gamma, beta, kernel, bias = weights.values()
    np.savez(
        tmp_path / "export.npz",
        **{"dense/kernel": kernel * gamma[:, None], "dense/bias": beta @ kernel + bias},
    )
    found = judged(str(tmp_path / "export.npz"), weights, tmp_path)
    assert [one.verdict for one in found.weights] == ["within", "within"]
    assert [one.rule for one in found.weights] == [
        "plus the offset of a_norm times the kernel",
        "times the factor of a_norm",
    ]
    found = judged(str(tmp_path / "export.npz"), weights | {"a_norm/beta": beta[::-1]}, tmp_path)
    assert [one.verdict for one in found.weights] == ["other", "within"]


def test_a_square_kernel_is_not_transposed_unless_the_operation_says_so(tmp_path: Path) -> None:
    weights = {"dense/kernel": two_layers()["dense/kernel"]}
    turned = np.ascontiguousarray(weights["dense/kernel"].T)
    path = tmp_path / "model.onnx"
    path.write_bytes(chain({"dense/kernel": turned}, ["dense/kernel"]))
    assert verdicts(str(path), weights, tmp_path) == {"dense/kernel": "other"}
    path.write_bytes(chain({"onnx::MatMul_7": turned}, ["onnx::MatMul_7"]))
    found = verdicts(str(path), {"dense.weight": weights["dense/kernel"]}, tmp_path)
    assert found == {"dense.weight": "equal"}


def test_values_that_float16_cannot_hold_are_not_within(tmp_path: Path) -> None:
    one = tmp_path / "half.npz"
    with np.errstate(over="ignore"):
        np.savez(one, **{"dense/kernel": np.array([[1e5, 1.0]]).astype(np.float16)})
    weights = {"dense/kernel": np.array([[1e5, 1.0]], np.float32)}
    assert verdicts(str(one), weights, tmp_path) == {"dense/kernel": "other"}
    weights["dense/kernel"][0, 0] = np.nan
    np.savez(one, **{"dense/kernel": weights["dense/kernel"].astype(np.float16)})
    assert verdicts(str(one), weights, tmp_path) == {"dense/kernel": "equal"}


def test_weights_that_are_the_same_in_all_layers_are_equal(tmp_path: Path) -> None:
    """Two layers of zeros: no order can distinguish them, and it does not matter."""
    path = tmp_path / "model.onnx"
    weights = {key: np.zeros((4, 4), np.float32) for key in ("dense/kernel", "dense_1/kernel")}
    path.write_bytes(chain({"a": weights["dense/kernel"], "b": weights["dense/kernel"]}, ["b", "a"]))
    assert set(verdicts(str(path), weights, tmp_path).values()) == {"equal"}
    weights["dense/kernel"] = np.eye(4, dtype=np.float32)
    assert "equal" not in verdicts(str(path), weights, tmp_path).values()


def test_a_weight_of_zeros_is_not_a_constant_of_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(chain({"a": np.zeros((4, 4), np.float32)}, ["a"]))
    assert verdicts(str(path), {"dense/kernel": two_layers()["dense/kernel"]}, tmp_path) != {}
    assert "equal" not in verdicts(str(path), two_layers(), tmp_path).values()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-42])
def test_values_that_are_not_usual_numbers(value: float, tmp_path: Path) -> None:
    weights = {"dense/kernel": np.full((2, 3), value, np.float32)}
    np.savez(tmp_path / "export.npz", **weights)
    assert verdicts(str(tmp_path / "export.npz"), weights, tmp_path) == {"dense/kernel": "equal"}
    weights["dense/kernel"] = weights["dense/kernel"].copy()
    weights["dense/kernel"][1, 2] = 0
    assert verdicts(str(tmp_path / "export.npz"), weights, tmp_path) == {"dense/kernel": "other"}


def test_tensors_without_elements(tmp_path: Path) -> None:
    weights = {"dense/kernel": np.zeros((0, 3), np.float32), "dense/bias": np.ones(3, np.float32)}
    np.savez(tmp_path / "export.npz", **weights)
    assert set(verdicts(str(tmp_path / "export.npz"), weights, tmp_path).values()) == {"equal"}


@pytest.mark.parametrize("scale", [np.inf, np.nan, 1e9])
def test_a_scale_that_allows_everything_proves_nothing(scale: float) -> None:
    spec = TensorSpec("kernel", BY_NAME["float32"], (2, 3), 6, StoredType("int8", (scale,), (0,)))
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = closeness(spec, np.zeros((2, 3), np.float32), Expected(values))
    assert not found.is_proved or found.is_coarse
