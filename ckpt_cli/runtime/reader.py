"""Reading checkpoints by key: `tf.train.load_checkpoint` and its relatives.

Everything is read through `formats`, so every name of a checkpoint there works here; errors about missing
files have TensorFlow's words.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from formats.errors import CheckpointNotFoundError, TensorNotFoundError
from formats.find import opening
from formats.location import parse_location

from . import dtypes
from .errors import NotFoundError
from .state_file import latest_checkpoint

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from formats.model.reader import FormatReader

__all__ = [
    "CheckpointReader", "checkpoint_exists", "list_variables", "load_checkpoint", "load_variable",
    "opened",
]  # fmt: skip


@contextlib.contextmanager
def opened(path: str) -> Iterator[FormatReader]:
    """Open a checkpoint; NotFoundError, as TensorFlow words it, where there is none."""
    with open_reader(path) as reader:
        yield reader


def open_reader(path: str) -> FormatReader:
    try:
        return opening.open_reader(path)
    except CheckpointNotFoundError as error:
        raise NotFoundError("\n".join((no_files(path), *error.hints))) from error


def no_files(path: str) -> str:
    """Return what TensorFlow says where there is no checkpoint."""
    return f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {path}"


class CheckpointReader:
    """An open checkpoint, with the methods of TensorFlow's reader."""

    def __init__(self, path: str) -> None:
        self._reader = open_reader(path)

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return {key: list(spec.shape) for key, spec in self._reader.specs.items()}

    def get_variable_to_dtype_map(self) -> dict[str, dtypes.DType]:
        return {key: dtypes.as_dtype(spec.dtype.name) for key, spec in self._reader.specs.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        return tensor_str in self._reader

    def get_tensor(self, tensor_str: str) -> Any:
        """Return a tensor's value: a numpy array, for rank 0 a scalar, for a string its bytes."""
        try:
            value = self._reader[tensor_str].read()
        except TensorNotFoundError as error:
            raise NotFoundError(f"Key {tensor_str} not found in checkpoint") from error
        return value[()] if value.ndim == 0 else value

    def debug_string(self) -> bytes:
        lines = [
            f"{key} (DT_{_ENUM_NAMES.get(spec.dtype.name, spec.dtype.name).upper()}) "
            f"[{','.join(map(str, spec.shape))}]"
            for key, spec in self._reader.specs.items()
        ]
        return "\n".join(lines).encode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return f"<CheckpointReader {self._reader.location.path}>"


_ENUM_NAMES = {"float32": "float", "float64": "double", "float16": "half"}


def cpp_name(dtype_name: str) -> str:
    """Return a dtype's name as TensorFlow's C++ messages have it."""
    return _ENUM_NAMES.get(dtype_name, dtype_name)


def load_checkpoint(ckpt_dir_or_file: str | os.PathLike[str]) -> CheckpointReader:
    """Return a reader of a checkpoint, or of a directory's latest one."""
    path = parse_location(ckpt_dir_or_file)
    if path.is_folder():
        latest = latest_checkpoint(path)
        if latest is None:
            raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}")
        path = parse_location(latest)
    return CheckpointReader(path)


def list_variables(ckpt_dir_or_file: str | os.PathLike[str]) -> list[tuple[str, list[int]]]:
    """Return (key, shape) of everything in a checkpoint, by key."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: str | os.PathLike[str], name: str) -> Any:
    """Return one tensor's value; NotFoundError where the key is not in the checkpoint."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def checkpoint_exists(checkpoint_prefix: str | os.PathLike[str]) -> bool:
    """Whether there is a checkpoint, of either version, at this prefix."""
    prefix = parse_location(checkpoint_prefix)
    return (prefix + ".index").is_file() or prefix.is_file()
