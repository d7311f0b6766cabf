"""The errors TensorFlow raises, by its names: `tf.errors`.

A program that catches `tf.errors.NotFoundError` around a restore catches ours. Damage to a file remains a
CheckpointError of `formats.errors`, which is more precise than DataLossError.
"""

from __future__ import annotations

__all__ = [
    "DataLossError", "FailedPreconditionError", "InvalidArgumentError", "NotFoundError", "OpError",
    "OutOfRangeError", "UnimplementedError",
]  # fmt: skip


class OpError(Exception):
    """Base of TensorFlow's errors; built from (node, op, message) or from the message alone."""

    def __init__(self, *arguments: object) -> None:
        self.message = str(arguments[-1]) if arguments else ""
        super().__init__(self.message)


class NotFoundError(OpError):
    """A file, or a key in it, does not exist."""


class InvalidArgumentError(OpError):
    """Shapes or dtypes do not go together."""


class OutOfRangeError(OpError):
    """An iterator has come to its end."""


class DataLossError(OpError):
    """Bytes are damaged."""


class FailedPreconditionError(OpError):
    """The required state does not exist yet."""


class UnimplementedError(OpError):
    """Known, and not done here."""
