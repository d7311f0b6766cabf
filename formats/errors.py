"""The errors of checkpoints, one class per remedy.

    CheckpointError
     ├── UnknownFormatError            nothing here knows this file: point at another
     ├── CorruptCheckpointError        bytes are damaged: verify, rescue, copy again
     │    └── ChecksumError
     ├── UnsupportedFeatureError       a sound file that asks for more than is known here
     ├── TensorNotFoundError           (KeyError)
     ├── CheckpointExistsError         (FileExistsError)
     ├── CheckpointNotFoundError       (FileNotFoundError)
     │    └── NoCheckpointsError       a directory in which there is none: name another
     ├── InaccessibleError             it is there, and cannot be opened: permissions, a broken link, a pipe
     │    └── ResourceError            this process has no memory for it, or no stack: it may be sound
     └── ConversionError               this cannot be represented there
          ├── UnsupportedDtypeError
          └── DuplicateKeyError

An error carries what a program needs (`path`, `key`, `offset`, `hints`); the
sentence a person reads is put together only when it is shown.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

MISSING = "missing"
"""The finding code of a path at which there is no checkpoint, nor a part of one."""


SHARD_MISSING = "shard-missing"
"""The finding code of a checkpoint that lacks one of its files."""


UNREADABLE = "unreadable"
"""The finding code of what is there and could not be opened: it may be sound."""


MEMORY = "memory"
"""The finding code of what this process had no memory for, or no stack: it may be sound."""


NOT_READ = frozenset((UNREADABLE, MEMORY))
"""The finding codes that say nothing against a checkpoint."""


REFUSED = "refused"
"""The finding code of a file that names what loading would run: it is not read, and may be as it was made."""


class CheckpointError(Exception):
    """A checkpoint cannot be found, read or written.

    `message` says what was expected and what was found.  `path` is the file, `key` the
    tensor and `offset` the byte position in the file.  `code` is one of the finding codes
    of `ckpt verify`.  `facts` are further sentences about the cause, and `hints` are next steps.
    """

    usual_code: ClassVar[str] = "entry"
    usual_hints: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        key: str | None = None,
        offset: int | None = None,
        code: str | None = None,
        hints: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.key = key
        self.offset = offset
        self.code = code or self.usual_code
        self.hints = hints or self.usual_hints
        self.facts: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = [self.path] if self.path is not None else []
        if self.key is not None:
            where.append(f"tensor {self.key!r}")
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        return ": ".join([*where, self.message])


class UnknownFormatError(CheckpointError):
    """No format recognises the content of this file."""


class CorruptCheckpointError(CheckpointError):
    """The bytes contradict their format."""


class ChecksumError(CorruptCheckpointError):
    """The bytes contradict their stored checksum."""


class UnsupportedFeatureError(CheckpointError):
    """The file is sound, but needs a feature that is not supported here."""


class TensorNotFoundError(CheckpointError, KeyError):
    """There is no tensor with this key."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """There is no checkpoint at this path."""

    usual_code = MISSING


class NoCheckpointsError(CheckpointNotFoundError):
    """The directory has no checkpoints; `lie_below` says whether directories below it have some."""

    lie_below = False


class InaccessibleError(CheckpointError):
    """The file cannot be opened; the checkpoint in it may be sound."""

    def __init__(self, message: str, *, path: str | None = None, key: str | None = None) -> None:
        super().__init__(message, path=path, key=key, code=UNREADABLE)


class ResourceError(InaccessibleError):
    """This process ran out of memory or another resource while it read or wrote; see `exhausted`."""

    def __init__(self, message: str, *, path: str | None = None, key: str | None = None) -> None:
        super().__init__(message, path=path, key=key)
        self.code = MEMORY


class CheckpointExistsError(CheckpointError, FileExistsError):
    """The target already exists, and `overwrite` is not set."""


class ConversionError(CheckpointError):
    """The target cannot represent the requested content."""


class UnsupportedDtypeError(ConversionError):
    """The target does not support this dtype."""


class DuplicateKeyError(ConversionError):
    """Two tensors would get the same key."""

    usual_hints = ("use --sub or --map to give one of the two tensors another key",)


_NO_MEMORY = ("cannot allocate memory", "failed to map segment")
"""The dynamic linker's words for a lack of memory."""

_NO_EXCEPTION = ("error return without exception set", "without setting an exception")
"""Python's words for a lack of memory for the exception itself."""


def is_exhausted(error: BaseException) -> bool:
    """Whether an error is Python's for a lack of memory, stack or threads, not for a mistake in the input."""
    if isinstance(error, MemoryError | RecursionError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    text = str(error).lower()
    if isinstance(error, ImportError):
        return any(words in text for words in _NO_MEMORY)
    if isinstance(error, SystemError):
        return any(words in text for words in _NO_EXCEPTION)
    return isinstance(error, RuntimeError) and "can't start new thread" in text


def exhausted(error: BaseException, path: str | None = None, key: str | None = None) -> ResourceError:
    """Return what to say of an error that `is_exhausted`; what its functions had at hand is let go of."""
    forget_locals(error)
    if isinstance(error, RecursionError):
        return ResourceError("this is nested too deeply for Python's stack", path=path, key=key)
    detail = str(error).split("\n", 1)[0][:200] if isinstance(error, MemoryError) else ""
    found = ResourceError(
        "there is not enough memory" + (f": {detail}" if detail else ""), path=path, key=key
    )
    found.hints = ("free some memory, or raise the memory limit of this process (ulimit -v)",)
    return found


def as_ours(error: Exception, path: str) -> CheckpointError:
    """Return a CheckpointError as it is, and one of no memory as one; any other error is raised again."""
    if isinstance(error, CheckpointError):
        return error
    if not is_exhausted(error):
        raise error
    return exhausted(error, path)


_MOST_EXCLUDED = 8


def leave_out(key: str, others: Sequence[str] = ()) -> str:
    """Return the hint that skips a tensor, and others with the same problem; safe to paste into a shell."""
    import shlex

    if not others:
        return f"to leave this tensor out, pass --exclude {shlex.quote(key)}"
    if len(others) < _MOST_EXCLUDED:
        options = " ".join(f"--exclude {shlex.quote(each)}" for each in (key, *others))
        return f"to leave out the {len(others) + 1} tensors with this problem, pass {options}"
    return f"to leave tensors out, pass --exclude GLOB; {len(others) + 1:,} tensors have this problem"


def cast_or_leave_out(key: str, *, castable: bool, others: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the hints for a tensor whose dtype the target does not have, and for others like it."""
    cast = ("to write another dtype, pass --cast float32",) if castable else ()
    return (*cast, leave_out(key, others))


def forget_locals(error: BaseException) -> None:
    """Let go of what the functions that raised an error had at hand, which may be as large as the file.

    They refer to the error, and it refers to them: without this only the garbage collector would free them.
    """
    import traceback

    found: BaseException | None = error
    while found is not None:
        traceback.clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__
