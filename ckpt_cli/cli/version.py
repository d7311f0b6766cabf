"""`ckpt --version`: which ckpt this is and, asked to tell more, on what it runs."""

from __future__ import annotations

__all__ = ["version_lines"]


def version_lines(*, verbose: bool) -> list[str]:
    """Return the output of `ckpt --version`.

    The versions of packages are looked up without importing them.
    """
    from formats.core.version import VERSION  # with all of `formats`, which no other start needs

    lines = [f"ckpt {VERSION}"]
    if verbose:
        import platform

        lines += [f"Python {platform.python_version()}"]
        lines += [f"{name} {_installed(name)}" for name in ("numpy", "h5py", "click")]
        lines += [platform.platform()]
    return lines


def _installed(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
