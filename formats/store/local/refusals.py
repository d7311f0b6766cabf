"""Errors of the system during writing, as errors of this program."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from ...errors import CheckpointError, CheckpointExistsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...location import Location


_HINTS = {
    errno.ENOSPC: ("free some space, or write elsewhere",),
    errno.EDQUOT: ("free some space in your quota, or write elsewhere",),
    errno.EFBIG: ("check ulimit -f and the largest file size of the file system, or write elsewhere",),
    errno.EACCES: ("make the directory writable, because new files are created next to the old ones",),
    errno.EROFS: ("write elsewhere, because this file system is mounted read-only",),
}

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The system's errors for a full disk."""


def reason_of(error: Exception) -> str:
    """Return what an error of the system says, in small letters."""
    return str(getattr(error, "strerror", None) or error).lower()


@contextlib.contextmanager
def refusing(path: Location) -> Iterator[None]:
    """Raise what the system refuses in this block as a CheckpointError about `path`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, CheckpointError):
            raise
        message = f"cannot be written: {reason_of(error)}"
        hints = _HINTS.get(error.errno or 0, ())
        if path.is_object():  # a server's refusal is not an OSError
            message += " (the file is created on this machine first)"
            hints = ("set TMPDIR to use another directory",)
        raise CheckpointError(message, path=path, hints=hints) from error


def refuse_irreplaceable(path: Location) -> None:
    """Raise CheckpointExistsError where `path` is something that a file must not take the place of.

    That is a directory, and a device, pipe or socket, also behind a link: who may write
    to `/dev/null` by renaming would leave a system without one.
    """
    if path.is_object():
        if path.is_folder():
            raise _directory(path)
        return
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        raise _directory(path)
    if not stat.S_ISREG(mode):
        raise CheckpointExistsError("this is a device or a pipe; name a file", path=path)


def _directory(path: str) -> CheckpointExistsError:
    hints = (f"name the file, for example {os.path.join(path, 'NAME')}",)
    return CheckpointExistsError("this is a directory; name a file", path=path, hints=hints)
