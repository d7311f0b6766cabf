"""A stub of the Hub: it lists a repository, and redirects requests for a file to a signed URL elsewhere."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.web import Handler, Web, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNATURE = "Signature=signedsecret"
SMALL = 1000
"""Bytes below which the Hub sends a file itself."""


def blob_id(data: bytes) -> str:
    """Return what git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """The files of one repository, `org/repo`, at one `revision`; `web` answers first, then `storage`.

    `tampered` changes a page of a listing, `token` is required in requests, and `page` is the number of names
    in a page.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.revision = "main"
        self.web, self.storage = Web(), Web()
        self.web.fault = self._answer
        self.storage.fault = self._serve
        self.token: str | None = None
        self.page = 1000
        self.signature = SIGNATURE
        self.tampered = lambda page: page
        self.redirect = "{url}"
        self.link: str | None = None

    def _answer(self, handler: Handler, _: bytes | None) -> bool:
        parts = urlsplit(handler.path)
        tree = f"/api/models/org/repo/tree/{self.revision}"
        resolved = f"/org/repo/resolve/{self.revision}/"
        if self.token is not None and handler.headers.get("Authorization") != f"Bearer {self.token}":
            handler.say(401)
        elif parts.path.startswith(tree):
            self._list(handler, unquote(parts.path.removeprefix(tree)).strip("/"))
        elif parts.path.startswith(resolved):
            self._resolve(handler, unquote(parts.path.removeprefix(resolved)))
        else:
            is_repository = parts.path.startswith(("/api/models/org/repo/", "/org/repo/"))
            missing = "RevisionNotFound" if is_repository else "RepoNotFound"
            is_hidden = not is_repository and self.token is None
            handler.say(401 if is_hidden else 404, b"", {"X-Error-Code": missing})
        return True

    def _list(self, handler: Handler, folder: str) -> None:
        before = f"{folder}/" if folder else ""
        names = sorted(
            {path.removeprefix(before).partition("/")[0] for path in self.files if path.startswith(before)}
        )
        if not names:
            handler.say(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        start = int(parse_qs(urlsplit(handler.path).query).get("cursor", ["0"])[0])
        page = [self._listed(before + name) for name in names[start : start + self.page]]
        headers = {}
        if start + self.page < len(names):
            place = urlsplit(handler.path).path
            link = self.link or f"{self.web.url}{place}?cursor={start + self.page}"
            headers["Link"] = f'<{link}>; rel="next"'
        handler.say(200, json.dumps(self.tampered(page)).encode(), headers)

    def _listed(self, path: str) -> dict[str, object]:
        data = self.files.get(path)
        if data is None:
            return {"type": "directory", "oid": "0" * 40, "size": 0, "path": path}
        found: dict[str, object] = {
            "type": "file",
            "oid": blob_id(data),
            "size": len(data),
            "path": path,
        }
        if len(data) >= SMALL:
            found["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return found

    def _resolve(self, handler: Handler, path: str) -> None:
        data = self.files.get(path)
        if data is None:
            handler.say(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif len(data) < SMALL:
            self.web.etags[handler.place] = f'"{blob_id(data)}"'
            handler.answer(data)
        else:
            checksum = hashlib.sha256(data).hexdigest()
            self.storage.files[f"/{checksum}"] = data
            url = f"{self.storage.url}/{checksum}?{self.signature}"
            headers = {"Location": self.redirect.format(url=url), "X-Linked-Etag": f'"{checksum}"'}
            handler.say(302, b"", {**headers, "X-Linked-Size": str(len(data))})

    def _serve(self, handler: Handler, _: bytes | None) -> bool:
        signed = urlsplit(handler.path).query == self.signature
        if not signed or "Authorization" in handler.headers:
            handler.say(403)
            return True
        return False


@contextmanager
def serving_hub(hub: Hub) -> Iterator[Hub]:
    with serving(hub.web), serving(hub.storage):
        yield hub
