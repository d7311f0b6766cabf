"""What Keras refuses of hyperparameters, for both generations of an optimizer."""

from __future__ import annotations

__all__ = ["check_ftrl"]


def check_ftrl(**settings: float) -> None:
    """Raise ValueError for Ftrl's numbers that have the wrong sign, in Keras' words."""
    if settings["initial_accumulator_value"] < 0.0:
        raise ValueError(
            "`initial_accumulator_value` needs to be positive or zero. Received: "
            f"initial_accumulator_value={settings['initial_accumulator_value']}."
        )
    if settings["learning_rate_power"] > 0.0:
        raise ValueError(
            "`learning_rate_power` needs to be negative or zero. Received: "
            f"learning_rate_power={settings['learning_rate_power']}."
        )
    for kind in ("l1", "l2", "l2_shrinkage"):
        name = f"{kind}_regularization_strength"
        if settings[name] < 0.0:
            raise ValueError(f"`{name}` needs to be positive or zero. Received: {name}={settings[name]}.")
