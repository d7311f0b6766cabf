"""tf.io: files on this machine."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from typing import Any

import numpy as np

from .errors import NotFoundError
from .tensor import Tensor, as_tensor
from .unknown import absent, namespace

__all__ = ["gfile", "read_file", "write_file"]


def _path(name: Any) -> str:
    text = as_tensor(name).numpy().decode() if not isinstance(name, str | os.PathLike) else os.fspath(name)
    if "://" in text:
        raise NotImplementedError(f"tf.io: {text} is not supported, only files of this machine")
    return text


def _as_text(mode: str) -> dict[str, Any]:
    return {} if "b" in mode else {"encoding": "utf-8", "newline": ""}


class GFile:
    """A file, opened where it is first used."""

    def __init__(self, name: Any, mode: str = "r") -> None:
        self.name, self.mode = _path(name), mode
        self._file: Any = None

    def _opened(self) -> Any:
        if self._file is None:
            try:
                self._file = open(self.name, self.mode, **_as_text(self.mode))  # noqa: SIM115
            except FileNotFoundError as error:
                raise NotFoundError(f"{self.name}; No such file or directory") from error
        return self._file

    def read(self, n: int = -1) -> Any:
        return self._opened().read(n)

    def readline(self) -> Any:
        return self._opened().readline()

    def readlines(self) -> Any:
        return self._opened().readlines()

    def write(self, file_content: Any) -> None:
        self._opened().write(file_content)

    def size(self) -> int:
        return os.stat(self.name).st_size

    def flush(self) -> None:
        self._opened().flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Any:
        return iter(self._opened())


def exists(path: Any) -> bool:
    return os.path.exists(_path(path))


def isdir(path: Any) -> bool:
    return os.path.isdir(_path(path))


def makedirs(path: Any) -> None:
    os.makedirs(_path(path), exist_ok=True)


def listdir(path: Any) -> list[str]:
    if not isdir(path):
        raise NotFoundError(f"Could not find directory {path}")
    return os.listdir(_path(path))


def glob(pattern: Any) -> list[str]:
    patterns = pattern if isinstance(pattern, list | tuple) else [pattern]
    return [found for one in patterns for found in sorted(_glob.glob(_path(one)))]


def remove(path: Any) -> None:
    if not exists(path):
        raise NotFoundError(f"{path}; No such file or directory")
    os.remove(_path(path))


def rmtree(path: Any) -> None:
    if not exists(path):
        raise NotFoundError(f"{path}; No such file or directory")
    shutil.rmtree(_path(path))


gfile = namespace(
    "io.gfile", GFile=GFile, exists=exists, glob=glob, isdir=isdir, listdir=listdir, makedirs=makedirs,
    remove=remove, rmtree=rmtree,
)  # fmt: skip


def read_file(filename: Any, name: str | None = None) -> Tensor:
    out = np.empty((), object)
    with GFile(filename, "rb") as file:
        out[()] = file.read()
    return Tensor(out)


def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    makedirs(os.path.dirname(_path(filename)) or ".")
    with GFile(filename, "wb") as file:
        file.write(as_tensor(contents).numpy())


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
