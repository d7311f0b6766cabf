"""Checkpoints as keys, dtypes, shapes and arrays: TensorFlow's, Keras', and their neighbours'.

with formats.open_checkpoint("run/ckpt-10") as reader:
    reader.specs                      # no tensor data is read for these
    reader["net/l1/kernel"].read()    # a numpy array, its checksum verified
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from .model.public import CheckpointReader, CheckpointWriter
    from .model.tensor import LazyTensor

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

_MODULES = {
    "CheckpointError": "errors",
    "CheckpointExistsError": "errors",
    "CheckpointNotFoundError": "errors",
    "CheckpointReader": "model.public",
    "CheckpointWriter": "model.public",
    "ChecksumError": "errors",
    "ConversionError": "errors",
    "CorruptCheckpointError": "errors",
    "DuplicateKeyError": "errors",
    "InaccessibleError": "errors",
    "LazyTensor": "model.tensor",
    "ResourceError": "errors",
    "TensorNotFoundError": "errors",
    "TensorSpec": "core.spec",
    "UnknownFormatError": "errors",
    "UnsupportedDtypeError": "errors",
    "UnsupportedFeatureError": "errors",
    "create_checkpoint": "find.creating",
    "detect_format": "find.registry",
    "open_checkpoint": "find.opening",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a program may need only one module of this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
