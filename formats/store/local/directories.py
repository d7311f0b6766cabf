"""Directories of this machine, made so that they survive a loss of power."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from .links import leads_nowhere
from .refusals import refusing
from .removing import close_descriptors, remove_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...location import Location


def sync_directory(path: str) -> None:
    """Make what was renamed in a directory last through a loss of power.

    Some network file systems have no such thing for directories; there nothing more can be done.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        close_descriptors(fd)


def make_directories(path: str, made: list[str] | None = None) -> None:
    """Make a directory and its missing parents, so that all survive a loss of power.

    They are added to `made`, the outermost first, before they are there.
    """
    missing = []
    while path and not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    if os.path.islink(path) and not os.path.exists(path):
        raise leads_nowhere(path)
    for each in reversed(missing):
        if made is not None:
            made.append(each)
        with contextlib.suppress(FileExistsError):  # Another may have made it meanwhile.
            os.mkdir(each)
        sync_directory(os.path.dirname(each) or ".")


@contextlib.contextmanager
def directories_made(paths: Iterable[Location]) -> Iterator[None]:
    """Make directories of this machine for this block; after an error the empty ones of them are removed."""
    made: list[str] = []
    try:
        for path in paths:
            with refusing(path):
                make_directories(path, made)
        yield
    except BaseException:
        remove_empty(made)
        raise
