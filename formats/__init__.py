"""Checkpoints as keys, dtypes, shapes and arrays: TensorFlow's, Keras', and their neighbours'.

with formats.open_checkpoint("run/ckpt-10") as reader:
    reader.specs                      # no tensor data is read for these
    reader["net/l1/kernel"].read()    # a numpy array, its checksum verified
"""

from __future__ import annotations

from .core.spec import TensorSpec
from .errors import (
    CheckpointError,
    CheckpointExistsError,
    CheckpointNotFoundError,
    ChecksumError,
    ConversionError,
    CorruptCheckpointError,
    DuplicateKeyError,
    InaccessibleError,
    ResourceError,
    TensorNotFoundError,
    UnknownFormatError,
    UnsupportedDtypeError,
    UnsupportedFeatureError,
)
from .find.creating import create_checkpoint
from .find.opening import open_checkpoint
from .find.registry import detect_format
from .model.reader import CheckpointReader
from .model.tensor import LazyTensor
from .model.writer import CheckpointWriter

__all__ = [
    "CheckpointError",
    "CheckpointExistsError",
    "CheckpointNotFoundError",
    "CheckpointReader",
    "CheckpointWriter",
    "ChecksumError",
    "ConversionError",
    "CorruptCheckpointError",
    "DuplicateKeyError",
    "InaccessibleError",
    "LazyTensor",
    "ResourceError",
    "TensorNotFoundError",
    "TensorSpec",
    "UnknownFormatError",
    "UnsupportedDtypeError",
    "UnsupportedFeatureError",
    "create_checkpoint",
    "detect_format",
    "open_checkpoint",
]
