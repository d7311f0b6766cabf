"""Data shards of one bundle used by another: shared if the file system can, otherwise copied.

    link    a second name for the same file: TensorFlow, and this, never change a shard in place
    clone   a file of its own whose blocks are shared until one of both changes (FICLONE)
    copy    the bytes, within the kernel where it can

linux/fs.h, ioctl_ficlone(2), copy_file_range(2)
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CheckpointError, CorruptCheckpointError
from ...store.base import File
from ...store.local.removing import close_descriptors
from ...store.work.counters import tally_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...location import Location
    from ...store.local.staging import Staging


LINK, CLONE, COPY = "link", "clone", "copy"

HARD_LINKS = (
    "DST shares its data shards with SRC as hard links; overwriting such a file in place, as h5py, np.savez,"
    " torch.save and cp do, changes both checkpoints"
)
"""The note about files that are shared; a clone is a file of its own."""

_FICLONE = 0x40049409
_COPIED_AT_ONCE = 8 << 20
ELSEWHERE = "they are not both local files"
_OTHER_SYSTEM = "the target is on another file system"
_NO_WAY = "the file system supports neither clones nor hard links"
_CANNOT = {
    errno.EXDEV: _OTHER_SYSTEM,
    errno.EPERM: "the system forbids hard links to another owner's file that you cannot write",
    errno.EACCES: "permission denied",
    errno.EMLINK: "the file has the maximum number of hard links",
    errno.EOPNOTSUPP: _NO_WAY,
    errno.ENOTTY: _NO_WAY,
    errno.EINVAL: _NO_WAY,
    errno.ENOSYS: _NO_WAY,
}
"""The systems' errors for files that cannot be linked, cloned, or copied in the kernel, in words.

The owner of a file, and everyone who may read and write it, may link it: proc(5), protected_hardlinks.
"""


class ShardTransfer(NamedTuple):
    """The way in which a shard came, None if there was none, and in words why the one before was not."""

    way: str | None
    refusal: str = ""


def why_not_shared(path: Location, target: Location) -> str:
    """Return why a file cannot be shared with a target, as far as that is known without trying, or ""."""
    if target.store.scheme:
        return ELSEWHERE
    real, directory = path.store.system_path(path), os.path.abspath(target)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    if real is None:
        return ELSEWHERE
    return "" if os.stat(real).st_dev == os.stat(directory).st_dev else _OTHER_SYSTEM


def stage_shard(
    staging: Staging,
    path: Location,
    name: str,
    ways: Sequence[str],
    advance: Callable[[int], None] = lambda _: None,
) -> ShardTransfer:
    """Stage a shard under a name in the first of `ways` that works; return which that was.

    `advance` is called with the number of copied bytes. Raises InaccessibleError for anything but a regular
    file.
    """
    path.open().close()  # a pipe would be waited for, and what cannot be read not be TARGET's fault
    real, refusal = path.real(), ""
    if path.store.system_path(path) is None:
        ways, refusal = [way for way in ways if way == COPY], ELSEWHERE
    from ...store.local.refusals import refusing

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
                if way == LINK or not refusal:  # most file systems have no clones: that alone says little
                    refusal = _CANNOT[error.errno]
            else:
                return ShardTransfer(way, refusal)
    return ShardTransfer(None, refusal)


def _create(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY)


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
        close_descriptors(source, target)


def _copy(path: Location, new: str, advance: Callable[[int], None]) -> None:
    with path.open() as source:
        target = _create(new)
        try:
            done = _copied_by_kernel(path, target, advance)
            while done < source.size:
                piece = source.read(done, _COPIED_AT_ONCE)
                if not piece:
                    message = f"changed during the copy: it now ends after {done} bytes"
                    raise CheckpointError(message, path=path)
                copied = os.pwrite(target, piece, done)
                done += copied
                advance(copied)
        except BaseException:
            close_descriptors(target)  # the first error is the one that the user sees
            raise
        os.close(target)


def _copied_by_kernel(path: Location, target: int, advance: Callable[[int], None]) -> int:
    """Return how many bytes the kernel copied before it could not; none of a file that it does not know."""
    if path.store.system_path(path) is None:
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
        close_descriptors(source)
    return done


class ComparedFile(File):
    """A file that is read together with a copy; CorruptCheckpointError where what is read differs."""

    travels = False

    def __init__(self, file: File, copy: File) -> None:
        super().__init__(file.store, file.path, file.size, file.identity)
        self._file = file
        self._copy = copy

    def read(self, offset: int, size: int) -> bytes:
        data = self._file.read(offset, size)
        self._compare(offset, data)
        return data

    def read_into(self, offset: int, out: memoryview) -> None:
        self._file.read_into(offset, out)
        self._compare(offset, out)

    def _compare(self, offset: int, data: bytes | memoryview) -> None:
        if self._copy.read(offset, len(data)) != data:
            raise CorruptCheckpointError("the copy differs from the source", path=self.path, offset=offset)

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()
        self._copy.close()

    def __reduce__(self) -> tuple[object, ...]:
        return ComparedFile, (self._file, self._copy)
