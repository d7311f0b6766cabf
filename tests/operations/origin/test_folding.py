"""Normalizations that are folded into the layer in front: which of them it is, and with which epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from .test_verdicts import chain, judged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Array = np.ndarray[Any, Any]


def weights_of(*names: str) -> dict[str, Array]:
    """Return a source without a configuration: 1x1 convolutions, and normalizations."""
    rng = np.random.default_rng(6)
    found: dict[str, Array] = {}
    for name in names:
        if "bn" not in name:
            found[f"{name}/kernel"] = rng.normal(size=(1, 1, 3, 5)).astype("<f4")
            continue
        for role in ("gamma", "beta", "moving_mean"):
            found[f"{name}/{role}"] = rng.normal(size=5).astype("<f4")
        found[f"{name}/moving_variance"] = (rng.random(5) + 0.2).astype("<f4")
    return found


def folded(weights: Mapping[str, Array], layer: str, norm: str, epsilon: float = 1e-3) -> Array:
    factor = weights[f"{norm}/gamma"] / np.sqrt(weights[f"{norm}/moving_variance"].astype("f8") + epsilon)
    return np.asarray(
        np.ascontiguousarray((weights[f"{layer}/kernel"] * factor).transpose(3, 2, 0, 1)), "<f4"
    )


def exported(folder: Path, tensors: Mapping[str, Array], weights: Mapping[str, Array]) -> dict[str, Any]:
    path = folder / "model.onnx"
    path.write_bytes(chain(tensors, [*tensors], "Conv"))
    return {one.key: one for one in judged(str(path), weights, folder).weights}


def test_without_a_configuration_names_say_which_normalization_it_is(tmp_path: Path) -> None:
    weights = weights_of("conv1", "conv2", "bn1", "bn2")
    for norms, verdict in ((("bn1", "bn2"), "within"), (("bn2", "bn1"), "unpaired")):
        tensors = {
            f"{layer}/kernel": folded(weights, layer, norm)
            for layer, norm in zip(("conv1", "conv2"), norms, strict=True)
        }
        found = exported(tmp_path, tensors, weights)
        assert {one.verdict for one in found.values()} == {verdict}
    assert found["conv1/kernel"].rule == (
        "has the values of conv1, but nothing says that bn2 is folded into it; a configuration would"
    )


def test_the_order_decides_nothing_that_names_say(tmp_path: Path) -> None:
    """In order of their names, the normalizations of `b_z` and `a` are behind `a` and `b_z`."""
    weights = weights_of("b_z", "a", "b_z_bn", "a_bn")
    tensors = {
        f"{layer}/kernel": folded(weights, layer, norm) for layer, norm in (("b_z", "a_bn"), ("a", "b_z_bn"))
    }
    assert {one.verdict for one in exported(tmp_path, tensors, weights).values()} == {"unpaired"}


def test_if_names_do_not_say_it_the_order_of_all_does(tmp_path: Path) -> None:
    weights = weights_of("a", "b", "bn_x", "bn_y")
    for norms, verdict in ((("bn_x", "bn_y"), "within"), (("bn_y", "bn_x"), "unpaired")):
        tensors = {
            f"{layer}/kernel": folded(weights, layer, norm)
            for layer, norm in zip(("a", "b"), norms, strict=True)
        }
        assert {one.verdict for one in exported(tmp_path, tensors, weights).values()} == {verdict}
    alone = {"a/kernel": folded(weights, "a", "bn_x")}
    assert {one.verdict for one in exported(tmp_path, alone, weights).values()} == {"unpaired"}


def test_a_normalization_that_a_name_gives_to_another_layer_is_taken(tmp_path: Path) -> None:
    weights = weights_of("a", "b", "bn_a", "bn_y")
    tensors = {"a/kernel": folded(weights, "a", "bn_a"), "b/kernel": folded(weights, "b", "bn_y")}
    assert {one.verdict for one in exported(tmp_path, tensors, weights).values()} == {"within"}
    tensors["b/kernel"] = folded(weights, "b", "bn_a")
    assert exported(tmp_path, tensors, weights)["b/kernel"].verdict == "unpaired"


@pytest.mark.parametrize("epsilon", [2e-4, 1e-4, 3.21e-4])
def test_an_epsilon_that_no_configuration_says_proves_nothing_and_refutes_nothing(
    epsilon: float, tmp_path: Path
) -> None:
    weights = weights_of("conv", "bn")
    kernel = folded(weights, "conv", "bn", epsilon)
    found = exported(tmp_path, {"conv/kernel": kernel}, weights)["conv/kernel"]
    assert found.verdict == "unpaired"
    assert f"with epsilon {epsilon:g} gives its values, but no configuration says so" in found.rule
    kernel[0, 0] *= np.float32(1.01)
    assert exported(tmp_path, {"conv/kernel": kernel}, weights)["conv/kernel"].verdict == "other"


@pytest.mark.parametrize("epsilon", [1e-3, 1e-5])
def test_a_usual_epsilon_is_assumed(epsilon: float, tmp_path: Path) -> None:
    weights = weights_of("conv", "bn")
    found = exported(tmp_path, {"conv/kernel": folded(weights, "conv", "bn", epsilon)}, weights)
    assert found["conv/kernel"].verdict == "within"
    assert found["conv/kernel"].rule.endswith(f"folded with bn (epsilon {epsilon:g}, assumed)")
