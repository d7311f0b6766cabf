"""Buckets through a fake library: the calls to it, and the translation of its errors.

`make servers` reads from real ones.
"""

from __future__ import annotations

import datetime
import os
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import formats
from formats import (
    CheckpointError,
    CheckpointNotFoundError,
    InaccessibleError,
    UnsupportedFeatureError,
    location,
)
from formats.find.opening import open_checkpoint
from formats.location import Location, parse_location, store_of_scheme
from formats.store.base import UnlistedError
from formats.store.remote import bucket_objects, buckets, transport
from formats.store.remote.credentials import PROVIDERS
from formats.store.remote.objects import NOTHING
from formats.store.remote.range_cache import REQUEST
from formats.store.remote.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class PreconditionError(Exception):
    pass


class Got:
    def __init__(self, meta: dict[str, Any], data: bytes) -> None:
        self.meta = meta
        self._data = data

    def bytes(self) -> bytes:
        return self._data

    def stream(self, size: int) -> Iterator[bytes]:
        for at in range(0, len(self._data), size):
            yield self._data[at : at + size]


class Library(ModuleType):
    """The interface of obstore that `remote` uses; everything raises `error`, as often as `times` says."""

    def __init__(self) -> None:
        super().__init__("obstore")
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.error: BaseException | None = None
        self.times = -1
        self.cut = 0

    def _ask(self, what: str, key: str) -> None:
        self.asked.append((what, key))
        if self.error is not None and self.times:
            self.times -= 1
            raise self.error

    def _meta(self, key: str) -> dict[str, Any]:
        if key not in self.objects:
            raise FileNotFoundError(f"http://topsecret/{key}")
        data = self.objects[key]
        return {"path": key, "size": len(data), "e_tag": f'"{hash(data)}"', "last_modified": TIME}

    def list_with_delimiter(self, client: str, prefix: str | None) -> dict[str, Any]:
        self._ask("list", prefix or "")
        before = f"{prefix}/" if prefix else ""
        below = [key for key in self.objects if key.startswith(before)]
        folders = {
            before + key.removeprefix(before).partition("/")[0] for key in below if "/" in key[len(before) :]
        }
        return {
            "common_prefixes": sorted(folders),
            "objects": [self._meta(key) for key in below if "/" not in key[len(before) :]],
        }

    def head(self, client: str, key: str) -> dict[str, Any]:
        self._ask("head", key)
        return self._meta(key)

    def get(self, client: str, key: str, options: dict[str, Any]) -> Got:
        self._ask("get", key)
        meta = self._meta(key)
        if options.get("if_match") not in (None, meta["e_tag"]):
            raise PreconditionError("http://topsecret/")
        begin, end = options["range"]
        return Got(meta, self.objects[key][begin : end - self.cut])


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    found = Library()
    found.objects = {"run/x": bytes(range(256)) * 1000, "run/sub/y": b"y", "run/sub": b"", "top": b"t"}
    monkeypatch.setitem(sys.modules, "obstore", found)
    monkeypatch.setattr(transport, "pause", lambda _: None)
    for store in bucket_objects.STORES:
        store.forget()
        monkeypatch.setattr(store, "client", lambda bucket: bucket)
    location._kept.clear()
    yield found
    for store in bucket_objects.STORES:
        store.forget()


def test_a_folder_is_listed_once_for_all_that_is_in_it(library: Library) -> None:
    entry = parse_location("s3://bucket/run/x").entry()
    assert entry is not None
    assert (entry.kind, entry.size, entry.modified) == ("file", 256_000, TIME.timestamp())
    assert [tuple(each) for each in parse_location("s3://bucket/run").listing()] == [
        ("sub", "folder"),
        ("x", "file"),
    ]
    assert parse_location("s3://bucket/run/sub").is_folder()
    assert parse_location("s3://bucket/run/sub").entry() == ("folder", 0, 0.0, (), 1, None)
    assert not parse_location("s3://bucket/run/other").exists()
    assert not parse_location("s3://bucket/run/other/below/that").exists()
    assert library.asked == [("list", "run")]
    with parse_location("s3://bucket/run/x").open() as file:
        assert file.read(255, 3) == b"\xff\0\1"
    assert library.asked[1:] == [("get", "run/x")]
    with pytest.raises(CheckpointNotFoundError, match="no such directory"):
        parse_location("s3://bucket/nothing").listing()


def test_of_a_bucket_no_other_is_requested(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prefix of a bundle cannot have a bucket's name: no file is next to a bucket."""
    library.objects = {"model.h5": b"", "checkpoint": b'model_checkpoint_path: "model.h5"'}
    asked: list[str] = []
    for store in bucket_objects.STORES:
        monkeypatch.setattr(store, "client", asked.append)
    with pytest.raises(CheckpointError):
        open_checkpoint("s3://bucket")
    assert set(asked) == {"bucket"}


def test_a_bucket_that_is_not_listed_is_read_object_by_object(library: Library) -> None:
    library.error = OSError("status code: 403 Forbidden: <Error><Code>AccessDenied</Code><Key>topsecret")
    library.times = 1
    assert parse_location("s3://bucket/run/x").is_file()
    assert not parse_location("s3://bucket/run/z").is_file()
    assert library.asked == [("list", "run"), ("head", "run/x"), ("head", "run/z")]


def test_a_bucket_that_is_missing_is_reported(library: Library) -> None:
    library.error = OSError("status code: 404 Not Found: <Error><Code>NoSuchBucket</Code>")
    with pytest.raises(CheckpointNotFoundError, match="s3://bucket does not exist"):
        open_checkpoint("s3://bucket/run/ckpt-1")
    with pytest.raises(CheckpointNotFoundError, match="cannot be written: s3://bucket does not exist"):
        formats.create_checkpoint("s3://bucket/run/ckpt-1", format="tf-name", specs=[])
    with pytest.raises(CheckpointNotFoundError, match="cannot be written: s3://bucket does not exist"):
        parse_location("s3://bucket/k.npy").require_container()
    library.error = None
    with pytest.raises(CheckpointNotFoundError, match="no such file, prefix or directory"):
        open_checkpoint("s3://bucket/nothing/ckpt-1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "status code: 403 Forbidden: <Code>InvalidAccessKeyId</Code>",
            "the server answered 403, InvalidAccessKeyId",
        ),
        ("status code: 503 Slow down", r"the server answered 503 [(]5 attempts"),
        (
            "HTTP error: error sending request\n\nDebug source:\ntopsecret",
            "the server did not answer, or the connection was cut [(]",
        ),
        ("error sending request\n\nDebug source:\nkind: ConnectionRefused", "the server cannot be reached"),
        (
            "status code: 301 Moved: <Code>PermanentRedirect</Code>",
            "the server answered 301, PermanentRedirect",
        ),
        ("whatever topsecret", "the request failed"),
        ("status code: 412 Precondition Failed", "this file changed since it was opened"),
        ("status code: 416 Range Not Satisfiable", "this file changed since it was opened"),
    ],
)
def test_errors_are_reported_without_what_was_requested(text: str, message: str, library: Library) -> None:
    library.error = RuntimeError(f"Error performing GET http://topsecret/x?sig=topsecret: {text}")
    with pytest.raises(CheckpointError, match=message) as caught:
        parse_location("s3://bucket/run/x").open()
    assert "topsecret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_what_passes_is_requested_again(library: Library) -> None:
    library.error, library.times = RuntimeError("status code: 500"), 3
    with parse_location("s3://bucket/run/x").open() as file:
        library.times = 3
        assert file.read(0, 2) == b"\0\1"


def test_short_ranges_are_never_the_end(library: Library) -> None:
    library.cut = 1
    with (
        parse_location("s3://bucket/run/x").open() as file,
        pytest.raises(InaccessibleError, match=r"only 65,535 of 65,536 bytes arrived"),
    ):
        file.read(0, 10)


def test_objects_that_change_are_errors(library: Library) -> None:
    for change in (
        lambda: library.objects.update({"run/x": b"1" * 256_000}),
        lambda: library.objects.pop("run/x"),
    ):
        with parse_location("s3://bucket/run/x").open() as file:
            change()
            with pytest.raises(CheckpointError, match="this file changed since it was opened"):
                file.read(0, 10)


@pytest.mark.parametrize("name", ["run/..", "run/.", "elsewhere", "run/a/b", "run/a\0b"])
def test_listings_that_lead_elsewhere_are_rejected(
    name: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        "common_prefixes": [],
        "objects": [{"path": name, "size": 1, "e_tag": "e", "last_modified": TIME}],
    }
    monkeypatch.setattr(library, "list_with_delimiter", lambda *_: found)
    with pytest.raises(InaccessibleError, match="the server's listing has"):
        parse_location("s3://bucket/run").listing()


def test_a_listing_without_end_is_an_error(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(library, "list_with_delimiter", lambda *_: ended.wait(60))
    monkeypatch.setenv("CKPT_TIMEOUT", "0.05")
    with pytest.raises(InaccessibleError, match=r"did not finish its listing within 0\.1 seconds") as caught:
        parse_location("s3://bucket/run").listing()
    ended.set()
    assert "CKPT_TIMEOUT" in caught.value.hints[0]


def test_large_ranges_take_memory_that_is_used_again(library: Library) -> None:
    """And who has some of it keeps it: what was read is never another range's."""
    blocks, pieces = buckets._blocks, []
    library.objects["run/x"] = data = bytes(range(251)) * (6 * REQUEST // 251)
    with parse_location("s3://bucket/run/x").open() as file:
        file.expect(0, file.size)
        for at in range(0, len(data), 1 << 20):
            pieces.append(file.read(at, 1 << 20))
            assert len(blocks._blocks) <= 11
    assert b"".join(pieces) == data
    one, other = blocks.take_block(), blocks.take_block()
    assert one.obj is not other.obj
    again = one.obj
    del one
    assert blocks.take_block().obj is again


@pytest.mark.parametrize("cut", [1, REQUEST, -1])
def test_a_large_range_that_is_short_or_long_is_requested_again(cut: int, library: Library) -> None:
    library.objects["run/x"] = bytes(3 * REQUEST)
    library.cut = cut
    with parse_location("s3://bucket/run/x").open() as file:
        file.expect(0, file.size)
        with pytest.raises(CheckpointError, match=r"only [0-9,]+ of [0-9,]+ bytes arrived"):
            file.read(0, 1 << 20)
    assert library.asked.count(("get", "run/x")) >= transport.ATTEMPTS


def test_a_listing_with_a_name_that_is_none_is_not_a_listing(library: Library) -> None:
    """Objects next to it are looked up one by one."""
    library.error, library.times = OSError("Encountered object with invalid path: run/../x"), 1
    assert parse_location("s3://bucket/run/x").is_file()
    with pytest.raises(UnlistedError, match="the server's listing has an invalid name"):
        parse_location("s3://bucket/run").listing()
    assert library.asked == [("list", "run"), ("head", "run/x")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Requested 10..60, got 10..35", r"only 25 of 50 bytes arrived [(]5 attempts"),
        ("Requested 10..60, got 11..61", "a different range than requested"),
        ("Requested 10..60, got 10..61", "a different range than requested"),
        ("Received non-partial response when range requested", "the server does not support range requests"),
        (
            "Content-Range header not present in partial response",
            "the server does not support range requests",
        ),
    ],
)
def test_another_range_is_never_taken_for_the_one_requested(
    text: str, message: str, library: Library
) -> None:
    with parse_location("s3://bucket/run/x").open() as file:
        library.error = OSError(f"Generic S3 error: {text}")
        with pytest.raises(InaccessibleError, match=message):
            file.read(0, 10)


@pytest.mark.parametrize("bucket", ["b", "ab", "1"])
def test_a_short_name_is_marked_as_no_bucket(bucket: str, library: Library) -> None:
    with pytest.raises(
        UnsupportedFeatureError, match=f"'{bucket}' is not a bucket name; expected at least three"
    ):
        parse_location(f"s3://{bucket}/x")


@pytest.mark.parametrize("key", ["run//ckpt-1", "/run/ckpt-1", "run/./ckpt-1", "x/../run/ckpt-1"])
def test_a_key_that_is_not_requested_is_no_other_key(key: str, library: Library) -> None:
    """`run//ckpt-1` is another object than `run/ckpt-1`; the library cannot request an empty name."""
    with pytest.raises(UnsupportedFeatureError, match="this is not a valid key") as caught:
        parse_location(f"s3://bucket/{key}")
    assert caught.value.hints == ("did you mean s3://bucket/run/ckpt-1?",)
    assert parse_location("s3://bucket/run/ckpt-1//") == "s3://bucket/run/ckpt-1"


def test_names_are_keys_of_the_same_store() -> None:
    store = store_of_scheme("s3")
    for name, path in {
        "x": "s3://bucket/run/x",
        "/etc/passwd": "s3://bucket/run/etc/passwd",
        "../../../x": "s3://bucket/x",
        "s3://bucket/other/ckpt-1": "s3://bucket/other/ckpt-1",
        "gs://bucket/x": "s3://bucket/run/gs://bucket/x",
    }.items():
        assert Location("s3://bucket/run", store) / name == path
    assert Location("s3://bucket/x", store).split_name() == ("s3://bucket", "x")
    assert Location("s3://bucket", store).split_name() == ("s3://bucket", "")


def test_schemes_have_aliases_and_urls_no_secrets(library: Library) -> None:
    assert parse_location("gcs://bucket/x/") == "gs://bucket/x"
    assert parse_location("abfs://container/x") == "az://container/x"
    for url in ("s3://", "s3://key:topsecret@bucket/x", "gcs://key:topsecret@bucket/x", "s3:///x"):
        with pytest.raises(UnsupportedFeatureError, match="not a valid bucket name; expected") as caught:
            parse_location(url)
        assert "topsecret" not in str(caught.value)
    with pytest.raises(UnsupportedFeatureError, match="not a valid bucket name; expected") as caught:
        parse_location("abfs://container@account.dfs.core.windows.net/x")  # as Hadoop spells it
    assert "set the account and credentials in the environment" in caught.value.hints[0]


WRONG = {
    "AWS_ENDPOINT_URL": (
        "s3",
        ["", "host:9000", "localhost", "http://", "ftp://host", "http://topsecret:99999"],
    ),
    "AWS_ENDPOINT_URL_S3": ("s3", ["topsecret", "http://host:9000 "]),
    "AWS_ENDPOINT": ("s3", ["http://[::1"]),
    "AWS_REGION": ("s3", ["top secret"]),
    "AWS_DEFAULT_REGION": ("s3", ["eu/1"]),
    "STORAGE_EMULATOR_HOST": ("gs", ["top secret", "http://", "http://host:99999"]),
    "AZURE_STORAGE_ENDPOINT": ("az", ["", "topsecret"]),
}
"""Settings that the library panics at, or says nothing of that helps; by scheme, what they are set to."""


@pytest.mark.parametrize(
    ("name", "scheme", "value"),
    [
        (name, *way)
        for name, (scheme, values) in WRONG.items()
        for way in ((scheme, value) for value in values)
    ],
)
def test_a_server_that_is_none_is_reported_by_its_setting(
    name: str, scheme: str, value: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "obstore", library)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv(name, value)
    with pytest.raises(
        InaccessibleError, match=rf"{name} is not a (server URL|region name) such as "
    ) as caught:
        open_checkpoint(f"{scheme}://bucket/run")
    assert "secret" not in f"{caught.value} {caught.value.hints}"


@pytest.mark.parametrize(
    ("scheme", "name", "allowing"),
    [("s3", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"), ("az", "AZURE_STORAGE_ENDPOINT", "AZURE_ALLOW_HTTP")],
)
def test_http_that_is_not_allowed_says_by_what_it_is(
    scheme: str, name: str, allowing: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "obstore", library)
    monkeypatch.setenv(name, "http://host:9000")
    with pytest.raises(InaccessibleError, match=f"{name} is an http URL, which requires") as caught:
        open_checkpoint(f"{scheme}://bucket/run")
    assert caught.value.hints == (f"export {allowing}=true",)


@pytest.mark.parametrize(
    ("server", "others", "is_signed"),
    [
        (None, {}, False),
        ("https://host:9000", {}, False),
        ("https://host:9000", {"AWS_UNSIGNED_PAYLOAD": "false"}, True),
        ("http://127.0.0.1:9000", {}, False),
        ("http://localhost:9000", {"http_proxy": "http://proxy:3128"}, True),
        ("http://127.0.0.1.host:9000", {}, True),
        ("http://host:9000", {}, True),
    ],
)
def test_parts_are_signed_where_they_may_be_changed_on_their_way(
    server: str | None, others: dict[str, str], is_signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole objects, and requests, are signed everywhere."""
    made: list[dict[str, Any]] = []
    stores = ModuleType("obstore.store")
    monkeypatch.setattr(stores, "S3Store", lambda _, **given: made.append(given), raising=False)
    monkeypatch.setitem(sys.modules, "obstore.store", stores)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_UNSIGNED_PAYLOAD"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in {"AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "key", **others}.items():
        monkeypatch.setenv(name, value)
    if server is not None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    (provider,) = (each for each in PROVIDERS if each.scheme == "s3")
    for retries in (0, 4):
        provider.client("bucket", retries)
    asks, sends = made
    assert "unsigned_payload" not in asks
    assert sends.get("unsigned_payload", False) is not is_signed


@pytest.mark.parametrize(
    ("scheme", "others", "is_allowed"),
    [
        ("gs", {}, False),
        ("gs", {"STORAGE_EMULATOR_HOST": "localhost:4443"}, True),
        ("gs", {"STORAGE_EMULATOR_HOST": "https://localhost:4443"}, False),
        ("az", {}, False),
        ("az", {"AZURE_STORAGE_USE_EMULATOR": "true"}, True),
        ("az", {"AZURE_ALLOW_HTTP": "true", "AZURE_STORAGE_ENDPOINT": "http://host:1"}, True),
        ("az", {"AZURE_ALLOW_HTTP": "true", "AZURE_STORAGE_ENDPOINT": "https://host:1"}, False),
        ("s3", {}, False),
        ("s3", {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": "http://host:1"}, True),
        ("s3", {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": "https://host:1"}, False),
    ],
)
def test_requests_are_encrypted_unless_a_server_is_named_by_http(
    scheme: str, others: dict[str, str], is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    stores = ModuleType("obstore.store")
    for name in ("S3Store", "GCSStore", "AzureStore"):
        monkeypatch.setattr(stores, name, lambda _, **given: made.append(given), raising=False)
    monkeypatch.setitem(sys.modules, "obstore.store", stores)
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "STORAGE_"))]:
        monkeypatch.delenv(name)
    for name, value in {"AWS_ACCESS_KEY_ID": "key", "CKPT_TIMEOUT": "7", **others}.items():
        monkeypatch.setenv(name, value)
    (provider,) = (each for each in PROVIDERS if each.scheme == scheme)
    for retries in (0, 4):
        provider.client("bucket", retries)
    options = [given["client_options"] for given in made]
    assert [each["allow_http"] for each in options] == [is_allowed] * 2
    assert [each["timeout"] for each in options] == ["7s"] * 2
    assert [given["retry_config"] for given in made] == [{"max_retries": 0}, {"max_retries": 4}]


@pytest.mark.parametrize("error", [None, KeyError, ValueError])
def test_a_profile_without_credentials_is_named(
    error: type[Exception] | None, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was reported as an invalid key."""

    def provider(_: object) -> str:
        if error is not None:
            raise error("topsecret")
        return "provider"

    made: list[Any] = []
    for name, found in {
        "obstore.store": {"S3Store": lambda _, **given: made.append(given["credential_provider"])},
        "obstore.auth.boto3": {"Boto3CredentialProvider": provider},
        "boto3": {"Session": object},
        "botocore.exceptions": {"BotoCoreError": KeyError},
    }.items():
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("AWS_PROFILE", "topsecret")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    (s3,) = (each for each in PROVIDERS if each.scheme == "s3")
    if error is None:
        s3.client("bucket", 0)
        assert made == ["provider"]
        return
    with pytest.raises(InaccessibleError, match="boto3 finds no credentials for the profile") as caught:
        s3.client("bucket", 0)
    assert "topsecret" not in str(caught.value)


class Writer:
    """Sends an object in parts, to a server with prepared answers."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def closed(self) -> bool:
        return False

    def write(self, block: bytes) -> None:
        raise OSError(f"Server returned non-2xx status code: {self.answer}")

    def __exit__(self, *_: object) -> None:
        raise FileNotFoundError if "404" in self.answer else OSError(f"status code: {self.answer}")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("500 Internal Server Error", "the uploaded part cannot be deleted: the server answered 500"),
        ("403 Forbidden", "the server answered 403"),
        ("404 Not Found", "s3://bucket does not exist, or another program ended the upload"),
    ],
)
def test_parts_that_cannot_be_taken_back_are_reported_in_a_line(
    answer: str, message: str, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they are gone already."""
    monkeypatch.setattr(library, "open_writer", lambda *_, **__: Writer(answer), raising=False)
    store = parse_location("s3://bucket/x").store
    monkeypatch.setattr(store, "client", lambda *_: None)

    def send(upload: Upload) -> None:
        try:
            upload.write(bytes(20))
        finally:
            upload.remove()

    with pytest.raises(CheckpointError, match=message):
        send(Upload(parse_location("s3://bucket/x"), NOTHING, 8))


class PanicException(BaseException):
    pass


def test_what_the_library_did_not_foresee_is_one_line(library: Library) -> None:
    library.error = PanicException("called `Result::unwrap()` on http://topsecret/")
    with pytest.raises(InaccessibleError, match="the request failed") as caught:
        open_checkpoint("s3://bucket/run")
    assert "topsecret" not in str(caught.value)
    library.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        open_checkpoint("s3://bucket/run")


@pytest.mark.parametrize("scheme", ["s3", "gs", "gcs", "az", "abfs"])
def test_where_the_library_is_missing_the_extra_is_named(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for store in bucket_objects.STORES:
        store.forget()
    location._kept.clear()
    with pytest.raises(UnsupportedFeatureError, match="needs obstore, which is not installed") as caught:
        open_checkpoint(f"{scheme}://bucket/run")
    assert caught.value.hints == ("to install it: pip install 'ckpt-tools[remote]'",)
