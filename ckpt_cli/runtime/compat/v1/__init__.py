"""tf.compat.v1: the names that programs of the first version still use.

There are no sessions here, and what a graph would hold is an eager value.  What a call of
an Estimator's `model_fn` makes is noted in a graph all the same (`graphs`), for collections
and for optimizers that differentiate without a tape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ... import graphs, keras, nn
from ...functions import *  # noqa: F403
from ...functions import __all__ as _functions
from ...variable import Variable
from . import train

__all__ = [  # noqa: PLE0604
    "GraphKeys", "Variable", "add_to_collection", "get_collection", "global_variables",
    "global_variables_initializer", "keras", "nn", "set_random_seed", "train", "trainable_variables",
    *_functions,
]  # fmt: skip


if TYPE_CHECKING:
    from collections.abc import Callable

_LAZY = frozenset(("estimator", "metrics"))


def __getattr__(name: str) -> object:
    """Import what few programs need when it is first asked for."""
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GraphKeys:
    """The names of collections."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    GLOBAL_STEP = "global_step"
    LOSSES = "losses"


def get_collection(key: str, scope: str | None = None) -> list[object]:
    """Return what the graph that is open has under a collection's name."""
    del scope
    graph = graphs.current() or graphs.DEFAULT
    variables: dict[str, Callable[[], list[object]]] = {
        GraphKeys.GLOBAL_VARIABLES: graph.global_variables,
        GraphKeys.LOCAL_VARIABLES: lambda: [one for one in graph.variables if graph.is_local(one)],
        GraphKeys.TRAINABLE_VARIABLES: lambda: [one for one in graph.global_variables() if one.trainable],
    }
    return variables[key]() if key in variables else list(graph.collections.get(key, ()))


def add_to_collection(name: str, value: object) -> None:
    (graphs.current() or graphs.DEFAULT).collections.setdefault(name, []).append(value)


def trainable_variables() -> list[object]:
    return get_collection(GraphKeys.TRAINABLE_VARIABLES)


def global_variables() -> list[object]:
    return get_collection(GraphKeys.GLOBAL_VARIABLES)


def set_random_seed(seed: int) -> None:
    """Seed everything random from here on."""
    from ...ops.random import reset_seed

    reset_seed(seed)


def global_variables_initializer() -> None:
    """Do nothing: variables have their values when they are made."""
