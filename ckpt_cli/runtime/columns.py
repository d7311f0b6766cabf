"""Columns of classes, of tf.feature_column: the ids of each example, with weights if it has any.

    [batch, n]    ids; -1 is a word that is not known, and ABSENT where an example has fewer than n
tensorflow/python/feature_column/feature_column_v2.py
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import dtypes
from .data.files import lines
from .errors import InvalidArgumentError
from .fingerprint import fingerprint, joined
from .ops.elementwise import cast
from .shaping import expand_dims, reshape
from .tensor import OPERATIONS, as_tensor, define
from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .tensor import Tensor

__all__ = [
    "CategoricalColumn", "DenseColumn", "NumericColumn", "bucketized_column",
    "categorical_column_with_hash_bucket", "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file", "categorical_column_with_vocabulary_list", "column_value",
    "counts_of", "crossed_column", "numbers", "weighted_categorical_column",
]  # fmt: skip

_op = OPERATIONS
_ABSENT = np.iinfo(np.int64).min
_HASH_KEY = 0xDECAFCAFFE
define("categories", lambda *arrays, function: function(*arrays), each=None)


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

    def dense(self, features: Mapping[str, Any], trainable: bool = True) -> Tensor:
        return column_value(features, self)


class DenseColumn(NamedTuple):
    """A column of `width` numbers, which `dense` computes of features."""

    name: str
    width: int
    dense: Callable[..., Tensor]


class CategoricalColumn(NamedTuple):
    """A column of `num_buckets` classes: `pair` computes ids, and weights or None, of features.

    One of buckets is a dense column too.
    """

    name: str
    num_buckets: int
    pair: Callable[[Mapping[str, Any]], tuple[Tensor, Tensor | None]]
    kind: str
    width: int = 0
    dense: Any = None


def _feature(features: Mapping[str, Any], key: str) -> Tensor:
    if key not in features:
        raise ValueError(f"Feature {key} is not in features dictionary.")
    value = as_tensor(features[key])
    if value.ndim == 0:
        raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {value}")
    return expand_dims(value, -1) if value.ndim == 1 else value


def numbers(features: Mapping[str, Any], column: NumericColumn) -> Tensor:
    """Return the feature of a column as numbers, in the column's shape."""
    value = _feature(features, column.key)
    return cast(value if column.normalizer_fn is None else column.normalizer_fn(value), dtypes.float32)


def column_value(features: Mapping[str, Any], column: NumericColumn) -> Tensor:
    """Return a column's values, [batch, width]."""
    value = numbers(features, column)
    found = math.prod(value.shape[1:])
    if found != column.width:
        raise ValueError(
            f"Feature {column.key} has {found} numbers for each example, and its column {column.width}"
        )
    return reshape(value, [-1, column.width])


def counts_of(column: CategoricalColumn) -> Callable[..., Tensor]:
    """Return a function of features that counts each example's classes, or sums their weights."""

    def counts(ids: Any, weights: Any = None) -> Any:
        out, kept = (
            np.zeros((len(ids), column.num_buckets), np.float32),
            (ids >= 0) & (ids < column.num_buckets),
        )
        np.add.at(out, (np.nonzero(kept)[0], ids[kept]), 1 if weights is None else weights[kept])
        return out

    def dense(features: Mapping[str, Any], trainable: bool = True) -> Tensor:
        return _op["categories"](*[one for one in column.pair(features) if one is not None], function=counts)

    return dense


# Categorical columns ---------------------------------------------------------------------


def _categorical(
    key: str, buckets: int, dtype: Any, look_up: Callable[[Any], int], kind: str
) -> CategoricalColumn:
    """Return a column of one feature; `look_up` returns the class of an element."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")  # noqa: TRY004
    wanted = dtypes.as_dtype(dtype)
    if wanted != dtypes.string and not wanted.is_integer:
        raise ValueError(f"column_name: {key} dtype must be string or integer. dtype: {wanted}.")

    def ids(array: Any) -> Any:
        nothing = b"" if array.dtype.hasobject else -1
        found = [_ABSENT if one == nothing else look_up(one) for one in array.reshape(-1).tolist()]
        return np.array(found, np.int64).reshape(array.shape)

    def pair(features: Mapping[str, Any]) -> tuple[Tensor, None]:
        value = _feature(features, key)
        if value.dtype.is_integer != wanted.is_integer or value.dtype.is_floating:
            raise ValueError(
                f"Column dtype and SparseTensors dtype must be compatible. key: {key}, column dtype: "
                f"{wanted}, tensor dtype: {value.dtype}"
            )
        if value.ndim > 2:
            raise NotImplementedError(f"feature {key} of rank {value.ndim} is not supported in {kind}")
        return _op["categories"](value, function=ids), None

    return CategoricalColumn(key, int(buckets), pair, kind)


def _bucket(element: Any, count: int) -> int:
    return fingerprint(element if isinstance(element, bytes) else str(element).encode()) % count


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> CategoricalColumn:
    if hash_bucket_size is None or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, "
                         f"key: {key}")  # fmt: skip
    return _categorical(
        key, hash_bucket_size, dtype, lambda one: _bucket(one, hash_bucket_size), "hash_bucket"
    )


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> CategoricalColumn:
    """Return a column of integers that are classes; one that is too large is an error, or `default_value`."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")

    def look_up(one: int) -> int:
        return one if default_value is None or 0 <= one < num_buckets else default_value

    return _categorical(key, num_buckets, dtypes.int64, look_up, "identity")


def _vocabulary(key: str, words: list[Any], dtype: Any, default: Any, buckets: int) -> CategoricalColumn:
    if buckets and default not in (None, -1):
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if buckets and buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {buckets} in {key}.")
    table = {word: index for index, word in enumerate(words)}
    other = -1 if default is None else default

    def look_up(one: Any) -> int:
        found = table.get(one, other)
        return len(words) + _bucket(one, buckets) if buckets and found == other else found

    return _categorical(key, len(words) + (buckets or 0), dtype, look_up, "vocabulary")


def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Sequence[Any], dtype: Any = None, default_value: int = -1,
    num_oov_buckets: int = 0,
) -> CategoricalColumn:  # fmt: skip
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    words = np.array(vocabulary_list)
    own = dtypes.string if words.dtype.kind in "SUO" else dtypes.as_dtype(words.dtype)
    if dtype is not None and dtypes.as_dtype(dtype).is_integer != own.is_integer:
        raise ValueError(f"dtype {dtype} and vocabulary dtype {own} do not match, column_name: {key}")
    known = as_tensor(list(vocabulary_list))._value.tolist()
    return _vocabulary(key, known, own if dtype is None else dtype, default_value, num_oov_buckets)


def categorical_column_with_vocabulary_file(
    key: str, vocabulary_file: str, vocabulary_size: int | None = None, dtype: Any = dtypes.string,
    default_value: int | None = None, num_oov_buckets: int = 0, file_format: str | None = None,
) -> CategoricalColumn:  # fmt: skip
    """Return a column of the words in the lines of a file, the first `vocabulary_size` of them."""
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if file_format is None and vocabulary_file.endswith("tfrecord.gz"):
        file_format = "tfrecord_gzip"
    refuse("categorical_column_with_vocabulary_file", file_format=file_format)
    if vocabulary_size is not None and vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    try:
        words: list[Any] = [line.replace(b"\r", b"") for line in lines(vocabulary_file)]
    except FileNotFoundError as error:
        raise ValueError(f"vocabulary_file in {key} does not exist.") from error
    size = len(words) if vocabulary_size is None else vocabulary_size
    if not 0 < size <= len(words) or len(set(words[:size])) < size:
        raise InvalidArgumentError(
            f"{vocabulary_file}: expected {size} different words, found {len(set(words[:size]))}"
        )
    if dtypes.as_dtype(dtype).is_integer:
        words = [int(word) for word in words]
    return _vocabulary(key, words[:size], dtype, default_value, num_oov_buckets)


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> CategoricalColumn:
    """Return a column of the intervals that numbers are in, closed at their lower ends."""
    if not isinstance(source_column, NumericColumn):
        raise ValueError(  # noqa: TRY004  TensorFlow's
            f"source_column must be a column generated with numeric_column(). Given: {source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, list | tuple) or any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise ValueError("boundaries must be a sorted list.")
    edges, count, width = np.array(boundaries, np.float32), len(boundaries) + 1, source_column.width

    def ids(values: Any) -> Any:
        return np.searchsorted(edges, values, side="right") + count * np.arange(width)

    def pair(features: Mapping[str, Any]) -> tuple[Tensor, None]:
        return _op["categories"](column_value(features, source_column), function=ids), None

    name, total = f"{source_column.name}_bucketized", count * width
    column = CategoricalColumn(name, total, pair, "bucketized", total)
    return column._replace(dense=counts_of(column))


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: Any = dtypes.float32
) -> CategoricalColumn:
    """Return a categorical column with the weights that another feature gives its ids."""
    kind = dtypes.as_dtype(dtype) if dtype is not None else None
    if kind is None or not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")

    def weights(ids: Any, given: Any) -> Any:
        kept, out = ids != _ABSENT, np.zeros(ids.shape, np.float32)
        if given.shape != ids.shape or np.count_nonzero(given) != np.count_nonzero(kept):
            raise ValueError(f"{weight_feature_key}: there must be one weight other than 0 for each id")
        out[kept] = given[given != 0]
        return out

    def pair(features: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        ids, _ = categorical_column.pair(features)
        given = _feature(features, weight_feature_key)
        if given.dtype != kind:
            raise ValueError(f"Bad dtype, expected {kind}, but got {given.dtype}.")
        return ids, _op["categories"](ids, given, function=weights)

    name = f"{categorical_column.name}_weighted_by_{weight_feature_key}"
    return CategoricalColumn(name, categorical_column.num_buckets, pair, "weighted")


class _Crossed(NamedTuple):
    """The hash of each combination of keys: those of features follow those of columns."""

    keys: tuple[Any, ...]
    size: int
    seed: int

    def pair(self, features: Mapping[str, Any]) -> tuple[Tensor, None]:
        columns = [key.pair(features)[0] for key in self.keys if not isinstance(key, str)]
        return _op["categories"](*columns, *self.texts(features), function=self.ids), None

    def texts(self, features: Mapping[str, Any]) -> list[Tensor]:
        return [_feature(features, key) for key in self.keys if isinstance(key, str)]

    def ids(self, *arrays: Any) -> Any:
        rows = [[_hashes(array[at]) for array in arrays] for at in range(len(arrays[0]))]
        found = [[self.hash(parts) for parts in itertools.product(*row)] for row in rows]
        most = max(map(len, found), default=0)
        padded = [[*row, *[_ABSENT] * (most - len(row))] for row in found]
        return np.array(padded, np.int64).reshape(len(found), most)

    def hash(self, parts: tuple[int, ...]) -> int:
        total = self.seed
        for part in parts:
            total = joined(total, part)
        return total % self.size


def _hashes(row: Any) -> list[int]:
    return [
        fingerprint(one) if isinstance(one, bytes) else int(one) & (1 << 64) - 1
        for one in row.reshape(-1).tolist()
        if one != _ABSENT
    ]


def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CategoricalColumn:
    """Return a column of the combinations of features and of categorical columns."""
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, str | CategoricalColumn):
            raise ValueError(  # noqa: TRY004  TensorFlow's
                "Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, CategoricalColumn) and key.kind in ("hash_bucket", "weighted"):
            raise ValueError(f"a column of kind {key.kind} is not supported for crossing. Given: {key}")
    leaves: list[Any] = []
    for key in keys:
        owner = getattr(getattr(key, "pair", None), "__self__", None)
        leaves += owner.keys if isinstance(owner, _Crossed) else [key]
    name = "_X_".join(sorted(getattr(leaf, "name", leaf) for leaf in leaves))
    crossed = _Crossed(tuple(leaves), int(hash_bucket_size), hash_key or _HASH_KEY)
    return CategoricalColumn(name, crossed.size, crossed.pair, "crossed")
