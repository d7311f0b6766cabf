"""URLs of stores that there are none for, which must not be taken for paths.

`s3://bucket/run/ckpt-1` is a path to every system call, of a directory called `s3:`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterable

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)

_COPY = "copy the file to this machine and pass the path of the copy"


def scheme_of(path: str) -> str:
    """Return the scheme of a URL; an empty one of a path, as `./s3://x` is."""
    url = _URL.match(path)
    return url["scheme"].lower() if url is not None else ""


def local_path(url: str) -> str:
    """Return the path that a `file://` URL names.  Raises UnsupportedFeatureError for another machine's."""
    from urllib.parse import unquote

    host, slash, path = url.partition("://")[2].partition("/")
    if host not in ("", "localhost") or not slash:
        message = "a file:// URL names a path on this machine, for example file:///run/ckpt-1"
        raise UnsupportedFeatureError(message, path=public(url))
    return "/" + unquote(path)


def public(url: str) -> str:
    """Return a URL without its secrets: without user, password and query. A password may contain a `/`."""
    scheme, _, rest = url.partition("://")
    who, at, place = rest.rpartition("@")
    if "?" in who:  # a password may have that, too, and a query an `@`
        return f"{scheme}://***"
    return f"{scheme}://{'***@' if at else ''}{place.partition('?')[0]}"


def refuse_query(url: str) -> None:
    """Raise UnsupportedFeatureError for a URL with a query, which may be a signature, where none is sent.

    A `?` alone may belong to a name: sharded V1 checkpoints have it in theirs.
    """
    if "=" in url.partition("?")[2]:
        scheme = scheme_of(url)
        hints = ("use the https:// form of a signed URL; if the name itself contains ? and =, copy the file",)
        message = f"{scheme}:// URLs take no query; set credentials in the environment"
        raise UnsupportedFeatureError(message, path=public(url), hints=hints)


def no_store(path: str, scheme: str, known: Iterable[str]) -> UnsupportedFeatureError:
    """Return the error about a URL that no store here reads; those of the `known` schemes are."""
    hints = (f"use a URL that begins with {', '.join(f'{each}://' for each in known)}; or {_COPY}",)
    return UnsupportedFeatureError(f"{scheme}:// URLs are not supported", path=public(path), hints=hints)


def only_read(path: str, scheme: str) -> UnsupportedFeatureError:
    """Return the error about a target in a store that is read, and not written."""
    hint = "write to a local path, then copy the result"
    return UnsupportedFeatureError(f"{scheme}:// can be read, but not written", path=path, hints=(hint,))


def no_target(path: str, scheme: str) -> UnsupportedFeatureError:
    """Return the error about a target in a store that is written to, for what is not written there."""
    hint = "write to a local path; convert, extract and average can write to URLs"
    return UnsupportedFeatureError(f"this output cannot be written to {scheme}://", path=path, hints=(hint,))
