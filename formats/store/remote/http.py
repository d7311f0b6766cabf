"""Files of web servers, `https://host/run/ckpt-1` and `http://...`, read by ranges.

A HEAD request looks a file up, and each range is one request. Every answer must be of the same object, by
ETag, Last-Modified and size. From a server without range requests, objects of up to 64 MB are read whole. A
web server has no folders that could be listed, unless it answers in JSON, as nginx does with
`autoindex_format json`.

Secrets go to the host that they belong to, and are never printed. So user names, passwords and queries, which
may be signatures, are taken out of a URL at once:

    https://user:password@host/run/ckpt-1?token=x   what the user gives
    https://***@host/run/ckpt-1                      its name from then on, here and in messages

Requests for names joined to such a path use the same secrets, on the same host.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from ...errors import CheckpointNotFoundError, InaccessibleError, UnsupportedFeatureError
from ..base import FILE, FOLDER, NO_FOLDER, Entry, UnlistedError
from .range_cache import AT_ONCE
from .server import ChangedError, Rejection, ServerStore, changed, count
from .transport import REJECTED, Answer, Request, RetryError, basic, send_request, trying

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..base import Identity


_LARGEST_ANSWER = AT_ONCE
_USE_GET = frozenset({400, 403, 405, 501})
"""Answers to HEAD of servers that would answer a GET: a signature can be for GET alone."""

_IN_PATHS = "/%:@!$&'()*+,;=~"
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CUT = re.compile(r"\*\*\*\d*")
_ESCAPED = "write @ in a path as %40, and / in a password as %2F"
_QUESTION = r"(?:\?|%3[Ff])"
_PATTERN = re.compile(rf"-{_QUESTION}{{5}}-of-(?:\d{{5,}}|{_QUESTION}{{5}})$")
"""How the name of a sharded V1 checkpoint ends: `?` stands for itself there, and begins no query."""


class Secrets(NamedTuple):
    """The secrets taken out of a URL, and the host that they belong to."""

    authorization: str | None
    query: str
    place: str


_secrets: dict[str, Secrets] = {}
"""The secrets by their placeholder in a URL."""


class HttpStore(ServerStore):
    """The files of all web servers."""

    lists_first = False

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        super().__init__()

    def forget(self) -> None:
        super().forget()
        self._wholes: OrderedDict[tuple[str, Identity], bytes] = OrderedDict()

    # URLs -------------------------------------------------------------------------

    def named(self, path: str) -> str:
        try:
            parts = urlsplit(_PATTERN.sub(_escaped, path))
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host:
            hints = (_ESCAPED,) if "@" in path else ()
            message = "the URL has no host, or its port is not valid"
            raise UnsupportedFeatureError(message, path=f"{self.scheme}://", hints=hints)
        refuse_unescaped(path, parts.netloc)
        place = parts.netloc.rpartition("@")[2]
        known = _secrets.get(parts.username or "")
        mark = parts.username if known is not None and known.place == place else None
        if mark is None and parts.username is not None and _CUT.fullmatch(parts.username):
            message = "*** replaces a secret in the URL: use the original URL"
            raise UnsupportedFeatureError(message, path=f"{self.scheme}://{place}{parts.path}")
        if mark is None and (parts.username is not None or parts.query):
            means = None if parts.username is None else basic(parts.username, parts.password or "")
            mark = _mark(Secrets(means, parts.query, place))
        path = _NO_ESCAPE.sub("%25", parts.path.rstrip("/"))
        inside = _PATTERN.sub(_plain, quote(path, safe=_IN_PATHS))
        return f"{self.scheme}://{f'{mark}@' if mark else ''}{place}{inside}"

    def request_of(self, path: str) -> Request:
        """Return what to ask for a path."""
        parts = urlsplit(path.replace("?", "%3F"))  # a query is kept with the secrets
        place = parts.netloc.rpartition("@")[2]
        secrets = _secrets.get(parts.username or "")
        if secrets is None or secrets.place != place:
            secrets = Secrets(None, "", place)
        query = f"?{secrets.query}" if secrets.query else ""
        url = f"{self.scheme}://{place}{parts.path or '/'}{query}"
        return Request(url, path, secrets.authorization)

    def join(self, folder: str, name: str) -> str:
        host, slash, path = _parted(folder)
        if name.startswith(f"{host}/"):
            return name
        if "://" in name:  # of another server, which no name leads to
            return f"{host}{slash}{path.rstrip('/')}/{quote(name, safe='')}"
        found = [each for each in path.split("/") if each]
        for each in quote(name, safe="/").split("/"):
            if each == "..":
                del found[-1:]
            elif each not in ("", "."):
                found.append(each)
        return _PATTERN.sub(_plain, "/".join([host, *found]))

    def split(self, path: str) -> tuple[str, str]:
        host, _, inside = _parted(path)
        folder, _, name = inside.rpartition("/")
        return (f"{host}/{folder}" if folder else host), unquote(name)

    # Requests ---------------------------------------------------------------------

    def can_be_file(self, path: str) -> bool:
        """Whether there is anything behind the host: what is joined to that alone names another one."""
        return bool(_parted(path)[2])

    def look(self, path: str) -> Entry | Rejection | None:
        return look_at(self.request_of(path)) if self.can_be_file(path) else Entry(FOLDER)

    def names(self, folder: str) -> Iterable[tuple[str, Entry | str]]:
        answer = trying(folder, lambda: self._listing(folder))
        count(folder, 0)
        if answer.status in (404, 410):
            raise CheckpointNotFoundError(NO_FOLDER, path=folder)
        found = parsed_listing(answer)
        if found is None:
            message = (
                "this URL cannot be listed: the server does not "
                "answer with JSON (nginx: autoindex_format json)"
            )
            if answer.status == 401:
                message = f"this URL cannot be listed: {_refusal(answer)}"
            error = UnlistedError(message, path=folder)
            error.hints = ("name a checkpoint or a file in it",)
            raise error
        yield from found

    def _listing(self, folder: str) -> Answer:
        request = self.request_of(folder + "/")._replace(path=folder)
        answer = send_request("GET", request, _room_of_listing, {"Accept": "application/json"})
        if answer.cut:
            raise RetryError("the connection was cut")
        return answer

    def forget_listings(self) -> None:
        super().forget_listings()
        for key in [key for key in list(self._wholes) if not self.is_settled(key[1])]:
            del self._wholes[key]

    def fetch(self, path: str, identity: Identity, begin: int, end: int) -> bytes:
        return self.fetch_from(self.request_of(path), identity, begin, end, identity)

    def fetch_from(
        self, request: Request, identity: Identity, begin: int, end: int, version: Identity
    ) -> bytes:
        """Return a range of what a URL has, as `fetch` does of a path.

        `identity` is what the URL's server says of it, `version` by what it is kept in memory.
        """
        path = request.path
        whole = self._wholes.get((path, version))
        if whole is not None:
            return whole[begin:end]
        found = bytearray()

        def on() -> bytes:
            at = begin + len(found)
            answer = ranged(request, identity, at, end)
            count(path, len(answer.body))
            if answer.status == 200:
                self._wholes[path, version] = _whole_of(answer, path, identity)
                while sum(map(len, self._wholes.values())) > _LARGEST_ANSWER:
                    self._wholes.popitem(last=False)
                return answer.body[begin:end]
            if len(answer.body) == end - begin:
                return answer.body
            found.extend(answer.body)
            if len(found) < end - begin:
                raise RetryError(f"only {len(found):,} of {end - begin:,} bytes arrived")
            return bytes(found)

        try:
            return trying(path, on)
        except ChangedError:
            _refuse_two_tongues(request, identity)
            raise


def _whole_of(answer: Answer, path: str, identity: Identity) -> bytes:
    """Return all bytes of an object, without range requests. Raises InaccessibleError, RetryError."""
    if answer.more:
        raise InaccessibleError(
            f"the server sends more than the {identity[-1]:,} bytes it announced", path=path
        )
    if answer.cut or len(answer.body) != identity[-1]:
        raise RetryError(f"only {len(answer.body):,} of {identity[-1]:,} bytes arrived")
    return answer.body


def refuse_unescaped(url: str, host: str) -> None:
    """Raise UnsupportedFeatureError if a `/`, `?` or `#` of a password may be taken for a host's end.

    Of `user:12/34@host` a host `user` would be request, and the rest be printed.
    """
    is_plain = "." in host and ":" not in host
    if "@" in host or is_plain or "@" not in url:
        return
    message = "the URL has an @ after the host; the text before it may be a password"
    raise UnsupportedFeatureError(message, path=f"{url.partition('://')[0]}://***", hints=(_ESCAPED,))


def _mark(secrets: Secrets) -> str:
    """Return what stands for secrets in a URL."""
    for mark, known in _secrets.items():
        if known == secrets:
            return mark
    mark = "***" + (str(len(_secrets) + 1) if _secrets else "")
    _secrets[mark] = secrets
    return mark


def _escaped(pattern: re.Match[str]) -> str:
    return pattern[0].replace("?", "%3F")


def _plain(pattern: re.Match[str]) -> str:
    return unquote(pattern[0])


def _parted(path: str) -> tuple[str, str, str]:
    """Split a path into scheme and host, the separator, and the rest."""
    scheme, _, rest = path.partition("://")
    host, slash, inside = rest.partition("/")
    return f"{scheme}://{host}", slash, inside.rstrip("/")


def look_at(request: Request) -> Entry | Rejection | None:
    """Return what a server says of a URL, in answer to a HEAD if it answers such."""
    path = request.path
    answer = trying(path, lambda: send_request("HEAD", request, lambda _, __: 0, {}))
    count(path, 0)
    if urlsplit(answer.url).path == urlsplit(request.url).path + "/":
        return Entry(FOLDER)
    is_silent = answer.status == 200 and answer.headers.get("Content-Length") in (None, "0")
    if answer.status in _USE_GET or is_silent:
        answer = trying(path, lambda: send_request("GET", request, lambda _, __: 0, {"Range": "bytes=0-0"}))
        count(path, 0)
    return entry_of(answer, path)


def _refuse_two_tongues(request: Request, identity: Identity) -> None:
    """Raise InaccessibleError if a server still answers HEAD as before, because then nothing has changed."""
    found = look_at(request)
    if isinstance(found, Entry) and found.identity == identity:
        message = "the server answers HEAD and GET differently for the same file"
        raise InaccessibleError(message, path=request.path)


def entry_of(answer: Answer, path: str) -> Entry | Rejection | None:
    """Return what an answer about a file says, to a HEAD or to a GET of its first byte.

    Raises InaccessibleError if it cannot be read as it is.
    """
    if answer.status in (404, 410):
        return None
    if answer.status in REJECTED:
        return Rejection(_refusal(answer))
    size = _size(answer)
    if answer.status not in (200, 206, 416):
        raise InaccessibleError(f"the server answered {answer.words}", path=path)
    refuse_encoded(answer, path)
    if size is None:
        raise InaccessibleError("the server does not say how large the file is", path=path)
    return Entry(FILE, size, _time(answer.headers.get("Last-Modified")), identity_of(answer, size))


def _refusal(answer: Answer) -> str:
    advice = ""
    if answer.status == 401:
        advice = "; put credentials into the URL: https://USER:PASSWORD@HOST/PATH"
    elif answer.status == 403 and urlsplit(answer.url).query:
        advice = "; the signature in the URL may have expired"
    return f"the server answered {answer.words}{advice}"


def identity_of(answer: Answer, size: int) -> Identity:
    """Return what is another where another object answers."""
    return (answer.headers.get("ETag") or "", answer.headers.get("Last-Modified") or "", size)


def refuse_encoded(answer: Answer, path: str) -> None:
    """Raise InaccessibleError if a server does not send the bytes that it has."""
    encoding = answer.headers.get("Content-Encoding") or "identity"
    if encoding.lower() != "identity":
        raise InaccessibleError(
            f"the server sends the file with content encoding {encoding!r}; expected none", path=path
        )


def _size(answer: Answer) -> int | None:
    if answer.status in (206, 416):
        text = (answer.headers.get("Content-Range") or "").rpartition("/")[2]
    else:
        text = answer.headers.get("Content-Length") or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _time(text: str | None) -> float:
    """Return seconds since 1970; 0 where a server does not say."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp() if text else 0.0
    except (ValueError, TypeError, OverflowError):
        return 0.0


def ranged(request: Request, identity: Identity, begin: int, end: int) -> Answer:
    """Return a server's answer to a range request: the range, its beginning, or the whole object.

    Raises CheckpointError if another object answers, InaccessibleError where none does; raises RetryError.
    """
    path, size = request.path, int(identity[-1])
    etag = str(identity[0])

    is_small = size <= _LARGEST_ANSWER

    def room(status: int, _: Mapping[str, str]) -> int:
        return {206: end - begin, 200: size if is_small else 0}.get(status, 0)

    headers = {"Range": f"bytes={begin}-{end - 1}"}
    if etag and not etag.startswith("W/"):
        headers["If-Match"] = etag
    answer = send_request("GET", request, room, headers)
    if answer.status in (404, 410, 412, 416):
        raise changed(path)
    if answer.status not in (200, 206):
        raise InaccessibleError(_refusal(answer), path=path)
    refuse_encoded(answer, path)
    size_in_header = _size(answer)
    found = identity_of(answer, size if size_in_header is None else size_in_header)
    if any(pinned not in ("", new) for pinned, new in zip(identity, found, strict=True)):
        raise changed(path)
    if answer.status == 200 and not is_small:
        message = (
            f"the server does not support range requests, and {size:,} bytes are too many for one request"
        )
        error = InaccessibleError(message, path=path)
        error.hints = ("download the file with `curl -LO` and pass the path of the copy",)
        raise error
    if answer.status == 206:
        match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range") or "")
        if match is None or int(match[1]) != begin:
            raise InaccessibleError("the server answered with a different range than requested", path=path)
    return answer


def _room_of_listing(status: int, headers: Mapping[str, str]) -> int:
    is_one = status == 200 and "json" in (headers.get("Content-Type") or "").lower()
    return _LARGEST_ANSWER if is_one else 0


def parsed_listing(answer: Answer) -> list[tuple[str, Entry | str]] | None:
    """Return the names of a listing as nginx writes them in JSON; None if it is none."""
    import json

    if not _room_of_listing(answer.status, answer.headers) or answer.more:
        return None
    try:
        document: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, list):
        return None
    found: list[tuple[str, Entry | str]] = []
    for each in document:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            return None
        found.append((each["name"], FOLDER if each.get("type") == "directory" else FILE))
    return found


STORES = (HttpStore("https"), HttpStore("http"))
