"""Asking web servers: connections that are kept, what is tried again, where redirects may lead.

A request may take CKPT_TIMEOUT seconds. After a passing failure (429, some 5xx, a cut connection) it is
retried a few times, each time after a longer pause. A request never goes from https to http, and credentials
are sent only to the host that they are meant for.
"""

from __future__ import annotations

import os
import random
import threading
import time
from functools import partial
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from ...errors import InaccessibleError
from ..work.cancellation import sleep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPConnection, HTTPResponse
    from socket import socket

    from _typeshed import WriteableBuffer

    Room = Callable[[int, Mapping[str, str]], int]

T = TypeVar("T")

ATTEMPTS = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_MOST_REDIRECTS = 5
_IN_URLS = "%/:?#[]@!$&'()*+,;=|"
_MOST_IDLE = 8
"""Connections to one server that wait for the next request."""

_AT_A_TIME = 1 << 18
_LARGEST_TIMEOUT = 86400.0
BUSY = frozenset({408, 429, 500, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
REJECTED = frozenset({401, 403, 407})


class RetryError(Exception):
    """A request failed, and may succeed next time; `pause` is the delay that the server requests."""

    def __init__(self, what: str, pause: float | None = None) -> None:
        super().__init__(what)
        self.pause = pause


class GivenUpError(InaccessibleError):
    """All attempts of a request failed."""


class Request(NamedTuple):
    """A request: `path` is its name in messages, and `authorization` holds the credentials."""

    url: str
    path: str
    authorization: str | None = None


class Answer(NamedTuple):
    """What a server said.

    `body` is incomplete if the connection was `cut`, or if there was `more` than the room for it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    cut: bool = False
    more: bool = False

    @property
    def words(self) -> str:
        """The status as people know it, as `404 Not Found`."""
        from http import HTTPStatus

        known = {each.value: each.phrase for each in HTTPStatus}
        return f"{self.status} {known.get(self.status, '')}".rstrip()


def timeout() -> float:
    """Return how many seconds a request may take.

    Raises InaccessibleError if CKPT_TIMEOUT is not a number.
    """
    text = os.environ.get("CKPT_TIMEOUT", "") or "60"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= _LARGEST_TIMEOUT:
        raise InaccessibleError(
            f"CKPT_TIMEOUT is {text!r}; expected a number of seconds above 0, at most {_LARGEST_TIMEOUT:.0f}"
        )
    return seconds


def pause(seconds: float) -> None:
    """Wait before a request is retried; raise CheckpointError if that is cancelled."""
    sleep(seconds)


def trying(path: str, send_request: Callable[[], T]) -> T:
    """Return what `send_request` returns, which is called again where it raises RetryError.

    Raises GivenUpError with what was the matter the last time.
    """
    for attempt in range(ATTEMPTS):
        try:
            return send_request()
        except RetryError as error:
            what, wanted = str(error), error.pause
        if attempt < ATTEMPTS - 1:
            usual = _FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311  so that not all come at once
            pause(min(max(usual, wanted or 0.0), _LONGEST_PAUSE))
    raise GivenUpError(f"{what} ({ATTEMPTS} attempts)", path=path)


def origin(url: str) -> tuple[str, str, int]:
    """Return whom a URL asks: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def send_request(
    method: str, request: Request, room: Room, headers: Mapping[str, str], *, follow: bool = True
) -> Answer:
    """Send one request, and return the answer, after redirects if `follow` is set. Raises RetryError.

    `room` computes from status and headers how many bytes of the answer are read. Raises InaccessibleError if
    retrying is of no use.
    """
    first, url = origin(request.url), request.url
    for _ in range(_MOST_REDIRECTS + 1):
        is_meant = request.authorization is not None and origin(url) == first
        own = {"Authorization": request.authorization or ""} if is_meant else {}
        answer = _once(method, request._replace(url=url), room, {**headers, **own})
        if not follow or answer.status not in REDIRECTS:
            return answer
        url = redirected(answer, request.path)
    raise InaccessibleError(f"the server redirects more than {_MOST_REDIRECTS} times", path=request.path)


def redirected(answer: Answer, path: str) -> str:
    """Return the target of a redirect. Raises InaccessibleError if it must not be followed."""
    try:
        # Some servers write blanks and bytes beyond ASCII without escapes.
        location = quote(answer.headers.get("Location", "").encode("latin-1", "replace"), safe=_IN_URLS)
        url = urljoin(answer.url, location)
        before, after = urlsplit(answer.url).scheme, urlsplit(url).scheme
        host = origin(url)[1]
    except ValueError:
        # the original message may contain the URL, with a secret
        raise InaccessibleError("the server redirects to an invalid URL", path=path) from None
    if after not in ("http", "https") or (before == "https" and after == "http"):
        raise InaccessibleError(
            f"the server redirects from {before} to {after}, which is not followed", path=path
        )
    if not host or url == answer.url:
        raise InaccessibleError("the server redirects to the same URL, or to one without a host", path=path)
    return url


def _connected(url: str, path: str, seconds: float) -> tuple[SplitResult, HTTPConnection, str]:
    """Return a URL's parts, a connection to its server, and what to ask that for."""
    from http.client import HTTPException

    try:
        parts = urlsplit(url)
        return parts, *_idle.taken(parts, seconds)
    except InaccessibleError as error:
        raise InaccessibleError(error.message, path=path) from None
    except (ValueError, HTTPException):
        raise InaccessibleError("this is not a valid URL", path=path) from None


def _once(method: str, request: Request, room: Room, headers: Mapping[str, str]) -> Answer:
    import socket
    import ssl
    from http.client import HTTPException, InvalidURL

    url, path = request.url, request.path
    seconds = timeout()
    deadline = time.monotonic() + seconds
    parts, connection, target = _connected(url, path, seconds)
    kept = False
    try:
        connection.response_class = partial(_response, deadline)  # type: ignore[assignment]
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        connection.request(method, target, headers={"Accept-Encoding": "identity", **headers})
        response = connection.getresponse()
        response_headers = dict(response.headers.items())
        answer = Answer(response.status, _Folded(response_headers), b"", url)
        if response.status in BUSY:
            raise RetryError(
                f"the server answered {answer.words}", _seconds(answer.headers.get("Retry-After"))
            )
        body, cut, rest = _body(response, room(response.status, answer.headers))
        kept = not cut and not rest and not response.will_close
        return answer._replace(body=body, cut=cut, more=rest and not cut)
    except TimeoutError as error:
        raise RetryError(f"the server did not answer within {seconds:g} seconds (CKPT_TIMEOUT)") from error
    except (socket.gaierror, ConnectionRefusedError, ssl.SSLCertVerificationError) as error:
        words = getattr(error, "verify_message", None) or error.strerror or type(error).__name__
        raise InaccessibleError(f"{parts.hostname} cannot be reached: {words.lower()}", path=path) from error
    except InvalidURL:
        raise InaccessibleError("this is not a valid URL", path=path) from None
    except (OSError, HTTPException) as error:
        is_cut = not isinstance(error, ssl.SSLError | HTTPException)
        is_cut = is_cut or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionError)
        what = "the connection was cut" if is_cut else f"the server does not speak {parts.scheme.upper()}"
        raise RetryError(what) from error
    except ValueError:  # the URL has characters that a request cannot have
        raise InaccessibleError("this is not a valid URL", path=path) from None
    finally:
        if kept:
            _idle.put(parts, connection)
        else:
            connection.close()


class _Punctual(RawIOBase):
    """Reads from a connection until a deadline, which a slow trickle of bytes does not extend."""

    def __init__(self, sock: socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, _: str) -> BufferedReader:
        return BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, room: WriteableBuffer) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(room)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _response(deadline: float, sock: socket, method: str | None = None) -> HTTPResponse:
    """Return the response on a connection. It must be complete at the deadline."""
    from http.client import HTTPResponse

    return HTTPResponse(cast("socket", _Punctual(sock, deadline)), method=method)


def _body(response: HTTPResponse, most: int) -> tuple[bytes, bool, bool]:
    """Return up to `most` bytes of an answer, whether it was cut short, and whether there is more."""
    from http.client import HTTPException

    found = bytearray()
    try:
        while len(found) <= most:
            piece = response.read1(min(_AT_A_TIME, most + 1 - len(found)))
            if not piece:
                return bytes(found), bool(response.length), False
            found += piece
    except (OSError, HTTPException):
        return bytes(found[:most]), True, True
    finally:
        response.close()
    return bytes(found[:most]), False, True


def _seconds(text: str | None) -> float | None:
    """Return how long a server wants to be left alone, where it says so in seconds."""
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 7 else None


class _Folded(dict[str, str]):
    """Headers, whose names are written in capitals or not."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__({name.lower(): value for name, value in headers.items()})

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        return super().get(name.lower(), default)


class _Idle:
    """Connections that wait for the next request, by whom they lead to.  A forked process makes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_origin: dict[tuple[str, str], list[HTTPConnection]] = {}
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._by_origin = {}

    def taken(self, parts: SplitResult, seconds: float) -> tuple[HTTPConnection, str]:
        """Return a connection by which to ask a URL, and what to ask for."""
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        proxy = _proxy(parts)
        with self._lock:
            waiting = self._by_origin.get((parts.scheme, parts.netloc), [])
            while waiting:
                connection = waiting.pop()
                if _is_alive(connection):
                    if proxy is not None and parts.scheme == "http":
                        target = f"http://{parts.netloc}{target}"
                    return connection, target
                connection.close()
        return _connection(parts, seconds, proxy, target)

    def put(self, parts: SplitResult, connection: HTTPConnection) -> None:
        with self._lock:
            waiting = self._by_origin.setdefault((parts.scheme, parts.netloc), [])
            if len(waiting) < _MOST_IDLE:
                waiting.append(connection)
                return
        connection.close()


def _is_alive(connection: HTTPConnection) -> bool:
    """Whether a server has kept an idle connection open: then there is nothing to read from it."""
    import select

    sock = connection.sock
    if sock is None:
        return False
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return not poll.poll(0)


def _connection(
    parts: SplitResult, seconds: float, proxy: SplitResult | None, target: str
) -> tuple[HTTPConnection, str]:
    from http.client import HTTPConnection, HTTPSConnection

    host = parts.hostname or ""
    if proxy is None:
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(host, parts.port, timeout=seconds), target
    means = _proxy_authorization(proxy)
    through = proxy.hostname or "", proxy.port or 80
    if parts.scheme == "https":
        secure = HTTPSConnection(*through, timeout=seconds)
        secure.set_tunnel(host, parts.port or 443, means)
        return secure, target
    plain = HTTPConnection(*through, timeout=seconds)
    if means:
        plain.request = _with(plain.request, means)  # type: ignore[method-assign]
    return plain, f"http://{parts.netloc}{target}"


def _with(request: Callable[..., None], means: Mapping[str, str]) -> Callable[..., None]:
    def send_request(method: str, target: str, headers: Mapping[str, str]) -> None:
        request(method, target, headers={**headers, **means})

    return send_request


def _proxy(parts: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for a URL.  Raises InaccessibleError if that is none."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies_environment
    from urllib.request import proxy_bypass_environment as is_bypassed  # type: ignore[attr-defined]

    found = getproxies_environment()
    named = found.get(parts.scheme) or found.get("all")
    if not named or is_bypassed(parts.netloc, found):
        return None
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        has_port = proxy.port != 0
    except ValueError:
        has_port = False
    if not has_port:
        raise InaccessibleError("the proxy in the environment is not a valid URL")
    return proxy if proxy.scheme == "http" and proxy.hostname else None


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    return {"Proxy-Authorization": basic(proxy.username, proxy.password or "")}


def basic(user: str, password: str) -> str:
    """Return the header's value for a user and a password, both as written in a URL."""
    import base64
    from urllib.parse import unquote_to_bytes

    return "Basic " + base64.b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode()


_idle = _Idle()
