"""Who may read a file that takes the place of another: those who could read the other, and nobody else.

Permissions and owner are carried over, as far as the system lets a process do that: only
root gives files away.  Where the group cannot be kept, what the group was allowed falls to
what everybody is, since it would be another group's.
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
"""What systems say to who may not change an owner, or where files have none."""


class Ownership(NamedTuple):
    """A file's permissions, its user and its group."""

    mode: int
    uid: int
    gid: int


def ownership_of(path: str) -> Ownership | None:
    """Return the ownership of a file, or of what a link leads to; None where there is nothing."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    # A program that lends its owner's rights is no checkpoint; of a directory, the group is passed on.
    kept = 0o777 if stat.S_ISREG(status.st_mode) else 0o7777
    return Ownership(status.st_mode & kept, status.st_uid, status.st_gid)


def strictest(owned: Iterable[Ownership]) -> Ownership | None:
    """Return what all of several files allow, with the owner of the first; None where there are none."""
    found: Ownership | None = None
    for each in owned:
        found = each if found is None else found._replace(mode=found.mode & each.mode)
    return found


def give(fd: int, ownership: Ownership) -> None:
    """Give an open file, or directory, permissions and owner as far as the system allows."""
    status = os.fstat(fd)
    mode = ownership.mode
    if (status.st_uid, status.st_gid) != ownership[1:]:
        # Before the permissions: to nobody but its owner is the file open meanwhile.
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
