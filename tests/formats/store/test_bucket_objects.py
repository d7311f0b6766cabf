"""Objects put into buckets on a condition, read back and deleted, of a library that keeps them in memory."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from formats import CheckpointError, CheckpointNotFoundError, InaccessibleError
from formats.errors import CheckpointExistsError
from formats.store.remote import bucket_objects, transport
from formats.store.remote.objects import ANYTHING, NOTHING, Precondition, is_same
from formats.store.remote.responses import translated_errors

if TYPE_CHECKING:
    from formats.store.remote.bucket_objects import BucketStore

PATH = "s3://bucket/run/x"
TIME = datetime(2026, 1, 1, tzinfo=UTC)


class AlreadyExistsError(Exception):
    pass


class PreconditionError(Exception):
    pass


class Library(ModuleType):
    """The interface of obstore for putting an object, and a server that `knows` conditions, or not.

    `errors` are raised one after the other, before an object is put; `tells` is by what a version is known.
    """

    def __init__(self) -> None:
        super().__init__("obstore")
        self.exceptions = SimpleNamespace(
            AlreadyExistsError=AlreadyExistsError, PreconditionError=PreconditionError
        )
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.asked: list[str] = []
        self.errors: list[BaseException] = []
        self.knows = True
        self.tells = "e_tag"

    def _meta(self, key: str) -> dict[str, Any]:
        if key not in self.objects:
            raise FileNotFoundError(f"http://topsecret/{key}")
        data, version = self.objects[key]
        translated_errors = {"e_tag": None, "version": None, self.tells: version}
        return {"path": key, "size": len(data), "last_modified": TIME, **translated_errors}

    def head(self, client: str, key: str) -> dict[str, Any]:
        self.asked.append("head")
        return self._meta(key)

    def get(self, client: str, key: str) -> Any:
        self.asked.append("get")
        return SimpleNamespace(meta=self._meta(key), bytes=lambda: self.objects[key][0])

    def put(self, client: str, key: str, data: bytes, *, mode: Any, use_multipart: bool) -> dict[str, Any]:
        assert not use_multipart
        self.asked.append(f"put {mode if isinstance(mode, str) else 'over ' + ','.join(sorted(mode))}")
        if self.errors:
            raise self.errors.pop(0)
        if mode != "overwrite" and not self.knows:
            raise OSError("status code: 501 Not Implemented: topsecret")
        if mode == "create" and key in self.objects:
            raise AlreadyExistsError
        if isinstance(mode, dict) and mode != {self.tells: self.objects.get(key, (b"", ""))[1]}:
            raise PreconditionError
        version = f'"{len(self.asked)}"'
        self.objects[key] = bytes(data), version
        return {"e_tag": None, "version": None, self.tells: version}

    def delete(self, client: str, key: str) -> None:
        self.asked.append("delete")
        self._meta(key)
        del self.objects[key]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setitem(sys.modules, "obstore", found)
    monkeypatch.setattr(transport, "pause", lambda _: None)
    return found


@pytest.fixture
def store(library: Library, monkeypatch: pytest.MonkeyPatch) -> BucketStore:
    found = next(each for each in bucket_objects.STORES if each.scheme == "s3")
    found.forget()
    monkeypatch.setattr(found, "client", lambda bucket: bucket)
    monkeypatch.setattr(found, "_unanswered", set())
    return found


def test_what_is_put_is_the_entry_that_is_found(store: BucketStore) -> None:
    put = store.put(PATH, b"first", NOTHING)
    found = store.current(PATH)
    assert found is not None
    assert (put.kind, put.size, put.identity) == (found.kind, 5, found.identity)
    assert store.get(PATH, 100) == (b"first", found)
    assert store.get(PATH, 5) == (b"first", found)
    assert store.get(PATH, 4) == (b"", found)  # the object is larger than that
    again = store.put(PATH, b"second", ANYTHING)
    assert not is_same(again.identity, put.identity)
    assert store.get(PATH, 100) == (b"second", store.current(PATH))
    assert not store.is_unanswered(PATH)


def test_what_is_missing_is_none_and_deleted_already(store: BucketStore, library: Library) -> None:
    assert store.current(PATH) is None
    assert store.get(PATH, 100) is None
    store.put(PATH, b"x", NOTHING)
    store.delete([PATH, "s3://bucket/other", PATH])
    assert library.objects == {}
    assert library.asked.count("delete") == 3


def test_an_object_that_is_there_is_not_put_over(store: BucketStore, library: Library) -> None:
    store.put(PATH, b"theirs", NOTHING)
    with pytest.raises(
        CheckpointExistsError, match="another program created or changed this path in the meantime"
    ):
        store.put(PATH, b"mine", NOTHING)
    assert library.objects["run/x"][0] == b"theirs"


@pytest.mark.parametrize("tells", ["e_tag", "version"])
def test_an_object_is_put_over_the_one_that_was_seen_alone(
    tells: str, store: BucketStore, library: Library
) -> None:
    """Amazon and Azure go by the one, Google by the other."""
    library.tells = tells
    store.put(PATH, b"first", NOTHING)
    seen = store.current(PATH)
    assert seen is not None
    store.put(PATH, b"second", Precondition(entry=seen))
    assert library.asked[-1] == f"put over {tells}"
    assert library.objects["run/x"][0] == b"second"
    with pytest.raises(CheckpointExistsError):
        store.put(PATH, b"third", Precondition(entry=seen))
    library.objects.clear()
    with pytest.raises(CheckpointExistsError):
        store.put(PATH, b"third", Precondition(entry=seen))
    assert library.objects == {}


def test_an_object_that_changes_after_it_was_looked_at_is_not_put_over(
    store: BucketStore, library: Library
) -> None:
    store.put(PATH, b"first", NOTHING)
    seen = store.current(PATH)
    library.errors = [PreconditionError()]
    with pytest.raises(CheckpointExistsError):
        store.put(PATH, b"second", Precondition(entry=seen))
    assert library.objects["run/x"][0] == b"first"


def test_a_server_that_knows_no_condition_is_requested_before(store: BucketStore, library: Library) -> None:
    library.knows = False
    store.put(PATH, b"first", NOTHING)
    assert library.asked == ["put create", "head", "put overwrite"]
    with pytest.raises(CheckpointExistsError):
        store.put(PATH, b"second", NOTHING)
    seen = store.current(PATH)
    store.put(PATH, b"third", Precondition(entry=seen))
    assert library.objects["run/x"][0] == b"third"


@pytest.mark.parametrize(("knows", "keeps"), [(True, True), (False, False)])
def test_whether_a_server_keeps_conditions_is_tried(
    knows: bool, keeps: bool, store: BucketStore, library: Library
) -> None:
    store.put(PATH, b"", ANYTHING)
    library.knows = knows
    assert store.keeps_conditions(PATH, b"") is keeps
    library.objects.clear()
    assert store.keeps_conditions(PATH, b"") is False  # it was put, as nothing was there
    library.errors = [PreconditionError()]
    assert store.keeps_conditions(PATH, b"") is True


def test_a_busy_server_is_requested_again_and_a_broken_one_given_up(
    store: BucketStore, library: Library
) -> None:
    busy = OSError("status code: 503 Service Unavailable: topsecret")
    library.errors = [busy, busy]
    assert store.put(PATH, b"x", NOTHING).size == 1
    assert library.asked.count("put create") == 3
    library.errors = [busy] * 100
    with pytest.raises(InaccessibleError, match="the server answered 503") as caught:
        store.put(PATH, b"y", ANYTHING)
    assert "topsecret" not in str(caught.value)
    library.errors = [OSError("status code: 403 Forbidden: <Error><Code>AccessDenied</Code>")]
    with pytest.raises(CheckpointError, match="the server answered 403, AccessDenied"):
        store.keeps_conditions(PATH, b"")
    assert library.objects["run/x"][0] == b"x"


def test_a_bucket_that_is_missing_must_be_created(store: BucketStore, library: Library) -> None:
    library.errors = [OSError("status code: 404 Not Found: <Error><Code>NoSuchBucket</Code>")]
    with pytest.raises(CheckpointNotFoundError, match="s3://bucket does not exist") as caught:
        store.put(PATH, b"x", NOTHING)
    assert caught.value.hints == ("create the bucket with the provider's own tools",)


def test_an_answer_is_noted_even_if_nothing_waits_for_it(store: BucketStore, library: Library) -> None:
    library.errors = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        store.put(PATH, b"x", NOTHING)
    assert store.is_unanswered(PATH)
    assert not store.is_unanswered("s3://bucket/other")


def test_a_listing_is_made_again_after_a_change(store: BucketStore, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(store, "forget_listings", lambda: forgotten.append("all"))
    store.put(PATH, b"x", NOTHING)
    assert len(forgotten) == 1
    with pytest.raises(CheckpointExistsError):
        store.put(PATH, b"x", NOTHING)
    assert len(forgotten) == 2
    store.delete([PATH])
    assert len(forgotten) == 3


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("error. Debug source: BadScheme(ftp)", InaccessibleError, "redirects to another scheme"),
        ("error. Debug source: 127.0.0.1:0", InaccessibleError, "redirects to another host"),
        ("error. Debug source: dns error", InaccessibleError, "cannot be reached"),
        ("non-partial response", InaccessibleError, "does not support range requests"),
        ("object with invalid path", InaccessibleError, "invalid name"),
        ("error. Debug source: non-partial response", InaccessibleError, "the request failed"),
    ],
)
def test_errors_of_the_library_are_translated_by_their_words(
    text: str, kind: type[CheckpointError], message: str
) -> None:
    with pytest.raises(kind, match=message), translated_errors(PATH, "AWS_ENDPOINT_URL"):
        raise OSError(text)
