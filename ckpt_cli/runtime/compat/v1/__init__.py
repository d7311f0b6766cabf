"""tf.compat.v1: the names that programs of the first version still use.

Sessions and their graphs are in `sessions`. In a call of an Estimator's `model_fn` values are eager, and
everything that it makes is noted in a graph (`graphs`), for collections and for optimizers that differentiate
without a tape.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from ... import graphs, keras
from ...deferred import (
    Graph,
    default_graph,
    disable_eager_execution,
    placeholder,
    placeholder_with_default,
    reset_default_graph,
)
from ...functions import *  # noqa: F403
from ...functions import __all__ as _functions
from ...further import control_dependencies
from ...names import current_scope, name_scope, scoped, unique_name
from ...nest import flatten
from ...sessions import InteractiveSession, Session
from ...signatures import with_signature
from ...tensor import Tensor, as_tensor
from ...unknown import absent, refuse
from ...variable import Variable
from . import nn, train

__all__ = [  # noqa: PLE0604
    "Graph", "GraphKeys", "InteractiveSession", "Session", "Variable", "add_to_collection", "assign",
    "assign_add", "assign_sub", "control_dependencies", "disable_eager_execution", "disable_v2_behavior",
    "get_collection", "get_default_graph", "get_default_session", "get_variable", "global_variables",
    "global_variables_initializer", "gradients", "keras", "local_variables_initializer", "newaxis", "nn",
    "no_op", "placeholder", "placeholder_with_default", "reset_default_graph", "set_random_seed", "train",
    "trainable_variables", "variable_scope", "variables_initializer", *_functions,
]  # fmt: skip


if TYPE_CHECKING:
    from collections.abc import Callable

newaxis = None
_REDUCED = "input_tensor axis keepdims:None name reduction_indices=axis keep_dims=keepdims"
_SIGNATURES = dict.fromkeys(
    (
        "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
        "reduce_prod", "reduce_sum",
    ),
    _REDUCED,
) | {
    "argmax": "input axis name dimension=axis output_type",
    "argmin": "input axis name dimension=axis output_type",
    "assert_equal": "x y !data summarize message name",
    "cond": "pred true_fn false_fn !strict:False name fn1=true_fn fn2=false_fn",
    "constant": "value dtype shape name !verify_shape:False",
    "convert_to_tensor": "value dtype name preferred_dtype=dtype_hint dtype_hint",
    "expand_dims": "input axis:None name dim=axis",
    "norm": "tensor ord axis keepdims name keep_dims=keepdims",
    "ones_like": "tensor=input dtype name optimize=name:True",
    "boolean_mask": "tensor mask name axis",
    "gather": "params indices validate_indices name axis batch_dims",
    "gather_nd": "params indices name batch_dims",
    "pad": "tensor paddings mode name constant_values",
    "shape": "input name out_type",
    "size": "input name out_type",
    "transpose": "a perm name conjugate",
    "while_loop": "cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory name "
    "maximum_iterations !return_same_structure:False",
    "squeeze": "input axis name squeeze_dims=axis",
    "zeros_like": "tensor=input dtype name optimize=name:True",
}  # fmt: skip
globals().update(
    {name: with_signature(globals()[name], signature) for name, signature in _SIGNATURES.items()}
)

_LAZY = {
    "estimator": __name__,
    "feature_column": __name__,
    "layers": __name__,
    "losses": __name__,
    "metrics": __name__,
    "summary": __name__,
}
"""By name of a module: the package it is in."""


def __getattr__(name: str) -> object:
    """Import at its first use what few programs need."""
    if name in _LAZY:
        return importlib.import_module(f".{name}", _LAZY[name])
    raise absent(__name__, name)


class GraphKeys:
    """The names of collections."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    GLOBAL_STEP = "global_step"
    REGULARIZATION_LOSSES = "regularization_losses"
    LOSSES = "losses"
    SUMMARIES = "summaries"


def get_collection(key: str, scope: str | None = None) -> list[object]:
    """Return what the graph that is open has under a collection's name; of a scope, what has such a name."""
    graph = graphs.current() or graphs.DEFAULT
    variables: dict[str, Callable[[], list[object]]] = {
        GraphKeys.GLOBAL_VARIABLES: graph.global_variables,
        GraphKeys.LOCAL_VARIABLES: lambda: [one for one in graph.variables if graph.is_local(one)],
        GraphKeys.TRAINABLE_VARIABLES: lambda: [one for one in graph.global_variables() if one.trainable],
    }
    found = variables[key]() if key in variables else list(graph.collections.get(key, ()))
    if scope is None:
        return found
    if any(isinstance(one, Tensor) for one in found):
        raise NotImplementedError(f"get_collection: argument {scope=} for tensors is not supported")
    return [one for one in found if hasattr(one, "name") and re.match(scope, one.name)]


def add_to_collection(name: str, value: object) -> None:
    (graphs.current() or graphs.DEFAULT).collections.setdefault(name, []).append(value)


def trainable_variables(scope: str | None = None) -> list[object]:
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def global_variables(scope: str | None = None) -> list[object]:
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def variable_scope(
    name_or_scope: str | None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> name_scope:
    """Return a context in which variables are named within a scope; variables are not used again.

    Without a name the scope has the default one, with a number from its second use on.
    """
    refuse(
        "variable_scope",
        initializer=initializer,
        regularizer=regularizer,
        partitioner=partitioner,
        custom_getter=custom_getter,
        reuse=reuse,
        dtype=dtype,
        constraint=constraint,
        auxiliary_name_scope=None if auxiliary_name_scope else "False",
    )
    if name_or_scope is None:
        if default_name is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        scope = current_scope() + default_name
        name_or_scope = unique_name(scope)[len(current_scope()) :]
    return name_scope(name_or_scope)


def get_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
    trainable: bool | None = None, collections: Any = None, caching_device: Any = None,
    partitioner: Any = None, validate_shape: bool = True, use_resource: Any = None, custom_getter: Any = None,
    constraint: Any = None, synchronization: Any = None, aggregation: Any = None,
) -> Variable:  # fmt: skip
    """Make a variable; ValueError where its name is taken."""
    refuse(
        "get_variable", regularizer=regularizer, collections=collections, partitioner=partitioner,
        validate_shape=None if validate_shape else "False", custom_getter=custom_getter,
    )  # fmt: skip
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
    return Variable(initializer, dtype=dtype, trainable=trainable, name=name, constraint=constraint)


def assign(
    ref: Variable, value: Any, validate_shape: bool = True, use_locking: Any = None, name: str | None = None
) -> Variable:
    refuse("assign", validate_shape=None if validate_shape else "False")
    return ref.assign(value)


def assign_add(ref: Variable, value: Any, use_locking: Any = None, name: str | None = None) -> Variable:
    return ref.assign_add(value)


def assign_sub(ref: Variable, value: Any, use_locking: Any = None, name: str | None = None) -> Variable:
    return ref.assign_sub(value)


def set_random_seed(seed: int) -> None:
    """Seed everything random from here on."""
    from ...ops.random import reset_seed

    reset_seed(seed)


def variables_initializer(var_list: Any, name: str = "init") -> Any:
    """Return the operation that gives variables of a graph their first values; eagerly they have them."""
    return graphs.Done(initial=tuple(var_list)) if isinstance(graphs.current(), Graph) else None


def global_variables_initializer() -> Any:
    return variables_initializer(global_variables())


def local_variables_initializer() -> Any:
    return variables_initializer(get_collection(GraphKeys.LOCAL_VARIABLES))


def no_op(name: str | None = None) -> Any:
    return graphs.Done()


def gradients(
    ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False, aggregation_method: Any = None, stop_gradients: Any = None,
    unconnected_gradients: str = "none",
) -> Any:  # fmt: skip
    """Return the derivatives of the sum of `ys` by each of `xs`, in a graph."""
    refuse("gradients", stop_gradients=stop_gradients)
    graph, seeds = graphs.current(), grad_ys
    if isinstance(grad_ys, list | tuple):
        seeds = [as_tensor(one) for one in grad_ys]
    if graph is None:
        raise RuntimeError("tf.gradients is not supported when eager execution is enabled. Use "
                           "tf.GradientTape instead.")  # fmt: skip
    return graph.tape.gradient(ys, flatten(xs), seeds, unconnected_gradients)


disable_v2_behavior = disable_eager_execution
get_default_graph, get_default_session = default_graph, graphs.default_session
