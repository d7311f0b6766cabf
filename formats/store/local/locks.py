"""Locks on directories, held for as long as a process lives, and waiting for one that another holds.

Whoever stages files holds a lock on the staging directory, so that nobody takes it for
what a killed process left.  Whoever moves files in holds one on the directory they go to,
so that two sets do not mix.  That takes moments, but a stopped process, or one behind a
network that does not answer, can hold a lock for ever; so who waits is told for whom, and
does not wait for ever.
flock(2), proc_locks(5)
"""

from __future__ import annotations

import errno
import math
import os
import time

from ...core import notices
from ...errors import CheckpointError
from .removing import let_go

_DEFAULT_TIMEOUT = 600.0
"""Seconds: no move takes as long, unless its process was stopped."""

_TELL_AFTER = 1.0
"""Seconds after which a person wonders what is going on."""

_ASK_EVERY = 0.05
"""Seconds between two tries.  flock could wait by itself, but not for a limited time."""

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""What file systems say that have no locks, or (NFS) none on a directory."""


def lock_timeout() -> float:
    """Return the seconds to wait for a lock; CheckpointError where CKPT_LOCK_TIMEOUT is no number."""
    text = os.environ.get("CKPT_LOCK_TIMEOUT")
    if not text:
        return _DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:  # which NaN is not, either
        raise CheckpointError(f"CKPT_LOCK_TIMEOUT: expected a number of seconds, found {text!r}")
    return seconds


def lock(path: str) -> int:
    """Return a descriptor that locks a directory until it is closed, if only by death.

    Raises BlockingIOError where another holds it.  A file system without locks locks nothing.
    """
    import fcntl

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return fd
        let_go(fd)
        raise
    except BaseException:  # An interrupt may come anywhere.
        let_go(fd)
        raise
    return fd


def is_locked(path: str) -> bool:
    """Whether a living process holds a directory."""
    try:
        let_go(lock(path))
    except BlockingIOError:
        return True
    return False


def wait_for(directory: str) -> int:
    """Return a descriptor that locks a directory, as `lock` does, when nobody else holds it.

    After a second it is told who does.  Raises CheckpointError when the time is over.
    """
    timeout = lock_timeout()
    started = time.monotonic()
    told = False
    while True:
        try:
            return lock(directory)
        except BlockingIOError:
            waited = time.monotonic() - started
        if waited >= timeout:
            hints = (
                "to wait longer, set CKPT_LOCK_TIMEOUT (seconds); the lock is released when its process ends",
            )
            message = f"{holder(directory)} is changing files here; gave up after {timeout:g} s"
            raise CheckpointError(message, path=directory, hints=hints)
        if waited >= _TELL_AFTER and not told:
            told = True
            notices.tell(
                f"{directory}: waiting up to {timeout:g} s for {holder(directory)}, "
                "which is changing files there"
            )
        time.sleep(min(_ASK_EVERY, timeout - waited))


def holder(directory: str) -> str:
    """Return who holds a directory's lock, as far as the system tells."""
    pid = _holding_process(directory)
    if pid is None:
        return "another process"
    if pid == os.getpid():
        return "another thread of this process"
    command = _command(pid)
    return f"process {pid} ({command})" if command else f"process {pid}"


def _holding_process(directory: str) -> int | None:
    try:
        status = os.stat(directory)
        with open("/proc/locks", encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:  # Not Linux, or it may not be read here.
        return None
    # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131074 0 EOF
    file_id = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        fields = line.split()
        # A process that waits has an arrow before its kind; one of another container is no number above 0.
        if fields[1:2] == ["FLOCK"] and fields[5:6] == [file_id] and int(fields[4]) > 0:
            return int(fields[4])
    return None


def _command(pid: int) -> str:
    """Return a process's command line, in one line; empty where it is gone or somebody else's."""
    import shlex

    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")
    except OSError:
        return ""
    return shlex.join(os.fsdecode(word) for word in words if word)
