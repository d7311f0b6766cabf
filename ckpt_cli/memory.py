"""numpy is imported where there is memory for it: its linear algebra would end the process with exit code 1.

OpenBLAS allocates a buffer when it is loaded, and another one at its first multiplication. If that fails, it
calls `exit(1)`, bypassing Python, and 1 would mean a negative answer. So the memory is checked before, and
the buffer is allocated at once. A second thread that multiplies at the same time would need its own buffer,
and has to wait.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = ["FindNumpyWithMemory", "install", "return_freed_blocks"]

_NEEDED = 128 << 20
"""Bytes that importing numpy takes with one thread of OpenBLAS and its first product, and a little more."""

_LARGE = 64
"""Rows and columns above OpenBLAS' small matrices, which it multiplies without a buffer."""


_MMAP_THRESHOLD, _LARGEST_KEPT = -3, 1 << 20
"""The number of an option in malloc.h of the GNU C library, and bytes of the largest block that is kept."""


def return_freed_blocks() -> None:
    """Have the C library give each large block back to the system when it is freed.

    By itself it keeps more and more of them.  Those that threads fetch and free then leave holes in its
    heaps, which come to several times what is in use.
    """
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # of the GNU C library alone
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)


class FindNumpyWithMemory:
    """Finds numpy where there is memory for it, and raises MemoryError if there is none."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG004  importlib passes it
    ) -> ModuleSpec | None:
        if name != "numpy":
            return None
        import mmap
        from importlib.machinery import PathFinder

        try:
            mmap.mmap(-1, _NEEDED).close()  # no byte of it is used
        except OSError as error:
            raise MemoryError(f"importing numpy needs {_NEEDED >> 20} MB of memory") from error
        spec = PathFinder.find_spec(name, path)
        loader: Any = spec and spec.loader
        if loader is not None:
            execute = loader.exec_module

            def execute_and_multiply(module: Any) -> None:
                execute(module)
                ones = module.ones((_LARGE, _LARGE))
                ones @ ones

            loader.exec_module = execute_and_multiply
        return spec


def install() -> None:
    """Look for memory before numpy is imported."""
    if FindNumpyWithMemory not in sys.meta_path:
        sys.meta_path.insert(0, FindNumpyWithMemory)
