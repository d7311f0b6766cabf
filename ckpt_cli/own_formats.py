"""`formats` is the package beside `ckpt_cli`, also where a program has a `formats` of its own on `sys.path`.

Otherwise a user's `formats.py` in the current directory, or in a folder of PYTHONPATH, would be imported.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["FindFormatsBeside", "check", "install"]

_BESIDE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class FindFormatsBeside:
    """Finds the module `formats` beside `ckpt_cli`, and leaves every other module to the other finders."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG004  importlib passes it
        target: ModuleType | None = None,  # noqa: ARG004  likewise
    ) -> ModuleSpec | None:
        if name != "formats":
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [_BESIDE])


def check(imported: ModuleType) -> None:
    """Raise ImportError if a program has imported another `formats` before `ckpt_cli`."""
    own = os.path.join(_BESIDE, "formats")
    folders: list[str] = list(getattr(imported, "__path__", ()))
    if any(os.path.realpath(folder) == os.path.realpath(own) for folder in folders):
        return
    other = getattr(imported, "__file__", None) or next(iter(folders), "one without a file")
    message = (
        f"ckpt_cli needs its own package 'formats' ({own}), but this program has imported another "
        f"module of that name: {other}. Rename that module."
    )
    raise ImportError(message, name="formats", path=other)


def install() -> None:
    """Have every later `import formats` find the package beside `ckpt_cli`; nothing is imported for it."""
    imported = sys.modules.get("formats")
    if imported is not None:
        check(imported)
    if FindFormatsBeside not in sys.meta_path:
        sys.meta_path.insert(0, FindFormatsBeside)
