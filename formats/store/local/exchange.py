"""Replacing a directory by a staged one, atomically if the system can exchange two names."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING

from .directories import sync_directory
from .refusals import refusing

if TYPE_CHECKING:
    from ...location import Location
    from .staging import Staging

_HERE = -100
_EXCHANGE = 2
_NOT_THERE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def move_directory(staging: Staging, path: Location) -> None:
    """Move the staged directory to its path; an old directory is left among the staged files.

    If the system cannot exchange two names, the old directory is set aside first. After a kill in between,
    `ckpt state --fix` puts it back.
    """
    name = path.name
    with refusing(path):
        if not path.is_folder() or not os.listdir(path):
            staging.move(name)
        elif not _exchanged(staging.path(name), path):
            staging.move_old_aside([name])
            staging.move(name)
            staging.discard_old_set()
        sync_directory(staging.directory)


def _exchanged(one: str, other: str) -> bool:
    """Exchange two names; False if the system, or the file system, has no such thing."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_THERE:
        return False
    raise OSError(number, os.strerror(number), other)
