"""A server that takes and gives objects as the XML API of Google does: fake-gcs-server takes none by it.

    GET /BUCKET?list-type=2&prefix=&delimiter=   what is there
    GET, HEAD, PUT, DELETE /BUCKET/KEY           one object; `x-goog-if-generation-match` is its condition
    POST /BUCKET/KEY?uploads                     an upload in parts; then PUT ?partNumber=&uploadId= of each,
    POST or DELETE /BUCKET/KEY?uploadId=         and its end
https://cloud.google.com/storage/docs/xml-api/overview
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.servers.web import answering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class _Object(NamedTuple):
    data: bytes
    generation: int
    e_tag: str


class Google:
    """Objects by path, `/BUCKET/KEY`; `uploads` are parts by number of those that are not complete.

    `fault` is called for each request. If it returns a status, that is the answer, and the request has no
    effect.
    """

    def __init__(self) -> None:
        self.url = ""
        self.fault: Callable[[str, str, Mapping[str, str]], int | None] = lambda *_: None
        self.objects: dict[str, _Object] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()
        self._count = 0

    def number(self) -> int:
        self._count += 1
        return self._count

    def put(self, path: str, data: bytes, e_tag: str = "") -> _Object:
        """Keep an object; the e_tag of an upload in parts is not a hash of its bytes."""
        number = self.number()
        made = _Object(data, number, e_tag or hashlib.md5(data, usedforsecurity=False).hexdigest())
        self.objects[path] = made
        return made

    def listed(self, bucket: str, prefix: str, delimiter: str) -> str:
        rows, folders = [], set()
        for path, each in sorted(self.objects.items()):
            key = path.removeprefix(f"{bucket}/")
            if key == path or not key.startswith(prefix):
                continue
            below, found, _ = key.removeprefix(prefix).partition(delimiter)
            if found:
                folders.add(prefix + below + delimiter)
            else:
                rows.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                    f'<ETag>"{each.e_tag}"</ETag><Size>{len(each.data)}</Size></Contents>'
                )
        rows += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders]
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    google: Google

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        headers.setdefault("Content_Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        return unquote(parts.path), {name: values[0] for name, values in query.items()}

    def _about(self, each: _Object) -> dict[str, str]:
        return {
            "ETag": f'"{each.e_tag}"',
            "x_goog_generation": str(each.generation),
            "Last_Modified": formatdate(0, usegmt=True),
        }

    def _fails(self) -> bool:
        status = self.google.fault(self.command, self.path, {**self.headers})
        if status is not None:
            self._body()
            self._answer(status)
        return status is not None

    def do_GET(self) -> None:
        if self._fails():
            return
        path, query = self._asked()
        if "list-type" in query:
            found = self.google.listed(path.rstrip("/"), query.get("prefix", ""), query.get("delimiter", "/"))
            self._answer(200, found.encode(), Content_Type="application/xml")
            return
        each = self.google.objects.get(path)
        if each is None:
            self._answer(404)
            return
        about = self._about(each)
        asked = self.headers.get("Range")
        if asked is None:
            self._answer(200, each.data, **{**about, "Content_Length": str(len(each.data))})
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        piece = each.data[int(first) : int(last) + 1]
        end = int(first) + len(piece) - 1
        self._answer(206, piece, **about, Content_Range=f"bytes {first}-{end}/{len(each.data)}")

    do_HEAD = do_GET

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_PUT(self) -> None:
        if self._fails():
            return
        path, query = self._asked()
        body = self._body()
        with self.google.lock:
            if "uploadId" in query:
                self.google.uploads[query["uploadId"]][int(query["partNumber"])] = body
                self._answer(200, ETag=f'"part-{query["partNumber"]}"')
                return
            wanted = self.headers.get("x-goog-if-generation-match")
            found = self.google.objects.get(path)
            if wanted is not None and int(wanted) != (found.generation if found else 0):
                self._answer(412)
                return
            self._answer(200, **self._about(self.google.put(path, body)))

    def do_POST(self) -> None:
        if self._fails():
            return
        path, query = self._asked()
        self._body()
        with self.google.lock:
            if "uploads" in query:
                name = f"upload-{self.google.number()}"
                self.google.uploads[name] = {}
                inner = f"<Bucket>b</Bucket><Key>k</Key><UploadId>{name}</UploadId>"
                text = f"<InitiateMultipartUploadResult>{inner}</InitiateMultipartUploadResult>"
                self._answer(200, text.encode(), Content_Type="application/xml")
                return
            parts = self.google.uploads.pop(query["uploadId"])
            data = b"".join(parts[number] for number in sorted(parts))
            made = self.google.put(path, data, f"of-parts-{self.google.number()}=")
            inner = f'<ETag>"{made.e_tag}"</ETag>'
            text = f"<CompleteMultipartUploadResult>{inner}</CompleteMultipartUploadResult>"
            self._answer(200, text.encode(), Content_Type="application/xml", **self._about(made))

    def do_DELETE(self) -> None:
        if self._fails():
            return
        path, query = self._asked()
        with self.google.lock:
            if "uploadId" in query:
                self.google.uploads.pop(query["uploadId"], None)
                self._answer(204)
            else:
                self._answer(204 if self.google.objects.pop(path, None) else 404)


@contextmanager
def google() -> Iterator[Google]:
    """Run such a server as long as the context lasts."""
    store = Google()
    with answering(type("Handler", (_Handler,), {"google": store})) as store.url:
        yield store
