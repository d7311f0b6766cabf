"""Inspect, compare, verify and convert checkpoints.

import ckpt_cli as ckpt

with ckpt.open("run/ckpt-10") as checkpoint:
    checkpoint["net/l1/kernel"][:10]    # a numpy array, its checksum verified

The names in `__all__` are imported at their first use, so that the command `ckpt` does not pay for them.
"""

from __future__ import annotations

from _thread import RLock  # not from threading: importing that takes longer

from .memory import install as _look_for_memory
from .own_formats import install as _install

TYPE_CHECKING = False

if TYPE_CHECKING:
    from formats.errors import CheckpointError

    from .api.average import average
    from .api.checkpoint import Checkpoint, Tensor, open  # noqa: A004  as in `ckpt.open`
    from .api.convert import convert
    from .api.diff import diff
    from .api.extract import extract
    from .api.log import log
    from .api.ls import ls
    from .api.match import match
    from .api.rename import rename
    from .api.sign import sign
    from .api.stats import stats
    from .api.verify import verify

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Tensor",
    "average",
    "convert",
    "diff",
    "extract",
    "log",
    "ls",
    "match",
    "open",
    "rename",
    "sign",
    "stats",
    "verify",
]

_install()
_look_for_memory()

_HOMES = {
    "Checkpoint": "ckpt_cli.api.checkpoint",
    "CheckpointError": "formats.errors",
    "Tensor": "ckpt_cli.api.checkpoint",
    "average": "ckpt_cli.api.average",
    "convert": "ckpt_cli.api.convert",
    "diff": "ckpt_cli.api.diff",
    "extract": "ckpt_cli.api.extract",
    "log": "ckpt_cli.api.log",
    "ls": "ckpt_cli.api.ls",
    "match": "ckpt_cli.api.match",
    "open": "ckpt_cli.api.checkpoint",
    "rename": "ckpt_cli.api.rename",
    "sign": "ckpt_cli.api.sign",
    "stats": "ckpt_cli.api.stats",
    "verify": "ckpt_cli.api.verify",
}
"""The module of each public name."""

_importing = RLock()


if not TYPE_CHECKING:  # a type checker would take every name for one that is there

    def __getattr__(name: str) -> object:
        """Import a public name when it is used for the first time.

        One thread imports at a time, and all of `formats` first.  Otherwise one thread imports the package,
        another a module of it, and each waits for what the other has begun, which Python ends with an error.
        """
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        import importlib

        with _importing:
            importlib.import_module("formats")
            found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
