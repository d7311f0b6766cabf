"""Everything that can be wrong with a checkpoint, one class per remedy.

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
     └── ConversionError               this cannot be represented there
          ├── UnsupportedDtypeError
          └── DuplicateKeyError

An error carries what a program needs (`path`, `key`, `offset`, `hints`); the
sentence a person reads is put together only when it is shown.
"""

from __future__ import annotations

UNREADABLE = "unreadable"
"""The finding code of what is there and could not be opened: it may be sound."""


REFUSED = "refused"
"""The finding code of a file that names what loading would run: it is not read, and may be as it was made."""


class CheckpointError(Exception):
    """A checkpoint cannot be found, read, or written as asked.

    `message` says what was expected and what was found; `path` is the file it
    was found in, `key` the tensor, `offset` the byte position in that file,
    `code` one of the finding codes of `ckpt verify`, `hints` next steps.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        key: str | None = None,
        offset: int | None = None,
        code: str = "entry",
        hints: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.key = key
        self.offset = offset
        self.code = code
        self.hints = hints

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
    """The file is sound but asks for something that is not known here."""


class TensorNotFoundError(CheckpointError, KeyError):
    """There is no tensor of this key."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """There is no checkpoint at this path."""


class NoCheckpointsError(CheckpointNotFoundError):
    """The directory is there, and no checkpoint lies in it."""


class InaccessibleError(CheckpointError):
    """What is there cannot be opened as a file, which says nothing of the checkpoint in it."""

    def __init__(self, message: str, *, path: str | None = None, key: str | None = None) -> None:
        super().__init__(message, path=path, key=key, code=UNREADABLE)


class CheckpointExistsError(CheckpointError, FileExistsError):
    """The target is there already, and overwriting was not asked for."""


class ConversionError(CheckpointError):
    """What was asked for cannot be represented in the target."""


class UnsupportedDtypeError(ConversionError):
    """The target has no such dtype."""


class DuplicateKeyError(ConversionError):
    """Two tensors end on one key."""


def leave_out(key: str) -> str:
    """Return the hint that goes on without a tensor, to be pasted into a shell whatever is in its key."""
    import shlex

    return f"to leave it out: --exclude {shlex.quote(key)}"


def cast_or_leave_out(key: str, *, castable: bool) -> tuple[str, ...]:
    """Return the hints for a tensor whose dtype the target does not have."""
    cast = ("to write it as another type: --cast float32",) if castable else ()
    return (*cast, leave_out(key))


def forget_locals(error: BaseException) -> None:
    """Let go of what the functions that raised an error had at hand, which may be as large as the file.

    They hold the error, and it holds them: nobody would let go of it before the collector comes by.
    """
    import traceback

    found: BaseException | None = error
    while found is not None:
        traceback.clear_frames(found.__traceback__)
        found = found.__cause__
