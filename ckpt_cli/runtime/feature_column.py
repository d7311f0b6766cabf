"""tf.feature_column: how features become the columns of a model's input.

Columns are sorted by name, not in the given order; the rows of the first kernel follow them.  A dense column
gives numbers for each example; those of classes (`columns`) become one with a count or an embedding.
tensorflow/python/feature_column/feature_column_v2.py
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .columns import (
    CategoricalColumn,
    DenseColumn,
    NumericColumn,
    bucketized_column,
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
    counts_of,
    crossed_column,
    weighted_categorical_column,
)
from .functions import clip_by_norm, concat
from .keras.initializers import TruncatedNormal, Zeros
from .names import name_scope, unique_name
from .nn import bias_add
from .reader import load_checkpoint
from .shaping import reshape
from .tensor import OPERATIONS
from .unknown import absent, refuse
from .variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .tensor import Tensor

__all__ = [
    "bucketized_column", "categorical_column_with_hash_bucket", "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file", "categorical_column_with_vocabulary_list", "crossed_column",
    "embedding_column", "indicator_column", "input_layer", "linear_model", "numeric_column",
    "weighted_categorical_column",
]  # fmt: skip

_op = OPERATIONS


_Column = NumericColumn | DenseColumn | CategoricalColumn


def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Return a column of numbers; `normalizer_fn` is applied to the feature before all else."""
    # A default is for examples that are parsed from text, where one may be missing.
    refuse("numeric_column", default_value=default_value)
    extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    if any(extent <= 0 for extent in extents):
        raise ValueError(f"shape dimensions must be greater than 0. shape: {extents}")
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {kind}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return NumericColumn(key, extents, default_value, kind, normalizer_fn)


# Dense columns of categorical ones -------------------------------------------------------


def _of_classes(column: Any) -> None:
    if not isinstance(column, CategoricalColumn):
        raise ValueError(f"Unsupported input type. Input must be a CategoricalColumn. Given: {column}")  # noqa: TRY004


def indicator_column(categorical_column: CategoricalColumn) -> DenseColumn:
    """Return a column with a number for each class: how often an example has it."""
    _of_classes(categorical_column)
    name = f"{categorical_column.name}_indicator"
    return DenseColumn(name, categorical_column.num_buckets, counts_of(categorical_column))


def _looked_up(
    variable: Any, pair: tuple[Tensor, Tensor | None], combiner: str, max_norm: float | None = None
) -> Tensor:
    """Return the rows of a variable at ids, combined for each example; zeros for one without ids.

    The gradient names those rows, and row 0 if there is an example without ids, as TensorFlow's does.
    """

    def places(ids: Any, weights: Any = None) -> Any:
        kept, factors = ids >= 0, np.ones(ids.shape, np.float32) if weights is None else weights
        if combiner != "sum":
            kept &= factors > 0
        rows, factors = np.nonzero(kept)[0], factors[kept]
        if combiner != "sum":
            total = np.zeros(len(ids), np.float32)
            np.add.at(total, rows, factors if combiner == "mean" else np.square(factors))
            factors = factors / (total if combiner == "mean" else np.sqrt(total))[rows]
        nothing = [0] * bool(len(np.setdiff1d(np.arange(len(ids)), rows)))
        return (
            np.append(rows, np.array(nothing, np.int64) - 1),
            np.append(ids[kept], np.array(nothing, np.int64)),
            np.append(factors, np.array(nothing, np.float32))[:, None].astype(np.float32),
        )

    rows, ids, factors = _op["categories"](*[one for one in pair if one is not None], function=places)
    found = _op["gather"](variable, ids, axis=0)
    if max_norm is not None:
        found = clip_by_norm(found, max_norm, [1])
    return _op["pooled"](found * factors, rows, pair[0])


_COMBINERS = ("mean", "sqrtn", "sum")


def _checked_combiner(combiner: str) -> str:
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    return combiner


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> DenseColumn:
    """Return a column of the rows of a variable, `embedding_weights`, at an example's classes."""
    _of_classes(categorical_column)
    name = f"{categorical_column.name}_embedding"
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (ckpt_to_load_from is None) != (tensor_name_in_ckpt is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError(
            f"initializer must be callable if specified. Embedding of column_name: {categorical_column.name}"
        )
    # The other lookup has no rule for examples without ids, and is the same for all others.
    refuse("embedding_column", use_safe_embedding_lookup=None if use_safe_embedding_lookup else "False")
    make = initializer or TruncatedNormal(stddev=1 / math.sqrt(dimension))
    shape = (categorical_column.num_buckets, int(dimension))
    way, may_train = _checked_combiner(combiner), trainable

    def dense(features: Mapping[str, Any], trainable: bool = True) -> Tensor:
        first = make(shape, dtype=dtypes.float32)
        if ckpt_to_load_from is not None:
            reader = load_checkpoint(ckpt_to_load_from)
            if not reader.has_tensor(str(tensor_name_in_ckpt)):
                raise ValueError(
                    f"Tensor {tensor_name_in_ckpt} is not found in {ckpt_to_load_from} checkpoint"
                )
            first = reader.get_tensor(str(tensor_name_in_ckpt))
            if first.shape != shape:
                raise ValueError(
                    f"Shape of variable {name} ({shape}) doesn't match with shape of tensor "
                    f"{tensor_name_in_ckpt} ({first.shape}) from checkpoint reader."
                )
        weights = Variable(first, trainable=may_train and trainable, name="embedding_weights")
        return _looked_up(weights, categorical_column.pair(features), way, max_norm)

    return DenseColumn(name, int(dimension), dense)


# Models ----------------------------------------------------------------------------------


def _in_order(features: Any, feature_columns: Any) -> list[Any]:
    """Return columns in the order of their names, checked."""
    single = isinstance(feature_columns, _Column)
    columns: list[Any] = [feature_columns] if single else list(feature_columns)
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    for column in columns:
        if not isinstance(column, _Column):
            raise ValueError(  # noqa: TRY004  TensorFlow's
                f"Items of feature_columns must be a FeatureColumn. Given (type {type(column)}): {column}."
            )
    if len({column.name for column in columns}) != len(columns):
        raise ValueError(f"Duplicate feature column name found: {[column.name for column in columns]}")
    if not isinstance(features, dict):
        raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}")  # noqa: TRY004
    return sorted(columns, key=lambda column: str(column.name))


def _scope_of(column: Any) -> name_scope:
    return name_scope(re.sub(r"[^A-Za-z0-9_.\-]", "_", column.name))


def input_layer(
    features: Mapping[str, Any], feature_columns: Iterable[Any], weight_collections: Any = None,
    trainable: bool = True, cols_to_vars: Any = None, cols_to_output_tensors: Any = None,
) -> Tensor:  # fmt: skip
    """Return dense columns side by side, in the order of their names."""
    refuse("input_layer", cols_to_vars=cols_to_vars, cols_to_output_tensors=cols_to_output_tensors)
    refuse("input_layer", weight_collections=weight_collections)
    found = []
    with name_scope(unique_name("input_layer")):
        for column in _in_order(features, feature_columns):
            if column.dense is None:
                raise ValueError(
                    f"Items of feature_columns must be a DenseColumn: wrap {column.name!r} with an "
                    "embedding_column or indicator_column."
                )
            with _scope_of(column):
                found.append(reshape(column.dense(features, trainable), [-1, column.width]))
    return concat(found, 1)


def linear_model(
    features: Mapping[str, Any], feature_columns: Iterable[Any], units: int = 1,
    sparse_combiner: str = "sum", weight_collections: Any = None, trainable: bool = True,
    cols_to_vars: Any = None,
) -> Tensor:  # fmt: skip
    """Return the weighted sum of columns, [batch, units]; classes have a row of weights each."""
    refuse("linear_model", cols_to_vars=cols_to_vars, weight_collections=weight_collections)
    total: Any = None
    with name_scope(unique_name("linear_model")):
        for column in _in_order(features, feature_columns):
            is_sparse = isinstance(column, CategoricalColumn)
            rows = column.num_buckets if is_sparse else column.width
            with _scope_of(column):
                dense = None if is_sparse else column.dense(features, trainable)
                weights = Variable(Zeros()((rows, units)), trainable=trainable, name="weights")
                if dense is None:
                    part = _looked_up(weights, column.pair(features), _checked_combiner(sparse_combiner))
                else:
                    part = dense @ weights
            total = part if total is None else total + part
        return bias_add(total, Variable(Zeros()((units,)), trainable=trainable, name="bias_weights"))


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
