"""Translate h5py's errors into one of ckpt's.

h5py raises what the HDF5 library says under half a dozen classes.
"""

from __future__ import annotations

import re

from ...errors import CheckpointError, CorruptCheckpointError, ResourceError, exhausted, is_exhausted

HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, NotImplementedError)


_NO_MEMORY = re.compile(r"(?i)memory allocation failed|can't allocate|unable to allocate|out of memory")
"""The library's words for a lack of memory (H5E_CANTALLOC, H5E_NOSPACE)."""


def lacks_memory(error: BaseException) -> bool:
    """Whether Python or the library has no memory left."""
    text = str(error)  # of a full disk it has the system's number
    return is_exhausted(error) or ("errno" not in text and _NO_MEMORY.search(text) is not None)


def out_of_memory(error: BaseException, path: str, key: str | None = None, what: str = "") -> ResourceError:
    """Return what to say where `lacks_memory`: in Python's words, or that `what` takes too much."""
    return exhausted(error if isinstance(error, RecursionError) else MemoryError(what), path, key)


class damage:  # noqa: N801  a context manager; a class because thousands are entered for a listing
    """Turn what h5py raises into CorruptCheckpointError: `what` cannot be read."""

    __slots__ = ("_key", "_path", "_what")

    def __init__(self, path: str, what: str, key: str | None = None) -> None:
        self._path = path
        self._what = what
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, CheckpointError):
            return
        if lacks_memory(error):
            raise out_of_memory(error, self._path, self._key, self._what) from error
        if isinstance(error, HDF5_ERRORS):
            message = f"{self._what} cannot be read{_reason(error)}"
            raise CorruptCheckpointError(message, path=self._path, key=self._key, code="hdf5-read") from error


def _reason(error: BaseException) -> str:
    """Return the library's reason, which h5py puts in parentheses, as its words; any other as it is."""
    text = str(error.args[0] if error.args else error).splitlines()
    line = text[0] if text else type(error).__name__
    inner = line[line.find("(") + 1 : line.rfind(")")] if line.endswith(")") and "(" in line else ""
    return f" (HDF5 reports: {inner})" if inner else f": {line}"
