"""What obstore answers, in our words: errors without the request that they speak of, entries.

What it says of an error holds addresses and requests; what is said here is a status, and a code of the
provider's.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, CheckpointNotFoundError, InaccessibleError, UnsupportedFeatureError
from .base import FILE, Entry, UnlistedError
from .providers import NOWHERE
from .server import changed
from .transport import BUSY, REFUSED, Again
from .urls import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEEDED = "pip install 'ckpt-tools[remote]'"
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_GOT = re.compile(r"Requested (\d+)\.\.(\d+), got (\d+)\.\.(\d+)")
_NO_RANGE = ("non-partial response", "Content-Range")
"""What it says where a server does not answer with a range, or does not say with which."""

_ODD_NAME = "object with invalid path"
"""What it says of a listing that holds an empty name, `..`, or one with control characters."""

_PASSING = ("error sending request", "error decoding response body", "timed out", "request or response body")
"""What it says of connections that were cut, or answers that did not come in time."""

_NOBODY = ("ConnectionRefused", "dns error", "certificate")
"""What it says where asking again is no use."""

_OTHER_SCHEME = "BadScheme"
"""What it says of a redirect from https to http, or to what is neither."""

_PANIC = "PanicException"
"""What it raises where its own code did not foresee something; it is no Exception."""


class RefusedError(InaccessibleError):
    """The server knows who asks, or does not, and tells nothing."""


def library(path: str) -> Any:
    """Return obstore.  Raises UnsupportedFeatureError where it is not installed."""
    try:
        import obstore
    except ImportError:
        message = f"{scheme_of(path)}:// is read by obstore, which is not installed"
        raise UnsupportedFeatureError(message, path=path, hints=(_NEEDED,)) from None
    return obstore


def entry_of(meta: Any) -> Entry:
    """Return what it says of an object."""
    identity = (meta["e_tag"] or meta["last_modified"].isoformat(), meta["size"])
    return Entry(FILE, meta["size"], meta["last_modified"].timestamp(), identity)


@contextmanager
def told(path: str, settings: str) -> Iterator[None]:
    """Say what it raises as what it is; `settings` are the variables by which who asks is said.

    Raises CheckpointNotFoundError, InaccessibleError, Again.
    """
    try:
        yield
    except (CheckpointError, Again):
        raise
    except FileNotFoundError:
        raise CheckpointNotFoundError("no such file", path=path) from None
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        raise _in_our_words(error, path, settings) from None


def is_unknown(error: Exception) -> bool:
    """Whether a server says that it does not know what it was asked for (501)."""
    status = _STATUS.search(str(error))
    return status is not None and status[1] == "501"


def _in_our_words(error: BaseException, path: str, settings: str) -> Exception:
    text = str(error).partition("Debug source")[0]
    status, code = _STATUS.search(text), _CODE.search(text)
    if type(error).__name__ == "PreconditionError" or (status and status[1] in ("412", "416")):
        return changed(path)
    if status:
        if int(status[1]) in BUSY:
            return Again(f"the server answered {status[1]}")
        if status[1] == "404":
            return CheckpointNotFoundError(f"the server answered 404{_named(code)}", path=path)
        kind = RefusedError if int(status[1]) in REFUSED else InaccessibleError
        found = kind(f"the server answered {status[1]}{_named(code)}", path=path)
        if status[1] in ("400", "401", "403"):
            found.hints = (f"who asks is said by the environment: {settings}",)
        return found
    got = _GOT.search(text)
    if got and got[1] == got[3] and int(got[4]) < int(got[2]):
        return Again(f"{int(got[4]) - int(got[3]):,} of {int(got[2]) - int(got[1]):,} bytes came")
    if got:
        message = "the server answered with another range than was asked for"
        return InaccessibleError(message, path=path)
    if _ODD_NAME in text:
        return UnlistedError("the server lists a name that no path has", path=path)
    if any(each in text for each in _NO_RANGE):
        return InaccessibleError("the server sends no ranges", path=path)
    if NOWHERE in str(error):
        return InaccessibleError("the server redirects to another host, which is not followed", path=path)
    if _OTHER_SCHEME in str(error):
        return InaccessibleError("the server redirects to another scheme, which is not followed", path=path)
    if any(each in str(error) for each in _NOBODY):
        return InaccessibleError("the server cannot be reached", path=path)
    if any(each in text for each in _PASSING):
        return Again("no answer came, or was cut")
    if isinstance(error, ValueError):
        return InaccessibleError("no key that can be asked for", path=path)
    found = InaccessibleError("cannot be asked for", path=path)
    found.hints = (f"the environment says where and as whom: {settings}",)
    return found


def _named(code: re.Match[str] | None) -> str:
    return f", {code[1]}" if code else ""
