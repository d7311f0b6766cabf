"""tf.compat.v1.feature_column: tf.feature_column with the arguments of TensorFlow 1."""

from __future__ import annotations

from ... import feature_column
from ...feature_column import *  # noqa: F403
from ...feature_column import __all__ as _names
from ...signatures import with_signature
from ...unknown import absent

__all__ = list(_names)

categorical_column_with_vocabulary_file = with_signature(
    feature_column.categorical_column_with_vocabulary_file,
    "key vocabulary_file vocabulary_size num_oov_buckets default_value dtype",
)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
