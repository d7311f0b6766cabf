"""Data shards of one bundle as shards of another: shared where the file system can, else copied.

    link    a second name for the same file: TensorFlow, and this, never change a shard in place
    clone   a file of its own whose blocks are shared until one of both changes (FICLONE)
    copy    the bytes, within the kernel where it can

linux/fs.h, ioctl_ficlone(2), copy_file_range(2)
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ...errors import CheckpointError, CorruptCheckpointError
from ...store.paths import open_file, real_path, store_of
from ...store.staging import refusing
from ...store.tally import tally_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...store.staging import Staging


LINK, CLONE, COPY = "link", "clone", "copy"

_FICLONE = 0x40049409
_COPIED_AT_ONCE = 8 << 20
_COMPARED_AT_ONCE = 1 << 20
_CANNOT = frozenset(
    [errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EMLINK]
)
"""What systems say where a file cannot be linked, cloned, or copied by themselves."""


def bring(staging: Staging, path: str, name: str, ways: Sequence[str], advance: Callable[[int], None]) -> str:
    """Stage a shard under a name in the first of `ways` that works, of which the last is COPY; return it.

    `advance` is told of bytes that were copied.
    """
    real = real_path(path)
    if store_of(path).system_path(path) is None:
        ways = (COPY,)
    with refusing(staging.target):
        for way in ways:
            try:
                if way == LINK:
                    staging.link(real, name)
                elif way == CLONE:
                    _clone(real, staging.path(name))
                else:
                    _copy(real, staging.path(name), advance)
            except OSError as error:
                if way == COPY or error.errno not in _CANNOT:
                    raise
            else:
                return way
    raise AssertionError(f"{ways} does not end in {COPY}")


def _create(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _clone(path: str, new: str) -> None:
    import fcntl

    source, target = _open(path), -1
    try:
        target = _create(new)
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        if target >= 0:
            os.unlink(new)
        raise
    finally:
        _close(source, target)


def _copy(path: str, new: str, advance: Callable[[int], None]) -> None:
    target = _create(new)
    try:
        done = _copied_by_kernel(path, target, advance)
        with open_file(path) as source:
            while done < source.size:
                piece = source.read(done, _COPIED_AT_ONCE)
                if not piece:
                    message = f"changes while it is copied: it ends after {done} bytes"
                    raise CheckpointError(message, path=path)
                copied = os.pwrite(target, piece, done)
                done += copied
                advance(copied)
    finally:
        _close(target)


def _copied_by_kernel(path: str, target: int, advance: Callable[[int], None]) -> int:
    """Return how many bytes the kernel copied before it could not; none of a file that it does not know."""
    if store_of(path).system_path(path) is None:
        return 0
    source = _open(path)
    tally = tally_of(path)
    done = 0
    try:
        # Some file systems say that nothing was copied, and mean that they cannot.
        while copied := os.copy_file_range(source, target, _COPIED_AT_ONCE, done, done):
            done += copied
            if tally is not None:
                tally.add(copied)
            advance(copied)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        _close(source)
    return done


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def same_bytes(path: str, copy: str, advance: Callable[[int], None]) -> None:
    """Compare a copy with its source, CorruptCheckpointError where a byte differs."""
    with open_file(path) as source, open_file(copy) as target:
        for at in range(0, max(source.size, target.size), _COMPARED_AT_ONCE):
            mine, theirs = (file.read(at, _COMPARED_AT_ONCE) for file in (source, target))
            if mine != theirs:
                raise CorruptCheckpointError("the copy of this file differs from it", path=path, offset=at)
            advance(len(mine))
