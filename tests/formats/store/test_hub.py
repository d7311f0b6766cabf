"""The Hub: requests to it and to others, and answers that must not be followed."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import (
    CheckpointError,
    CheckpointNotFoundError,
    InaccessibleError,
    UnsupportedFeatureError,
    location,
)
from formats.find.opening import open_checkpoint
from formats.location import parse_location
from formats.store.remote import hub as store
from formats.store.remote import transport
from formats.store.remote.hub_sums import FileSum
from tests.servers.hub import Hub, serving_hub
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.web import Handler

URL = "hf://org/repo"
DATA = bytes(range(256)) * 1000


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setattr(transport, "pause", lambda _: None)
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    store.STORES[0].forget()
    location._kept.clear()
    found = Hub()
    found.files = {"config.json": b"{}", "model.bin": DATA, "sub/deep/x": DATA[:5000]}
    with serving_hub(found):
        monkeypatch.setenv("HF_ENDPOINT", found.web.url)
        yield found


def test_urls_name_repositories_and_what_is_none_is_rejected() -> None:
    assert tuple(store.place_of("hf://org/repo/a/b")) == ("", "org/repo", "main", "a/b")
    assert tuple(store.place_of("hf://datasets/org/re.po@v1.0/x")) == ("datasets", "org/re.po", "v1.0", "x")
    assert store.place_of("hf://org/repo@refs%2Fpr%2F1").revision == "refs/pr/1"
    assert parse_location("hf://org/repo@refs%2Fpr%2F1/x/") == "hf://org/repo@refs%2Fpr%2F1/x"
    assert parse_location("hf://org/repo@main") == "hf://org/repo"
    for url in ("hf://", "hf://repo", "hf://org/..", "hf://../repo", "hf://org/repo/../x", "hf://datasets/x",
                "hf://user:secret@org/repo", "hf://org/repo@..%2Fx/y", "hf://org/repo@a%00/y"):  # fmt: skip
        with pytest.raises(UnsupportedFeatureError, match="not a repository of the Hub; expected") as caught:
            parse_location(url)
        assert "secret" not in str(caught.value)


def test_names_lead_to_no_other_repository() -> None:
    for name, path in {
        "x": "hf://org/repo/run/x",
        "../../../etc/passwd": "hf://org/repo/etc/passwd",
        "/etc/passwd": "hf://org/repo/run/etc/passwd",
        "hf://org/repo/y": "hf://org/repo/y",
    }.items():
        assert (parse_location("hf://org/repo/run") / name) == path
    assert (parse_location("hf://org/repo") / "hf://org/other/y").startswith("hf://org/repo/")
    assert parse_location("hf://org/repo/x").split_name() == ("hf://org/repo", "x")


def test_a_folder_is_one_request_and_a_large_file_one_more_than_its_ranges(hub: Hub) -> None:
    assert [tuple(each) for each in parse_location(URL).listing()] == [
        ("config.json", "file"), ("model.bin", "file"), ("sub", "folder"),
    ]  # fmt: skip
    assert parse_location(f"{URL}/model.bin").is_file()
    assert not parse_location(f"{URL}/other").is_file()
    assert not parse_location(f"{URL}/other/below").is_file()
    assert hub.web.asked() == [("GET", "/api/models/org/repo/tree/main")]
    with parse_location(f"{URL}/model.bin").open() as file:
        assert file.read(0, 10) == DATA[:10]
        assert file.read(200_000, 10) == DATA[200_000:200_010]
    assert hub.web.asked()[1:] == [("HEAD", "/org/repo/resolve/main/model.bin")]
    assert [each.method for each in hub.storage.requests] == ["GET", "GET"]
    with parse_location(f"{URL}/config.json").open() as file:
        assert file.read(0, 10) == b"{}"
    with parse_location(f"{URL}/sub/deep/x").open() as file:
        assert file.read(0, 10) == DATA[:10]
    with pytest.raises(CheckpointNotFoundError, match="no such file"):
        parse_location(f"{URL}/sub/y").open()


def test_the_token_goes_to_the_hub_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub.token = "hf_tokensecret"
    with pytest.raises(InaccessibleError, match="the Hub answered 401 Unauthorized") as caught:
        parse_location(URL).listing()
    assert "HF_TOKEN" in caught.value.hints[0]
    (tmp_path / "token").write_text("hf_tokensecret\n")
    with parse_location(f"{URL}/model.bin").open() as file:
        file.read(0, 10)
    assert {each.headers.get("Authorization") for each in hub.storage.requests} == {None}
    monkeypatch.setenv("HF_TOKEN", "hf_oth er")
    store.STORES[0].forget()
    with pytest.raises(InaccessibleError, match="contains invalid characters") as error:
        parse_location(f"{URL}/sub").listing()
    assert "hf_oth" not in str(error.value)


def test_what_is_kept_of_storage_without_ranges_is_of_one_object(hub: Hub) -> None:
    """Its URL has no ETag: another object of the same size was taken for the one that was read."""
    hub.storage.knows_ranges = False
    for data in (DATA, DATA[::-1]):
        hub.files["model.bin"] = data
        store.STORES[0].forget_listings()
        location._kept.clear()
        with parse_location(f"{URL}/model.bin").open() as file:
            assert file.read(0, 10) == data[:10]


def test_a_signature_that_has_expired_is_requested_again(hub: Hub) -> None:
    with parse_location(f"{URL}/model.bin").open() as file:
        file.read(0, 10)
        hub.signature = "Signature=new"
        assert file.read(200_000, 10) == DATA[200_000:200_010]
    assert len(hub.web.asked("HEAD")) == 2


def test_a_file_that_changes_is_an_error(hub: Hub) -> None:
    with parse_location(f"{URL}/model.bin").open() as file:
        hub.files["model.bin"] = DATA[:-1] + b"?"
        with pytest.raises(CheckpointError, match="this file changed since it was opened"):
            file.read(0, 10)
    with parse_location(f"{URL}/config.json").open() as file:
        hub.files["config.json"] = b"[]"
        with pytest.raises(CheckpointError, match="this file changed since it was opened"):
            file.read(0, 10)


def test_listings_have_pages(hub: Hub) -> None:
    hub.page = 1
    assert [name for name, _ in parse_location(URL).listing()] == ["config.json", "model.bin", "sub"]


def test_listings_have_an_end(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MOST_PAGES", 4)
    hub.page = 1
    hub.link = f"{hub.web.url}/api/models/org/repo/tree/main?cursor=0"
    with pytest.raises(InaccessibleError, match="has more than 4 pages"):
        parse_location(URL).listing()


@pytest.mark.parametrize(
    "link", ["http://127.0.0.1:1/api/models/org/repo/tree/main", "file:///etc/passwd", "/x", "http://["]
)
def test_listings_continue_nowhere_else(link: str, hub: Hub) -> None:
    hub.page, hub.link = 1, link
    with pytest.raises(InaccessibleError, match=r"continues at another URL|not a valid URL"):
        parse_location(URL).listing()


SPOILT: list[tuple[Callable[[Any], Any], str]] = [
    (lambda page: [{**each, "path": "../" + each["path"]} for each in page], "has the invalid name"),
    (lambda page: [{**each, "path": each["path"] + "/../../x"} for each in page], "has the invalid name"),
    (lambda page: [{**each, "path": ".."} for each in page], "has the invalid name"),
    (lambda page: [{**each, "path": 1} for each in page], "has a name outside this folder"),
    (lambda page: [{**each, "size": -1, "lfs": None} for each in page], "without size or checksum"),
    (lambda page: [{**each, "size": 1 << 70, "lfs": None} for each in page], "without size or checksum"),
    (lambda page: [{**each, "oid": "../x", "lfs": None} for each in page], "without size or checksum"),
    (lambda page: {"error": "x"}, "is not a listing"),
    (lambda page: [1], "has a name outside this folder"),
]


@pytest.mark.parametrize("at", range(len(SPOILT)))
def test_false_listings_are_rejected(at: int, hub: Hub) -> None:
    hub.tampered, message = SPOILT[at]
    with pytest.raises(InaccessibleError, match=message):
        parse_location(URL).listing()


def test_a_folder_lists_nothing_of_another(hub: Hub) -> None:
    hub.tampered = lambda page: [{**each, "path": "other/x"} for each in page]
    with pytest.raises(InaccessibleError, match="has a name outside this folder"):
        parse_location(f"{URL}/sub").listing()


@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://host/x", "", "http://["])
def test_files_are_at_no_other_scheme(where: str, hub: Hub) -> None:
    hub.redirect = where
    with (
        parse_location(f"{URL}/model.bin").open() as file,
        pytest.raises(InaccessibleError, match="the server redirects") as caught,
    ):
        file.read(0, 10)
    assert "secret" not in str(caught.value)


def test_no_request_is_sent_offline(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InaccessibleError, match="HF_HUB_OFFLINE is set"):
        parse_location(URL).listing()
    assert hub.web.requests == []


@pytest.mark.parametrize("url", ["ftp://host", "https://user:secret@host", "https://", "host", "http://["])
def test_an_endpoint_is_a_server(url: str, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", url)
    with pytest.raises(InaccessibleError, match="HF_ENDPOINT is not a server URL") as caught:
        parse_location(URL).listing()
    assert "secret" not in str(caught.value)


def test_no_such_repository_is_reported(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials, the Hub does not say that there is none."""
    message = "the Hub has no such repository, or it is private"
    with pytest.raises(InaccessibleError, match=message) as caught:
        open_checkpoint("hf://org/other")
    assert "set HF_TOKEN, or run `hf auth login`" in caught.value.hints[0]
    hub.token = "hf_tokensecret"
    monkeypatch.setenv("HF_TOKEN", hub.token)
    with pytest.raises(CheckpointNotFoundError, match=message):
        open_checkpoint("hf://org/other")
    monkeypatch.setenv("HF_TOKEN", "hf_of_yesterday")
    with pytest.raises(InaccessibleError, match="the Hub answered 401 Unauthorized") as caught:
        open_checkpoint(URL)
    assert "set a new token in HF_TOKEN" in caught.value.hints[0]


def test_terms_that_are_not_accepted_are_named(hub: Hub) -> None:
    def refuse(handler: Handler, data: bytes | None) -> bool:
        if "/resolve/" not in handler.path:
            return hub._answer(handler, data)
        handler.say(403, b"", {"X-Error-Code": "GatedRepo"})
        return True

    hub.web.fault = refuse
    with pytest.raises(InaccessibleError, match="requires you to accept its terms") as caught:
        parse_location(f"{URL}/config.json").open().read(0, 2)
    assert caught.value.hints[0].startswith("accept them on the repository's page")


def test_of_a_repository_no_other_is_requested(hub: Hub, tmp_path: Path) -> None:
    """The Hub does not say that `org/repo.index` does not exist: it rejects it, and so the repository was
    rejected.
    """
    write_bundle(str(tmp_path / "ckpt-1"), {"v": np.arange(3.0)})
    hub.files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    hub.files["checkpoint"] = b'model_checkpoint_path: "ckpt-1"\n'
    with open_checkpoint(URL) as reader:
        assert list(reader.specs) == ["v"]
    assert all(path.startswith(("/api/models/org/repo/", "/org/repo/")) for _, path in hub.web.asked())
    long = "hf://org/" + "x" * 95  # a name with more would be none
    with pytest.raises(CheckpointError, match="the Hub has no such repository"):
        open_checkpoint(long)


def test_a_sharded_model_is_read_as_from_a_disk(hub: Hub) -> None:
    folder = data_path("hf")
    hub.files = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            hub.files[name] = file.read()
    with open_checkpoint(URL) as there, open_checkpoint(folder) as here:
        assert dict(there.specs) == dict(here.specs)
        for key in here:
            assert np.array_equal(there[key].read(), here[key].read())


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 1, 2), (0, 0, 2, 1)])
def test_a_sum_is_complete_when_all_ranges_have_come_in_any_order(order: tuple[int, ...]) -> None:
    data = bytes(range(30))
    sum_of_file = FileSum("m.bin", (hashlib.sha256(data).hexdigest(), len(data)))
    for number in order:
        sum_of_file.add(10 * number, data[10 * number : 10 * number + 10])
    assert sum_of_file.flaw(None) == ""  # type: ignore[arg-type]  # nothing is left to be read
