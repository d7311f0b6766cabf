"""Changes to the file system that fail, are interrupted or killed, each step of a write in turn.

Every change goes through a few functions of `os`. `steps` counts their calls and acts at one of them, so that
a test can try all. A kill differs from an exception: nothing works after it, so no clean-up happens.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

CHANGING = (
    "mkdir",
    "open",
    "pwrite",
    "copy_file_range",
    "link",
    "symlink",
    "replace",
    "rename",
    "unlink",
    "rmdir",
    "fsync",
    "fdatasync",
    "truncate",
    "ftruncate",
)

TAKING_ROOM = frozenset(CHANGING) - {"replace", "rename", "unlink", "rmdir"}
"""Those that fail on a disk that stays full, or that is mounted read-only after an error of its own."""


class Killed(BaseException):
    """Stands for SIGKILL: raised by every call from one on."""


@contextlib.contextmanager
def steps(
    at: int, act: Callable[[Callable[[], Any]], Any], *, forever: bool | Collection[str] = False
) -> Iterator[list[str]]:
    """Let `act` have call number `at`, or all from it on, that changes the file system; yield those made.

    `forever` may name the calls that it has from there on.
    """
    staying = (CHANGING if forever else ()) if isinstance(forever, bool) else forever
    made: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments, **options)
            made.append(name)
            if len(made) == at or (name in staying and len(made) > at):
                return act(lambda: real(*arguments, **options))
            return real(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGING:
            patch.setattr(os, name, wrap(name, getattr(os, name)))
        yield made


def die(_call: Callable[[], Any]) -> None:
    raise Killed


def exit_before(_call: Callable[[], Any]) -> None:
    """End the process as SIGKILL does: none of its code runs after that."""
    os._exit(-signal.SIGKILL & 0xFF)


def exit_after(call: Callable[[], Any]) -> None:
    """End the process after a call, also one that fails as expected: `makedirs` tries what is there."""
    try:
        call()
    finally:
        os._exit(-signal.SIGKILL & 0xFF)


def failing(number: int) -> Callable[[Callable[[], Any]], None]:
    """Return what fails with this errno."""

    def fail(_call: Callable[[], Any]) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def interrupt_before(_call: Callable[[], Any]) -> None:
    raise KeyboardInterrupt


def interrupt_after(call: Callable[[], Any]) -> None:
    call()
    raise KeyboardInterrupt


def full(_call: Callable[[], Any]) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_links(*arguments: Any, **options: Any) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))
