"""The configuration of a model: its layers at any depth, and the generation of its optimizer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from formats.keras.config import layer_of, layers_of, model_of
from formats.keras.facts import KerasFacts
from formats.keras.optimizer_settings import generation_of_config
from formats.keras.optimizers import KERAS2, KERAS3, LEGACY


def nested(levels: int) -> dict[str, Any]:
    """Return a model in a model, and so on, with one layer in the innermost."""
    found: dict[str, Any] = {"class_name": "Dense", "config": {"name": "innermost"}}
    for _ in range(levels):
        found = {"class_name": "Sequential", "config": {"layers": [found]}}
    return found


def test_models_may_be_nested_32_levels_deep() -> None:
    deepest, deeper = json.dumps(nested(33)), json.dumps(nested(34))
    (layer,), flaw = layers_of(deepest)
    assert flaw is None
    for _ in range(31):
        (layer,) = layer.layers
    assert [each.name for each in layer.layers] == ["innermost"]
    assert layers_of(deeper) == ((), "models are nested more than 32 levels deep")
    assert model_of(json.dumps(nested(32))).layers
    with pytest.raises(ValueError, match="more than 32 levels"):
        model_of(deepest)
    assert layer_of(nested(31)).layers
    with pytest.raises(ValueError, match="more than 32 levels"):
        layer_of(nested(32))


@pytest.mark.parametrize(
    ("version", "settings", "generation"),
    [
        ("2.15.0", {"is_legacy_optimizer": False, "decay": None}, KERAS2),
        ("2.15.0", {"is_legacy_optimizer": False}, KERAS2),
        ("2.9.0", {"decay": 0.0}, LEGACY),
        ("2.9.0", {"learning_rate": 0.1}, None),
        ("2.9.0", {}, None),
        ("3.0.0", {"learning_rate": 0.1}, KERAS3),
        ("3.0.0", {}, None),
    ],
)
def test_a_training_configuration_shows_its_generation(
    version: str, settings: dict[str, Any], generation: str | None
) -> None:
    training = json.dumps({"optimizer_config": {"class_name": "Adam", "config": settings}})
    assert generation_of_config(KerasFacts(version=version, training_config=training)) == generation
