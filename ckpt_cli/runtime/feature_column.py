"""tf.feature_column: how features become the columns of a model's input.

Columns are sorted by name, not in the given order; the rows of the first kernel follow them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from . import dtypes
from .functions import concat
from .ops.elementwise import cast
from .shaping import expand_dims, reshape
from .tensor import as_tensor
from .unknown import absent, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .tensor import Tensor

__all__ = ["NumericColumn", "input_layer", "numeric_column"]


class NumericColumn(NamedTuple):
    """Numbers under a key of the features, `shape` of them for each example."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: Any
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def width(self) -> int:
        return math.prod(self.shape)


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


def column_value(features: Mapping[str, Any], column: NumericColumn) -> Tensor:
    """Return a column's values, [batch, width]."""
    if column.key not in features:
        raise ValueError(f"Feature {column.key} is not in features dictionary.")
    value = as_tensor(features[column.key])
    if value.ndim == 0:
        raise ValueError(f"Feature (key: {column.key}) cannot have rank 0. Given: {value}")
    if value.dtype == dtypes.string:
        raise ValueError(f"Feature {column.key} is text, and its column one of numbers")
    if value.ndim == 1:
        value = expand_dims(value, -1)
    if column.normalizer_fn is not None:
        value = as_tensor(column.normalizer_fn(value))
    found = math.prod(value.shape[1:])
    if found != column.width:
        raise ValueError(
            f"Feature {column.key} has {found} numbers for each example, and its column {column.width}"
        )
    return reshape(cast(value, dtypes.float32), [-1, column.width])


def input_layer(
    features: Mapping[str, Any], feature_columns: Iterable[NumericColumn], weight_collections: Any = None,
    trainable: bool = True, cols_to_vars: Any = None, cols_to_output_tensors: Any = None,
) -> Tensor:  # fmt: skip
    """Return the columns side by side, in the order of their names; numeric columns have no variables."""
    refuse("input_layer", cols_to_vars=cols_to_vars, cols_to_output_tensors=cols_to_output_tensors)
    columns = sorted(feature_columns, key=lambda column: column.name)
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    if len({column.name for column in columns}) != len(columns):
        raise ValueError(f"Duplicate feature column name found: {[column.name for column in columns]}")
    if not isinstance(features, dict):
        raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: {type(features)}")  # noqa: TRY004
    return concat([column_value(features, column) for column in columns], 1)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
