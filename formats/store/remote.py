"""Objects of Amazon's, Google's and Microsoft's stores, and of those that speak as they do, through obstore.

    s3://BUCKET/KEY     gs://BUCKET/KEY (gcs://)     az://CONTAINER/KEY (abfs://)

A folder is listed by one request for each thousand names, which tells all that lies in it: size and e_tag,
by which each range is asked for.  Where a bucket may be read and not listed, objects are asked for by HEAD.
Who asks is said by the environment, in the variables and files that each provider's own programs
read, and nowhere else.  What obstore says of an error holds addresses and requests; what is
said here is a status, and a code of the provider's.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import (
    CheckpointError,
    CheckpointExistsError,
    CheckpointNotFoundError,
    InaccessibleError,
    UnsupportedFeatureError,
)
from . import objects
from .base import FILE, FOLDER, Entry, UnlistedError
from .server import ListedStore, Refused, changed, count
from .transport import ATTEMPTS, BUSY, REFUSED, Again, timeout, trying
from .urls import public, scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .base import Identity
    from .objects import Block, Over

_NEEDED = "pip install 'ckpt-tools[remote]'"
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_GOT = re.compile(r"Requested (\d+)\.\.(\d+), got (\d+)\.\.(\d+)")
_NO_RANGE = ("non-partial response", "Content-Range")
"""What it says where a server does not answer with a range, or does not say with which."""

_ODD_NAME = "object with invalid path"
"""What it says of a listing that holds an empty name, `..`, or one with control characters."""

_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]{2,221}")
_SHORT = re.compile(r"[A-Za-z0-9._-]{1,2}")
_TRUE = ("1", "true", "yes", "on", "y", "t")
_PASSING = ("error sending request", "error decoding response body", "timed out", "request or response body")
"""What obstore says of connections that were cut, or answers that did not come in time."""


_NOBODY = ("ConnectionRefused", "dns error", "certificate")
"""What it says where asking again is no use."""

_PANIC = "PanicException"
"""What obstore raises where its own code did not foresee something; it is no Exception."""

_REGION = re.compile(r"[\w.-]*", re.ASCII)

_LISTING = 2
"""How many times as long as a request a listing may take: 100,000 names and more."""


class _RefusedError(InaccessibleError):
    """The server knows who asks, or does not, and tells nothing."""


class _Upload(objects.Stream):
    """An upload in parts, through obstore, which sends several at a time."""

    def __init__(self, store: ObjectStore, path: str, block: int, at_once: int) -> None:
        obstore = _obstore(path)
        bucket, key = _parted(path)
        self._store = store
        self._path = path
        with store._errors(path):
            client = store._at(bucket, ATTEMPTS - 1)
            self._writer = obstore.open_writer(client, key, buffer_size=block, max_concurrency=at_once)

    def write(self, block: Block) -> None:
        self._sent(lambda: self._writer.write(block))
        count(self._path, 0)

    def finish(self) -> None:
        self._sent(self._writer.close)
        count(self._path, 0)
        self._store.forget_listings()

    def abort(self) -> None:
        if self._writer.closed():
            return  # An end that failed was taken back.
        # The library takes back what was sent where a block of code is left by an exception.
        error = InaccessibleError("not sent to its end", path=self._path)
        with self._store._errors(self._path):
            self._writer.__exit__(type(error), error, None)

    def _sent(self, send: Callable[[], object]) -> None:
        try:
            with self._store._errors(self._path):
                send()
        except Again as error:
            raise InaccessibleError(f"cannot be written: {error}", path=self._path) from None
        except CheckpointNotFoundError:
            raise _no_bucket(self._path) from None


class ObjectStore(ListedStore, objects.ObjectStore):
    """The buckets of one provider."""

    forks = False  # its threads are not there in a forked process

    def __init__(
        self,
        scheme: str,
        client: Callable[..., Any],
        settings: str,
        alias: str,
        *,
        tells_md5: bool = False,
    ) -> None:
        self.scheme = scheme
        self.tells_md5 = tells_md5
        self._client = client
        self._settings = settings
        self.alias = alias
        super().__init__()

    def forget(self) -> None:
        super().forget()
        self._clients: dict[tuple[str, int], Any] = {}

    # URLs -------------------------------------------------------------------------

    def named(self, path: str) -> str:
        bucket, key = _parted(path)
        if not _BUCKET.fullmatch(bucket):
            message = f"no bucket, expected {self.scheme}://BUCKET/KEY"
            if _SHORT.fullmatch(bucket):
                message = f"{bucket!r} is no bucket: their names have three characters or more"
            hints = ("who asks is said by the environment, never by a URL",) if "@" in bucket else ()
            raise UnsupportedFeatureError(message, path=public(path), hints=hints)
        names = path.partition("://")[2].rstrip("/").split("/")[1:]
        if any(each in ("", ".", "..") for each in names):
            message = "no key that can be asked for: it has a name in it that is empty, '.' or '..'"
            meant = self.join(f"{self.scheme}://{bucket}", key)
            raise UnsupportedFeatureError(message, path=path, hints=(f"did you mean {meant}?",))
        _obstore(path)  # that it is missing is no flaw of what lies there
        return f"{self.scheme}://{bucket}" + (f"/{key}" if key else "")

    def is_top(self, path: str) -> bool:
        return not _parted(path)[1]

    def split(self, path: str) -> tuple[str, str]:
        return (self.absolute(path), "") if self.is_top(path) else super().split(path)

    def join(self, folder: str, name: str) -> str:
        """Return the path of a name in a folder; a URL of this store, as state files have it, is one."""
        if name.startswith(f"{self.scheme}://"):
            return name
        bucket, key = _parted(folder)
        found = [each for each in key.split("/") if each]
        for each in [name] if "://" in name else name.split("/"):
            if each == "..":
                del found[-1:]
            elif each not in ("", "."):
                found.append(each)
        return "/".join([f"{self.scheme}://{bucket}", *found])

    # What is asked ----------------------------------------------------------------

    def names(self, folder: str) -> Iterable[tuple[str, Entry | str]]:
        bucket, key = _parted(folder)

        def ask() -> Any:
            obstore = _obstore(folder)
            with self._errors(folder):
                client = self._at(bucket)
                return _ended(folder, lambda: obstore.list_with_delimiter(client, key or None))

        try:
            listed = trying(folder, ask)
        except _RefusedError as error:
            # A bucket may be read and not listed.
            unlisted = UnlistedError(error.message, path=folder)
            unlisted.hints = error.hints
            raise unlisted from None
        count(folder, 0)
        before = f"{key}/" if key else ""
        folders = {_below(each, before, folder) for each in listed["common_prefixes"]}
        yield from ((each, Entry(FOLDER, 0, 0.0, ())) for each in sorted(folders))
        empty = True
        for meta in listed["objects"]:
            empty = False
            if meta["path"] == key:  # what some programs write for a folder
                continue
            name = _below(meta["path"], before, folder)
            if meta["size"] or name not in folders:
                yield name, _entry(meta)
        if empty and not folders and key:
            raise CheckpointNotFoundError("no such directory", path=folder)

    def look_alone(self, path: str, error: UnlistedError) -> Entry | Refused | None:
        bucket, key = _parted(path)

        def ask() -> Entry:
            obstore = _obstore(path)
            with self._errors(path):
                return _entry(obstore.head(self._at(bucket), key))

        try:
            found = trying(path, ask)
        except CheckpointNotFoundError:
            return None
        except _RefusedError:
            return Refused(f"{error.message}; who asks is said by the environment: ckpt explain environment")
        finally:
            count(path, 0)
        return found

    def fetch(self, path: str, identity: Identity, begin: int, end: int) -> bytes:
        bucket, key = _parted(path)
        e_tag, size = str(identity[0]), identity[1]
        options: dict[str, Any] = {"range": (begin, end)}
        if e_tag and not e_tag.startswith("W/"):
            options["if_match"] = e_tag

        def ask() -> bytes:
            obstore = _obstore(path)
            try:
                with self._errors(path):
                    got = obstore.get(self._at(bucket), key, options=options)
                    data = bytes(got.bytes())
            except CheckpointNotFoundError:
                raise changed(path) from None
            finally:
                count(path, 0)
            if _plain(got.meta["e_tag"]) != _plain(e_tag) or got.meta["size"] != size:
                raise changed(path)
            if len(data) != end - begin:
                raise Again(f"{len(data):,} of {end - begin:,} bytes came")
            return data

        data = trying(path, ask)
        count(path, len(data), 0)
        return data

    # What is put --------------------------------------------------------------------

    def put(self, path: str, data: Block, over: Over) -> None:
        bucket, key = _parted(path)
        appeared = CheckpointExistsError("has appeared, or changed, meanwhile", path=path)

        def ask() -> None:
            obstore = _obstore(path)
            client = self._at(bucket)
            try:
                with self._errors(path):
                    mode: Any = "overwrite" if over.whatever else "create"
                    if over.entry is not None:
                        found = obstore.head(client, key)
                        if _entry(found).identity != over.entry.identity:
                            raise appeared
                        # Amazon and Azure go by the one, Google by the other.
                        mode = {name: found[name] for name in ("e_tag", "version") if found[name]}
                    try:
                        _put(client, key, data, mode)
                    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                        # Also what an attempt before this one has written, the answer to which was lost.
                        raise appeared from None
            except CheckpointNotFoundError:
                raise (_no_bucket(path) if over.entry is None else appeared) from None
            finally:
                count(path, 0)

        try:
            trying(path, ask)
        finally:
            self.forget_listings()

    def stream(self, path: str, block: int, at_once: int) -> objects.Stream:
        return _Upload(self, path, block, at_once)

    def asked(self, path: str) -> Entry | None:
        bucket, key = _parted(path)

        def ask() -> Entry:
            obstore = _obstore(path)
            try:
                with self._errors(path):
                    return _entry(obstore.head(self._at(bucket), key))
            finally:
                count(path, 0)

        try:
            return trying(path, ask)
        except CheckpointNotFoundError:
            return None

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._delete(path)
        self.forget_listings()

    def _delete(self, path: str) -> None:
        bucket, key = _parted(path)

        def ask() -> None:
            obstore = _obstore(path)
            try:
                with self._errors(path):
                    obstore.delete(self._at(bucket), key)
            finally:
                count(path, 0)

        with suppress(CheckpointNotFoundError):
            trying(path, ask)

    def _at(self, bucket: str, retries: int = 0) -> Any:
        """Return who asks a bucket, and asks so often again on its own: parts of uploads are its business."""
        found = self._clients.get((bucket, retries))
        if found is None:
            more = {"retries": retries} if retries else {}
            found = self._clients[bucket, retries] = self._client(bucket, **more)
        return found

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Say what obstore raises as what it is, without the request that it speaks of.

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
            raise self._told(path, error) from None

    def _told(self, path: str, error: BaseException) -> Exception:
        text = str(error).partition("Debug source")[0]
        status, code = _STATUS.search(text), _CODE.search(text)
        if type(error).__name__ == "PreconditionError" or (status and status[1] in ("412", "416")):
            return changed(path)
        if status:
            if int(status[1]) in BUSY:
                return Again(f"the server answered {status[1]}")
            if status[1] == "404":
                return CheckpointNotFoundError(f"the server answered 404{_named(code)}", path=path)
            kind = _RefusedError if int(status[1]) in REFUSED else InaccessibleError
            found = kind(f"the server answered {status[1]}{_named(code)}", path=path)
            if status[1] in ("400", "401", "403"):
                found.hints = (f"who asks is said by the environment: {self._settings}",)
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
        if any(each in str(error) for each in _NOBODY):
            return InaccessibleError("the server cannot be reached", path=path)
        if any(each in text for each in _PASSING):
            return Again("no answer came, or was cut")
        if isinstance(error, ValueError):
            return InaccessibleError("no key that can be asked for", path=path)
        found = InaccessibleError("cannot be asked for", path=path)
        found.hints = (f"the environment says where and as whom: {self._settings}",)
        return found


class Alias(ObjectStore):
    """Another spelling of a scheme; a path has it only as long as nobody has taken it in."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store.alias, store._client, store._settings, "")
        self._named = store.named

    def named(self, path: str) -> str:
        return self._named(path)


def _parted(path: str) -> tuple[str, str]:
    """Return the bucket and the key of a URL."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key.strip("/")


def _ended(folder: str, ask: Callable[[], Any]) -> Any:
    """Return what a listing is, which takes as many requests as the server wants it to, and has to end.

    Raises InaccessibleError where it does not; what has come is let go of with the process.
    """
    answers: Queue[tuple[Any, BaseException | None]] = Queue()

    def run() -> None:
        try:
            answers.put((ask(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    seconds = _LISTING * timeout()
    try:
        answer, error = answers.get(timeout=seconds)
    except Empty:
        found = InaccessibleError(
            f"the server's listing has not ended after {seconds:g} seconds", path=folder
        )
        found.hints = ("with CKPT_TIMEOUT it is given more time, twice as many seconds",)
        raise found from None
    if error is not None:
        raise error
    return answer


def _put(client: Any, key: str, data: Block, mode: Any) -> None:
    """Put an object on a condition; without it where a server says that it knows none (501)."""
    import obstore

    try:
        obstore.put(client, key, data, mode=mode, use_multipart=False)
    except Exception as error:
        status = _STATUS.search(str(error))
        if status is None or status[1] != "501":
            raise
        obstore.put(client, key, data, mode="overwrite", use_multipart=False)


def _no_bucket(path: str) -> CheckpointNotFoundError:
    """Return what is raised where something is put, and what it is put into is not there."""
    bucket = f"{scheme_of(path)}://{_parted(path)[0]}"
    message = f"cannot be written: there is no {bucket}, or another has ended the upload"
    hints = ("a bucket is made by its provider's own programs",)
    return CheckpointNotFoundError(message, path=path, hints=hints)


def _below(path: str, before: str, folder: str) -> str:
    if not path.startswith(before):
        raise InaccessibleError("the server lists what does not lie in this folder", path=folder)
    return path.removeprefix(before)


def _entry(meta: Any) -> Entry:
    identity = (meta["e_tag"] or meta["last_modified"].isoformat(), meta["size"])
    return Entry(FILE, meta["size"], meta["last_modified"].timestamp(), identity)


def _plain(e_tag: str | None) -> str:
    return (e_tag or "").removeprefix("W/").strip('"')


def _named(code: re.Match[str] | None) -> str:
    return f", {code[1]}" if code else ""


def _obstore(path: str) -> Any:
    """Return the library.  Raises UnsupportedFeatureError where it is not installed."""
    try:
        import obstore
    except ImportError:
        message = f"{scheme_of(path)}:// is read by obstore, which is not installed"
        raise UnsupportedFeatureError(message, path=path, hints=(_NEEDED,)) from None
    return obstore


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in _TRUE


def _options(retries: int, *, http: bool) -> dict[str, Any]:
    """Return how requests are made: once each where they are tried again here."""
    seconds = f"{timeout():g}s"
    client = {"timeout": seconds, "connect_timeout": seconds, "allow_http": http}
    return {"client_options": client, "retry_config": {"max_retries": retries}}


def _check_servers(path: str, servers: Mapping[str, str | None], allowing: str, *, http: bool) -> None:
    """Raise InaccessibleError where the environment names a server that obstore would not ask, or panic at.

    The message has no value, which may hold a password; `allowing` is the setting by which http is asked.
    """
    for name, text in servers.items():
        if text is None:
            continue
        try:
            parts = urlsplit(text)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one or not text.isascii() or not text.isprintable() or " " in text:
            error = InaccessibleError(f"{name} is no URL of a server, as https://host:9000", path=path)
            error.hints = (f"set it to one, or to nothing at all: unset {name}",)
            raise error
        if parts.scheme == "http" and not http:
            error = InaccessibleError(f"{name} has http, which is asked where {allowing}=true", path=path)
            error.hints = (f"export {allowing}=true",)
            raise error


def _s3(bucket: str, retries: int = 0) -> Any:
    path, http = f"s3://{bucket}", _is_set("AWS_ALLOW_HTTP")
    first = "AWS_ENDPOINT_URL_S3"  # counts alone where it is set
    servers = (first,) if first in os.environ else ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    _check_servers(path, {name: os.environ.get(name) for name in servers}, "AWS_ALLOW_HTTP", http=http)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if not _REGION.fullmatch(os.environ.get(name, "us-east-1")):
            raise InaccessibleError(f"{name} is no name of a region, as us-east-1", path=path)
    from obstore.store import S3Store

    settings = _options(retries, http=http)
    if os.environ.get("AWS_PROFILE") and not os.environ.get("AWS_ACCESS_KEY_ID"):
        settings["credential_provider"] = _profile()
    return S3Store(bucket, **settings)


def _profile() -> Any:
    """Return what reads Amazon's files of profiles.  Raises UnsupportedFeatureError where nothing does."""
    try:
        from boto3 import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        message = "AWS_PROFILE is set, and profiles are read by boto3, which is not installed"
        raise UnsupportedFeatureError(message, path="s3://", hints=("pip install boto3",)) from None
    return Boto3CredentialProvider(Session())


def _gs(bucket: str, retries: int = 0) -> Any:
    import json

    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    url = None
    if emulator:
        url = emulator if "://" in emulator else f"http://{emulator}"
        _check_servers(f"gs://{bucket}", {"STORAGE_EMULATOR_HOST": url}, "", http=True)
    from obstore.store import GCSStore

    if url is None:
        return GCSStore(bucket, **_options(retries, http=False))
    key = {
        "gcs_base_url": url,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    return GCSStore(bucket, service_account_key=json.dumps(key), **_options(retries, http=True))


def _az(container: str, retries: int = 0) -> Any:
    http = _is_set("AZURE_ALLOW_HTTP") or _is_set("AZURE_STORAGE_USE_EMULATOR")
    servers = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    named = {name: os.environ.get(name) for name in servers}
    _check_servers(f"az://{container}", named, "AZURE_ALLOW_HTTP", http=http)
    from obstore.store import AzureStore

    return AzureStore(container, **_options(retries, http=http))


_REAL = (
    ObjectStore(
        "s3",
        _s3,
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, AWS_SKIP_SIGNATURE=true",
        "",
        tells_md5=True,
    ),
    ObjectStore("gs", _gs, "GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SKIP_SIGNATURE=true", "gcs"),
    ObjectStore(
        "az",
        _az,
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
        "abfs",
    ),
)

STORES = (*_REAL, *(Alias(each) for each in _REAL if each.alias))
