"""A web server on this machine that supports ranges, records requests, and fails as a test decides."""

from __future__ import annotations

import datetime
import email.utils
import hashlib
import ipaddress
import json
import os
import re
import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

MODIFIED = 1_700_000_000.0

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Request:
    """A request; `sent` is the number of bytes of a file in the answer."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    sent: int = 0


@cache
def _etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:16]}"'


class Web:
    """Files by path, and the requests for them.

    `fault` is called before each answer with its handler and the file's bytes, None where there is no
    file; where it returns True it has answered.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.fault: Callable[[Handler, bytes | None], bool] = lambda _, __: False
        self.lists = False
        self.knows_ranges = True
        self.etags: dict[str, str] = {}
        self.url = ""

    def put_tree(self, directory: str, below: str = "") -> str:
        """Serve a directory of this machine, or a file; return its URL."""
        base, name = os.path.split(os.path.abspath(directory))
        found = [os.path.join(parent, each) for parent, _, names in os.walk(directory) for each in names]
        for path in found or [directory]:
            with open(path, "rb") as file:
                self.files[f"{below}/{os.path.relpath(path, base)}"] = file.read()
        return f"{self.url}{below}/{name}"

    def asked(self, method: str = "") -> list[tuple[str, str]]:
        """Return method and path of all requests, or those of one method."""
        return [(each.method, each.path) for each in self.requests if method in ("", each.method)]

    @property
    def sent(self) -> int:
        return sum(each.sent for each in self.requests)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # With Nagle's algorithm a body waits 40 ms for the ACK of its header.
    web: Web

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    @property
    def place(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _answer(self) -> None:
        query = urlsplit(self.path).query
        self.noted = Request(self.command, self.place, query, dict(self.headers.items()))
        self.web.requests.append(self.noted)  # before the client has an answer
        data = self.web.files.get(self.place)
        try:
            if not self.web.fault(self, data):
                self.answer(data)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, data: bytes | None) -> None:
        """Answer as a server does with which nothing is wrong."""
        if data is None:
            self._folder()
            return
        headers = self.headers_of(data)
        wanted = self.headers.get("If-Match")
        if wanted is not None and wanted != headers["ETag"]:
            self.say(412)
            return
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None or not self.web.knows_ranges:
            self.say(200, data, headers)
            return
        begin, end = int(match[1]), min(int(match[2] or len(data)) + 1, len(data))
        if begin >= len(data):
            self.say(416, b"", {**headers, "Content-Range": f"bytes */{len(data)}"})
            return
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
        self.say(206, data[begin:end], headers)

    def headers_of(self, data: bytes) -> dict[str, str]:
        """Return what a sound answer says of a file."""
        etag = self.web.etags.get(self.place) or _etag(data)
        return {"ETag": etag, "Last-Modified": email.utils.formatdate(MODIFIED, usegmt=True)}

    def _folder(self) -> None:
        inside = self.place.rstrip("/") + "/"
        names = sorted(path.removeprefix(inside) for path in self.web.files if path.startswith(inside))
        if not names:
            self.say(404)
        elif not self.place.endswith("/"):
            self.say(301, b"", {"Location": self.path + "/"})
        elif not self.web.lists:
            self.say(403)
        else:
            found = {name.partition("/")[0]: "directory" if "/" in name else "file" for name in names}
            body = json.dumps([{"name": name, "type": kind} for name, kind in found.items()])
            self.say(200, body.encode(), {"Content-Type": "application/json"})

    def say(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = {}, length: int | None = None
    ) -> None:
        """Send an answer, which says another length than it has where that is given."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.noted.sent = len(body) if status in (200, 206) else 0
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Closes its connections with itself: who waits at one would keep its files until the process ends."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self._connections):
            with suppress(OSError):  # the client may have closed it
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Say nothing of who went away."""


@contextmanager
def answering(
    handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1", tls: Path | None = None
) -> Iterator[str]:
    """Have requests answered on this machine as long as the context lasts; yield the URL.

    With `tls`, a folder, that is one of https; who trusts `cert.pem` there trusts it.
    """
    with Server((host, 0), handler) as server:
        if tls is not None:
            server.socket = certified(host, tls).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'' if tls is None else 's'}://{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def certified(host: str, folder: Path) -> ssl.SSLContext:
    """Return what proves a server of https, by a certificate of its own, which it puts into a folder."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@contextmanager
def serving(web: Web, host: str = "127.0.0.1", tls: Path | None = None) -> Iterator[Web]:
    """Have files served on this machine as long as the context lasts."""
    with answering(type("Bound", (Handler,), {"web": web}), host, tls) as web.url:
        yield web
