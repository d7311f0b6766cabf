"""Makes `formats` the package next to `ckpt_cli`, even if a program has its own `formats` on `sys.path`.

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
    from typing import NoReturn

__all__ = ["FindOtherFormats", "check", "install"]

_CANNOT = 3  # as in ckpt_cli.__main__

_BESIDE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class FindOtherFormats:
    """Finds the module `formats` next to `ckpt_cli`, and leaves every other module to the other finders."""

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
        f"ckpt_cli needs its own package 'formats' ({own}), but this program has already imported "
        f"another module of that name: {other}. Rename that module."
    )
    raise ImportError(message, name="formats", path=other)


def _is_the_command() -> bool:
    """Whether this process is `ckpt` or `python -m ckpt_cli`, rather than a program that imports it."""
    if sys.argv[:1] != ["-m"]:  # the script that pip writes, ckpt.exe on Windows
        return os.path.basename(sys.argv[0] if sys.argv else "").partition(".")[0] == "ckpt"
    return sys.orig_argv[-len(sys.argv)] in ("ckpt_cli", "-mckpt_cli")


def _end(error: ImportError) -> NoReturn:
    """Say it as any error of the command; what does that otherwise would import `formats`."""
    other = str(error.path)
    shown = other if other.isprintable() else ascii(other)
    text = (
        f"ckpt: error: {shown}: another module named 'formats' was imported before ckpt started, "
        "and ckpt needs its own\n"
        "hint: rename that module; sitecustomize, usercustomize or a .pth file may have imported it\n"
    )
    os.write(2, text.encode(errors="backslashreplace"))
    sys.exit(_CANNOT)


def install() -> None:
    """Make every later `import formats` find the package next to `ckpt_cli`; nothing is imported for it."""
    imported = sys.modules.get("formats")
    if imported is not None:
        try:
            check(imported)
        except ImportError as error:
            if os.environ.get("CKPT_DEBUG") or not _is_the_command():
                raise
            _end(error)
    if FindOtherFormats not in sys.meta_path:
        sys.meta_path.insert(0, FindOtherFormats)
