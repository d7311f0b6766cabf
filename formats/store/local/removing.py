"""Clean-up on a full or failing disk: every step is tried, even after an earlier one failed.

The clean-up discards files that could not be written, so an error of `close` or `fsync` no longer matters.
The user sees the error that caused the clean-up.
"""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING, cast

from ...core import notices
from ...errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Attempts:
    """Steps that are all tried; the first error is kept."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    @contextlib.contextmanager
    def deferring_errors(self) -> Iterator[None]:
        """Keep the error of this block if it is the first, and continue after it."""
        try:
            yield
        except (OSError, CheckpointError) as error:
            self.error = self.error or error

    def raise_first(self) -> None:
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def cleaning_up(path: str) -> Iterator[None]:
    """Warn if `path` cannot be removed; the error that made this necessary is raised."""
    attempts = Attempts()
    with attempts.deferring_errors():
        yield
    if attempts.error is not None:
        notices.warn(f"{path}: cannot delete everything that was uploaded: {attempts.error}")


def close_descriptors(*descriptors: int) -> None:
    """Close descriptors of what was only read or locked, or is thrown away.

    Linux closes a descriptor even if `close` fails, and no error of it matters here.
    """
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def remove_tree(path: str) -> None:
    """Remove a directory and all that is in it, links as links; raise the first error when all was tried.

    `shutil.rmtree` stops where closing a directory fails.
    """
    attempts = Attempts()
    with attempts.deferring_errors():
        _empty(os.open(path, _FOLDER), attempts)
    attempts.raise_first()
    os.rmdir(path)


def _empty(folder: int, attempts: Attempts) -> None:
    """Remove the content of a directory, and close its descriptor."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
        for entry in entries:
            with attempts.deferring_errors(), contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    _empty(os.open(entry.name, _FOLDER, dir_fd=folder), attempts)
                    os.rmdir(entry.name, dir_fd=folder)
                else:
                    os.unlink(entry.name, dir_fd=folder)
    finally:
        close_descriptors(folder)


def remove_empty(made: Iterable[str]) -> None:
    """Remove directories, made in this order, in which nothing is."""
    for path in reversed(list(made)):
        if os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)


@contextlib.contextmanager
def scratch_file(most_in_memory: int, folder: str) -> Iterator[IO[bytes]]:
    """Make a file for this block alone, in a folder where it is too large for the memory."""
    import tempfile

    file = tempfile.SpooledTemporaryFile(most_in_memory, dir=folder)  # noqa: SIM115  `with` would tell of its end
    try:
        yield cast("IO[bytes]", file)
    finally:
        with contextlib.suppress(OSError):
            file.close()


@contextlib.contextmanager
def scratch_directory() -> Iterator[str]:
    """Make a directory for this block alone; `tempfile`'s own stays where closing it fails."""
    import tempfile

    path = tempfile.mkdtemp(prefix="ckpt-")
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            remove_tree(path)
