"""Check the arguments of an Estimator."""

from __future__ import annotations

import logging
import os
import tempfile
from typing import TYPE_CHECKING, Any

from .hooks import SessionRunHook
from .inputs import argument_names
from .run_config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["batch_length", "check_arguments", "check_steps", "checked_hooks", "chosen", "with_directory"]

logger = logging.getLogger("ckpt_cli.runtime")

_MODEL_FN_ARGUMENTS = {"features", "labels", "mode", "params", "self", "config"}


def check_arguments(model_fn: Callable[..., Any], params: Any) -> None:
    """Raise ValueError where a model_fn takes too little or too much."""
    names = set(argument_names(model_fn))
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to "
            "Estimator."
        )
    other = sorted(names - _MODEL_FN_ARGUMENTS)
    if other:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {other}")


def with_directory(config: RunConfig | None, model_dir: Any) -> RunConfig:
    """Return a configuration with a model_dir, a temporary folder where none is given."""
    config = config if config is not None else RunConfig()
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")  # noqa: TRY004
    given = os.fspath(model_dir) if model_dir else None
    if given is not None and config.model_dir is not None and given != os.fspath(config.model_dir):
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. In "
            f"constructor: '{given}', in `RunConfig`: '{config.model_dir}' "
        )
    if given is None and config.model_dir is not None:
        return config
    if given is None:
        given = tempfile.mkdtemp()
        logger.warning("Using temporary folder as model directory: %s", given)
    return config.replace(model_dir=given)


def check_steps(steps: int | None, max_steps: int | None) -> None:
    """Raise ValueError for a number of steps that makes no sense."""
    if steps is not None and max_steps is not None:
        raise ValueError("Can not provide both steps and max_steps.")
    for name, value in (("steps", steps), ("max_steps", max_steps)):
        if value is not None and value <= 0:
            raise ValueError(f"Must specify {name} > 0, given: {value}")


def checked_hooks(hooks: Any) -> list[Any]:
    """Return hooks as a list."""
    hooks = list(hooks or ())
    for hook in hooks:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return hooks


def chosen(predictions: Any, keys: Any) -> Any:
    """Return the predictions under some keys."""
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")  # noqa: TRY004
    chosen = {key: value for key, value in predictions.items() if key in keys}
    if not chosen:
        raise ValueError(f"Expected to run at least one output from {list(predictions)}, provided {keys}.")
    return chosen


def batch_length(values: dict[str, Any]) -> int:
    """Return how many examples there are; ValueError where predictions disagree."""
    lengths = {key: len(value) for key, value in values.items()}
    length = next(iter(lengths.values()))
    for key, other in lengths.items():
        if other != length:
            raise ValueError(
                f"Batch length of predictions should be same. {key} has different batch length than others."
            )
    return length
