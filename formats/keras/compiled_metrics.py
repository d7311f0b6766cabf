"""The variables of a compiled model's metrics, as Keras 2 keeps them in `.weights.h5` and `.keras`.

    metrics/mean/vars/0..1           the mean of the loss, then of each output's loss where there are several
    metrics/<class>_<N>/vars/N       the metrics that `compile` was given, by class and counted

A model that was fitted has these variables, and Keras 2 loads no file without them; one that was not
fitted ignores them.  Keras resets them at the start of every epoch, so they are zeros here.
keras/src/engine/compile_utils.py: LossesContainer, MetricsContainer, of Keras 2.15
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..wire.jsontext import parse_object
from .config import snake_case, training_in_h5
from .model import Variable

if TYPE_CHECKING:
    from .facts import KerasFacts
    from .variable_layout import Placed

_MEAN = "Mean"
_OF_A_FUNCTION = "MeanMetricWrapper"

_SCALARS = {"Sum": 1} | dict.fromkeys(
    (
        _MEAN,
        _OF_A_FUNCTION,
        "Accuracy",
        "BinaryAccuracy",
        "BinaryCrossentropy",
        "CategoricalAccuracy",
        "CategoricalCrossentropy",
        "CategoricalHinge",
        "CosineSimilarity",
        "Hinge",
        "KLDivergence",
        "LogCoshError",
        "MeanAbsoluteError",
        "MeanAbsolutePercentageError",
        "MeanSquaredError",
        "MeanSquaredLogarithmicError",
        "Poisson",
        "RootMeanSquaredError",
        "SparseCategoricalAccuracy",
        "SparseCategoricalCrossentropy",
        "SparseTopKCategoricalAccuracy",
        "SquaredHinge",
        "TopKCategoricalAccuracy",
    ),
    2,
)
"""By class: how many scalars it counts with."""


def fitted_metrics(facts: KerasFacts) -> tuple[list[Placed], list[str]]:
    """Return the variables of a model's metrics, and the classes whose variables are not known."""
    compiled = _object(facts.training_config or training_in_h5(facts.config, "2"))
    classes = [_MEAN] * _losses(_object(facts.config), compiled.get("loss"))
    classes += _classes(compiled.get("metrics")) + _classes(compiled.get("weighted_metrics"))
    placed: list[Placed] = []
    counts: Counter[str] = Counter()
    for name in classes:
        base = snake_case(name)
        group = f"metrics/{base}_{counts[base]}" if counts[base] else f"metrics/{base}"
        counts[base] += 1
        for number in range(_SCALARS.get(name, 0)):
            placed.append((Variable(str(number), trainable=False, value=0.0), f"{group}/vars/{number}"))
    return placed, sorted({name for name in classes if name not in _SCALARS})


def _object(text: str | None) -> dict[str, Any]:
    """Return a configuration; nothing if it cannot be read, which the weights do not depend on."""
    try:
        return parse_object(text) if text is not None else {}
    except ValueError:
        return {}


def _losses(model: dict[str, Any], loss: Any) -> int:
    """Return how many means of losses there are: of several outputs each that has a loss has one, too."""
    config = model.get("config")
    outputs = config.get("output_layers") if isinstance(config, dict) else None
    several = len(outputs) if isinstance(outputs, (list, dict)) else 1
    if several < 2 or (isinstance(outputs, list) and isinstance(outputs[0], str)):
        return 1
    if isinstance(loss, dict) and "class_name" not in loss:
        loss = list(loss.values())
    return 1 + (sum(one is not None for one in loss) if isinstance(loss, list) else several)


def _classes(metrics: Any, depth: int = 3) -> list[str]:
    """Return the class of each metric, in the order of the outputs that they are of: lists within a list."""
    if metrics is None or not depth:
        return []
    if isinstance(metrics, str):
        return [metrics if metrics in _SCALARS else _OF_A_FUNCTION]
    if isinstance(metrics, list):
        return [name for metric in metrics for name in _classes(metric, depth - 1)]
    if not isinstance(metrics, dict):
        return []
    if "class_name" in metrics and "config" in metrics:
        is_function = metrics["class_name"] == "function"
        return [_OF_A_FUNCTION if is_function else str(metrics["class_name"]).rpartition(">")[2]]
    return [name for metric in metrics.values() for name in _classes(metric, depth - 1)]
