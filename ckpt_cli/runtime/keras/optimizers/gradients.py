"""The handling of gradients before both kinds of optimizers apply them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...functions import clip_by_global_norm, clip_by_norm, clip_by_value
from ...indexed_slices import IndexedSlices
from ...tape import GradientTape
from ...tensor import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.keras.optimizers import SlotKind

__all__ = ["NOT_OF_STEPS", "apply_by_rows", "clipped", "computed", "present", "slot_argument", "transformed"]

logger = logging.getLogger("ckpt_cli.runtime")


NOT_OF_STEPS = frozenset(("learning_rate", "initial_accumulator_value", "amsgrad", "centered"))
"""Hyperparameters that say what slots there are, and what is in them first."""


def slot_argument(slot: SlotKind) -> str:
    """Return what operations call a slot: by its meaning, but `momentum` is a hyperparameter."""
    return "velocity" if slot.meaning == "momentum" else slot.meaning


def present(grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the pairs that have a gradient; ValueError where none has, a warning where some have not."""
    pairs = list(grads_and_vars)
    missing = [variable.name for gradient, variable in pairs if gradient is None]
    if not missing:
        return pairs
    if len(missing) == len(pairs):
        raise ValueError(
            f"No gradients provided for any variable: ({missing},). Provided `grads_and_vars` is "
            f"{tuple(pairs)}."
        )
    logger.warning("Gradients do not exist for variables %s when minimizing the loss.", missing)
    return [(gradient, variable) for gradient, variable in pairs if gradient is not None]


def clipped(
    pairs: list[tuple[Any, Any]], clipnorm: Any = None, clipvalue: Any = None, global_clipnorm: Any = None
) -> list[tuple[Any, Any]]:
    """Return the pairs with their gradients clipped, by at most one of the ways."""
    if clipnorm:
        return [(clip_by_norm(gradient, clipnorm), variable) for gradient, variable in pairs]
    if global_clipnorm:
        gradients, _ = clip_by_global_norm([gradient for gradient, _ in pairs], global_clipnorm)
        return list(zip(gradients, (variable for _, variable in pairs), strict=True))
    if clipvalue:
        return [(clip_by_value(gradient, -clipvalue, clipvalue), variable) for gradient, variable in pairs]
    return pairs


def transformed(
    pairs: list[tuple[Any, Any]], clipvalue: Any, clipnorm: Any, global_clipnorm: Any, transformers: Any
) -> list[tuple[Any, Any]]:
    """Return the pairs clipped in every way that the optimizer sets, and then transformed."""
    for way in ({"clipvalue": clipvalue}, {"clipnorm": clipnorm}, {"global_clipnorm": global_clipnorm}):
        pairs = clipped(pairs, **way)
    for transform in transformers:
        pairs = transform(pairs)
    return pairs


def computed(
    loss: Any, var_list: Any, tape: GradientTape | None, grad_loss: Any = None
) -> list[tuple[Any, Any]]:
    """Return gradients and variables of a loss, given as a function or as a tensor with its tape."""
    if not callable(loss) and tape is None:
        raise ValueError(
            f"`tape` is required when a `Tensor` loss is passed. Received: loss={loss}, tape={tape}."
        )
    tape = tape if tape is not None else GradientTape()
    if callable(loss):
        with tape:
            if not callable(var_list):
                tape.watch(var_list)
            loss = loss()
    variables = var_list() if callable(var_list) else list(var_list)
    return list(zip(tape.gradient(loss, variables, grad_loss), variables, strict=True))


def apply_by_rows(operation: str, gradient: Any, **what: Any) -> Any:
    """Take an optimizer's step, leaving alone the rows that the gradient does not name, if it names some."""
    if isinstance(gradient, IndexedSlices):
        return OPERATIONS[f"{operation}_rows"](gradient.values, gradient.indices, **what)
    return OPERATIONS[operation](gradient, **what)
