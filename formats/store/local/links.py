"""Symbolic links as targets: what they lead to is written, and the link stays.

Whoever writes beside a target and then renames would put a file in the place of a link,
and leave what it led to as it was: two checkpoints where there was one.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ...errors import CheckpointError

if TYPE_CHECKING:
    from ...location import Location


def followed(path: Location) -> Location:
    """Return what a symbolic link leads to, and any other path as it is.

    Raises CheckpointError where it leads nowhere.
    """
    if not os.path.islink(path):
        return path
    try:
        os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise leads_nowhere(path) from error
        # What is behind it may not be looked at; whoever writes there is told so.
    return path.real()


def leads_nowhere(path: str) -> CheckpointError:
    """Return the error about a link to what is not there."""
    message = f"a broken symbolic link to {os.readlink(path)}"
    return CheckpointError(message, path=path, hints=("remove the link, or write under another name",))
