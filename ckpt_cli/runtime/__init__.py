"""TensorFlow's checkpoints, alive, in numpy.

    import ckpt_cli.runtime as tf

Programs like those of TensorFlow's checkpoint guide run with that line changed: names, arguments and results
are TensorFlow 2.15's, as far as they exist here. The purpose is to show that a checkpoint is complete: that
training continues from it exactly where it stopped.

    trackable containers variable module    objects that can be saved
    graph_view saving restore status        the object graph, written and matched
    checkpoint manager reader               tf.train
    tensor ops tape program                 computing, gradients, recording
    datasets iterators                      tf.data
    keras                                   layers, models, optimizers
    graphs estimator feature_column         tf.estimator, imported when it is asked for
    deferred sessions                       the graphs and the sessions of TensorFlow 1
"""

from __future__ import annotations

import importlib
import warnings

from . import compat, data, debugging, dispatch, errors, keras, linalg, math, nest, nn, ops, random, train
from .deferred import Graph
from .dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from .functions import *  # noqa: F403
from .functions import __all__ as _functions
from .further import *  # noqa: F403
from .further import IN_TF as _FURTHER
from .graphs import current
from .indexed_slices import IndexedSlices
from .memory import keep_freed
from .module import Module
from .names import name_scope
from .specs import TensorSpec
from .tape import GradientTape, UnconnectedGradients
from .tensor import Tensor, TensorShape
from .tensor_array import TensorArray
from .unknown import absent
from .variable import Variable

dispatch.dispatch(globals(), [*_functions, *_FURTHER])
newaxis = None
half, double = float16, float64
bool = bool_

keep_freed()
# Numbers that are not finite are results like any other, as in TensorFlow.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"ckpt_cli\.runtime\b")

__version__ = "2.15.0"
"""The version whose behaviour is followed."""

__all__ = [  # noqa: PLE0604
    "DType", "GradientTape", "Graph", "IndexedSlices", "Module", "Tensor", "TensorArray", "TensorShape",
    "TensorSpec", "UnconnectedGradients", "Variable", "as_dtype", "bfloat16", "bool", "compat", "complex64",
    "complex128", "data", "debugging", "double", "errors", "executing_eagerly", "float16", "float32",
    "float64", "half",
    "int8", "int16", "int32", "int64", "keras", "linalg", "math", "name_scope", "nest", "newaxis", "nn",
    "ops", "random", "string", "train", "uint8", "uint16", "uint32", "uint64", "variant", *_functions,
    *_FURTHER,
]  # fmt: skip


_LAZY = frozenset(("config", "distribute", "estimator", "feature_column", "image", "io", "strings"))


def __getattr__(name: str) -> object:
    """Import at its first use what few programs need."""
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise absent(__name__, name)


def executing_eagerly() -> object:
    """Return whether no graph of a Session is open."""
    return not isinstance(current(), Graph)
