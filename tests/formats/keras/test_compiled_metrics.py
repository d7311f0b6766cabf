"""The variables of a compiled model's metrics in Keras 2's files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.keras.compiled_metrics import fitted_metrics
from formats.keras.facts import KerasFacts

ONE = {"output_layers": [["last", 0, 0]]}
TWO = {"output_layers": [["a", 0, 0], ["b", 0, 0]]}
NAMED = {"output_layers": {"a": ["a", 0, 0], "b": ["b", 0, 0]}}
OF_KERAS_3 = {"output_layers": ["last", 0, 0]}


@pytest.mark.parametrize(
    ("config", "compiled", "groups"),
    [
        (ONE, {}, ["mean"]),
        (OF_KERAS_3, {"loss": "mse"}, ["mean"]),
        (TWO, {"loss": "mse"}, ["mean", "mean_1", "mean_2"]),
        (TWO, {"loss": ["mse", None]}, ["mean", "mean_1"]),
        (NAMED, {"loss": {"a": "mse", "b": None}}, ["mean", "mean_1"]),
        (TWO, {"loss": {"class_name": "MeanSquaredError", "config": {}}}, ["mean", "mean_1", "mean_2"]),
        (ONE, {"metrics": ["mae", "acc"]}, ["mean", "mean_metric_wrapper", "mean_metric_wrapper_1"]),
        (ONE, {"metrics": [["mae"]], "weighted_metrics": ["Sum"]}, ["mean", "mean_metric_wrapper", "sum"]),
        (
            NAMED,
            {"metrics": {"a": "mse", "b": [{"class_name": "Custom>KLDivergence", "config": {}}]}},
            ["mean", "mean_1", "mean_2", "mean_metric_wrapper", "kl_divergence"],
        ),
    ],
)
def test_groups(config: dict[str, Any], compiled: dict[str, Any], groups: list[str]) -> None:
    facts = KerasFacts(config=json.dumps({"config": config}), training_config=json.dumps(compiled))
    placed, unknown = fitted_metrics(facts)
    assert list(dict.fromkeys(path.split("/")[1] for _, path in placed)) == groups
    assert not unknown
    assert all(variable.value == 0 and not variable.trainable for variable, _ in placed)


def test_without_a_configuration_there_is_the_loss() -> None:
    placed, unknown = fitted_metrics(KerasFacts())
    assert ([path for _, path in placed], unknown) == (["metrics/mean/vars/0", "metrics/mean/vars/1"], [])


def test_metrics_without_a_row_are_named() -> None:
    facts = KerasFacts(training_config=json.dumps({"metrics": [{"class_name": "AUC", "config": {}}]}))
    placed, unknown = fitted_metrics(facts)
    assert (len(placed), unknown) == (2, ["AUC"])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "5",
        "[" * 100_000,
        f'{{"metrics": {"[" * 900}{"]" * 900}}}',
        '{"loss": 5, "metrics": 7}',
        '{"metrics": {"a": 1}}',
    ],
)
def test_what_cannot_be_read_stops_no_conversion(text: str) -> None:
    """The weights do not depend on it."""
    config = json.dumps({"config": {"output_layers": [[], []]}})
    placed, unknown = fitted_metrics(KerasFacts(config=config, training_config=text))
    assert (len(placed), unknown) == (6, [])
