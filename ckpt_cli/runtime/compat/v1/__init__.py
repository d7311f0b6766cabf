"""tf.compat.v1: the names that programs of the first version still use.

There are no sessions here, and what a graph would hold is an eager value.  What a call of
an Estimator's `model_fn` makes is noted in a graph all the same (`graphs`), for collections
and for optimizers that differentiate without a tape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ... import graphs, keras, nn
from ...functions import *  # noqa: F403
from ...functions import __all__ as _functions
from ...names import name_scope, scoped
from ...unknown import refuse
from ...variable import Variable
from . import train

__all__ = [  # noqa: PLE0604
    "GraphKeys", "Variable", "add_to_collection", "assign", "assign_add", "assign_sub", "get_collection",
    "get_variable", "global_variables", "global_variables_initializer", "keras", "newaxis", "nn",
    "set_random_seed", "train", "trainable_variables", "variable_scope", *_functions,
]  # fmt: skip


if TYPE_CHECKING:
    from collections.abc import Callable

newaxis = None

_LAZY = {
    "estimator": __name__,
    "feature_column": __name__.removesuffix(".compat.v1"),
    "layers": __name__,
    "losses": __name__,
    "metrics": __name__,
    "summary": __name__,
}
"""By name of a module: the package it is in."""


def __getattr__(name: str) -> object:
    """Import what few programs need when it is first asked for."""
    if name in _LAZY:
        return importlib.import_module(f".{name}", _LAZY[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GraphKeys:
    """The names of collections."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    GLOBAL_STEP = "global_step"
    LOSSES = "losses"
    SUMMARIES = "summaries"


def get_collection(key: str, scope: str | None = None) -> list[object]:
    """Return what the graph that is open has under a collection's name."""
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


def variable_scope(name_or_scope: str, default_name: str | None = None, **options: Any) -> name_scope:
    """Return a context in which variables are named within a scope; variables are not used again."""
    refuse("variable_scope", **options)
    return name_scope(name_or_scope)


def get_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, trainable: bool | None = None,
    **options: Any,
) -> Variable:  # fmt: skip
    """Make a variable; ValueError where its name is taken."""
    refuse("get_variable", **options)
    graph = graphs.current()
    full_name = scoped(name)
    if graph is not None and any(one._full_name() == full_name for one in graph.variables):
        raise ValueError(f"Variable {full_name} already exists, disallowed.")
    if initializer is None or callable(initializer) or isinstance(initializer, str):
        if shape is None:
            raise ValueError(
                f"Shape of a new variable ({full_name}) must be fully defined, but instead was None."
            )
        kind = initializer if initializer is not None else keras.initializers.GlorotUniform()
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        initializer = keras.initializers.get(kind)(extents, dtype or "float32")
    return Variable(initializer, dtype=dtype, trainable=trainable, name=name)


def assign(ref: Variable, value: Any, **options: Any) -> Variable:
    return ref.assign(value)


def assign_add(ref: Variable, value: Any, **options: Any) -> Variable:
    return ref.assign_add(value)


def assign_sub(ref: Variable, value: Any, **options: Any) -> Variable:
    return ref.assign_sub(value)


def set_random_seed(seed: int) -> None:
    """Seed everything random from here on."""
    from ...ops.random import reset_seed

    reset_seed(seed)


def global_variables_initializer() -> None:
    """Do nothing: variables have their values when they are made."""
