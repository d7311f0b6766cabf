"""The permissions of a file that replaces another: the same users may read it.

Permissions and owner are copied as far as the system allows: only root can give files away. If the group
cannot be kept, the group's permissions become those of all others, because they would apply to another group.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_REFUSED = frozenset([errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP])
"""Errors of systems that do not let the process change an owner, or whose files have none."""


class Ownership(NamedTuple):
    """A file's permissions, its user and its group."""

    mode: int
    uid: int
    gid: int


def ownership_of(path: str) -> Ownership | None:
    """Return the ownership of a file, or of what a link leads to; None if there is nothing."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    # A checkpoint is not a program, so set-user-ID bits are dropped. A directory passes its group on.
    kept = 0o777 if stat.S_ISREG(status.st_mode) else 0o7777
    return Ownership(status.st_mode & kept, status.st_uid, status.st_gid)


def strictest(owned: Iterable[Ownership]) -> Ownership | None:
    """Return what all of several files allow, with the owner of the first; None if there are none."""
    found: Ownership | None = None
    for each in owned:
        found = each if found is None else found._replace(mode=found.mode & each.mode)
    return found


def give(fd: int, ownership: Ownership) -> None:
    """Give an open file, or directory, permissions and owner as far as the system allows."""
    status = os.fstat(fd)
    mode = ownership.mode
    if (status.st_uid, status.st_gid) != ownership[1:]:
        # Before the permissions, because until then only the owner can open the file.
        with _where_allowed():
            os.fchown(fd, ownership.uid, -1)
        with _where_allowed():
            os.fchown(fd, -1, ownership.gid)
        if os.fstat(fd).st_gid != ownership.gid:
            mode &= ~0o070 | (mode & 0o007) << 3
    if os.fstat(fd).st_mode & 0o7777 != mode:
        with _where_allowed():
            os.fchmod(fd, mode)


@contextlib.contextmanager
def _where_allowed() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
