"""Reading the buckets of Amazon's, Google's and Microsoft's stores, and of those that speak as they do.

    s3://BUCKET/KEY     gs://BUCKET/KEY (gcs://)     az://CONTAINER/KEY (abfs://)

Listing a folder takes one request per thousand names, which returns sizes and e_tags. Every range is
requested by e_tag. If a bucket may be read but not listed, HEAD requests look objects up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointNotFoundError, InaccessibleError, UnsupportedFeatureError
from ..base import FOLDER, NO_FOLDER, Entry, UnlistedError
from ..urls import public, refuse_query
from ..work.buffers import BufferPool
from ..work.cancellation import OverdueError, run_detached
from .objects import plain
from .range_cache import REQUEST
from .responses import RejectedError, entry_of, library, translated_errors
from .server import ListedStore, Rejection, changed, count
from .transport import RetryError, timeout, trying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from ..base import Identity
    from .credentials import Provider

_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]{2,221}")
_SHORT = re.compile(r"[A-Za-z0-9._-]{1,2}")

_LISTING = 2
"""How many times as long as a request a listing may take: 100,000 names and more."""


_AT_A_TIME = 1 << 20
"""Bytes that an answer's pieces are joined to."""

_blocks = BufferPool(REQUEST, kept=4)


class Buckets(ListedStore):
    """The buckets of one provider."""

    forks = False  # its threads do not exist in a forked process

    def __init__(self, provider: Provider) -> None:
        self.scheme = provider.scheme
        self.provider = provider
        super().__init__()

    def forget(self) -> None:
        super().forget()
        self._clients: dict[tuple[str, int], Any] = {}

    # URLs -------------------------------------------------------------------------

    def named(self, path: str) -> str:
        refuse_query(path)
        bucket, key = parted(path)
        if not _BUCKET.fullmatch(bucket):
            message = f"this is not a valid bucket name; expected {self.scheme}://BUCKET/KEY"
            if _SHORT.fullmatch(bucket):
                message = f"{bucket!r} is not a bucket name; expected at least three characters"
            hints = (
                ("set the account and credentials in the environment: ckpt explain environment",)
                if "@" in path
                else ()
            )
            raise UnsupportedFeatureError(message, path=public(path), hints=hints)
        names = path.partition("://")[2].rstrip("/").split("/")[1:]
        if any(each in ("", ".", "..") for each in names):
            message = "this is not a valid key: a part of it is empty, '.' or '..'"
            meant = self.join(f"{self.scheme}://{bucket}", key)
            raise UnsupportedFeatureError(message, path=path, hints=(f"did you mean {meant}?",))
        library(path)  # a missing library is reported as such, not as damage
        return f"{self.scheme}://{bucket}" + (f"/{key}" if key else "")

    def is_top(self, path: str) -> bool:
        return not parted(path)[1]

    def split(self, path: str) -> tuple[str, str]:
        return (self.absolute(path), "") if self.is_top(path) else super().split(path)

    def join(self, folder: str, name: str) -> str:
        """Return the path of a name in a folder; a URL of this store, as state files have it, is one."""
        if name.startswith(f"{self.scheme}://"):
            return name
        bucket, key = parted(folder)
        found = [each for each in key.split("/") if each]
        for each in [name] if "://" in name else name.split("/"):
            if each == "..":
                del found[-1:]
            elif each not in ("", "."):
                found.append(each)
        return "/".join([f"{self.scheme}://{bucket}", *found])

    # Requests ---------------------------------------------------------------------

    def names(self, folder: str) -> Iterable[tuple[str, Entry | str]]:
        bucket, key = parted(folder)

        def send_request() -> Any:
            obstore = library(folder)
            with self.translated_errors(folder):
                client = self.client(bucket)
                return _ended(folder, lambda: obstore.list_with_delimiter(client, key or None))

        try:
            listed = trying(folder, send_request)
        except RejectedError as error:
            # A bucket may be read and not listed.
            unlisted = UnlistedError(error.message, path=folder)
            unlisted.hints = error.hints
            raise unlisted from None
        except CheckpointNotFoundError:
            raise CheckpointNotFoundError(f"{self.scheme}://{bucket} does not exist", path=folder) from None
        finally:
            count(folder, 0)
        before = f"{key}/" if key else ""
        folders = {_below(each, before, folder) for each in listed["common_prefixes"]}
        yield from ((each, Entry(FOLDER)) for each in sorted(folders))
        empty = True
        for meta in listed["objects"]:
            empty = False
            if meta["path"] == key:  # some programs write this for a folder
                continue
            name = _below(meta["path"], before, folder)
            if meta["size"] or name not in folders:
                yield name, entry_of(meta)
        if empty and not folders and key:
            raise CheckpointNotFoundError(NO_FOLDER, path=folder)

    def look_without_listing(self, path: str, error: UnlistedError) -> Entry | Rejection | None:
        bucket, key = parted(path)

        def send_request() -> Entry:
            obstore = library(path)
            with self.translated_errors(path):
                return entry_of(obstore.head(self.client(bucket), key))

        try:
            found = trying(path, lambda: run_detached(send_request))
        except CheckpointNotFoundError:
            return None
        except RejectedError:
            return Rejection(f"{error.message}; set credentials in the environment: ckpt explain environment")
        finally:
            count(path, 0)
        return found

    def fetch(self, path: str, identity: Identity, begin: int, end: int) -> bytes | memoryview:
        bucket, key = parted(path)
        e_tag, size = str(identity[0]), identity[1]
        options: dict[str, Any] = {"range": (begin, end)}
        if e_tag and not e_tag.startswith("W/"):
            options["if_match"] = e_tag

        def send_request() -> bytes | memoryview:
            obstore = library(path)
            try:
                with self.translated_errors(path):
                    got = obstore.get(self.client(bucket), key, options=options)
                    answer_size, answer_tag = got.meta["size"], plain(got.meta["e_tag"])
                    data = _body(got, end - begin)
            except CheckpointNotFoundError:
                raise changed(path) from None
            finally:
                count(path, 0)
            if (answer_tag, answer_size) != (plain(e_tag), size):
                raise changed(path)
            return data

        data = trying(path, send_request)
        count(path, len(data), 0)
        return data

    # Clients ------------------------------------------------------------------------

    def client(self, bucket: str, retries: int = 0) -> Any:
        """Return the client of a bucket.

        It retries this many times on its own, which is for the parts of uploads.
        """
        found = self._clients.get((bucket, retries))
        if found is None:
            found = self._clients[bucket, retries] = self.provider.client(bucket, retries)
        return found

    def translated_errors(self, path: str) -> AbstractContextManager[None]:
        """Translate errors of obstore. Raises CheckpointNotFoundError, InaccessibleError, RetryError."""
        return translated_errors(path, self.provider.settings)


def parted(path: str) -> tuple[str, str]:
    """Return the bucket and the key of a URL."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key.strip("/")


def _body(got: Any, size: int) -> bytes | memoryview:
    """Return the `size` bytes of an answer, many of them in reused memory. Raises RetryError."""
    data: bytes | memoryview
    if size != REQUEST:
        data = bytes(got.bytes())
        came = len(data)
    else:
        data, came = _blocks.take_block(), 0
        for chunk in got.stream(_AT_A_TIME):
            piece = memoryview(chunk)[: size - came]
            data[came : came + len(piece)] = piece
            came += len(chunk)
    if came != size:
        raise RetryError(f"only {came:,} of {size:,} bytes arrived")
    return data


def _ended(folder: str, send_request: Callable[[], Any]) -> Any:
    """Return a listing. The server decides how many requests it takes, so it has a timeout.

    Raises InaccessibleError after the timeout; the abandoned call ends with the process. Cancelling obstore's
    coroutines kills some processes by a signal when they exit.
    """
    seconds = _LISTING * timeout()
    try:
        return run_detached(send_request, seconds)
    except OverdueError:
        message = f"the server did not finish its listing within {seconds:g} seconds"
        found = InaccessibleError(message, path=folder)
        found.hints = ("set CKPT_TIMEOUT to wait longer; a listing may take twice as many seconds",)
        raise found from None


def _below(path: str, before: str, folder: str) -> str:
    if not path.startswith(before):
        raise InaccessibleError("the server's listing has a name outside this folder", path=folder)
    return path.removeprefix(before)
