"""Files of the Hugging Face Hub, `hf://org/repo/path`, read by ranges.

    hf://[datasets/|spaces/]ORG/REPO[@REVISION][/PATH]     in a revision `/` is written %2F

The store uses two requests of the Hub's API, on which other programs also rely:

    GET /api/models/ORG/REPO/tree/REVISION/FOLDER   a page of a folder's listing, with sizes and checksums
    GET /ORG/REPO/resolve/REVISION/PATH             the file, or a redirect to a signed URL of another host

HF_ENDPOINT names another Hub. The credentials are HF_TOKEN, or the file that `hf auth login` writes.
HF_HUB_OFFLINE forbids all requests. The token goes to the Hub, never to the host of a signed URL. A branch
that moves during a read would mix two checkpoints, so each file must have the checksum from its folder's
listing.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from ...errors import CheckpointError, CheckpointNotFoundError, InaccessibleError, UnsupportedFeatureError
from ..base import FILE, FOLDER, NO_FOLDER, Entry
from ..local.files import LOCAL
from ..urls import public, refuse_query
from ..work.single_flight import SingleFlight
from .http import HttpStore
from .hub_sums import FileSum
from .range_cache import LOOK
from .server import ListedStore, changed, count
from .transport import (
    REDIRECTS,
    REJECTED,
    Answer,
    Request,
    RetryError,
    origin,
    redirected,
    send_request,
    trying,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..base import File, Identity

_KINDS = ("datasets", "spaces")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w.+/-]{0,254}", re.ASCII)
_CHECKSUM = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NEXT = re.compile(r'<([^<>]*)>;\s*rel="next"')
_MOST_PAGES = 1000
_LARGEST_PAGE = 32 << 20
_LARGEST_TOKEN = 4096
_MOST_STEPS = 5


class RepositoryPath(NamedTuple):
    """The parts of a URL: the repository, as the Hub's pages and its API call it, a revision, and a path."""

    kind: str
    repo: str
    revision: str
    inside: str

    @property
    def page(self) -> str:
        return f"{self.kind}/{self.repo}" if self.kind in _KINDS else self.repo


class HubStore(ListedStore):
    """All repositories of the Hub."""

    scheme = "hf"

    def forget(self) -> None:
        super().forget()
        self._web = HttpStore("https")
        self._found: dict[tuple[str, Identity], tuple[Request, Identity]] = {}
        self._sums: dict[tuple[str, Identity], list[FileSum]] = {}

    @contextmanager
    def summing(self, files: Iterable[File]) -> Iterator[list[FileSum]]:
        """Sum files while they are read, so that their bytes are downloaded once."""
        sums = []
        for file in files:
            sums.append(FileSum(file.path, file.identity))
            self._sums.setdefault((file.path, file.identity), []).append(sums[-1])
            sums[-1].add(0, file.read(0, min(file.size, LOOK)))  # these bytes may already be in memory
        try:
            yield sums
        finally:
            for each in sums:
                self._sums[each.path, each.identity].remove(each)

    def named(self, path: str) -> str:
        refuse_query(path)
        place = place_of(path)
        revision = "" if place.revision == "main" else f"@{quote(place.revision, safe='')}"
        return f"hf://{place.page}{revision}" + (f"/{place.inside}" if place.inside else "")

    def is_top(self, path: str) -> bool:
        names = path.partition("://")[2].strip("/").split("/")
        return len(names) <= (3 if names[0] in _KINDS else 2)

    def split(self, path: str) -> tuple[str, str]:
        if self.is_top(path):
            return self.absolute(path), ""
        folder, name = super().split(path)
        return folder, name

    def join(self, folder: str, name: str) -> str:
        place = place_of(folder)
        top = folder.rstrip("/").removesuffix(place.inside).rstrip("/")
        if name.startswith(f"{top}/"):
            return name
        found = [each for each in place.inside.split("/") if each]
        for each in [name] if "://" in name else name.split("/"):
            if each == "..":
                del found[-1:]
            elif each not in ("", "."):
                found.append(each)
        return "/".join([top, *found])

    def names(self, folder: str) -> Iterable[tuple[str, Entry | str]]:
        place = place_of(folder)
        kind = place.kind or "models"
        inside = f"/{quote(place.inside)}" if place.inside else ""
        first = f"{endpoint()}/api/{kind}/{place.repo}/tree/{quote(place.revision, safe='')}{inside}"
        url: str | None = first
        for _ in range(_MOST_PAGES):
            request = Request(url or first, folder, authorization())
            answer = trying(folder, lambda request=request: _page(request))  # type: ignore[misc]
            count(folder, 0)
            if answer.status == 404:
                raise CheckpointNotFoundError(_error_text(answer, NO_FOLDER), path=folder)
            if answer.status != 200:
                raise _rejection(answer, folder)
            yield from _entries(answer, place.inside, folder)
            url = _next_page(answer, first, folder)
            if url is None:
                return
        raise InaccessibleError(f"the Hub's listing has more than {_MOST_PAGES:,} pages", path=folder)

    def fetch(self, path: str, identity: Identity, begin: int, end: int) -> bytes:
        data = self._fetch(path, identity, begin, end)
        for each in self._sums.get((path, identity), ()):
            each.add(begin, data)
        return data

    def _fetch(self, path: str, identity: Identity, begin: int, end: int) -> bytes:
        known = self._found.get((path, identity))
        if known is not None:
            try:
                return self._web.fetch_from(*known, begin, end, identity)
            except InaccessibleError:  # a signature counts for an hour or so
                self._forget_redirect(path, identity, known)
        known = _redirects.get(
            (path, identity),
            lambda: self._found.get((path, identity)),
            lambda: self._redirect(path, identity),
        )
        try:
            return self._web.fetch_from(*known, begin, end, identity)
        except CheckpointError:
            self._forget_redirect(path, identity, known)
            raise

    def _redirect(self, path: str, identity: Identity) -> tuple[Request, Identity]:
        found = self._found[path, identity] = trying(path, lambda: self._url_and_identity(path, identity))
        return found

    def _forget_redirect(self, path: str, identity: Identity, known: tuple[Request, Identity]) -> None:
        """Look up the URL of a file again, unless another thread already has."""
        if self._found.get((path, identity)) is known:
            self._found.pop((path, identity), None)

    def _url_and_identity(self, path: str, identity: Identity) -> tuple[Request, Identity]:
        """Return the URL of a file and its identity there: on the Hub, or at a signed URL."""
        place = place_of(path)
        revision = quote(place.revision, safe="")
        url = f"{endpoint()}/{place.page}/resolve/{revision}/{quote(place.inside)}"
        hub = origin(url)
        checksum = ""
        for _ in range(_MOST_STEPS):
            means = authorization() if origin(url) == hub else None
            request = Request(url, path, means)
            answer = send_request("HEAD", request, lambda _, __: 0, {}, follow=False)
            count(path, 0)
            checksum = checksum or _checksum(answer, "X-Linked-Etag") or ""
            if answer.status not in REDIRECTS:
                break
            url = redirected(answer, path)
            if origin(url) != hub:
                break
        if answer.status == 404:
            raise changed(path)
        if answer.status not in (200, *REDIRECTS):
            raise _rejection(answer, path)
        if (checksum or _checksum(answer, "ETag")) != identity[0]:
            raise changed(path)
        if origin(url) == hub:
            version = (
                answer.headers.get("ETag") or "",
                answer.headers.get("Last-Modified") or "",
                identity[-1],
            )
            return request, version
        # The object at a signed URL has its checksum as its name, so it never changes.
        return Request(url, path), ("", "", identity[-1])


def place_of(path: str) -> RepositoryPath:
    """Return what a URL says.  Raises UnsupportedFeatureError if it names no repository."""
    rest = path.partition("://")[2]
    first, _, below = rest.partition("/")
    kind = first if first in _KINDS else ""
    org, _, rest = (below if kind else rest).partition("/")
    named, _, inside = rest.partition("/")
    repo, at, revision = named.partition("@")
    revision = unquote(revision) if at else "main"
    inside = "/".join(each for each in inside.split("/") if each)
    is_one = _NAME.fullmatch(org) and _NAME.fullmatch(repo) and _REVISION.fullmatch(revision)
    if not is_one or any(each in (".", "..") for each in (*inside.split("/"), *revision.split("/"))):
        message = (
            "this is not a repository of the Hub; expected hf://[datasets/|spaces/]ORG/REPO[@REVISION][/PATH]"
        )
        raise UnsupportedFeatureError(message, path=public(path))
    return RepositoryPath(kind, f"{org}/{repo}", revision, inside)


def endpoint() -> str:
    """Return the Hub's URL. Raises InaccessibleError if it is malformed, or if HF_HUB_OFFLINE is set."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "on", "yes", "true"):
        raise InaccessibleError("HF_HUB_OFFLINE is set, so the Hub is not contacted", path="hf://")
    found = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    try:
        parts = urlsplit(found)
        is_one = bool(parts.hostname and parts.port != 0) and "@" not in parts.netloc and not parts.query
    except ValueError:
        is_one = False
    if not is_one or parts.scheme not in ("https", "http"):
        raise InaccessibleError("HF_ENDPOINT is not a server URL", path="hf://")
    return found


def authorization() -> str | None:
    """Return the value of the Authorization header, or None for anonymous requests."""
    token = os.environ.get("HF_TOKEN") or _stored_token()
    token = (token or "").strip()
    if not token:
        return None
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InaccessibleError("the Hub token contains invalid characters", path="hf://")
    return f"Bearer {token}"


def _stored_token() -> str | None:
    """Return the token that the Hub's own program has stored."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    home = os.environ.get("HF_HOME") or os.path.join(cache, "huggingface")
    path = os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")
    entry = LOCAL.stat(path)
    if entry is None or entry.kind != FILE:
        return None
    with LOCAL.open(path) as file:
        return file.read(0, _LARGEST_TOKEN).decode("utf-8", "replace")


def _page(request: Request) -> Answer:
    answer = send_request("GET", request, lambda _, __: _LARGEST_PAGE, {"Accept": "application/json"})
    if answer.cut:
        raise RetryError("the connection was cut")
    return answer


def _entries(answer: Answer, inside: str, folder: str) -> Iterable[tuple[str, Entry]]:
    """Yield what a page of a listing holds.  Raises InaccessibleError if it is none."""
    import json

    try:
        document: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, list):
        raise InaccessibleError("the Hub's answer is not a listing", path=folder)
    before = f"{inside}/" if inside else ""
    for each in document:
        path = each.get("path") if isinstance(each, dict) else None
        if not isinstance(path, str) or not path.startswith(before):
            raise InaccessibleError("the Hub's listing has a name outside this folder", path=folder)
        yield path.removeprefix(before), _entry(each, folder)


def _entry(listed: Mapping[str, Any], folder: str) -> Entry:
    if listed.get("type") == "directory":
        return Entry(FOLDER)
    large = listed.get("lfs")
    entry_fields = large if isinstance(large, dict) else listed
    size, checksum = entry_fields.get("size"), entry_fields.get("oid")
    is_one = isinstance(size, int) and 0 <= size < 1 << 63 and isinstance(checksum, str)
    if not is_one or not _CHECKSUM.fullmatch(str(checksum)):
        raise InaccessibleError("the Hub's listing has a file without size or checksum", path=folder)
    return Entry(FILE, int(size or 0), 0.0, (str(checksum), int(size or 0)))


def _next_page(answer: Answer, first: str, folder: str) -> str | None:
    """Return the URL of a listing's next page: the same path of the same server."""
    match = _NEXT.search(answer.headers.get("Link") or "")
    if match is None:
        return None
    try:
        url = str(urljoin(first, match[1]))
        is_same = origin(url) == origin(first) and urlsplit(url).path == urlsplit(first).path
    except ValueError:
        url, is_same = "", False
    if not is_same:
        raise InaccessibleError(
            "the Hub's listing continues at another URL, which is not followed", path=folder
        )
    return url


def _checksum(answer: Answer, header: str) -> str | None:
    text = (answer.headers.get(header) or "").removeprefix("W/").strip('"')
    return text if _CHECKSUM.fullmatch(text) else None


_MEANINGS = {
    "RepoNotFound": "the Hub has no such repository, or it is private",
    "RevisionNotFound": "the repository has no such revision",
    "GatedRepo": "this repository requires you to accept its terms",
}
"""The meaning of the Hub's status codes. Without credentials, it also answers 401 for what does not exist."""

_SIGN_IN = "set HF_TOKEN, or run `hf auth login`"


def _error_text(answer: Answer, otherwise: str) -> str:
    return _MEANINGS.get(answer.headers.get("X-Error-Code") or "", otherwise)


def _rejection(answer: Answer, path: str) -> InaccessibleError:
    error = InaccessibleError(_error_text(answer, f"the Hub answered {answer.words}"), path=path)
    if answer.headers.get("X-Error-Code") == "GatedRepo":
        error.hints = (f"accept them on the repository's page, then {_SIGN_IN}",)
    elif answer.status == 401 and authorization() is not None:
        error.hints = ("set a new token in HF_TOKEN, or run `hf auth login`; the old one may have expired",)
    elif answer.status in REJECTED:
        error.hints = (f"it may not exist, or it may be private: {_SIGN_IN}",)
    return error


_redirects: SingleFlight[tuple[Request, Identity]] = SingleFlight()
"""Redirects that threads wait for, by path and identity."""

STORES = (HubStore(),)
