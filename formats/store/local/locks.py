"""Locks on directories, held for as long as a process lives, and waiting for one that another holds.

A process that stages files locks the staging directory, which distinguishes it from the leftover of a killed
process. A process that moves files in locks the target directory, so that two sets do not mix. That takes
moments, but a stopped process, or a network that does not answer, can hold a lock for ever. So a waiting
process names the holder, and gives up after a timeout. flock(2), proc_locks(5)
"""

from __future__ import annotations

import errno
import math
import os
import time

from ...core import notices
from ...errors import CheckpointError
from .removing import close_descriptors

_DEFAULT_TIMEOUT = 600.0
"""Seconds: no move takes as long, unless its process was stopped."""

_REPORT_AFTER = 1.0
"""Seconds until a waiting process explains the delay."""

_POLL_SECONDS = 0.05
"""Seconds between two tries.  flock could wait by itself, but not for a limited time."""

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""Errors of file systems without locks, or (NFS) without locks on directories."""


def lock_timeout() -> float:
    """Return the seconds to wait for a lock. Raises CheckpointError if CKPT_LOCK_TIMEOUT is not a number."""
    text = os.environ.get("CKPT_LOCK_TIMEOUT")
    if not text:
        return _DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:  # also true of NaN
        raise CheckpointError(f"CKPT_LOCK_TIMEOUT: expected a number of seconds, found {text!r}")
    return seconds


def lock(path: str) -> int:
    """Return a descriptor that locks a directory until it is closed, if only by death.

    Raises BlockingIOError if another holds it.  A file system without locks locks nothing.
    """
    import fcntl

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return fd
        close_descriptors(fd)
        raise
    except BaseException:  # An interrupt may come anywhere.
        close_descriptors(fd)
        raise
    return fd


def is_locked(path: str) -> bool:
    """Whether a living process holds a directory."""
    try:
        close_descriptors(lock(path))
    except BlockingIOError:
        return True
    return False


def wait_for(directory: str) -> int:
    """Wait until a directory is free, and return a descriptor that locks it, as `lock` does.

    After a second it names the holder. Raises CheckpointError after the timeout.
    """
    timeout = lock_timeout()
    started = time.monotonic()
    has_reported = False
    while True:
        try:
            return lock(directory)
        except BlockingIOError:
            waited = time.monotonic() - started
        if waited >= timeout:
            hints = (
                "to wait longer, set CKPT_LOCK_TIMEOUT (seconds); the lock is released when its process ends",
            )
            message = (
                f"{holder(directory)} is changing files in this "
                f"directory, so ckpt gave up after {timeout:g} s"
            )
            raise CheckpointError(message, path=directory, hints=hints)
        if waited >= _REPORT_AFTER and not has_reported:
            has_reported = True
            notices.status(
                f"{directory}: waiting up to {timeout:g} s for "
                f"{holder(directory)}, which is changing files in this directory"
            )
        time.sleep(min(_POLL_SECONDS, timeout - waited))


def holder(directory: str) -> str:
    """Describe the process that holds a directory's lock, as far as the system shows it."""
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
        # A waiting process has an arrow before its kind. A process of another container has no number above
        # 0.
        if fields[1:2] == ["FLOCK"] and fields[5:6] == [file_id] and int(fields[4]) > 0:
            return int(fields[4])
    return None


def _command(pid: int) -> str:
    """Return a process's command line as one line.

    It is empty if the process is gone, or belongs to another user.
    """
    import shlex

    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")
    except OSError:
        return ""
    return shlex.join(os.fsdecode(word) for word in words if word)
