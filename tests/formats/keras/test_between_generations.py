"""The factors between generations, each by what the libraries' update rules say of momentum."""

from __future__ import annotations

import pytest

from formats.keras.between_generations import factor_between, flaw_between
from formats.keras.optimizers import BY_NAME, KERAS3, LEGACY, OPTAX, PYTORCH, TF1

RATE = 0.25


@pytest.mark.parametrize(
    ("name", "generation", "following", "factor"),
    [
        ("SGD", TF1, KERAS3, -0.25),
        ("SGD", KERAS3, TF1, -4),
        ("SGD", OPTAX, KERAS3, -0.25),
        ("SGD", KERAS3, OPTAX, -4),
        ("SGD", PYTORCH, OPTAX, None),
        ("SGD", TF1, PYTORCH, None),
        ("SGD", LEGACY, KERAS3, None),
        ("RMSprop", PYTORCH, KERAS3, 0.25),
        ("RMSprop", KERAS3, PYTORCH, 4),
        ("RMSprop", PYTORCH, OPTAX, -0.25),
        ("RMSprop", OPTAX, PYTORCH, -4),
        ("RMSprop", TF1, PYTORCH, 4),
        ("RMSprop", TF1, KERAS3, None),
    ],
)
def test_momentum_has_the_unit_of_its_generation(
    name: str, generation: str, following: str, factor: float | None
) -> None:
    slot = BY_NAME[name].slot("momentum")
    assert factor_between(slot, generation, following, lambda: RATE) == factor


@pytest.mark.parametrize(("generation", "following"), [(OPTAX, KERAS3), (KERAS3, OPTAX)])
def test_a_sign_needs_no_learning_rate(generation: str, following: str) -> None:
    def unknown() -> float:
        raise AssertionError("no rate is needed")

    assert factor_between(BY_NAME["RMSprop"].slot("momentum"), generation, following, unknown) == -1


@pytest.mark.parametrize(
    ("decay", "steps", "is_one"),
    [
        (None, 0, False),
        (1.0, 0, True),
        (1.0, 9, True),
        (0.004, 0, False),
        (0.004, 9, False),
        (0.5, 600, False),
        (0.5, 700, True),
        (0.004, 80000, False),
        (0.004, 90000, True),
    ],
)
def test_the_momentum_of_nadam_decays_alike_if_decay_is_1_or_nothing_is_left(
    decay: float | None, steps: int, is_one: bool
) -> None:
    nadam = BY_NAME["Nadam"]
    assert (flaw_between(nadam, LEGACY, KERAS3, decay, steps) is None) == is_one
    assert flaw_between(nadam, LEGACY, LEGACY, decay, steps) is None
    assert flaw_between(BY_NAME["Adam"], LEGACY, KERAS3, decay, steps) is None
