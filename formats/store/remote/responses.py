"""obstore's answers translated: errors without the requests that they quote, and entries.

obstore's errors contain addresses and requests. The messages here have a status, and the provider's code.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import CheckpointError, CheckpointNotFoundError, InaccessibleError, UnsupportedFeatureError
from ..base import FILE, Entry, UnlistedError
from ..urls import scheme_of
from .credentials import NOWHERE
from .server import changed
from .transport import BUSY, REJECTED, RetryError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEEDED = "to install it: pip install 'ckpt-tools[remote]'"
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_GOT = re.compile(r"Requested (\d+)\.\.(\d+), got (\d+)\.\.(\d+)")
_PASSING = ("error sending request", "error decoding response body", "timed out", "request or response body")
"""Its words for connections that were cut, and for timeouts."""

_PANIC = "PanicException"
"""The error that it raises for an unforeseen state of its own. It is not an Exception."""


class RejectedError(InaccessibleError):
    """The server rejects the credentials, or the lack of them."""


class _ErrorPattern(NamedTuple):
    """Words of the library, whether they are in its error or in the source of that, and what they mean."""

    words: tuple[str, ...]
    is_of_source: bool
    kind: type[InaccessibleError]
    message: str


_SAYINGS = (
    # A listing holds an empty name, `..`, or one with control characters.
    _ErrorPattern(
        ("object with invalid path",), False, UnlistedError, "the server's listing has an invalid name"
    ),
    # No range came, or none that says which it is.
    _ErrorPattern(
        ("non-partial response", "Content-Range"),
        False,
        InaccessibleError,
        "the server does not support range requests",
    ),
    _ErrorPattern(
        (NOWHERE,), True, InaccessibleError, "the server redirects to another host, which is not followed"
    ),
    # From https to http, or to what is neither.
    _ErrorPattern(
        ("BadScheme",),
        True,
        InaccessibleError,
        "the server redirects to another scheme, which is not followed",
    ),
    # Retrying is of no use.
    _ErrorPattern(
        ("ConnectionRefused", "dns error", "certificate"),
        True,
        InaccessibleError,
        "the server cannot be reached",
    ),
)


def library(path: str) -> Any:
    """Return obstore.  Raises UnsupportedFeatureError if it is not installed."""
    try:
        import obstore
    except ImportError:
        message = f"{scheme_of(path)}:// needs obstore, which is not installed"
        raise UnsupportedFeatureError(message, path=path, hints=(_NEEDED,)) from None
    return obstore


def entry_of(meta: Any) -> Entry:
    """Return what it says of an object."""
    identity = (meta["e_tag"] or meta["last_modified"].isoformat(), meta["size"])
    return Entry(FILE, meta["size"], meta["last_modified"].timestamp(), identity)


@contextmanager
def translated_errors(path: str, settings: str) -> Iterator[None]:
    """Translate its errors; `settings` are the variables that hold credentials.

    Raises CheckpointNotFoundError, InaccessibleError, RetryError.
    """
    try:
        yield
    except (CheckpointError, RetryError):
        raise
    except FileNotFoundError:
        raise CheckpointNotFoundError("no such file", path=path) from None
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        raise _in_our_words(error, path, settings) from None


def is_unknown(error: Exception) -> bool:
    """Whether a server answers that it does not support a request (501)."""
    status = _STATUS.search(str(error))
    return status is not None and status[1] == "501"


def _in_our_words(error: BaseException, path: str, settings: str) -> Exception:
    text = str(error).partition("Debug source")[0]
    status, got = _STATUS.search(text), _GOT.search(text)
    if type(error).__name__ == "PreconditionError":
        return changed(path)
    if status:
        return _of_status(status[1], _CODE.search(text), path, settings)
    if got:
        return _of_other_bytes(*(int(each) for each in got.groups()), path=path)
    for wording in _SAYINGS:
        where = str(error) if wording.is_of_source else text
        if any(each in where for each in wording.words):
            return wording.kind(wording.message, path=path)
    if any(each in text for each in _PASSING):
        return RetryError("the server did not answer, or the connection was cut")
    if isinstance(error, ValueError):
        return InaccessibleError("this is not a valid key", path=path)
    found = InaccessibleError("the request failed", path=path)
    found.hints = (f"set the endpoint and credentials in the environment: {settings}",)
    return found


def _of_status(status: str, code: re.Match[str] | None, path: str, settings: str) -> Exception:
    if status in ("412", "416"):
        return changed(path)
    if int(status) in BUSY:
        return RetryError(f"the server answered {status}")
    if status == "404":
        return CheckpointNotFoundError(f"the server answered 404{_named(code)}", path=path)
    kind = RejectedError if int(status) in REJECTED else InaccessibleError
    found = kind(f"the server answered {status}{_named(code)}", path=path)
    if status in ("400", "401", "403"):
        found.hints = (f"set credentials in the environment: {settings}",)
    return found


def _of_other_bytes(first: int, end: int, came_first: int, came_end: int, *, path: str) -> Exception:
    """Return the error for an answer with other bytes than those requested."""
    if first == came_first and came_end < end:
        return RetryError(f"only {came_end - came_first:,} of {end - first:,} bytes arrived")
    return InaccessibleError("the server answered with a different range than requested", path=path)


def _named(code: re.Match[str] | None) -> str:
    return f", {code[1]}" if code else ""
