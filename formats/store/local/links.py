"""Symbolic links as targets: what they lead to is written, and the link stays.

A writer that stages next to a target and then renames would replace a link with a file, and leave the link's
target unchanged: two checkpoints instead of one.
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

    Raises CheckpointError if it leads nowhere.
    """
    if not os.path.islink(path):
        return path
    try:
        os.stat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise leads_nowhere(path) from error
        # If what follows may not be read, the writer reports that.
    return path.real()


def leads_nowhere(path: str) -> CheckpointError:
    """Return the error for a broken link."""
    message = f"this is a broken symbolic link to {os.readlink(path)}"
    return CheckpointError(message, path=path, hints=("remove the link, or write under another name",))
