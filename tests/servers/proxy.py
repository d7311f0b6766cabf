"""A proxy in front of a third-party server: it forwards requests, and fails as a test decides.

The headers are forwarded unchanged, Host included, so that signed requests stay signed.
"""

from __future__ import annotations

import http.client
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from tests.servers.web import answering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Said(NamedTuple):
    """What the server behind has answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Asked(NamedTuple):
    """A request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def range(self) -> str:
        """The requested range of an object; empty for other requests."""
        found = (value for name, value in self.headers.items() if name.lower() == "range")
        return next(found, "") if self.method == "GET" else ""


class Proxy:
    """Hands on to the server at a URL.

    `fault` is called for each range of an object: it returns the answer to send instead of the server's, or
    None to cut the connection. `delay` is the number of seconds to wait before each answer. A request for
    which `hangs` is True never reaches the server, and is answered when the proxy ends.
    """

    def __init__(self, behind: str) -> None:
        self.behind = urlsplit(behind).netloc
        self.url = ""
        self.forget()

    def forget(self) -> None:
        """Remove all faults and all recorded requests."""
        self.fault: Callable[[Asked, Said], Said | None] = lambda _, said: said
        self.delay = 0.0
        self.hangs: Callable[[Asked], bool] = lambda _: False
        self.over = threading.Event()
        self.asked: list[Asked] = []

    def hand_on(self, asked: Asked) -> Said:
        """Return what the server behind answers."""
        connection = http.client.HTTPConnection(self.behind, timeout=60)
        try:
            connection.putrequest(asked.method, asked.target, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.headers.items():
                connection.putheader(name, value)
            connection.endheaders(asked.body)
            answer = connection.getresponse()
            return Said(answer.status, dict(answer.headers.items()), answer.read())
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: Proxy

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = Asked(self.command, self.path, dict(self.headers.items()), body)
        self.proxy.asked.append(asked)
        time.sleep(self.proxy.delay)
        if self.proxy.hangs(asked):
            self.proxy.over.wait()
            self.close_connection = True
            return
        said: Said | None = self.proxy.hand_on(asked)
        if asked.range and said is not None:
            said = self.proxy.fault(asked, said)
        if said is None:
            self.close_connection = True
            return
        self.send_response_only(said.status)
        told = {name.lower() for name in said.headers}
        for name, value in said.headers.items():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        if "content-length" not in told:
            self.send_header("Content-Length", str(len(said.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said.body)
            length = int(said.headers.get("Content-Length", len(said.body)))
            self.close_connection = self.close_connection or length > len(said.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxied(behind: str) -> Iterator[Proxy]:
    """Have a proxy before the server at a URL as long as the context lasts."""
    proxy = Proxy(behind)
    with answering(type("Bound", (_Handler,), {"proxy": proxy})) as proxy.url:
        try:
            yield proxy
        finally:
            proxy.over.set()
